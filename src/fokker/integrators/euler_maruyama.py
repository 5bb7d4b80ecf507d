"""The Euler–Maruyama step."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._module import Module
from fokker._state import State
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field
from fokker.integrators._gradient import Gradient, evaluate


class EulerMaruyama(Module):
    r"""z' = z + ε f(z) + √ε √(2TD(z) - εB̂) w with w ~ N(0, I).

    Weak order 1, one gradient a step, for any dynamics (Ma et al. 2015, Eq. 9 with the sign of Γ corrected).
    """

    def check(self, dynamics: Dynamics | SDE, z: State, subtracts: bool = False) -> None:
        """It makes sense for any dynamics."""

    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """Noise for √(2TD - εB̂)."""
        return dynamics.noise_like(z, noise_estimate)

    def advance(
        self,
        dynamics: Dynamics | SDE,
        z: State,
        gradient: Gradient,
        noise: PyTree[Array],
        step_size: Any,
        *,
        probe: State | None = None,
        noise_estimate: Field | None = None,
    ) -> tuple[State, Array]:
        """The state one step of size ε later, and how far 2TD - εB̂ fell below zero (0 where it did not)."""
        h = one_number(step_size)
        f = dynamics.drift(z, evaluate(gradient, dynamics, z), probe)
        kick, shortfall = dynamics.noise(z, noise, step_size, noise_estimate)
        root = jnp.sqrt(h)

        def move(x: Array, a: Array, b: Array) -> Array:
            return x + (h * a + root * b).astype(x.dtype)

        return jax.tree.map(move, z, f, kick), shortfall


def one_number(step_size: Any) -> Array:
    """The step size as a scalar."""
    h = jnp.asarray(step_size)
    if h.shape != ():
        raise ValueError(
            f"the step size must be one number, not an array of shape {h.shape}. For a step a variable scale "
            "D and Q; for a step size a chain use jax.vmap."
        )
    return h
