"""Samplers without a correction: dynamics × integrator."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.random import split
from fokker._core.required import require
from fokker._core.rounding import Rounding, draw_rounding, is_half, raised, rounded
from fokker._core.state import State, as_arrays, dimension
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics._checks import check_field, validate_state
from fokker.dynamics.hamiltonian import argument_names
from fokker.fields import Field, FieldLike, as_field, symmetric
from fokker.gradients import Estimator, OnlineNoise
from fokker.integrators import EulerMaruyama, Integrator, StepInput
from fokker.integrators._gradient import Gradient
from fokker.integrators.noise import check_noise, draw_like
from fokker.samplers._checks import check_target, prepared
from fokker.samplers._time_scale import drift_time, large_batch_potential
from fokker.samplers.contract import Followed, Info, Memory, SamplerState, all_finite
from fokker.samplers.coordinates import Coordinates, coordinates
from fokker.samplers.family import Family
from fokker.samplers.mass_matrix import MassMatrixLike, as_mass_matrix, check_size
from fokker.samplers.of_dynamics import OfDynamics, check_fit, check_waits, kinetic_temperature, may_start
from fokker.samplers.schedules import StepSize, check_step_size, step_size_at
from fokker.targets.blocks import InBlocks
from fokker.targets.target import Target, TargetWithData

GradientOfBatch = Callable[[PyTree[Array], Any], PyTree[Array]]

NO_GRADIENT = (
    "this sampler was made of dynamics and has no gradient for batches to go into: make it with "
    "fk.samplers.recipe(dynamics, step_size, gradient=lambda theta, batch: …)."
)


class OwnGradient(Estimator):
    """A function of the user's in place of ∇U, called at every step."""

    function: GradientOfBatch

    def gradient(
        self, target: Target, state: PyTree[Array], theta: PyTree[Array], batch: PyTree[Array]
    ) -> PyTree[Array]:
        """The function at theta and the batch, which may be None."""
        return self.function(theta, batch)


class StepDraws(NamedTuple):
    """The randomness of one step: unit noise, the probe of Γ, a key for a new momentum, and rounding."""

    noise: PyTree[Array]
    probe: PyTree[Array] | None = None
    key: Key[Array, ""] | None = None
    rounding: Rounding = ()


