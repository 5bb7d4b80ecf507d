"""Stochastic gradient Riemannian Hamiltonian Monte Carlo."""

from typing import Any

import jax
from jaxtyping import Array, PyTree

from fokker.dynamics import SDE, riemann
from fokker.dynamics._kinetic import half_square
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import as_field, symmetric
from fokker.integrators import Integrator
from fokker.samplers import _auxiliaries
from fokker.samplers.recipe import Family, Recipe, of_family, on_variable, shared


def gsgrhmc(
    step_size: Any,
    inverse_metric: Any,
    inverse_metric_root: Any,
    *,
    integrator: Integrator | None = None,
    noise_estimate: Any = None,
    noise: str = "gaussian",
    resample: int | None = None,
) -> Recipe:
    r"""θ' = θ + εG^{-½}r, r' = r - εG^{-½}∇Ũ + εT∇·G^{-½} - εG⁻¹r + N(0, 2εTG⁻¹) (Ma et al. 2015, Alg. 1).

        H = U + rᵀr/2,  D = diag(0, G⁻¹),  Q = [[0, -G^{-½}], [G^{-½}, 0]]

    for any G(θ): `inverse_metric` is the field G⁻¹, `inverse_metric_root` the field G^{-½}. Keeps exp(-U/T)
    with bias of order ε; one gradient per step.
    """
    family = _riemannian(inverse_metric, inverse_metric_root)
    return of_family(family, step_size, integrator, on_variable("r", noise_estimate), noise, resample)


@shared
def _riemannian(inverse_metric: Any, inverse_metric_root: Any) -> Family:
    return Family(
        "Riemannian underdamped",
        lambda potential, T: riemann(potential, inverse_metric, inverse_metric_root, T),
        _auxiliaries.momentum,
    )


def sgrhmc(step_size: Any, inverse_fisher: Any, inverse_fisher_root: Any, **options: Any) -> Recipe:
    """`gsgrhmc` with the Fisher information for G."""
    return gsgrhmc(step_size, inverse_fisher, inverse_fisher_root, **options)


def naive_sgrhmc(step_size: Any, inverse_metric: Any, inverse_metric_root: Any) -> Recipe:
    r"""WRONG on purpose: `gsgrhmc` with Γ forgotten (Ma et al. 2015, Eq. 16)."""

    def dynamics(potential: Any, T: Any) -> SDE:
        right = riemann(potential, inverse_metric, inverse_metric_root, T)

        def drift(
            theta: PyTree[Array], r: PyTree[Array], gradient: PyTree[Array]
        ) -> dict[str, PyTree[Array]]:
            z = {"theta": theta, "r": r}
            return jax.tree.map(lambda f, g: f - T * g, right.drift(z, gradient), right.gamma(z))

        noise = symmetric({("r", "r"): T * as_field(inverse_metric)})
        return SDE(drift, noise, Hamiltonian(potential, lambda r: half_square(r)))

    return of_family(Family("Riemannian without Γ", dynamics, _auxiliaries.momentum), step_size)
