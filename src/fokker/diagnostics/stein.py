"""The kernel Stein discrepancy: the distance of draws from the target, from the target's gradient only."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_SIGNS = 4000


@dataclass(frozen=True)
class Stein:
    """A squared discrepancy, of mean zero for independent draws from the target, and its p-value.

    `squared` may be below zero by chance. `p_value` is the share of sign-flipped discrepancies that are
    larger.
    """

    squared: float
    p_value: float
    points: int


def kernel_stein_discrepancy(draws: Any, gradients: Any, seed: int = 0) -> Stein:
    r"""The U-statistic of k₀ over m draws with ∇log p at them.

        k₀(x, y) = s(x)·s(y) k + s(x)·∇_y k + s(y)·∇_x k + ∇_x·∇_y k
        k = (1 + |x - y|²/d)^{-1/2} + 1 + x·y/d

    with s = ∇log p. The coordinates are centred at the mean of the draws and divided by their standard
    deviations. The first kernel detects every difference, and draws that go to infinity (Gorham and Mackey
    2017), but is weak against a wrong spread. The second adds the Stein equations of the first and second
    moments, |E s|² + ‖E s xᵀ + I‖²/d, which detect a wrong spread well. E k₀ = 0 if and only if the draws are
    from p. For different draws, k₀ is linear in each gradient, so that independent noise in the gradients, as
    from minibatches, causes no bias. The p-value uses random signs (Chwialkowski et al. 2016) and is valid
    for independent draws: thin a chain first.

    Arguments:

    - `draws`: m × d, with m at least 8. Memory grows as m².
    - `gradients`: ∇log p at the draws, m × d: this is -∇U, and not ∇U.
    - `seed`: of the random signs.

    Returns a `Stein`, with `.squared` and `.p_value`.

    ```python
    draws = np.random.default_rng(0).normal(size=(200, 2))
    stein = fk.diagnostics.kernel_stein_discrepancy(draws, -draws)  # log p = -|θ|²/2
    ```
    """
    x, s = np.asarray(draws, float), np.asarray(gradients, float)
    if x.ndim != 2 or x.shape != s.shape or len(x) < 8:
        raise ValueError(
            "draws and gradients must be two arrays of the same shape, at least 8 draws × coordinates, not "
            f"{x.shape} and {s.shape}."
        )
    deviation = x.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    x = (x - x.mean(axis=0)) / deviation
    matrix = np.array(_stein_matrix(jnp.asarray(x), jnp.asarray(s * deviation)), float)
    np.fill_diagonal(matrix, 0)
    m = len(x)
    squared = float(matrix.sum() / (m * (m - 1)))
    signs = np.asarray(jax.random.rademacher(jax.random.key(seed), (_SIGNS, m), float))
    flipped = np.einsum("bi,ij,bj->b", signs, matrix, signs) / (m * (m - 1))
    return Stein(squared, float((1 + np.sum(flipped >= squared)) / (1 + _SIGNS)), m)


@jax.jit
def _stein_matrix(x: Float[Array, "m d"], s: Float[Array, "m d"]) -> Float[Array, "m m"]:
    # Not an integer: its square would not fit into 32 bits from 46,341 coordinates on.
    d = float(x.shape[1])

    def row(x_i: Array, s_i: Array) -> Array:
        difference = x_i[None, :] - x
        r2 = jnp.sum(difference**2, axis=1)
        q = 1 + r2 / d
        k, k3, k5 = q**-0.5, q**-1.5 / d, q**-2.5 / d**2
        # ∇_x k = -k3 (x - y) and ∇_y k = k3 (x - y).
        cross = k3 * (difference @ s_i - jnp.sum(difference * s, axis=1))
        bounded = k * (s @ s_i) + cross + d * k3 - 3 * k5 * r2
        moments = (s @ s_i) * (1 + x @ x_i / d) + (s_i @ x_i + jnp.sum(s * x, axis=1)) / d + 1
        return bounded + moments

    return jax.lax.map(lambda pair: row(*pair), (x, s))
