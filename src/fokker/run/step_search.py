"""The search for a step size by dual averaging."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

# Of Hoffman and Gelman (2014): how strongly early steps count, and how fast later ones count less.
_GAMMA, _EARLY, _KAPPA = 0.05, 10, 0.75
# Updates after which a step size is taken to be about right.
_SETTLED = 100
# The first step size is doubled or halved until a single move crosses this acceptance.
_CROSSED = 0.8


class StepSearch(NamedTuple):
    r"""Dual averaging of log ε towards a mean acceptance rate δ (Hoffman and Gelman 2014, Algorithm 6).

    H̄ ← (1 - 1/(t+t₀)) H̄ + (δ - α)/(t+t₀)
    log ε = μ - √t/γ H̄,   log ε̄ ← t^{-κ} log ε + (1 - t^{-κ}) log ε̄

    Before it ε is doubled or halved until the acceptance of a single move crosses 0.8; `direction` is 1 or -1
    in that search, 0 before it and after it.
    """

    log_step: Array
    log_average: Array
    shortfall: Array
    updates: Array
    centre: Array
    direction: Array

    @classmethod
    def around(cls, step_size: Array) -> "StepSearch":
        """Start at a step size, with ten times it as the point of attraction."""
        return _around(step_size)

    @classmethod
    def near(cls, step_size: Array) -> "StepSearch":
        """Start at a step size that is about right: around it, with changes as after many updates."""
        return _near(step_size)

    def updated(self, acceptance_rate: Array, target_accept: Any) -> "StepSearch":
        """After a step that was accepted with this probability."""
        t = self.updates + 1
        share = 1 / (t + _EARLY)
        shortfall = (1 - share) * self.shortfall + share * (target_accept - acceptance_rate)
        log_step = self.centre - jnp.sqrt(t) / _GAMMA * shortfall
        weight = t**-_KAPPA
        average = weight * log_step + (1 - weight) * self.log_average
        return StepSearch(log_step, average, shortfall, t, self.centre, self.direction)

    def tried(self, acceptance_rate: Array, before: Array, after: Array) -> "StepSearch":
        """After a single move from one position to another, accepted with this probability."""
        # A step below the resolution of rounding does not move, and is accepted for that reason.
        rounding = 16 * jnp.finfo(before.dtype).eps * jnp.abs(before)
        moved = jnp.any(jnp.abs(after - before) > rounding)
        above = (acceptance_rate > _CROSSED) & ((self.direction >= 0) | moved)
        towards = jnp.where(above, 1, -1).astype(self.direction.dtype)
        crossed = (self.direction != 0) & (towards != self.direction)
        change = jnp.where(crossed, 0, towards * jnp.log(2.0).astype(towards.dtype))
        return self._replace(
            log_step=self.log_step + change,
            log_average=self.log_average + change,
            direction=jnp.where(crossed, 0, towards),
        )

    @property
    def has_crossed(self) -> Array:
        """After a trial: whether no other is needed."""
        return self.direction == 0


# Compiled: one program, where each of the operations would be one.
@jax.jit
def _around(step_size: Array) -> StepSearch:
    log_step = jnp.log(step_size)
    zero = jnp.zeros_like(log_step)
    return StepSearch(log_step, log_step, zero, zero, log_step + jnp.log(10.0).astype(log_step.dtype), zero)


@jax.jit
def _near(step_size: Array) -> StepSearch:
    search = _around(step_size)
    return search._replace(centre=search.log_step, updates=jnp.full_like(search.updates, _SETTLED))
