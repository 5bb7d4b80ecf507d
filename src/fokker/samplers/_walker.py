"""Samplers whose step is a walk of one or more moves with an end that is corrected: Metropolis, trees."""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.random import normal
from fokker._core.state import as_arrays, ravel, unravel
from fokker.corrections import DIVERGENT
from fokker.gradients import Estimator
from fokker.samplers._sampler import Info, Sampler, check_step_size
from fokker.samplers._trajectory import Seen, Trajectory, taken
from fokker.samplers._whole import (
    StepInfo,
    check_finite_start,
    check_position,
    no_batch,
    placed,
    tempered,
)
from fokker.samplers.scales import as_scale, check_size

Vector = Float[Array, " d"]


class WalkerState(NamedTuple):
    """Theta, the number of steps taken, U/T and its gradient by q there, and what the last step was like.

    `momentum` too is in the coordinates q of the scale; of no account where a step draws it anew.
    """

    z: dict[str, PyTree[Array]]
    step: Count
    potential: Array
    gradient: Vector
    momentum: Vector
    stats: Vector

    @property
    def position(self) -> PyTree[Array]:
        """theta."""
        return self.z["theta"]


def check_acceptance(acceptance: Any) -> Any:
    """An array; raise unless it is a share."""
    # As a float: inside a compiled function JAX traces a comparison even of values that are known.
    if not isinstance(acceptance, jax.core.Tracer) and not 0 < float(acceptance) < 1:
        raise ValueError(f"the acceptance to aim at must be between 0 and 1; {acceptance} was given.")
    return as_arrays(acceptance)


