"""The interface of corrections: a trajectory of proposals, and a state chosen from it."""

import abc
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.module import Module
from fokker._core.random import fold_in
from fokker._core.state import State
from fokker.dynamics import SDE, Dynamics
from fokker.integrators import Correctable, Integrator, Point, Proposal
from fokker.integrators._proposal import energy, temperature_of
from fokker.integrators.noise import draw_like

# A step whose energy rises by more than this is called divergent.
DIVERGENT = 1000.0


class Step(NamedTuple):
    """A step of an integrator for given dynamics: the unit of a trajectory.

    `like`: shapes of the state.
    """

    dynamics: Dynamics | SDE
    integrator: Any
    size: Array
    like: State

    @property
    def knows_gradient(self) -> bool:
        """Whether ∇U is known apart from the step, and carried along."""
        evaluate = self.integrator.evaluate
        return jax.eval_shape(lambda z: evaluate(self.dynamics, z), self.like).gradient is not None

    def propose(self, z: State, point: Point, noise: Any = None, size: Any = None) -> Proposal:
        """The next state, with the terms of its probability."""
        h = self.size if size is None else size
        return self.integrator.propose(self.dynamics, z, noise, h, point)

    def energy(self, z: State, point: Point) -> Array:
        """H/T."""
        return energy(self.dynamics, z, point)

    def noise(self, key: Key[Array, ""], z: State) -> Any:
        """Gaussian noise for one proposal."""
        return draw_like("gaussian", key, self.integrator.noise_like(self.dynamics, z))


class Outcome(NamedTuple):
    """The state that a trajectory ends in, U and ∇U there, and statistics of it.

    `proposal` is where it would have ended; None for a tree, which has no single proposal.
    """

    z: State
    point: Point
    acceptance_rate: Array
    is_divergent: Array
    energy: Array
    num_integration_steps: Array
    is_accepted: Array | None = None
    energy_change: Array | None = None
    proposal: State | None = None
    tree_depth: Array | None = None


class Visited(NamedTuple):
    """Positions that a move visited, in order; for a tree with their doublings and directions."""

    theta: PyTree[Array]
    depth: Array | None = None
    direction: Array | None = None


class Correction(Module):
    """Trajectories, each a tree of arrays, that can be continued after every move.

    `start` one, `move` until it `is_done`, `end` it.
    """

    # Its name in words.
    label: ClassVar[str]
    # Whether one move is always enough.
    takes_one_move = False

    @property
    def max_depth(self) -> int | None:
        """The most doublings of a tree; None for other trajectories."""
        return None

    @abc.abstractmethod
    def check_integrator(self, integrator: Integrator) -> Correctable:
        """The integrator; raise, with the reason, where its steps can never be corrected."""

    @abc.abstractmethod
    def check(self, dynamics: Dynamics | SDE, integrator: Integrator, z: State) -> None:
        """Raise, with the reason, where steps of these dynamics by this integrator cannot be corrected."""

    @abc.abstractmethod
    def draw(self, key: Key[Array, ""], step: Step, z: State) -> Any:
        """The randomness of one trajectory."""

    @abc.abstractmethod
    def start(self, draws: Any, z: State, point: Point, step: Step) -> Any:
        """A trajectory that has not moved yet."""

    @abc.abstractmethod
    def move(self, trajectory: Any, step: Step) -> Any:
        """The trajectory after one more move."""

    @abc.abstractmethod
    def is_done(self, trajectory: Any) -> Array:
        """Whether there is no move left."""

    def finish(self, trajectory: Any, step: Step) -> Any:
        """The trajectory of one chain after all its moves."""
        return jax.lax.while_loop(lambda t: ~self.is_done(t), lambda t: self.move(t, step), trajectory)

    @abc.abstractmethod
    def end(self, trajectory: Any, point: Point, step: Step) -> Outcome:
        """The state chosen; `point` is that of the start."""

    @abc.abstractmethod
    def visited(self, before: Any, after: Any, step: Step) -> Visited:
        """The positions that a move visited."""

    @abc.abstractmethod
    def with_one_move(self) -> "Correction":
        """The same with trajectories of a single move, from whose acceptance a first step size is found."""

    @abc.abstractmethod
    def error_order(self, integrator: Correctable) -> float:
        """The power of the step size with which the spread of log acceptance ratios grows."""


def check_positive_temperature(dynamics: Dynamics | SDE) -> None:
    """Raise at a temperature of zero, where there is no density."""
    T = temperature_of(dynamics)
    if not isinstance(T, jax.core.Tracer) and not float(T) > 0:
        raise ValueError("a correction needs a temperature above zero: its target is exp(-H/T).")


def metropolis_rule(
    uniform: Array, energy_change: Array, is_sound: Array | bool = True
) -> tuple[Array, Array, Array]:
    """The decision of Metropolis: accept with probability min(1, e^{-ΔE}).

    Arguments:

    - `uniform`: a number, uniform between 0 and 1.
    - `energy_change`: ΔE, the change of H/T less the logarithm of the proposal's probability back over that
      there.
    - `is_sound`: whether the proposal may be accepted at all. It never is where ΔE is not finite, or at least
      1000 (`DIVERGENT`).

    Returns whether it is accepted, the probability of that, and whether the step is divergent: not sound, by
    `is_sound` or by ΔE. Arrays of any shape are decided on entry by entry.

    ```python
    accepted, rate, divergent = fk.corrections.metropolis_rule(jnp.array(0.3), jnp.array(1.0))
    ```
    """
    # Not for NaN, nor for -inf: a point of infinite density would never be left.
    is_sound = is_sound & jnp.isfinite(energy_change) & (energy_change < DIVERGENT)
    rate = jnp.where(is_sound, jnp.exp(-jnp.maximum(energy_change, 0)), 0)
    return uniform < rate, rate, ~is_sound


def number_of(count: Any) -> Array:
    """A number of moves as a 32-bit integer."""
    return jnp.asarray(count, jnp.int32)


def noise_of_move(step: Step, noise: Any, number: Array, z: State) -> Any:
    """The noise of a move: as it is for a single one, or drawn by a key and the number of the move."""
    if isinstance(noise, jax.Array) and jnp.issubdtype(noise.dtype, jax.dtypes.prng_key):
        return step.noise(fold_in(noise, number.astype(jnp.uint32)), z)
    return noise
