"""The dynamics with exact gradients and no correction."""

from typing import Any

from fokker.integrators import ExactOU
from fokker.samplers.plain import Plain
from fokker.samplers.schedules import AUTOMATIC, StepSize
from fokker.samplers.sghmc import sghmc
from fokker.samplers.sgld import sgld


def ula(step_size: StepSize = AUTOMATIC, D: Any = 1.0) -> Plain:
    r"""θ' = θ - ε D∇U + N(0, 2εTD): the unadjusted Langevin algorithm, `sgld` on all the data.

    H = U, D constant, Q = 0. Keeps exp(-U/T) up to a bias of order ε; `mala` has none. One gradient per step.
    """
    return sgld(step_size, D)


def ulmc(step_size: StepSize = AUTOMATIC, friction: Any = 1.0, mass: Any = 1.0) -> Plain:
    r"""Underdamped Langevin Monte Carlo: `sghmc` on all the data, by exact steps for a frozen gradient.

    H = U + rᵀM⁻¹r/2, D = diag(0, C), Q = [[0, -I], [I, 0]], integrated by `fokker.integrators.ExactOU` (Cheng
    et al. 2018). Keeps exp(-U/T) up to a bias of order ε; `maula` has none. One gradient per step.
    """
    return sghmc(step_size, friction, mass, integrator=ExactOU())
