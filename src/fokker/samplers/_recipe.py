"""The implementation of all samplers that follow dynamics: dynamics × integrator × correction on a target."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.random import normal, split
from fokker._core.rounding import Rounding, draw_rounding, is_half, lowered, raised, rounded
from fokker._core.state import State, as_arrays, dimension, inner, ravel
from fokker.corrections import Correction, Step, Visited
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics._dynamics import argument_names, check_field, check_semidefinite, validate_state
from fokker.dynamics.hamiltonian import hamiltonian_gradient
from fokker.fields import Field
from fokker.gradients import Estimator, OnlineNoise
from fokker.integrators import Integrator
from fokker.integrators._gradient import no_force
from fokker.integrators.noise import draw_like
from fokker.samplers._checked import Claims, Followed
from fokker.samplers._checks import check_finite_start, check_position, no_batch, placed
from fokker.samplers._momentum import check_kinetic, momentum_of
from fokker.samplers._sampler import (
    Info,
    Memory,
    Sampler,
    SamplerState,
    all_finite,
    check_target,
    step_size_at,
)
from fokker.samplers.mass_matrix import Chart, check_size

GradientOfBatch = Callable[[PyTree[Array], Any], PyTree[Array]]

# Said where batches come to a sampler that cannot use them.
NO_GRADIENT = (
    "this sampler was made of dynamics and has no gradient for batches to go into: make it with "
    "fk.samplers.recipe(dynamics, step_size, gradient=lambda theta, batch: …)."
)


class Draws(NamedTuple):
    """The randomness of one step: unit noise, the probe of Γ, a key for a new momentum, and rounding."""

    noise: PyTree[Array]
    probe: PyTree[Array] | None = None
    key: Key[Array, ""] | None = None
    rounding: Rounding = ()


class CorrectedDraws(NamedTuple):
    """The randomness of one trajectory: noise for a new momentum, and that of the correction."""

    momentum: PyTree[Array] | None
    correction: Any


class Family(NamedTuple):
    """Dynamics that wait for a target.

    `label` names them; `dynamics(potential, temperature)` makes them; `auxiliaries(key, theta, temperature)`
    draws the variables beside theta to start from; `momentum(noise, theta)` makes a momentum of standard
    normal noise, absent where the mass is 1; `check(theta)` raises where a chain cannot start.
    """

    label: str
    dynamics: Callable[[Callable[..., Any], Any], Dynamics | SDE]
    auxiliaries: Callable[[Key[Array, ""], PyTree[Array], Any], dict[str, PyTree[Array]]]
    momentum: Callable[[Array, PyTree[Array]], PyTree[Array]] | None = None
    check: Callable[[PyTree[Array]], None] | None = None


def shared(make: Callable[..., Family]) -> Callable[..., Family]:
    """One family for equal settings, so that samplers that are made again share their compiled programs."""
    remembered = functools.lru_cache(maxsize=256, typed=True)(make)

    @functools.wraps(make)
    def family(*settings: Any) -> Family:
        try:
            return remembered(*settings)
        except TypeError:  # arrays and traced values have no hash
            return make(*settings)

    return family


class Recipe(Sampler):
    r"""Dynamics × integrator × correction; made by `recipe` and by the named samplers.

    Without a correction a step is the integrator's, such as Euler–Maruyama, z' = z + ε f̃(z) +
    N(0, ε(2TD - εB̂)). With one it is a trajectory of such steps, from which the correction chooses a state:
    the target is kept exactly. A named sampler waits for a target, which `on` gives it.
    """

    dynamics: Dynamics | SDE | None
    step_size: Array | Callable[[Array], Array]
    integrator: Integrator
    gradient: GradientOfBatch | None = None
    noise_estimate: Field | OnlineNoise | None = None
    gamma: str = eqx.field(static=True, default="exact")
    noise: str = eqx.field(static=True, default="gaussian")
    family: Family | None = eqx.field(static=True, default=None)
    # Steps after which an uncorrected sampler draws a new momentum.
    resample: int | None = eqx.field(static=True, default=None)
    target: Any = None
    estimator: Estimator = Estimator()
    temperature: Any = 1.0
    correction: Correction | None = None
    # Coordinates θ = θ₀ + S q; None moves theta as it is.
    mass_matrix: Any = None
    # The mean acceptance rate at which warm-up sets the step size; None where it is not learned.
    target_accept: Any = None
    # Whether the momentum is left to the dynamics ("own"), drawn for every trajectory and then no part of the
    # state ("new"), or refreshed in part: r ← κr + √(1-κ²)w with κ the persistence ("partial").
    momentum: str = eqx.field(static=True, default="own")
    persistence: Any = None
    name: str = eqx.field(static=True, default="recipe")

    def __str__(self) -> str:
        dynamics = type(self.dynamics).__name__ if self.family is None else self.family.label
        factors = [
            dynamics,
            self.integrator.label,
            *([] if self.correction is None else [self.correction.label]),
        ]
        return " × ".join(factors)

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        """With a correction."""
        return self.correction is not None

    @property
    def has_trajectories(self) -> bool:  # type: ignore[override]
        """With a correction of more than one move."""
        return self.correction is not None and not self.correction.takes_one_move

    @property
    def learns(self) -> bool:  # type: ignore[override]
        """Named samplers with a correction learn their step size and mass matrix."""
        return self.target_accept is not None

    @property
    def wants_target(self) -> bool:
        """Not where it was made from dynamics, which have one."""
        return self.family is not None

    def on(self, target: Any, temperature: Any = 1.0, gradient: Estimator | None = None) -> "Recipe":
        """The sampler of exp(-U/T) for a `fk.Density` or `fk.Posterior`, by an estimator of its gradient."""
        if self.family is None:
            raise TypeError("this sampler was made of dynamics, which have a target: call it as it is.")
        if self.correction is not None:
            return placed(self, target, temperature, gradient)
        by_datum = isinstance(self.noise_estimate, OnlineNoise)
        target = check_target(target, temperature, gradient, by_datum)
        return dataclasses.replace(
            self,
            target=target,
            estimator=(gradient or Estimator()).on(target),
            temperature=as_arrays(temperature),
        )

    @property
    def placed(self) -> Dynamics | SDE:
        """The dynamics with the target's potential in them, of theta as it is."""
        return self._placed(lambda theta: theta)

    def _placed(self, coordinates: Callable[[PyTree[Array]], PyTree[Array]]) -> Dynamics | SDE:
        """The dynamics in coordinates; with a correction T divides U, and momenta are standard normal."""
        if self.dynamics is not None:
            return self.dynamics
        assert self.family is not None
        target, T = self.own_target, self.temperature
        if self.correction is None:
            potential = lambda q: target.potential(coordinates(q))  # noqa: E731
            return self.family.dynamics(potential, T)

        def tempered(q: PyTree[Array]) -> Array:
            return (target.potential(coordinates(q)) / T).astype(jnp.result_type(*jax.tree.leaves(q)))

        return self.family.dynamics(tempered, 1.0)

    def follows(self, state: PyTree[Any] | None = None) -> Followed | None:
        """Its dynamics; with a correction the proposals are checked instead."""
        if self.correction is not None:
            return None
        dynamics = self.placed
        if self.family is not None and state is not None:
            state = self._completed(dynamics, state)
        return Followed(dynamics, state, is_refreshed=self.resample is not None)

    def _completed(self, dynamics: Dynamics | SDE, state: Any) -> State:
        """The whole state of a named sampler: theta alone gets its auxiliaries."""
        names = set(argument_names(dynamics.hamiltonian)) | {"theta"}
        if isinstance(state, Mapping) and names <= set(state):
            return state
        assert self.family is not None
        is_named = isinstance(state, Mapping) and set(state) == {"theta"}
        theta = as_arrays(state["theta"] if is_named else state)
        return {"theta": theta, **self.family.auxiliaries(jax.random.key(0), theta, self.temperature)}

    @property
    def claims(self) -> Claims:
        """With a correction, its proposals."""
        return Claims(proposals=None if self.correction is None else self)

    def _enter(self, state: SamplerState) -> tuple[Dynamics | SDE, State, Chart | None]:
        """The dynamics in the coordinates around a state, and that state in them."""
        if self.mass_matrix is None:
            return self.placed, state.z, None
        chart = Chart(state.position, self.mass_matrix)
        return self._placed(chart), {**state.z, "theta": chart.origin}, chart

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from, after all checks of it.

        `position` is theta for a named sampler, whose other variables are drawn with `key`; for a sampler
        made from dynamics it is their whole state, a dictionary with every variable.
        """
        if self.family is not None and self.correction is not None:
            return self._init_corrected(position, key)
        if self.momentum == "new" and isinstance(position, Mapping) and set(position) == {"theta"}:
            # The momentum of a start is not used: a new one is drawn.
            position = {**position, "r": position["theta"]}
        # Before the conversion: a whole number is taken for a real one, an array of integers for a mistake.
        validate_state(jax.tree.map(lambda x: float(x) if isinstance(x, int) else x, position))
        # The variables of dynamics are a plain dictionary; theta stays the tree that it is.
        stored = as_arrays(
            dict(position) if self.family is None and isinstance(position, Mapping) else position
        )
        z = raised(stored)
        memory = Memory()
        if self.family is not None:
            if key is None:
                raise ValueError("the auxiliary variables are drawn at random: pass key=jax.random.key(…).")
            memory = Memory(estimator=self.estimator.init(self.target, z))
            check_size(self.mass_matrix, dimension(z))
            coordinates = z if self.mass_matrix is None else ravel(z)
            z = {"theta": z, **self.family.auxiliaries(key, coordinates, self.temperature)}
        # With a correction a step uses all the data, and so does its check.
        in_part = self.family is not None and self.correction is None
        checked = dataclasses.replace(self, target=self.own_target.on_first_rows()) if in_part else self
        dynamics, local, _ = checked._enter(SamplerState(z, no_steps()))
        dynamics.validate(local)
        self.integrator.check(dynamics, local, self.noise_estimate is not None)
        if isinstance(dynamics, SDE):
            check_semidefinite(dynamics.D_field(local), local, "the diffusion")
        if self.correction is not None:
            check_position(self, stored, "the state")
            self.correction.check(dynamics, self.integrator, z)
            if self.momentum == "new":
                check_kinetic(dynamics, z)
            memory = Memory(self.integrator.evaluate(dynamics, z))  # type: ignore[attr-defined]
        z = lowered(z, stored) if self.family is None else {**z, "theta": stored}
        if self.momentum == "new":
            z = {name: x for name, x in z.items() if name != "r"}
        if isinstance(self.noise_estimate, OnlineNoise):
            noise = self.noise_estimate.init(raised(z["theta"]))
            return SamplerState(z, no_steps(), memory._replace(noise=noise))
        if self.noise_estimate is not None:
            self._check_noise_estimate(dynamics, self.noise_estimate, local)
        return SamplerState(z, no_steps(), memory)

    def _init_corrected(self, position: PyTree[Any], key: Key[Array, ""] | None) -> SamplerState:
        """Theta, with a momentum where the sampler keeps one, and U and ∇U there."""
        assert self.family is not None
        theta = check_position(self, position)
        check_size(self.mass_matrix, dimension(theta))
        if self.family.check is not None:
            self.family.check(theta)
        z = {"theta": theta}
        if self.momentum != "new":
            key = jax.random.key(0) if key is None else key
            z |= self.family.auxiliaries(key, ravel(theta), jnp.ones((), jnp.result_type(ravel(theta))))
        dynamics, local, _ = self._enter(SamplerState(z, no_steps()))
        point = self.integrator.evaluate(dynamics, local)  # type: ignore[attr-defined]
        check_finite_start(point.potential, point.potential if point.gradient is None else point.gradient)
        return SamplerState(z, no_steps(), Memory(point))

    def _check_noise_estimate(self, dynamics: Dynamics | SDE, noise_estimate: Field, z: State) -> None:
        check_field(noise_estimate, z, "noise_estimate")
        like = dynamics.noise_like(z, noise_estimate)
        noise = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), like)
        _, shortfall = dynamics.noise(z, noise, step_size_at(self.step_size, no_steps()), noise_estimate)
        if not isinstance(shortfall, jax.core.Tracer) and bool(shortfall < 0):
            raise ValueError(
                "2D - εB̂ is not positive semidefinite at the state given: its least eigenvalue is "
                f"{float(shortfall):.3g}. Take a smaller step, a larger D, or a smaller noise_estimate."
            )

    def _drift_noise(self, dynamics: Dynamics | SDE, state: SamplerState) -> Field | None:
        """B̂ at this state."""
        if not isinstance(self.noise_estimate, OnlineNoise):
            return self.noise_estimate
        assert isinstance(dynamics, Dynamics)
        return dynamics.drift_noise(state.z, self.noise_estimate.field(state.memory.noise))

    def draw(self, key: Key[Array, ""], state: SamplerState) -> Any:
        """All the randomness of one step: it depends on the state by its shapes alone."""
        if self.correction is not None:
            return self._draw_trajectory(key, state)
        probe_key: Any = None
        momentum_key = rounding_key = None
        if any(is_half(x) for x in jax.tree.leaves(state.z)):
            key, rounding_key = split(key)
        rounding = draw_rounding(rounding_key, state.z)
        state = state._replace(z=raised(state.z))
        if self.gamma == "estimate" or self.resample is not None:
            key, probe_key, momentum_key = split(key, 3)
        dynamics, z, _ = self._enter(state)
        like = self.integrator.noise_like(dynamics, z, self._drift_noise(dynamics, state))
        probe = _signs(probe_key, z) if self.gamma == "estimate" else None
        momentum_key = momentum_key if self.resample is not None else None
        return Draws(draw_like(self.noise, key, like), probe, momentum_key, rounding)

    def _draw_trajectory(self, key: Key[Array, ""], state: SamplerState) -> CorrectedDraws:
        assert self.correction is not None
        momentum_key, key = split(key)
        momentum = None
        step, z = self._step(state)
        if self.momentum != "own":
            x = ravel(z["theta"])
            momentum = normal(momentum_key, x.shape, x.dtype)
            z = {**z, "r": z["theta"]}
        return CorrectedDraws(momentum, self.correction.draw(key, step, z))

    def _step(self, state: SamplerState) -> tuple[Step, State]:
        """A step of the integrator in the coordinates around a state, and that state in them."""
        dynamics, z, _ = self._enter(state)
        like = jax.eval_shape(lambda: {**z, "r": z["theta"]} if self.momentum == "new" else z)
        dtype = jnp.result_type(*jax.tree.leaves(z))
        h = jnp.asarray(step_size_at(self.step_size, state.step)).astype(dtype)
        return Step(dynamics, self.integrator, h, like), z

    def start(self, draws: CorrectedDraws, state: SamplerState) -> Any:
        """A trajectory from a state, with a new momentum where the sampler draws one."""
        assert self.correction is not None
        step, z = self._step(state)
        if self.momentum != "own":
            assert draws.momentum is not None
            r = self._new_momentum(step, z, draws.momentum)
            if self.momentum == "partial":
                share = self.persistence.astype(r.dtype)
                r = share * z["r"] + jnp.sqrt(1 - share**2) * r
            z = {**z, "r": r}
        return self.correction.start(draws.correction, z, state.memory.point, step)

    def _new_momentum(self, step: Step, z: State, noise: Array) -> PyTree[Array]:
        if self.family is None:
            return momentum_of(step.dynamics, {**z, "r": z["theta"]}, noise)
        return noise if self.family.momentum is None else self.family.momentum(noise, z["theta"])

    def move(self, trajectory: Any, state: SamplerState) -> Any:
        """The trajectory that started at `state` after one more move."""
        assert self.correction is not None
        return self.correction.move(trajectory, self._step(state)[0])

    def is_done(self, trajectory: Any) -> Array:
        """Whether the trajectory has no move left."""
        assert self.correction is not None
        return self.correction.is_done(trajectory)

    def end(self, trajectory: Any, state: SamplerState) -> tuple[SamplerState, Info]:
        """The state that the correction chose from the trajectory."""
        assert self.correction is not None
        step, _ = self._step(state)
        outcome = self.correction.end(trajectory, state.memory.point, step)
        z = self._leave(outcome.z, state)
        new = SamplerState(
            {name: z[name] for name in state.z} if isinstance(z, Mapping) else z,
            state.step + 1,
            Memory(outcome.point),
        )
        proposal = outcome.proposal
        if proposal is not None:
            proposal = SamplerState(self._leave(proposal, state), state.step).position
        return new, Info(
            all_finite(new.z) & jnp.all(step.size >= 0),
            None,
            outcome.acceptance_rate,
            outcome.is_divergent,
            outcome.energy,
            outcome.num_integration_steps,
            outcome.tree_depth,
            outcome.is_accepted,
            outcome.energy_change,
            proposal,
        )

    def _leave(self, z: State, state: SamplerState) -> State:
        """A state in the coordinates around another, as the caller sees it."""
        if self.mass_matrix is None:
            return z
        return {**z, "theta": Chart(state.position, self.mass_matrix)(z["theta"])}

    def visited(self, before: Any, after: Any, state: SamplerState) -> Visited:
        """The positions that a move of a trajectory visited."""
        assert self.correction is not None
        visited_points = self.correction.visited(before, after, self._step(state)[0])
        if self.mass_matrix is None:
            return visited_points
        return visited_points._replace(
            theta=jax.vmap(Chart(state.position, self.mass_matrix))(visited_points.theta)
        )

    def trajectory(self, key: Key[Array, ""], state: SamplerState) -> Any:
        """What `step(key, state)` does, point by point: for teaching, not for use inside `jax.jit`."""
        from fokker.samplers._trajectory import trajectory_of

        return trajectory_of(self, key, state)

    def with_one_move(self) -> "Recipe":
        """The same with trajectories of a single move, by whose acceptance the first step size is found."""
        assert self.correction is not None
        return dataclasses.replace(self, correction=self.correction.with_one_move())

    @property
    def error_order(self) -> float:
        """The power of the step size with which the spread of log acceptance ratios grows."""
        assert self.correction is not None
        return self.correction.error_order(self.integrator)  # type: ignore[arg-type]

    def advance(
        self, draws: Any, state: SamplerState, batch: Any = None, number: Count | None = None
    ) -> tuple[SamplerState, Info]:
        """One step with the randomness given.

        `number` is the number of steps taken, where the caller knows it apart from the state. It is the same
        for all chains, so that under `jax.vmap` periodic work is not done at every step.
        """
        if self.correction is not None:
            no_batch(self, batch)
            trajectory = self.start(draws, state)
            if self.correction.takes_one_move:
                return self.end(self.move(trajectory, state), state)
            trajectory = jax.lax.while_loop(
                lambda t: ~self.is_done(t), lambda t: self.move(t, state), trajectory
            )
            return self.end(trajectory, state)
        number = state.step if number is None else number
        stored, state = state.z, state._replace(z=raised(state.z))
        memory, theta = state.memory, state.position
        gradient: Any = None
        if self.gradient is not None:
            of_batch = self.gradient
            gradient = lambda theta: of_batch(theta, batch)  # noqa: E731
        elif batch is not None and self.family is None:
            raise ValueError(NO_GRADIENT)
        elif batch is not None:
            estimator, estimator_memory = self.estimator, memory.estimator
            gradient = lambda theta: estimator.gradient(self.target, estimator_memory, theta, batch)  # noqa: E731
            memory = memory._replace(
                estimator=estimator.update(self.target, estimator_memory, theta, batch, number)
            )
            if isinstance(self.noise_estimate, OnlineNoise):
                each = estimator.contributions(self.target, estimator_memory, theta, batch)
                V = self.noise_estimate.update(memory.noise, each, getattr(batch, "scatter", 1.0), number)
                memory = memory._replace(noise=V)
        if self.resample is not None:
            state = state._replace(z=self._with_new_momentum(state.z, draws.key, number))
        h = step_size_at(self.step_size, state.step)
        dynamics, z, chart = self._enter(state)
        if chart is not None and gradient is not None:
            by_theta, around = gradient, chart
            gradient = lambda q: around.pull_back(by_theta(around(q)))  # noqa: E731
        z, shortfall = self.integrator.advance(
            dynamics,
            z,
            gradient,
            draws.noise,
            h,
            probe=draws.probe,
            # From earlier batches: the estimate must not depend on the noise that it compensates.
            noise_estimate=self._drift_noise(dynamics, state),
        )
        z = rounded(self._leave(z, state), stored, draws.rounding)
        return SamplerState(z, state.step + 1, memory), Info(all_finite(z) & jnp.all(h >= 0), shortfall)

    def _with_new_momentum(self, z: State, key: Any, number: Count) -> State:
        assert self.family is not None
        assert self.resample is not None
        auxiliaries = self.family.auxiliaries

        def resampled() -> State:
            return {**z, "r": auxiliaries(key, z["r"], self.temperature)["r"]}

        return jax.lax.cond((number % self.resample == 0) & (number > 0), resampled, lambda: dict(z))

    def record(self, state: SamplerState) -> dict[str, Array]:
        """The kinetic temperature rᵀ∂H/∂r / d, and a scalar thermostat."""
        record: dict[str, Array] = {}
        dynamics, z, _ = self._enter(state._replace(z=raised(state.z)))
        if isinstance(z, dict) and "r" in z:
            velocity = hamiltonian_gradient(dynamics.hamiltonian, z, no_force(dynamics, z))["r"]
            record["kinetic_temperature"] = inner(z["r"], velocity) / float(dimension(z["r"]))
        xi = z.get("xi") if isinstance(z, dict) else None
        if isinstance(xi, jax.Array) and xi.ndim == 0:  # not one for each coordinate of theta
            record["xi"] = xi
        return record


def _signs(key: Any, z: State) -> State:
    return draw_like("two-point", key, jax.eval_shape(lambda: z))
