"""The Markov chain of a factorisation: its tables are moved, then the hyperparameters drawn given them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from fokker.datasets.ratings import Ratings
from fokker.models.factorisation.conditional import draw_rows
from fokker.models.factorisation.features import Covariates, no_covariates
from fokker.models.factorisation.hyperparameters import (
    Hyperparameters,
    Noise,
    RowSums,
    draw_equal_noise,
    draw_hyperparameters,
    draw_noise,
    equal_noise,
    initial_hyperparameters,
)

TABLES = ("users", "items")
# Ratings whose expectations are computed at the same time.
_RATINGS = 2**18
# Squared residuals, as a multiple of what the noise explains, at which a chain is taken to diverge.
_LARGEST = 1e4
# Ratings that differ by less than this share of the largest are the same.
_ROUNDING = 1e-6
# The standard deviation of the rows at the start, and the shape of the distribution of τ.
_START, _SHAPE = 0.1, 3.0


def scores(user: Float[np.ndarray, "n k"], item: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """a_u + b_i + U_u·V_i for rows (bias, factors)."""
    return user[:, 0] + item[:, 0] + np.einsum("nk,nk->n", user[:, 1:], item[:, 1:])


def is_varied(values: np.ndarray) -> bool:
    """Whether ratings differ by more than rounding."""
    return bool(np.ptp(values) > _ROUNDING * np.max(np.abs(values)))


class Draw(NamedTuple):
    """One draw of the posterior: the tables, their hyperparameters, and τ_u, for ratings (r - mean)/scale."""

    users: np.ndarray
    items: np.ndarray
    hyperparameters: dict[str, Hyperparameters]
    noise: Noise
    mean: float
    scale: float

    @property
    def deviations(self) -> np.ndarray:
        """The standard deviation of each user's noise, in units of the ratings."""
        return self.scale * self.noise.precision**-0.5

    def expected(self, users: Int[np.ndarray, " n"], items: Int[np.ndarray, " n"]) -> np.ndarray:
        """The expected ratings of items by users, by their numbers."""
        return self.mean + self.scale * scores(self.users[users], self.items[items])


class Mover(Protocol):
    """Moves the tables of a chain, given hyperparameters and noise, so that their conditional is kept."""

    def __call__(self, chain: "FactorChain") -> None:
        """Replace `chain.tables`."""


