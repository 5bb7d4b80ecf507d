"""The leapfrog step of Hamiltonian dynamics."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.required import require
from fokker._core.state import State
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.fields._blocks import vanishes
from fokker.integrators._friction import check_friction
from fokker.integrators._gradient import evaluate, no_force
from fokker.integrators._integrator import StepInput
from fokker.integrators._proposal import Correctable, Point, Proposal
from fokker.integrators.euler_maruyama import one_number


class Leapfrog(Correctable):
    r"""r½ = r - (h/2)∇U(θ),  θ' = θ + h M⁻¹r½,  r' = r½ - (h/2)∇U(θ').

    For Hamiltonian dynamics: of `theta` and `r`, with D = 0, a kinetic energy rᵀM⁻¹r/2 and a Q that are the
    same everywhere. Reversible in time, keeps volume, order 2; one gradient per step where steps follow one
    another (Duane et al. 1987).

    It has no arguments.

    ```python
    dynamics = fk.dynamics.hamiltonian_flow(lambda theta: jnp.sum(theta**2) / 2)
    sampler = fk.samplers.recipe(
        dynamics, 0.3, integrator=fk.integrators.Leapfrog(), correction=fk.corrections.Metropolis(5)
    )
    state = sampler.init({"theta": jnp.zeros(2), "r": jnp.zeros(2)})
    ```
    """

    label: ClassVar = "leapfrog"
    is_deterministic: ClassVar = True
    error_order: ClassVar = 3.0

    def check(self, dynamics: Dynamics | SDE, z: State, subtracts: bool = False) -> None:
        """Raise unless the dynamics are Hamiltonian, with position and momentum apart."""
        check_friction(dynamics, z, "the leapfrog is for dynamics of theta and r", ({"theta", "r"},))
        check_no_noise(dynamics, "the leapfrog")

    def advance(self, step: StepInput) -> tuple[State, Array]:
        """The state one step later; two gradients, as none is known from the step before."""
        dynamics, h = step.dynamics, one_number(step.step_size)
        z = _kicked(dynamics, step.z, evaluate(step.gradient, dynamics, step.z), h / 2)
        z = _drifted(dynamics, z, h)
        return _kicked(dynamics, z, evaluate(step.gradient, dynamics, z), h / 2), jnp.zeros(())

    def propose(
        self, dynamics: Dynamics | SDE, z: State, noise: PyTree[Array], step_size: Number, point: Point
    ) -> Proposal:
        """The step with ∇U known at its start: one gradient."""
        h = one_number(step_size)
        z = _drifted(dynamics, _kicked(dynamics, z, point.gradient, h / 2), h)
        # Computed once, and not again at each use.
        z = jax.lax.optimization_barrier(z)
        point = jax.lax.optimization_barrier(self.evaluate(dynamics, z))
        return Proposal(_kicked(dynamics, z, point.gradient, h / 2), point, jnp.zeros(()))


def check_no_noise(dynamics: Dynamics | SDE, what: str) -> None:
    """Raise unless D = 0."""
    # By what it is made of: a field may be zero at z, and not where the chain goes.
    require(
        isinstance(dynamics, Dynamics) and vanishes(dynamics.D),
        lambda: ValueError(
            f"{what} is for Hamiltonian dynamics, with D = 0: leave D out, or for friction and "
            "noise use fk.integrators.Splitting() or ExactOU()."
        ),
    )


def add(x: PyTree[Array], f: PyTree[Array], t: Array) -> PyTree[Array]:
    """x + t f."""
    return jax.tree.map(lambda a, b: a + (t * b).astype(a.dtype), x, f)


def _kicked(dynamics: Dynamics | SDE, z: State, gradient: PyTree[Array] | None, t: Array) -> State:
    return {**z, "r": add(z["r"], dynamics.drift(z, gradient)["r"], t)}


def _drifted(dynamics: Dynamics | SDE, z: State, t: Array) -> State:
    return {**z, "theta": add(z["theta"], dynamics.drift(z, no_force(dynamics, z))["theta"], t)}
