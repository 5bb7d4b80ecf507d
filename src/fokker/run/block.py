"""Many steps of all chains in one compiled program, whatever their number."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from fokker._count import Count
from fokker._random import fold_in, fold_in_step
from fokker._rounding import raised
from fokker._state import dimension
from fokker.batches import BatchScheme
from fokker.run.moments import Moments
from fokker.samplers._sampler import Sampler
from fokker.targets.constrained import constrained

# The number that a chain's key is folded with for the stream of its batches.
BATCHES = 2**32 - 1
# Steps whose randomness is drawn at once on a CPU, where that is faster than drawing it step by step: for
# states so small that the randomness of all of them stays in the cache.
_AHEAD, _AHEAD_NUMBERS = 128, 2**18
_LEAST_AHEAD = 8


class Chains(NamedTuple):
    """What the chains carry from step to step.

    `sound`: whether every number has been finite so far, and 2TD - εB̂ positive semidefinite; `decision`: the
    acceptance rate of the last step and whether it diverged, for samplers that accept and reject.
    """

    states: Any
    moments: Moments | None
    sound: tuple[Bool[Array, " chains"], Bool[Array, " chains"]]
    decision: Any


class Task(NamedTuple):
    """The steps of one block: `draws` times `thin` steps, the first of them number `first` of the run.

    `place`: epoch and position in it at which the batches of reshuffled data go on. `keeps`: whether the
    moments count these draws, as in burn-in they do not. None of it is compiled in.
    """

    first: Count
    draws: Int[Array, ""]
    thin: Int[Array, ""]
    keeps: Bool[Array, ""]
    place: tuple[Count, Array]


class Setting(NamedTuple):
    """What stays the same from block to block."""

    sampler: Sampler
    data: PyTree[Array] | None
    batches: BatchScheme | None
    keys: Key[Array, " chains"]
    rows: int
    ahead: int


def start(sampler: Sampler, states: Any, moments: Moments | None) -> Chains:
    """Chains before their first step; a copy, as a block takes the memory of the chains that it is given."""
    number = jax.tree.leaves(states)[0].shape[0]
    true = jnp.ones(number, bool)
    decision = (jnp.zeros(number, jnp.float32), jnp.zeros(number, bool)) if sampler.decides else ()
    return jax.tree.map(jnp.copy, Chains(states, moments, (true, true.copy()), decision))


def steps_ahead(sampler: Sampler, states: Any, keys: Key[Array, " chains"]) -> int:
    """Of how many steps the randomness is drawn at once; 1 for drawing it in the step.

    On an accelerator, and for large states, drawn ahead it would go through memory twice.
    """
    if jax.tree.leaves(states)[0].devices().pop().platform != "cpu":
        return 1
    numbers = dimension(jax.eval_shape(jax.vmap(sampler.draw), keys, states))
    ahead = min(_AHEAD, _AHEAD_NUMBERS // max(1, numbers))
    return ahead if ahead >= _LEAST_AHEAD else 1


def position_of(sampler: Sampler, state: Any) -> PyTree[Array]:
    """Theta as the user knows it: constrained, where the target has constraints, and known to NumPy."""
    return constrained(getattr(sampler, "target", None), raised(state.position))


# Compiled once for a sampler, whatever its step size, data and number of steps. The memory of the chains is
# used again for their next states.
@eqx.filter_jit(donate="all-except-first")
def run_block(given: tuple[Setting, Task], chains: Chains) -> tuple[Chains, dict[str, Any]]:
    """All the steps of a task; what was recorded has leading axes draw, of `rows` rows, and chain."""
    setting, task = given
    sampler, batches, keys = setting.sampler, setting.batches, setting.keys
    batch_keys = jax.vmap(lambda key: fold_in(key, BATCHES))(keys)

    def randomness(t: Array, number: int) -> Any:
        """Of steps t to t + number - 1 of the block: leading axes step and chain."""
        offsets = t.astype(jnp.uint32) + jnp.arange(number, dtype=jnp.uint32)
        numbers = task.first + offsets
        state = jax.tree.map(lambda x: x[0], chains.states)

        def of_chain(key: Array, batch_key: Array) -> Any:
            noise = jax.vmap(lambda n: sampler.draw(fold_in_step(key, n, BATCHES), state))(numbers)
            if batches is None:
                return noise, None
            places = batches.places_after(task.place, offsets)
            rows = jax.vmap(lambda n, e, p: batches.rows(batch_key, fold_in(batch_key, n), e, p))
            return noise, rows(numbers, *places)

        return jax.vmap(of_chain, out_axes=1)(keys, batch_keys)

    def step(t: Array, drawn: Any, chains: Chains) -> Chains:
        number = task.first + t.astype(jnp.uint32)

        def one(state: Any, given: Any) -> Any:
            noise, rows = given
            batch = None if batches is None else batches.batch(setting.data, rows)
            info: Any
            state, info = sampler.advance(noise, state, batch, number)
            decision = (info.acceptance.astype(jnp.float32), info.divergent) if sampler.decides else ()
            return state, (info.finite, info.noise_shortfall >= 0), decision

        states, sound, decision = jax.vmap(one)(chains.states, drawn)
        sound = jax.tree.map(jnp.logical_and, chains.sound, sound)
        return Chains(states, chains.moments, sound, decision)

    def seen(chains: Chains) -> dict[str, Any]:
        found = {**jax.vmap(sampler.record)(chains.states), "sound": chains.sound[0] & chains.sound[1]}
        if sampler.decides:
            found["acceptance_rate"], found["diverging"] = chains.decision
        if chains.moments is None:
            found["position"] = jax.vmap(lambda state: position_of(sampler, state))(chains.states)
        return found

    def record(row: Array, is_draw: Any, carry: tuple[Chains, Any]) -> tuple[Chains, Any]:
        chains, out = carry
        found = seen(chains)
        if chains.moments is not None:
            counts = found["sound"] & task.keeps & is_draw

            def add(moments: Moments, state: Any, counts: Array) -> Moments:
                added = moments.add(position_of(sampler, state))
                return jax.tree.map(lambda new, old: jnp.where(counts, new, old), added, moments)

            chains = chains._replace(moments=jax.vmap(add)(chains.moments, chains.states, counts))
        return chains, jax.tree.map(
            lambda o, x: jax.lax.dynamic_update_index_in_dim(o, x, row, 0), out, found
        )

    def in_the_step(chains: Chains, out: Any) -> Any:
        def one_step(t: Array, chains: Chains) -> Chains:
            return step(t, jax.tree.map(lambda x: x[0], randomness(t, 1)), chains)

        def one_draw(row: Array, carry: Any) -> Any:
            chains, out = carry
            chains = jax.lax.fori_loop(row * task.thin, (row + 1) * task.thin, one_step, chains)
            return record(row, True, (chains, out))

        return jax.lax.fori_loop(0, task.draws, one_draw, (chains, out))

    def ahead_of_steps(chains: Chains, out: Any) -> Any:
        steps = task.draws * task.thin

        def some_steps(part: Array, carry: Any) -> Any:
            first = part * setting.ahead
            drawn = randomness(first, setting.ahead)

            def one_step(t: Array, carry: Any) -> Any:
                chains, out = carry
                chains = step(t, jax.tree.map(lambda x: x[t - first], drawn), chains)
                # The row of a draw is written at each of its steps; the last stays.
                return record(t // task.thin, (t + 1) % task.thin == 0, (chains, out))

            return jax.lax.fori_loop(first, jnp.minimum(first + setting.ahead, steps), one_step, carry)

        return jax.lax.fori_loop(0, -(-steps // setting.ahead), some_steps, (chains, out))

    shapes = jax.eval_shape(seen, chains)
    blank = jax.tree.map(lambda x: jnp.zeros((setting.rows, *x.shape), x.dtype), shapes)
    return (in_the_step if setting.ahead == 1 else ahead_of_steps)(chains, blank)