class FactorChain:
    """A chain over the tables of users and items, their hyperparameters and the precisions of the noise.

    Ratings are standardised to mean 0 and variance 1 by `mean` and `scale`, so that priors and step sizes
    mean the same in every unit: `values`. After each move of the tables, μ and Λ of both and the noise,
    of each user or one for all, are drawn given them. With `covariates`, by table, the mean of a row depends
    on its features; their rows without ratings are no part of the chain, and are drawn for `draw` alone.
    """

    def __init__(
        self,
        ratings: Ratings,
        factors: int,
        *,
        prior: str,
        seed: int,
        noise_by_user: bool = True,
        covariates: Mapping[str, Covariates] | None = None,
    ) -> None:
        values = np.asarray(ratings.values, np.float64)
        self.mean, self.scale = float(values.mean()), float(values.std()) if is_varied(values) else 1.0
        self.users, self.items, self.values = ratings.users, ratings.items, (values - self.mean) / self.scale
        self.counts = np.bincount(ratings.users, minlength=ratings.num_users)
        self.prior, self.seed, self.noise_by_user = prior, seed, noise_by_user
        self.generator = np.random.Generator(np.random.Philox(seed))
        # Of its own, so that the chain is the same whether or not draws are made on the way.
        self.generator_of_new = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 1])))
        rows = {"users": ratings.num_users, "items": ratings.num_items}
        self.covariates = covariates or {name: no_covariates(number) for name, number in rows.items()}
        self.hyperparameters = {
            name: initial_hyperparameters(factors + 1, len(self.covariates[name].features.columns))
            for name in TABLES
        }
        self.noise = equal_noise(1.0, ratings.num_users)
        if noise_by_user:
            self.noise = self.noise._replace(shape=_SHAPE, rate=_SHAPE)
        self.tables = {
            name: _START * self.generator.standard_normal((rows[name], factors + 1)) for name in TABLES
        }

    def advance(self, move: Mover) -> bool:
        """Move the tables, and draw the hyperparameters. Returns whether all numbers are finite."""
        move(self)
        squares = self.squared_residuals()
        # Where a few rows leave, their numbers are huge before they are infinite.
        if not np.sum(self.noise.precision * squares) < _LARGEST * np.sum(self.counts):
            return False
        for name, table in self.tables.items():
            mean = table.mean(0, dtype=float)
            deviations = table - mean
            features, rows, _ = self.covariates[name]
            sums = RowSums(len(table), mean, deviations.T @ deviations, rows.T @ deviations, features.squares)
            before = self.hyperparameters[name].link_precision
            self.hyperparameters[name] = draw_hyperparameters(self.generator, sums, self.prior, before)
        if self.noise_by_user:
            self.noise = draw_noise(self.generator, self.noise, self.counts, squares)
        else:
            self.noise = draw_equal_noise(self.generator, self.counts, squares)
        return True

    def passes(self, move: Mover, number: int) -> Iterator[int]:
        """Up to `number` passes, numbered from 1 as each is done; fewer where numbers stop being finite."""
        # A loop of its own: the tables are NumPy's, which no compiled loop carries, and callers look at each.
        for done in range(1, number + 1):
            if not self.advance(move):
                return
            yield done

    def squared_residuals(self) -> Float[np.ndarray, " users"]:
        """Their sum over the ratings of each user, in units of `scale`²."""
        total = np.zeros(len(self.counts))
        for first in range(0, len(self.values), _RATINGS):
            part = slice(first, first + _RATINGS)
            rows = (self.tables["users"][self.users[part]], self.tables["items"][self.items[part]])
            squares = (self.values[part] - scores(*rows)) ** 2
            total += np.bincount(self.users[part], squares, len(total))
        return total

    @property
    def precisions(self) -> Float[np.ndarray, " ratings"]:
        """τ of each rating."""
        return self.noise.precision[self.users]

    def prior_of(self, name: str, others: Float[np.ndarray, "columns d"]) -> Hyperparameters:
        """The law of the rows of a table without its ratings; `others` are the rows of the other table."""
        return self.hyperparameters[name]

    def shifts(self, name: str) -> Float[np.ndarray, "rows d"] | None:
        """What features add to the mean of each row of a table; None without features."""
        rows = self.covariates[name].rows
        return rows @ self.hyperparameters[name].link if rows.shape[1] else None

    def draw(self, generator: np.random.Generator | None = None) -> Draw:
        """The tables, with what was drawn given them, and at their ends the rows without ratings.

        `generator`: of these rows, for a draw that is not stored, so that those stored are the same without.
        """
        generator = self.generator_of_new if generator is None else generator
        users, items = (
            np.concatenate([self.tables[name], h.draw(generator, self.covariates[name].new)]).astype(
                np.float32
            )
            for name, h in self.hyperparameters.items()
        )
        new = generator.gamma(self.noise.shape, 1 / self.noise.rate, len(users) - len(self.counts))
        noise = self.noise._replace(precision=np.concatenate([self.noise.precision, new]))
        return Draw(users, items, dict(self.hyperparameters), noise, self.mean, self.scale)


class GibbsSweep:
    """Exact draws of all users given all items, and of all items given all users."""

    def __init__(self, chain: FactorChain) -> None:
        shape = tuple(len(chain.tables[name]) for name in TABLES)
        # Numbers of the ratings first, to know which stands where.
        numbers = csr_array((np.arange(len(chain.values)), (chain.users, chain.items)), shape)
        by_row = {"users": numbers, "items": numbers.T.tocsr()}
        self.order = {name: matrix.data for name, matrix in by_row.items()}
        self.ratings = {
            name: csr_array((chain.values[m.data], m.indices, m.indptr), m.shape)
            for name, m in by_row.items()
        }

    def __call__(self, chain: FactorChain) -> None:
        """One sweep."""
        for name, other in (TABLES, TABLES[::-1]):
            prior, covariates = chain.prior_of(name, chain.tables[other]), chain.covariates[name].rows
            chain.tables[name] = draw_rows(
                chain.generator,
                self.ratings[name],
                chain.tables[other],
                prior,
                chain.precisions[self.order[name]],
                covariates @ prior.link if covariates.shape[1] else None,
            )
