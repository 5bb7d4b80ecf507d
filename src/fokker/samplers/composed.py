"""Dynamics × integrator × correction: a step is a trajectory, from which the correction chooses a state."""

import abc
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.state import State
from fokker._core.types import Arrays
from fokker.corrections import Correction, Step, Visited
from fokker.dynamics import SDE, Dynamics
from fokker.gradients import Estimator
from fokker.integrators import Correctable
from fokker.samplers import _checks
from fokker.samplers._trajectory import Trajectory, trajectory_of
from fokker.samplers.contract import Info, Memory, SamplerState, all_finite
from fokker.samplers.coordinates import Coordinates, coordinates
from fokker.samplers.family import Family
from fokker.samplers.of_dynamics import OfDynamics, check_waits
from fokker.samplers.schedules import StepSize, step_size_at
from fokker.samplers.trajectory_sampler import TrajectorySampler
from fokker.targets.target import Target


class TrajectoryDraws(NamedTuple):
    """The randomness of one trajectory: noise for a new momentum or direction, and that of the correction."""

    momentum: PyTree[Array] | None
    correction: PyTree[Array]


class Composed(OfDynamics, TrajectorySampler):
    """Dynamics × integrator × correction: `Corrected`, and `Microcanonical`, whose momentum is a direction.

    They differ in what they refresh: the momentum or direction before a trajectory, and on its way. The rest
    of a step is here.
    """

    if TYPE_CHECKING:  # fields of the classes derived from it, or properties

        @property
        def step_size(self) -> StepSize:
            """ε."""

        @property
        def temperature(self) -> float | Array:
            """T."""

        @property
        def integrator(self) -> Correctable:
            """One step of time, of which the way back is known."""

        @property
        def correction(self) -> Correction:
            """What chooses a state from a trajectory."""

    def __str__(self) -> str:
        return f"{super().__str__()} × {self.correction.label}"

    # What the two of them say -------------------------------------------------------------------------------

    def coordinates(self, position: PyTree[Array]) -> Coordinates:
        """Those in which a trajectory from a position moves."""
        return coordinates(position, None)

    @abc.abstractmethod
    def refreshed(self, noise: PyTree[Array], step: Step, z: State) -> State:
        """The state with a new momentum or direction, made of unit noise, before a trajectory."""

    def check_theta(self, theta: PyTree[Array]) -> None:
        """Raise where a chain cannot start."""
        if isinstance(self.dynamics, Family):
            self.dynamics.check(theta)

    @abc.abstractmethod
    def auxiliaries(self, key: Key[Array, ""] | None, theta: PyTree[Array]) -> State:
        """The variables that a state has beside theta, at the start."""

    def shapes(self, z: State) -> State:
        """The shapes of a state on a trajectory."""
        return jax.eval_shape(lambda: z)

    # What it does -------------------------------------------------------------------------------------------

    def on(self, target: Target, temperature: float | Array = 1.0, gradient: Estimator | None = None) -> Self:
        """The sampler of exp(-U/T) for a `fk.Density` or `fk.Posterior`."""
        check_waits(self.dynamics)
        return _checks.placed(self, target, temperature, gradient)

    def placed_in(self, coordinates: Callable[[PyTree[Array]], PyTree[Array]]) -> Dynamics | SDE:
        """The dynamics of q; T divides U, and momenta are standard normal."""
        if not isinstance(self.dynamics, Family):
            return self.dynamics
        target, T = self.own_target, self.temperature

        def tempered(q: PyTree[Array]) -> Array:
            return (target.potential(coordinates(q)) / T).astype(jnp.result_type(*jax.tree.leaves(q)))

        return self.dynamics.dynamics(tempered, 1.0)

    def local_step(self, state: SamplerState) -> tuple[Step, State]:
        """A step of the integrator in the coordinates around a state, and that state in them."""
        chart = self.coordinates(state.position)
        dynamics, z = self.placed_in(chart), chart.enter(state.z)
        dtype = jnp.result_type(*jax.tree.leaves(z))
        h = jnp.asarray(step_size_at(self.step_size, state.step)).astype(dtype)
        return Step(dynamics, self.integrator, h, self.shapes(z)), z

    def leave(self, z: State, state: SamplerState) -> State:
        """A state in the coordinates around another, as the caller sees it."""
        return self.coordinates(state.position).leave(z)

    def init(self, position: PyTree[Array], *, key: Key[Array, ""] | None = None) -> SamplerState:
        """The state to start from, after all checks of it, with U and ∇U there.

        `position` is theta; the auxiliary variables that a state keeps are drawn with `key`.
        """
        theta = _checks.check_position(self, position)
        self.check_theta(theta)
        z = {"theta": theta, **self.auxiliaries(key, theta)}
        chart = self.coordinates(theta)
        point = self.integrator.evaluate(self.placed_in(chart), chart.enter(z))
        _checks.check_finite_point(point)
        return SamplerState(z, no_steps(), Memory(point))

    def start(self, draws: TrajectoryDraws, state: SamplerState) -> PyTree[Array]:
        """A trajectory from a state, with a new momentum or direction where the sampler draws one."""
        step, z = self.local_step(state)
        if draws.momentum is not None:
            z = self.refreshed(draws.momentum, step, z)
        return self.correction.start(draws.correction, z, state.memory.point, step)

    def move(self, trajectory: PyTree[Array], state: SamplerState) -> PyTree[Array]:
        """The trajectory that started at `state` after one more move."""
        return self.correction.move(trajectory, self.local_step(state)[0])

    def is_done(self, trajectory: PyTree[Array]) -> Array:
        """Whether the trajectory has no move left."""
        return self.correction.is_done(trajectory)

    def finish(self, trajectory: PyTree[Array], state: SamplerState) -> PyTree[Array]:
        """The trajectory of one chain that started at `state` after all its moves."""
        return self.correction.finish(trajectory, self.local_step(state)[0])

    def end(self, trajectory: PyTree[Array], state: SamplerState) -> tuple[SamplerState, Info]:
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

    def visited(self, before: PyTree[Array], after: PyTree[Array], state: SamplerState) -> Visited:
        """The positions that a move of a trajectory visited."""
        points = self.correction.visited(before, after, self.local_step(state)[0])
        return points._replace(theta=jax.vmap(self.coordinates(state.position))(points.theta))

    def advance(
        self, draws: TrajectoryDraws, state: SamplerState, batch: Arrays = None, number: Count | None = None
    ) -> tuple[SamplerState, Info]:
        """One step with the randomness given."""
        _checks.no_batch(self, batch)
        trajectory = self.start(draws, state)
        if self.correction.takes_one_move:
            return self.end(self.move(trajectory, state), state)
        trajectory = jax.lax.while_loop(lambda t: ~self.is_done(t), lambda t: self.move(t, state), trajectory)
        return self.end(trajectory, state)

    def trajectory(self, key: Key[Array, ""], state: SamplerState) -> Trajectory:
        """What `step(key, state)` does, point by point: for teaching, not for use inside `jax.jit`."""
        return trajectory_of(self, key, state)
