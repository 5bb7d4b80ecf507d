"""What samplers of dynamics share, with a correction and without."""

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
from jaxtyping import Array, Key, PyTree

from fokker._core.required import check_compiled, is_checked
from fokker._core.rounding import raised
from fokker._core.state import State, dimension, inner
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics._checks import check_semidefinite, validate_state
from fokker.dynamics.hamiltonian import Hamiltonian, check_hamiltonian, hamiltonian_gradient
from fokker.integrators import Integrator
from fokker.integrators._gradient import no_force
from fokker.samplers.contract import Sampler
from fokker.samplers.family import Family
from fokker.targets.target import Target


class OfDynamics(Sampler):
    """A sampler of dynamics: of given ones, or of a family that waits for a target, which `on` gives it."""

    if TYPE_CHECKING:  # fields of the classes derived from it, or properties

        @property
        def dynamics(self) -> Dynamics | SDE | Family:
            """Given ones, or a family."""

        @property
        def integrator(self) -> Integrator:
            """One step of time."""

    def __str__(self) -> str:
        return f"{name_of(self.dynamics)} × {self.integrator.label}"

    @property
    def own_dynamics(self) -> Dynamics | SDE | None:
        """Those that it was made of."""
        return None if isinstance(self.dynamics, Family) else self.dynamics

    @property
    def placed(self) -> Dynamics | SDE:
        """The dynamics with the target's potential in them, of theta as it is."""
        return self.placed_in(lambda theta: theta)

    @abc.abstractmethod
    def placed_in(self, coordinates: Callable[[PyTree[Array]], PyTree[Array]]) -> Dynamics | SDE:
        """The dynamics with the target's potential in them, of q where theta = coordinates(q)."""

    @property
    def batches_undivided(self) -> str:
        """Where it was made of dynamics."""
        return "" if self.wants_target else "a sampler made of dynamics computes its gradient itself"

    def check_start(self, position: PyTree[Array], key: Key[Array, ""]) -> None:
        """As `init`, in one program. What its settings alone tell is looked at before they are traced."""
        _ = self.placed
        check_compiled(_init, self, position, key)


def _init(sampler: Sampler, position: PyTree[Array], key: Key[Array, ""]) -> None:
    sampler.init(position, key=key)


def may_start(sampler: OfDynamics, position: PyTree[Array]) -> bool:
    """Whether the settings say that dynamics and integrator are right, and theta and U there are finite."""
    family = sampler.dynamics
    if not isinstance(family, Family) or sampler.noise_estimate is not None or sampler.has_mass_matrix:
        return False
    variables = family.simple_variables()
    if variables is None or not sampler.integrator.fits_simple(variables):
        return False
    try:
        check_compiled(_check_potential, sampler.own_target.on_first_rows(), position)
    except ValueError:  # what `init` says of it is more
        return False
    return True


def _check_potential(target: Target, position: PyTree[Array]) -> None:
    """Raise unless theta and U of it are finite."""
    validate_state(position)
    check_hamiltonian(Hamiltonian(target.potential), {"theta": raised(position)})


def name_of(dynamics: Dynamics | SDE | Family) -> str:
    """Dynamics in words."""
    return dynamics.label if isinstance(dynamics, Family) else type(dynamics).__name__


def check_waits(dynamics: Dynamics | SDE | Family) -> None:
    """Raise unless the dynamics wait for a target."""
    if not isinstance(dynamics, Family):
        raise TypeError("this sampler was made of dynamics, which have a target: call it as it is.")


def check_fit(dynamics: Dynamics | SDE, integrator: Integrator, z: State, subtracts: bool = False) -> None:
    """Raise where the dynamics or the integrator do not fit a state, unless this was looked at before."""
    if is_checked():
        return
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
