"""The symplectic Euler step: variable by variable, each with the newest values of the others."""

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fokker._core.state import State, variable_names
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field
from fokker.integrators._gradient import evaluate
from fokker.integrators._integrator import Integrator, StepInput
from fokker.integrators.euler_maruyama import one_number


class SymplecticEuler(Integrator):
    r"""r' = r + ε f_r(θ, r, ξ) + noise;  θ' = θ + ε f_θ(θ, r', ξ);  ξ' = ξ + ε f_ξ(θ', r', ξ).

    The variables that have noise go first, then theta, then the others, as in SGHMC (Chen et al. 2014) and
    Algorithm 1 of SGNHT (Ding et al. 2014). Weak order 1, one gradient per step; without noise and friction
    it keeps volume and has no drift of the energy, which Euler–Maruyama has.

    It has no arguments.

    ```python
    sampler = fk.samplers.sghmc(0.01, integrator=fk.integrators.SymplecticEuler())
    trace = fk.sample(target, sampler, init=jnp.zeros(2), steps=1000)
    ```
    """

    label: ClassVar = "symplectic Euler"
    gradient_at_start: ClassVar = True

    def check(self, dynamics: Dynamics | SDE, z: State, subtracts: bool = False) -> None:
        """It needs a state with names, and noise that is independent between variables."""
        if not isinstance(z, Mapping):
            raise ValueError("the symplectic Euler step goes variable by variable: give a state with names.")
        if not isinstance(dynamics.noise_like(z), Mapping | None):
            raise ValueError(
                "the symplectic Euler step needs a D written as diagonal blocks, one per variable; "
                "with any other D use fk.integrators.EulerMaruyama()."
            )

    def fits_simple(self, variables: set[str]) -> bool:
        """Any: their noise is independent between variables."""
        return True

    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """Noise for √(2TD - εB̂)."""
        return dynamics.noise_like(z, noise_estimate)

    def advance(self, step: StepInput) -> tuple[State, Array]:
        """The state one step of size ε later, and how far 2TD - εB̂ fell below zero (0 where it did not)."""
        dynamics, z, h = step.dynamics, step.z, one_number(step.step_size)
        kick, shortfall = dynamics.noise(z, step.noise, step.step_size, step.noise_estimate)
        # Not the names in `noise`, which has an entry for every variable where 2TD - εB̂ is written out.
        noisy = set(dynamics.noise_like(z) or ())
        order = sorted(variable_names(z), key=lambda name: (name not in noisy, name != "theta"))
        for name in order:
            # The gradient where theta is now; compiled, it is computed for the rows that have it alone.
            f = dynamics.drift(z, evaluate(step.gradient, dynamics, z), step.probe)[name]

            def move(x: Array, a: Array, b: Array) -> Array:
                return x + (h * a + jnp.sqrt(h) * b).astype(x.dtype)

            z = {**z, name: jax.tree.map(move, z[name], f, kick[name])}
        return z, shortfall
