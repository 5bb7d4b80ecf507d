"""Readers of arrays: in memory or in a mapped file, in pieces, and in chunks that are decoded as a whole."""

import math
import os
import threading
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree
from numpy.typing import DTypeLike

from fokker.rows.source import Reader, RowsError, is_source, leaves

# Bytes of decoded chunks of a file that are kept, and of one window of a chunked file at least.
CACHE, _WINDOW = 2**28, 2**20


class _MappedFile(NamedTuple):
    """A file that is mapped into memory: its path, its number on the disk, and the bytes that are used."""

    path: Any
    number: int
    size: int

    @classmethod
    def of(cls, mapped: np.memmap) -> "_MappedFile | None":
        """The file of a mapped array, if it has a name."""
        path = getattr(mapped, "filename", None)
        try:
            return None if path is None else cls(path, os.stat(path).st_ino, mapped.offset + mapped.nbytes)
        except OSError:
            return None

    def check(self) -> None:
        """Raise if the file was made shorter: the system ends a process that reads beyond its end."""
        try:
            status = os.stat(self.path)
        except OSError:
            return
        # A file that was replaced or deleted lives on for those who have mapped it.
        if status.st_ino == self.number and status.st_size < self.size:
            raise RowsError(
                f"{self.path} was made shorter while it was in use, from {self.size:,} bytes to "
                f"{status.st_size:,}: write a new file and rename it, and leave this one as it is."
            )


