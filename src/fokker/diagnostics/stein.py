"""The kernel Stein discrepancy: how far draws are from the target, by the target's gradient alone."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_SIGNS = 4000


@dataclass(frozen=True)
class Stein:
    """A discrepancy squared, zero on average for independent draws of the target, and how likely so large.

    `squared` may be below zero by chance. `p_value` is the share of sign-flipped discrepancies above it.
    """

    squared: float
    p_value: float
    points: int


def kernel_stein_discrepancy(draws: Any, slopes: Any, seed: int = 0) -> Stein:
    r"""The U-statistic of k₀ over m draws with ∇log p at them, both m × d.

        k₀(x, y) = s(x)·s(y) k + s(x)·∇_y k + s(y)·∇_x k + ∇_x·∇_y k
        k = (1 + |x - y|²/d)^{-1/2} + 1 + x·y/d

    with s = ∇log p and coordinates measured from the mean of the draws in their standard deviations. The
    first kernel sees every difference and draws that wander off (Gorham and Mackey 2017), but a wrong spread
    only faintly; the second adds the Stein equations of first and second moments, |E s|² + ‖E s xᵀ + I‖²/d,
    which see it at once. E k₀ = 0 if and only if the draws are of p. For different draws it is linear in each
    slope: independent noise in the slopes, as of minibatches, does not bias it. The p-value is by random
    signs (Chwialkowski et al. 2016) and holds for independent draws: thin a chain to those.
    """
    x, s = np.asarray(draws, float), np.asarray(slopes, float)
    if x.ndim != 2 or x.shape != s.shape or len(x) < 8:
        raise ValueError(
            "draws and slopes must be two arrays of one shape, at least 8 draws by coordinates, not "
            f"{x.shape} and {s.shape}."
        )
    scale = x.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    x = (x - x.mean(axis=0)) / scale
    matrix = np.array(_stein_matrix(jnp.asarray(x), jnp.asarray(s * scale)), float)
    np.fill_diagonal(matrix, 0)
    m = len(x)
    squared = float(matrix.sum() / (m * (m - 1)))
    signs = np.asarray(jax.random.rademacher(jax.random.key(seed), (_SIGNS, m), float))
    flipped = np.einsum("bi,ij,bj->b", signs, matrix, signs) / (m * (m - 1))
    return Stein(squared, float((1 + np.sum(flipped >= squared)) / (1 + _SIGNS)), m)


@jax.jit
def _stein_matrix(x: Float[Array, "m d"], s: Float[Array, "m d"]) -> Float[Array, "m m"]:
    d = x.shape[1]

    def row(x_i: Array, s_i: Array) -> Array:
        apart = x_i[None, :] - x
        r2 = jnp.sum(apart**2, axis=1)
        q = 1 + r2 / d
        k, k3, k5 = q**-0.5, q**-1.5 / d, q**-2.5 / d**2
        # ∇_x k = -k3 (x - y) and ∇_y k = k3 (x - y).
        cross = k3 * (apart @ s_i - jnp.sum(apart * s, axis=1))
        bounded = k * (s @ s_i) + cross + d * k3 - 3 * k5 * r2
        moments = (s @ s_i) * (1 + x @ x_i / d) + (s_i @ x_i + jnp.sum(s * x, axis=1)) / d + 1
        return bounded + moments

    return jax.lax.map(lambda given: row(*given), (x, s))
