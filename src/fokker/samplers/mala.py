"""The Metropolis-adjusted Langevin algorithm."""

from typing import Any

from fokker.corrections import Metropolis
from fokker.dynamics import langevin
from fokker.integrators import EulerMaruyama
from fokker.samplers import _auxiliaries
from fokker.samplers._sampler import AUTOMATIC
from fokker.samplers.recipe import Family, Recipe, corrected

_FAMILY = Family("Langevin", lambda potential, T: langevin(potential, 1.0, T), _auxiliaries.none)


def mala(
    step_size: Any = AUTOMATIC, mass_matrix: Any = "diagonal", *, target_accept: float = 0.574
) -> Recipe:
    r"""θ* = θ - ε∇U + √(2ε) w with Metropolis (Roberts and Tweedie 1996), in coordinates θ = θ₀ + S q.

        H = U/T, D = SSᵀ = M⁻¹, Q = 0;  q(θ*|θ) = N(θ - ε∇U, 2ε)

    Keeps exp(-U/T) exactly, one gradient per step. The convention is dθ = -∇U dt + √2 dW: others' ε is twice
    this one. 0.574 is the best acceptance rate in high dimensions (Roberts and Rosenthal 1998).
    """
    return corrected("mala", _FAMILY, EulerMaruyama(), Metropolis(), step_size, mass_matrix, target_accept)
