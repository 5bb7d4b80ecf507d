"""Chains in lockstep: every chain takes a step before any takes the next, whatever the number of chains."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Int, Key, PyTree

from fokker._core.count import Count
from fokker._core.packing import can_join, join_words, split_words
from fokker._core.parts import sharded
from fokker._core.random import fold_in_step
from fokker._core.state import dimension
from fokker._core.this_chain import CHAIN
from fokker.batches import BatchScheme, WindowBatches
from fokker.rows import Taken
from fokker.run.ahead import ReadAhead, is_read, rows_of_chain
from fokker.run.block import Block, Chains, Choose, Sound, position_of, room_for, stats_of
from fokker.run.mesh import on_every_device
from fokker.run.moments import Moments
from fokker.run.shares import Read
from fokker.run.start import Started
from fokker.run.step_plan import BATCHES, Piece
from fokker.samplers.contract import Sampler, all_finite
from fokker.samplers.schedules import step_size_at

# On a CPU the randomness of this many steps is drawn at once, which is faster than drawing it step by step
# while all of it stays in the cache: for small states.
_AHEAD, _AHEAD_NUMBERS = 128, 2**18
_LEAST_AHEAD = 8
# Steps of an inner loop of fixed length on an accelerator: otherwise it asks the host before each step.
_KNOWN, _KNOWN_ROWS = 64, 2**24
# The most numbers per block, on a CPU and on an accelerator, and the most draws.
_NUMBERS, _ACCELERATOR_NUMBERS, _ROWS = 2**22, 2**24, 2**12
# A step's place in the data is counted in 31 bits within a block.
_PLACES = 2**31


class Task(NamedTuple):
    """The steps of one block: `draws` times `thin` steps, the first of them number `first` of the run.

    `keeps`: whether the moments include these draws, which they do not in burn-in. `batch`: the number of the
    batch of the first step; `place`: epoch and position in it at which that batch starts; `used`: how many
    steps before this block had it too. None of these values is compiled in. `read`: the rows of the data of
    every batch, by batch and chain, if they were read from a file before.
    """

    first: Count
    draws: Int[Array, ""]
    thin: Int[Array, ""]
    keeps: Bool[Array, ""]
    batch: Count
    place: tuple[Count, Array]
    used: Int[Array, ""]
    read: Read | None = None

    @classmethod
    def of(cls, piece: Piece, batches: BatchScheme | None, repeats: int, read: Read | None) -> "Task":
        """The task of a block, in arrays of NumPy: to place each on an accelerator would wait for it."""
        batch, used = divmod(piece.first, repeats)
        epoch, position = (0, 0) if batches is None else batches.place(batch)
        draws, thin, used_steps = (np.asarray(number, np.int32) for number in (piece.draws, piece.thin, used))
        place = (Count.on_host(epoch), np.asarray(position, np.uint32))
        first, number = Count.on_host(piece.first), Count.on_host(batch)
        arrays: Any = (first, draws, thin, np.asarray(piece.is_kept), number, place, used_steps, read)
        return cls(*arrays)


class Program(NamedTuple):
    """What stays the same from block to block."""

    sampler: Sampler
    data: PyTree[Array] | None
    batches: Any
    keys: Key[Array, " chains"]
    rows: int
    form: "Form"
    mesh: Mesh | None = None


def first_chains(states: PyTree[Array], moments: Moments | None, lost: Sequence[int] = ()) -> Chains:
    """Chains before their first step; `lost`: those that were stopped before."""
    number = jax.tree.leaves(states)[0].shape[0]
    return Chains(states, moments, jnp.asarray(~np.isin(np.arange(number), np.asarray(lost, int))), {})


class Form(NamedTuple):
    """How the loop over steps is written.

    `length`: steps of the inner loop. `ahead`: whether the randomness of all of them is drawn before them,
    which on a CPU is faster for small states; on an accelerator, and for large states, it would go through
    memory twice. `known`: whether the inner loop always takes all its steps, the surplus ones without effect.
    `each_step`: whether a draw is written at each of its steps, the last overwriting the others, or once.
    `repeats`: how many steps share a batch.
    """

    length: int
    ahead: bool
    known: bool
    each_step: bool
    repeats: int = 1

    @classmethod
    def of(cls, states: PyTree[Array], thin: int, rows: int, is_cpu: bool) -> "Form":
        """For chains in states of these shapes, `thin` steps per draw, and `rows` rows of data per step."""
        chains = jax.tree.leaves(states)[0].shape[0]
        if not is_cpu:
            fixed_length = max(_LEAST_AHEAD, min(_KNOWN, _KNOWN_ROWS // max(1, chains * rows)))
            if thin < fixed_length // 4:
                return cls(fixed_length, False, True, True)
            return cls(-(-thin // -(-thin // fixed_length)), False, True, False)
        numbers = dimension(jax.eval_shape(lambda states: states.position, states))
        length = min(_AHEAD, _AHEAD_NUMBERS // max(1, numbers, chains * rows))
        ahead = length >= _LEAST_AHEAD
        alone = max(1, min(_AHEAD, _AHEAD_NUMBERS // max(1, chains * rows)))
        return cls(length if ahead else alone, ahead, False, ahead)


class Lockstep:
    """Blocks of chains in lockstep; rows that are not on the device are read while the block before runs."""

    chain_axis = 1

    def __init__(self, started: Started, is_cpu: bool, choose: Choose) -> None:
        plan, sampler, states = started.ready.plan, started.ready.placed, started.states
        self.devices, self.batches, self._choose = plan.devices, plan.batches, choose
        self.rows, self.most = _room(started, is_cpu), plan.steps.chunk
        keys, self._repeats = plan.keys[:, 2], plan.options.batch_repeats
        self._ahead: ReadAhead | None = None
        # WindowBatches has its own copy of the data; what is read comes with each block.
        data, rows = None, 0
        if self.batches is not None:
            self.most = min(self.most, _PLACES // self.batches.batch_size)
            rows = self.batches.batch_size // self.devices.parts
            if is_read(plan.target.data, self.batches):
                total = plan.steps.total
                self._ahead = ReadAhead(
                    plan.target.data, self.batches, self._repeats, keys, total, choose, self.devices
                )
                self.most = min(self.most, self._ahead.capacity)
            elif not isinstance(self.batches, WindowBatches):
                data = plan.target.data
        form = Form.of(self.devices.shapes_of_one(states), plan.steps.thin, rows, is_cpu)
        form = form._replace(repeats=self._repeats)
        shared, batches = self.devices.share(sampler, self.batches)
        by_chain, data = self.devices.by_chain(keys), self.devices.on_all(data)
        self._program = Program(shared, data, batches, by_chain, self.rows, form, self.devices.mesh)

    def send(self, first: int, steps: int, chains: Chains) -> tuple[Chains, Block]:
        """Start the block from step `first` on, of about `steps` steps; it is not waited for."""
        if self._ahead is None:
            piece, read = self._choose(first, steps), None
        else:
            # What all processes agreed on, or what is found best when the reading begins.
            piece, read = self._ahead.get(first, steps if self.devices.is_shared else None)
        task = self.devices.on_all(Task.of(piece, self.batches, self._repeats, read))
        chains, sound, out = run_block((self._program, task), chains)
        return chains, Block(piece, *self.devices.gathered((sound, out)))

    def close(self) -> None:
        """End the thread that reads ahead."""
        if self._ahead is not None:
            self._ahead.close()


def _room(started: Started, is_cpu: bool) -> int:
    """The most draws per block: a power of eight, so that runs of similar length share a program."""
    steps, sampler = started.ready.plan.steps, started.ready.placed
    if steps.keep == "moments":
        return _ROWS
    numbers = dimension(jax.eval_shape(jax.vmap(lambda state: position_of(sampler, state)), started.states))
    room = (_NUMBERS if is_cpu else _ACCELERATOR_NUMBERS) // max(1, numbers)
    return min(_ROWS, max(1, room), room_for(steps.draws))


# Compiled once for a sampler, whatever its step size, data and number of steps. The memory of the chains is
# reused for their next states.
@eqx.filter_jit(donate="all-except-first")
def run_block(inputs: tuple[Program, Task], chains: Chains) -> tuple[Chains, Sound, dict[str, Any]]:
    """All the steps of a task; what was recorded has leading axes draw, of `rows` rows, and chain."""
    program, task = inputs
    if program.mesh is None:
        return _all_steps((program, task), (program.keys, chains))
    shared = (program._replace(keys=None, mesh=None), task)  # type: ignore[arg-type]
    return on_every_device(program.mesh, _all_steps, shared, (program.keys, chains), (0, 0, 1))


def _all_steps(
    shared: tuple[Program, Task], by_chain: tuple[Key[Array, " chains"], Chains]
) -> tuple[Chains, Sound, dict[str, Any]]:
    """The steps of the chains of one device."""
    program, task = shared
    keys, chains = by_chain
    sampler, batches, form = program.sampler, program.batches, program.form

    # These are traced once: for what a step reports, whose shapes have to be known first, and for the loop.
    @functools.partial(jax.jit, inline=True)
    def keys_and_rows(first: Array) -> Any:
        """Each step's key and the rows of its batch in one inner loop, by step and chain."""
        offsets = first.astype(jnp.uint32) + jnp.arange(form.length, dtype=jnp.uint32)
        numbers = task.first + offsets

        def of_chain(key: Array) -> Any:
            step_keys = jax.vmap(lambda n: fold_in_step(key, n, BATCHES))(numbers)
            if batches is None or task.read is not None or form.repeats > 1:
                return step_keys, None
            return step_keys, rows_of_chain(batches, numbers, task.place, offsets, key)

        return jax.vmap(of_chain, out_axes=1)(keys)

    @functools.partial(jax.jit, inline=True)
    def noise_of(step_keys: Array) -> Any:
        """The noise of one step of all chains."""
        return sharded(jax.vmap(sampler.draw)(step_keys, chains.states), 1)

    def batch_of_chain(rows: Any, values: PyTree[Array] | None) -> Any:
        return batches.batch(program.data if values is None else Taken(values), rows)

    def read_batch(t: Array) -> Any:
        """What was read for the batch of step `t` of the block."""
        return jax.tree.map(lambda x: x[(task.used + t) // form.repeats], task.read)

    def shared_batch(t: Array) -> Any:
        """The batch that step `t` of the block shares with others, of all chains."""
        if task.read is not None:
            return jax.vmap(lambda read: jax.tree.map(jnp.asarray, batch_of_chain(*read)))(read_batch(t))

        def of_chain(key: Array) -> Any:
            offset = ((task.used + t) // form.repeats).astype(jnp.uint32)[None]
            rows = rows_of_chain(batches, task.batch + offset, task.place, offset, key)
            return jax.tree.map(jnp.asarray, batch_of_chain(jax.tree.map(lambda x: x[0], rows), None))

        return jax.vmap(of_chain)(keys)

    @functools.partial(jax.jit, inline=True)
    def moved(t: Array, noise: PyTree[Array], row: Any, held: Any, states: PyTree[Array]) -> Any:
        number = task.first + t.astype(jnp.uint32)
        values = None
        if task.read is not None and held is None:
            row, values = read_batch(t)

        def one(state: PyTree[Array], inputs: PyTree[Array]) -> Any:
            (noise, *rows), batch = inputs
            if batches is not None and batch is None:
                batch = batch_of_chain(*rows)
            state, info = sampler.advance(noise, state, batch, number)
            sound = True if info.noise_shortfall is None else info.noise_shortfall >= 0
            return state, jnp.asarray(sound), stats_of(sampler, info)

        states, sound, stats = jax.vmap(one, axis_name=CHAIN)(states, ((noise, row, values), held))
        states = sharded(states, 1)
        size = sampler.own_step_size
        if callable(size):
            sound &= jnp.all(step_size_at(size, number) >= 0)
        return states, sound, stats

    def step(t: Array, noise: PyTree[Array], row: Any, held: Any, chains: Chains) -> Chains:
        states, sound, stats = moved(t, noise, row, held, chains.states)
        return Chains(states, chains.moments, chains.sound & sound, stats)

    def observe(chains: Chains) -> dict[str, Any]:
        values = {**jax.vmap(sampler.record)(chains.states), **chains.stats, "sound": chains.sound}
        if chains.moments is None:
            values["position"] = jax.vmap(lambda state: position_of(sampler, state))(chains.states)
        return values

    def record(row: Array, is_draw: Array | bool, carry: tuple[Chains, Any]) -> tuple[Chains, Any]:
        chains, out = carry
        values = observe(chains)
        if chains.moments is not None:

            def add(moments: Moments, state: PyTree[Array], sound: Array) -> Moments:
                position = position_of(sampler, state)
                counts = sound & all_finite(position) & task.keeps & is_draw
                added = moments.add(position)
                return jax.tree.map(lambda new, old: jnp.where(counts, new, old), added, moments)

            moments = jax.vmap(add)(chains.moments, chains.states, chains.sound)
            chains = chains._replace(moments=sharded(moments, 1))
        write = jax.lax.dynamic_update_index_in_dim
        recorded = join_words(values, 1) if is_joined else values
        return chains, sharded(jax.tree.map(lambda rows, x: write(rows, x, row, 0), out, recorded), 2)

    def some_steps(first: Array, end: Array, carry: tuple[Chains, Any]) -> tuple[Chains, Any]:
        """Steps from `first` up to `end` of the block, at most `length` of them."""
        step_keys, rows = jax.lax.optimization_barrier(keys_and_rows(first))
        noise = jax.vmap(noise_of)(step_keys) if form.ahead else None

        def one_step(t: Array, carry: tuple[Chains, Any], held: Any = None) -> tuple[Chains, Any]:
            before, out = carry
            key, row, drawn = jax.tree.map(lambda x: x[t - first], (step_keys, rows, noise))
            chains = step(t, noise_of(key) if noise is None else drawn, row, held, before)
            active = t < end
            if form.known:
                chains = jax.tree.map(lambda new, old: jnp.where(active, new, old), chains, before)
            if not form.each_step:
                return chains, out
            is_draw = active & ((t + 1) % task.thin == 0)
            return record(jnp.minimum(t, end - 1) // task.thin, is_draw, (chains, out))

        count = form.length if form.known else jnp.minimum(form.length, end - first)
        if not shares_batches:
            return jax.lax.fori_loop(0, count, lambda k, carry: one_step(first + k, carry), carry)

        def sharing(k: Array, carries: tuple[Any, Any]) -> tuple[Any, Any]:
            held, carry = carries
            t = first + k
            is_next = (k > 0) & ((task.used + t) % form.repeats == 0)
            held = jax.lax.cond(is_next, lambda: shared_batch(t), lambda: held)
            return held, one_step(t, carry, held)

        return jax.lax.fori_loop(0, count, sharing, (shared_batch(first), carry))[1]

    def many_steps(first: Array, end: Array, carry: tuple[Chains, Any]) -> tuple[Chains, Any]:
        parts = -((first - end) // form.length)
        return jax.lax.fori_loop(
            0, parts, lambda k, carry: some_steps(first + k * form.length, end, carry), carry
        )

    def one_draw(row: Array, carry: tuple[Chains, Any]) -> tuple[Chains, Any]:
        carry = many_steps(row * task.thin, (row + 1) * task.thin, carry)
        # What is not kept is not computed: the position of a large state may take longer than many steps.
        return jax.lax.cond(task.keeps, lambda carry: record(row, True, carry), lambda carry: carry, carry)

    def first_stats() -> dict[str, Array]:
        start = jnp.zeros((), jnp.int32)
        key, row = jax.tree.map(lambda x: x[0], keys_and_rows(start))
        held = shared_batch(start) if shares_batches else None
        return moved(start, noise_of(key), row, held, chains.states)[2]

    shares_batches = batches is not None and form.repeats > 1
    stats = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(first_stats))
    chains = chains._replace(stats=stats)
    observed = shapes = jax.eval_shape(observe, chains)
    # On an accelerator each array that is written costs a kernel per step.
    is_joined = form.known and form.each_step and can_join(observed)
    if is_joined:
        shapes = jax.eval_shape(lambda: join_words(observe(chains), 1))
    blank = sharded(jax.tree.map(lambda x: jnp.zeros((program.rows, *x.shape), x.dtype), shapes), 2)
    carry = (chains, blank)
    if form.each_step:
        chains, out = many_steps(jnp.zeros((), jnp.int32), task.draws * task.thin, carry)
    else:
        chains, out = jax.lax.fori_loop(0, task.draws, one_draw, carry)
    if is_joined:
        out = split_words(
            out, jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), observed), 2
        )
    # A chain that left the finite numbers does not return: one check after all steps is enough.
    finite = jax.vmap(all_finite)(chains.states)
    if "position" in out:
        out["sound"] &= jax.vmap(jax.vmap(all_finite))(out["position"])
    return sharded(chains._replace(stats={}), 1), (finite, chains.sound), out
