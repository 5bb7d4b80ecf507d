"""The interface of samplers: `on` a target, pure `init` and `step`."""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count, StepNumber
from fokker._core.module import Module
from fokker._core.parts import dealt
from fokker._core.state import State, as_arrays
from fokker.dynamics._dynamics import check_temperature
from fokker.gradients import Estimator
from fokker.integrators import Point
from fokker.samplers._checked import Claims, Followed
from fokker.targets.target import TargetWithData, check_is_target


class Memory(NamedTuple):
    """What a sampler remembers beside its state.

    `point`: U and ∇U there, for corrections. `estimator`: what the gradient estimator remembers. `noise`: the
    running estimate of the gradient's covariance.
    """

    point: Point = Point()
    estimator: PyTree[Array] = ()
    noise: PyTree[Array] = ()


class SamplerState(NamedTuple):
    """What the next step needs.

    `z`: the state of the dynamics. `step`: the number of steps taken, of 64 bits: `int(state.step)`, or
    `state.step.fold_into(key)` in a loop of your own. `memory`: what else the sampler remembers.
    """

    z: State
    step: Count
    memory: Memory = Memory()

    @property
    def position(self) -> PyTree[Array]:
        """theta, or the whole state where it has no variable of that name."""
        return theta_of(self.z)


class Info(NamedTuple):
    """Statistics of a step; None where they do not apply to the sampler.

    `is_finite`: whether every number still is. `noise_shortfall`: the least eigenvalue of 2TD - εB̂ found
    below zero, 0 where there is none; below zero the step could not subtract the minibatch noise asked for.
    Of a step with a correction: `acceptance_rate`, the probability with which it was accepted, of a tree the
    mean over its points; `is_divergent`, whether the energy rose too far to be trusted; `energy`, H/T at the
    start of its trajectory; `num_integration_steps`; and for single proposals `is_accepted`, `energy_change`
    and the position `proposal`. `tree_depth`: doublings of a tree. `evaluations`: of U.
    """

    is_finite: Array
    noise_shortfall: Array | None = None
    acceptance_rate: Array | None = None
    is_divergent: Array | None = None
    energy: Array | None = None
    num_integration_steps: Array | None = None
    tree_depth: Array | None = None
    is_accepted: Array | None = None
    energy_change: Array | None = None
    proposal: PyTree[Array] | None = None
    evaluations: Array | None = None

    @property
    def stats(self) -> dict[str, Array]:
        """What a run records for every draw."""
        names = ("acceptance_rate", "is_divergent", "energy", "num_integration_steps", "tree_depth")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


class Warmed(NamedTuple):
    """A sampler with the settings learned in warm-up, the positions of its chains, and warnings."""

    sampler: "Sampler"
    positions: PyTree[Array]
    notes: tuple[str, ...] = ()


def computed(taken: int, like: Any, compute: Callable[[], Any]) -> Any:
    """A stage of warm-up that is not noted down."""
    return compute()


class Sampler(Module):
    """A sampler of exp(-U/T).

    `on(target, temperature)` gives it a target; then `init(position, key=…)` makes a state and
    `step(key, state, batch)` the next one. A step is `advance` with the randomness of `draw`, which callers
    may draw for many steps at once.
    """

    @property
    def wants_target(self) -> bool:
        """Whether it needs a target, by `on`, before use."""
        return True

    @property
    def own_target(self) -> Any:
        """The target that `on` gave it."""
        target = getattr(self, "target", None)
        if target is None:
            raise ValueError(
                "this sampler has no target yet: call fk.sample(target, sampler, …), or sampler.on(target) "
                "to use init and step yourself."
            )
        return target

    @abc.abstractmethod
    def on(self, target: Any, temperature: Any = 1.0, gradient: Estimator | None = None) -> "Sampler":
        """The sampler of exp(-U/T) for a target, by an estimator of its gradient."""

    @abc.abstractmethod
    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> Any:
        """The state to start from; raises where something is wrong with it."""

    @abc.abstractmethod
    def draw(self, key: Key[Array, ""], state: Any) -> PyTree[Array]:
        """All the randomness of one step: it depends on the state by its shapes alone."""

    @abc.abstractmethod
    def advance(
        self, draws: Any, state: Any, batch: Any = None, number: Count | None = None
    ) -> tuple[Any, Info]:
        """One step with the randomness given; `number` of steps taken where the caller knows it."""

    def position(self, state: Any) -> PyTree[Array]:
        """theta of a state, as a run stores it."""
        return state.position

    def record(self, state: Any) -> dict[str, Array]:
        """Numbers about a state to record with its position."""
        return {}

    def step(self, key: Key[Array, ""], state: Any, batch: Any = None) -> tuple[Any, Info]:
        """One step; pure, for use inside `jax.jit`, `jax.vmap` and `jax.lax.scan`."""
        return self.advance(self.draw(key, state), state, batch)

    # Whether an automatic step size is learned by `warm_up`, and not by the trials of `fk.tune`.
    learns = False
    # Whether the step size leaves no bias: a sampler that does not say so is not taken to be exact.
    is_exact = False
    # Whether a step is a trajectory of any number of moves: `start`, `move`, `is_done`, `end`.
    has_trajectories = False

    def follows(self, state: PyTree[Any] | None = None) -> Followed | None:
        """The continuous dynamics that its steps approximate, for `fk.check`; None where there are none.

        `state` is theta or a state of the dynamics, as the user gave it.
        """
        return None

    @property
    def claims(self) -> Claims:
        """The parts of a step that keep the target by an identity, for `fk.check` to test."""
        return Claims()

    def warm_up(
        self,
        positions: PyTree[Array],
        keys: Key[Array, " chains"],
        steps: int,
        stage: Callable[..., Any] = computed,
    ) -> Warmed:
        """The sampler with its settings learned by `steps` steps of all chains, for samplers that learn.

        Its stages are `stage(taken, like, compute)`: after `taken` steps, the result of `compute()`, which is
        a tree like `like` and a dictionary of arrays. One that is known from before is not computed again.
        """
        raise TypeError("this sampler learns nothing in warm-up: find its settings with fk.tune.")

    def with_step_size(self, step_size: Any) -> Self:
        """The same with another step size."""
        return dataclasses.replace(self, step_size=check_step_size(step_size))  # type: ignore[call-arg]


