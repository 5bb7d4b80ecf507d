"""The noise of a step: √(2TD - εB̂) w."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.state import State, ravel, unravel, zeros_like
from fokker.fields import Field


def noise_like(D: Field, B: Field | None, z: State) -> PyTree[jax.ShapeDtypeStruct]:
    """Noise in the structure of D's square root, or of the state if 2D - εB̂ must be a full matrix."""
    if B is None or _both_diagonal(D, B, z):
        return D.noise_like(z)
    return jax.eval_shape(lambda: z)


def _both_diagonal(D: Field, B: Field, z: State) -> bool:
    return jax.eval_shape(lambda: None if D.diagonal(z) is None else B.diagonal(z)) is not None


def reduced_noise(twice_D: Field, B: Field, z: State, w: PyTree[Array]) -> tuple[State, Array]:
    """√(2D - εB̂) w, by coordinates if both fields are diagonal, else by the full matrix.

    Rounding can make entries or eigenvalues negative by about eps·|2D|; only larger values are a shortfall.
    """
    if _both_diagonal(twice_D, B, z):
        entries = twice_D.diagonal(z)
        reduced = jax.tree.map(jnp.subtract, entries, B.diagonal(z))
        roots = jax.tree.map(lambda a: jnp.sqrt(jnp.maximum(a, 0)), reduced)
        shortfalls = jax.tree.map(lambda a, d: jnp.min(jnp.where(a < -_rounding(d), a, 0)), reduced, entries)
        noise = jax.tree.map(jnp.multiply, roots, _noise_of_state(w, z))
        return noise, jnp.minimum(jax.tree.reduce(jnp.minimum, shortfalls), 0)
    matrix = twice_D.as_matrix(z)
    rounding = len(matrix) * _rounding(jnp.max(jnp.abs(matrix)))
    matrix = matrix - B.as_matrix(z)
    values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0))[None, :]) @ vectors.T
    return unravel(root @ ravel(w), z), jnp.where(values[0] < -rounding, values[0], 0)


def _rounding(size: Array) -> Array:
    return 4 * jnp.finfo(size.dtype).eps * size


def _noise_of_state(w: PyTree[Array], z: State) -> State:
    """Noise of the noisy variables, with zeros for all other variables of the state."""
    if w is None:
        return zeros_like(z)
    if not isinstance(z, Mapping):
        return w
    return {name: zeros_like(z[name]) if w.get(name) is None else w[name] for name in z}
