"""A step as a proposal: what a Metropolis correction needs to know of it."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fokker._core.state import State
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.hamiltonian import hamiltonian_value
from fokker.integrators.noise import draw_like


class Proposal(NamedTuple):
    """Where a step leads, and how much more probable the way there is than the way back.

    `log_ratio`: log π(z') q(z' → z) / [π(z) q(z → z')] for the target π ∝ exp(-H/T). `stay`: the state after
    a rejection: z itself, or z with its momentum reversed where the way back is taken in reversed time.
    """

    z: State
    log_ratio: Array
    stay: State


@runtime_checkable
class Correctable(Protocol):
    """An integrator whose steps can be proposals."""

    def check_correction(self, dynamics: Dynamics | SDE, z: State) -> None:
        """Raise, with the reason, where the probability of the way back is not known."""

    def propose(self, dynamics: Dynamics | SDE, z: State, noise: Any, step_size: Any) -> Proposal:
        """The same step as `advance` takes with the exact gradient, as a proposal."""


def energy(dynamics: Dynamics | SDE, z: State) -> Array:
    """H(z)/T, minus the log of the target up to a constant."""
    return hamiltonian_value(dynamics.hamiltonian, z) / temperature_of(dynamics)


def temperature_of(dynamics: Dynamics | SDE) -> Any:
    """T; an `SDE` as somebody wrote it down is at T = 1."""
    return dynamics.temperature if isinstance(dynamics, Dynamics) else 1.0


def with_reversed_momentum(z: State) -> State:
    """The state seen in reversed time: r ↦ -r."""
    return {**z, "r": jax.tree.map(jnp.negative, z["r"])}


def check_reversible(dynamics: Dynamics | SDE, z: State) -> None:
    """Raise at a thermostat, and unless H(θ, -r) = H(θ, r) at a random r; trusted while traced."""
    if "xi" in z:
        raise ValueError(
            "the steps of a thermostat cannot be corrected here: its friction ξ is not reversible in time. "
            "With exact gradients no thermostat is needed: use underdamped dynamics."
        )
    momentum = draw_like("gaussian", jax.random.key(0), jax.eval_shape(lambda: z["r"]))
    there = {**z, "r": momentum}
    here, back = (hamiltonian_value(dynamics.hamiltonian, y) for y in (there, with_reversed_momentum(there)))
    if isinstance(here, jax.core.Tracer):
        return
    if abs(float(here - back)) > 1e-4 * (1 + abs(float(here))):
        raise ValueError(
            "these steps are corrected in reversed time, r ↦ -r, but H(θ, -r) is not H(θ, r): write a "
            "kinetic energy that is even in r, or use EulerMaruyama() with noise on every variable."
        )
