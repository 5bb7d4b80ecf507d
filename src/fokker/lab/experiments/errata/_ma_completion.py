r"""Ma, Chen, Fox (2015), Theorem 2 in two dimensions: Q from a drift (their Eq. 28 and S.11).

    Q_12 p = ∫ [f_1 p - ∂_1(D_11 p) - ∂_s(D_12 p)] ds over z_2,     Q_21 = -Q_12
    Q_21 p = ∫ [f_2 p - ∂_s(D_21 p) - ∂_2(D_22 p)] ds over z_1

follow from Σ_j ∂_j(Q_ij p) = f_i p - Σ_j ∂_j(D_ij p). Printed is, for Q_21,

    p⁻¹∫ f_1 p ds - ∫ [∂_1(D_11 p) - ∂_s(D_12 p)] ds
    -p⁻¹∫ f_2 p ds + ∫ [∂_s(D_21 p) + ∂_2(D_22 p)] ds

the sign of the whole, the sign of D_12, and 1/p missing on the second integral. A Q that is known is put into
a drift and recovered by quadrature.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.lab.experiments.errata._entry import Entry, Measurement
from fokker.lab.experiments.errata._problems import (
    energy,
    inverse_metric,
    metric_root,
    potential,
    recipe_drift,
)

# exp(-H) is below 1e-14 of its largest value at the far end of the integrals.
_FAR = -9.0
_PANELS, _NODES = 60, 12


@dataclass(frozen=True)
class _Planar:
    """Dynamics in the plane with a known Q_21."""

    H: Callable[[Array], Array]
    D: Callable[[Array], Array]
    Q21: Callable[[Array], Array]

    def Q(self, z: Array) -> Array:
        q = self.Q21(z)
        zero = jnp.zeros_like(q)
        return jnp.stack([jnp.stack([zero, -q]), jnp.stack([q, zero])])

    def p(self, z: Array) -> Array:
        return jnp.exp(-self.H(z))

    def flow(self, row: int, z: Array) -> Array:
        """f_row p."""
        return recipe_drift(self.D, self.Q, self.H)(z)[row] * self.p(z)

    def slope(self, row: int, column: int, z: Array) -> Array:
        """∂_column(D_row,column p)."""
        return jax.grad(lambda y: self.D(y)[row, column] * self.p(y))(z)[column]


def _generic() -> _Planar:
    return _Planar(potential, inverse_metric, lambda z: 0.8 + 0.4 * jnp.sin(z[0] + 0.5 * z[1]))


def _gsgrhmc() -> _Planar:
    def D(z: Array) -> Array:
        g = inverse_metric(z[:1])[0, 0]
        zero = jnp.zeros_like(g)
        return jnp.stack([jnp.stack([zero, zero]), jnp.stack([zero, g])])

    return _Planar(lambda z: energy(z[:1], z[1:]), D, lambda z: metric_root(z[:1])[0, 0])


def _integral(integrand: Callable[[Array], Array], over: int, z: Array) -> Array:
    """∫ of a vector from far out to z along the coordinate `over`, by Gauss and Legendre on panels."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    edges = _FAR + (z[over] - _FAR) * jnp.arange(_PANELS + 1) / _PANELS
    half = (edges[1:] - edges[:-1]) / 2
    s = (edges[:-1] + half)[:, None] + half[:, None] * jnp.asarray(nodes)[None, :]
    values = jax.vmap(lambda t: integrand(z.at[over].set(t)))(s.ravel())
    return (half[:, None] * jnp.asarray(weights)[None, :]).ravel() @ values


def _terms(system: _Planar, row: int, z: Array) -> Array:
    """∫ f_i p ds, ∫ ∂_1(D_i1 p) ds, ∫ ∂_2(D_i2 p) ds over the other variable, and p and Q_21 at z."""

    def integrand(y: Array) -> Array:
        return jnp.stack([system.flow(row, y), system.slope(row, 0, y), system.slope(row, 1, y)])

    return jnp.append(_integral(integrand, 1 - row, z), jnp.stack([system.p(z), system.Q21(z)]))


@cache
def _evaluated(system: Callable[[], _Planar], row: int) -> np.ndarray:
    """The terms at a few points where p is not small; printed and corrected formulas share them."""
    points = jnp.asarray([[0.1, 0.2], [-0.8, 0.5], [0.7, -1.1], [1.1, 0.9], [-1.2, -0.6]])
    chosen = system()
    return np.asarray(jax.jit(jax.vmap(lambda z: _terms(chosen, row, z)))(points)).T


def _recover(system: Callable[[], _Planar], row: int, printed: bool) -> Measurement:
    """Q_21 by the formula of row 1 or 2 (here 0 or 1), against the one that was put in."""
    drift, first, second, p, known = _evaluated(system, row)
    if row == 0:
        recovered = drift / p - (first - second) if printed else -(drift - first - second) / p
    else:
        recovered = -drift / p + (first + second) if printed else (drift - first - second) / p
    error = float(np.max(np.abs(recovered - known)) / np.max(np.abs(known)))
    return Measurement(error, f"Q_21 recovered by quadrature at {known.size} points against the one put in")


ENTRIES = [
    Entry(
        "ma-eq28-first-printed",
        "Ma et al. Eq. 28 and S.11, first form, as printed",
        "Q_21 from f_1, for D and Q that depend on the state: two signs and a factor 1/p.",
        "wrong",
        lambda: _recover(_generic, 0, printed=True),
    ),
    Entry(
        "ma-eq28-first-corrected",
        "Ma et al. Eq. 28 and S.11, first form, corrected",
        "Q_12 p = ∫ [f_1 p - ∂_1(D_11 p) - ∂_s(D_12 p)] ds.",
        "right",
        lambda: _recover(_generic, 0, printed=False),
    ),
    Entry(
        "ma-eq28-second-printed",
        "Ma et al. Eq. 28 and S.11, second form, as printed",
        "Q_21 from f_2: the sign and a factor 1/p.",
        "wrong",
        lambda: _recover(_generic, 1, printed=True),
    ),
    Entry(
        "ma-eq28-second-corrected",
        "Ma et al. Eq. 28 and S.11, second form, corrected",
        "Q_21 p = ∫ [f_2 p - ∂_s(D_21 p) - ∂_2(D_22 p)] ds.",
        "right",
        lambda: _recover(_generic, 1, printed=False),
    ),
    Entry(
        "ma-eq28-gsgrhmc-printed",
        "Ma et al. Eq. 28 and S.11 on gSGRHMC, as printed",
        "The first form gives -G^{-1/2} where Q_21 = G^{-1/2}.",
        "wrong",
        lambda: _recover(_gsgrhmc, 0, printed=True),
    ),
    Entry(
        "ma-eq28-gsgrhmc-corrected",
        "Ma et al. Eq. 28 and S.11 on gSGRHMC, corrected",
        "Q_21 = G^{-1/2} comes back.",
        "right",
        lambda: _recover(_gsgrhmc, 0, printed=False),
    ),
]
