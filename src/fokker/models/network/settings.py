r"""Default settings of the samplers, in the units of stochastic gradient descent.

U is N times the mean loss, so that the step of a sampler that works for one N is wrong for another. Written
for the mean loss ℓ = U/N, the steps of all samplers become those of an optimiser:

| sampler | step | learning rate of ℓ | momentum |
| --- | --- | --- | --- |
| sghmc, sgnht | r' = r - ε∇U - εCr + …, θ' = θ + εr' | ε²N | 1 - εC |
| sgld | θ' = θ - ε∇U + … | εN | none |
| psgld | θ' = θ - ε∇U/(λ + √V) + …, V the mean of (∇U)² | ε per coordinate, whatever N | none |

So the settings are `learning_rate` and `momentum`, and ε = √(learning_rate/N), C = (1 - momentum)/ε; for
SGLD ε = learning_rate/N. A learning rate at which SGD is stable is stable here.

The default learning rate is c/κ. κ = E_x|∂f/∂θ|²/outputs × (curvature of -log p in f) bounds the curvature of
ℓ up to a factor, since the Gauss–Newton matrix of ℓ is E_x[Jᵀ(∂²ℓ/∂f²)J]. It is measured at the initial
weights, so that the scale of X, the width and the kind of network are in it. The second factor is 1 for a
categorical likelihood and 8/σ² for a Gaussian one.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
from jaxtyping import Array

from fokker._core.module import Module
from fokker._core.names import nearest
from fokker._core.state import as_arrays
from fokker.integrators import Splitting
from fokker.models.checks import one_of, optional, positive, within
from fokker.samplers import psgld, schedules, sghmc, sgld, sgnht
from fokker.samplers.contract import Sampler

SAMPLERS = ("sgnht", "sghmc", "sgld", "psgld")
SCHEDULES = ("constant", "cyclical")
# c by sampler. Without momentum a step of the same learning rate moves 1 - momentum times as far. The rate of
# psgld is per coordinate and knows no scale.
_LEARNING_RATES = {"sgnht": 8.0, "sghmc": 8.0, "sgld": 80.0}
# Curvature of a Gaussian -log p at σ = 1, over the typical one of a categorical -log p, p(1 - p).
GAUSSIAN_CURVATURE = 8.0
_PSGLD_RATE = 1e-3
# λ of psgld as a share of N: gradients of ℓ below it are not enlarged further.
_PSGLD_REGULARISATION = 1e-3
# Stochastic gradient descent before sampling: its step may be larger, as it decays to zero.
_WARM_START_MOMENTUM = 0.9


class _Cyclical(Module):
    """`schedules.cyclical` with a largest step that is not compiled in."""

    largest: Array
    period: int = eqx.field(static=True)

    def __call__(self, t: Any) -> Array:
        return schedules.cyclical(self.largest, self.period)(t)  # type: ignore[arg-type]


@dataclass(frozen=True)
class StepSettings:
    """Settings of the steps; None is chosen for the data.

    Samplers have steps and frictions as arrays: with other numbers they run by the same compiled programs.
    """

    sampler: Any
    learning_rate: float | None
    momentum: float
    schedule: str
    cycles: int
    noise: str

    def check(self) -> None:
        """Raise where one is out of its range."""
        if not isinstance(self.sampler, Sampler) and self.sampler not in SAMPLERS:
            raise ValueError(
                f"sampler is one of {', '.join(SAMPLERS)}, or a sampler of fk.samplers, not "
                f"{self.sampler!r}.{nearest(str(self.sampler), SAMPLERS)}"
            )
        optional(positive)("learning_rate", self.learning_rate)
        within(0, 1, "at least 0 and below 1")("momentum", self.momentum)
        one_of(SCHEDULES)("schedule", self.schedule)

    def make(self, size: int, curvature: float, period: int) -> Sampler:
        """The sampler for N = `size` rows of curvature κ; `period`: steps per cycle."""
        if isinstance(self.sampler, Sampler):
            return self.sampler
        rate = self.learning_rate or self.default_rate(curvature)
        name = self.sampler
        if name == "psgld":
            step: Any = rate
        else:
            step = rate / size if name == "sgld" else (rate / size) ** 0.5
        friction, mass = as_arrays(_friction_and_mass(self.momentum, step))
        if self.schedule == "cyclical":
            step = _Cyclical(as_arrays(step), period)
        if name == "sgld":
            return sgld(step, noise=self.noise)
        if name == "psgld":
            return psgld(step, regularisation=_PSGLD_REGULARISATION * size, noise=self.noise)
        if name == "sghmc":
            return sghmc(step, friction, noise=self.noise)
        # By a splitting: at εC = 0.1 symplectic Euler makes weights 5 % too narrow, however small ε is.
        return sgnht(step, friction, mass, integrator=Splitting(), noise=self.noise)

    def default_rate(self, curvature: float) -> float:
        """The learning rate where none is given."""
        if self.sampler == "psgld":
            return _PSGLD_RATE
        return _LEARNING_RATES[self.sampler] / curvature

    def warm_start(self, size: int, curvature: float, steps: int) -> Sampler:
        """SGD with momentum and a learning rate that decays to zero: SGHMC, to be run at temperature 0."""
        momentum_free = self.sampler in ("sgld", "psgld") or isinstance(self.sampler, Sampler)
        rate = None if momentum_free else self.learning_rate
        rate = rate or _LEARNING_RATES["sghmc"] / curvature
        step = (rate / size) ** 0.5
        friction, _ = as_arrays(_friction_and_mass(_WARM_START_MOMENTUM, step))
        return sghmc(_Cyclical(as_arrays(step), steps), friction, noise="two-point")


def _friction_and_mass(momentum: float, step: float) -> tuple[float, float]:
    """C, and the inertia μ of the thermostat.

    Kinetic energy relaxes at the rate 2C, and with the thermostat it swings with ω² = 2/μ: at ω = C they are
    of one speed, and the thermostat follows within 1/(1 - momentum) steps.
    """
    friction = (1 - momentum) / step
    return friction, 2 / friction**2 if friction else 0.0
