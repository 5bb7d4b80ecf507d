"""The stochastic gradient of a step, as integrators take it."""

from collections.abc import Callable

from jaxtyping import Array, PyTree

from fokker._core.state import State, zeros_like
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.hamiltonian import Hamiltonian

# ∇Ũ as a function of the position, for an integrator to evaluate where it needs it; None for ∇U itself.
Gradient = Callable[[PyTree[Array]], PyTree[Array]] | None


def position_of(dynamics: Dynamics | SDE, z: State) -> PyTree[Array]:
    """The variable that the potential is a function of."""
    H = dynamics.hamiltonian
    if isinstance(H, Hamiltonian):
        return H.position_of(z)
    return z["theta"] if isinstance(z, dict) and "theta" in z else z


def no_force(dynamics: Dynamics | SDE, z: State) -> PyTree[Array] | None:
    """A gradient that costs nothing, for rows of the drift that do not depend on it."""
    known = isinstance(dynamics.hamiltonian, Hamiltonian)
    return zeros_like(position_of(dynamics, z)) if known else None


def evaluate(gradient: Gradient, dynamics: Dynamics | SDE, z: State) -> PyTree[Array] | None:
    """∇Ũ at the position of z, or None for the dynamics' own."""
    return None if gradient is None else gradient(position_of(dynamics, z))
