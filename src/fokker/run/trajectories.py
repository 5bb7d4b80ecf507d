"""Steps that are trajectories of many moves: no chain waits for another to end its step.

Chains in lockstep would all take as many moves per step as the longest trajectory of any needs. Here every
iteration is one move of each chain; a chain whose trajectory has ended records it and starts the next.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Int, Key, PyTree

from fokker._core.count import Count
from fokker._core.packing import pack, unpack
from fokker._core.random import fold_in_step
from fokker._core.state import choose, dimension, ravel, unravel
from fokker.run.block import Block, Chains, Choose
from fokker.run.mesh import on_every_device
from fokker.run.moments import Moments
from fokker.run.start import Started
from fokker.run.step_plan import BATCHES
from fokker.run.step_search import StepSearch
from fokker.samplers.contract import TrajectorySampler, chunk_length
from fokker.targets.constrained import constrained
from fokker.targets.target import Target


class Chain(NamedTuple):
    """What one chain carries from step to step."""

    state: PyTree[Array]
    search: StepSearch | None
    moments: Moments | None
    taken: Array


class Steps(NamedTuple):
    """The steps of a block from number `first` on, none of which is compiled in.

    Every `thin`-th is recorded. `keeps`: whether the moments include them; `learns`: whether the step sizes
    are those of a search, which continues.
    """

    first: Count
    number: Int[Array, ""]
    thin: Int[Array, ""]
    keeps: Bool[Array, ""]
    learns: Bool[Array, ""]

    @classmethod
    def of(cls, first: int, number: int, thin: int = 1, keeps: bool = False, learns: bool = False) -> "Steps":
        """From numbers of Python."""
        flags = jnp.asarray(keeps), jnp.asarray(learns)
        return cls(Count.of(first), jnp.int32(number), jnp.int32(thin), *flags)


@eqx.filter_jit
def run_trajectories(
    sampler: TrajectorySampler,
    capacity: int,
    steps: Steps,
    states: PyTree[Array],
    moments: Moments | None,
    search: StepSearch | None,
    keys: Key[Array, " chains"],
    mesh: Mesh | None = None,
) -> tuple[Chain, dict[str, Any]]:
    """These steps of every chain, at most `capacity`; every `thin`-th position, a vector, with statistics.

    Where they do not learn, the step sizes are the averages of the search, or without a search the sampler's
    own. Warm-up and sampling share one program.
    """
    shared = sampler, capacity, steps
    by_chain = states, moments, keys, search
    if mesh is None:
        return _all_steps(shared, by_chain)
    return on_every_device(mesh, _all_steps, shared, by_chain, (0, 0))


class Trajectories:
    """Blocks of a sampler whose chains do not wait for each other."""

    chain_axis = 0

    def __init__(self, started: Started, is_cpu: bool, choose: Choose) -> None:
        plan, self._sampler = started.ready.plan, started.ready.placed
        positions = started.states.position
        self.devices, self._choose = plan.devices, choose
        # As in warm-up, so that both share one program.
        length = chunk_length(dimension(positions))
        self.rows, self.most = max(2, length) + 1, min(plan.steps.chunk, length)
        # A copy: the memory of the states is reused.
        self._like = jax.tree.map(lambda x: np.array(x[0]), positions)
        self._keys = self.devices.by_chain(plan.keys[:, 2])
        self._search: StepSearch | None = None
        if self._sampler.learns:
            dtype = jnp.result_type(*jax.tree.leaves(positions))
            size: Any = self._sampler.step_size  # type: ignore[attr-defined]
            step_sizes = jnp.broadcast_to(size, (plan.steps.chains,)).astype(dtype)
            self._search = self.devices.by_chain(StepSearch.around(step_sizes))
        self._shared: Any = self.devices.share(self._sampler, None)[0]

    def send(self, first: int, steps: int, chains: Chains) -> tuple[Chains, Block]:
        """Start the block from step `first` on, of about `steps` steps; it is not waited for."""
        piece = self._choose(first, steps)
        after, out = run_trajectories(
            self._shared,
            self.rows,
            self.devices.on_all(Steps.of(first, piece.steps, piece.thin, piece.is_kept)),
            chains.states,
            chains.moments,
            self._search,
            self._keys,
            self.devices.mesh,
        )
        out = self.devices.gathered(out)
        positions = out.pop("position")
        if after.moments is None:
            out["position"] = _constrained(self._sampler.known_target, self._like, positions)
        out["sound"] = np.ones(out["acceptance_rate"].shape, bool)
        sound: Any = (True, True)  # what is not finite is never accepted
        return chains._replace(states=after.state, moments=after.moments), Block(piece, sound, out)

    def close(self) -> None:
        """Nothing is begun for the next block."""


@eqx.filter_jit
def _constrained(target: Target | None, like: PyTree[Any], vectors: Array) -> PyTree[Array]:
    return jax.vmap(jax.vmap(lambda x: constrained(target, unravel(x, like))))(vectors)


def _all_steps(shared: Any, by_chain: Any) -> tuple[Chain, dict[str, Any]]:
    """The steps of the chains of one device."""
    sampler, capacity, (first, steps, thin, keeps, learns) = shared
    states, moments, keys, search = by_chain
    numbers = first + jnp.arange(capacity, dtype=jnp.uint32)

    def noise_of(state: PyTree[Array], key: Array) -> Any:
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

    def start(chain: Chain, noise: PyTree[Array]) -> Any:
        place = jnp.minimum(chain.taken, capacity - 1)
        draws = unpack(tuple(x[place] for x in noise), like_draws)
        return stepping(chain.search).start(draws, chain.state)

    def move(packed: PyTree[Array], chain: Chain) -> Any:
        return pack(stepping(chain.search).move(unpack(packed, like_trajectory), chain.state))

    def is_done(packed: PyTree[Array]) -> Array:
        return sampler.is_done(unpack(packed, like_trajectory))

    def end_if_done(packed: PyTree[Array], chain: Chain, out: PyTree[Array], noise: PyTree[Array]) -> Any:
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
