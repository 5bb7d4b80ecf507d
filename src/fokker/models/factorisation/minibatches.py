"""Moving the tables of a factorisation by minibatches of ratings, with a lazy sampler or a dense one."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from fokker._core.random import fold_in, randint, split
from fokker.models.factorisation.chain import TABLES, FactorChain
from fokker.samplers import Sampler, SamplerState
from fokker.targets.posterior import Posterior
from fokker.targets.tables import RowLikelihood, RowPrior, Table

# Streams of the key of a chain: the start, the steps, and bringing all rows up to date.
_START, _STEPS, _READS = 0, 1, 2


def log_likelihood(rows: dict[str, Array], datum: dict[str, Array]) -> Array:
    """log N(r | a_u + b_i + U_u·V_i, 1/τ_u) up to a constant, where a row of a table is (bias, factors)."""
    user, item = rows["users"], rows["items"]
    error = datum["rating"] - user[0] - item[0] - jnp.sum(user[1:] * item[1:])
    return -datum["precision"] * error**2 / 2


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
        data = {**self.data, "precision": jnp.asarray(chain.noise.precision[chain.users].astype(np.float32))}
        return Posterior(RowPrior(tables), RowLikelihood(log_likelihood, TABLES), data)

    def __call__(self, chain: FactorChain) -> None:
        """The steps of one pass, given the hyperparameters of the chain."""
        self.sampler = self.sampler.with_target(self._target(chain))
        inputs = (self.sampler, self.batch_size, self.key, jnp.int32(self.interval))
        self.state = _pass(inputs, self.state)
        # Copies: the next pass overwrites the memory of this state.
        chain.tables = {name: np.array(x) for name, x in self.state.position.items()}


@eqx.filter_jit(donate="all-except-first")
def _pass(inputs: tuple[Sampler, int, Key[Array, ""], Int[Array, ""]], state: SamplerState) -> SamplerState:
    """Steps with minibatches drawn with replacement; step t depends on the key and on t alone."""
    sampler, batch_size, key, count = inputs
    data, size = sampler.own_target.data, sampler.own_target.size
    steps_key = fold_in(key, _STEPS)

    def step(_: Array, state: SamplerState) -> SamplerState:
        rows_key, step_key = split(fold_in(steps_key, state.step))
        rows = randint(rows_key, (batch_size,), size)
        return sampler.step(step_key, state, {name: x[rows] for name, x in data.items()})[0]

    state = jax.lax.fori_loop(0, count, step, state)
    return sampler.synchronised(fold_in(fold_in(key, _READS), state.step), state)
