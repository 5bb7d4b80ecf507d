"""Random-walk Metropolis."""

from fokker.corrections import Metropolis
from fokker.integrators import RandomWalk
from fokker.samplers.corrected import Corrected, corrected
from fokker.samplers.mass_matrix import MassMatrixLike
from fokker.samplers.schedules import AUTOMATIC, StepSize
from fokker.samplers.sgld import Langevin


def rwm(
    step_size: StepSize = AUTOMATIC, mass_matrix: MassMatrixLike = "diagonal", *, target_accept: float = 0.234
) -> Corrected:
    r"""Random-walk Metropolis: θ* = θ + σ S w, accepted with min(1, π(θ*)/π(θ)) (Metropolis et al. 1953).

    Keeps exp(-U/T) exactly, and needs no gradient of it. `step_size` is σ; the best is about 2.4/√d of
    the target's scale, where 0.234 of the proposals are accepted (Roberts, Gelman, Gilks 1997). Warm-up
    finds σ and S, with SSᵀ = M⁻¹ the inverse `mass_matrix`, as for `nuts`.

    Arguments:

    - `step_size`: σ: a number, or "auto" (the default) to learn it in warm-up.
    - `mass_matrix`: M of the kinetic energy, or of the proposals: "diagonal", "dense", "low-rank" or
      "identity" is learned in warm-up; or a vector of masses, a matrix, or what another run has learned
      (`trace.sampler.mass_matrix`).
    - `target_accept`: the mean acceptance rate for which warm-up sets the step size.

    Returns a sampler with a correction (`fokker.samplers.corrected.Corrected`), for `fk.sample` or a loop of
    your own.

    ```python
    trace = fk.sample(target, fk.samplers.rwm(), init=jnp.zeros(2), steps=1000)
    ```
    """
    return corrected("rwm", Langevin(), RandomWalk(), Metropolis(), step_size, mass_matrix, target_accept)
