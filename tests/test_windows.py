"""Windows of consecutive rows: the copy that they are cut from is shuffled."""

import jax
import jax.numpy as jnp
import numpy as np

from fokker.batches import WindowBatches

DATA = jnp.arange(3000.0)


def order_of(seed):
    batches = WindowBatches(DATA, 3, jax.random.key(seed))
    np.testing.assert_array_equal(batches.data, DATA[batches.order])
    return np.asarray(batches.order)


def likeness(order):
    """The correlation of rows with their neighbours, in standard errors of random orders."""
    return np.corrcoef(order[1:], order[:-1])[0, 1] * np.sqrt(len(order))


def test_the_copy_is_shuffled_by_its_key_and_closes_on_itself():
    """Neighbours correlate by less than 5 standard errors, a false alarm in 2e6; unshuffled, by 55."""
    order, other = order_of(0), order_of(1)
    np.testing.assert_array_equal(np.sort(order[:3000]), np.arange(3000))
    np.testing.assert_array_equal(order[3000:], order[:2])
    assert abs(likeness(order)) < 5
    assert likeness(np.arange(3000)) > 50
    assert np.mean(order == other) < 0.01
