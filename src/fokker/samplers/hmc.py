"""Hamiltonian Monte Carlo, with new or partially refreshed momenta."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fokker._core.state import as_arrays
from fokker._core.types import Number
from fokker.corrections import Metropolis
from fokker.dynamics import Dynamics, hamiltonian_flow
from fokker.integrators import Leapfrog
from fokker.samplers._momentum import NewMomentum, PartialMomentum
from fokker.samplers.corrected import Corrected, corrected
from fokker.samplers.family import Potential, WithMomentum
from fokker.samplers.mass_matrix import MassMatrixLike
from fokker.samplers.schedules import AUTOMATIC, StepSize

# A quarter of the period of a coordinate of unit scale: from there a path would come back.
_LENGTH = math.pi / 2
_MOST = 1024


class Frictionless(WithMomentum):
    """H = U + rᵀr/2, D = 0."""

    label = "Hamiltonian"

    def dynamics(self, potential: Potential, temperature: Number) -> Dynamics:
        """The flow of H."""
        return hamiltonian_flow(potential)


def hmc(
    step_size: StepSize = AUTOMATIC,
    num_integration_steps: int | None = None,
    mass_matrix: MassMatrixLike = "diagonal",
    *,
    target_accept: float = 0.8,
) -> Corrected:
    r"""Hamiltonian Monte Carlo: a new momentum, a leapfrog path, Metropolis (Duane et al. 1987; Neal 2011).

        H = U/T + pᵀp/2 in coordinates θ = θ₀ + S q, D = 0, Q = [[0, -I], [I, 0]]; accept with min(1, e^{-ΔH})

    Keeps exp(-U/T) exactly. `num_integration_steps` is L, the number of leapfrog steps; None for a number
    uniform between 1 and as many as half a period of a coordinate of unit scale takes, which no target can
    resonate with. Warm-up finds the step size and the `mass_matrix` M = (SSᵀ)⁻¹ as for `nuts`.

    Arguments:

    - `step_size`: ε: a number, or "auto" (the default) to learn it in warm-up.
    - `num_integration_steps`: L, the leapfrog steps of a path; None for a random number.
    - `mass_matrix`: M of the kinetic energy, or of the proposals: "diagonal", "dense", "low-rank" or
      "identity" is learned in warm-up; or a vector of masses, a matrix, or what another run has learned
      (`trace.sampler.mass_matrix`).
    - `target_accept`: the mean acceptance rate for which warm-up sets the step size.

    Returns a sampler with a correction (`fokker.samplers.corrected.Corrected`), for `fk.sample` or a loop of
    your own.

    ```python
    trace = fk.sample(target, fk.samplers.hmc(num_integration_steps=8), init=jnp.zeros(2), steps=1000)
    ```
    """
    steps = random_length if num_integration_steps is None else num_integration_steps
    return corrected(
        "hmc",
        Frictionless(),
        Leapfrog(),
        Metropolis(steps),
        step_size,
        mass_matrix,
        target_accept,
        NewMomentum(),
    )


def random_length(u: Array, step_size: Array) -> Array:
    """Uniform from 1, with the mean that a quarter period takes."""
    mean = jnp.clip(jnp.round(_LENGTH / step_size), 1, _MOST)
    return 1 + jnp.floor(u * (2 * mean - 1)).astype(jnp.int32)


def ghmc(
    step_size: StepSize = AUTOMATIC,
    persistence: float | Array = 0.9,
    mass_matrix: MassMatrixLike = "diagonal",
    *,
    num_integration_steps: int = 1,
    target_accept: float = 0.9,
) -> Corrected:
    r"""Generalised HMC: momenta refreshed in part, p ← κp + √(1-κ²) w, and short paths (Horowitz 1991).

    With one leapfrog per step it is the splitting OBAB of underdamped Langevin dynamics with friction
    γ = -log κ/ε, corrected by Metropolis; `persistence` is κ. On rejection the momentum is reversed,
    otherwise the target would not be kept. Keeps exp(-U/T) exactly; one gradient per leapfrog.

    Arguments:

    - `step_size`: ε: a number, or "auto" (the default) to learn it in warm-up.
    - `persistence`: κ, the share of the momentum that is kept, from 0 to below 1.
    - `mass_matrix`: M of the kinetic energy, or of the proposals: "diagonal", "dense", "low-rank" or
      "identity" is learned in warm-up; or a vector of masses, a matrix, or what another run has learned
      (`trace.sampler.mass_matrix`).
    - `num_integration_steps`: leapfrog steps of a path.
    - `target_accept`: the mean acceptance rate for which warm-up sets the step size.

    Returns a sampler with a correction (`fokker.samplers.corrected.Corrected`), for `fk.sample` or a loop of
    your own.

    ```python
    trace = fk.sample(target, fk.samplers.ghmc(persistence=0.9), init=jnp.zeros(2), steps=1000)
    ```
    """
    if not isinstance(persistence, jax.core.Tracer) and not 0 <= persistence < 1:
        raise ValueError(f"the persistence must be at least 0 and below 1; {persistence} was given.")
    return corrected(
        "ghmc",
        Frictionless(),
        Leapfrog(),
        Metropolis(num_integration_steps),
        step_size,
        mass_matrix,
        target_accept,
        PartialMomentum(as_arrays(persistence)),
    )
