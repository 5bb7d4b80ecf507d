"""Step sizes that change with the number of steps taken: any function of it will do.

The number t has 64 bits (`fokker._core.count.StepNumber`): t % n, t // n, t + n and comparisons with
whole numbers are exact, everything else is floating point.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

Schedule = Callable[[Any], Array]


def polynomial(a: float, b: float, c: float) -> Schedule:
    """ε_t = (a(1 + t/b))^{-c}, the decay of Welling and Teh (2011)."""
    return lambda t: (a * (1 + t / b)) ** (-c)


def cyclical(largest: float, period: int) -> Schedule:
    """ε_t = (largest/2)(cos(π (t mod period)/period) + 1) (Zhang et al. 2020): large to small, then again."""
    return lambda t: largest / 2 * (jnp.cos(jnp.pi * (t % period) / period) + 1)
