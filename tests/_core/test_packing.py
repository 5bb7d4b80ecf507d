"""Values of several types joined into one array, and split again to the bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fokker._core.packing import can_join, join_words, split_words


def test_what_is_joined_is_split_again_to_the_bit():
    tree = {
        "position": jnp.asarray([[1.5, -0.0, jnp.nan], [jnp.inf, 1e-40, 3.0]], jnp.float32),
        "count": jnp.asarray([2**31 - 1, -1], jnp.int32),
        "sound": jnp.asarray([True, False]),
        "weights": jnp.arange(8, dtype=jnp.uint32).reshape(2, 2, 2),
    }
    assert can_join(tree)
    rows = jnp.stack([join_words(tree, 1)] * 3)
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), tree)
    split = split_words(rows, like, 2)
    assert jax.tree.structure(split) == jax.tree.structure(tree)
    for before, after in zip(jax.tree.leaves(tree), jax.tree.leaves(split), strict=True):
        assert after.dtype == before.dtype
        assert after.shape == (3, *before.shape)
        assert np.asarray(after[1]).tobytes() == np.asarray(before).tobytes()


@pytest.mark.parametrize("leaf", [jnp.zeros((2, 2000)), jnp.zeros((2, 3), jnp.bfloat16)])
def test_many_numbers_and_other_types_are_left_alone(leaf):
    assert not can_join({"position": leaf})
