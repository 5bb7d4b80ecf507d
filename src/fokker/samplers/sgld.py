"""Stochastic gradient Langevin dynamics, plain and Riemannian."""

from typing import Any

from fokker.dynamics import Dynamics, langevin
from fokker.integrators import Integrator
from fokker.samplers.family import Family, Potential
from fokker.samplers.plain import Plain, on_variable, plain
from fokker.samplers.schedules import StepSize


class Langevin(Family):
    """H = U, D a number, a tree, a matrix or a field, Q = 0."""

    D: Any = 1.0

    label = "Langevin"

    def dynamics(self, potential: Potential, temperature: Any) -> Dynamics:
        """dθ = [-D∇U + T∇·D] dt + √(2TD) dW."""
        return langevin(potential, self.D, temperature)


def sgld(
    step_size: StepSize,
    D: Any = 1.0,
    *,
    integrator: Integrator | None = None,
    noise_estimate: Any = None,
    noise: str = "gaussian",
) -> Plain:
    r"""θ' = θ - ε D∇Ũ + N(0, 2εTD): H = U, D constant, Q = 0, Euler–Maruyama (Welling and Teh 2011).

    Keeps exp(-U/T) up to a bias of order ε, to which the minibatch noise adds εB̂ unless `noise_estimate` is
    subtracted: B̂ itself, or "scalar", "diagonal", "dense" for an estimate made while sampling. One gradient
    per step.

    ```python
    trace = fk.sample(target, fk.samplers.sgld(1e-3), init=jnp.zeros(2), steps=10_000)
    ```
    """
    return plain("sgld", Langevin(D), step_size, integrator, noise_estimate, noise)


def sgfs(step_size: StepSize, preconditioner: Any, noise_estimate: Any = "dense") -> Plain:
    r"""θ' = θ - ε C∇Ũ + N(0, ε(2TC - εB̂)): SGLD with a constant preconditioner and B̂ subtracted.

    Stochastic gradient Fisher scoring (Ahn et al. 2012; Ma et al. 2015, section 3.1). B̂ is the covariance of
    C∇Ũ, given or estimated while sampling ("scalar", "diagonal", "dense"). A step with 2TC - εB̂ not positive
    semidefinite is refused.
    """
    return plain("sgfs", Langevin(preconditioner), step_size, None, on_variable("theta", noise_estimate))


def sgrld(
    step_size: StepSize,
    inverse_metric: Any,
    *,
    integrator: Integrator | None = None,
    noise_estimate: Any = None,
    noise: str = "gaussian",
) -> Plain:
    r"""θ' = θ + ε[-G⁻¹∇Ũ + T∇·G⁻¹] + N(0, 2εTG⁻¹): D = G(θ)⁻¹, a field (Patterson and Teh 2013).

    The correction ∇·G⁻¹ is derived; Ma et al. (2015), Eq. 14, print it with the wrong sign.
    """
    return plain("sgrld", Langevin(inverse_metric), step_size, integrator, noise_estimate, noise)
