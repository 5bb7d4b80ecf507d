"""Integrators: one step of time for given dynamics, pure in the noise."""

from typing import Any, Protocol

from jaxtyping import Array

from fokker._core.state import State
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field
from fokker.integrators._gradient import Gradient
from fokker.integrators._proposal import Correctable, Point, Proposal
from fokker.integrators.euler_maruyama import EulerMaruyama
from fokker.integrators.exact_ou import ExactOU
from fokker.integrators.generalised_leapfrog import GeneralisedLeapfrog
from fokker.integrators.isokinetic import IsokineticLeapfrog
from fokker.integrators.leapfrog import Leapfrog
from fokker.integrators.random_walk import RandomWalk
from fokker.integrators.reflecting import Reflecting
from fokker.integrators.splitting import Splitting
from fokker.integrators.symplectic_euler import SymplecticEuler

__all__ = [
    "Correctable",
    "EulerMaruyama",
    "ExactOU",
    "GeneralisedLeapfrog",
    "Integrator",
    "IsokineticLeapfrog",
    "Leapfrog",
    "Point",
    "Proposal",
    "RandomWalk",
    "Reflecting",
    "Splitting",
    "SymplecticEuler",
]


class Integrator(Protocol):
    """What a sampler asks of an integrator; `label` names it in words.

    An integrator whose step uses only the gradient where it starts says so by `gradient_at_start = True`;
    `fk.optax` takes no others.
    """

    @property
    def label(self) -> str:
        """Its name in words."""

    def check(self, dynamics: Dynamics | SDE, z: State, subtracts: bool = False) -> None:
        """Raise where the integrator does not make sense for these dynamics, or for subtracting εB̂."""

    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """Shapes of the unit noise that `advance` takes."""

    def advance(
        self,
        dynamics: Dynamics | SDE,
        z: State,
        gradient: Gradient,
        noise: Any,
        step_size: Any,
        *,
        probe: State | None = None,
        noise_estimate: Field | None = None,
    ) -> tuple[State, Array]:
        """The state one step later, and how far 2TD - εB̂ fell below zero (0 where it did not)."""
