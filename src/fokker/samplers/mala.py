"""The Metropolis-adjusted Langevin algorithm."""

from typing import Any

from fokker.corrections import Metropolis
from fokker.integrators import EulerMaruyama
from fokker.samplers.corrected import Corrected, corrected
from fokker.samplers.schedules import AUTOMATIC, StepSize
from fokker.samplers.sgld import Langevin


def mala(
    step_size: StepSize = AUTOMATIC, mass_matrix: Any = "diagonal", *, target_accept: float = 0.574
) -> Corrected:
    r"""θ* = θ - ε∇U + √(2ε) w with Metropolis (Roberts and Tweedie 1996), in coordinates θ = θ₀ + S q.

        H = U/T, D = SSᵀ = M⁻¹, Q = 0;  q(θ*|θ) = N(θ - ε∇U, 2ε)

    Keeps exp(-U/T) exactly, one gradient per step. The convention is dθ = -∇U dt + √2 dW: others' ε is twice
    this one. 0.574 is the best acceptance rate in high dimensions (Roberts and Rosenthal 1998).
    """
    return corrected("mala", Langevin(), EulerMaruyama(), Metropolis(), step_size, mass_matrix, target_accept)
