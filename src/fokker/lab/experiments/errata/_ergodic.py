r"""Does the noise reach every direction? Hörmander's condition, by iterated Lie brackets.

With dz = f dt + Σ_k σ_k dW_k, let V contain the σ_k and with each v the brackets [f, v] and [σ_k, v],
[a, b] = (∂b)a - (∂a)b. Where V spans the whole space the transition density is smooth, and a stationary
density that is positive everywhere is the only one.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

VectorField = Callable[[Array], Array]


def bracket(a: VectorField, b: VectorField) -> VectorField:
    """[a, b] = (∂b)a - (∂a)b."""
    return lambda x: jax.jvp(b, (x,), (a(x),))[1] - jax.jvp(a, (x,), (b(x),))[1]


def directions_missed(drift: VectorField, noises: Sequence[VectorField], points: Array, depth: int) -> int:
    """How many directions brackets up to `depth` leave out, at the worst of the points."""
    fields, newest = list(noises), list(noises)
    for _ in range(depth):
        newest = [bracket(a, v) for v in newest for a in (drift, *noises)]
        fields += newest
    span = np.asarray(jax.jit(jax.vmap(lambda x: jnp.stack([v(x) for v in fields])))(points))
    return int(points.shape[1] - min(np.linalg.matrix_rank(rows, tol=1e-8) for rows in span))
