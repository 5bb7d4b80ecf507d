"""Many walks of many chains, none of which waits for another to end its step.

Chains in lockstep would all take as many moves a step as the longest walk of any needs. Here every turn of
the loop is one move of each chain; a chain whose walk has ended records it and begins the next.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key

from fokker._core.count import Count
from fokker._core.packing import pack, unpack
from fokker._core.random import fold_in
from fokker._core.state import ravel
from fokker.samplers._walker import Walker, WalkerState
from fokker.samplers._whole import choose
from fokker.targets.constrained import constrained

# Of Hoffman and Gelman (2014): how strongly early steps count, and how fast later ones count less.
_GAMMA, _EARLY, _KAPPA = 0.05, 10, 0.75


class StepSearch(NamedTuple):
    r"""Dual averaging of log ε towards a mean acceptance δ (Hoffman and Gelman 2014, Algorithm 6).

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
        """To begin at a step size, drawn towards ten times it."""
        log_step = jnp.log(step_size)
        zero = jnp.zeros_like(log_step)
        return cls(log_step, log_step, zero, zero, log_step + jnp.log(10.0).astype(log_step.dtype))

    def updated(self, acceptance: Array, wanted: Any) -> "StepSearch":
        """After a step that was accepted with this probability."""
        t = self.updates + 1
        share = 1 / (t + _EARLY)
        shortfall = (1 - share) * self.shortfall + share * (wanted - acceptance)
        log_step = self.centre - jnp.sqrt(t) / _GAMMA * shortfall
        weight = t**-_KAPPA
        average = weight * log_step + (1 - weight) * self.log_average
        return StepSearch(log_step, average, shortfall, t, self.centre)


class Chain(NamedTuple):
    """What one chain carries from step to step."""

    state: WalkerState
    search: StepSearch
    moments: Any
    taken: Array


@eqx.filter_jit
def walk_chunk(
    sampler: Walker,
    capacity: int,
    states: WalkerState,
    moments: Any,
    keys: Key[Array, " chains"],
    first: Count,
    steps: Int[Array, ""],
    thin: Int[Array, ""],
    keeps: Bool[Array, ""],
    search: StepSearch,
    learns: Bool[Array, ""],
) -> tuple[Chain, dict[str, Any]]:
    """`steps` steps of every chain, at most `capacity`; every `thin`-th position, a vector, with statistics.

    With `learns` the step sizes are those of the search, which goes on; else they are its averages. How many
    steps, whether they are kept and whether it learns is not compiled in: warm-up and sampling share one
    program.
    """
    numbers = first + jnp.arange(capacity, dtype=jnp.uint32)
    noise = jax.vmap(
        lambda state, key: jax.vmap(lambda t: pack(sampler.draw(fold_in(key, t), state)))(numbers)
    )(states, keys)
    one_state = jax.tree.map(lambda x: x[0], states)
    like_draws = jax.eval_shape(sampler.draw, keys[0], one_state)

    def stepping(search: StepSearch) -> Any:
        log_step = jnp.where(learns, search.log_step, search.log_average)
        return sampler.with_step_size(jnp.exp(log_step))

    def begin(chain: Chain, noise: Any) -> Any:
        place = jnp.minimum(chain.taken, capacity - 1)
        draws = unpack(tuple(x[place] for x in noise), like_draws)
        return stepping(chain.search).begin(draws, chain.state)

    def onward(walk: Any, chain: Chain) -> Any:
        return pack(stepping(chain.search).onward(unpack(walk, like_walk), chain.state))

    def arrived(walk: Any) -> Array:
        return sampler.arrived(unpack(walk, like_walk))

    def turn_over(walk: Any, chain: Chain, out: Any, noise: Any) -> Any:
        over = arrived(walk)
        ended = over & (chain.taken < steps)
        new, _ = stepping(chain.search).finish(unpack(walk, like_walk), chain.state)
        found = chain.search.updated(new.stats[0], sampler.acceptance)
        state = choose(ended, new, chain.state)
        moments = chain.moments
        if moments is not None:
            kept = ended & keeps & ((chain.taken + 1) % thin == 0)
            moments = choose(kept, moments.add(constrained(sampler.target, state.position)), moments)
        row = jnp.minimum(chain.taken // thin, capacity - 1)
        # A row is written again until its draw is complete.
        out = jax.tree.map(
            lambda o, x: o.at[row].set(jnp.where(ended, x, o[row])), out, (ravel(state.position), state.stats)
        )
        chain = Chain(state, choose(ended & learns, found, chain.search), moments, chain.taken + ended)
        # A chain that has taken all its steps walks on too, for the others to go on.
        return choose(over, pack(begin(chain, noise)), walk), chain, out

    def body(carry: Any) -> Any:
        walks, chains, out = carry
        walks = jax.lax.while_loop(
            lambda walks: ~jnp.any(jax.vmap(arrived)(walks)),
            lambda walks: jax.vmap(onward)(walks, chains),
            walks,
        )
        return jax.vmap(turn_over)(walks, chains, out, noise)

    none = jnp.zeros(keys.shape[0], jnp.int32)
    chains = Chain(states, search, moments, none)
    walks = jax.vmap(begin)(chains, noise)
    like_walk = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), walks)
    blank = jax.tree.map(
        lambda x: jnp.zeros((x.shape[0], capacity, x.shape[1]), x.dtype), (states.gradient, states.stats)
    )
    carry = (jax.vmap(pack)(walks), chains, blank)
    _, chains, (positions, stats) = jax.lax.while_loop(lambda c: jnp.any(c[1].taken < steps), body, carry)
    return chains, {"position": positions, **sampler.named_stats(stats)}
