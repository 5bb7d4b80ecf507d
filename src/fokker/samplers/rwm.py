"""Random-walk Metropolis."""

from typing import Any

from fokker.corrections import Metropolis
from fokker.dynamics import langevin
from fokker.integrators import RandomWalk
from fokker.samplers import _auxiliaries
from fokker.samplers._sampler import AUTOMATIC
from fokker.samplers.recipe import Family, Recipe, corrected

_FAMILY = Family("Langevin", lambda potential, T: langevin(potential, 1.0, T), _auxiliaries.none)


def rwm(step_size: Any = AUTOMATIC, mass_matrix: Any = "diagonal", *, target_accept: float = 0.234) -> Recipe:
    r"""Random-walk Metropolis: θ* = θ + σ S w, accepted with min(1, π(θ*)/π(θ)) (Metropolis et al. 1953).

    Keeps exp(-U/T) exactly, and needs no gradient of it. `step_size` is σ; the best is about 2.4/√d of
    the target's scale, where 0.234 of the proposals are accepted (Roberts, Gelman, Gilks 1997). Warm-up
    finds σ and S, with SSᵀ = M⁻¹ the inverse `mass_matrix`, as for `nuts`.
    """
    return corrected("rwm", _FAMILY, RandomWalk(), Metropolis(), step_size, mass_matrix, target_accept)
