"""Replicas at several temperatures that exchange their positions."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from fokker._core.checks import check_whole
from fokker._core.count import Count, no_steps
from fokker._core.random import split, uniform
from fokker._core.rounding import raised
from fokker._core.state import as_arrays
from fokker._core.types import Arrays, Number
from fokker.gradients import Estimator, OnlineNoise
from fokker.samplers.contract import Claims, Exchange, Followed, Info, Sampler, SamplerState
from fokker.samplers.schedules import StepSize
from fokker.targets.target import Target, TargetWithData


class ReplicaState(NamedTuple):
    """The replicas' states along a first axis, the coldest first; how many exchanges were tried and made."""

    replicas: SamplerState
    step: Count
    tried: Count
    made: Count

    @property
    def position(self) -> PyTree[Array]:
        """That of the coldest replica."""
        return jax.tree.map(lambda x: x[0], self.replicas.position)


class ReplicaExchange(Sampler):
    """Copies of a sampler at several temperatures; made by `replica_exchange`.

    The copies have no correction; the exchanges between them are a Metropolis step of their own.
    """

    sampler: Sampler
    ladder: Float[Array, " replicas"]
    every: int = eqx.field(static=True)
    exact: bool = eqx.field(static=True)
    target: Any = None

    name = "replica_exchange"
    takes_batches = True
    batches_undivided = ""

    @property
    def batches_unrepeated(self) -> str:
        """What its sampler says, and where exchanges are by a minibatch."""
        return (
            self.sampler.batches_unrepeated if self.exact else "exact=False needs a new batch at an exchange"
        )

    def __str__(self) -> str:
        return f"replicas of {self.sampler} × exchanges by Metropolis"

    @property
    def step_size(self) -> Any:
        """That of every copy."""
        return self.sampler.own_step_size

    def with_step_size(self, step_size: StepSize) -> "ReplicaExchange":
        """The same with another step size for every copy."""
        return dataclasses.replace(self, sampler=self.sampler.with_step_size(step_size))

    def on(
        self, target: Target, temperature: Number = 1.0, gradient: Estimator | None = None
    ) -> "ReplicaExchange":
        """The sampler of exp(-U/T) for a target: T is the temperature of the coldest replica."""
        placed = self.sampler.on(target, temperature, gradient)
        if not isinstance(temperature, jax.core.Tracer) and float(temperature) == 0:
            raise ValueError("replicas need a temperature above zero: at zero there is nothing to exchange.")
        return dataclasses.replace(
            self, sampler=placed, ladder=self.ladder * as_arrays(temperature), target=placed.known_target
        )

    @property
    def temperature(self) -> Array:
        """That of the coldest replica."""
        return self.ladder[0]

    @property
    def gradient_estimator(self) -> Estimator | None:
        """That of every copy."""
        return self.sampler.gradient_estimator

    @property
    def reads_all_data(self) -> bool:
        """For exact exchanges, or as every copy does."""
        return self.exact or self.sampler.reads_all_data

    def fastest_time(
        self, target: Target, temperature: Number, theta: PyTree[Array], key: Key[Array, ""]
    ) -> float:
        """That of the coldest copy."""
        return self.sampler.fastest_time(target, temperature, theta, key)

    def _at(self, temperature: Array) -> Sampler:
        """The copy of a temperature."""
        return dataclasses.replace(self.sampler, temperature=temperature)  # type: ignore[call-arg]

    def follows(self, state: PyTree[Any] | None = None) -> Followed | None:
        """The dynamics of the coldest replica."""
        return self._at(self.ladder[0]).follows(state)

    @property
    def claims(self) -> Claims:
        """The exchanges with all the data, and the proposals of the coldest replica."""
        target, cold, hot = self.own_target, self.ladder[0], self.ladder[1]

        def log_ratio(a: PyTree[Array], b: PyTree[Array]) -> Array:
            return exchange_log_ratio(target, 1 / cold - 1 / hot, a, b, None)

        return self._at(cold).claims._replace(exchange=Exchange(log_ratio, hot / cold))

    def _copies(self, function: Callable[..., PyTree[Array]], *trees: PyTree[Array]) -> Any:
        """`function(sampler, …)` for the copy of every temperature."""
        return jax.vmap(lambda T, *x: function(self._at(T), *x))(self.ladder, *trees)

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> ReplicaState:
        """All replicas at one position, each with auxiliaries of its own temperature."""
        self.sampler.init(position, key=key)  # raises where something is wrong
        assert key is not None
        keys = split(key, self.ladder.shape[0])
        theta = as_arrays(position)
        states = self._copies(lambda sampler, key: sampler.init(theta, key=key), keys)
        return ReplicaState(states, no_steps(), no_steps(), no_steps())

    def draw(self, key: Key[Array, ""], state: ReplicaState) -> tuple[PyTree[Array], Array]:
        """The randomness of every replica, and of the exchanges."""
        key, exchange_key = split(key)
        keys = split(key, self.ladder.shape[0])
        draws = self._copies(lambda sampler, key, state: sampler.draw(key, state), keys, state.replicas)
        return draws, uniform(exchange_key, (self.ladder.shape[0] - 1,), jnp.result_type(float))

    def advance(
        self, draws: Arrays, state: ReplicaState, batch: Arrays = None, number: Count | None = None
    ) -> tuple[ReplicaState, Info]:
        """One step of every replica, and an exchange every `every` steps."""
        number = state.step if number is None else number
        noise, uniforms = draws
        moved, info = self._copies(
            lambda sampler, noise, state: sampler.advance(noise, state, batch, number), noise, state.replicas
        )
        round_ = (number + 1) // self.every
        tried, made, moved = jax.lax.cond(
            (number + 1) % self.every == 0,
            lambda: self._exchange(moved, uniforms, batch, round_),
            lambda: (jnp.zeros((), jnp.uint32), jnp.zeros((), jnp.uint32), moved),
        )
        after = ReplicaState(moved, state.step + 1, state.tried + tried, state.made + made)
        shortfall = info.noise_shortfall
        return after, Info(jnp.all(info.is_finite), None if shortfall is None else jnp.min(shortfall))

    def _exchange(
        self, states: SamplerState, uniforms: Array, batch: PyTree[Array], round_: Count
    ) -> tuple[Array, Array, SamplerState]:
        """Neighbours exchange positions, even and odd pairs in turn; momenta stay with their temperature."""
        theta = raised(states.position)
        pairs = np.arange(self.ladder.shape[0] - 1)
        turn = pairs % 2 == round_ % 2
        log_ratio = jax.vmap(
            lambda k: exchange_log_ratio(
                self.own_target,
                1 / self.ladder[k] - 1 / self.ladder[k + 1],
                jax.tree.map(lambda x: x[k], theta),
                jax.tree.map(lambda x: x[k + 1], theta),
                None if self.exact else batch,
            )
        )(pairs)
        accepted = turn & (jnp.log(uniforms) < log_ratio)
        places = jnp.arange(self.ladder.shape[0])
        up = jnp.concatenate([accepted, jnp.zeros(1, bool)])
        down = jnp.concatenate([jnp.zeros(1, bool), accepted])
        source = places + up - down
        z = {**states.z, "theta": jax.tree.map(lambda x: x[source], states.position)}
        count = jnp.sum(turn).astype(jnp.uint32), jnp.sum(accepted).astype(jnp.uint32)
        return *count, states._replace(z=z)

    def record(self, state: ReplicaState) -> dict[str, Array]:
        """What the coldest replica's sampler records, and the share of exchanges tried that were made."""
        coldest = jax.tree.map(lambda x: x[0], state.replicas)
        rate = state.made / jnp.maximum(state.tried.value, 1)
        return {**self.sampler.record(coldest), "exchange_rate": rate}


