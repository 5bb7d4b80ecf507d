"""The axial gauge: Q p by integrating the flux along one axis, without a grid."""

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
# A total flux of a line below this fraction of ∫|F| counts as zero.
_NO_LEFTOVER = 1e-8
# Upper bound for an energy difference in exp, which could overflow outside the region of trust.
_LARGEST_EXPONENT = 60.0


def composite_rule(panels: int = _PANELS) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss–Legendre quadrature on [0, 1], in equal panels."""
    x, w = np.polynomial.legendre.leggauss(_NODES)
    nodes = (np.arange(panels)[:, None] + (x + 1) / 2) / panels
    return nodes.ravel(), np.tile(w / (2 * panels), panels)


class AxialEntries(eqx.Module):
    r"""Q_ia(z) = (1/p(z)) ∫ F_i dz_a over z_a' < z_a, for one axis a; all other entries are zero.

    If the total flux of every line is zero, the integral from the upper end, with the opposite sign, is the
    same. `two_sided` integrates from the nearer end, which avoids cancellation in the tail.
    """

    dynamics: Dynamics | SDE
    temperature: Array
    side: Float[Array, " 2"]
    axis: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    two_sided: bool = eqx.field(static=True)

    def __call__(self, z: State, x: Array) -> Array:
        """The entries (i, a) for i ≠ a at the state; fk.Dynamics multiplies Q by T, hence the 1/T."""
        order, a, dtype = self.names or None, self.axis, x.dtype
        T = self.temperature.astype(dtype)
        velocity = flux_velocity(self.dynamics, T)
        low, high = self.side.astype(dtype)
        margin = (high - low) / 8
        end = jnp.minimum(low, x[a] - margin)
        if self.two_sided:
            end = jnp.where(x[a] <= (low + high) / 2, end, jnp.maximum(high, x[a] + margin))
        H_here = hamiltonian_value(self.dynamics.hamiltonian, z)
        nodes, weights = composite_rule(_PANELS if self.two_sided else 2 * _PANELS)

        def integrand(t: Array) -> Array:
            z_there = unravel(x.at[a].set(end + (x[a] - end) * t), z, order)
            gap = (H_here - hamiltonian_value(self.dynamics.hamiltonian, z_there)) / T
            return ravel(velocity(z_there), order) * jnp.exp(
                jnp.minimum(gap, _LARGEST_EXPONENT).astype(dtype)
            )

        values = jax.vmap(integrand)(jnp.asarray(nodes, dtype))
        total = (x[a] - end) * (jnp.asarray(weights, dtype) @ values)
        return jnp.delete(total, a, assume_unique_indices=True) / T


@dataclass(frozen=True, eq=False)
class AxialReport:
    """The chosen axis, its leftover flux, the relative divergence of F, and whether F is zero."""

    axis: int
    leftover: float
    divergence: float
    is_zero: bool

    @property
    def two_sided(self) -> bool:
        """Whether the total flux of every line is zero."""
        return self.leftover < _NO_LEFTOVER


def survey(problem: Problem, exploration: Exploration, axis: int | None) -> AxialReport:
    """Choose the axis of least leftover flux, and measure stationarity at the explored points.

    The divergence is ‖∇·F/p‖ relative to ‖Σ_i |∂_i F_i/p|‖, root mean square over the points: in [0, 1].
    """
    local = flat_flux(problem)
    points = jnp.asarray(exploration.points)
    H, f, velocity, size = (np.asarray(part) for part in jax.jit(jax.vmap(local))(points))
    names = problem.coordinate_names()
    for values, what in ((H, "the Hamiltonian"), (f, "the drift"), (velocity, "f - ∇·D + D∇H")):
        require_finite(values, what, exploration.points, names)
    d = problem.dimension
    if np.abs(velocity).max() <= NEGLIGIBLE_FLUX * size.max():
        return AxialReport(d - 1 if axis is None else axis, 0.0, 0.0, True)
    leftovers = [_leftover(local, points, a, exploration) for a in ([axis] if axis is not None else range(d))]
    best = int(np.argmin(np.round(leftovers, 9)))  # rounded, so that the first of equal axes is chosen
    return AxialReport(
        best if axis is None else axis, leftovers[best], _divergence(problem, local, points), False
    )


def _leftover(
    local: Callable[..., tuple[Array, ...]], points: Array, a: int, exploration: Exploration
) -> float:
    """Σ |∫F_i dz_a| / Σ ∫|F_i| dz_a, over the lines through the points and the rows i ≠ a."""
    nodes, weights = composite_rule(2 * _PANELS)
    low, high = exploration.box[a]

    def line(x: Array) -> tuple[Array, Array]:
        H, _, velocity, _ = jax.vmap(lambda t: local(x.at[a].set(low + (high - low) * t)))(jnp.asarray(nodes))
        F = jnp.delete(velocity, a, axis=1, assume_unique_indices=True) * jnp.exp(jnp.min(H) - H)[:, None]
        return jnp.abs(jnp.asarray(weights) @ F), jnp.asarray(weights) @ jnp.abs(F)

    net, absolute = jax.jit(lambda x: jax.lax.map(line, x, batch_size=8))(points)
    total = float(jnp.sum(absolute))
    return float(jnp.sum(net)) / total if total > 0 else 0.0


def _divergence(problem: Problem, local: Callable[..., tuple[Array, ...]], points: Array) -> float:
    def terms(x: Array) -> Array:
        v = local(x)[2]
        derivatives = jnp.diagonal(jax.jacfwd(lambda y: local(y)[2])(x))
        return derivatives - v * jax.grad(problem.hamiltonian)(x)

    parts = np.asarray(jax.jit(jax.vmap(terms))(points))
    bottom = np.sqrt(np.mean(np.abs(parts).sum(axis=1) ** 2))
    return float(np.sqrt(np.mean(parts.sum(axis=1) ** 2)) / bottom) if bottom > 0 else 0.0
