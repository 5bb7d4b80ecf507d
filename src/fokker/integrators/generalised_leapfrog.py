"""The leapfrog for Hamiltonians in which position and momentum do not separate."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Vector = Float[Array, " d"]
HamiltonianOf = Callable[[Vector, Vector], Array]

# How much more than the tolerance of an iteration a step may miss its start by, when it is taken back.
_REVERSAL = 100.0


def _size(v: Vector) -> Array:
    return jnp.max(jnp.abs(v))


def _allowed(x: Vector, start: Vector, tolerance: Array) -> Array:
    """A share of the way gone, whatever the units; and rounding."""
    return tolerance * _size(x - start) + 4 * jnp.finfo(x.dtype).eps * jnp.maximum(_size(x), _size(start))


def _fixed_point(
    function: Callable[[Vector], Vector], start: Vector, tolerance: Array, limit: int
) -> tuple[Vector, Array]:
    """x = function(x) by iteration, and whether it was reached."""

    def unfinished(carry: tuple[Vector, Array, Array]) -> Array:
        x, error, count = carry
        return (error > _allowed(x, start, tolerance)) & (count < limit)

    def iterate(carry: tuple[Vector, Array, Array]) -> tuple[Vector, Array, Array]:
        x, _, count = carry
        new = function(x)
        return new, _size(new - x), count + 1

    first = iterate((start, jnp.zeros((), start.dtype), jnp.zeros((), jnp.int32)))
    x, error, _ = jax.lax.while_loop(unfinished, iterate, first)
    # A comparison with NaN is false: what left the finite numbers has not arrived.
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
    new, arrived = _fixed_point(lambda y: x + h / 2 * (velocity + by_r(y, half)), x, tolerance, limit)
    return new, half - h / 2 * by_x(new, half), solved & arrived


def reversible_leapfrog(
    hamiltonian: HamiltonianOf, x: Vector, r: Vector, h: Array, tolerance: Array, limit: int
) -> tuple[Vector, Vector, Array]:
    """`generalised_leapfrog`, and whether its equations were solved and a step back leads to the start.

    An implicit equation may have several solutions: a step that does not lead back would break detailed
    balance, and "leads back" is the same question asked from either end, so that rejecting it does not.
    """
    new, p, solved = generalised_leapfrog(hamiltonian, x, r, h, tolerance, limit)
    x_back, r_back, solved_back = generalised_leapfrog(hamiltonian, new, -p, h, tolerance, limit)
    back = _size(x_back - x) <= _REVERSAL * _allowed(new, x, tolerance)
    back &= _size(r_back + r) <= _REVERSAL * _allowed(p, r, tolerance)
    return new, p, solved & solved_back & back
