"""Reading ahead: while a block of steps is computed, a thread reads the rows of the next one."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from fokker._core.count import Count
from fokker._core.precision import in_this_precision
from fokker._core.random import fold_in
from fokker.batches import BatchScheme, WindowBatches
from fokker.rows import RowsError, StreamBatch, aligned, is_source, leaves, stream_of
from fokker.run.block import Choose
from fokker.run.mesh import Devices
from fokker.run.shares import Read
from fokker.run.step_plan import BATCHES, Piece

# The most bytes of rows per block, of which up to four are in memory, and the most steps.
_BYTES, _STEPS = 2**26, 2**14


class _Reading(NamedTuple):
    """A block that was read; of a stream also the numbers of its batches, in the stream's order."""

    piece: Piece
    read: Read
    values: list[np.ndarray]
    numbers: list[int]


def is_read(data: PyTree[Any], batches: BatchScheme | None) -> bool:
    """Whether batches are rows that have to be read, and not those of arrays on the device."""
    if batches is None or (isinstance(batches, WindowBatches) and batches.data is not None):
        return False
    return any(is_source(leaf) for leaf in leaves(data))


@eqx.filter_jit
def rows_of_steps(
    batches: Any, keys: Key[Array, " chains"], first: Count, place: tuple[Count, Array], length: int
) -> tuple[Any, Int[Array, "steps chains n"]]:
    """What `batches.rows` says for each of `length` steps of all chains, and the numbers of the rows."""
    offsets = jnp.arange(length, dtype=jnp.uint32)
    rows = jax.vmap(partial(rows_of_chain, batches, first + offsets, place, offsets), out_axes=1)(keys)
    return rows, jax.vmap(jax.vmap(batches.numbers))(rows)


def rows_of_chain(
    batches: Any, numbers: Count, place: tuple[Count, Array], offsets: Array, key: Key[Array, ""]
) -> Any:
    """What `batches.rows` says for the steps of one chain with these numbers, `offsets` after `place`."""
    batch_key = fold_in(key, BATCHES)
    places = batches.places_after(place, offsets)
    rows = jax.vmap(lambda n, e, p: batches.rows(batch_key, fold_in(batch_key, n), e, p))
    return rows(numbers, *places)


