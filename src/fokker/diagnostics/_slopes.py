"""∇U at many draws of a run, over all the data or, where they are too many, by control variates."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from fokker._core.state import ravel
from fokker.batches import Batches

if TYPE_CHECKING:
    from fokker.run.trace import Trace

# Rows of data looked at for all the points together: seconds, not minutes.
_ROWS = 50_000_000
# Numbers of all the points together, for them to fit into memory in double precision.
_NUMBERS = 20_000_000
_FEWEST_ROWS = 1000


def thinned(trace: "Trace", points: int) -> PyTree[Array]:
    """About `points` positions, chain × place, evenly out of all draws, in the sampler's own coordinates."""
    positions = trace.positions
    chains, draws = jax.tree.leaves(positions)[0].shape[:2]
    most = max(100, min(points, _NUMBERS // max(1, as_vector_length(positions))))
    places = min(draws, max(1, most // chains))
    draw = ((np.arange(places) + 0.5) * draws / places).astype(int)
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[:, draw]), positions)


def as_vector_length(positions: PyTree[Any]) -> int:
    """How many numbers one position has."""
    return sum(int(np.prod(leaf.shape[2:])) for leaf in jax.tree.leaves(positions))


def slopes_at(target: Any, positions: PyTree[Array], most: int = _ROWS) -> Float[np.ndarray, "c n d"]:
    """∇U at positions chain × place, as vectors; unbiased, with independent noise, where data are too many.

    With few rows per position the gradient is that at the mean of the positions plus the difference that a
    minibatch shows: its noise falls with the distance from there, and is far below the gradient's own spread.
    """
    chains, places = jax.tree.leaves(positions)[0].shape[:2]
    flat = jax.tree.map(lambda x: x.reshape(chains * places, *x.shape[2:]), positions)
    keys = jax.random.split(jax.random.key(0), chains * places)
    size = getattr(target, "size", 0)
    rows = size
    if hasattr(target, "minibatch_potential"):
        rows = min(size, max(_FEWEST_ROWS, most // (2 * chains * places)))
    found = _slopes(target, flat, keys, None if rows == size else rows)
    return np.asarray(found, float).reshape(chains, places, -1)


@eqx.filter_jit
def _slopes(target: Any, positions: PyTree[Array], keys: Array, rows: int | None) -> Array:
    whole = jax.grad(target.potential)
    if rows is None:
        return jax.lax.map(lambda theta: ravel(whole(theta)), positions)
    batches = Batches(target.size, rows, "replacement")
    nothing = jnp.zeros((), jnp.uint32)
    centre = jax.tree.map(lambda x: jnp.mean(x, axis=0), positions)
    at_centre = ravel(whole(centre))

    def slope(given: Any) -> Array:
        theta, key = given
        batch = batches.batch(target.data, batches.rows(key, key, nothing, nothing))
        here, there = (ravel(jax.grad(target.minibatch_potential)(x, batch)) for x in (theta, centre))
        return at_centre + (here - there)

    return jax.lax.map(slope, (positions, keys))


def as_vectors(positions: PyTree[Array]) -> Float[np.ndarray, "c n d"]:
    """Each position, chain × place, as a vector."""
    return np.asarray(jax.vmap(jax.vmap(ravel))(positions), float)
