"""What trees have in common: a path that doubles, by steps that lead back exactly."""

from jaxtyping import Array, Float

from fokker._core.state import State, unravel
from fokker.corrections._correction import Correction, Step, check_positive_temperature
from fokker.dynamics import SDE, Dynamics
from fokker.integrators import Correctable, Integrator, Point

Vector = Float[Array, " d"]


class DoublingPath(Correction):
    """A path that doubles until it begins to return; a point of it is chosen."""

    def error_order(self, integrator: Correctable) -> float:
        """That of a path of given length."""
        return integrator.error_order - 1

    def check_integrator(self, integrator: Integrator) -> Correctable:
        """Raise unless its steps lead back exactly."""
        if not (isinstance(integrator, Correctable) and integrator.is_deterministic):
            raise ValueError(
                f"a tree needs steps that lead back exactly, with no noise in them; those of "
                f"{type(integrator).__name__} do not. Use fk.integrators.Leapfrog() with Hamiltonian "
                "dynamics (D = 0), or fk.corrections.Metropolis()."
            )
        return integrator

    def check(self, dynamics: Dynamics | SDE, integrator: Integrator, z: State) -> None:
        """Raise unless the integrator is reversible and deterministic, for a position and a momentum."""
        check_positive_temperature(dynamics)
        correctable = self.check_integrator(integrator)
        if set(z) != {"theta", "r"}:
            raise ValueError(f"a tree needs a state of theta and r; this one has {', '.join(sorted(z))}.")
        correctable.check_correction(dynamics, z)


def as_state(q: Vector, p: Vector, g: Vector, step: Step) -> tuple[State, Point]:
    """A point of a path as the integrator takes it."""
    theta, r = (unravel(x, step.like[name]) for x, name in ((q, "theta"), (p, "r")))
    gradient = unravel(g, step.like["theta"]) if step.knows_gradient else None
    return {"theta": theta, "r": r}, Point(None, gradient)
