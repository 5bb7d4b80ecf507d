"""Moving the tables of a factorisation by minibatches of ratings, with a lazy sampler or a dense one."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker._core.random import fold_in, randint, split
from fokker.integrators import Splitting
from fokker.models.factorisation.chain import TABLES, FactorChain
from fokker.samplers import Sampler, SamplerState, sghmc, sgld, sgnht
from fokker.samplers.lazy import Lazy, lazy
from fokker.samplers.loop import take_steps
from fokker.samplers.plain import Plain
from fokker.targets.posterior import Posterior
from fokker.targets.tables import RowLikelihood, RowPrior, Table

_STEP_SIZE, _THERMOSTAT_MASS = 0.1, 1.0
# h(N/n)/(2A): the heat of minibatches in rarely rated rows, by which the friction A is chosen.
_HEAT = 0.65
# The precision of a row's posterior, for its mass: of a typical prior, and of each rating.
_PRIOR_PRECISION, _PER_RATING = 15.0, 1.5
# Streams of the key of a chain: the start, the steps, and bringing all rows up to date.
_START, _STEPS, _READS = 0, 1, 2


def log_likelihood(rows: dict[str, Array], datum: dict[str, Array]) -> Array:
    """log N(r | a_u + b_i + U_u·V_i, 1/τ_u) up to a constant, where a row of a table is (bias, factors).

    Rows with features are given without what these add to their mean, so that all have the same prior.
    """
    user, item = (
        rows[name] + datum[_shift(name)] if _shift(name) in datum else rows[name] for name in TABLES
    )
    error = datum["rating"] - user[0] - item[0] - jnp.sum(user[1:] * item[1:])
    return -datum["precision"] * error**2 / 2


def _shift(name: str) -> str:
    """The name of what features add to the row of this table that a rating depends on."""
    return f"shift of {name}"


class MinibatchPass:
    """One pass over the ratings by steps of `sampler`, after which all rows are up to date."""

    def __init__(self, chain: FactorChain, sampler: Sampler, batch_size: int) -> None:
        self.data = {
            "users": jnp.asarray(chain.users),
            "items": jnp.asarray(chain.items),
            "rating": jnp.asarray(chain.values.astype(np.float32)),
        }
        self.batch_size = min(batch_size, len(chain.values))
        # Steps in a pass over the data.
        self.interval = math.ceil(len(chain.values) / self.batch_size)
        self.key = jax.random.key(chain.seed)
        self.sampler = sampler.on(self._target(chain))
        tables = {name: jnp.asarray(x, jnp.result_type(float)) for name, x in chain.tables.items()}
        self.state: SamplerState = self.sampler.init(tables, key=fold_in(self.key, _START))

    def _target(self, chain: FactorChain) -> Posterior:
        tables = {
            name: Table(len(chain.tables[name]), h.mean, h.precision)
            for name, h in chain.hyperparameters.items()
        }
        # Of each rating, as a lazy step knows the rows of a batch by other numbers.
        data = {**self.data, "precision": jnp.asarray(chain.precisions.astype(np.float32))}
        for name, numbers in zip(TABLES, (chain.users, chain.items), strict=True):
            shifts = chain.shifts(name)
            if shifts is not None:
                data[_shift(name)] = jnp.asarray(shifts[numbers].astype(np.float32))
        return Posterior(RowPrior(tables), RowLikelihood(log_likelihood, TABLES), data)

    def __call__(self, chain: FactorChain) -> None:
        """The steps of one pass, given the hyperparameters of the chain."""
        self.sampler = self.sampler.with_target(self._target(chain))
        theta = dict(self.state.position)
        shifts = {name: x for name in TABLES if (x := chain.shifts(name)) is not None}
        for name, shift in shifts.items():
            theta[name] = jnp.asarray(chain.tables[name] - shift, theta[name].dtype)
        self.state = self.state._replace(z={**self.state.z, "theta": theta})
        self.state = _pass((self.sampler, self.batch_size, self.key, self.interval), self.state)
        # Copies: the next pass overwrites the memory of this state.
        chain.tables = {name: np.array(x) for name, x in self.state.position.items()}
        for name, shift in shifts.items():
            chain.tables[name] = chain.tables[name] + shift


@eqx.filter_jit(donate="all-except-first")
def _pass(inputs: tuple[Sampler, int, Key[Array, ""], int], state: SamplerState) -> SamplerState:
    """Steps with minibatches drawn with replacement; step t depends on the key and on t alone."""
    sampler, batch_size, key, count = inputs
    data, size = sampler.own_target.data, sampler.own_target.size
    steps_key = fold_in(key, _STEPS)

    def randomness(state: SamplerState, _: Array) -> tuple[Array, dict[str, Array]]:
        rows_key, step_key = split(fold_in(steps_key, state.step))
        rows = randint(rows_key, (batch_size,), size)
        return step_key, {name: x[rows] for name, x in data.items()}

    state, _ = take_steps(sampler.step, state, jnp.arange(count), lambda *_: None, randomness)
    return sampler.synchronised(fold_in(fold_in(key, _READS), state.step), state)


def row_sampler(
    kind: str,
    chain: FactorChain,
    batch_size: int,
    step_size: float | None,
    friction: float | None,
    thermostat_mass: float | None,
) -> Lazy:
    """The sampler of the rows, each with its mass; None is the default, and a friction for the batch size."""
    h = step_size or _STEP_SIZE
    data_weight = len(chain.values) / batch_size
    A = max(1.0, h * data_weight / (2 * _HEAT)) if friction is None else friction
    numbers = {
        name: np.bincount(rows, minlength=len(chain.tables[name]))
        for name, rows in zip(TABLES, (chain.users, chain.items), strict=True)
    }
    masses = {name: _PRIOR_PRECISION + _PER_RATING * x for name, x in numbers.items()}
    return lazy(_recipe(kind, h, A, thermostat_mass or _THERMOSTAT_MASS), masses)


@functools.cache  # the same object for the same settings, so that a second fit finds the compiled steps
def _recipe(kind: str, step_size: float, friction: float, thermostat_mass: float) -> Plain:
    # Noise of three matching moments is enough for the order of these steps, and much cheaper.
    noise = "binomial"
    if kind == "sgnht":
        return sgnht(
            step_size, friction, thermostat_mass, kind="diagonal", integrator=Splitting(), noise=noise
        )
    if kind == "sghmc":
        return sghmc(step_size, friction, integrator=Splitting(), noise=noise)
    return sgld(step_size, 1 / friction, noise=noise)
