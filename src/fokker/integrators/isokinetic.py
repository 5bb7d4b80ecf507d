"""One step of isokinetic dynamics: a particle of unit speed that the force turns."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fokker._core.names import nearest
from fokker._core.required import require
from fokker._core.state import State, ravel, unravel
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.dynamics.isokinetic import isokinetic
from fokker.fields._blocks import vanishes
from fokker.integrators._integrator import StepInput
from fokker.integrators._proposal import Correctable, Point, Proposal
from fokker.integrators.euler_maruyama import one_number

Vector = Float[Array, " d"]

_MINIMAL_NORM = 0.1931833275037836
# Shares of a step for alternating kicks and drifts. A list that reads the same backwards makes a step that
# is its own inverse once u is reversed, which Metropolis needs, and of second order.
COEFFICIENTS: dict[str, tuple[float, ...]] = {
    "leapfrog": (0.5, 1.0, 0.5),
    "minimal norm": (_MINIMAL_NORM, 0.5, 1 - 2 * _MINIMAL_NORM, 0.5, _MINIMAL_NORM),
}


def kick(u: Vector, gradient: Vector, t: Array) -> tuple[Vector, Array]:
    r"""du/dt = -(1 - uuᵀ)∇U/(d - 1) for a time t at a fixed position, solved exactly; and the change of K.

        u' = (u + e(sinh δ + c(cosh δ - 1))) / (cosh δ + c sinh δ),   ΔK = (d - 1) log(cosh δ + c sinh δ)

    with e = -∇U/|∇U|, c = e·u and δ = t|∇U|/(d - 1). Written with e^{-δ}, with (1 ± c)/2 = |u ± e|²/4, and
    with log1p for small δ, so that single precision is enough at both ends. ΔK is also minus the log
    of the factor by which the kick changes volume on the sphere.
    """
    d = float(u.size)
    largest = jnp.max(jnp.abs(gradient))
    unit = gradient / jnp.where(largest > 0, largest, 1)  # its square neither overflows nor vanishes
    size = jnp.sqrt(jnp.sum(unit**2))
    e = -unit / jnp.where(size > 0, size, 1)
    delta = t * (largest * size) / (d - 1)
    plus, minus = jnp.sum((u + e) ** 2) / 4, jnp.sum((u - e) ** 2) / 4
    zeta = jnp.exp(-delta)
    turned = -2 * jnp.expm1(-delta) * (plus + minus * zeta) * e + 2 * zeta * u
    length = jnp.sqrt(jnp.sum(turned**2))
    small = delta < 1
    near = jnp.log1p(minus * jnp.expm1(-2 * jnp.where(small, delta, 0)))
    far = jnp.logaddexp(jnp.log(plus), jnp.log(minus) - 2 * delta)
    growth = delta + jnp.where(small, near, far)
    return jnp.where(length > 0, turned / jnp.where(length > 0, length, 1), u), (d - 1) * growth


def refresh(u: Vector, noise: Vector, t: Array, L: Array) -> Vector:
    """u' ∝ u + ν w, ν² = (e^{2t/L} - 1)/d: u is refreshed in part, reversibly if uniform on the sphere."""
    nu = jnp.sqrt(jnp.expm1(2 * t / L) / float(u.size))
    return unit_vector(u + nu * noise)


def unit_vector(noise: Vector) -> Vector:
    """The direction of a vector; uniform on the sphere for normal entries."""
    return noise / jnp.sqrt(jnp.sum(noise**2))


