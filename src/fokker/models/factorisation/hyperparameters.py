r"""Hyperparameters of a factorisation: exact draws given the rows of its tables.

A table of n rows r_i ~ N(μ, Λ⁻¹) in d dimensions has, as in Salakhutdinov and Mnih (2008), the prior

    Λ ~ Wishart(W₀, ν₀),   μ | Λ ~ N(μ₀, (β₀Λ)⁻¹),   μ₀ = 0, W₀ = I/ν₀,

and so, with mean r̄ and scatter S = Σ(r_i - r̄)(r_i - r̄)ᵀ, the conditional

    Λ ~ Wishart(W, ν₀ + n),   W⁻¹ = W₀⁻¹ + S + β₀n/(β₀+n) r̄r̄ᵀ,   μ | Λ ~ N(n r̄/(β₀+n), ((β₀+n)Λ)⁻¹).

With features x_i of the rows, in coordinates where Σx_i = 0 and Σx_ix_iᵀ = diag(s), rows are
N(μ + Bᵀx_i, Λ⁻¹), and B has the rows B_j ~ N(0, (λΛ)⁻¹), λ ~ Gamma(a₀, rate b₀), as in Simm et al. (2017).
With B integrated out, S loses Σ_j c_jc_jᵀ/(s_j + λ) for c_j = Σ_i x_ij(r_i - r̄), and then

    B_j | Λ ~ N(c_j/(s_j + λ), ((s_j + λ)Λ)⁻¹),   λ | B, Λ ~ Gamma(a₀ + pd/2, rate b₀ + Σ_j B_jᵀΛB_j/2).

In place of the Wishart, independent λ_j ~ Gamma(a₀, rate b₀) make a diagonal Λ. τ_u, the precision of the
noise of a user, is Gamma with shape and rate learned from all users: some rate more regularly than others
(Lakshminarayanan et al. 2011). All are drawn by NumPy in double precision from a few sums over the rows, once
per pass over the data.
"""

import math
from typing import NamedTuple

import numpy as np

PRIORS = ("normal-wishart", "normal-gamma")
# β₀: as many rows as the prior mean counts for. a₀ and b₀: shape and rate of a Gamma prior of precisions.
_MEAN_COUNT, _SHAPE, _RATE = 2.0, 1.0, 0.1
# E[Λ] by the Normal–Wishart prior: rows have a standard deviation of 0.3, as where a chain starts. By 1 the
# factors that few ratings do not need stay as large as those that they need.
_PRECISION = 10.0
# The shape of a Gamma distribution of hardly any spread, and Metropolis steps for a shape that is learned.
_EQUAL, _METROPOLIS = 1e8, 5


class RowSums(NamedTuple):
    """The number of rows of a table, their mean, and their scatter around it; with features, c and s."""

    number: int
    mean: np.ndarray
    scatter: np.ndarray
    slopes: np.ndarray = np.zeros((0, 1))
    squares: np.ndarray = np.zeros(0)


class Hyperparameters(NamedTuple):
    """μ and Λ of a table, and with features B and λ."""

    mean: np.ndarray
    precision: np.ndarray
    link: np.ndarray = np.zeros((0, 1))
    link_precision: float = 10.0

    def draw(self, generator: np.random.Generator, coordinates: np.ndarray) -> np.ndarray:
        """Rows that have no ratings, with these coordinates of their features."""
        root = np.linalg.cholesky(self.precision)
        noise = generator.standard_normal((len(coordinates), len(root)))
        return self.mean + coordinates @ self.link + np.linalg.solve(root.T, noise.T).T


def initial_hyperparameters(dimension: int, features: int = 0) -> Hyperparameters:
    """Where a chain starts: a mean of zero, and standard deviations of 0.3."""
    return Hyperparameters(
        np.zeros(dimension), _PRECISION * np.eye(dimension), np.zeros((features, dimension))
    )


