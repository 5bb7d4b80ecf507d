"""The Markov chain of a factorisation: steps of a lazy sampler, and exact draws of the hyperparameters."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from fokker._core.module import Module
from fokker._core.random import fold_in, randint, split
from fokker.models.factorisation.hyperparameters import (
    Hyperparameters,
    RowSums,
    draw_hyperparameters,
    draw_noise_precision,
    initial_hyperparameters,
)
from fokker.samplers import Sampler, SamplerState
from fokker.targets.posterior import Posterior
from fokker.targets.tables import RowLikelihood, RowPrior, Table

TABLES = ("users", "items")
# Streams of the key of a chain: the start, the steps, and bringing all rows up to date.
_START, _STEPS, _READS = 0, 1, 2
# Ratings whose residuals are computed at the same time.
_RATINGS = 2**18
# Squared residuals, as a multiple of what the noise explains, at which a chain is taken to diverge.
_LARGEST = 1e4
# Ratings that differ by less than this share of the largest are the same.
_ROUNDING = 1e-6


class RatingLikelihood(Module):
    """log N(r | a_u + b_i + U_u·V_i, 1/τ), where a row of a table is (bias, factors)."""

    precision: Float[Array, ""]

    def __call__(self, rows: dict[str, Array], datum: dict[str, Array]) -> Array:
        """Up to a constant."""
        error = datum["rating"] - scores(rows["users"], rows["items"])
        return -self.precision * error**2 / 2


def scores(user: Float[Array, "*n k"], item: Float[Array, "*n k"]) -> Float[Array, "*n"]:
    """a_u + b_i + U_u·V_i for rows (bias, factors)."""
    return user[..., 0] + item[..., 0] + jnp.sum(user[..., 1:] * item[..., 1:], axis=-1)


def is_varied(values: np.ndarray) -> bool:
    """Whether ratings differ by more than rounding."""
    return bool(np.ptp(values) > _ROUNDING * np.max(np.abs(values)))


class Draw(NamedTuple):
    """One draw of the posterior: the tables, their hyperparameters, and τ, for ratings (r - mean)/scale."""

    users: np.ndarray
    items: np.ndarray
    hyperparameters: dict[str, Hyperparameters]
    noise_precision: float
    mean: float
    scale: float


class FactorChain:
    """A chain over the tables of users and items, their hyperparameters and the precision of the noise.

    Ratings are standardised to mean 0 and variance 1 by `mean` and `scale`, so that priors and step sizes
    mean the same in every unit. `sampler` moves the rows, lazily or all at every step; after each `interval`
    of steps all rows are brought up to date, and μ and Λ of both tables and τ are drawn from their exact
    conditionals.
    """

    def __init__(
        self,
        data: dict[str, np.ndarray],
        shape: tuple[int, int],
        factors: int,
        sampler: Sampler,
        *,
        prior: str,
        batch_size: int,
        seed: int,
    ) -> None:
        values = np.asarray(data["rating"], np.float64)
        self.mean, self.scale = float(values.mean()), float(values.std()) if is_varied(values) else 1.0
        standardised = {**data, "rating": ((values - self.mean) / self.scale).astype(np.float32)}
        self.data = {name: jnp.asarray(x) for name, x in standardised.items()}
        self.size, self.rows, self.prior = len(data["rating"]), dict(zip(TABLES, shape, strict=True)), prior
        self.batch_size = min(batch_size, self.size)
        self.hyperparameters = {name: initial_hyperparameters(factors + 1) for name in TABLES}
        self.noise_precision = 1.0
        self.key = jax.random.key(seed)
        self.generator = np.random.Generator(np.random.Philox(seed))
        self.sampler = sampler.on(self._target())
        start_key, *table_keys = split(fold_in(self.key, _START), 3)
        theta = {
            name: 0.1 * jax.random.normal(key, (self.rows[name], factors + 1))
            for name, key in zip(TABLES, table_keys, strict=True)
        }
        self.state: SamplerState = self.sampler.init(theta, key=start_key)

    @property
    def interval(self) -> int:
        """Steps in a pass over the data, after which hyperparameters are drawn."""
        return math.ceil(self.size / self.batch_size)

    def _target(self) -> Posterior:
        tables = {
            name: Table(self.rows[name], h.mean, h.precision) for name, h in self.hyperparameters.items()
        }
        likelihood = RatingLikelihood(jnp.asarray(self.noise_precision))
        return Posterior(RowPrior(tables), RowLikelihood(likelihood, TABLES), self.data)

    def advance(self, step_size: float) -> bool:
        """One pass: its steps, and a draw of the hyperparameters. Returns whether all numbers are finite."""
        key = fold_in(self.key, _STEPS)
        self.sampler = self.sampler.with_step_size(step_size)
        self.state = _take_steps((self.sampler, self.batch_size, key, jnp.int32(self.interval)), self.state)
        read_key = fold_in(fold_in(self.key, _READS), self.state.step)
        self.state, sums, squares = _synchronise((self.sampler, read_key), self.state)
        squares = float(squares)
        # Where a few rows leave, their numbers are huge before they are infinite.
        if not squares < _LARGEST * self.size / self.noise_precision:
            return False
        for name in TABLES:
            mean, scatter = (np.asarray(x, float) for x in sums[name])
            rows = RowSums(self.rows[name], mean, scatter)
            self.hyperparameters[name] = draw_hyperparameters(self.generator, rows, self.prior)
        self.noise_precision = draw_noise_precision(self.generator, self.size, squares)
        target = self._target()
        self.sampler = self.sampler.with_target(target)
        return True

    def draw(self) -> Draw:
        """The tables after a pass, when all rows are up to date, with what was drawn given them."""
        theta = self.state.position
        users, items = (np.asarray(theta[name]) for name in TABLES)
        return Draw(users, items, dict(self.hyperparameters), self.noise_precision, self.mean, self.scale)

    def predict(self, users: Int[np.ndarray, " n"], items: Int[np.ndarray, " n"]) -> np.ndarray:
        """The expected ratings at the current state."""
        theta = self.state.position
        return self.mean + self.scale * np.asarray(_scores_of(theta["users"], theta["items"], users, items))


@eqx.filter_jit(donate="all-except-first")
def _take_steps(inputs: tuple[Sampler, int, Key[Array, ""], Int[Array, ""]], state: Any) -> Any:
    """Steps with minibatches drawn with replacement; step t depends on the key and on t alone."""
    sampler, batch_size, key, count = inputs
    data, size = sampler.own_target.data, sampler.own_target.size

    def step(_: Array, state: Any) -> Any:
        rows_key, step_key = split(fold_in(key, state.step))
        rows = randint(rows_key, (batch_size,), size)
        return sampler.step(step_key, state, {name: x[rows] for name, x in data.items()})[0]

    return jax.lax.fori_loop(0, count, step, state)


@eqx.filter_jit(donate="all-except-first")
def _synchronise(inputs: tuple[Sampler, Key[Array, ""]], state: Any) -> Any:
    """The state with all rows up to date, mean and scatter of each table, and the squared residuals' sum."""
    sampler, key = inputs
    state = sampler.synchronised(key, state)
    sums = {}
    for name, x in state.position.items():
        mean = jnp.mean(x, 0)
        deviations = x - mean[None, :]
        sums[name] = (mean, deviations.T @ deviations)
    data, theta = sampler.own_target.data, state.position

    def squares(rows: dict[str, Array]) -> Array:
        predicted = scores(theta["users"][rows["users"]], theta["items"][rows["items"]])
        return jnp.sum((rows["rating"] - predicted) ** 2)

    whole = sampler.own_target.size // _RATINGS * _RATINGS
    total = squares({name: x[whole:] for name, x in data.items()})
    if whole:
        blocks = {name: x[:whole].reshape(-1, _RATINGS) for name, x in data.items()}
        total += jnp.sum(jax.lax.map(squares, blocks))
    return state, sums, total


@jax.jit
def _scores_of(users: Array, items: Array, user_rows: Array, item_rows: Array) -> Array:
    return scores(users[user_rows], items[item_rows])