def exchange_log_ratio(
    target: Target, a: Array, cold: PyTree[Array], hot: PyTree[Array], batch: PyTree[Array]
) -> Array:
    r"""log of the probability (if below 0) with which two replicas exchange, a = 1/T_cold - 1/T_hot.

    Exact, with all the data: a(U(cold) - U(hot)). By a minibatch, whose estimate of it scatters with a
    variance s²: a(Ũ(cold) - Ũ(hot)) - a²s²/2. Without that penalty noise alone would exchange; with it the
    exchanges keep detailed balance on average where the noise is normal and s² known (Ceperley and Dewing
    1999; Deng et al. 2020). Here s² is found from the same batch of n rows, which is good enough while a²s²
    is small against n: at n = 10 the log of the ratio of rates is 2 % off at a²s² = 1 and 9 % at 4.
    """
    if batch is None or not isinstance(target, TargetWithData):
        return a * (target.potential(cold) - target.potential(hot))
    rows, weights = target.weighted(batch)

    def difference(datum: PyTree[Array]) -> Array:
        return target.log_likelihood(hot, datum) - target.log_likelihood(cold, datum)

    each = target.all_rows(weights * jax.vmap(difference)(rows))
    if each.shape[0] < 2:
        raise ValueError("exchanges by minibatches need batches of two rows or more: use exact=True.")
    variance = OnlineNoise("scalar").estimate(each, getattr(batch, "scatter", 1.0))
    energy = jnp.sum(each) + target.log_prior(hot) - target.log_prior(cold)
    return a * energy - a**2 * variance / 2


