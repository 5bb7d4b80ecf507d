"""The leapfrog for Hamiltonians in which position and momentum do not separate."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fokker._core.checks import check_whole
from fokker._core.required import require
from fokker._core.state import State, depends_on, ravel, unravel
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics._checks import probe
from fokker.dynamics.hamiltonian import hamiltonian_value
from fokker.fields._blocks import vanishes
from fokker.integrators._integrator import StepInput
from fokker.integrators._proposal import Correctable, Point, Proposal, evaluate_point
from fokker.integrators.euler_maruyama import one_number

Vector = Float[Array, " d"]
HamiltonianOf = Callable[[Vector, Vector], Array]

# A step taken back may miss its start by this many times the tolerance of an iteration.
_REVERSAL = 100.0


def _size(v: Vector) -> Array:
    return jnp.max(jnp.abs(v))


def _allowed(x: Vector, start: Vector, tolerance: Array) -> Array:
    """A share of the distance moved, whatever the units, and rounding."""
    return tolerance * _size(x - start) + 4 * jnp.finfo(x.dtype).eps * jnp.maximum(_size(x), _size(start))


def _fixed_point(
    function: Callable[[Vector], Vector], start: Vector, tolerance: Array, limit: int
) -> tuple[Vector, Array]:
    """x = function(x) by iteration, and whether it converged."""

    def not_converged(carry: tuple[Vector, Array, Array]) -> Array:
        x, error, count = carry
        return (error > _allowed(x, start, tolerance)) & (count < limit)

    def iterate(carry: tuple[Vector, Array, Array]) -> tuple[Vector, Array, Array]:
        x, _, count = carry
        new = function(x)
        return new, _size(new - x), count + 1

    first = iterate((start, jnp.zeros((), start.dtype), jnp.zeros((), jnp.int32)))
    x, error, _ = jax.lax.while_loop(not_converged, iterate, first)
    # A comparison with NaN is false: what left the finite numbers has not converged.
    return x, error <= _allowed(x, start, tolerance)


def generalised_leapfrog(
    hamiltonian: HamiltonianOf, x: Vector, r: Vector, h: Array, tolerance: Array, limit: int
) -> tuple[Vector, Vector, Array]:
    r"""(θ', r') and whether both implicit equations were solved (Leimkuhler and Reich 2004).

        r½ = r - (h/2) ∂H/∂θ(θ, r½)
        θ' = θ + (h/2) (∂H/∂r(θ, r½) + ∂H/∂r(θ', r½))
        r' = r½ - (h/2) ∂H/∂θ(θ', r½)

    Symplectic, reversible and of second order where the first two are solved, by iteration to a relative
    `tolerance` in at most `limit` rounds.
    """
    by_x, by_r = jax.grad(hamiltonian, 0), jax.grad(hamiltonian, 1)
    half, solved = _fixed_point(lambda p: r - h / 2 * by_x(x, p), r, tolerance, limit)
    velocity = by_r(x, half)
    new, converged = _fixed_point(lambda y: x + h / 2 * (velocity + by_r(y, half)), x, tolerance, limit)
    return new, half - h / 2 * by_x(new, half), solved & converged


def reversible_leapfrog(
    hamiltonian: HamiltonianOf, x: Vector, r: Vector, h: Array, tolerance: Array, limit: int
) -> tuple[Vector, Vector, Array]:
    """`generalised_leapfrog`, and whether its equations were solved and a step back leads to the start.

    An implicit equation may have several solutions: a step that does not lead back would break detailed
    balance, and "leads back" has the same answer from either end, so that rejecting it does not.
    """
    new, p, solved = generalised_leapfrog(hamiltonian, x, r, h, tolerance, limit)
    x_back, r_back, solved_back = generalised_leapfrog(hamiltonian, new, -p, h, tolerance, limit)
    back = _size(x_back - x) <= _REVERSAL * _allowed(new, x, tolerance)
    back &= _size(r_back + r) <= _REVERSAL * _allowed(p, r, tolerance)
    return new, p, solved & solved_back & back


class GeneralisedLeapfrog(Correctable):
    r"""The leapfrog of any Hamiltonian H(θ, r) that is even in r, as in a metric that depends on theta.

        r½ = r - (h/2) ∂H/∂θ(θ, r½),  θ' = θ + (h/2)(∂H/∂r(θ, r½) + ∂H/∂r(θ', r½)),
        r' = r½ - (h/2) ∂H/∂θ(θ', r½)

    The implicit equations are solved by iteration, to `tolerance` of the distance moved (1e-5, in double
    precision 1e-10) in at most `iterations` iterations; a step that is not solved, or does not end where it
    started when taken back, is rejected by a correction. Reversible, keeps volume, order 2
    (Leimkuhler and Reich 2004). For dynamics of `theta` and `r` with D = 0 and Q = [[0, -I], [I, 0]].

    Arguments:

    - `tolerance`: of the implicit equations; None for one that fits the precision.
    - `iterations`: the most that they are given.

    ```python
    kinetic = lambda theta, r: jnp.sum(r**2 / (1 + theta**2)) / 2
    H = fk.Hamiltonian(lambda theta: jnp.sum(theta**2) / 2, kinetic)
    sampler = fk.samplers.recipe(
        fk.Dynamics(H, Q={("r", "theta"): 1.0}), 0.1, integrator=fk.integrators.GeneralisedLeapfrog()
    )
    ```
    """

    tolerance: Any = None
    iterations: int = eqx.field(static=True, default=50)

    label: ClassVar = "generalised leapfrog"
    is_deterministic: ClassVar = True
    error_order: ClassVar = 3.0

    def __check_init__(self) -> None:
        check_whole("iterations", self.iterations)
        if self.tolerance is not None and not self.tolerance > 0:
            raise ValueError(f"the tolerance must be positive; {self.tolerance} was given.")

    def precisely(self) -> "GeneralisedLeapfrog":
        """To 1e-12 in double precision."""
        return GeneralisedLeapfrog(1e-12, 4 * self.iterations)

    def check(self, dynamics: Dynamics | SDE, z: State, subtracts: bool = False) -> None:
        """Raise unless the dynamics are Hamiltonian, in a position and its momentum."""
        if not (isinstance(dynamics, Dynamics) and isinstance(z, Mapping) and set(z) == {"theta", "r"}):
            raise ValueError("the generalised leapfrog is for Hamiltonian dynamics of theta and r.")
        v = probe(0, z)
        turned = {"theta": jax.tree.map(jnp.negative, v["r"]), "r": v["theta"]}
        off = ravel(dynamics.Q.mv(z, v)) - ravel(turned)
        turns = any(depends_on(f, name, z) for f in dynamics.Q.functions() for name in z)
        require(
            vanishes(dynamics.D) & (not turns) & jnp.all(jnp.abs(off) < 1e-5),
            lambda: ValueError(
                "the generalised leapfrog is for Hamiltonian dynamics, with D = 0 and "
                "Q={('r', 'theta'): 1.0}; these have others. Use EulerMaruyama() where D is invertible."
            ),
        )

    def advance(self, step: StepInput) -> tuple[State, Array]:
        """The state one step later."""
        if step.gradient is not None:
            raise ValueError("the generalised leapfrog needs H itself, and takes no stochastic gradient.")
        return self._step(step.dynamics, step.z, step.step_size)[0], jnp.zeros(())

    def evaluate(self, dynamics: Dynamics | SDE, z: State) -> Point:
        """U alone: the gradients of a step are at other points."""
        return evaluate_point(dynamics, z, with_gradient=False)

    def propose(
        self, dynamics: Dynamics | SDE, z: State, noise: PyTree[Array], step_size: Number, point: Point
    ) -> Proposal:
        """The step, and whether it leads back."""
        new, is_sound = self._step(dynamics, z, step_size)
        return Proposal(new, self.evaluate(dynamics, new), jnp.zeros(()), is_sound)

    def _step(self, dynamics: Dynamics | SDE, z: State, step_size: Number) -> tuple[State, Array]:
        x, r = ravel(z["theta"]), ravel(z["r"])

        def H(x: Vector, r: Vector) -> Array:
            at = {"theta": unravel(x, z["theta"]), "r": unravel(r, z["r"])}
            return hamiltonian_value(dynamics.hamiltonian, at)

        tolerance = self.tolerance
        if tolerance is None:
            tolerance = 1e-5 if jnp.finfo(x.dtype).bits == 32 else 1e-10
        h = one_number(step_size).astype(x.dtype)
        x, r, is_sound = reversible_leapfrog(H, x, r, h, tolerance, self.iterations)
        return {"theta": unravel(x, z["theta"]), "r": unravel(r, z["r"])}, is_sound
