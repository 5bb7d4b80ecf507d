"""The axial gauge: Q p by integrating the flux along one axis, point by point and without a grid."""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fokker._core.state import State, ravel, unravel
from fokker.completion._explore import Exploration
from fokker.completion._flux import NEGLIGIBLE_FLUX, flat_flux, flux_velocity, require_finite
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.hamiltonian import hamiltonian_value
from fokker.dynamics.problem import Problem

_PANELS, _NODES = 20, 8
# A whole line's flux below this fraction of ∫|F| counts as none.
_NO_LEFTOVER = 1e-8
# exp of a difference of energies is cut here: outside the region of trust it would leave single precision.
_LARGEST_EXPONENT = 60.0


def composite_rule(panels: int = _PANELS) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss–Legendre quadrature on [0, 1], in equal panels."""
    x, w = np.polynomial.legendre.leggauss(_NODES)
    nodes = (np.arange(panels)[:, None] + (x + 1) / 2) / panels
    return nodes.ravel(), np.tile(w / (2 * panels), panels)


class AxialEntries(eqx.Module):
    r"""Q_ia(z) = (1/p(z)) ∫ F_i dz_a over z_a' < z_a, for one axis a; no other entries.

    Where every line carries no flux as a whole, the integral from the nearer end (with the opposite sign from
    the upper) is the same and loses no digits to cancellation in the tail: `two_sided`.
    """

    given: Dynamics | SDE
    temperature: Array
    side: Float[Array, " 2"]
    axis: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    two_sided: bool = eqx.field(static=True)

    def __call__(self, z: State, x: Array) -> Array:
        """The entries (i, a) for i ≠ a at the state, for fk.Dynamics at the temperature T (hence the 1/T)."""
        order, a, dtype = self.names or None, self.axis, x.dtype
        T = self.temperature.astype(dtype)
        velocity = flux_velocity(self.given, T)
        low, high = self.side.astype(dtype)
        margin = (high - low) / 8
        end = jnp.minimum(low, x[a] - margin)
        if self.two_sided:
            end = jnp.where(x[a] <= (low + high) / 2, end, jnp.maximum(high, x[a] + margin))
        H_here = hamiltonian_value(self.given.hamiltonian, z)
        nodes, weights = composite_rule(_PANELS if self.two_sided else 2 * _PANELS)

        def integrand(t: Array) -> Array:
            there = unravel(x.at[a].set(end + (x[a] - end) * t), z, order)
            gap = (H_here - hamiltonian_value(self.given.hamiltonian, there)) / T
            return ravel(velocity(there), order) * jnp.exp(jnp.minimum(gap, _LARGEST_EXPONENT).astype(dtype))

        values = jax.vmap(integrand)(jnp.asarray(nodes, dtype))
        total = (x[a] - end) * (jnp.asarray(weights, dtype) @ values)
        return jnp.delete(total, a, assume_unique_indices=True) / T


@dataclass(frozen=True, eq=False)
class AxialReport:
    """The axis chosen, its leftover flux, how far F is from divergence free, and whether F is zero."""

    axis: int
    leftover: float
    divergence: float
    is_zero: bool

    @property
    def two_sided(self) -> bool:
        """Whether the flux of every line ends."""
        return self.leftover < _NO_LEFTOVER


def survey(problem: Problem, found: Exploration, axis: int | None) -> AxialReport:
    """Choose the axis of least leftover flux, and measure stationarity at the points found.

    The divergence is ‖∇·F/p‖ relative to ‖Σ_i |∂_i F_i/p|‖, root mean square over the points: in [0, 1].
    """
    local = flat_flux(problem)
    points = jnp.asarray(found.points)
    H, f, velocity, size = (np.asarray(part) for part in jax.jit(jax.vmap(local))(points))
    names = problem.coordinate_names()
    for values, what in ((H, "the Hamiltonian"), (f, "the drift"), (velocity, "f - ∇·D + D∇H")):
        require_finite(values, what, found.points, names)
    d = problem.dimension
    if np.abs(velocity).max() <= NEGLIGIBLE_FLUX * size.max():
        return AxialReport(d - 1 if axis is None else axis, 0.0, 0.0, True)
    leftovers = [_leftover(local, points, a, found) for a in ([axis] if axis is not None else range(d))]
    best = int(np.argmin(np.round(leftovers, 9)))  # axes that differ by rounding alone: the first
    return AxialReport(
        best if axis is None else axis, leftovers[best], _divergence(problem, local, points), False
    )


def _leftover(local: Callable[..., tuple[Array, ...]], points: Array, a: int, found: Exploration) -> float:
    """Σ |∫F_i dz_a| / Σ ∫|F_i| dz_a over the lines through the points and the rows i ≠ a."""
    nodes, weights = composite_rule(2 * _PANELS)
    low, high = found.box[a]

    def line(x: Array) -> tuple[Array, Array]:
        H, _, velocity, _ = jax.vmap(lambda t: local(x.at[a].set(low + (high - low) * t)))(jnp.asarray(nodes))
        F = jnp.delete(velocity, a, axis=1, assume_unique_indices=True) * jnp.exp(jnp.min(H) - H)[:, None]
        return jnp.abs(jnp.asarray(weights) @ F), jnp.asarray(weights) @ jnp.abs(F)

    whole, absolute = jax.jit(lambda x: jax.lax.map(line, x, batch_size=8))(points)
    total = float(jnp.sum(absolute))
    return float(jnp.sum(whole)) / total if total > 0 else 0.0


def _divergence(problem: Problem, local: Callable[..., tuple[Array, ...]], points: Array) -> float:
    def terms(x: Array) -> Array:
        v = local(x)[2]
        slopes = jnp.diagonal(jax.jacfwd(lambda y: local(y)[2])(x))
        return slopes - v * jax.grad(problem.hamiltonian)(x)

    parts = np.asarray(jax.jit(jax.vmap(terms))(points))
    bottom = np.sqrt(np.mean(np.abs(parts).sum(axis=1) ** 2))
    return float(np.sqrt(np.mean(parts.sum(axis=1) ** 2)) / bottom) if bottom > 0 else 0.0
