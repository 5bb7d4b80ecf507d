"""The search for a step size by dual averaging."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

# Of Hoffman and Gelman (2014): how strongly early steps count, and how fast later ones count less.
_GAMMA, _EARLY, _KAPPA = 0.05, 10, 0.75


class StepSearch(NamedTuple):
    r"""Dual averaging of log ε towards a mean acceptance rate δ (Hoffman and Gelman 2014, Algorithm 6).

    H̄ ← (1 - 1/(t+t₀)) H̄ + (δ - α)/(t+t₀)
    log ε = μ - √t/γ H̄,   log ε̄ ← t^{-κ} log ε + (1 - t^{-κ}) log ε̄
    """

    log_step: Array
    log_average: Array
    shortfall: Array
    updates: Array
    centre: Array

    @classmethod
    def around(cls, step_size: Array) -> "StepSearch":
        """Start at a step size, with ten times it as the point of attraction."""
        log_step = jnp.log(step_size)
        zero = jnp.zeros_like(log_step)
        return cls(log_step, log_step, zero, zero, log_step + jnp.log(10.0).astype(log_step.dtype))

    def updated(self, acceptance_rate: Array, target_accept: Any) -> "StepSearch":
        """After a step that was accepted with this probability."""
        t = self.updates + 1
        share = 1 / (t + _EARLY)
        shortfall = (1 - share) * self.shortfall + share * (target_accept - acceptance_rate)
        log_step = self.centre - jnp.sqrt(t) / _GAMMA * shortfall
        weight = t**-_KAPPA
        average = weight * log_step + (1 - weight) * self.log_average
        return StepSearch(log_step, average, shortfall, t, self.centre)
