"""Random-walk Metropolis."""

from typing import Any

from fokker.corrections import Metropolis
from fokker.integrators import RandomWalk
from fokker.samplers.corrected import Corrected, corrected
from fokker.samplers.schedules import AUTOMATIC, StepSize
from fokker.samplers.sgld import Langevin


def rwm(
    step_size: StepSize = AUTOMATIC, mass_matrix: Any = "diagonal", *, target_accept: float = 0.234
) -> Corrected:
    r"""Random-walk Metropolis: θ* = θ + σ S w, accepted with min(1, π(θ*)/π(θ)) (Metropolis et al. 1953).

    Keeps exp(-U/T) exactly, and needs no gradient of it. `step_size` is σ; the best is about 2.4/√d of
    the target's scale, where 0.234 of the proposals are accepted (Roberts, Gelman, Gilks 1997). Warm-up
    finds σ and S, with SSᵀ = M⁻¹ the inverse `mass_matrix`, as for `nuts`.
    """
    return corrected("rwm", Langevin(), RandomWalk(), Metropolis(), step_size, mass_matrix, target_accept)
