"""Normals with correlations that fall off along a line, and of unequal widths."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker.posteriors._classic import ClassicPosterior
from fokker.targets import Density

RHO = 0.9


def correlated_normal(dimension: int) -> ClassicPosterior:
    r"""N(0, Σ) with Σ_ij = s_i s_j ρ^|i-j|, ρ = 0.9, and s_i from 1 to 10 by equal ratios.

    Its precision is tridiagonal: with z_i = θ_i / s_i,

        -2 log p = z_1² + Σ_{i>1} (z_i - ρ z_{i-1})² / (1 - ρ²).

    In many dimensions the condition number of the correlations alone is near ((1 + ρ)/(1 - ρ))² = 361.

    Arguments:

    - `dimension`: of θ, at least 2.

    Returns a `ClassicPosterior`.

    ```python
    target = fk.posteriors.correlated_normal(50).target
    ```
    """
    if dimension < 2:
        raise ValueError(f"dimension={dimension} was given; correlations need 2 or more.")
    widths = np.geomspace(1.0, 10.0, dimension)

    def log_density(theta: Array) -> Array:
        z = theta / widths
        steps = z[1:] - RHO * z[:-1]
        return -(z[0] ** 2) / 2 - jnp.sum(steps**2) / (2 * (1 - RHO**2))

    def init(key: Key[Array, ""]) -> Array:
        return jax.random.normal(key, (dimension,)) * (2 * widths)

    reference = {f"theta[{i}]": (0.0, float(width)) for i, width in enumerate(widths)}
    name = f"correlated_normal_{dimension}"
    return ClassicPosterior(name, Density(log_density), init, reference, "exact: the definition")
