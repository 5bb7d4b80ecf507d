"""What samplers of dynamics share, with a correction and without."""

import jax
from jaxtyping import Array

from fokker._core.state import State, dimension, inner
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics._dynamics import check_semidefinite
from fokker.dynamics.hamiltonian import hamiltonian_gradient
from fokker.integrators import Integrator
from fokker.integrators._gradient import no_force
from fokker.samplers.family import Family


def name_of(dynamics: Dynamics | SDE | Family) -> str:
    """Dynamics in words."""
    return dynamics.label if isinstance(dynamics, Family) else type(dynamics).__name__


def check_waits(dynamics: Dynamics | SDE | Family) -> None:
    """Raise unless the dynamics wait for a target."""
    if not isinstance(dynamics, Family):
        raise TypeError("this sampler was made of dynamics, which have a target: call it as it is.")


def check_fit(dynamics: Dynamics | SDE, integrator: Integrator, z: State, subtracts: bool = False) -> None:
    """Raise where the dynamics or the integrator do not fit a state."""
    dynamics.validate(z)
    integrator.check(dynamics, z, subtracts)
    if isinstance(dynamics, SDE):
        check_semidefinite(dynamics.D_field(z), z, "the diffusion")


def kinetic_temperature(dynamics: Dynamics | SDE, z: State) -> dict[str, Array]:
    """The kinetic temperature rᵀ∂H/∂r / d, and a scalar thermostat; of those that there are."""
    record: dict[str, Array] = {}
    if isinstance(z, dict) and "r" in z:
        velocity = hamiltonian_gradient(dynamics.hamiltonian, z, no_force(dynamics, z))["r"]
        record["kinetic_temperature"] = inner(z["r"], velocity) / float(dimension(z["r"]))
    xi = z.get("xi") if isinstance(z, dict) else None
    if isinstance(xi, jax.Array) and xi.ndim == 0:  # not one for each coordinate of theta
        record["xi"] = xi
    return record
