"""Eight schools: the effects of coaching on a test, and how much they vary from school to school."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker.posteriors._classic import ClassicPosterior, with_reference
from fokker.targets import Density, constrain

# Rubin (1981), Table 1: estimated effects and their standard errors.
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def _log_prior(mu: Array, tau: Array) -> Array:
    return -((mu / 5) ** 2) / 2 - jnp.log1p((tau / 5) ** 2)


def _log_likelihood(theta: Array) -> Array:
    return -jnp.sum(((EFFECTS - theta) / ERRORS) ** 2) / 2


def _init(effects: str, spread: float) -> Callable[[Key[Array, ""]], dict[str, Array]]:
    """Random starts, by the name and the spread of what stands for the effects."""

    def init(key: Key[Array, ""]) -> dict[str, Array]:
        mu, tau, each = jax.random.split(key, 3)
        return {
            "mu": 5 * jax.random.normal(mu),
            "tau": 5 * jnp.exp(jax.random.normal(tau)),
            effects: spread * jax.random.normal(each, EFFECTS.shape),
        }

    return init


def eight_schools_centred() -> ClassicPosterior:
    r"""Centred effects θ_j: a funnel in (θ, τ), which is hard to sample.

        μ ~ N(0, 5²),  τ ~ Cauchy⁺(0, 5),  θ_j ~ N(μ, τ²),  y_j ~ N(θ_j, σ_j²),   j = 1, …, 8

    Rubin, *Estimation in parallel randomized experiments*, J. Educ. Stat. 6, 1981; priors as in Gelman et
    al., *Bayesian Data Analysis*, 3rd ed., section 5.5, and posteriordb.
    """

    def log_density(z: dict[str, Array]) -> Array:
        mu, tau, theta = z["mu"], z["tau"], z["theta"]
        log_effects = -theta.size * jnp.log(tau) - jnp.sum(((theta - mu) / tau) ** 2) / 2
        return _log_prior(mu, tau) + log_effects + _log_likelihood(theta)

    return with_reference(
        "eight_schools_centred", constrain(Density(log_density), {"tau": "positive"}), _init("theta", 10)
    )


def eight_schools_noncentred() -> ClassicPosterior:
    r"""The same with θ_j = μ + τ η_j, η_j ~ N(0, 1) and η sampled: easy to sample.

    Papaspiliopoulos, Roberts and Sköld, *A general framework for the parametrization of hierarchical
    models*, Statistical Science 22, 2007.
    """

    def log_density(z: dict[str, Array]) -> Array:
        mu, tau, eta = z["mu"], z["tau"], z["eta"]
        return _log_prior(mu, tau) - jnp.sum(eta**2) / 2 + _log_likelihood(mu + tau * eta)

    target = constrain(Density(log_density), {"tau": "positive"})
    return with_reference("eight_schools_noncentred", target, _init("eta", 2))
