"""A linear regression whose intercept varies by county, as for radon in houses."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker.posteriors._classic import ClassicPosterior, with_reference
from fokker.targets import Density, constrain

COUNTIES, HOUSES = 40, 500


def make_data() -> dict[str, np.ndarray]:
    """Houses in counties of unequal sizes, with or without a basement, and the logarithm of their radon."""
    generator = np.random.default_rng(40)
    shares = generator.dirichlet(np.ones(COUNTIES))
    # Every county has at least one house; the others are assigned at random.
    county = np.append(np.arange(COUNTIES), generator.choice(COUNTIES, HOUSES - COUNTIES, p=shares))
    floor = (generator.uniform(size=HOUSES) < 0.2).astype(float)
    intercepts = 1.5 + 0.3 * generator.normal(size=COUNTIES)
    y = intercepts[county] - 0.7 * floor + 0.75 * generator.normal(size=HOUSES)
    return {"county": county, "floor": floor, "y": y}


def hierarchical_linear() -> ClassicPosterior:
    r"""Radon y_i in 500 simulated houses of 40 counties c(i), on the first floor (x_i = 1) or not.

        μ, β ~ N(0, 10²),  τ, σ ~ N⁺(0, 1),  η_c ~ N(0, 1),  y_i ~ N(μ + τ η_{c(i)} + β x_i, σ²)

    Gelman and Hill, *Data Analysis Using Regression and Multilevel Models*, 2007, chapter 12; posteriordb's
    `radon_variable_intercept_noncentered`.
    """
    data = make_data()
    county, floor, y = data["county"], data["floor"], data["y"]

    def log_density(z: dict[str, Array]) -> Array:
        mu, beta, tau, sigma, eta = z["mu"], z["beta"], z["tau"], z["sigma"], z["eta"]
        log_prior = -(mu**2 + beta**2) / 200 - (tau**2 + sigma**2) / 2 - jnp.sum(eta**2) / 2
        deviations = (y - (mu + tau * eta)[county] - beta * floor) / sigma
        return log_prior - y.size * jnp.log(sigma) - jnp.sum(deviations**2) / 2

    def init(key: Key[Array, ""]) -> dict[str, Array]:
        mu, beta, tau, sigma, eta = jax.random.split(key, 5)
        return {
            "mu": 2 * jax.random.normal(mu),
            "beta": jax.random.normal(beta),
            "tau": jnp.exp(jax.random.normal(tau) - 1),
            "sigma": jnp.exp(jax.random.normal(sigma) / 2),
            "eta": jax.random.normal(eta, (COUNTIES,)),
        }

    constraints = {"tau": "positive", "sigma": "positive"}
    return with_reference("hierarchical_linear", constrain(Density(log_density), constraints), init)
