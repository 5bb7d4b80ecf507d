r"""Hyperparameters of a factorisation: exact draws given the rows of its tables.

A table of n rows x_i ~ N(μ, Λ⁻¹) in d dimensions has, as in Salakhutdinov and Mnih (2008), the prior

    Λ ~ Wishart(W₀, ν₀),   μ | Λ ~ N(μ₀, (β₀Λ)⁻¹),   μ₀ = 0, W₀ = I/ν₀,

and so, with mean x̄ and scatter S = Σ(x_i - x̄)(x_i - x̄)ᵀ, the conditional

    Λ ~ Wishart(W, ν₀ + n),   W⁻¹ = W₀⁻¹ + S + β₀n/(β₀+n) x̄x̄ᵀ,   μ | Λ ~ N(n x̄/(β₀+n), ((β₀+n)Λ)⁻¹).

In place of the Wishart, independent λ_j ~ Gamma(a₀, rate b₀) make a diagonal Λ. They are drawn by NumPy in
double precision from a few sums over the rows; this is once per pass over the data.
"""

from typing import NamedTuple

import numpy as np

PRIORS = ("normal-wishart", "normal-gamma")
# β₀: as many rows as the prior mean counts for. a₀ and b₀: shape and rate of a Gamma prior of precisions.
_MEAN_COUNT, _SHAPE, _RATE = 2.0, 1.0, 0.1


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


def draw_noise_precision(generator: np.random.Generator, count: int, squares: float) -> float:
    """τ given the sum of squared residuals of `count` ratings, with the prior Gamma(a₀, rate b₀)."""
    return float(generator.gamma(_SHAPE + count / 2, 1 / (_RATE + squares / 2)))