class ReadAhead:
    """Rows of block after block, each read by a thread while the block before it is computed.

    Which rows they are does not depend on this: the batches are those of the same data in memory. `capacity`
    is the most steps of a block; arrays have room for all their batches, of which each is used by `repeats`
    steps, so that one program serves all blocks.
    """

    def __init__(
        self,
        data: PyTree[Any],
        batches: BatchScheme,
        repeats: int,
        keys: Key[Array, " chains"],
        total: int,
        choose: Choose,
        devices: Devices,
    ) -> None:
        self.batches, self.keys, self.total, self.choose = batches, keys, total, choose
        self.devices, self.repeats = devices, repeats
        self.structure = jax.tree.structure(data, is_leaf=is_source)
        self.stream = stream_of(data)
        # What is on the device is taken on the host too, with the rest.
        self.leaves: list[Any] = [leaf if is_source(leaf) else np.asarray(leaf) for leaf in leaves(data)]
        self.rows = (keys.shape[0], batches.batch_size)
        per_step = sum(x.nbytes // len(x) for x in self.leaves) * self.rows[0] * self.rows[1]
        self._room = max(min(2, repeats), min(_STEPS, _BYTES // max(1, per_step)))
        # Wherever in its batch a block begins.
        self.capacity = (self._room - 1) * repeats + 1
        self._stream_batches: Iterator[StreamBatch] | None = None
        self._problem: RowsError | None = None
        self._next: Future[_Reading] | None = None
        self._thread = ThreadPoolExecutor(1, "fokker-rows")
        self._reading = in_this_precision(self._read)

    def get(self, first: int, steps: int | None) -> tuple[Piece, Read]:
        """The block from step `first` on, and its rows; the next, of `steps` steps, is read from now on."""
        reading = self._next or self._thread.submit(self._reading, first, steps)
        piece, read, *_ = reading.result()
        goes_on = piece.end < self.total
        self._next = self._thread.submit(self._reading, piece.end, steps) if goes_on else None
        return piece, read

    def close(self) -> None:
        """End the thread. Batches of a stream that were read for a block not sent go back to the stream."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._next is None or self._next.cancelled() or self._next.exception() is not None:
            return
        piece, _, values, numbers = self._next.result()
        first, whole = piece.first // self.repeats, piece.end // self.repeats
        self._give_back(first, values, numbers, range((whole - first) * self.rows[0]))

    def _chain_of(self, batch: int, place: int) -> int:
        """The chain that takes the one at this place among the batches of a step, all with one number.

        It changes from batch to batch as if at random: of a stream that repeats itself a chain would
        otherwise see the same share of the data again and again.
        """
        mixed = hashlib.blake2b(batch.to_bytes(8, "little"), digest_size=4).digest()
        return (place + int.from_bytes(mixed, "little")) % self.rows[0]

    def _batch(self, first: int, values: list[np.ndarray], numbers: list[int], i: int) -> StreamBatch:
        """Batch `i` of a block, in the stream's order; `first`: the number of its first one."""
        t, place = divmod(i, self.rows[0])
        chain = self._chain_of(first + t, place)
        return StreamBatch(numbers[i], [x[t, chain] for x in values])

    def _give_back(
        self,
        first: int,
        values: list[np.ndarray],
        numbers: list[int],
        which: Iterable[int],
        discarded: int = 0,
    ) -> None:
        """Return these batches of a block to the stream; `discarded`: how many others nobody can use."""
        if self.stream is not None:
            batches = [self._batch(first, values, numbers, i) for i in which]
            self.stream.give_back(batches, discarded)
            if self.stream.repeats and self._stream_batches is not None:
                self._stream_batches = itertools.chain(batches, self._stream_batches)

    def _read(self, first: int, steps: int | None) -> _Reading:
        if self._problem is not None:
            raise self._problem
        piece = self.choose(first, steps)
        chains, rows_of_batch = self.devices.box(*self.rows)
        shape = (self._room, chains.stop - chains.start, rows_of_batch.stop - rows_of_batch.start)
        values = [aligned((*shape, *leaf.shape[1:]), leaf.dtype) for leaf in self.leaves]
        rows: Any = None
        numbers: list[int] = []
        if self.stream is not None:
            batch = first // self.repeats
            numbers, whole = self._read_stream(batch, self._number_of(piece), values)
            piece = piece.cut((batch + whole) * self.repeats - first)
            # Where the stream ended within a draw, the whole draws alone are steps of this block. The next
            # one begins with the last batch of this, where steps of it are left.
            unused = range((piece.end // self.repeats - batch) * self.rows[0], whole * self.rows[0])
            self._give_back(batch, values, numbers, unused)
        else:
            rows = self._read_rows(piece, values)
        read = self.devices.read(rows, jax.tree.unflatten(self.structure, values), *self.rows)
        return _Reading(piece, read, values, numbers)

    def _number_of(self, piece: Piece) -> int:
        """How many batches the steps of a block use."""
        return -(-piece.end // self.repeats) - piece.first // self.repeats

    def _read_rows(self, piece: Piece, values: list[np.ndarray]) -> Any:
        first, number = piece.first // self.repeats, self._number_of(piece)
        epoch, position = self.batches.place(first)
        place = (Count.of(epoch), jnp.uint32(position))
        rows, numbers = rows_of_steps(self.batches, self.keys, Count.of(first), place, self._room)
        # Of a mesh of many processes this one reads its own chains and rows alone.
        wanted = np.asarray(numbers)[:number, *self.devices.box(*self.rows)]
        for leaf, out in zip(self.leaves, values, strict=True):
            if is_source(leaf):
                leaf.read(wanted, out[:number])
            else:
                np.take(leaf, wanted, axis=0, out=out[:number], mode="clip")
        return rows

    def _read_stream(self, first: int, number: int, values: list[np.ndarray]) -> tuple[list[int], int]:
        """Read `number` batches, from that of the number `first` on, for all chains: their numbers in the
        stream, and how many could be read.

        Per batch no more is done than to copy it: the values of all are checked together.
        """
        assert self.stream is not None
        chains = self.rows[0]
        if self._stream_batches is None:
            self._stream_batches = self.stream.batches(first * chains)
        # In the types of the stream, as wide ones are checked before they are rounded.
        read = [
            out if out.dtype == dtype else np.empty((number, *out.shape[1:]), dtype)
            for out, dtype in zip(values, self.stream.dtypes, strict=True)
        ]
        numbers: list[int] = []
        try:
            for i in range(number):
                chain = self._chain_of(first + i, 0)
                for _ in range(chains):
                    name, batch = next(self._stream_batches)
                    for x, out in zip(batch, read, strict=True):
                        out[i, chain] = x
                    numbers.append(name)
                    chain = (chain + 1) % chains
        except RowsError as problem:
            self._problem = problem
        whole = len(numbers) // chains
        bad = self._first_bad(first, read, numbers, whole)
        with np.errstate(all="ignore"):  # of what is not filled
            for x, out in zip(read, values, strict=True):
                if x is not out:
                    out[:number] = x
        # A step needs a batch for each chain.
        whole = whole if bad is None else bad // chains
        unused = [i for i in range(whole * chains, len(numbers)) if i != bad]
        self._give_back(first, values, numbers, unused, discarded=bad is not None)
        if not whole:
            assert self._problem is not None
            raise self._problem
        return numbers, whole

    def _first_bad(self, first: int, read: list[np.ndarray], numbers: list[int], whole: int) -> int | None:
        """The first of these batches with a value that cannot be used, which is noted as the problem."""
        assert self.stream is not None
        try:
            self.stream.check(StreamBatch(0, [x[:whole] for x in read]))
        except RowsError:
            for i in range(whole * self.rows[0]):
                try:
                    self.stream.check(self._batch(first, read, numbers, i))
                except RowsError as problem:
                    self._problem = problem
                    return i
        return None
