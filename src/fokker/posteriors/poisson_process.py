"""Counts whose rate is the exponential of a Gaussian process."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker.posteriors._classic import ClassicPosterior, with_reference
from fokker.targets import Density, constrain

POINTS = 15
# A little white noise in the process, so that the Cholesky factor exists in single precision.
NUGGET = 1e-4


def make_data() -> tuple[np.ndarray, np.ndarray]:
    """Places from 0 to 7, and counts with the rate exp(1.2 + sin x + x / 7)."""
    generator = np.random.default_rng(15)
    x = np.linspace(0.0, 7.0, POINTS)
    return x, generator.poisson(np.exp(1.2 + np.sin(x) + x / 7)).astype(float)


def poisson_process() -> ClassicPosterior:
    r"""A Gaussian process of Matérn's kernel with its length and amplitude, at 15 points; not centred.

        ρ ~ InvGamma(5, 5),  α ~ N⁺(0, 2²),  η_i ~ N(0, 1),  f = α L η,  LLᵀ = K,  y_i ~ Poisson(e^{f_i})
        K_ij = (1 + r) e^{-r} + 10⁻⁴ δ_ij,  r = √3 |x_i - x_j| / ρ

    After `gp_pois_regr` of posteriordb (Magnusson et al., 2024); Rasmussen and Williams, *Gaussian Processes
    for Machine Learning*, 2006, Eq. 4.17.
    """
    x, y = make_data()
    distances = np.sqrt(3) * np.abs(x[:, None] - x[None, :])
    nugget = NUGGET * np.eye(POINTS)

    def log_density(z: dict[str, Array]) -> Array:
        rho, alpha, eta = z["rho"], z["alpha"], z["eta"]
        r = distances / rho
        f = alpha * (jnp.linalg.cholesky((1 + r) * jnp.exp(-r) + nugget) @ eta)
        log_prior = -6 * jnp.log(rho) - 5 / rho - (alpha / 2) ** 2 / 2 - jnp.sum(eta**2) / 2
        return log_prior + jnp.sum(y * f - jnp.exp(f))

    def init(key: Key[Array, ""]) -> dict[str, Array]:
        rho, alpha, eta = jax.random.split(key, 3)
        return {
            "rho": 1.5 * jnp.exp(jax.random.normal(rho) / 2),
            "alpha": jnp.exp(jax.random.normal(alpha) / 2),
            "eta": jax.random.normal(eta, (POINTS,)) / 2,
        }

    constraints = {"rho": "positive", "alpha": "positive"}
    return with_reference("poisson_process", constrain(Density(log_density), constraints), init)
