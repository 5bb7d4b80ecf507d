"""Underdamped dynamics solved exactly for a gradient that is constant over the step."""

import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.required import require
from fokker._core.state import State
from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics._checks import probe
from fokker.fields import Field
from fokker.integrators._friction import check_friction, friction_rate
from fokker.integrators._gradient import evaluate, no_force
from fokker.integrators._integrator import StepInput
from fokker.integrators._proposal import Correctable, Point, Proposal, with_reversed_momentum
from fokker.integrators.euler_maruyama import one_number


class ExactOU(Correctable):
    r"""θ and r drawn together from an Ornstein–Uhlenbeck process, the force g = -∇Ũ(θ) frozen for a step h.

        E θ' = θ + [α r + β g]/m,           α = (1 - e^{-γh})/γ,   β = (h - α)/γ,   γ = C/m
        E r' = r e^{-γh} + α g
        Var r' = Tm(1 - e^{-2γh}),  Var θ' = (T/m)(2γh - 3 + 4e^{-γh} - e^{-2γh})/γ²,  Cov = T(1 - e^{-γh})²/γ

    The step of underdamped Langevin Monte Carlo (Cheng et al. 2018). Exact where U is linear; weak order 1
    elsewhere, one gradient per step, stable at any friction. For dynamics of `theta` and `r` with a diagonal
    D on r, friction coordinate by coordinate and dθ = r/m dt.

    It has no arguments.

    ```python
    sampler = fk.samplers.sghmc(0.1, integrator=fk.integrators.ExactOU())
    trace = fk.sample(target, sampler, init=jnp.zeros(2), steps=1000)
    ```
    """

    label: ClassVar = "exact OU"
    gradient_at_start: ClassVar = True
    # The frozen gradient is off by O(ε), its force by O(ε²), against a noise of √ε.
    error_order: ClassVar = 1.5
    has_density: ClassVar = True

    def check(self, dynamics: Dynamics | SDE, z: State, subtracts: bool = False) -> None:
        """Raise unless the friction of these dynamics can be solved exactly."""
        if subtracts:
            raise ValueError(
                "the exact Ornstein–Uhlenbeck step cannot subtract a noise_estimate: use SymplecticEuler() "
                "or EulerMaruyama() with it."
            )
        what = "exact Ornstein–Uhlenbeck steps are for dynamics of theta and r"
        check_friction(dynamics, z, what, ({"theta", "r"},))
        assert isinstance(dynamics, Dynamics)
        rates = jnp.concatenate([jnp.ravel(g) for g in jax.tree.leaves(friction_rate(dynamics, z))])
        require(
            jnp.all(rates > 0),
            lambda: ValueError("exact Ornstein–Uhlenbeck steps need friction on every coordinate of r."),
        )
        require(
            _moves_by_coordinate(dynamics, z),
            lambda: ValueError(
                "exact Ornstein–Uhlenbeck steps need dθ = r/m dt, coordinate by coordinate; this Q mixes "
                "them. Use Splitting(), SymplecticEuler() or EulerMaruyama()."
            ),
        )

    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """Noise for r, and the same amount for theta."""
        like = dynamics.noise_like(z)["r"]
        return {"r": like, "theta": like}

    def advance(self, step: StepInput) -> tuple[State, Array]:
        """The state one step later."""
        z, noise = step.z, step.noise
        gradient = evaluate(step.gradient, step.dynamics, z)
        law = _law(step.dynamics, z, gradient, one_number(step.step_size), step.probe)
        r = jax.tree.map(lambda m, s, w: m + s * w, law.mean_r, law.spread_r, noise["r"])
        theta = jax.tree.map(
            lambda m, coefficient, s, w, rest, v: m + coefficient * s * w + rest * v,
            law.mean_theta,
            law.coefficient,
            law.spread_r,
            noise["r"],
            law.rest,
            noise["theta"],
        )
        moved = {"theta": theta, "r": r}
        return {**z, **jax.tree.map(lambda new, x: new.astype(x.dtype), moved, _pair(z))}, jnp.zeros(())

    def propose(
        self, dynamics: Dynamics | SDE, z: State, noise: PyTree[Array], step_size: Number, point: Point
    ) -> Proposal:
        """The step with its normal density there, and from (θ', -r') back to (θ, -r); one gradient."""
        h = one_number(step_size)
        new, _ = self.advance(StepInput(dynamics, z, point.known_gradient, noise, h))
        new_point = self.evaluate(dynamics, new)
        back, end = with_reversed_momentum(new), with_reversed_momentum(z)
        there = _log_density(dynamics, z, point, new, h)
        return Proposal(new, new_point, _log_density(dynamics, back, new_point, end, h) - there)


def _moves_by_coordinate(dynamics: Dynamics, z: State) -> Array:
    """Whether ∂f_θ/∂r is diagonal, as far as one random direction tells."""
    still = no_force(dynamics, z)

    def product(v: PyTree[Array]) -> PyTree[Array]:
        return jax.jvp(lambda r: dynamics.drift({**z, "r": r}, still)["theta"], (z["r"],), (v,))[1]

    v = probe(4, z["r"])
    along, ones = product(v), product(jax.tree.map(jnp.ones_like, v))
    is_along = [
        ~(jnp.max(jnp.abs(a - k * x)) > 1e-3 * (1e-6 + jnp.max(jnp.abs(a))))
        for a, k, x in zip(*(jax.tree.leaves(t) for t in (along, ones, v)), strict=True)
    ]
    return jnp.all(jnp.stack(is_along))


