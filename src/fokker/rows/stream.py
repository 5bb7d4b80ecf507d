"""Streams of batches: a loader, a generator, or a function that returns one."""

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from fokker.rows.source import Reader, RowsError, Source, in_a_sentence, is_source, leaves, refuse_stream
from fokker.rows.values import check_values, stored_dtype

_END = object()


class StreamBatch(NamedTuple):
    """The leaves of a batch in the types of the first one, and its number, from 1 on, for messages.

    Its values are yet to be checked: many batches are checked together.
    """

    number: int
    leaves: list[np.ndarray]


class Stream:
    """Batches of one length, one after the other.

    A source that can be iterated again, or a function that returns an iterator, starts again when it ends. A
    generator ends the stream. Rows of the first batch are kept, to check a model with.
    """

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]], size: int) -> None:
        self.size, self._source, self._lock = size, source, threading.Lock()
        self._has_warned = False
        self.repeats = callable(source) or iter(source) is not source
        self._once = None if self.repeats else iter(source)  # type: ignore[arg-type]
        first = next(self._iterator(), None)
        if first is None:
            raise ValueError("data is a stream without any batch.")
        self.first = self._as_arrays(first)
        # Of a generator, which cannot be asked for it again.
        self._waiting = None if self.repeats else self.first
        self._returned: deque[StreamBatch] = deque()
        # Batches that were used, and those that were taken from a generator, with the ones left out.
        self.used, self._given = 0, 0
        self.structure: Any = jax.tree.structure(self.first)
        named = jax.tree_util.tree_leaves_with_path(self.first)
        self._names = [f"data{jax.tree_util.keystr(path)}" for path, _ in named]
        self.shapes, self.dtypes = [x.shape for _, x in named], [x.dtype for _, x in named]
        lengths = {shape[0] if shape else None for shape in self.shapes}
        if len(lengths) != 1 or None in lengths or not next(iter(lengths)):
            raise ValueError(
                f"the leaves of the first batch of data have the shapes {self.shapes}: each needs a first "
                "axis over the rows of the batch, of one length. Give an iterable of batches, not of rows."
            )
        self.batch_size = self.shapes[0][0]
        if self.batch_size > size:
            raise ValueError(
                f"size={size} is less than the {self.batch_size} rows of a batch: give the number of "
                "all data."
            )

    def data(self) -> PyTree[Source]:
        """A tree of sources, one for each leaf of a batch."""
        firsts = jax.tree.leaves(self.first)
        sources = [Source(_StreamReader(self, x), name) for name, x in zip(self._names, firsts, strict=True)]
        return jax.tree.unflatten(self.structure, sources)

    def _iterator(self) -> Iterator[Any]:
        if self._once is not None:
            return self._once
        return iter(self._source() if callable(self._source) else self._source)

    def batches(self, skip: int) -> Iterator[StreamBatch]:
        """Batch after batch, without the first `skip`; `check` has to follow.

        What a generator has already given is counted among these. Raises `RowsError` if there is none.
        """
        if self._once is None:
            yield from self._again(skip)
            return
        with self._lock:
            while self.used < skip:
                self._next_of_generator()
        while True:
            with self._lock:
                batch = self._next_of_generator()
            yield batch

    def give_back(self, batches: list[StreamBatch], discarded: int = 0) -> None:
        """Take back the last batches of `batches`, in their order, which were read but not used.

        `discarded`: further ones that cannot be used. A generator cannot be asked for them again; what can be
        iterated again skips the batches that were used.
        """
        if self._once is not None:
            with self._lock:
                self._returned.extendleft(reversed(batches))
                self.used -= len(batches) + discarded

    def _next_of_generator(self) -> StreamBatch:
        assert self._once is not None
        if self._returned:
            self.used += 1
            return self._returned.popleft()
        while True:
            waiting, self._waiting = self._waiting, None
            if waiting is None:
                waiting = next(_guarded(self._once, self._given), _END)
                if waiting is _END:
                    raise RowsError(f"the stream of data ended after {self.used:,} batches")
            self._given += 1
            leaves = self._arranged(waiting, self._given)
            if leaves is not None:
                self.used += 1
                return StreamBatch(self._given, leaves)

    def _again(self, skip: int) -> Iterator[StreamBatch]:
        while True:
            is_empty = True
            try:
                iterator = self._iterator()
            except Exception as error:
                raise RowsError(
                    f"the stream of data could not start again: {in_a_sentence(error)}"
                ) from error
            for number, batch in enumerate(_guarded(iterator), 1):
                leaves = self._arranged(batch, number)
                if leaves is None:
                    continue
                is_empty = False
                if skip:
                    skip -= 1
                else:
                    yield StreamBatch(number, leaves)
            if is_empty:
                raise RowsError("the stream of data started again and had no batch")

    def _as_arrays(self, batch: PyTree[Any]) -> PyTree[np.ndarray]:
        return jax.tree.map(_as_numpy, batch)

    def _arranged(self, batch: PyTree[Any], number: int) -> list[np.ndarray] | None:
        """The leaves of a batch in the types of the first; None for one that is shorter than the first."""
        try:
            batch_leaves, structure = jax.tree.flatten(batch)
            arrays = [_as_numpy(x) for x in batch_leaves]
        except Exception as error:
            raise RowsError(
                f"batch {number:,} of the stream cannot be used: {in_a_sentence(error)}"
            ) from error
        shapes, dtypes = [x.shape for x in arrays], [x.dtype for x in arrays]
        if shapes == self.shapes and dtypes == self.dtypes and structure == self.structure:
            return arrays
        if structure == self.structure and shapes != self.shapes and self._is_shorter(shapes):
            if not self._has_warned:
                self._has_warned = True
                warnings.warn(
                    f"a batch of {shapes[0][0]} rows was left out, since the first has {self.batch_size}: "
                    "make all batches of one length, for example by drop_last=True.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return None
        if structure != self.structure:
            names, first_names = (_names(tree) for tree in (batch, self.first))
            raise RowsError(
                f"batch {number:,} of the stream has the leaves {names}, but the first has {first_names}: "
                "all batches need the same leaves"
            )
        if shapes != self.shapes:
            raise RowsError(
                f"batch {number:,} of the stream has the shapes {shapes}, but the first has {self.shapes}: "
                "all batches need the same leaves and the same length"
            )
        self.check(StreamBatch(number, arrays))
        return [
            _cast(self._called(number, name), x, first)
            for name, x, first in zip(self._names, arrays, self.dtypes, strict=True)
        ]

    def check(self, batch: StreamBatch) -> None:
        """Raise a `RowsError` for values of a batch that cannot be used."""
        for name, x in zip(self._names, batch.leaves, strict=True):
            try:
                check_values(self._called(batch.number, name), x)
            except ValueError as error:
                raise RowsError(str(error).rstrip(".")) from None

    def _called(self, number: int, name: str) -> str:
        return f"batch {number:,} of the stream, {name},"

    def _is_shorter(self, shapes: list[tuple[int, ...]]) -> bool:
        lengths = {shape[0] if shape else 0 for shape in shapes}
        tails = [shape[1:] for shape in shapes] == [shape[1:] for shape in self.shapes]
        return tails and len(lengths) == 1 and lengths.pop() < self.batch_size


def _guarded(batches: Iterator[Any], before: int = 0) -> Iterator[Any]:
    """The batches; an error of the user's own loader is a `RowsError`, so that the draws so far are kept."""
    number = before
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except Exception as error:
            raise RowsError(
                f"the stream of data failed after {number:,} batches: {in_a_sentence(error)}"
            ) from error
        number += 1
        yield batch


def _names(tree: PyTree[Any]) -> str:
    return ", ".join(
        f"data{jax.tree_util.keystr(path)}" for path, _ in jax.tree_util.tree_leaves_with_path(tree)
    )


def _cast(name: str, values: np.ndarray, first: np.dtype) -> np.ndarray:
    """Values in the type of the first batch, for which the program is compiled; raise if they would change.

    What JAX rounds in any case, as 64 bits to 32, is no change.
    """
    own, stored = values.dtype, stored_dtype(first)
    values = values.astype(stored_dtype(own), copy=False)
    if np.can_cast(values.dtype, stored, "safe"):
        return values.astype(stored, copy=False)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of complex numbers that become real
        cast = values.astype(stored)
        # Both ways: -1 becomes a large number without a sign, and comes back as -1.
        is_same = (cast == values) & (cast.astype(values.dtype) == values)
    if not is_same.all():
        example = values[tuple(np.argwhere(~is_same)[0])]
        raise RowsError(
            f"{name} has values of the type {own}, but those of the first batch are {first}, which cannot "
            f"store {example}: convert all batches to one type, for example by .astype(np.float32)"
        )
    return cast


def _as_numpy(leaf: Any) -> np.ndarray:
    if type(leaf) is np.ndarray and leaf.dtype.kind in "biufc":
        return leaf
    if hasattr(leaf, "detach"):  # a tensor of PyTorch, which is not imported for this
        leaf = leaf.detach().cpu().numpy()
    values = np.asarray(leaf)
    if values.dtype.kind not in "biufc":
        raise TypeError(
            f"a batch holds values of the type {values.dtype}: give batches of numbers, as a "
            "dictionary or tuple of arrays."
        )
    return values


class _StreamReader(Reader):
    """One leaf of a stream: it has the rows of the first batch alone, to check a model with."""

    is_stream = True

    def __init__(self, stream: Stream, first: np.ndarray) -> None:
        self.shape, self.dtype = (stream.size, *first.shape[1:]), first.dtype
        self._stream, self._first = stream, first

    def stream(self) -> Stream:
        """The stream."""
        return self._stream

    def span(self, first: int, end: int) -> np.ndarray:
        """Rows of the first batch."""
        self._check(end)
        return self._first[first:end]

    def read(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Write rows of the first batch into `out`."""
        self._check(int(numbers.max()) + 1)
        out[...] = self._first[numbers]

    def _check(self, end: int) -> None:
        if end > len(self._first):
            refuse_stream(self._stream.data())


def stream_of(data: PyTree[Any]) -> Stream | None:
    """The stream that data come from, or None."""
    data_leaves = leaves(data)
    is_one = bool(data_leaves) and is_source(data_leaves[0]) and data_leaves[0].form.is_stream
    return data_leaves[0].reader.stream() if is_one else None
