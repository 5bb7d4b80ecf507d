"""Underdamped dynamics solved exactly for a gradient that stays what it is over the step."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._module import Module
from fokker._state import State
from fokker.dynamics import SDE, Dynamics
from fokker.fields import Field
from fokker.integrators._friction import check_friction, friction_rate
from fokker.integrators._gradient import Gradient, evaluate, no_force
from fokker.integrators.euler_maruyama import one_number


class ExactOU(Module):
    r"""θ and r drawn together from an Ornstein–Uhlenbeck process, the force g = -∇Ũ(θ) frozen for a step h.

        E θ' = θ + [α r + β g]/m,           α = (1 - e^{-γh})/γ,   β = (h - α)/γ,   γ = C/m
        E r' = r e^{-γh} + α g
        Var r' = Tm(1 - e^{-2γh}),  Var θ' = (T/m)(2γh - 3 + 4e^{-γh} - e^{-2γh})/γ²,  Cov = T(1 - e^{-γh})²/γ

    The step of underdamped Langevin Monte Carlo (Cheng et al. 2018). Exact where U is linear; weak order 1
    elsewhere, one gradient a step, stable at any friction. For dynamics of `theta` and `r` with a diagonal
    D on r, friction coordinate by coordinate and dθ = r/m dt.
    """

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
        if not isinstance(rates, jax.core.Tracer) and not bool(jnp.all(rates > 0)):
            raise ValueError("exact Ornstein–Uhlenbeck steps need friction on every coordinate of r.")

    def noise_like(self, dynamics: Dynamics | SDE, z: State, noise_estimate: Field | None = None) -> Any:
        """Noise for r, and as much again for theta."""
        like = dynamics.noise_like(z)["r"]
        return {"r": like, "theta": like}

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
        """The state one step later."""
        assert isinstance(dynamics, Dynamics)
        h, T = one_number(step_size), dynamics.temperature
        still = {**z, "r": jax.tree.map(jnp.zeros_like, z["r"])}
        force = dynamics.drift(still, evaluate(gradient, dynamics, z), probe)["r"]
        rates = friction_rate(dynamics, z)
        diagonal = dynamics.D.diagonal(z)
        assert diagonal is not None

        def velocity(r: PyTree[Array]) -> PyTree[Array]:
            """What a momentum r adds to dθ/dt: r/m."""
            return dynamics.drift({**z, "r": r}, no_force(dynamics, z), probe)["theta"]

        ones = jax.tree.map(jnp.ones_like, z["r"])
        inverse_masses = jax.jvp(velocity, (z["r"],), (ones,))[1]

        def move(
            theta: Array, r: Array, g: Array, gamma: Array, c: Array, k: Array, w: Array, v: Array
        ) -> tuple[Array, Array]:
            a, b, var_theta, var_r, cov = coefficients(gamma * h)
            scale = T * c  # noise 2Tc a unit of time on r
            spread_r = jnp.sqrt(scale * h * var_r)
            # θ given r' has the variance that the regression of θ on r' leaves.
            slope = k * h * cov / var_r
            rest = jnp.sqrt(scale * h**3 * k**2 * var_theta)
            new_r = jnp.exp(-gamma * h) * r + h * a * g + spread_r * w
            new_theta = theta + k * (h * a * r + h**2 * b * g) + slope * spread_r * w + rest * v
            return new_theta.astype(theta.dtype), new_r.astype(r.dtype)

        moved = jax.tree.map(
            move,
            z["theta"],
            z["r"],
            force,
            rates,
            diagonal["r"],
            inverse_masses,
            noise["r"],
            noise["theta"],
        )
        pairs = jax.tree.structure(z["theta"])
        theta, r = jax.tree.transpose(pairs, jax.tree.structure((0, 0)), moved)
        return {**z, "theta": theta, "r": r}, jnp.zeros(())


def coefficients(x: Array) -> tuple[Array, Array, Array, Array, Array]:
    """What the solution depends on by x = γh alone, each a number of order one as x → 0.

    α = h a, β = h² b; with noise of strength 2Tc on r: Var r' = Tc h v, Cov = Tc k h² a², and the variance of
    θ' left when r' is known is Tc k² h³ w. Below x = 1 by their series: the closed forms cancel there.
    """
    still = x == 0  # a schedule may come to rest
    x = jnp.where(still, 1.0, x)
    small = x < 1
    s, large = jnp.where(small, x, 0.5), jnp.where(small, 1.0, x)
    e = jnp.exp(-large)
    a = -jnp.expm1(-x) / x
    v = -jnp.expm1(-2 * x) / x
    b = jnp.where(small, _series(s, _B), (1 - a) / large)
    q = jnp.where(small, _series(s, _Q), (2 * large - 3 + 4 * e - e**2) / large**3)
    limits = (1.0, 0.5, 1 / 6, 2.0, 1.0)
    found = (a, b, q - a**4 / v, v, a**2)
    return tuple(jnp.where(still, limit, value) for limit, value in zip(limits, found, strict=True))  # type: ignore[return-value]


_TERMS = 22  # enough for double precision at x = 1
_B = [(-1) ** k / math.factorial(k + 2) for k in range(_TERMS)]
_Q = [(4 * (-1) ** n - (-2) ** n) / math.factorial(n) for n in range(3, _TERMS + 3)]


def _series(x: Array, terms: list[float]) -> Array:
    total = jnp.zeros_like(x)
    for term in reversed(terms):
        total = total * x + term
    return total
