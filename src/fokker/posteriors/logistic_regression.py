"""Logistic regression with 24 correlated covariates."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker.posteriors._classic import ClassicPosterior, with_reference
from fokker.targets import Posterior

ROWS, COEFFICIENTS = 1000, 25


def make_data() -> dict[str, np.ndarray]:
    """An intercept, covariates with correlations 0.7^|i-j|, and outcomes drawn from the model."""
    generator = np.random.default_rng(25)
    x = generator.normal(size=(ROWS, COEFFICIENTS))
    for column in range(1, COEFFICIENTS):
        x[:, column] = 0.7 * x[:, column - 1] + np.sqrt(1 - 0.7**2) * x[:, column]
    x[:, 0] = 1.0
    truth = generator.normal(scale=0.5, size=COEFFICIENTS)
    y = (generator.uniform(size=ROWS) < 1 / (1 + np.exp(-x @ truth))).astype(float)
    return {"x": x, "y": y}


def logistic_regression() -> ClassicPosterior:
    r"""N = 1000 outcomes and 25 coefficients, the size of the well-known German credit data; simulated.

    θ_i ~ N(0, 1),  y_n ~ Bernoulli(1 / (1 + e^{-x_n·θ}))
    """

    def log_prior(theta: Array) -> Array:
        return -jnp.sum(theta**2) / 2

    def log_likelihood(theta: Array, datum: dict[str, Array]) -> Array:
        eta = datum["x"] @ theta
        return datum["y"] * eta - jax.nn.softplus(eta)

    def init(key: Key[Array, ""]) -> Array:
        return jax.random.normal(key, (COEFFICIENTS,))

    return with_reference("logistic_regression", Posterior(log_prior, log_likelihood, make_data()), init)
