r"""The exact law of Langevin and underdamped dynamics in U = λ(θ - μ)²/2, after any time.

In one direction of curvature λ, with deviations x = θ - μ, the state after a time s is Gaussian:

    x' = E[x' | x, r] + noise,   E linear in (x, r),   Cov = S - P S Pᵀ

with P = e^{-Fs} the matrix of E, and S = diag(T/λ, TM) the stationary covariance. In several dimensions this
holds in each eigenvector of the precision. Subtracting in Cov as written would lose all digits for short
times: each entry is written so that it does not.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array


class LangevinLaw(NamedTuple):
    """x' = decay·x + spread·w, with w standard normal."""

    decay: Array
    spread: Array


def langevin_law(curvature: Array, time: Array, D: Array, temperature: Array) -> LangevinLaw:
    r"""dx = -Dλx dt + √(2TD) dW over a time s: decay e^{-Dλs}, variance (T/λ)(1 - e^{-2Dλs})."""
    exponent = D * curvature * time
    return LangevinLaw(jnp.exp(-exponent), jnp.sqrt(temperature / curvature * -jnp.expm1(-2 * exponent)))


class UnderdampedLaw(NamedTuple):
    """x' = P_xx x + P_xr r + cross·w_r + rest·w_x and r' = P_rx x + P_rr r + spread·w_r."""

    P_xx: Array
    P_xr: Array
    P_rx: Array
    P_rr: Array
    spread: Array
    cross: Array
    rest: Array


def underdamped_law(
    curvature: Array, time: Array, friction: Array, mass: Array, temperature: Array
) -> UnderdampedLaw:
    r"""dx = (r/M) dt, dr = [-λx - (C/M)r] dt + √(2TC) dW over a time s.

    With γ = C/M, ω² = λ/M and g(s) = e^{-γs/2} sin(νs)/ν, ν² = ω² - γ²/4 (sinh where ν² is negative):

        P = [[ġ + γg, g/M], [-λg, ġ]],   Cov(x, r) = (TC/M) g²,
        Var r = TM (1 - ġ² - ω²g²),      Var x = (T/λ)(1 - (ġ + γg)² - ω²g²)
    """
    gamma, square = friction / mass, curvature / mass
    a = gamma / 2
    is_overdamped = a**2 > square
    # The half difference of the two rates, or the frequency; at the critical friction both formulas hold.
    nu = jnp.maximum(jnp.sqrt(jnp.abs(a**2 - square)), 1e-4 * a)
    # Underdamped.
    envelope = jnp.exp(-a * time)
    c, g = envelope * jnp.cos(nu * time), envelope * jnp.sin(nu * time) / nu
    # Overdamped, with rates fast > slow: e^{νs} is never formed.
    fast = a + nu
    slow = square / fast
    slow_part, fast_part = jnp.expm1(-slow * time), jnp.expm1(-fast * time)
    c = jnp.where(is_overdamped, 1 + (slow_part + fast_part) / 2, c)
    g = jnp.where(is_overdamped, (1 + slow_part) * -jnp.expm1(-2 * nu * time) / (2 * nu), g)
    # 1 - P_xx. Where friction dominates, P_xx stays near 1 for long.
    by_rates = (slow * fast_part - fast * slow_part) / (2 * nu)
    lost = jnp.where(is_overdamped & (nu > a / 2), by_rates, 1 - (c + a * g))
    velocity = c - a * g
    # 1 - ġ² - ω²g², of order s; then 1 - P_xx² - ω²g², of order s³ and by a series where s is small.
    var_r = -jnp.expm1(-gamma * time) + gamma * g * (c - a * g)
    x, y = gamma * time, square * time**2
    is_short = (x < _SHORT) & (y < _SHORT**2)
    series = 2 * x * y * _series(jnp.where(is_short, x, 0.0), jnp.where(is_short, y, 0.0))
    var_x = jnp.where(is_short, series, lost * (2 - lost) - square * g**2)
    covariance = gamma * g**2
    moves = time > 0
    safe_var_r = jnp.where(moves, var_r, 1.0)
    # x' given r'. Units: x in √(T/λ), r in √(TM), so that the covariance has a factor ω.
    regression = jnp.where(moves, covariance / safe_var_r, 0.0)
    rest = jnp.sqrt(jnp.maximum(var_x / square - regression * covariance, 0.0) * temperature / mass)
    spread = jnp.sqrt(var_r * temperature * mass)
    return UnderdampedLaw(
        c + a * g, g / mass, -curvature * g, velocity, spread, regression * spread / mass, rest
    )


# Below this γs and ωs, 1 - P_xx² - ω²g² is computed by its Taylor series 2xy Σ, with x = γs and y = ω²s².
_SHORT, _DEGREE = 0.25, 9


def _taylor_terms() -> list[tuple[int, int, float]]:
    """(i, j, coefficient) of x^i y^j in s⁻³∫₀ˢ g², up to a power of s.

    g = Σ_n c_n sⁿ/n! with c₀ = 0, c₁ = 1 and c_{n+2} = -γ c_{n+1} - ω² c_n, each c_n a polynomial.
    """
    c: list[dict[tuple[int, int], float]] = [{}, {(0, 0): 1.0}]
    while len(c) < _DEGREE + 2:
        new: dict[tuple[int, int], float] = {}
        for (i, j), value in c[-1].items():
            new[i + 1, j] = new.get((i + 1, j), 0.0) - value
        for (i, j), value in c[-2].items():
            new[i, j + 1] = new.get((i, j + 1), 0.0) - value
        c.append(new)
    total: dict[tuple[int, int], float] = {}
    for m in range(1, len(c)):
        for n in range(1, len(c)):
            if m + n - 2 > _DEGREE - 1:
                continue
            weight = 1 / (math.factorial(m) * math.factorial(n) * (m + n + 1))
            for (i, j), one in c[m].items():
                for (k, l), other in c[n].items():
                    total[i + k, j + l] = total.get((i + k, j + l), 0.0) + weight * one * other
    return [(i, j, value) for (i, j), value in sorted(total.items())]


_TERMS = _taylor_terms()


def _series(x: Array, y: Array) -> Array:
    """Σ coefficient x^i y^j, by Horner's rule in x and then in y."""
    total = jnp.zeros_like(x)
    for j in range(max(j for _, j, _ in _TERMS), -1, -1):
        by_x = {i: value for i, power, value in _TERMS if power == j}
        inner = jnp.zeros_like(x)
        for i in range(max(by_x), -1, -1):
            inner = inner * x + by_x.get(i, 0.0)
        total = total * y + inner
    return total
