"""A mixture of two normals, identified by the order of their means."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker.posteriors._classic import ClassicPosterior, with_reference
from fokker.targets import Density, constrain


def make_data() -> np.ndarray:
    """500 draws of 0.35 N(-1.2, 0.7²) + 0.65 N(1.5, 1.1²)."""
    generator = np.random.default_rng(2)
    second = generator.uniform(size=500) < 0.65
    return np.where(second, 1.5, -1.2) + np.where(second, 1.1, 0.7) * generator.normal(size=500)


def gaussian_mixture() -> ClassicPosterior:
    r"""Weights on a simplex, means in order, and widths, of 500 simulated numbers.

        w ~ Dirichlet(5, 5),  μ_1 < μ_2 with μ_k ~ N(0, 2²),  σ_k ~ N⁺(0, 2²),  y_n ~ Σ_k w_k N(μ_k, σ_k²)

    After `low_dim_gauss_mix` of posteriordb (Magnusson et al., 2024).
    """
    y = make_data()

    def log_density(z: dict[str, Array]) -> Array:
        mu, sigma, log_weights = z["mu"], z["sigma"], jnp.log(z["weights"])
        log_prior = 4 * jnp.sum(log_weights) - jnp.sum(mu**2 + sigma**2) / 8
        # Component by datum, so that the long axis is the one that is contiguous.
        deviations = (y[None, :] - mu[:, None]) / sigma[:, None]
        each = (log_weights - jnp.log(sigma))[:, None] - deviations**2 / 2
        return log_prior + jnp.sum(jnp.logaddexp(each[0], each[1]))

    def init(key: Key[Array, ""]) -> dict[str, Array]:
        mu, sigma, weights = jax.random.split(key, 3)
        return {
            "mu": jnp.array([-1.0, 1.0]) + jnp.sort(jax.random.normal(mu, (2,))),
            "sigma": jnp.exp(jax.random.normal(sigma, (2,)) / 2),
            "weights": jax.nn.softmax(jax.random.normal(weights, (2,))),
        }

    constraints = {"mu": "ordered", "sigma": "positive", "weights": "simplex"}
    return with_reference("gaussian_mixture", constrain(Density(log_density), constraints), init)
