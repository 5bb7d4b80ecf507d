"""The Metropolis-adjusted Langevin algorithm."""

from fokker.corrections import Metropolis
from fokker.integrators import EulerMaruyama
from fokker.samplers.corrected import Corrected, corrected
from fokker.samplers.mass_matrix import MassMatrixLike
from fokker.samplers.schedules import AUTOMATIC, StepSize
from fokker.samplers.sgld import Langevin


def mala(
    step_size: StepSize = AUTOMATIC, mass_matrix: MassMatrixLike = "diagonal", *, target_accept: float = 0.574
) -> Corrected:
    r"""θ* = θ - ε∇U + √(2ε) w with Metropolis (Roberts and Tweedie 1996), in coordinates θ = θ₀ + S q.

        H = U/T, D = SSᵀ = M⁻¹, Q = 0;  q(θ*|θ) = N(θ - ε∇U, 2ε)

    Keeps exp(-U/T) exactly, one gradient per step. The convention is dθ = -∇U dt + √2 dW: others' ε is twice
    this one. 0.574 is the best acceptance rate in high dimensions (Roberts and Rosenthal 1998).

    Arguments:

    - `step_size`: ε: a number, or "auto" (the default) to learn it in warm-up.
    - `mass_matrix`: M of the kinetic energy, or of the proposals: "diagonal", "dense", "low-rank" or
      "identity" is learned in warm-up; or a vector of masses, a matrix, or what another run has learned
      (`trace.sampler.mass_matrix`).
    - `target_accept`: the mean acceptance rate for which warm-up sets the step size.

    Returns a sampler with a correction (`fokker.samplers.corrected.Corrected`), for `fk.sample` or a loop of
    your own.

    ```python
    trace = fk.sample(target, fk.samplers.mala(), init=jnp.zeros(2), steps=1000)
    ```
    """
    return corrected("mala", Langevin(), EulerMaruyama(), Metropolis(), step_size, mass_matrix, target_accept)
