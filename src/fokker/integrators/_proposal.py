"""A step as a proposal: what a correction needs to know about it."""

import abc
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.state import State
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.hamiltonian import Hamiltonian, hamiltonian_value
from fokker.fields import Field
from fokker.integrators._gradient import Gradient
from fokker.integrators._integrator import Integrator
from fokker.integrators.noise import draw_like


class Point(NamedTuple):
    """U and ∇U at a position, computed once and carried from step to step.

    None where they are not known apart from H, or not needed.
    """

    potential: Array | None = None
    gradient: PyTree[Array] | None = None

    @property
    def known_gradient(self) -> Gradient:
        """The gradient as integrators take it."""
        return None if self.gradient is None else lambda theta: self.gradient


class Proposal(NamedTuple):
    """The end of a step, and the ratio of the probabilities of the way back and the way there.

    `log_ratio`: log q(z' → z)/q(z → z'), for a map log|det ∂z'/∂z|; without the energies of z and z'.
    `is_sound`: False where the step has no way back.
    """

    z: State
    point: Point
    log_ratio: Array
    is_sound: Array | bool = True


class Correctable(Integrator):
    """An integrator whose steps can be proposals: of it Metropolis and trees know the way back.

    By default that is for steps in reversed time, r ↦ -r, without noise. `error_order`: the power of the step
    size with which the spread of log acceptance ratios grows. `has_density`: whether a proposal is affine in
    its Gaussian noise, of as many numbers as the state, so that `fk.check` can compute its density; else it
    compares averages.
    """

    error_order: ClassVar[float]
    has_density: ClassVar[bool] = False

    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """None: a step has no noise."""
        return {}

    def check_correction(self, dynamics: Dynamics | SDE, z: State) -> None:
        """Raise, with the reason, where the probability of the way back is not known."""
        check_reversible(dynamics, z)

    def evaluate(self, dynamics: Dynamics | SDE, z: State) -> Point:
        """What `propose` needs to know at z: U and ∇U."""
        return evaluate_point(dynamics, z)

    @abc.abstractmethod
    def propose(
        self, dynamics: Dynamics | SDE, z: State, noise: PyTree[Array], step_size: Number, point: Point
    ) -> Proposal:
        """The same step as `advance` takes with the exact gradient, as a proposal."""

    def precisely(self) -> "Correctable":
        """The same with implicit equations solved to rounding, where there are any."""
        return self

    def rejected(self, z: State) -> State:
        """The state after a rejection: z in reversed time, where the way back is taken there."""
        return with_reversed_momentum(z)


def evaluate_point(dynamics: Dynamics | SDE, z: State, with_gradient: bool = True) -> Point:
    """U and, for `Dynamics`, ∇U at z; nothing for a Hamiltonian that is one function."""
    H = dynamics.hamiltonian
    if not isinstance(H, Hamiltonian):
        return Point()
    if not with_gradient or not isinstance(dynamics, Dynamics):
        return Point(H.potential(H.position_of(z)))
    return Point(*jax.value_and_grad(H.potential)(H.position_of(z)))


def energy(dynamics: Dynamics | SDE, z: State, point: Point | None = None) -> Array:
    """H(z)/T, minus the log of the target up to a constant."""
    H, T = dynamics.hamiltonian, temperature_of(dynamics)
    if point is None or point.potential is None or not isinstance(H, Hamiltonian):
        value = hamiltonian_value(H, z)
    else:
        value = H.value(z, point.potential)
    return (value / T).astype(value.dtype)


def temperature_of(dynamics: Dynamics | SDE) -> Any:
    """T; an `SDE` written by hand is at T = 1."""
    return dynamics.temperature if isinstance(dynamics, Dynamics) else 1.0


def with_reversed_momentum(z: State) -> State:
    """The state seen in reversed time: r ↦ -r."""
    return {**z, "r": jax.tree.map(jnp.negative, z["r"])}


def places_around(z: State) -> list[State]:
    """The state, and two others with theta somewhere near: what holds at one theta may not hold at others."""
    noise = [draw_like("gaussian", jax.random.key(k), jax.eval_shape(lambda: z["theta"])) for k in (11, 12)]
    near = [jax.tree.map(lambda x, w: x + 0.5 * (1 + jnp.abs(x)) * w, z["theta"], w) for w in noise]
    return [z, *({**z, "theta": theta} for theta in near)]


def check_reversible(dynamics: Dynamics | SDE, z: State) -> None:
    """Raise at a thermostat, and unless H(θ, -r) = H(θ, r) at a random r; trusted while traced."""
    if "xi" in z:
        raise ValueError(
            "the steps of a thermostat cannot be corrected here: its friction ξ is not reversible in time. "
            "With exact gradients no thermostat is needed: use underdamped dynamics."
        )
    momentum = draw_like("gaussian", jax.random.key(0), jax.eval_shape(lambda: z["r"]))
    for place in places_around(z):
        there = {**place, "r": momentum}
        back = with_reversed_momentum(there)
        values = [hamiltonian_value(dynamics.hamiltonian, y) for y in (there, back)]
        if any(isinstance(value, jax.core.Tracer) for value in values):
            return
        H, reversed_H = (float(value) for value in values)
        # A place outside the support is no evidence.
        if not abs(H - reversed_H) > 1e-4 * (1 + abs(H)):
            continue
        raise ValueError(
            "these steps are corrected in reversed time, r ↦ -r, but H(θ, -r) is not H(θ, r): write a "
            "kinetic energy that is even in r, or use EulerMaruyama() with noise on every variable."
        )
