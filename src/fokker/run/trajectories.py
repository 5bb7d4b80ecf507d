"""Steps that are trajectories of many moves: no chain waits for another to end its step.

Chains in lockstep would all take as many moves per step as the longest trajectory of any needs. Here every
iteration is one move of each chain; a chain whose trajectory has ended records it and starts the next.
"""

import contextlib
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Int, Key, PyTree

from fokker._core.count import Count
from fokker._core.one_kernel import NoKernel, one_kernel
from fokker._core.packing import pack, unpack
from fokker._core.precision import in_this_precision, is_double
from fokker._core.random import fold_in_step
from fokker._core.rounding import raised
from fokker._core.state import choose, dimension, ravel, shapes_of_first, unravel
from fokker.run.block import Block, Chains, Choose, position_of, stats_of
from fokker.run.mesh import on_every_device
from fokker.run.moments import Moments
from fokker.run.start import Started
from fokker.run.step_plan import BATCHES
from fokker.run.step_search import StepSearch
from fokker.samplers.contract import Sampler, all_finite, chunk_length
from fokker.samplers.trajectory_sampler import TrajectorySampler
from fokker.targets.constrained import constrained
from fokker.targets.target import Target

# The most chains that run each by itself: more fill the vector units better together. The most numbers that a
# step of the integrator computes there.
_MOST_ALONE, _MOST_WORK = 16, 2**18


class Chain(NamedTuple):
    """What one chain carries from step to step."""

    state: PyTree[Array]
    search: StepSearch | None
    moments: Moments | None
    taken: Array


class Steps(NamedTuple):
    """The steps of a block from number `first` on, none of which is compiled in.

    Every `thin`-th is recorded. `keeps`: whether the moments include them; `learns`: whether the step sizes
    are those of a search, which continues; `tries`: whether they are trials of a first step size, which leave
    the chains where they are and end with the search for it.
    """

    first: Count
    number: Int[Array, ""]
    thin: Int[Array, ""]
    keeps: Bool[Array, ""]
    learns: Bool[Array, ""]
    tries: Bool[Array, ""]

    @classmethod
    def of(
        cls,
        first: int,
        number: int,
        thin: int = 1,
        keeps: bool = False,
        learns: bool = False,
        tries: bool = False,
    ) -> "Steps":
        """From numbers of Python."""
        numbers: Any = (np.int32(number), np.int32(thin), *map(np.asarray, (keeps, learns, tries)))
        return cls(Count.on_host(first), *numbers)


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
    shared, by_chain = (sampler, capacity, steps), (states, moments, keys, search)
    alone = None if mesh is not None else _program_of_one(shared, by_chain)
    with contextlib.suppress(NoKernel):
        if alone is not None:
            return alone(shared, by_chain)
    return _vectorised(shared, by_chain, mesh)


@eqx.filter_jit
def _vectorised(shared: Any, by_chain: Any, mesh: Mesh | None) -> tuple[Chain, dict[str, Any]]:
    """All chains by one program, which moves every chain at once."""
    if mesh is None:
        return _steps_of(shared, by_chain)
    return on_every_device(mesh, _steps_of, shared, by_chain, (0, 0))


class _Shape(NamedTuple):
    """Of an array, in a key that is made for each block: one of JAX's takes ten times as long."""

    shape: tuple[int, ...]
    dtype: Any