class IsokineticLeapfrog(Correctable):
    r"""Alternating kicks of u and drifts of θ, each exact, for `fk.dynamics.isokinetic` without noise.

        u ← kick(u, s∇U(θ), a h),  θ ← θ + b h s u,  …

    `kind` is "leapfrog", one gradient per step where steps follow one another, or "minimal norm", two, whose
    error is smaller for the same work (Omelyan, Mryglod and Folk 2003). Both are of order 2, and lead back
    once u is reversed. A kick changes volume on the sphere of directions by e^{-ΔK}, the ratio of a proposal.

    Arguments:

    - `kind`: "minimal norm" (the default) or "leapfrog".

    ```python
    dynamics = fk.dynamics.isokinetic(lambda theta: jnp.sum(theta**2) / 2)
    sampler = fk.samplers.recipe(dynamics, 0.3, integrator=fk.integrators.IsokineticLeapfrog("leapfrog"))
    state = sampler.init({"theta": jnp.ones(2), "u": jnp.array([0.6, 0.8])})
    ```
    """

    kind: str = eqx.field(static=True, default="minimal norm")

    is_deterministic: ClassVar = True
    error_order: ClassVar = 3.0

    def __check_init__(self) -> None:
        if self.kind not in COEFFICIENTS:
            raise ValueError(
                f"the integrator is one of {', '.join(map(repr, COEFFICIENTS))}, not {self.kind!r}."
                f"{nearest(str(self.kind), list(COEFFICIENTS))}"
            )

    @property
    def label(self) -> str:  # type: ignore[override]
        """Its name in words."""
        return f"isokinetic {self.kind}"

    def check(self, dynamics: Dynamics | SDE, z: State, subtracts: bool = False) -> None:
        """Raise unless the dynamics are isokinetic, without noise, and |u| = 1."""
        if set(z) != {"theta", "u"} or not isinstance(dynamics.hamiltonian, Hamiltonian) or subtracts:
            raise ValueError(
                "the isokinetic leapfrog is for fk.dynamics.isokinetic(potential), of theta and u, with "
                f"exact gradients; the variables are {', '.join(z)}."
            )
        if ravel(z["theta"]).size < 2:
            raise ValueError("isokinetic dynamics need a theta of two numbers or more: u turns on a sphere.")
        wanted = isokinetic(dynamics.hamiltonian.potential, _scale(dynamics, z))
        f, g = ravel(dynamics.drift(z)), ravel(wanted.drift(z))
        is_isokinetic = jnp.all(jnp.abs(f - g) <= 1e-4 * (1 + jnp.abs(g)))
        is_isokinetic &= vanishes(dynamics.D_field(z) if isinstance(dynamics, SDE) else dynamics.D)
        require(
            is_isokinetic,
            lambda: ValueError(
                "the isokinetic leapfrog solves du = -(1 - uuᵀ)s∇U/(d - 1) dt without noise, and these "
                "dynamics are others: make them by fk.dynamics.isokinetic(potential, scale)."
            ),
        )
        speed = jnp.sum(z["u"] ** 2)
        require(
            jnp.abs(speed - 1) < 1e-3,
            lambda speed: ValueError(
                f"u is a direction, of length 1; its length here is {float(speed) ** 0.5:.3g}."
            ),
            speed,
        )

    def advance(self, step: StepInput) -> tuple[State, Array]:
        """The state one step later; one gradient more than `propose`, as none is known at its start."""
        potential: Any = step.dynamics.hamiltonian.potential  # type: ignore[attr-defined]
        gradient_at = jax.grad(potential) if step.gradient is None else step.gradient
        z, _, _ = self._step(
            step.dynamics,
            step.z,
            step.step_size,
            Point(None, gradient_at(step.z["theta"])),
            lambda t: Point(None, gradient_at(t)),
        )
        return z, jnp.zeros(())

    def check_correction(self, dynamics: Dynamics | SDE, z: State) -> None:
        """Nothing more than `check`: every step leads back."""

    def evaluate(self, dynamics: Dynamics | SDE, z: State) -> Point:
        """U and ∇U."""
        return _evaluate(dynamics, z["theta"])

    def propose(
        self, dynamics: Dynamics | SDE, z: State, noise: PyTree[Array], step_size: Number, point: Point
    ) -> Proposal:
        """The step with ∇U known at its start."""
        z, point, kinetic = self._step(dynamics, z, step_size, point, lambda t: _evaluate(dynamics, t))
        return Proposal(z, point, -kinetic)

    def rejected(self, z: State) -> State:
        """With u reversed: the way back is taken in reversed time."""
        return {**z, "u": -z["u"]}

    def _step(
        self,
        dynamics: Dynamics | SDE,
        z: State,
        step_size: Number,
        point: Point,
        evaluate: Callable[[PyTree[Array]], Point],
    ) -> tuple[State, Point, Array]:
        """The state, U and ∇U there, and the change of K."""
        h, scale = one_number(step_size), _scale(dynamics, z)
        first, *rest = COEFFICIENTS[self.kind]
        x, u = ravel(z["theta"]), z["u"]
        u, kinetic = kick(u, scale * ravel(point.gradient), first * h)
        for drift, push in zip(rest[::2], rest[1::2], strict=True):
            x = x + drift * h * scale * u
            point = evaluate(unravel(x, z["theta"]))
            u, more = kick(u, scale * ravel(point.gradient), push * h)
            kinetic = kinetic + more
        return {"theta": unravel(x, z["theta"]), "u": u}, point, kinetic


def _evaluate(dynamics: Dynamics | SDE, theta: PyTree[Array]) -> Point:
    return Point(*jax.value_and_grad(dynamics.hamiltonian.potential)(theta))  # type: ignore[attr-defined]


def _scale(dynamics: Dynamics | SDE, z: State) -> Vector:
    """s, the velocity at u = 1."""
    ones = {**z, "u": jnp.ones_like(z["u"])}
    return ravel(dynamics.drift(ones, jax.tree.map(jnp.zeros_like, z["theta"]))["theta"])
