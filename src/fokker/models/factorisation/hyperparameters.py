r"""Hyperparameters of a factorisation: exact draws given the rows of its tables.

A table of n rows x_i ~ N(μ, Λ⁻¹) in d dimensions has, as in Salakhutdinov and Mnih (2008), the prior

    Λ ~ Wishart(W₀, ν₀),   μ | Λ ~ N(μ₀, (β₀Λ)⁻¹),   μ₀ = 0, W₀ = I/ν₀,

and so, with mean x̄ and scatter S = Σ(x_i - x̄)(x_i - x̄)ᵀ, the conditional

    Λ ~ Wishart(W, ν₀ + n),   W⁻¹ = W₀⁻¹ + S + β₀n/(β₀+n) x̄x̄ᵀ,   μ | Λ ~ N(n x̄/(β₀+n), ((β₀+n)Λ)⁻¹).

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
# The shape of a Gamma distribution of hardly any spread, and Metropolis steps for a shape that is learned.
_EQUAL, _METROPOLIS = 1e8, 5


class RowSums(NamedTuple):
    """The number of rows of a table, their mean, and their scatter around it."""

    number: int
    mean: np.ndarray
    scatter: np.ndarray


class Hyperparameters(NamedTuple):
    """μ and Λ of a table."""

    mean: np.ndarray
    precision: np.ndarray


def initial_hyperparameters(dimension: int) -> Hyperparameters:
    """Where a chain starts: a mean of zero, and standard deviations of 0.3."""
    return Hyperparameters(np.zeros(dimension), 10.0 * np.eye(dimension))


def draw_hyperparameters(generator: np.random.Generator, sums: RowSums, prior: str) -> Hyperparameters:
    """μ and Λ given the rows."""
    n, d = sums.number, len(sums.mean)
    total = _MEAN_COUNT + n
    scatter = sums.scatter + _MEAN_COUNT * n / total * np.outer(sums.mean, sums.mean)
    if prior == "normal-wishart":
        freedom = d  # ν₀, the fewest degrees of freedom of a proper prior
        # W₀⁻¹ = ν₀I: a precision of 1 is expected a priori.
        precision = draw_wishart(generator, np.linalg.inv(freedom * np.eye(d) + scatter), freedom + n)
    else:
        rates = _RATE + np.diag(scatter) / 2
        precision = np.diag(generator.gamma(_SHAPE + n / 2, 1 / rates))
    root = np.linalg.cholesky(total * precision)
    noise = np.linalg.solve(root.T, generator.standard_normal(d))
    return Hyperparameters(n * sums.mean / total + noise, precision)


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
