"""Steps that are trajectories of many moves: no chain waits for another to end its step.

Chains in lockstep would all take as many moves per step as the longest trajectory of any needs. Here every
iteration is one move of each chain; a chain whose trajectory has ended records it and starts the next.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Int, Key

from fokker._core.count import Count
from fokker._core.packing import pack, unpack
from fokker._core.random import fold_in_step
from fokker._core.state import choose, ravel
from fokker.run.mesh import on_every_device
from fokker.run.step_search import StepSearch
from fokker.run.streams import BATCHES
from fokker.samplers.contract import TrajectorySampler
from fokker.targets.constrained import constrained


class Chain(NamedTuple):
    """What one chain carries from step to step."""

    state: Any
    search: StepSearch | None
    moments: Any
    taken: Array


@eqx.filter_jit
def run_trajectories(
    sampler: TrajectorySampler,
    capacity: int,
    states: Any,
    moments: Any,
    keys: Key[Array, " chains"],
    first: Count,
    steps: Int[Array, ""],
    thin: Int[Array, ""],
    keeps: Bool[Array, ""],
    search: StepSearch | None,
    learns: Bool[Array, ""],
    mesh: Mesh | None = None,
) -> tuple[Chain, dict[str, Any]]:
    """`steps` steps of every chain, at most `capacity`; every `thin`-th position, a vector, with statistics.

    With `learns` the step sizes are those of the search, which continues; else they are its averages, or
    without a search the sampler's own. How many steps, whether they are kept and whether it learns is not
    compiled in: warm-up and sampling share one program.
    """
    shared = sampler, capacity, first, steps, thin, keeps, learns
    by_chain = states, moments, keys, search
    if mesh is None:
        return _all_steps(shared, by_chain)
    return on_every_device(mesh, _all_steps, shared, by_chain, (0, 0))


def _all_steps(shared: Any, by_chain: Any) -> tuple[Chain, dict[str, Any]]:
    """The steps of the chains of one device."""
    sampler, capacity, first, steps, thin, keeps, learns = shared
    states, moments, keys, search = by_chain
    numbers = first + jnp.arange(capacity, dtype=jnp.uint32)

    def noise_of(state: Any, key: Array) -> Any:
        return jax.vmap(lambda t: pack(sampler.draw(fold_in_step(key, t, BATCHES), state)))(numbers)

    noise = jax.vmap(noise_of)(states, keys)
    one_state = jax.tree.map(lambda x: x[0], states)
    like_draws = jax.eval_shape(sampler.draw, keys[0], one_state)
    like_stats = jax.eval_shape(lambda draws: sampler.advance(draws, one_state)[1].stats, like_draws)
    dtype = jnp.result_type(*jax.tree.leaves(one_state.position))

    def stepping(search: StepSearch | None) -> Any:
        if search is None:
            return sampler
        log_step = jnp.where(learns, search.log_step, search.log_average)
        return sampler.with_step_size(jnp.exp(log_step))

    def start(chain: Chain, noise: Any) -> Any:
        place = jnp.minimum(chain.taken, capacity - 1)
        draws = unpack(tuple(x[place] for x in noise), like_draws)
        return stepping(chain.search).start(draws, chain.state)

    def move(packed: Any, chain: Chain) -> Any:
        return pack(stepping(chain.search).move(unpack(packed, like_trajectory), chain.state))

    def is_done(packed: Any) -> Array:
        return sampler.is_done(unpack(packed, like_trajectory))

    def end_if_done(packed: Any, chain: Chain, out: Any, noise: Any) -> Any:
        is_over = is_done(packed)
        ended = is_over & (chain.taken < steps)
        new, info = stepping(chain.search).end(unpack(packed, like_trajectory), chain.state)
        search = chain.search
        if search is not None:
            updated = search.updated(info.acceptance_rate, sampler.target_accept)
            search = choose(ended & learns, updated, search)
        state = choose(ended, new, chain.state)
        moments = chain.moments
        if moments is not None:
            counts = ended & keeps & ((chain.taken + 1) % thin == 0)
            moments = choose(counts, moments.add(constrained(sampler.target, state.position)), moments)
        row = jnp.minimum(chain.taken // thin, capacity - 1)
        # One array for all statistics: in a loop each array that changes costs a kernel.
        stats = jnp.stack([info.stats[name].astype(dtype) for name in like_stats])
        # A row is written again until its draw is complete.
        out = jax.tree.map(
            lambda o, x: o.at[row].set(jnp.where(ended, x, o[row])), out, (ravel(state.position), stats)
        )
        chain = Chain(state, search, moments, chain.taken + ended)
        # A chain that has taken all its steps keeps moving while the others finish.
        return choose(is_over, pack(start(chain, noise)), packed), chain, out

    def body(carry: Any) -> Any:
        trajectories, chains, out = carry
        trajectories = jax.lax.while_loop(
            lambda packed: ~jnp.any(jax.vmap(is_done)(packed)),
            lambda packed: jax.vmap(move)(packed, chains),
            trajectories,
        )
        return jax.vmap(end_if_done)(trajectories, chains, out, noise)

    chains = Chain(states, search, moments, jnp.zeros(keys.shape[0], jnp.int32))
    trajectories = jax.vmap(start)(chains, noise)
    like_trajectory = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), trajectories)
    widths = (ravel(one_state.position).size, len(like_stats))
    blank = tuple(jnp.zeros((keys.shape[0], capacity, width), dtype) for width in widths)
    carry = (jax.vmap(pack)(trajectories), chains, blank)
    _, chains, (positions, stats) = jax.lax.while_loop(lambda c: jnp.any(c[1].taken < steps), body, carry)
    named = {name: stats[..., i].astype(like.dtype) for i, (name, like) in enumerate(like_stats.items())}
    return chains, {"position": positions, **named}