class _OneByOne:
    """Each chain by a program of one kernel, in threads."""

    def __init__(self, structure: Any, leaves: tuple[Any, ...]) -> None:
        self._structure, self._leaves = structure, leaves
        self._is_compiled = self._fails = False
        self._run = jax.jit(self._one)

    def _one(self, arrays: list[Array], chain: Array) -> tuple[Chain, dict[str, Any]]:
        shared, by_chain = self._with(arrays)
        arrays, structure = jax.tree.flatten((shared, jax.tree.map(lambda x: x[chain], by_chain)))
        places = [i for i, x in enumerate(arrays) if eqx.is_array(x)]

        def run(values: list[Array]) -> Any:
            leaves = list(arrays)
            for place, value in zip(places, values, strict=True):
                leaves[place] = value
            shared, one = jax.tree.unflatten(structure, leaves)
            return _steps_of(shared, one, alone=True)

        return one_kernel(run, [arrays[i] for i in places], most=_MOST_WORK)

    def _with(self, arrays: list[Any]) -> tuple[Any, Any]:
        """The arguments, with these arrays in the places of the shapes."""
        values = iter(arrays)
        leaves = [next(values) if isinstance(x, _Shape) else x for x in self._leaves]
        return jax.tree.unflatten(self._structure, leaves)

    def check(self) -> None:
        """Raise `NoKernel` where a chain is not one kernel."""
        shapes = [jax.ShapeDtypeStruct(*x) for x in self._leaves if isinstance(x, _Shape)]
        self._run.trace(shapes, jax.ShapeDtypeStruct((), np.int32))

    def __call__(self, shared: Any, by_chain: Any) -> tuple[Chain, dict[str, Any]]:
        """The steps of all chains; raise `NoKernel` where XLA does not compile the kernel."""
        if self._fails:
            raise NoKernel("XLA did not compile it")
        arrays = [x for x in jax.tree.leaves((shared, by_chain)) if eqx.is_array(x)]
        run = in_this_precision(lambda i: jax.block_until_ready(self._run(arrays, np.int32(i))))
        chains = range(by_chain[2].shape[0])
        # Threads at once would each compile the program.
        try:
            first = [] if self._is_compiled else [run(0)]
        except jax.errors.JaxRuntimeError as error:
            # Of some sizes XLA makes kernels of a kind that it then cannot compile.
            self._fails = True
            raise NoKernel(str(error)) from error
        self._is_compiled = True
        return _stacked((*first, *_threads().map(run, chains[len(first) :])))


@jax.jit
def _stacked(chains: tuple[Any, ...]) -> Any:
    return jax.tree.map(lambda *x: jnp.stack(x), *chains)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """XLA runs programs at the same time that are called by different threads."""
    return ThreadPoolExecutor(os.cpu_count(), "fokker-chain")


def _program_of_one(shared: Any, by_chain: Any) -> _OneByOne | None:
    """The program by which each chain runs alone, where there are few, of a small model, on a CPU."""
    keys = by_chain[2]
    if keys.shape[0] > _MOST_ALONE or next(iter(keys.devices())).platform != "cpu":
        return None
    leaves, structure = jax.tree.flatten((shared, by_chain))
    shapes = (_Shape(x.shape, x.dtype) if eqx.is_array(x) else x for x in leaves)
    return _known_program(structure, tuple(shapes), is_double())


@functools.lru_cache(maxsize=128)
def _known_program(structure: Any, leaves: tuple[Any, ...], double: bool) -> _OneByOne | None:
    program = _OneByOne(structure, leaves)
    try:
        program.check()
    except (
        Exception
    ):  # NoKernel, or what a rule did not foresee: an error of the model comes again without it
        return None
    return program


def forget_programs() -> None:
    """Make the programs of single chains anew when they are next wanted."""
    _known_program.cache_clear()


class Trajectories:
    """Blocks of a sampler whose chains do not wait for each other."""

    chain_axis = 0

    def __init__(self, started: Started, is_cpu: bool, choose: Choose) -> None:
        plan, self._sampler = started.ready.plan, started.ready.placed
        like = jax.eval_shape(self._sampler.position, shapes_of_first(started.states))
        self.devices, self._choose = plan.devices, choose
        # As in warm-up, so that both share one program.
        length = chunk_length(plan.steps.chains * dimension(like))
        self.rows, self.most = max(2, length) + 1, min(plan.steps.chunk, length)
        self._like = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), like)
        self._keys = self.devices.by_chain(plan.keys[:, 2])
        self._search: StepSearch | None = None
        size: Any = self._sampler.own_step_size
        if self._sampler.learns and not callable(size) and not jnp.ndim(size):
            dtype = jnp.result_type(*jax.tree.leaves(like))
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
        out.pop("gradient", None)  # of warm-up
        out = self.devices.gathered(out)
        positions = out.pop("position")
        if after.moments is None:
            out["position"] = _constrained(self._sampler.known_target, self._like, positions)
        finite, out["sound"] = self.devices.gathered(_finite(after.state)), _finite_rows(positions)
        chains = chains._replace(states=after.state, moments=after.moments)
        return chains, Block(piece, (finite, chains.sound), out)

    def close(self) -> None:
        """Nothing is begun for the next block."""