class _Law(NamedTuple):
    """r' ~ N(mean_r, spread_r²), and θ' given r' ~ N(mean_θ + coefficient (r' - mean_r), rest²)."""

    mean_theta: PyTree[Array]
    mean_r: PyTree[Array]
    coefficient: PyTree[Array]
    spread_r: PyTree[Array]
    rest: PyTree[Array]


def _pair(z: State) -> State:
    return {name: z[name] for name in ("theta", "r")}


def _law(
    dynamics: Dynamics | SDE, z: State, gradient: PyTree[Array] | None, h: Array, probe: State | None = None
) -> _Law:
    """The normal law of a step from z."""
    assert isinstance(dynamics, Dynamics)
    T = dynamics.temperature
    still = {**z, "r": jax.tree.map(jnp.zeros_like, z["r"])}
    force = dynamics.drift(still, gradient, probe)["r"]
    rates = friction_rate(dynamics, z)
    diagonal = dynamics.D.diagonal(z)
    assert diagonal is not None

    def velocity(r: PyTree[Array]) -> PyTree[Array]:
        """What a momentum r adds to dθ/dt: r/m."""
        return dynamics.drift({**z, "r": r}, no_force(dynamics, z), probe)["theta"]

    ones = jax.tree.map(jnp.ones_like, z["r"])
    inverse_masses = jax.jvp(velocity, (z["r"],), (ones,))[1]

    def law(theta: Array, r: Array, g: Array, gamma: Array, c: Array, k: Array) -> tuple[Array, ...]:
        a, b, var_theta, var_r, cov = coefficients(gamma * h)
        scale = T * c  # noise 2Tc per unit of time on r
        spread_r = jnp.sqrt(scale * h * var_r)
        # θ given r' has the variance that the regression of θ on r' leaves.
        coefficient = k * h * cov / var_r
        rest = jnp.sqrt(scale * h**3 * k**2 * var_theta)
        mean_r = jnp.exp(-gamma * h) * r + h * a * g
        return theta + k * (h * a * r + h**2 * b * g), mean_r, coefficient, spread_r, rest

    each = jax.tree.map(law, z["theta"], z["r"], force, rates, diagonal["r"], inverse_masses)
    leaves = jax.tree.structure(z["theta"])
    return _Law(*jax.tree.transpose(leaves, jax.tree.structure((0,) * 5), each))


def _log_density(dynamics: Dynamics | SDE, z: State, point: Point, new: State, h: Array) -> Array:
    """log of the density of a step from z at z', up to a constant."""
    law = _law(dynamics, z, point.gradient, h)

    def one(
        theta: Array,
        r: Array,
        mean_theta: Array,
        mean_r: Array,
        coefficient: Number,
        s: PyTree[Array],
        rest: PyTree[Array],
    ) -> Array:
        w = (r - mean_r) / s
        v = (theta - mean_theta - coefficient * (r - mean_r)) / rest
        return -jnp.sum((w**2 + v**2) / 2 + jnp.log(s) + jnp.log(rest))

    return jax.tree.reduce(jnp.add, jax.tree.map(one, new["theta"], new["r"], *law))


def coefficients(x: Array) -> tuple[Array, Array, Array, Array, Array]:
    """The functions of x = γh in the solution, each of order one as x → 0.

    α = h a, β = h² b; with noise of strength 2Tc on r: Var r' = Tc h v, Cov = Tc k h² a², and the variance of
    θ' left when r' is known is Tc k² h³ w. Below x = 1 by their series: the closed forms cancel there.
    """
    still = x == 0  # a schedule may reach zero
    x = jnp.where(still, 1.0, x)
    small = x < 1
    s, large = jnp.where(small, x, 0.5), jnp.where(small, 1.0, x)
    e = jnp.exp(-large)
    a = -jnp.expm1(-x) / x
    v = -jnp.expm1(-2 * x) / x
    b = jnp.where(small, _series(s, _B), (1 - a) / large)
    q = jnp.where(small, _series(s, _Q), (2 * large - 3 + 4 * e - e**2) / large**3)
    limits = (1.0, 0.5, 1 / 6, 2.0, 1.0)
    values = (a, b, q - a**4 / v, v, a**2)
    return tuple(jnp.where(still, limit, value) for limit, value in zip(limits, values, strict=True))  # type: ignore[return-value]


_TERMS = 22  # enough for double precision at x = 1
_B = [(-1) ** k / math.factorial(k + 2) for k in range(_TERMS)]
_Q = [(4 * (-1) ** n - (-2) ** n) / math.factorial(n) for n in range(3, _TERMS + 3)]


def _series(x: Array, terms: list[float]) -> Array:
    total = jnp.zeros_like(x)
    for term in reversed(terms):
        total = total * x + term
    return total
