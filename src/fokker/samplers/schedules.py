"""Step sizes: a number, "auto", or a schedule, any function of the number of steps taken.

The number t has 64 bits (`fokker._core.count.StepNumber`): t % n, t // n, t + n and comparisons with
whole numbers are exact, everything else is floating point.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.count import Count, StepNumber
from fokker._core.required import check_compiled, require
from fokker._core.state import as_arrays
from fokker._core.tracing import hashable
from fokker._core.types import Number

Schedule = Callable[[Any], Array]
# A number (an array is one per chain or coordinate), a function of the step, or left to be found.
StepSize = float | Array | Schedule | Literal["auto"]

AUTOMATIC: Final = "auto"


# Classes and not functions inside functions: a sampler with a schedule can be pickled, and equal ones share
# their compiled programs.
@dataclasses.dataclass(frozen=True)
class _Polynomial:
    a: float
    b: float
    c: float

    def __call__(self, t: StepNumber | Number) -> Array:
        return (self.a * (1 + t / self.b)) ** (-self.c)


@dataclasses.dataclass(frozen=True)
class _Cyclical:
    largest: float
    period: int

    def __call__(self, t: StepNumber | Number) -> Array:
        return self.largest / 2 * (jnp.cos(jnp.pi * (t % self.period) / self.period) + 1)


def polynomial(a: float, b: float, c: float) -> Schedule:
    """ε_t = (a(1 + t/b))^{-c}, the decay of Welling and Teh (2011).

    Arguments:

    - `a`: scales the step: ε₀ = a^{-c}.
    - `b`: steps after which the decay sets in.
    - `c`: the power of the decay, between ½ and 1 for a decay to zero.

    Returns a schedule, for the step size of a sampler.

    ```python
    sampler = fk.samplers.sgld(fk.schedules.polynomial(1e3, 100.0, 0.55))
    trace = fk.sample(target, sampler, init=jnp.zeros(2), steps=1000)
    ```
    """
    return _Polynomial(a, b, c)


def cyclical(largest: float, period: int) -> Schedule:
    """ε_t = (largest/2)(cos(π (t mod period)/period) + 1) (Zhang et al. 2020): large to small, then again.

    Arguments:

    - `largest`: the step size at the start of a cycle.
    - `period`: steps per cycle.

    Returns a schedule, for the step size of a sampler.

    ```python
    sampler = fk.samplers.sgld(fk.schedules.cyclical(0.01, 500))
    trace = fk.sample(target, sampler, init=jnp.zeros(2), steps=1000)
    ```
    """
    return _Cyclical(largest, period)


def step_size_at(step_size: StepSize, step: Count | Number) -> Array:
    """ε at a step, of a constant or a schedule."""
    if isinstance(step_size, str):
        raise ValueError(
            "the step size has not been found yet: fk.sample finds it, or fk.tune(target, sampler, …)."
        )
    if not callable(step_size):
        return step_size  # type: ignore[return-value]  # numbers behave as arrays do
    return step_size(StepNumber.of(step) if isinstance(step, Count) else step)


def check_step_size(step_size: StepSize) -> Any:
    """A number, a schedule or "auto"; raise unless it is positive, a schedule at its start."""
    if isinstance(step_size, str):
        if step_size != AUTOMATIC:
            raise ValueError(f"the step size is a number, a schedule or {AUTOMATIC!r}, not {step_size!r}.")
        return step_size
    if step_size is None:
        raise ValueError(f"the step size is a number, a schedule or {AUTOMATIC!r}, not None.")
    step = hashable(step_size) if callable(step_size) else as_arrays(step_size)
    check_compiled(_check_first, step) if callable(step) else _check_positive(step)
    return step


def _check_first(schedule: Schedule) -> None:
    _check_positive(schedule(StepNumber.of(0)))


def _check_positive(step_size: Any) -> None:
    xp = jnp if isinstance(step_size, jax.core.Tracer) else np
    require(
        xp.all(xp.isfinite(step_size) & (xp.asarray(step_size) > 0)),
        lambda first: ValueError(f"the step size must be a positive number; {float(first):.7g} was given."),
        step_size,
    )