@eqx.filter_jit
def _constrained(target: Target | None, like: PyTree[Any], vectors: Array) -> PyTree[Array]:
    return jax.vmap(jax.vmap(lambda x: constrained(target, raised(unravel(x, like)))))(vectors)


@jax.jit
def _finite(states: PyTree[Array]) -> Array:
    """Whether the chains have left the finite numbers, from which none returns."""
    return jax.vmap(all_finite)(states)


@jax.jit
def _finite_rows(positions: Array) -> Array:
    return jnp.all(jnp.isfinite(positions), axis=-1)


def known_gradient(sampler: Sampler, states: PyTree[Array]) -> Any:
    """∇U where the chains are, in the coordinates of their steps; None where the states do not hold it."""
    return states.memory.point.gradient if sampler.holds_potential else None


def _steps_of(shared: Any, by_chain: Any, alone: bool = False) -> tuple[Chain, dict[str, Any]]:
    """The steps of the chains of one device, or of one chain without an axis over chains."""
    sampler, capacity, (first, steps, thin, keeps, learns, tries) = shared
    states, moments, keys, search = by_chain
    over_chains: Any = (lambda function: function) if alone else jax.vmap
    one_state, one_search = (states, search) if alone else jax.tree.map(lambda x: x[0], (states, search))
    like_draws = jax.eval_shape(sampler.draw, keys if alone else keys[0], one_state)

    def draw(state: PyTree[Array], key: Array, number: Count) -> Any:
        return sampler.draw(fold_in_step(key, number, BATCHES), state)

    def noise_of(state: PyTree[Array], key: Array) -> Any:
        """The randomness of all steps, or where each is drawn in the loop what it is drawn from."""
        numbers = first + jnp.arange(capacity, dtype=jnp.uint32)
        return key if alone else jax.vmap(lambda number: pack(draw(state, key, number)))(numbers)

    def draws_at(chain: Chain, noise: PyTree[Array]) -> Any:
        if alone:
            return draw(chain.state, noise, first + chain.taken.astype(jnp.uint32))
        place = jnp.minimum(chain.taken, capacity - 1)
        return unpack(tuple(x[place] for x in noise), like_draws)

    def stepping(chain: Chain) -> TrajectorySampler:
        """The sampler with the step size of the present step."""
        search = chain.search
        if search is None:
            return sampler.at_step(first + chain.taken.astype(jnp.uint32))
        log_step = jnp.where(learns, search.log_step, search.log_average)
        return sampler.with_step_size(jnp.exp(log_step))

    def start(is_over: Array, packed: PyTree[Array], chain: Chain, noise: PyTree[Array]) -> Any:
        """The next trajectory of a chain, where the last one is over."""
        new = pack(stepping(chain).start(draws_at(chain, noise), chain.state))
        return new if alone else choose(is_over, new, packed)

    def move(packed: PyTree[Array], chain: Chain) -> Any:
        return pack(stepping(chain).move(unpack(packed, like_trajectory), chain.state))

    def finish(packed: PyTree[Array], chain: Chain) -> Any:
        return pack(stepping(chain).finish(unpack(packed, like_trajectory), chain.state))

    def some_over(packed: PyTree[Array], chains: Chain) -> Any:
        """Moves of all chains, until the trajectory of one is over."""
        return jax.lax.while_loop(
            lambda packed: ~jnp.any(jax.vmap(is_done)(packed)),
            lambda packed: jax.vmap(move)(packed, chains),
            packed,
        )

    def is_done(packed: PyTree[Array]) -> Array:
        return sampler.is_done(unpack(packed, like_trajectory))

    def end(is_over: Array, packed: PyTree[Array], chain: Chain, out: PyTree[Array]) -> Any:
        """Where a trajectory is over its chain has taken a step."""
        # A chain that has taken all its steps keeps moving while the others finish.
        ended = is_over & (chain.taken < steps)
        new, info = stepping(chain).end(unpack(packed, like_trajectory), chain.state)
        search, taken, rate = chain.search, chain.taken + ended, info.acceptance_rate
        if search is not None and rate is not None:
            updated = search.updated(rate, sampler.target_accept)
            tried = search.tried(rate, *(ravel(sampler.position(x)) for x in (chain.state, new)))
            search = choose(ended & learns, updated, choose(ended & tries, tried, search))
            taken = jnp.where(ended & tries & search.has_crossed, steps, taken)
        state = choose(ended & ~tries, new, chain.state)
        moments = chain.moments
        if moments is not None:
            position = position_of(sampler, state)
            counts = ended & keeps & ((chain.taken + 1) % thin == 0) & all_finite(position)
            moments = choose(counts, moments.add(position), moments)
        row = jnp.minimum(chain.taken // thin, capacity - 1)
        rows = rows_of(Chain(state, search, moments, chain.taken), stats_of(sampler, info))
        # A row is written again until its draw is complete.
        write = jax.lax.dynamic_update_index_in_dim
        out = jax.tree.map(lambda o, x: write(o, jnp.where(ended, x, o[row]), row, 0), out, rows)
        return Chain(state, search, moments, taken), out

    def rows_of(chain: Chain, stats: dict[str, Array]) -> dict[str, Any]:
        """What is recorded of a draw: theta as a vector, and where warm-up learns by it ∇U."""
        x = ravel(sampler.position(chain.state))
        rows = {"position": x, "record": stepping(chain).record(chain.state), "stats": pack(stats)}
        gradient = None if search is None else known_gradient(sampler, chain.state)
        return rows if gradient is None else rows | {"gradient": ravel(gradient)}

    def body(carry: Any) -> Any:
        # A trajectory starts in this place alone: what is drawn does not depend on where blocks begin.
        is_over, trajectories, chains, out = carry
        trajectories = over_chains(start)(is_over, trajectories, chains, noise)
        trajectories = finish(trajectories, chains) if alone else some_over(trajectories, chains)
        is_over = over_chains(is_done)(trajectories)
        return is_over, trajectories, *over_chains(end)(is_over, trajectories, chains, out)

    noise = over_chains(noise_of)(states, keys)
    chains = Chain(states, search, moments, jnp.zeros(keys.shape, jnp.int32))
    one = Chain(one_state, one_search, None, jnp.zeros((), jnp.int32))
    like_trajectory = jax.eval_shape(lambda draws: stepping(one).start(draws, one_state), like_draws)
    like_stats = jax.eval_shape(
        lambda path: stats_of(sampler, stepping(one).end(path, one_state)[1]), like_trajectory
    )
    like_packed = jax.eval_shape(pack, like_trajectory)
    nothing = tuple(jnp.zeros((*keys.shape, *x.shape), x.dtype) for x in like_packed)
    like_rows = jax.eval_shape(lambda stats: rows_of(one, stats), like_stats)
    blank = jax.tree.map(lambda x: jnp.zeros((*keys.shape, capacity, *x.shape), x.dtype), like_rows)
    carry = (jnp.ones(keys.shape, bool), nothing, chains, blank)
    *_, chains, out = jax.lax.while_loop(lambda c: jnp.any(c[2].taken < steps), body, carry)
    record, stats = out.pop("record"), out.pop("stats")
    named = over_chains(jax.vmap(lambda packed: unpack(packed, like_stats)))(stats) if stats else {}
    return chains, {**record, **named, **out}
