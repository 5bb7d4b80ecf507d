"""Step sizes: a number, "auto", or a schedule, any function of the number of steps taken.

The number t has 64 bits (`fokker._core.count.StepNumber`): t % n, t // n, t + n and comparisons with
whole numbers are exact, everything else is floating point.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fokker._core.count import Count, StepNumber
from fokker._core.state import as_arrays

Schedule = Callable[[Any], Array]
# The text is `AUTOMATIC`.
StepSize = float | Array | Schedule | str

AUTOMATIC = "auto"


# Classes and not functions inside functions: a sampler with a schedule can be pickled, and equal ones share
# their compiled programs.
@dataclasses.dataclass(frozen=True)
class _Polynomial:
    a: float
    b: float
    c: float

    def __call__(self, t: Any) -> Array:
        return (self.a * (1 + t / self.b)) ** (-self.c)


@dataclasses.dataclass(frozen=True)
class _Cyclical:
    largest: float
    period: int

    def __call__(self, t: Any) -> Array:
        return self.largest / 2 * (jnp.cos(jnp.pi * (t % self.period) / self.period) + 1)


def polynomial(a: float, b: float, c: float) -> Schedule:
    """ε_t = (a(1 + t/b))^{-c}, the decay of Welling and Teh (2011)."""
    return _Polynomial(a, b, c)


def cyclical(largest: float, period: int) -> Schedule:
    """ε_t = (largest/2)(cos(π (t mod period)/period) + 1) (Zhang et al. 2020): large to small, then again."""
    return _Cyclical(largest, period)


def step_size_at(step_size: Any, step: Any) -> Array:
    """ε at a step, of a constant or a schedule."""
    if isinstance(step_size, str):
        raise ValueError(
            "the step size is left to be found: fk.sample finds it, or fk.tune(target, sampler, …).sampler."
        )
    if not callable(step_size):
        return step_size
    return step_size(StepNumber.of(step) if isinstance(step, Count) else step)


def check_step_size(step_size: Any) -> Any:
    """A number, a schedule or "auto"; raise unless it is positive, a schedule at its start."""
    if isinstance(step_size, str):
        if step_size != AUTOMATIC:
            raise ValueError(f"the step size is a number, a schedule or {AUTOMATIC!r}, not {step_size!r}.")
        return step_size
    if step_size is None:
        raise ValueError(f"the step size is a number, a schedule or {AUTOMATIC!r}, not None.")
    step = step_size if callable(step_size) else as_arrays(step_size)
    first = step(StepNumber.of(0)) if callable(step) else step
    if not isinstance(first, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(first) & (first > 0))):
        raise ValueError(f"the step size must be a positive number; {first} was given.")
    return step
