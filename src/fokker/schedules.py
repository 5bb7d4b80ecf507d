"""Step sizes that change with the number of steps taken: any function of it will do."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array

Schedule = Callable[[Array], Array]


def polynomial(a: float, b: float, c: float) -> Schedule:
    """ε_t = (a(1 + t/b))^{-c}, the decay of Welling and Teh (2011)."""
    return lambda t: (a * (1 + t / b)) ** (-c)


def cyclical(largest: float, period: int) -> Schedule:
    """ε_t = (largest/2)(cos(π (t mod period)/period) + 1) (Zhang et al. 2020): leap, settle, leap again."""
    return lambda t: largest / 2 * (jnp.cos(jnp.pi * (t % period) / period) + 1)
