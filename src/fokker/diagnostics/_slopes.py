"""∇U at a few draws of a run, over all the data or, where they are too many, over large minibatches."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from fokker._state import ravel
from fokker.batches import Batches

if TYPE_CHECKING:
    from fokker.trace import Trace

# Rows of data looked at for all the points together: seconds, not minutes.
_ROWS = 50_000_000


def thinned(trace: "Trace", points: int) -> PyTree[Array]:
    """About `points` positions, evenly out of all draws of all chains, in the sampler's own coordinates."""
    leaves = jax.tree.leaves(trace.positions)
    chains, draws = leaves[0].shape[:2]
    number = np.arange(min(points, chains * draws))
    # One draw of every chain at each of evenly spaced places; the chains in another order each time, so that
    # whoever takes every k-th of these has draws of all chains too.
    place = number // chains
    chain, draw = (number + place) % chains, ((place + 0.5) * draws / (place[-1] + 1)).astype(int)
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[chain, draw]), trace.positions)


def slopes_at(target: Any, positions: PyTree[Array], most: int = _ROWS) -> Float[np.ndarray, "m d"]:
    """∇U at each position, as vectors; unbiased, with independent noise, where the data are too many."""
    points = jax.tree.leaves(positions)[0].shape[0]
    keys = jax.random.split(jax.random.key(0), points)
    size = getattr(target, "size", 0)
    rows = min(size, max(1000, most // points)) if hasattr(target, "minibatch_potential") else size
    return np.asarray(_slopes(target, positions, keys, None if rows == size else rows), float)


@eqx.filter_jit
def _slopes(target: Any, positions: PyTree[Array], keys: Array, rows: int | None) -> Array:
    def slope(given: Any) -> Array:
        theta, key = given
        if rows is None:
            return ravel(jax.grad(target.potential)(theta))
        batches = Batches(target.size, rows, "replacement")
        nothing = jnp.zeros((), jnp.uint32)
        batch = batches.batch(target.data, batches.rows(key, key, nothing, nothing))
        return ravel(jax.grad(target.minibatch_potential)(theta, batch))

    return jax.lax.map(slope, (positions, keys))


def as_vectors(positions: PyTree[Array]) -> Float[np.ndarray, "m d"]:
    """Each position as a vector."""
    return np.asarray(jax.vmap(ravel)(positions), float)
