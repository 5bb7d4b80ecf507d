"""∇U at many draws of a run, from all the data or, if there are too many, with control variates."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from fokker._core.state import ravel
from fokker.batches import Batches
from fokker.targets.target import TargetWithData

if TYPE_CHECKING:
    from fokker.run.trace import Trace

# Rows of data used for all the points together: this takes seconds, not minutes.
_ROWS = 50_000_000
# Coordinates of all the points together, so that they fit into memory in double precision.
_NUMBERS = 20_000_000
_FEWEST_ROWS = 1000


def thinned(trace: "Trace", points: int) -> PyTree[Array]:
    """About `points` positions, chain × place, evenly spaced over the draws, in unconstrained coordinates."""
    positions = trace.positions
    chains, draws = jax.tree.leaves(positions)[0].shape[:2]
    most = max(100, min(points, _NUMBERS // max(1, as_vector_length(positions))))
    places = min(draws, max(1, most // chains))
    draw = ((np.arange(places) + 0.5) * draws / places).astype(int)
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[:, draw]), positions)


def as_vector_length(positions: PyTree[Any]) -> int:
    """The number of coordinates of one position."""
    return sum(int(np.prod(leaf.shape[2:])) for leaf in jax.tree.leaves(positions))


def gradients_at(target: Any, positions: PyTree[Array], most: int = _ROWS) -> Float[np.ndarray, "c n d"]:
    """∇U at positions chain × place, as vectors; for many data an unbiased estimate with independent noise.

    The estimate is the gradient at the mean of the positions plus a difference computed from a minibatch. Its
    noise decreases with the distance from the mean and is far below the spread of the gradient itself.
    """
    chains, places = jax.tree.leaves(positions)[0].shape[:2]
    flat = jax.tree.map(lambda x: x.reshape(chains * places, *x.shape[2:]), positions)
    keys = jax.random.split(jax.random.key(0), chains * places)
    rows = None
    if isinstance(target, TargetWithData):
        affordable = max(_FEWEST_ROWS, most // (2 * chains * places))
        rows = affordable if affordable < target.size else None
    gradients = _gradients(target, flat, keys, rows)
    return np.asarray(gradients, float).reshape(chains, places, -1)


@eqx.filter_jit
def _gradients(target: Any, positions: PyTree[Array], keys: Array, rows: int | None) -> Array:
    full_gradient = jax.grad(target.potential)
    if rows is None:
        return jax.lax.map(lambda theta: ravel(full_gradient(theta)), positions)
    batches = Batches(target.size, rows, "replacement")
    unused = jnp.zeros((), jnp.uint32)
    centre = jax.tree.map(lambda x: jnp.mean(x, axis=0), positions)
    at_centre = ravel(full_gradient(centre))

    def gradient(theta_and_key: tuple[PyTree[Array], Array]) -> Array:
        theta, key = theta_and_key
        batch = batches.batch(target.data, batches.rows(key, key, unused, unused))
        at_theta, at_centre_by_batch = (
            ravel(jax.grad(target.minibatch_potential)(x, batch)) for x in (theta, centre)
        )
        return at_centre + (at_theta - at_centre_by_batch)

    return jax.lax.map(gradient, (positions, keys))


def as_vectors(positions: PyTree[Array]) -> Float[np.ndarray, "c n d"]:
    """Each position, chain × place, as a vector."""
    return np.asarray(jax.vmap(jax.vmap(ravel))(positions), float)