def theta_of(state: PyTree[Any]) -> PyTree[Any]:
    """The variable theta of a state that has one; else the state is theta itself."""
    return state["theta"] if isinstance(state, Mapping) and "theta" in state else state


# Steps whose randomness is drawn at once: enough to amortise drawing, little enough to fit the cache.
CHUNK = 500
_CHUNK_NUMBERS = 2**22


def chunk_length(numbers: int, most: int = CHUNK) -> int:
    """Steps whose randomness is drawn at once, where one step of all chains takes this many numbers."""
    return max(1, min(most, _CHUNK_NUMBERS // max(1, numbers)))


# Compiled, so that values which init computes only for validation are left out.
@eqx.filter_jit
def start_chains(sampler: Sampler, positions: PyTree[Array], keys: Key[Array, " chains"]) -> Any:
    """The first states of many chains."""
    return dealt(jax.vmap(lambda theta, key: sampler.init(theta, key=key))(positions, keys), 1)


AUTOMATIC = "auto"


def is_automatic(sampler: Sampler) -> bool:
    """Whether the step size is still to be found."""
    return isinstance(getattr(sampler, "step_size", None), str)


def step_size_at(step_size: Any, step: Any) -> Array:
    """ε at a step, of a constant or a schedule."""
    if isinstance(step_size, str):
        raise ValueError(
            "the step size is left to be found: fk.sample finds it, or fk.tune(target, sampler, …).sampler."
        )
    if not callable(step_size):
        return step_size
    return step_size(StepNumber.of(step) if isinstance(step, Count) else step)


def check_step_size(step_size: Any) -> Any:
    """A number, a schedule or "auto"; raise unless it is positive, a schedule at its start."""
    if isinstance(step_size, str):
        if step_size != AUTOMATIC:
            raise ValueError(f"the step size is a number, a schedule or {AUTOMATIC!r}, not {step_size!r}.")
        return step_size
    if step_size is None:
        raise ValueError(f"the step size is a number, a schedule or {AUTOMATIC!r}, not None.")
    step = step_size if callable(step_size) else as_arrays(step_size)
    first = step(StepNumber.of(0)) if callable(step) else step
    if not isinstance(first, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(first) & (first > 0))):
        raise ValueError(f"the step size must be a positive number; {first} was given.")
    return step


def check_target(target: Any, temperature: Any, gradient: Any, by_datum: bool = False) -> Any:
    """The target at a temperature; raise unless a sampler can be put on it with this estimator."""
    check_is_target(target)
    if gradient is not None and not isinstance(gradient, Estimator):
        raise TypeError(f"gradient must be one of fk.gradients, not {type(gradient).__name__}.")
    if not isinstance(target, TargetWithData) and (by_datum or gradient is not None):
        raise TypeError(
            "estimators of the gradient and of its noise look at single data: give a fk.Posterior as the "
            "target."
        )
    check_temperature(as_arrays(temperature))
    # The change of variables of a constrained target is not tempered.
    return target.at_temperature(as_arrays(temperature))


def all_finite(z: PyTree[Array]) -> Array:
    """Whether every number of a tree is finite."""
    return jax.tree.reduce(jnp.logical_and, jax.tree.map(lambda x: jnp.all(jnp.isfinite(x)), z))
