"""Stochastic gradient Langevin dynamics, plain and Riemannian."""

from typing import Any

from fokker._core.types import Number
from fokker.dynamics import Dynamics, langevin
from fokker.fields import FieldLike
from fokker.integrators import Integrator
from fokker.samplers.family import Family, Potential, are_positive
from fokker.samplers.plain import Plain, on_variable, plain
from fokker.samplers.schedules import StepSize


class Langevin(Family):
    """H = U, D a number, a matrix or a field, Q = 0."""

    D: Any = 1.0

    label = "Langevin"

    def simple_variables(self) -> set[str] | None:
        """Where D is a positive number."""
        return {"theta"} if are_positive(self.D) else None

    def dynamics(self, potential: Potential, temperature: Number) -> Dynamics:
        """dθ = [-D∇U + T∇·D] dt + √(2TD) dW."""
        return langevin(potential, self.D, temperature)


def sgld(
    step_size: StepSize,
    D: FieldLike = 1.0,
    *,
    integrator: Integrator | None = None,
    noise_estimate: FieldLike | str | None = None,
    noise: str = "gaussian",
) -> Plain:
    r"""θ' = θ - ε D∇Ũ + N(0, 2εTD): H = U, D constant, Q = 0, Euler–Maruyama (Welling and Teh 2011).

    Keeps exp(-U/T) up to a bias of order ε, to which the minibatch noise adds εB̂ unless `noise_estimate` is
    subtracted. One gradient per step.

    ```python
    trace = fk.sample(target, fk.samplers.sgld(1e-3), init=jnp.zeros(2), steps=10_000)
    ```

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `D`: a number, a matrix, or a field of `fk.fields`; one number by default.
    - `integrator`: one of `fk.integrators`; without it `EulerMaruyama()`.
    - `noise_estimate`: B̂, the covariance of the minibatch noise, which is subtracted from the noise of a
      step: a number, a matrix or a field; "scalar", "diagonal" or "dense" to estimate it while sampling; None
      (the default) subtracts nothing.
    - `noise`: the kind of unit noise: "gaussian", "three-point", "two-point" or "binomial"
      (`fokker.integrators.noise`).

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own.
    """
    return plain("sgld", Langevin(D), step_size, integrator, noise_estimate, noise)


def sgfs(
    step_size: StepSize, preconditioner: FieldLike, noise_estimate: FieldLike | str | None = "dense"
) -> Plain:
    r"""θ' = θ - ε C∇Ũ + N(0, ε(2TC - εB̂)): SGLD with a constant preconditioner and B̂ subtracted.

    Stochastic gradient Fisher scoring (Ahn et al. 2012; Ma et al. 2015, section 3.1). B̂ is the covariance of
    C∇Ũ, given or estimated while sampling ("scalar", "diagonal", "dense"). A step with 2TC - εB̂ not positive
    semidefinite is refused.

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `preconditioner`: C: a number, a matrix, or a field of `fk.fields`.
    - `noise_estimate`: B̂, the covariance of C∇Ũ: a number, a matrix or a field, or "scalar", "diagonal" or
      "dense" (the default) to estimate it while sampling.

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own.

    ```python
    sampler = fk.samplers.sgfs(1e-3, jnp.eye(2))
    trace = fk.sample(posterior, sampler, init=jnp.zeros(2), steps=1000, batch_size=2)
    ```
    """
    return plain("sgfs", Langevin(preconditioner), step_size, None, on_variable("theta", noise_estimate))


def sgrld(
    step_size: StepSize,
    inverse_metric: FieldLike,
    *,
    integrator: Integrator | None = None,
    noise_estimate: FieldLike | str | None = None,
    noise: str = "gaussian",
) -> Plain:
    r"""θ' = θ + ε[-G⁻¹∇Ũ + T∇·G⁻¹] + N(0, 2εTG⁻¹): D = G(θ)⁻¹, a field (Patterson and Teh 2013).

    The correction ∇·G⁻¹ is derived; Ma et al. (2015), Eq. 14, print it with the wrong sign.

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `inverse_metric`: G(θ)⁻¹, a field of `fk.fields`, positive definite.
    - `integrator`: one of `fk.integrators`; without it `EulerMaruyama()`.
    - `noise_estimate`: B̂, the covariance of the minibatch noise, which is subtracted from the noise of a
      step: a number, a matrix or a field; "scalar", "diagonal" or "dense" to estimate it while sampling; None
      (the default) subtracts nothing.
    - `noise`: the kind of unit noise: "gaussian", "three-point", "two-point" or "binomial"
      (`fokker.integrators.noise`).

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own. One gradient per step; keeps exp(-U/T) up to a bias of order ε.

    ```python
    inverse = fk.fields.Elementwise(lambda theta: 1 / (1 + theta**2))
    trace = fk.sample(target, fk.samplers.sgrld(1e-3, inverse), init=jnp.zeros(2), steps=1000)
    ```
    """
    return plain("sgrld", Langevin(inverse_metric), step_size, integrator, noise_estimate, noise)
