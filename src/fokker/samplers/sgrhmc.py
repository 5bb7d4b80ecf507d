"""Stochastic gradient Riemannian Hamiltonian Monte Carlo."""

from typing import Any

import jax
from jaxtyping import Array, PyTree

from fokker._core.types import Number
from fokker.dynamics import SDE, Dynamics, riemann
from fokker.dynamics._kinetic import unit_mass
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import FieldLike, as_field, symmetric
from fokker.integrators import Integrator
from fokker.samplers.family import Potential, WithMomentum
from fokker.samplers.plain import Plain, on_variable, plain
from fokker.samplers.schedules import StepSize


class Riemannian(WithMomentum):
    """H = U + rᵀr/2, D = diag(0, G⁻¹), Q = [[0, -G^{-½}], [G^{-½}, 0]]."""

    inverse_metric: Any
    inverse_metric_root: Any

    label = "Riemannian underdamped"

    def dynamics(self, potential: Potential, temperature: Number) -> Dynamics | SDE:
        """dθ = G^{-½}r dt, dr = [-G^{-½}∇U + T∇·G^{-½} - G⁻¹r] dt + √(2TG⁻¹) dW."""
        return riemann(potential, self.inverse_metric, self.inverse_metric_root, temperature)


def gsgrhmc(
    step_size: StepSize,
    inverse_metric: FieldLike,
    inverse_metric_root: FieldLike,
    *,
    integrator: Integrator | None = None,
    noise_estimate: FieldLike | str | None = None,
    noise: str = "gaussian",
    resample: int | None = None,
) -> Plain:
    r"""θ' = θ + εG^{-½}r, r' = r - εG^{-½}∇Ũ + εT∇·G^{-½} - εG⁻¹r + N(0, 2εTG⁻¹) (Ma et al. 2015, Alg. 1).

        H = U + rᵀr/2,  D = diag(0, G⁻¹),  Q = [[0, -G^{-½}], [G^{-½}, 0]]

    for any G(θ): `inverse_metric` is the field G⁻¹, `inverse_metric_root` the field G^{-½}. Keeps exp(-U/T)
    with bias of order ε; one gradient per step.

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `inverse_metric`: the field G(θ)⁻¹, positive definite.
    - `inverse_metric_root`: the field G(θ)^{-½}.
    - `integrator`: one of `fk.integrators`; without it `EulerMaruyama()`.
    - `noise_estimate`: B̂, the covariance of the minibatch noise, which is subtracted from the noise of a
      step: a number, a matrix or a field; "scalar", "diagonal" or "dense" to estimate it while sampling; None
      (the default) subtracts nothing.
    - `noise`: the kind of unit noise: "gaussian", "three-point", "two-point" or "binomial"
      (`fokker.integrators.noise`).
    - `resample`: steps after which a new momentum is drawn; None for never.

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own.

    ```python
    inverse = fk.fields.Elementwise(lambda theta: 1 / (1 + theta**2))
    root = fk.fields.Elementwise(lambda theta: 1 / jnp.sqrt(1 + theta**2))
    trace = fk.sample(target, fk.samplers.gsgrhmc(0.01, inverse, root), init=jnp.zeros(2), steps=1000)
    ```
    """
    family = Riemannian(inverse_metric, inverse_metric_root)
    return plain("gsgrhmc", family, step_size, integrator, on_variable("r", noise_estimate), noise, resample)


def sgrhmc(
    step_size: StepSize,
    inverse_fisher: FieldLike,
    inverse_fisher_root: FieldLike,
    *,
    integrator: Integrator | None = None,
    noise_estimate: FieldLike | str | None = None,
    noise: str = "gaussian",
    resample: int | None = None,
) -> Plain:
    """`gsgrhmc` with the Fisher information for G, which you give.

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `inverse_fisher`: the field G(θ)⁻¹, the inverse of the Fisher information.
    - `inverse_fisher_root`: the field G(θ)^{-½}.
    - `integrator`: as of `gsgrhmc`.
    - `noise_estimate`: as of `gsgrhmc`.
    - `noise`: as of `gsgrhmc`.
    - `resample`: as of `gsgrhmc`.

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own.

    ```python
    inverse = fk.fields.Elementwise(lambda theta: 1 / (1 + theta**2))
    root = fk.fields.Elementwise(lambda theta: 1 / jnp.sqrt(1 + theta**2))
    trace = fk.sample(target, fk.samplers.sgrhmc(0.01, inverse, root), init=jnp.zeros(2), steps=1000)
    ```
    """
    return gsgrhmc(
        step_size,
        inverse_fisher,
        inverse_fisher_root,
        integrator=integrator,
        noise_estimate=noise_estimate,
        noise=noise,
        resample=resample,
    )


class RiemannianWithoutGamma(Riemannian):
    """The same with Γ forgotten."""

    label = "Riemannian without Γ"

    def dynamics(self, potential: Potential, temperature: Number) -> SDE:
        """The drift without T Γ."""
        right = riemann(potential, self.inverse_metric, self.inverse_metric_root, temperature)

        def drift(
            theta: PyTree[Array], r: PyTree[Array], gradient: PyTree[Array]
        ) -> dict[str, PyTree[Array]]:
            z = {"theta": theta, "r": r}
            return jax.tree.map(lambda f, g: f - temperature * g, right.drift(z, gradient), right.gamma(z))

        noise = symmetric({("r", "r"): temperature * as_field(self.inverse_metric)})
        return SDE(drift, noise, Hamiltonian(potential, unit_mass))


def naive_sgrhmc(step_size: StepSize, inverse_metric: FieldLike, inverse_metric_root: FieldLike) -> Plain:
    r"""WRONG on purpose: `gsgrhmc` with Γ forgotten (Ma et al. 2015, Eq. 16).

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `inverse_metric`: the field G(θ)⁻¹.
    - `inverse_metric_root`: the field G(θ)^{-½}.

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own.

    ```python
    inverse = fk.fields.Elementwise(lambda theta: 1 / (1 + theta**2))
    root = fk.fields.Elementwise(lambda theta: 1 / jnp.sqrt(1 + theta**2))
    trace = fk.sample(target, fk.samplers.naive_sgrhmc(0.01, inverse, root), init=jnp.zeros(2), steps=1000)
    ```
    """
    return plain("naive_sgrhmc", RiemannianWithoutGamma(inverse_metric, inverse_metric_root), step_size)
