"""The contract of samplers: what they do, and what the rest of the library needs to know about them.

Everything that the checker, the tuner, the driver, the store, the mesh and the summary ask of a sampler is a
method or property of `Sampler`. Each has a default that is safe for a sampler that does not say.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.module import Module
from fokker._core.parts import dealt
from fokker._core.state import State
from fokker.dynamics import SDE, Dynamics
from fokker.gradients import Estimator
from fokker.integrators import Point
from fokker.samplers._time_scale import curvature_time, drift_time
from fokker.samplers.schedules import StepSize, check_step_size
from fokker.targets.target import Target


class Memory(NamedTuple):
    """What a sampler remembers beside its state.

    `point`: U and ∇U there, for corrections. `estimator`: what the gradient estimator remembers. `noise`: the
    running estimate of the gradient's covariance. `rows`: of `fk.lazy`, when each row was last seen.
    """

    point: Point = Point()
    estimator: PyTree[Array] = ()
    noise: PyTree[Array] = ()
    rows: PyTree[Array] = ()


class SamplerState(NamedTuple):
    """What the next step needs.

    `z`: the state of the dynamics. `step`: the number of steps taken, of 64 bits: `int(state.step)`, or
    `state.step.fold_into(key)` in a loop of your own. `memory`: what else the sampler remembers.
    """

    z: State
    step: Count
    memory: Memory = Memory()

    @classmethod
    def first(cls, z: State) -> "SamplerState":
        """Before the first step."""
        return cls(z, no_steps())

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


class Followed(NamedTuple):
    """The continuous dynamics that the steps of a sampler approximate.

    `state`: a whole state of them, with its auxiliaries; None where the shapes are not known. `spheres`: the
    variables that are unit vectors. `is_refreshed`: whether a momentum or a direction is also drawn again
    from time to time. `notes`: what these dynamics leave out. `doubt`: why the sampler may be wrong although
    they are right.
    """

    dynamics: Dynamics | SDE
    state: State | None
    spheres: tuple[str, ...] = ()
    is_refreshed: bool = False
    notes: tuple[str, ...] = ()
    doubt: str | None = None


class Exchange(NamedTuple):
    """Exchanges of two copies: the log of their probability by the two positions, and T_hot / T_cold."""

    log_ratio: Callable[[PyTree[Array], PyTree[Array]], Array]
    warmer: Array


class Claims(NamedTuple):
    """What a sampler claims to be exact, part by part: `fk.check` compares each with the target's density.

    `proposals`: a `fokker.samplers.corrected.Corrected`, whose proposals and acceptance are checked. `turn`:
    a step (theta, u) → (theta, u, log ratio) with a direction u on the unit sphere, which leads back when u
    is reversed and changes volume by the ratio. `exchange`: exchanges between two temperatures. Where all are
    None, an exact sampler is checked by averages over its own steps.
    """

    proposals: Any = None
    turn: Callable[[PyTree[Array], Array], tuple[PyTree[Array], Array, Array]] | None = None
    exchange: Exchange | None = None


def computed(taken: int, like: Any, compute: Callable[[], Any]) -> Any:
    """A stage of warm-up that is not noted down."""
    return compute()


class Sampler(Module):
    """A sampler of exp(-U/T).

    `on(target, temperature)` gives it a target; then `init(position, key=…)` makes a state and
    `step(key, state, batch)` the next one. A step is `advance` with the randomness of `draw`, which callers
    may draw for many steps at once. Only `on`, `init`, `draw` and `advance` have to be defined. A sampler
    keeps its step size, target and temperature in fields `step_size`, `target` and `temperature`, as far as
    it has them.
    """

    # What it does ---------------------------------------------------------------------------------------

    @abc.abstractmethod
    def on(self, target: Any, temperature: Any = 1.0, gradient: Estimator | None = None) -> "Sampler":
        """The sampler of exp(-U/T) for a target, by an estimator of its gradient."""

    @abc.abstractmethod
    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> Any:
        """The state to start from, after all checks of it."""

    @abc.abstractmethod
    def draw(self, key: Key[Array, ""], state: Any) -> Any:
        """All the randomness of one step: it depends on the state by its shapes alone."""

    @abc.abstractmethod
    def advance(
        self, draws: Any, state: Any, batch: Any = None, number: Count | None = None
    ) -> tuple[Any, Info]:
        """One step with the randomness given; `number` of steps taken where the caller knows it."""

    def step(self, key: Key[Array, ""], state: Any, batch: Any = None) -> tuple[Any, Info]:
        """One step; pure, for use inside `jax.jit`, `jax.vmap` and `jax.lax.scan`."""
        return self.advance(self.draw(key, state), state, batch)

    def position(self, state: Any) -> PyTree[Array]:
        """theta of a state, as a run stores it."""
        return state.position

    def record(self, state: Any) -> dict[str, Array]:
        """Numbers about a state to record with its position."""
        return {}

    def synchronised(self, key: Key[Array, ""], state: Any) -> Any:
        """The state with all of theta at the same time, for samplers that move parts of it when needed."""
        return state

    def with_target(self, target: Target) -> Self:
        """The same on a target that differs in its numbers alone, such as the means of the priors."""
        return dataclasses.replace(self, target=target)  # type: ignore[call-arg]

    def trajectory(self, key: Key[Array, ""], state: Any) -> Any:
        """What `step(key, state)` does, point by point: for teaching, not for use inside `jax.jit`."""
        raise ValueError("a step without a correction has no trajectory: it is one point.")

    def with_step_size(self, step_size: StepSize) -> Self:
        """The same with another step size."""
        return dataclasses.replace(self, step_size=check_step_size(step_size))  # type: ignore[call-arg]

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

    # Its settings, by the fields that it has ----------------------------------------------------------------

    @property
    def name(self) -> str:
        """As in `fk.samplers`."""
        return type(self).__name__

    @property
    def own_step_size(self) -> StepSize | None:
        """A number, a schedule or "auto"; None where it has no step size."""
        return getattr(self, "step_size", None)

    @property
    def is_automatic(self) -> bool:
        """Whether the step size is still to be found."""
        return isinstance(self.own_step_size, str)

    @property
    def own_temperature(self) -> Any:
        """T."""
        dynamics = self.own_dynamics
        if dynamics is not None:
            return dynamics.temperature if isinstance(dynamics, Dynamics) else 1.0
        return getattr(self, "temperature", 1.0)

    @property
    def known_target(self) -> Target | None:
        """The target that `on` gave it; None where it has none."""
        return getattr(self, "target", None)

    @property
    def own_target(self) -> Any:
        """The target that `on` gave it."""
        if self.known_target is None:
            raise ValueError(
                "this sampler has no target yet: call fk.sample(target, sampler, …), or sampler.on(target) "
                "to use init and step yourself."
            )
        return self.known_target

    @property
    def own_dynamics(self) -> Dynamics | SDE | None:
        """The dynamics that it was made of, with a target of their own; None where `on` gives it one."""
        return None

    @property
    def placed(self) -> Dynamics | SDE | None:
        """The dynamics of its steps or proposals, with the target's potential in them; None for none."""
        followed = self.follows()
        return None if followed is None else followed.dynamics

    @property
    def wants_target(self) -> bool:
        """Whether it needs a target, by `on`, before use."""
        return self.own_dynamics is None

    # What it claims: the checker and the summary ------------------------------------------------------------

    # Whether the step size leaves no bias: a sampler that does not say so is not taken to be exact.
    is_exact = False

    def follows(self, state: PyTree[Any] | None = None) -> Followed | None:
        """The continuous dynamics that its steps approximate, for `fk.check`; None where there are none.

        `state` is theta or a state of the dynamics, as the user gave it.
        """
        return None

    @property
    def claims(self) -> Claims:
        """The parts of a step that keep the target by an identity, for `fk.check` to test."""
        return Claims()

    @property
    def max_tree_depth(self) -> int | None:
        """The depth at which its trees are cut off; None where it builds none."""
        return None

    def walls(self, theta: PyTree[Array]) -> tuple[PyTree[Array], PyTree[Array]] | None:
        """The lower and the upper walls at which it reflects theta; None where it has none."""
        return None

    @property
    def gradient_estimator(self) -> Estimator | None:
        """By which its steps estimate ∇U from a batch; None where it is not known."""
        return None

    def noise_variances(self, state: Any, positions: PyTree[Array], batch: Any) -> tuple[Array, Array] | None:
        """The variances that a step adds: ε tr B̂ by the minibatch, averaged over positions, and 2T tr D.

        None where they are not known.
        """
        return None

    def absorbs_noise(self, state: Any) -> bool:
        """Whether it makes up for the noise of minibatches, so that it does not widen the distribution."""
        return False

    # How its settings are found: the tuner and warm-up ------------------------------------------------------

    # Whether an automatic step size is learned in warm-up, and not by the trials of `fk.tune`.
    learns = False

    def fastest_time(self, target: Any, temperature: Any, theta: PyTree[Array], key: Key[Array, ""]) -> float:
        """The fastest time scale of its motion at theta, in units of the step size: `fk.tune` starts there.

        By default that of the dynamics that it follows, else √(T/λ), with λ the largest curvature of U.
        """
        followed = self.on(target, temperature).follows(theta)
        if followed is None or followed.state is None:
            return curvature_time(target, temperature, theta)
        return drift_time(followed.dynamics, followed.state)

    # How it is run: the driver, the mesh and the store ------------------------------------------------------

    # Whether a step can use a minibatch; one that does not say so is not given any.
    takes_batches = False
    # Whether a step is a trajectory of any number of moves, of a `TrajectorySampler`.
    has_trajectories = False
    # Steps at the start in which a chain does not move.
    gathering_steps = 0

    @property
    def holds_potential(self) -> bool:
        """Whether `state.memory.point` is U and ∇U: the driver then checks there that a chain can start."""
        return False

    @property
    def reads_all_data(self) -> bool:
        """Whether steps with minibatches also make passes over all the data; by default they may."""
        return self.gradient_estimator is None or self.gradient_estimator.reads_all_data

    def in_blocks(self, rows: int) -> "Sampler":
        """The same on a target that takes no more rows at a time, to check a start with little memory."""
        return self

    @property
    def batches_undivided(self) -> str:
        """Why minibatches cannot be divided among devices; empty where they can.

        They can where a step uses its batch by functions of `own_target` and of estimators alone: these add
        up what the devices compute.
        """
        if not self.takes_batches:
            return ""
        return (
            f"the sampler {self.name} does not say that it uses batches by its target alone (by "
            'batches_undivided = "")'
        )

    @property
    def theta_undivided(self) -> str:
        """Why theta cannot be divided among devices; empty where it can."""
        return "with a correction theta is one vector" if self.is_exact else ""

    @property
    def needs_more_than_gradient(self) -> str:
        """Why a step needs more than a gradient at the present theta, for `fk.optax`; else empty."""
        return "it needs the target itself, and an optimiser is given gradients"


class TrajectorySampler(Sampler):
    """A sampler whose step may be a trajectory of any number of moves.

    `advance` is: `start`, `move` until `is_done`, `end`. Where `has_trajectories`, no chain of a run waits
    for another's trajectory to end. Warm-up learns its `step_size` for a mean acceptance of `target_accept`,
    and its `mass_matrix`.
    """

    @property
    def has_trajectories(self) -> bool:  # type: ignore[override]
        """Whether a step takes more than one move."""
        return True

    @abc.abstractmethod
    def start(self, draws: Any, state: Any) -> Any:
        """A trajectory from a state."""

    @abc.abstractmethod
    def move(self, trajectory: Any, state: Any) -> Any:
        """The trajectory that started at `state` after one more move."""

    @abc.abstractmethod
    def is_done(self, trajectory: Any) -> Array:
        """Whether the trajectory has no move left."""

    @abc.abstractmethod
    def end(self, trajectory: Any, state: Any) -> tuple[Any, Info]:
        """The state that was chosen from the trajectory."""


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


def all_finite(z: PyTree[Array]) -> Array:
    """Whether every number of a tree is finite."""
    return jax.tree.reduce(jnp.logical_and, jax.tree.map(lambda x: jnp.all(jnp.isfinite(x)), z))