class Walker(Sampler):
    r"""A sampler of exp(-U/T) by steps that are walks: `begin`, `onward` until it has `arrived`, `finish`.

    A walk is in coordinates q of its own frame, θ = θ₀ + S q, with unit masses; S is the `scale`. One chain's
    walk may be longer than another's: `fokker.run.walking` lets chains go on without waiting for each other.
    """

    step_size: Any
    scale: Any = eqx.field(converter=as_scale)
    # The mean acceptance probability at which warm-up sets the step size.
    acceptance: Any = eqx.field(converter=check_acceptance)
    target: Any = eqx.field(default=None, kw_only=True)
    temperature: Any = eqx.field(default=1.0, kw_only=True)

    # What a step leaves in `stats`, by name and type; the first is the acceptance probability.
    STATS: ClassVar[dict[str, type]] = {"acceptance_rate": float}
    # The power of the step size with which the spread of log acceptance ratios grows.
    ORDER: ClassVar[float] = 2.0
    learns = True
    corrected = True

    @property
    def name(self) -> str:
        """As in `fk.samplers`."""
        return type(self).__name__.lower()

    @abc.abstractmethod
    def begin(self, draws: Any, state: WalkerState) -> Any:
        """A walk from a state."""

    @abc.abstractmethod
    def onward(self, walk: Any, state: WalkerState) -> Any:
        """One move of the walk that began at `state`."""

    @abc.abstractmethod
    def arrived(self, walk: Any) -> Array:
        """Whether the walk is over."""

    @abc.abstractmethod
    def finish(self, walk: Any, state: WalkerState) -> tuple[WalkerState, Any]:
        """The state that the walk led to."""

    def visited(self, before: Any, after: Any, state: WalkerState) -> Seen:
        """The points that a move went through."""
        return Seen(after.q[None])

    def trajectory(self, key: Key[Array, ""], state: WalkerState) -> Trajectory:
        """What `step(key, state)` does, point by point: for teaching, not for use inside `jax.jit`."""
        return taken(self, key, state)

    def with_one_move(self) -> "Walker":
        """The same with walks of a single move, by whose acceptance the first step size is found."""
        return self

    def on(self, target: Any, temperature: Any = 1.0, gradient: Estimator | None = None) -> "Walker":
        """The sampler of exp(-U/T) for a target."""
        return placed(self, target, temperature, gradient)

    def init(self, position: PyTree[Any], *, key: Key[Array, ""] | None = None) -> WalkerState:
        """U and its gradient, and a momentum for samplers that keep theirs."""
        theta = check_position(self, position)
        zero = jnp.zeros_like(ravel(theta))
        check_size(self.scale, zero.size)
        p = normal(jax.random.key(0) if key is None else key, zero.shape, zero.dtype)
        stats = jnp.zeros(len(self.STATS), zero.dtype)
        state = WalkerState({"theta": theta}, no_steps(), zero[0], zero, p, stats)
        U, gradient = self.evaluate(zero, state)
        check_finite_start(U, gradient)
        return state._replace(potential=U, gradient=gradient)

    def vector(self, q: Vector, state: WalkerState) -> Vector:
        """θ = θ₀ + S q as a vector; a scale that is yet to be learnt is 1."""
        return ravel(state.position) + (q if isinstance(self.scale, str) else self.scale(q).astype(q.dtype))

    def evaluate(self, q: Vector, state: WalkerState) -> tuple[Array, Vector]:
        """U/T and its gradient by q."""
        potential = tempered(self.own_target, self.temperature, state.position)
        return jax.value_and_grad(lambda q: potential(self.vector(q, state)))(q)

    def leap(
        self, q: Vector, p: Vector, gradient: Vector, h: Array, state: WalkerState
    ) -> tuple[Vector, Vector, Vector, Array]:
        r"""A leapfrog step, p½ = p - h/2 ∇U, q' = q + h p½, p' = p½ - h/2 ∇U(q'): (q', p', ∇U(q'), U(q'))."""
        p = p - h / 2 * gradient
        q = q + h * p
        # Computed once and not again wherever they are used.
        q, p = jax.lax.optimization_barrier((q, p))
        U, gradient = jax.lax.optimization_barrier(self.evaluate(q, state))
        return q, p - h / 2 * gradient, gradient, U

    def moved(
        self, state: WalkerState, q: Vector, U: Array, gradient: Vector, p: Vector, *stats: Any
    ) -> tuple[WalkerState, Info]:
        """The state at q in the frame of the state before."""
        theta = unravel(self.vector(q, state), state.position)
        told = jnp.stack([jnp.asarray(s).astype(q.dtype) for s in stats])
        new = WalkerState({"theta": theta}, state.step + 1, U, gradient, p, told)
        return new, Info(jnp.all(jnp.isfinite(q)), jnp.zeros(()))

    def judged(
        self, walk: Any, state: WalkerState, info: Info, accepted: Array, rate: Array, change: Array
    ) -> StepInfo:
        """What a person wants to see of a proposal; nothing where compiled code does not read it."""
        proposal = unravel(self.vector(walk.q, state), state.position)
        divergent = ~(change < DIVERGENT)
        return StepInfo(*info, accepted, rate, proposal, change, divergent)

    def advance(
        self, draws: Any, state: WalkerState, batch: Any = None, number: Count | None = None
    ) -> tuple[WalkerState, Info]:
        """One step with the randomness given: the whole walk."""
        no_batch(self, batch)
        walk = jax.lax.while_loop(
            lambda walk: ~self.arrived(walk), lambda walk: self.onward(walk, state), self.begin(draws, state)
        )
        return self.finish(walk, state)

    def record(self, state: WalkerState) -> dict[str, Array]:
        """What the last step was like."""
        return self.named_stats(state.stats)

    def named_stats(self, stats: Array) -> dict[str, Array]:
        """The entries of `stats` along its last axis by their names, each of its own type."""
        types = {float: stats.dtype, int: jnp.int32, bool: bool}
        return {name: stats[..., i].astype(types[kind]) for i, (name, kind) in enumerate(self.STATS.items())}


def check_constant(step_size: Any) -> Any:
    """A step size that is a number or "auto"."""
    if callable(step_size):
        raise ValueError("this sampler keeps its target at every step size: give a number, not a schedule.")
    if jnp.ndim(step_size):
        raise ValueError(
            f"the step size is one number, not an array of shape {jnp.shape(step_size)}; for one a "
            "coordinate give standard deviations as the scale."
        )
    return check_step_size(step_size)


def check_chains(states: WalkerState) -> None:
    """Raise unless U and its gradient are finite where every chain starts."""
    potentials, gradients = np.asarray(states.potential), np.asarray(states.gradient)
    for chain, (U, gradient) in enumerate(zip(potentials, gradients, strict=True)):
        try:
            check_finite_start(U, gradient)
        except ValueError as error:
            raise ValueError(f"chain {chain}: {error}") from error