def replica_exchange(
    sampler: Sampler, temperatures: Sequence[float], every: int = 50, *, exact: bool = True
) -> ReplicaExchange:
    r"""Copies of `sampler` at T·`temperatures`, whose neighbours exchange positions every `every` steps.

    The hot ones cross between modes, the coldest one, at temperature T, is the sample. An exchange of the
    replicas k and k+1 is made with probability min(1, exp(a(U_k - U_{k+1}))), a = 1/T_k - 1/T_{k+1}, by a
    pass over all the data. `exact=False` takes the step's minibatch instead, with a penalty for the variance
    of its estimate, min(1, exp(a(Ũ_k - Ũ_{k+1}) - a²s²/2)), for data too large even for that: nearly right
    where a²s² is small against the batch (`exchange_log_ratio`), and wrong without the penalty.
    `trace.sample_stats["exchange_rate"]` is the share of those tried that were made: if it is small, take
    temperatures closer together.

    Arguments:

    - `sampler`: one without a correction, as `fk.samplers.sgld(1e-3)`; one of your own says that it can be
      copied by `replicas_refused = ""`.
    - `temperatures`: at least two, increasing from 1.0; they multiply the temperature of the run.
    - `every`: steps between exchanges.
    - `exact`: whether exchanges take all the data.

    Returns a sampler of its own class, made of copies of another one, with an exact exchange between them.
    Its state holds all replicas; its position is that of the coldest.

    ```python
    sampler = fk.samplers.replica_exchange(fk.samplers.sgld(1e-3), temperatures=(1.0, 2.0, 4.0))
    trace = fk.sample(target, sampler, init=jnp.zeros(2), steps=1000)
    ```
    """
    if not isinstance(sampler, Sampler):
        raise TypeError(
            f"replica_exchange copies a sampler such as fk.samplers.sgld(1e-3), not {type(sampler).__name__}."
        )
    if sampler.is_exact:
        raise TypeError(
            "replica_exchange copies samplers without a correction such as sgld or sghmc; "
            f"{sampler.name} has one."
        )
    if sampler.replicas_refused:
        raise TypeError(
            f"replica_exchange cannot copy {sampler.name}: {sampler.replicas_refused}. It copies samplers "
            "such as fk.samplers.sgld(1e-3) or sghmc."
        )
    ladder = np.asarray(temperatures, float)
    if ladder.ndim != 1 or len(ladder) < 2 or ladder[0] != 1 or not np.all(np.diff(ladder) > 0):
        raise ValueError(
            f"temperatures must be at least two, increasing from 1.0, as (1.0, 2.0, 4.0); {temperatures} was "
            "given. They multiply the temperature of the run."
        )
    check_whole("every", every)
    return ReplicaExchange(sampler, as_arrays(ladder), every, exact)
