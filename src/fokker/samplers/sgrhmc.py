"""Stochastic gradient Riemannian Hamiltonian Monte Carlo."""

from typing import Any

import jax
from jaxtyping import Array, Key, PyTree

from fokker.dynamics import SDE, Dynamics, riemann
from fokker.dynamics._kinetic import unit_mass
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import as_field, symmetric
from fokker.integrators import Integrator
from fokker.samplers.family import Auxiliaries, Family, Potential, unit_mass_momentum
from fokker.samplers.plain import Plain, on_variable, plain
from fokker.samplers.schedules import StepSize


class Riemannian(Family):
    """H = U + rᵀr/2, D = diag(0, G⁻¹), Q = [[0, -G^{-½}], [G^{-½}, 0]]."""

    inverse_metric: Any
    inverse_metric_root: Any

    label = "Riemannian underdamped"

    def dynamics(self, potential: Potential, temperature: Any) -> Dynamics | SDE:
        """dθ = G^{-½}r dt, dr = [-G^{-½}∇U + T∇·G^{-½} - G⁻¹r] dt + √(2TG⁻¹) dW."""
        return riemann(potential, self.inverse_metric, self.inverse_metric_root, temperature)

    def auxiliaries(self, key: Key[Array, ""], theta: PyTree[Array], temperature: Any) -> Auxiliaries:
        """A momentum of unit mass."""
        return unit_mass_momentum(key, theta, temperature)


def gsgrhmc(
    step_size: StepSize,
    inverse_metric: Any,
    inverse_metric_root: Any,
    *,
    integrator: Integrator | None = None,
    noise_estimate: Any = None,
    noise: str = "gaussian",
    resample: int | None = None,
) -> Plain:
    r"""θ' = θ + εG^{-½}r, r' = r - εG^{-½}∇Ũ + εT∇·G^{-½} - εG⁻¹r + N(0, 2εTG⁻¹) (Ma et al. 2015, Alg. 1).

        H = U + rᵀr/2,  D = diag(0, G⁻¹),  Q = [[0, -G^{-½}], [G^{-½}, 0]]

    for any G(θ): `inverse_metric` is the field G⁻¹, `inverse_metric_root` the field G^{-½}. Keeps exp(-U/T)
    with bias of order ε; one gradient per step.
    """
    family = Riemannian(inverse_metric, inverse_metric_root)
    return plain("gsgrhmc", family, step_size, integrator, on_variable("r", noise_estimate), noise, resample)


def sgrhmc(step_size: StepSize, inverse_fisher: Any, inverse_fisher_root: Any, **options: Any) -> Plain:
    """`gsgrhmc` with the Fisher information for G."""
    return gsgrhmc(step_size, inverse_fisher, inverse_fisher_root, **options)


class RiemannianWithoutGamma(Riemannian):
    """The same with Γ forgotten."""

    label = "Riemannian without Γ"

    def dynamics(self, potential: Potential, temperature: Any) -> SDE:
        """The drift without T Γ."""
        right = riemann(potential, self.inverse_metric, self.inverse_metric_root, temperature)

        def drift(
            theta: PyTree[Array], r: PyTree[Array], gradient: PyTree[Array]
        ) -> dict[str, PyTree[Array]]:
            z = {"theta": theta, "r": r}
            return jax.tree.map(lambda f, g: f - temperature * g, right.drift(z, gradient), right.gamma(z))

        noise = symmetric({("r", "r"): temperature * as_field(self.inverse_metric)})
        return SDE(drift, noise, Hamiltonian(potential, unit_mass))


def naive_sgrhmc(step_size: StepSize, inverse_metric: Any, inverse_metric_root: Any) -> Plain:
    r"""WRONG on purpose: `gsgrhmc` with Γ forgotten (Ma et al. 2015, Eq. 16)."""
    return plain("naive_sgrhmc", RiemannianWithoutGamma(inverse_metric, inverse_metric_root), step_size)
