"""The no-U-turn sampler."""

from fokker.corrections import NaiveTree, Tree
from fokker.integrators import Leapfrog
from fokker.samplers._momentum import NewMomentum
from fokker.samplers.corrected import Corrected, corrected
from fokker.samplers.hmc import Frictionless
from fokker.samplers.mass_matrix import MassMatrixLike
from fokker.samplers.schedules import AUTOMATIC, StepSize


def nuts(
    step_size: StepSize = AUTOMATIC,
    mass_matrix: MassMatrixLike = "diagonal",
    *,
    target_accept: float = 0.8,
    max_depth: int = 10,
    variant: str = "multinomial",
) -> Corrected:
    r"""The no-U-turn sampler: HMC whose path doubles until it begins to come back (Hoffman and Gelman 2014).

        H = U/T + pᵀp/2 in coordinates θ = θ₀ + S q: the mass matrix is M = (SSᵀ)⁻¹

    Leapfrog steps in a `fokker.corrections.Tree`, which has `max_depth` and `variant`. Keeps exp(-U/T)
    exactly.

    Warm-up finds the step size, for a mean acceptance rate of `target_accept` (δ), and the `mass_matrix`:
    "diagonal", "dense", "low-rank" or "identity". With a `step_size` given there is no warm-up; `mass_matrix`
    may then be a vector of masses or a matrix.

    ```python
    trace = fk.sample(target, fk.samplers.nuts(), init=jnp.zeros(10), steps=1000, chains=4)
    ```

    Arguments:

    - `step_size`: ε: a number, or "auto" (the default) to learn it in warm-up.
    - `mass_matrix`: M of the kinetic energy, or of the proposals: "diagonal", "dense", "low-rank" or
      "identity" is learned in warm-up; or a vector of masses, a matrix, or what another run has learned
      (`trace.sampler.mass_matrix`).
    - `target_accept`: the mean acceptance rate for which warm-up sets the step size.
    - `max_depth`: the most doublings of a path, which is then 2^`max_depth` leapfrog steps.
    - `variant`: "multinomial" or "slice": how a point of the path is chosen (`fokker.corrections.Tree`).

    Returns a sampler with a correction (`fokker.samplers.corrected.Corrected`), for `fk.sample` or a loop of
    your own.
    """
    tree = Tree(max_depth, variant)
    return corrected(
        "nuts", Frictionless(), Leapfrog(), tree, step_size, mass_matrix, target_accept, NewMomentum()
    )


def naive_nuts(
    step_size: StepSize = AUTOMATIC,
    mass_matrix: MassMatrixLike = "diagonal",
    *,
    target_accept: float = 0.8,
    max_depth: int = 8,
) -> Corrected:
    r"""`nuts` by a `fokker.corrections.NaiveTree`: for teaching, and to test `nuts` by.

    Algorithm 2 of Hoffman and Gelman (2014). Memory grows as 2^`max_depth`. Keeps exp(-U/T) exactly.

    Arguments:

    - `step_size`: ε: a number, or "auto" (the default) to learn it in warm-up.
    - `mass_matrix`: M of the kinetic energy, or of the proposals: "diagonal", "dense", "low-rank" or
      "identity" is learned in warm-up; or a vector of masses, a matrix, or what another run has learned
      (`trace.sampler.mass_matrix`).
    - `target_accept`: the mean acceptance rate for which warm-up sets the step size.
    - `max_depth`: the most doublings of a path.

    Returns a sampler with a correction (`fokker.samplers.corrected.Corrected`), for `fk.sample` or a loop of
    your own.

    ```python
    trace = fk.sample(target, fk.samplers.naive_nuts(0.3), init=jnp.zeros(2), steps=1000)
    ```
    """
    tree = NaiveTree(max_depth)
    return corrected(
        "naive_nuts", Frictionless(), Leapfrog(), tree, step_size, mass_matrix, target_accept, NewMomentum()
    )