class Plain(OfDynamics):
    r"""Dynamics × integrator, such as Euler–Maruyama, z' = z + ε f̃(z) + N(0, ε(2TD - εB̂)).

    Made by `recipe`, of dynamics with a target of their own, and by the named samplers, of a family of
    dynamics that waits for a target, which `on` gives it.
    """

    dynamics: Dynamics | SDE | Family
    step_size: Any
    integrator: Integrator
    noise_estimate: Field | OnlineNoise | None = None  # type: ignore[assignment]
    gamma: str = eqx.field(static=True, default="exact")
    noise: str = eqx.field(static=True, default="gaussian")
    # Steps after which a new momentum is drawn.
    resample: int | None = eqx.field(static=True, default=None)
    target: Any = None
    # None: ∇U alone, with no place for batches to go into.
    estimator: Estimator | None = Estimator()
    temperature: Any = 1.0
    # Coordinates θ = θ₀ + S q; None moves theta as it is.
    mass_matrix: Any = None
    name: str = eqx.field(static=True, default="recipe")

    # What others ask ----------------------------------------------------------------------------------------

    @property
    def takes_batches(self) -> bool:  # type: ignore[override]
        """Unless it was made of dynamics without a gradient for them."""
        return self.estimator is not None

    @property
    def replicas_refused(self) -> str:
        """Where it has a temperature of its own."""
        return "" if self.wants_target else "it was made of dynamics, which have a temperature of their own"

    @property
    def needs_more_than_gradient(self) -> str:
        """Where it has a target of its own, looks at single data, or takes gradients within a step."""
        if not self.wants_target:
            return "it was made of dynamics, which have a target of their own"
        if isinstance(self.noise_estimate, OnlineNoise):
            return (
                f"its noise_estimate={self.noise_estimate.kind!r} is estimated from the gradients of single "
                "data, and an optimiser is given their mean. Give B̂ itself, or leave noise_estimate out; "
                "fk.samplers.sgnht absorbs noise of unknown size"
            )
        if not self.integrator.gradient_at_start:
            return (
                f"its integrator {type(self.integrator).__name__} ({self.integrator.label}) evaluates the "
                "gradient at a point that it moves to within the step, and an optimiser is given the "
                "gradient at the present parameters. Take EulerMaruyama(), SymplecticEuler() or ExactOU() of "
                "fk.integrators"
            )
        return ""

    def walls(self, theta: PyTree[Array]) -> tuple[PyTree[Array], PyTree[Array]] | None:
        """Those of the integrator."""
        return self.integrator.walls(theta)

    def in_blocks(self, rows: int) -> "Plain":
        """The same on a target that takes no more rows at a time."""
        target = self.target
        if not isinstance(target, TargetWithData) or rows >= target.size:
            return self
        return dataclasses.replace(self, target=InBlocks(target, rows))

    def follows(self, state: PyTree[Any] | None = None) -> Followed:
        """Its dynamics."""
        dynamics = self.placed
        if state is not None:
            state = self._completed(dynamics, state)
        return Followed(dynamics, state, is_refreshed=self.resample is not None)

    def _completed(self, dynamics: Dynamics | SDE, state: PyTree[Array]) -> State:
        """The whole state of a named sampler: theta alone gets its auxiliaries."""
        if not isinstance(self.dynamics, Family):
            return state
        names = set(argument_names(dynamics.hamiltonian)) | {"theta"}
        if isinstance(state, Mapping) and names <= set(state):
            return state
        is_named = isinstance(state, Mapping) and set(state) == {"theta"}
        theta = as_arrays(state["theta"] if is_named else state)
        return {"theta": theta, **self.dynamics.auxiliaries(jax.random.key(0), theta, self.temperature)}

    def fastest_time(
        self, target: Target, temperature: Number, theta: PyTree[Array], key: Key[Array, ""]
    ) -> float:
        """That of its dynamics in the coordinates of a step, by the first rows of many data."""
        placed = self.on(target, temperature)
        dynamics, z, chart = placed._enter(placed.init(theta, key=key))
        return drift_time(dynamics, z, chart.gradient(jax.grad(large_batch_potential(placed.own_target))))

    def noise_variances(
        self, state: SamplerState, positions: PyTree[Array], batch: PyTree[Array]
    ) -> tuple[Array, Array] | None:
        """By the covariance of the drift, from the spread of the gradients of single data in the batch.

        Both are those of a step in its own coordinates, in which the noise is injected.
        """
        dynamics, z, chart = self._enter(state._replace(z=raised(state.z)))
        estimator, online = self.estimator, OnlineNoise("diagonal")
        if not self.wants_target or estimator is None or not isinstance(dynamics, Dynamics):
            return None

        def by_coordinate(contribution: PyTree[Array]) -> PyTree[Array]:
            gradient = chart.gradient(lambda _: contribution)
            assert gradient is not None
            return gradient(z["theta"])

        def minibatch(position: PyTree[Array]) -> Array:
            each = estimator.contributions(self.own_target, state.memory.estimator, position, batch)
            V = online.field(online.estimate(jax.vmap(by_coordinate)(each), batch.scatter))
            return step_size_at(self.step_size, state.step) * _trace(dynamics.drift_noise(z, V), z)

        injected = 2 * dynamics.temperature * _trace(dynamics.D, z)
        return jnp.mean(jax.lax.map(minibatch, raised(positions))), injected

    def absorbs_noise(self, state: SamplerState) -> bool:
        """By a noise estimate, or a thermostat."""
        return self.noise_estimate is not None or "xi" in state.z

    def record(self, state: SamplerState) -> dict[str, Array]:
        """The kinetic temperature, and a scalar thermostat."""
        dynamics, z, _ = self._enter(state._replace(z=raised(state.z)))
        return kinetic_temperature(dynamics, z)

    # What it does -------------------------------------------------------------------------------------------

    def on(self, target: Target, temperature: Number = 1.0, gradient: Estimator | None = None) -> "Plain":
        """The sampler of exp(-U/T) for a `fk.Density` or `fk.Posterior`, by an estimator of its gradient."""
        check_waits(self.dynamics)
        by_datum = isinstance(self.noise_estimate, OnlineNoise)
        target = check_target(target, temperature, gradient, by_datum)
        T = as_arrays(temperature)
        return dataclasses.replace(self, target=target, estimator=prepared(gradient, target), temperature=T)

    def placed_in(self, coordinates: Callable[[PyTree[Array]], PyTree[Array]]) -> Dynamics | SDE:
        """The dynamics of q, at the temperature."""
        if not isinstance(self.dynamics, Family):
            return self.dynamics
        target = self.own_target
        return self.dynamics.dynamics(lambda q: target.potential(coordinates(q)), self.temperature)

    def _enter(self, state: SamplerState) -> tuple[Dynamics | SDE, State, Coordinates]:
        """The dynamics in the coordinates around a state, and that state in them."""
        chart = coordinates(state.position, self.mass_matrix)
        return self.placed_in(chart), chart.enter(state.z), chart

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from, after all checks of it.

        `position` is theta for a named sampler, whose other variables are drawn with `key`; for a sampler
        made from dynamics it is their whole state, a dictionary with every variable.
        """
        # Before the conversion: a whole number is taken for a real one, an array of integers for a mistake.
        validate_state(jax.tree.map(lambda x: float(x) if isinstance(x, int) else x, position))
        if isinstance(self.dynamics, Family):
            if key is None:
                raise ValueError("the auxiliary variables are drawn at random: pass key=jax.random.key(…).")
            stored = as_arrays(position)
            theta = raised(stored)
            check_size(self.mass_matrix, dimension(theta))
            q = coordinates(theta, self.mass_matrix).vector(theta)
            z = {"theta": stored, **self.dynamics.auxiliaries(key, q, self.temperature)}
            estimator = Estimator() if self.estimator is None else self.estimator
            memory = Memory(estimator=estimator.init(self.target, theta))
        else:
            # The variables of dynamics are a plain dictionary; theta stays the tree that it is.
            z = as_arrays(dict(position) if isinstance(position, Mapping) else position)
            memory = Memory()
        self._check_start(SamplerState(raised(z), no_steps()))
        if isinstance(self.noise_estimate, OnlineNoise):
            memory = memory._replace(noise=self.noise_estimate.init(raised(z["theta"])))
        return SamplerState(z, no_steps(), memory)

    def check_start(self, position: PyTree[Array], key: Key[Array, ""]) -> None:
        """As `init`; of dynamics that are right by their settings only U is looked at."""
        _ = self.placed  # what the settings alone tell, as a thermostat at temperature 0
        if not may_start(self, position):
            super().check_start(position, key)

    def _check_start(self, state: SamplerState) -> None:
        """Raise where the dynamics, the integrator or the noise estimate do not fit a state."""
        checked = self
        if self.wants_target:
            checked = dataclasses.replace(self, target=self.own_target.on_first_rows())
        dynamics, local, _ = checked._enter(state)
        check_fit(dynamics, self.integrator, local, self.noise_estimate is not None)
        if self.noise_estimate is None or isinstance(self.noise_estimate, OnlineNoise):
            return
        check_field(self.noise_estimate, local, "noise_estimate")
        like = dynamics.noise_like(local, self.noise_estimate)
        noise = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), like)
        h = step_size_at(self.step_size, no_steps())
        _, shortfall = dynamics.noise(local, noise, h, self.noise_estimate)
        require(
            ~(shortfall < 0),
            lambda least: ValueError(
                "2D - εB̂ is not positive semidefinite at the state given: its least eigenvalue is "
                f"{float(least):.3g}. Take a smaller step, a larger D, or a smaller noise_estimate."
            ),
            shortfall,
        )

    def draw(self, key: Key[Array, ""], state: SamplerState) -> StepDraws:
        """All the randomness of one step: it depends on the state by its shapes alone."""
        key, rounding_key = split(key) if any(map(is_half, jax.tree.leaves(state.z))) else (key, None)
        rounding = draw_rounding(rounding_key, state.z)
        state = state._replace(z=raised(state.z))
        has_others = self.gamma == "estimate" or self.resample is not None
        key, probe_key, momentum_key = split(key, 3) if has_others else (key, key, key)
        dynamics, z, _ = self._enter(state)
        like = self.integrator.noise_like(dynamics, z, self._drift_noise(dynamics, state))
        probe = _signs(probe_key, z) if self.gamma == "estimate" else None
        own_key = momentum_key if self.resample is not None else None
        return StepDraws(draw_like(self.noise, key, like), probe, own_key, rounding)

    def advance(
        self, draws: StepDraws, state: SamplerState, batch: PyTree[Array] = None, number: Count | None = None
    ) -> tuple[SamplerState, Info]:
        """One step with the randomness given.

        `number` is the number of steps taken, where the caller knows it apart from the state. It is the same
        for all chains, so that under `jax.vmap` periodic work is not done at every step.
        """
        number = state.step if number is None else number
        stored, state = state.z, state._replace(z=raised(state.z))
        gradient, memory = self._gradient(state, batch, number)
        if self.resample is not None:
            state = state._replace(z=self._with_new_momentum(state.z, draws.key, number))
        h = step_size_at(self.step_size, state.step)
        dynamics, z, chart = self._enter(state)
        # The noise estimate is from earlier batches: it must not depend on the noise that it compensates.
        step = StepInput(
            dynamics,
            z,
            chart.gradient(gradient),
            draws.noise,
            h,
            draws.probe,
            noise_estimate=self._drift_noise(dynamics, state),
        )
        z, shortfall = self.integrator.advance(step)
        z = rounded(chart.leave(z), stored, draws.rounding)
        return SamplerState(z, state.step + 1, memory), Info(all_finite(z) & jnp.all(h >= 0), shortfall)

    def _gradient(self, state: SamplerState, batch: PyTree[Array], number: Count) -> tuple[Gradient, Memory]:
        """∇Ũ as a function of theta, None for ∇U itself; and what is remembered after this batch."""
        target, estimator, memory, theta = self.target, self.estimator, state.memory, state.position
        if batch is not None and estimator is None:
            raise ValueError(NO_GRADIENT)
        if estimator is None or (batch is None and not isinstance(estimator, OwnGradient)):
            return None, memory
        before = memory.estimator
        memory = memory._replace(estimator=estimator.update(target, before, theta, batch, number))
        if isinstance(self.noise_estimate, OnlineNoise):
            each = estimator.contributions(target, before, theta, batch)
            V = self.noise_estimate.update(memory.noise, each, getattr(batch, "scatter", 1.0), number)
            memory = memory._replace(noise=V)
        return lambda theta: estimator.gradient(target, before, theta, batch), memory

    def _drift_noise(self, dynamics: Dynamics | SDE, state: SamplerState) -> Field | None:
        """B̂ at this state."""
        if not isinstance(self.noise_estimate, OnlineNoise):
            return self.noise_estimate
        assert isinstance(dynamics, Dynamics)
        return dynamics.drift_noise(state.z, self.noise_estimate.field(state.memory.noise))

    def _with_new_momentum(self, z: State, key: Key[Array, ""] | None, number: Count) -> State:
        assert isinstance(self.dynamics, Family)
        assert self.resample is not None
        auxiliaries = self.dynamics.auxiliaries

        def resampled() -> State:
            assert key is not None
            return {**z, "r": auxiliaries(key, z["r"], self.temperature)["r"]}

        return jax.lax.cond((number % self.resample == 0) & (number > 0), resampled, lambda: dict(z))


def plain(
    name: str,
    family: Family,
    step_size: StepSize,
    integrator: Integrator | None = None,
    noise_estimate: FieldLike | str | None = None,
    noise: str = "gaussian",
    resample: int | None = None,
    mass_matrix: MassMatrixLike = None,
) -> Plain:
    """A named sampler without a correction: dynamics that wait for a target."""
    if resample is not None and (not isinstance(resample, int) or resample < 1):
        raise ValueError(f"resample must be a whole number of steps, at least 1; {resample!r} was given.")
    M = as_mass_matrix(mass_matrix)
    if isinstance(M, str):
        raise ValueError(
            f"mass_matrix={M!r} is learned by samplers with a correction, such as fk.samplers.nuts(); give "
            "this one an array, or the mass_matrix that another has learned: trace.sampler.mass_matrix."
        )
    if M is not None and noise_estimate is not None:
        raise ValueError("noise_estimate is in the coordinates of theta: leave it out, or the mass_matrix.")
    check_noise(noise)
    return Plain(
        family,
        check_step_size(step_size),
        integrator or EulerMaruyama(),
        OnlineNoise(noise_estimate) if isinstance(noise_estimate, str) else as_noise_estimate(noise_estimate),
        noise=noise,
        resample=resample,
        mass_matrix=M,
        name=name,
    )


def on_variable(name: str, noise_estimate: FieldLike | str | None) -> Any:
    """B̂ of one variable as B̂ of the state; the name of an estimate, or None, unchanged."""
    return noise_estimate if isinstance(noise_estimate, str | None) else {(name, name): noise_estimate}


def as_noise_estimate(value: FieldLike | None) -> Field | None:
    """B̂ as a field: of a field, a number, a matrix or blocks."""
    if isinstance(value, Mapping):
        return symmetric(value)
    return None if value is None else as_field(value)


def _signs(key: Key[Array, ""], z: State) -> State:
    return draw_like("two-point", key, jax.eval_shape(lambda: z))


def _trace(field: Field, z: State) -> Array:
    if (diagonal := field.diagonal(z)) is None:
        return jnp.trace(field.as_matrix(z))
    return jax.tree.reduce(jnp.add, jax.tree.map(jnp.sum, diagonal))
