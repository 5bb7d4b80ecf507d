"""The base class of integrators, and what they are given for a step."""

import abc
from typing import Any, ClassVar, NamedTuple

from jaxtyping import Array, PyTree

from fokker._core.module import Module
from fokker._core.state import State
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field
from fokker.integrators._gradient import Gradient


class StepInput(NamedTuple):
    """What a step is made of.

    `gradient`: ∇Ũ as a function of the position, None for ∇U itself. `noise`: of the shapes of `noise_like`.
    `probe`: signs along which Γ is estimated, None for Γ itself. `noise_estimate`: B̂, which is subtracted.
    """

    dynamics: Dynamics | SDE
    z: State
    gradient: Gradient
    noise: PyTree[Array]
    step_size: Any
    probe: State | None = None
    noise_estimate: Field | None = None


class Integrator(Module):
    """One step of time for given dynamics, pure in the noise.

    `label`: its name in words. `gradient_at_start`: whether a step uses only the gradient where it starts;
    `fk.optax` takes no others. `is_deterministic`: whether a step has no noise, and leads back once the
    momentum is reversed.
    """

    label: ClassVar[str]
    gradient_at_start: ClassVar[bool] = False
    is_deterministic: ClassVar[bool] = False

    def check(self, dynamics: Dynamics | SDE, z: State, subtracts: bool = False) -> None:
        """Raise where the integrator does not make sense for these dynamics, or for subtracting εB̂."""

    def fits_simple(self, variables: set[str]) -> bool:
        """Whether `check` is known to hold for a family whose `simple_variables` are these."""
        return False

    def walls(self, theta: PyTree[Array]) -> tuple[PyTree[Array], PyTree[Array]] | None:
        """The lower and the upper walls at which theta is reflected; None where there are none."""
        return None

    @abc.abstractmethod
    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """Shapes of the unit noise that `advance` takes."""

    @abc.abstractmethod
    def advance(self, step: StepInput) -> tuple[State, Array]:
        """The state one step later, and how far 2TD - εB̂ fell below zero (0 where it did not)."""
