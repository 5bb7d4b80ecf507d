"""Reading ahead: while a block of steps is computed, a thread reads the rows of the next one."""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.count import Count
from fokker.batches import BatchScheme, WindowBatches
from fokker.rows import Problem, aligned, is_source, leaves, stream_of
from fokker.run.block import Read, rows_of_steps

# The most bytes of rows per block, of which up to four are in memory, and the most steps.
_BYTES, _STEPS = 2**26, 2**14


class Piece(NamedTuple):
    """A block of a run: `draws` times `thin` steps from step `first` on, and whether the draws are kept."""

    first: int
    draws: int
    thin: int
    is_kept: bool

    @property
    def steps(self) -> int:
        """How many steps it takes."""
        return self.draws * self.thin

    def cut(self, steps: int) -> "Piece":
        """The same with at most so many steps; a part of a draw is not kept."""
        if steps >= self.steps:
            return self
        draws = steps // self.thin
        return self._replace(draws=draws) if draws else self._replace(draws=1, thin=steps, is_kept=False)


def is_read(data: PyTree[Any], batches: BatchScheme | None) -> bool:
    """Whether batches are rows that have to be read, and not those of arrays on the device."""
    if batches is None or (isinstance(batches, WindowBatches) and batches.data is not None):
        return False
    return any(is_source(leaf) for leaf in leaves(data))


class ReadAhead:
    """Rows of block after block, each read by a thread while the block before it is computed.

    Which rows they are does not depend on this: the batches are those of the same data in memory. `capacity`
    is the most steps of a block; arrays have room for so many, so that one program serves all blocks.
    """

    def __init__(
        self,
        data: PyTree[Any],
        batches: BatchScheme,
        keys: Key[Array, " chains"],
        total: int,
        piece: Callable[[int], tuple[int, int, bool]],
    ) -> None:
        self.batches, self.keys, self.total, self.piece = batches, keys, total, piece
        self.structure = jax.tree.structure(data, is_leaf=is_source)
        self.stream = stream_of(data)
        # What is on the device is taken on the host too, with the rest.
        self.leaves: list[Any] = [leaf if is_source(leaf) else np.asarray(leaf) for leaf in leaves(data)]
        self.rows = (keys.shape[0], batches.batch_size)
        per_step = sum(x.nbytes // len(x) for x in self.leaves) * self.rows[0] * self.rows[1]
        self.capacity = max(1, min(_STEPS, _BYTES // max(1, per_step)))
        self._stream_batches: Iterator[list[np.ndarray]] | None = None
        self._problem: Problem | None = None
        self._next: Future[tuple[Piece, Read]] | None = None
        self._thread = ThreadPoolExecutor(1, "fokker-rows")

    def get(self, first: int) -> tuple[Piece, Read]:
        """The block from step `first` on, and its rows; the next one is read from now on."""
        reading = self._next or self._thread.submit(self._read, first)
        piece, read = reading.result()
        after = piece.first + piece.steps
        self._next = self._thread.submit(self._read, after) if after < self.total else None
        return piece, read

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _read(self, first: int) -> tuple[Piece, Read]:
        if self._problem is not None:
            raise self._problem
        piece = Piece(first, *self.piece(first))
        shape = (self.capacity, *self.rows)
        values = [aligned((*shape, *leaf.shape[1:]), leaf.dtype) for leaf in self.leaves]
        if self.stream is not None:
            piece, rows = piece.cut(self._read_stream(first, piece.steps, values)), None
        else:
            rows = self._read_rows(piece, values)
        on_device = [jax.device_put(x) for x in values]
        return piece, Read(rows, jax.tree.unflatten(self.structure, on_device))

    def _read_rows(self, piece: Piece, values: list[np.ndarray]) -> Any:
        epoch, position = self.batches.place(piece.first)
        place = (Count.of(epoch), jnp.uint32(position))
        rows, numbers = rows_of_steps(self.batches, self.keys, Count.of(piece.first), place, self.capacity)
        wanted = np.asarray(numbers)[: piece.steps]
        for leaf, out in zip(self.leaves, values, strict=True):
            if is_source(leaf):
                leaf.read(wanted, out[: piece.steps])
            else:
                np.take(leaf, wanted, axis=0, out=out[: piece.steps], mode="clip")
        return rows

    def _read_stream(self, first: int, steps: int, values: list[np.ndarray]) -> int:
        """Read the batches of `steps` steps of all chains; how many steps there are batches for."""
        chains = self.rows[0]
        if self._stream_batches is None:
            assert self.stream is not None
            self._stream_batches = self.stream.batches(first * chains)
        for step, chain in itertools.product(range(steps), range(chains)):
            try:
                batch = next(self._stream_batches)
            except Problem as problem:
                self._problem = problem
                if not step:
                    raise
                return step
            for x, out in zip(batch, values, strict=True):
                out[step, chain] = x
        return steps
