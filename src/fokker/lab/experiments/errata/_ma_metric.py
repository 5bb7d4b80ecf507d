r"""Metrics: Girolami and Calderhead's Γ as quoted by Ma et al. (2015), and the metric of their experiment.

    Γ_i = 2|G|^{-1/2} Σ_j ∂_j(G⁻¹_ij |G|^{1/2})    (quoted from Girolami and Calderhead 2011)

For G⁻¹ = g(θ)I in d dimensions it is (2 - d)∇g where ∇·G⁻¹ = ∇g is required: right for d = 1 alone. Ma et al.
say that it belongs to a density with respect to another measure. The one that belongs to the volume measure
√|G| dθ has no factor 2; with it that is true by coincidence for g(θ)I at d = 2.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.dynamics import SDE
from fokker.lab.experiments.errata._entry import Entry, Measurement
from fokker.lab.experiments.errata._problems import force, identity, inverse_metric, potential, scalar_metric


def _isotropic(theta: Array) -> Array:
    return scalar_metric(theta) * identity(theta)


def _log_volume(metric: Callable[[Array], Array], theta: Array) -> Array:
    """log √|G| = -½ log det G⁻¹."""
    return -jnp.log(jnp.linalg.det(metric(theta))) / 2


def _manifold_langevin(metric: Callable[[Array], Array], factor: float, against_volume: bool = False) -> SDE:
    """dθ = [-G⁻¹∇U + factor·|G|^{-1/2} ∂_j(G⁻¹_ij|G|^{1/2})] dt + √(2G⁻¹) dW.

    Said to keep exp(-U), or with `against_volume` exp(-U)√|G|.
    """

    def weighted(theta: Array) -> Array:
        return metric(theta) * jnp.exp(_log_volume(metric, theta))

    def drift(theta: Array) -> dict[str, Array]:
        slopes = jnp.trace(jax.jacfwd(weighted)(theta), axis1=1, axis2=2)
        gamma = factor * jnp.exp(-_log_volume(metric, theta)) * slopes
        return {"theta": metric(theta) @ force(theta) + gamma}

    def hamiltonian(theta: Array) -> Array:
        return potential(theta) - (_log_volume(metric, theta) if against_volume else 0.0)

    return SDE(drift, metric, hamiltonian)


def _largest_gamma(well: Callable[[Array], Array], C: float, D: float = 1.5) -> Measurement:
    r"""The share by which max|Γ| grows when the grid near its maximum is made a hundred times finer.

    Γ = d/dθ G^{-1/2} with G⁻¹ = D√|U + C|. A bounded Γ has converged after a few refinements; one that
    behaves as |θ - θ₀|^{-3/4} grows by a hundred to the power 3/4 each time.
    """

    def root(theta: Array) -> Array:
        return jnp.sqrt(D * jnp.sqrt(jnp.abs(well(theta) + C)))

    slope = jax.jit(jax.vmap(jax.grad(root)))
    middle, half_width = 0.0, 2.0
    largest: list[float] = []
    for _ in range(5):
        # An even number of points, so that the grid does not hit a zero of U + C by its symmetry.
        grid = np.linspace(middle - half_width, middle + half_width, 4000)
        values = np.abs(np.asarray(slope(jnp.asarray(grid))))
        largest.append(float(np.max(values)))
        middle, half_width = float(grid[np.argmax(values)]), half_width / 100
    growth = 1 - largest[-2] / largest[-1]
    return Measurement(
        abs(growth), f"max|Γ| under refinement: {', '.join(f'{value:.5g}' for value in largest)}"
    )


def _double_well(theta: Array) -> Array:
    return theta**4 - 2 * theta**2


ENTRIES = [
    Entry(
        "girolami-1d",
        "Girolami and Calderhead's Γ as quoted by Ma et al. below Eq. 14 and 33",
        "In one dimension, factor 2 included, it is (G⁻¹)', as required.",
        "right",
        lambda: _manifold_langevin(inverse_metric, 2.0),
        {"theta": (1,)},
    ),
    Entry(
        "girolami-2d",
        "Girolami and Calderhead's Γ as quoted by Ma et al. below Eq. 14 and 33",
        "G⁻¹ = g(θ)I in two dimensions: it is 0 where ∇g is required.",
        "wrong",
        lambda: _manifold_langevin(_isotropic, 2.0),
        {"theta": (2,)},
    ),
    Entry(
        "girolami-2d-volume",
        "The same, against exp(-U) with respect to the volume √|G| dθ",
        "For g(θ)I in two dimensions it keeps that density, by coincidence.",
        "right",
        lambda: _manifold_langevin(_isotropic, 2.0, against_volume=True),
        {"theta": (2,)},
    ),
    Entry(
        "girolami-3d-volume",
        "The same, in three dimensions",
        "With the factor 2 it keeps the density for neither measure.",
        "wrong",
        lambda: _manifold_langevin(_isotropic, 2.0, against_volume=True),
        {"theta": (3,)},
    ),
    Entry(
        "volume-corrected",
        "Γ without the factor 2, against exp(-U) with respect to the volume √|G| dθ",
        "|G|^{-1/2} ∂_j(G⁻¹_ij|G|^{1/2}) belongs to the volume measure for every G.",
        "right",
        lambda: _manifold_langevin(inverse_metric, 1.0, against_volume=True),
        {"theta": (2,)},
    ),
    Entry(
        "metric-printed",
        "Ma et al., synthetic experiments: G⁻¹ = D√|U + C|, C = 0.5, on U = θ⁴ - 2θ²",
        "U + C vanishes at four points inside the wells: G⁻¹ is 0 and Γ unbounded there.",
        "wrong",
        lambda: _largest_gamma(_double_well, 0.5),
    ),
    Entry(
        "metric-corrected",
        "The same metric with C = 1.5 > -min U",
        "Γ is bounded.",
        "right",
        lambda: _largest_gamma(_double_well, 1.5),
    ),
    Entry(
        "metric-one-peak",
        "Ma et al., synthetic experiments: C = 0.5 on U = θ²/2",
        "There the constant is large enough: Γ is bounded.",
        "right",
        lambda: _largest_gamma(lambda theta: theta**2 / 2, 0.5),
    ),
]
