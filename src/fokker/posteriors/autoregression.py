"""An autoregression on five lags."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker.posteriors._classic import ClassicPosterior, with_reference
from fokker.targets import Density, constrain

LAGS, LENGTH = 5, 200


def make_data() -> tuple[np.ndarray, np.ndarray]:
    """The numbers after the first five of 200, and the five before each, the latest first."""
    generator = np.random.default_rng(5)
    beta = np.array([0.7, -0.3, 0.25, -0.1, 0.2])
    # A hundred more at the start, as burn-in.
    y = np.zeros(LENGTH + 100)
    for t in range(LAGS, y.size):
        y[t] = 0.2 + beta @ y[t - LAGS : t][::-1] + 0.5 * generator.normal()
    y = y[100:]
    return y[LAGS:], np.stack([y[LAGS - k : -k] for k in range(1, LAGS + 1)], axis=1)


def autoregression() -> ClassicPosterior:
    r"""AR(5), given the first five of 200 simulated numbers.

        α, β_k ~ N(0, 10²),  σ ~ Cauchy⁺(0, 2.5),  y_t ~ N(α + Σ_k β_k y_{t-k}, σ²),   k = 1, …, 5

    `arK` of posteriordb (Magnusson et al., 2024).
    """
    y, before = make_data()

    def log_density(z: dict[str, Array]) -> Array:
        alpha, beta, sigma = z["alpha"], z["beta"], z["sigma"]
        log_prior = -(alpha**2 + jnp.sum(beta**2)) / 200 - jnp.log1p((sigma / 2.5) ** 2)
        deviations = (y - alpha - before @ beta) / sigma
        return log_prior - y.size * jnp.log(sigma) - jnp.sum(deviations**2) / 2

    def init(key: Key[Array, ""]) -> dict[str, Array]:
        alpha, beta, sigma = jax.random.split(key, 3)
        return {
            "alpha": jax.random.normal(alpha),
            "beta": jax.random.normal(beta, (LAGS,)) / 2,
            "sigma": jnp.exp(jax.random.normal(sigma) / 2),
        }

    return with_reference("autoregression", constrain(Density(log_density), {"sigma": "positive"}), init)
