"""One step of isokinetic dynamics: a particle of unit speed that the force turns."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

Vector = Float[Array, " d"]
# U/T and its gradient at a position.
ValueAndGradient = Callable[[Vector], tuple[Array, Vector]]

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
    largest = jnp.max(jnp.abs(gradient))
    unit = gradient / jnp.where(largest > 0, largest, 1)  # its square neither overflows nor vanishes
    size = jnp.sqrt(jnp.sum(unit**2))
    e = -unit / jnp.where(size > 0, size, 1)
    delta = t * (largest * size) / (u.size - 1)
    plus, minus = jnp.sum((u + e) ** 2) / 4, jnp.sum((u - e) ** 2) / 4
    zeta = jnp.exp(-delta)
    turned = -2 * jnp.expm1(-delta) * (plus + minus * zeta) * e + 2 * zeta * u
    length = jnp.sqrt(jnp.sum(turned**2))
    small = delta < 1
    near = jnp.log1p(minus * jnp.expm1(-2 * jnp.where(small, delta, 0)))
    far = jnp.logaddexp(jnp.log(plus), jnp.log(minus) - 2 * delta)
    growth = delta + jnp.where(small, near, far)
    return jnp.where(length > 0, turned / jnp.where(length > 0, length, 1), u), (u.size - 1) * growth


def refresh(u: Vector, noise: Vector, t: Array, L: Array) -> Vector:
    """u' ∝ u + ν w, ν² = (e^{2t/L} - 1)/d: u is refreshed in part, reversibly if uniform on the sphere."""
    nu = jnp.sqrt(jnp.expm1(2 * t / L) / u.size)
    return unit_vector(u + nu * noise)


def unit_vector(noise: Vector) -> Vector:
    """The direction of a vector; uniform on the sphere for normal entries."""
    return noise / jnp.sqrt(jnp.sum(noise**2))


def isokinetic_step(
    value_and_gradient: ValueAndGradient,
    x: Vector,
    u: Vector,
    gradient: Vector,
    h: Array,
    scale: Array,
    coefficients: tuple[float, ...],
) -> tuple[Vector, Vector, Array, Vector, Array]:
    """(x, u, U, ∇U, ΔK) one step later, by alternating kicks and drifts; x moves in units of `scale`.

    `gradient` is ∇U at x, known from the last step: a leapfrog takes one gradient, minimal norm two.
    """
    first, *rest = coefficients
    u, kinetic = kick(u, scale * gradient, first * h)
    U = jnp.zeros(())
    for drift, push in zip(rest[::2], rest[1::2], strict=True):
        x = x + drift * h * scale * u
        U, gradient = value_and_gradient(x)
        u, more = kick(u, scale * gradient, push * h)
        kinetic = kinetic + more
    return x, u, U, gradient, kinetic
