"""What the experiments of Ding et al. (2014) share: the two samplers, in the paper's parametrisation."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fokker import samplers

# The thermostat as the paper has it: dξ = (rᵀr/n - 1) dt, whose mass is 1 whatever the step.
SGNHT = functools.partial(samplers.sgnht, thermostat_mass=1.0)
SAMPLERS: dict[str, Callable[..., samplers.Recipe]] = {"SGHMC": samplers.sghmc, "SGNHT": SGNHT}


class StepAndNoise(NamedTuple):
    """Step size and injected noise, vectorised over."""

    h: Any
    A: Any


@dataclass(frozen=True)
class DingSetting:
    """A sampler in the paper's other parametrisation: η = ε², a = Aε."""

    method: str
    a: float
    eta: float

    def __str__(self) -> str:
        return f"{self.method}, a = {self.a:g}, η = {self.eta:g}"

    def sampler(self, **options: Any) -> samplers.Recipe:
        """With step size √η and friction a/√η."""
        step_size = self.eta**0.5
        return SAMPLERS[self.method](step_size, self.a / step_size, **options)
