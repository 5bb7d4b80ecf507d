r"""The posterior of the mean μ and the precision γ of a normal distribution, for `ding_fig2_var`."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.targets import Posterior

SIZE, CELLS = 100, 30


def log_prior(theta: Array) -> Array:
    """log N(μ|0, 1/γ) + log Gamma(γ|1, 1) + log γ, the last for the change of variable to log γ."""
    mu, log_gamma = theta
    gamma = jnp.exp(log_gamma)
    return log_gamma / 2 - gamma * mu**2 / 2 - gamma + log_gamma


def log_likelihood(theta: Array, x: Array) -> Array:
    """log N(x|μ, 1/γ)."""
    mu, log_gamma = theta
    return log_gamma / 2 - jnp.exp(log_gamma) * (x - mu) ** 2 / 2


def posterior() -> Posterior:
    """Of data drawn once, the same for every seed of the samplers."""
    return Posterior(log_prior, log_likelihood, jax.random.normal(jax.random.key(2014), (SIZE,)))


class Marginal(NamedTuple):
    """An exact marginal on equal cells: edges, density in them, and its standard deviation."""

    edges: np.ndarray
    density: np.ndarray
    deviation: float


def exact_marginals(data: np.ndarray) -> tuple[Marginal, Marginal]:
    """The exact marginals of μ and of γ on cells that hold all but a ten-thousandth of them."""
    from scipy import stats

    count, mean = data.size, data.mean()
    shape = 1 + count / 2
    rate = 1 + np.sum((data - mean) ** 2) / 2 + count * mean**2 / (2 * (count + 1))
    scale = np.sqrt(rate / (shape * (count + 1)))
    exact = (stats.t(2 * shape, count * mean / (count + 1), scale), stats.gamma(shape, scale=1 / rate))
    marginals = []
    for law in exact:
        edges = np.linspace(law.ppf(5e-5), law.ppf(1 - 5e-5), CELLS + 1)
        marginals.append(Marginal(edges, np.diff(law.cdf(edges)) / np.diff(edges), float(law.std())))
    return marginals[0], marginals[1]


def errors(draws: Sequence[np.ndarray], marginals: Sequence[Marginal]) -> list[float]:
    """Root mean square over the cells of the error of each marginal's density, in units of 1/deviation."""
    values = []
    for x, marginal in zip(draws, marginals, strict=True):
        counts = np.histogram(x[np.isfinite(x)], marginal.edges)[0]
        density = counts / (x.size * np.diff(marginal.edges))
        values.append(marginal.deviation * float(np.sqrt(np.mean((density - marginal.density) ** 2))))
    return values