def draw_hyperparameters(
    generator: np.random.Generator, sums: RowSums, prior: str, link_precision: float = 10.0
) -> Hyperparameters:
    """Λ, μ and B given the rows and λ, then λ given these."""
    n, d = sums.number, len(sums.mean)
    total = _MEAN_COUNT + n
    scatter = sums.scatter + _MEAN_COUNT * n / total * np.outer(sums.mean, sums.mean)
    weights = (sums.squares + link_precision)[:, None]
    scatter = scatter - sums.slopes.T @ (sums.slopes / weights)
    if prior == "normal-wishart":
        freedom = d  # ν₀, the fewest degrees of freedom of a proper prior
        inverse_scale = freedom / _PRECISION * np.eye(d)  # W₀⁻¹
        precision = draw_wishart(generator, np.linalg.inv(inverse_scale + scatter), freedom + n)
    else:
        rates = _RATE + np.diag(scatter) / 2
        precision = np.diag(generator.gamma(_SHAPE + n / 2, 1 / rates))
    root = np.linalg.cholesky(total * precision)
    noise = np.linalg.solve(root.T, generator.standard_normal(d))
    mean = n * sums.mean / total + noise
    if not len(weights):
        return Hyperparameters(mean, precision, np.zeros((0, d)))
    z = generator.standard_normal((len(weights), d))
    link = sums.slopes / weights + np.linalg.solve(root.T, z.T).T * np.sqrt(total / weights)
    rate = _RATE + np.sum(link @ precision * link) / 2
    return Hyperparameters(mean, precision, link, float(generator.gamma(_SHAPE + link.size / 2, 1 / rate)))


def draw_wishart(generator: np.random.Generator, scale: np.ndarray, freedom: float) -> np.ndarray:
    """A draw of Wishart(scale, freedom), of mean freedom·scale, by the decomposition of Bartlett (1933)."""
    d = len(scale)
    A = np.tril(generator.standard_normal((d, d)), -1)
    A[np.diag_indices(d)] = np.sqrt(generator.chisquare(freedom - np.arange(d)))
    root = np.linalg.cholesky((scale + scale.T) / 2) @ A
    return root @ root.T


class Noise(NamedTuple):
    """τ_u of each user, and the shape a and rate b of their Gamma distribution."""

    precision: np.ndarray
    shape: float
    rate: float


def equal_noise(precision: float, users: int) -> Noise:
    """One τ for all users, those to come too."""
    return Noise(np.full(users, precision), _EQUAL, _EQUAL / precision)


def draw_noise(
    generator: np.random.Generator, noise: Noise, counts: np.ndarray, squares: np.ndarray
) -> Noise:
    r"""τ_u given the number of ratings and the sum of squared residuals of each user, then a and b.

    τ_u ~ Gamma(a, rate b), b ~ Gamma(a₀, rate b₀), and p(a) ∝ exp(-b₀a): b is drawn exactly, and log a moves
    by some Metropolis steps.
    """
    a, b = noise.shape, noise.rate
    precision = generator.gamma(a + counts / 2, 1 / (b + squares / 2))
    number, total = len(precision), float(np.sum(precision))
    logs = float(np.sum(np.log(precision)))
    b = float(generator.gamma(_SHAPE + a * number, 1 / (_RATE + total)))

    def log_density(log_a: float) -> float:
        a = math.exp(log_a)
        return number * (a * math.log(b) - math.lgamma(a)) + (a - 1) * logs - _RATE * a + log_a

    log_a = math.log(a)
    for _ in range(_METROPOLIS):
        proposal = log_a + generator.standard_normal() / math.sqrt(number)
        if math.log(generator.uniform()) < log_density(proposal) - log_density(log_a):
            log_a = proposal
    return Noise(precision, math.exp(log_a), b)


def draw_equal_noise(generator: np.random.Generator, counts: np.ndarray, squares: np.ndarray) -> Noise:
    """One τ for all users, with the prior Gamma(a₀, rate b₀)."""
    shape, rate = _SHAPE + np.sum(counts) / 2, _RATE + np.sum(squares) / 2
    return equal_noise(float(generator.gamma(shape, 1 / rate)), len(counts))
