"""Samplers with a correction: dynamics × integrator × correction, exact at every step size."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.random import normal, split
from fokker._core.state import State, as_arrays, dimension, ravel
from fokker.corrections import Correction, Step, Visited
from fokker.dynamics import SDE, Dynamics
from fokker.gradients import Estimator
from fokker.integrators import Correctable
from fokker.samplers import _checks
from fokker.samplers._momentum import Momentum, OwnMomentum, check_kinetic, momentum_of
from fokker.samplers._shared import check_fit, check_waits, kinetic_temperature, name_of
from fokker.samplers._trajectory import Trajectory, trajectory_of
from fokker.samplers.contract import Claims, Info, Memory, SamplerState, TrajectorySampler, all_finite
from fokker.samplers.family import Family
from fokker.samplers.mass_matrix import as_mass_matrix, check_size, coordinates
from fokker.samplers.schedules import check_step_size, step_size_at


class Draws(NamedTuple):
    """The randomness of one trajectory: noise for a new momentum, and that of the correction."""

    momentum: PyTree[Array] | None
    correction: Any


class Corrected(TrajectorySampler):
    r"""Dynamics × integrator × correction.

    A step is a trajectory of steps of the integrator, from which the correction chooses a state: the target
    is kept exactly. Made by `recipe`, of dynamics with a target of their own, and by the named samplers, of a
    family of dynamics that waits for a target, which `on` gives it.
    """

    dynamics: Dynamics | SDE | Family
    step_size: Any
    integrator: Correctable
    target: Any = None
    temperature: Any = 1.0
    correction: Correction = eqx.field(kw_only=True)
    # Coordinates θ = θ₀ + S q; None moves theta as it is.
    mass_matrix: Any = None
    # The mean acceptance rate at which warm-up sets the step size; None where it is not learned.
    target_accept: Any = None
    momentum: Momentum = OwnMomentum()
    name: str = eqx.field(static=True, default="recipe")

    is_exact = True

    def __str__(self) -> str:
        return f"{name_of(self.dynamics)} × {self.integrator.label} × {self.correction.label}"

    # What others ask ----------------------------------------------------------------------------------------

    @property
    def own_dynamics(self) -> Dynamics | SDE | None:
        """Those that it was made of."""
        return None if isinstance(self.dynamics, Family) else self.dynamics

    @property
    def has_trajectories(self) -> bool:  # type: ignore[override]
        """Where the correction takes more than one move."""
        return not self.correction.takes_one_move

    @property
    def learns(self) -> bool:  # type: ignore[override]
        """Named samplers learn their step size and mass matrix."""
        return self.target_accept is not None

    @property
    def holds_potential(self) -> bool:
        """Named samplers carry U and ∇U along."""
        return self.wants_target

    @property
    def max_tree_depth(self) -> int | None:
        """That of the correction."""
        return self.correction.max_depth

    @property
    def batches_undivided(self) -> str:
        """Where it was made of dynamics."""
        return "" if self.wants_target else "a sampler made of dynamics computes its gradient itself"

    @property
    def needs_more_than_gradient(self) -> str:
        """It needs the target."""
        return (
            "it accepts and rejects by the value of the target on all the data, and an optimiser is given "
            "gradients"
        )

    @property
    def claims(self) -> Claims:
        """Its proposals."""
        return Claims(proposals=self)

    def with_one_move(self) -> "Corrected":
        """The same with trajectories of a single move, by whose acceptance the first step size is found."""
        return dataclasses.replace(self, correction=self.correction.with_one_move())

    @property
    def error_order(self) -> float:
        """The power of the step size with which the spread of log acceptance ratios grows."""
        return self.correction.error_order(self.integrator)

    def record(self, state: SamplerState) -> dict[str, Array]:
        """The kinetic temperature, where the state has a momentum."""
        step, z = self.local_step(state)
        return kinetic_temperature(step.dynamics, z)

    def trajectory(self, key: Key[Array, ""], state: SamplerState) -> Trajectory:
        """What `step(key, state)` does, point by point: for teaching, not for use inside `jax.jit`."""
        return trajectory_of(self, key, state)

    # What it does -------------------------------------------------------------------------------------------

    def on(self, target: Any, temperature: Any = 1.0, gradient: Estimator | None = None) -> "Corrected":
        """The sampler of exp(-U/T) for a `fk.Density` or `fk.Posterior`."""
        check_waits(self.dynamics)
        return _checks.placed(self, target, temperature, gradient)

    @property
    def placed(self) -> Dynamics | SDE:
        """The dynamics with the target's potential in them, of theta as it is."""
        return self._placed(lambda theta: theta)

    def _placed(self, coordinates: Callable[[PyTree[Array]], PyTree[Array]]) -> Dynamics | SDE:
        """The dynamics in coordinates; T divides U, and momenta are standard normal."""
        if not isinstance(self.dynamics, Family):
            return self.dynamics
        target, T = self.own_target, self.temperature

        def tempered(q: PyTree[Array]) -> Array:
            return (target.potential(coordinates(q)) / T).astype(jnp.result_type(*jax.tree.leaves(q)))

        return self.dynamics.dynamics(tempered, 1.0)

    def local_step(self, state: SamplerState) -> tuple[Step, State]:
        """A step of the integrator in the coordinates around a state, and that state in them."""
        chart = coordinates(state.position, self.mass_matrix)
        dynamics, z = self._placed(chart), chart.enter(state.z)
        like = jax.eval_shape(lambda: z if self.momentum.is_stored else {**z, "r": z["theta"]})
        dtype = jnp.result_type(*jax.tree.leaves(z))
        h = jnp.asarray(step_size_at(self.step_size, state.step)).astype(dtype)
        return Step(dynamics, self.integrator, h, like), z

    def leave(self, z: State, state: SamplerState) -> State:
        """A state in the coordinates around another, as the caller sees it."""
        return coordinates(state.position, self.mass_matrix).leave(z)

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from, after all checks of it, with U and ∇U there.

        `position` is theta for a named sampler, whose momentum is drawn with `key` where it keeps one; for a
        sampler made from dynamics it is their whole state, a dictionary with every variable.
        """
        if not isinstance(self.dynamics, Family):
            return self._init_own(self.dynamics, position)
        theta = _checks.check_position(self, position)
        check_size(self.mass_matrix, dimension(theta))
        self.dynamics.check(theta)
        z = {"theta": theta}
        if self.momentum.is_stored:
            key = jax.random.key(0) if key is None else key
            q = ravel(theta)
            z |= self.dynamics.auxiliaries(key, q, jnp.ones((), jnp.result_type(q)))
        chart = coordinates(theta, self.mass_matrix)
        point = self.integrator.evaluate(self._placed(chart), chart.enter(z))
        _checks.check_finite_point(point)
        return SamplerState(z, no_steps(), Memory(point))

    def _init_own(self, dynamics: Dynamics | SDE, position: PyTree[Any]) -> SamplerState:
        """The start of dynamics with a target of their own, whose variables are a plain dictionary."""
        if not self.momentum.is_stored and isinstance(position, Mapping) and set(position) == {"theta"}:
            # The momentum of a start is not used: a new one is drawn.
            position = {**position, "r": position["theta"]}
        is_named = isinstance(position, Mapping)
        z = _checks.check_position(self, dict(position) if is_named else position, "the state")
        check_fit(dynamics, self.integrator, z)
        self.correction.check(dynamics, self.integrator, z)
        if not self.momentum.is_stored:
            check_kinetic(dynamics, z)
        memory = Memory(self.integrator.evaluate(dynamics, z))
        if not self.momentum.is_stored:
            z = {name: x for name, x in z.items() if name != "r"}
        return SamplerState(z, no_steps(), memory)

    def draw(self, key: Key[Array, ""], state: SamplerState) -> Draws:
        """All the randomness of one step: it depends on the state by its shapes alone."""
        momentum_key, key = split(key)
        momentum = None
        step, z = self.local_step(state)
        if self.momentum.is_drawn:
            x = ravel(z["theta"])
            momentum = normal(momentum_key, x.shape, x.dtype)
            z = {**z, "r": z["theta"]}
        return Draws(momentum, self.correction.draw(key, step, z))

    def start(self, draws: Draws, state: SamplerState) -> Any:
        """A trajectory from a state, with a new momentum where the sampler draws one."""
        step, z = self.local_step(state)
        if draws.momentum is not None:
            new = self._new_momentum(step, z, draws.momentum)
            z = {**z, "r": self.momentum.refreshed(z, new)}
        return self.correction.start(draws.correction, z, state.memory.point, step)

    def _new_momentum(self, step: Step, z: State, noise: Array) -> PyTree[Array]:
        if isinstance(self.dynamics, Family):
            return self.dynamics.new_momentum(noise, z["theta"])
        return momentum_of(step.dynamics, {**z, "r": z["theta"]}, noise)

    def move(self, trajectory: Any, state: SamplerState) -> Any:
        """The trajectory that started at `state` after one more move."""
        return self.correction.move(trajectory, self.local_step(state)[0])

    def is_done(self, trajectory: Any) -> Array:
        """Whether the trajectory has no move left."""
        return self.correction.is_done(trajectory)

    def end(self, trajectory: Any, state: SamplerState) -> tuple[SamplerState, Info]:
        """The state that the correction chose from the trajectory."""
        step, _ = self.local_step(state)
        outcome = self.correction.end(trajectory, state.memory.point, step)
        z = self.leave(outcome.z, state)
        new = SamplerState(
            {name: z[name] for name in state.z} if isinstance(z, Mapping) else z,
            state.step + 1,
            Memory(outcome.point),
        )
        proposal = outcome.proposal
        if proposal is not None:
            proposal = SamplerState(self.leave(proposal, state), state.step).position
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

    def visited(self, before: Any, after: Any, state: SamplerState) -> Visited:
        """The positions that a move of a trajectory visited."""
        points = self.correction.visited(before, after, self.local_step(state)[0])
        return points._replace(theta=jax.vmap(coordinates(state.position, self.mass_matrix))(points.theta))

    def advance(
        self, draws: Draws, state: SamplerState, batch: Any = None, number: Count | None = None
    ) -> tuple[SamplerState, Info]:
        """One step with the randomness given."""
        _checks.no_batch(self, batch)
        trajectory = self.start(draws, state)
        if not self.has_trajectories:
            return self.end(self.move(trajectory, state), state)
        trajectory = jax.lax.while_loop(lambda t: ~self.is_done(t), lambda t: self.move(t, state), trajectory)
        return self.end(trajectory, state)


def corrected(
    name: str,
    family: Family,
    integrator: Correctable,
    correction: Correction,
    step_size: Any,
    mass_matrix: Any,
    target_accept: float,
    momentum: Momentum | None = None,
) -> Corrected:
    """A named sampler with a correction, which learns its step size and mass matrix."""
    # As a float: inside a compiled function JAX traces a comparison even of values that are known.
    if not isinstance(target_accept, jax.core.Tracer) and not 0 < float(target_accept) < 1:
        raise ValueError(f"target_accept must be between 0 and 1; {target_accept} was given.")
    if callable(step_size):
        raise ValueError("this sampler keeps its target at every step size: give a number, not a schedule.")
    if jnp.ndim(step_size):
        raise ValueError(
            f"the step size is one number, not an array of shape {jnp.shape(step_size)}; for one per "
            "coordinate give masses as the mass_matrix."
        )
    return Corrected(
        family,
        check_step_size(step_size),
        integrator,
        correction=correction,
        mass_matrix=as_mass_matrix(mass_matrix),
        target_accept=as_arrays(target_accept),
        momentum=momentum or OwnMomentum(),
        name=name,
    )
