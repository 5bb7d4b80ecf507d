"""The Metropolis–Hastings correction."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fokker._core.module import Module
from fokker._core.state import State
from fokker.dynamics import SDE, Dynamics
from fokker.integrators import Correctable, Integrator, Proposal
from fokker.integrators._proposal import temperature_of

# A Metropolis step whose energy rises by more than this is called divergent.
DIVERGENT = 1000.0


def metropolis(
    uniform: Array, energy_change: Array, sound: Array | bool = True
) -> tuple[Array, Array, Array]:
    """(accepted, acceptance rate, divergent): min(1, e^{-ΔE}), never where the proposal is not sound."""
    # Not for NaN, nor for -inf: a point of infinite density would never be left.
    sound = sound & jnp.isfinite(energy_change) & (energy_change < DIVERGENT)
    acceptance = jnp.where(sound, jnp.exp(-jnp.maximum(energy_change, 0)), 0)
    return uniform < acceptance, acceptance, ~sound


class Metropolis(Module):
    r"""Accept a step z → z' with min(1, π(z')q(z'→z) / [π(z)q(z→z')]), else stay: exp(-H/T) is kept exactly.

    For an integrator that knows this ratio, in one of two ways. By its transition density: Euler–Maruyama,
    q(z'|z) = N(z + εf(z), 2εTD(z)), for every Q and every invertible D (Roberts and Tweedie 1996 for Q = 0);
    `ExactOU` likewise, with the way back taken at reversed momentum. By the work that a step does: a
    palindrome of reversible volume-preserving parts and an exact Ornstein–Uhlenbeck part, `Splitting`, is
    accepted with exp(-ΔH/T) summed over the former (Horowitz 1991). After a rejection in reversed time the
    momentum is reversed, without which the target would not be kept. At any step size the target is exact; a
    larger step is rejected more often.

    ```python
    sampler = fk.samplers.recipe(dynamics, step_size=0.1, correction=fk.corrections.Metropolis())
    ```
    """

    def check(self, dynamics: Dynamics | SDE, integrator: Integrator, z: State) -> None:
        """Raise, with the reason, where steps of these dynamics by this integrator cannot be corrected."""
        T = temperature_of(dynamics)
        if not isinstance(T, jax.core.Tracer) and not float(T) > 0:
            raise ValueError(
                "a Metropolis correction needs a temperature above zero: its target is exp(-H/T)."
            )
        if not isinstance(integrator, Correctable):
            raise ValueError(
                f"steps of {type(integrator).__name__} cannot be corrected: the probability of the way back "
                "is not known. Use fk.integrators.EulerMaruyama() where D has noise on every variable, and "
                "Splitting() or ExactOU() for underdamped dynamics."
            )
        integrator.check_correction(dynamics, z)

    def decide(self, uniform: Array, proposal: Proposal) -> tuple[State, Array, Array, Array]:
        """(state, accepted, acceptance rate, divergent)."""
        finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(proposal.z)]))
        accepted, rate, divergent = metropolis(uniform, -proposal.log_ratio, finite)
        z = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposal.z, proposal.stay)
        return z, accepted, rate, divergent
