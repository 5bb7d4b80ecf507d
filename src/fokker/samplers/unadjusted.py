"""The dynamics with exact gradients and no correction."""

import dataclasses

from fokker.fields import FieldLike
from fokker.integrators import ExactOU
from fokker.samplers.plain import Plain
from fokker.samplers.schedules import AUTOMATIC, StepSize
from fokker.samplers.sghmc import sghmc
from fokker.samplers.sgld import sgld


def ula(step_size: StepSize = AUTOMATIC, D: FieldLike = 1.0) -> Plain:
    r"""θ' = θ - ε D∇U + N(0, 2εTD): the unadjusted Langevin algorithm, `sgld` on all the data.

    H = U, D constant, Q = 0. Keeps exp(-U/T) up to a bias of order ε; `mala` has none. One gradient per step.

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `D`: a number, a matrix, or a field of `fk.fields`.

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own.

    ```python
    trace = fk.sample(target, fk.samplers.ula(0.01), init=jnp.zeros(2), steps=1000)
    ```
    """
    return dataclasses.replace(sgld(step_size, D), name="ula")


def ulmc(step_size: StepSize = AUTOMATIC, friction: FieldLike = 1.0, mass: FieldLike = 1.0) -> Plain:
    r"""Underdamped Langevin Monte Carlo: `sghmc` on all the data, by exact steps for a frozen gradient.

    H = U + rᵀM⁻¹r/2, D = diag(0, C), Q = [[0, -I], [I, 0]], integrated by `fokker.integrators.ExactOU` (Cheng
    et al. 2018). Keeps exp(-U/T) up to a bias of order ε; `maula` has none. One gradient per step.

    Arguments:

    - `step_size`: ε: a number, a schedule (a function of the number of steps taken, as in `fk.schedules`), or
      "auto" to have it found by `fk.tune`.
    - `friction`: C, on the momentum.
    - `mass`: M: a number, or a tree like theta.

    Returns a sampler without a correction (`fokker.samplers.plain.Plain`), for `fk.sample` or a loop of your
    own.

    ```python
    trace = fk.sample(target, fk.samplers.ulmc(0.1, friction=1.0), init=jnp.zeros(2), steps=1000)
    ```
    """
    return dataclasses.replace(sghmc(step_size, friction, mass, integrator=ExactOU()), name="ulmc")