class ArrayReader(Reader):
    """An array of NumPy, in memory or in a mapped file, used as it is."""

    def __init__(self, values: np.ndarray) -> None:
        self.shape, self.dtype, self.values = values.shape, values.dtype, values
        base: Any = values
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        self.is_in_memory = not isinstance(base, np.memmap)
        self._file = None if self.is_in_memory else _MappedFile.of(base)
        self.values = np.asarray(values)  # a plain view: indexing a np.memmap is slower
        self._sorts = not self.is_in_memory and values.nbytes > memory() // 2

    def span(self, first: int, end: int) -> np.ndarray:
        """Rows `first` to `end`."""
        if self._file is not None:
            self._file.check()
        return self.values[first:end]

    def read(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Write rows `numbers` into `out`."""
        if self._file is not None:
            self._file.check()
        if self._sorts:  # in the order of the file, which a disk reads faster
            distinct, back = np.unique(numbers, return_inverse=True)
            np.take(self.values[distinct], back, axis=0, out=out, mode="clip")
        else:
            # "clip" writes to `out` directly; the numbers are in range.
            np.take(self.values, numbers, axis=0, out=out, mode="clip")


class PiecesReader(Reader):
    """An array in pieces, each of which is read as a whole: row groups of Parquet, chunks of a dataset.

    The pieces used last are kept, up to `cache` bytes (256 MiB) but at least two, in one array, so that rows
    of many pieces are taken at once.
    """

    def __init__(
        self, ends: np.ndarray, shape: tuple[int, ...], dtype: DTypeLike, cache: int | None = None
    ) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._ends = np.asarray(ends, np.int64)
        self._starts = np.concatenate([[0], self._ends[:-1]])
        self.window = int((self._ends - self._starts).max())
        bytes_of_piece = self.window * math.prod(shape[1:]) * self.dtype.itemsize
        self._slots = min(
            len(self._ends), max(2, (CACHE if cache is None else cache) // max(1, bytes_of_piece))
        )
        self._kept: np.ndarray | None = None
        # Where each piece is kept, or -1; which piece is in each slot, and when it was last used.
        self._slot_of = np.full(len(self._ends), -1)
        self._piece_in, self._used = np.full(self._slots, -1), np.zeros(self._slots, np.int64)
        self._reads = 0
        self._lock = threading.Lock()

    @abstractmethod
    def piece(self, index: int) -> np.ndarray:
        """The rows of one piece."""

    def span(self, first: int, end: int) -> np.ndarray:
        """Rows `first` to `end`."""
        out = np.empty((end - first, *self.shape[1:]), self.dtype)
        self.read(np.arange(first, end), out)
        return out

    def read(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Write rows `numbers` into `out`."""
        if not len(numbers):
            return
        which = np.searchsorted(self._ends, numbers, side="right")
        pieces = np.flatnonzero(np.bincount(which, minlength=len(self._ends)))
        with self._lock:
            if len(pieces) <= self._slots:
                np.take(self._holding(pieces), self._places(numbers, which), axis=0, out=out, mode="clip")
                return
            for first in range(0, len(pieces), self._slots):
                some = pieces[first : first + self._slots]
                rows = np.flatnonzero((which >= some[0]) & (which <= some[-1]))
                out[rows] = self._holding(some)[self._places(numbers[rows], which[rows])]

    def _places(self, numbers: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Where rows are among those that are kept."""
        return self._slot_of[which] * self.window + (numbers - self._starts[which])

    def _holding(self, pieces: np.ndarray) -> np.ndarray:
        """What is kept, with these pieces among it."""
        if self._kept is None:
            self._kept = np.empty((self._slots * self.window, *self.shape[1:]), self.dtype)
        self._reads += 1
        here = self._slot_of[pieces]
        self._used[here[here >= 0]] = self._reads
        for index in pieces[here < 0]:
            slot = int(np.argmin(self._used))
            if self._piece_in[slot] >= 0:
                self._slot_of[self._piece_in[slot]] = -1
            values = self.piece(int(index))
            self._kept[slot * self.window : slot * self.window + len(values)] = values
            self._slot_of[index], self._piece_in[slot], self._used[slot] = slot, index, self._reads
        return self._kept


class ListReader(Reader):
    """Pieces that are in memory."""

    is_in_memory = True

    def __init__(self, pieces: list[np.ndarray]) -> None:
        self.pieces, self.dtype = pieces, pieces[0].dtype
        self._ends = np.cumsum([len(piece) for piece in pieces])
        self.shape = (int(self._ends[-1]), *pieces[0].shape[1:])

    def span(self, first: int, end: int) -> np.ndarray:
        """Rows `first` to `end`; a view if they are in one piece."""
        starts = self._ends - [len(piece) for piece in self.pieces]
        parts = [
            piece[max(0, first - start) : max(0, end - start)]
            for piece, start in zip(self.pieces, starts.tolist(), strict=True)
        ]
        parts = [part for part in parts if len(part)] or [self.pieces[0][:0]]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def read(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Write rows `numbers` into `out`, one piece after the other."""
        which = np.searchsorted(self._ends, numbers, side="right")
        for index in np.unique(which):
            rows, piece = np.flatnonzero(which == index), self.pieces[index]
            out[rows] = piece[numbers[rows] - (self._ends[index] - len(piece))]


class ChunkedReader(PiecesReader):
    """A dataset of HDF5 or Zarr, or another array with chunks that is read by slices."""

    def __init__(self, array: Any) -> None:
        self.array = array
        chunks = getattr(array, "chunks", None)
        first = chunks[0] if chunks else 1
        rows = int(first[0] if isinstance(first, tuple) else first)  # Dask has a tuple for each axis
        row_bytes = math.prod(array.shape[1:]) * np.dtype(array.dtype).itemsize
        rows *= max(1, -(-_WINDOW // max(1, rows * row_bytes)))
        ends = np.append(np.arange(rows, array.shape[0], rows), array.shape[0])
        super().__init__(ends, tuple(array.shape), array.dtype)

    def piece(self, index: int) -> np.ndarray:
        """The rows of one window."""
        return np.asarray(self.array[int(self._starts[index]) : int(self._ends[index])])


def in_large_pieces(data: PyTree[Any]) -> bool:
    """Whether single rows are slow to read: large compressed files, and those that do not fit into memory."""
    files = [x for x in leaves(data) if is_source(x) and not x.reader.is_in_memory]
    return (
        sum(x.nbytes for x in files if x.reader.window > 1) > CACHE
        or sum(x.nbytes for x in files) > memory() // 2
    )


def memory() -> int:
    """Bytes of the machine's memory; without end where it is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62
