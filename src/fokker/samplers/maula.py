"""The Metropolis-adjusted underdamped Langevin algorithm."""

import jax

from fokker._core.types import Number
from fokker.corrections import Metropolis
from fokker.integrators import ExactOU
from fokker.samplers.corrected import Corrected, corrected
from fokker.samplers.mass_matrix import MassMatrixLike
from fokker.samplers.schedules import AUTOMATIC, StepSize
from fokker.samplers.sghmc import Underdamped


def maula(
    step_size: StepSize = AUTOMATIC,
    friction: Number = 1.0,
    mass_matrix: MassMatrixLike = "diagonal",
    *,
    target_accept: float = 0.7,
) -> Corrected:
    r"""Underdamped Langevin steps, exact for a frozen gradient, with Metropolis (Riou-Durand, Vogrinc 2022).

        H = U/T + pᵀp/2, D = diag(0, γ), Q = [[0, -I], [I, 0]], in coordinates θ = θ₀ + S q, SSᵀ = M⁻¹

    Accepts (θ*, p*) with π(θ*,p*) q((θ,-p)|(θ*,-p*)) / [π(θ,p) q((θ*,p*)|(θ,p))]; on rejection p is reversed.
    Keeps exp(-U/T) exactly, one gradient per step. `friction` is γ. `ulmc` is the same
    without the correction.

    Arguments:

    - `step_size`: ε: a number, or "auto" (the default) to learn it in warm-up.
    - `friction`: γ, a positive number.
    - `mass_matrix`: M of the kinetic energy, or of the proposals: "diagonal", "dense", "low-rank" or
      "identity" is learned in warm-up; or a vector of masses, a matrix, or what another run has learned
      (`trace.sampler.mass_matrix`).
    - `target_accept`: the mean acceptance rate for which warm-up sets the step size.

    Returns a sampler with a correction (`fokker.samplers.corrected.Corrected`), for `fk.sample` or a loop of
    your own.

    ```python
    trace = fk.sample(target, fk.samplers.maula(friction=2.0), init=jnp.zeros(2), steps=1000)
    ```
    """
    is_traced = isinstance(friction, jax.core.Tracer)
    if not is_traced and not friction > 0:
        raise ValueError(f"the friction must be positive; {friction} was given.")
    family = Underdamped(friction if is_traced else float(friction), 1.0)
    return corrected("maula", family, ExactOU(), Metropolis(), step_size, mass_matrix, target_accept)
