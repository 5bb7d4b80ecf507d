"""The contract of samplers: what they do, and what the rest of the library needs to know about them.

Everything that the checker, the tuner, the driver, the store, the mesh and the summary ask of a sampler is a
method or property of `Sampler`. Each has a default that is safe for a sampler that does not say.
"""

import abc
import dataclasses
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count
from fokker._core.module import Module
from fokker._core.parts import sharded
from fokker._core.required import checked_before
from fokker._core.types import Arrays, Number
from fokker.dynamics import SDE, Dynamics
from fokker.gradients import Estimator
from fokker.samplers._time_scale import curvature_time, drift_time
from fokker.samplers.records import (
    Claims,
    Exchange,
    Followed,
    Info,
    Memory,
    SamplerState,
    Stages,
    Warmed,
    computed,
    theta_of,
)
from fokker.samplers.schedules import StepSize, check_step_size
from fokker.targets.target import Target

__all__ = [
    "Claims",
    "Exchange",
    "Followed",
    "Info",
    "Memory",
    "Sampler",
    "SamplerState",
    "Stages",
    "Warmed",
    "all_finite",
    "chunk_length",
    "computed",
    "start_chains",
    "theta_of",
]


class Sampler(Module):
    """A sampler of exp(-U/T).

    `on(target, temperature)` gives it a target; then `init(position, key=…)` makes a state and
    `step(key, state, batch)` the next one. A step is `advance` with the randomness of `draw`, which callers
    may draw for many steps at once. Only `on`, `init` and `advance` have to be defined. A sampler
    keeps its step size, mass matrix, target, temperature and estimator of the gradient in fields `step_size`,
    `mass_matrix`, `target`, `temperature` and `estimator`, as far as it has them.
    """

    # What it does ---------------------------------------------------------------------------------------

    @abc.abstractmethod
    def on(self, target: Target, temperature: Number = 1.0, gradient: Estimator | None = None) -> "Sampler":
        """The sampler of exp(-U/T) for a target, by an estimator of its gradient.

        An estimator is put on the target, by `gradient.on(target)`, and kept in `estimator`; one that is
        dropped is refused by a run.
        """

    @abc.abstractmethod
    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> Any:
        """The state to start from, after all checks of it."""

    def check_start(self, position: PyTree[Any], key: Key[Array, ""]) -> None:
        """Raise where a chain cannot start; by default `init` tells."""
        self.init(position, key=key)

    def draw(self, key: Key[Array, ""], state: PyTree[Array]) -> Any:
        """All the randomness of one step: it depends on the state by its shapes alone.

        By default the key itself, where it is not known before a step what it draws.
        """
        return key

    @abc.abstractmethod
    def advance(
        self, draws: Arrays, state: Arrays, batch: Arrays = None, number: Count | None = None
    ) -> tuple[Any, Info]:
        """One step with the randomness given; `number` of steps taken where the caller knows it."""

    def step(
        self, key: Key[Array, ""], state: PyTree[Array], batch: PyTree[Array] = None
    ) -> tuple[Any, Info]:
        """One step; pure, for use inside `jax.jit`, `jax.vmap` and `jax.lax.scan`."""
        return self.advance(self.draw(key, state), state, batch)

    def position(self, state: PyTree[Array]) -> PyTree[Array]:
        """theta of a state, as a run stores it."""
        return state.position

    def record(self, state: PyTree[Array]) -> dict[str, Array]:
        """Numbers about a state to record with its position."""
        return {}

    def synchronised(self, key: Key[Array, ""], state: PyTree[Array]) -> Any:
        """The state with all of theta at the same time, for samplers that move parts of it when needed."""
        return state

    def with_target(self, target: Target) -> Self:
        """The same on a target that differs in its numbers alone, such as the means of the priors."""
        return dataclasses.replace(self, target=target)  # type: ignore[call-arg]

    def trajectory(self, key: Key[Array, ""], state: PyTree[Array]) -> Any:
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
        stage: Stages = computed,
    ) -> Warmed:
        """The sampler with its settings learned by `steps` steps of all chains, for samplers that learn.

        Its stages are `stage(taken, like, compute)`: after `taken` steps, the result of `compute()`, which is
        a tree like `like` and a dictionary of arrays. One that is known from before is not computed again.
        """
        raise TypeError(
            f"{self.name} learns nothing in warm-up: define warm_up, or leave out learns = True, and fk.tune "
            "finds its step size."
        )

    # Its settings, by the fields that it has ----------------------------------------------------------------
    # They are looked up by name: an attribute of this class would be the default of a subclass's own field,
    # which could then be forgotten without an error.

    @property
    def name(self) -> str:
        """As in `fk.samplers`."""
        return type(self).__name__

    @property
    def cited_as(self) -> str:
        """The name under which `fk.cite` has its papers."""
        return self.name

    @property
    def own_step_size(self) -> StepSize | None:
        """A number, a schedule or "auto"; None where it has no step size."""
        return getattr(self, "step_size", None)

    @property
    def has_mass_matrix(self) -> bool:
        """Whether its steps are taken in coordinates that a mass matrix scales."""
        return self.own_mass_matrix is not None

    @property
    def own_mass_matrix(self) -> Any:
        """The mass matrix of its coordinates, or the kind of one that warm-up learns; None for none."""
        return getattr(self, "mass_matrix", None)

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
        """By which its steps estimate ∇U from a batch: its field `estimator`; None where it has none."""
        estimator = getattr(self, "estimator", None)
        return estimator if isinstance(estimator, Estimator) else None

    def noise_variances(
        self, state: PyTree[Array], positions: PyTree[Array], batch: PyTree[Array]
    ) -> tuple[Array, Array] | None:
        """The variances that a step adds: ε tr B̂ by the minibatch, averaged over positions, and 2T tr D.

        None where they are not known.
        """
        return None

    def absorbs_noise(self, state: PyTree[Array]) -> bool:
        """Whether it makes up for the noise of minibatches, so that it does not widen the distribution."""
        return False

    # How its settings are found: the tuner and warm-up ------------------------------------------------------

    # Whether an automatic step size is learned in warm-up, and not by the trials of `fk.tune`.
    learns = False

    def fastest_time(
        self, target: Target, temperature: Number, theta: PyTree[Array], key: Key[Array, ""]
    ) -> float:
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
    # The covariance of their noise that it makes up for, where it has such a setting.
    noise_estimate = None
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
    def batches_unrepeated(self) -> str:
        """Why steps cannot share a minibatch, as `batch_repeats` says; empty where they can."""
        return "" if self.noise_estimate is None else "noise_estimate is of noise that is new at every step"

    @property
    def replicas_refused(self) -> str:
        """Why copies at several temperatures cannot exchange theta, as in `replica_exchange`; else empty.

        They can where another T is another `temperature` alone, and the rest of its `SamplerState` is as good
        with any theta.
        """
        return 'it does not say that copies can exchange their theta (by replicas_refused = "")'

    @property
    def theta_undivided(self) -> str:
        """Why theta cannot be divided among devices; empty where it can."""
        return "with a correction theta is one vector" if self.is_exact else ""

    @property
    def needs_more_than_gradient(self) -> str:
        """Why a step needs more than a gradient at the present theta, for `fk.optax`; else empty."""
        return "it needs the target itself, and an optimiser is given gradients"


# Steps whose randomness is drawn at once: enough to amortise drawing, little enough to fit the cache.
CHUNK = 500
# On an accelerator chains that have ended their steps wait for the others less often if there are more steps.
_CHUNK_NUMBERS, _ACCELERATOR_NUMBERS = 2**22, 2**24


def chunk_length(numbers: int) -> int:
    """Steps whose randomness is drawn at once, where one step of all chains takes this many numbers."""
    room = _CHUNK_NUMBERS if jax.default_backend() == "cpu" else _ACCELERATOR_NUMBERS
    return max(1, min(CHUNK, room // max(1, numbers)))


@eqx.filter_jit
def start_chains(sampler: Sampler, positions: PyTree[Array], keys: Key[Array, " chains"]) -> Any:
    """The first states of many chains, whose starts were checked."""
    with checked_before():
        return sharded(jax.vmap(lambda theta, key: sampler.init(theta, key=key))(positions, keys), 1)


def all_finite(z: PyTree[Array]) -> Array:
    """Whether every number of a tree is finite."""
    return jax.tree.reduce(jnp.logical_and, jax.tree.map(lambda x: jnp.all(jnp.isfinite(x)), z))
