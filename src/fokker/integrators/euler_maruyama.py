"""The Euler–Maruyama step."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.state import State, inner
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field
from fokker.integrators._gradient import evaluate
from fokker.integrators._integrator import StepInput
from fokker.integrators._proposal import Correctable, Point, Proposal, temperature_of


class EulerMaruyama(Correctable):
    r"""z' = z + ε f(z) + √ε √(2TD(z) - εB̂) w with w ~ N(0, I).

    Weak order 1, one gradient per step, for any dynamics (Ma et al. 2015, Eq. 9, the sign of Γ corrected).

    It has no arguments.

    ```python
    sampler = fk.samplers.sgld(0.01, integrator=fk.integrators.EulerMaruyama())
    trace = fk.sample(target, sampler, init=jnp.zeros(2), steps=1000)
    ```
    """

    label: ClassVar = "Euler–Maruyama"
    gradient_at_start: ClassVar = True
    error_order: ClassVar = 1.5
    has_density: ClassVar = True

    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """Noise for √(2TD - εB̂)."""
        return dynamics.noise_like(z, noise_estimate)

    def advance(self, step: StepInput) -> tuple[State, Array]:
        """The state one step of size ε later, and how far 2TD - εB̂ fell below zero (0 where it did not)."""
        dynamics, z, h = step.dynamics, step.z, one_number(step.step_size)
        f = dynamics.drift(z, evaluate(step.gradient, dynamics, z), step.probe)
        kick, shortfall = dynamics.noise(z, step.noise, step.step_size, step.noise_estimate)
        root = jnp.sqrt(h)

        def move(x: Array, a: Array, b: Array) -> Array:
            return x + (h * a + root * b).astype(x.dtype)

        return jax.tree.map(move, z, f, kick), shortfall

    def fits_simple(self, variables: set[str]) -> bool:
        """Any."""
        return True

    def check_correction(self, dynamics: Dynamics | SDE, z: State) -> None:
        """Raise unless D is invertible: without noise on a variable no step leads back."""
        log_determinant = _diffusion(dynamics, z).log_determinant(z)
        if not isinstance(log_determinant, jax.core.Tracer) and not bool(jnp.isfinite(log_determinant)):
            raise ValueError(
                "Euler–Maruyama steps can be corrected only where D is invertible, with noise on every "
                "variable; this D is singular at the state given, and a step has no way back. Give D noise "
                "there too, as in D={('theta', 'theta'): 0.1, …}, or for underdamped dynamics use "
                "fk.integrators.Splitting() or ExactOU()."
            )

    def propose(
        self, dynamics: Dynamics | SDE, z: State, noise: PyTree[Array], step_size: Number, point: Point
    ) -> Proposal:
        r"""The step with q(z'|z) = N(z + εf(z), 2εTD(z)) there and q(z|z') back; one gradient."""
        h = one_number(step_size)
        new, _ = self.advance(StepInput(dynamics, z, point.known_gradient, noise, h))
        new_point = self.evaluate(dynamics, new)
        there = _log_density(dynamics, z, point, new, h)
        back = _log_density(dynamics, new, new_point, z, h)
        return Proposal(new, new_point, back - there)

    def rejected(self, z: State) -> State:
        """The same."""
        return z


def _diffusion(dynamics: Dynamics | SDE, z: State) -> Field:
    return dynamics.D if isinstance(dynamics, Dynamics) else dynamics.D_field(z)


def _log_density(dynamics: Dynamics | SDE, z: State, point: Point, new: State, h: Array) -> Array:
    """log N(z'; z + εf(z), 2εTD(z)) up to a constant that is the same for every z and z'."""
    D = _diffusion(dynamics, z)
    drift = dynamics.drift(z, point.gradient)
    residual = jax.tree.map(lambda b, a, f: b - a - h.astype(a.dtype) * f, new, z, drift)
    squares = inner(residual, D.solve(z, residual))
    return -squares / (4 * h * temperature_of(dynamics)) - D.log_determinant(z) / 2


def one_number(step_size: Number) -> Array:
    """The step size as a scalar."""
    h = jnp.asarray(step_size)
    if h.shape != ():
        raise ValueError(
            f"the step size must be one number, not an array of shape {h.shape}. For a step per variable "
            "scale D and Q; for a step size per chain use jax.vmap."
        )
    return h
