"""Readers of arrays: in memory or in a mapped file, in pieces, and in chunks that are decoded as a whole."""

import math
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from fokker.rows.source import Reader

# Bytes of decoded chunks that are kept, and of one window of a chunked file at least.
CACHE, _WINDOW = 2**28, 2**20


class ArrayReader(Reader):
    """An array of NumPy, in memory or in a mapped file, used as it is."""

    def __init__(self, values: np.ndarray) -> None:
        self.shape, self.dtype, self.values = values.shape, values.dtype, values
        base: Any = values
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        self.is_in_memory = not isinstance(base, np.memmap)
        self.values = np.asarray(values)  # a plain view: indexing a np.memmap is slower
        self._sorts = not self.is_in_memory and values.nbytes > memory() // 2

    def span(self, first: int, end: int) -> np.ndarray:
        """Rows `first` to `end`."""
        return self.values[first:end]

    def read(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Write rows `numbers` into `out`."""
        if self._sorts:  # in the order of the file, which a disk reads faster
            distinct, back = np.unique(numbers, return_inverse=True)
            np.take(self.values[distinct], back, axis=0, out=out, mode="clip")
        else:
            # "clip" writes to `out` directly; the numbers are in range.
            np.take(self.values, numbers, axis=0, out=out, mode="clip")


class PiecesReader(Reader):
    """An array in pieces, each of which is read as a whole: row groups of Parquet, chunks of a dataset.

    The pieces read last are kept, up to 256 MiB.
    """

    def __init__(self, ends: np.ndarray, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._ends = np.asarray(ends, np.int64)
        self._starts = np.concatenate([[0], self._ends[:-1]])
        self.window = int((self._ends - self._starts).max())
        self._kept: OrderedDict[int, np.ndarray] = OrderedDict()
        bytes_of_piece = self.window * math.prod(shape[1:]) * self.dtype.itemsize
        self._most = max(2, CACHE // max(1, bytes_of_piece))
        self._lock = threading.Lock()

    def piece(self, index: int) -> np.ndarray:
        """The rows of one piece."""
        raise NotImplementedError

    def _piece(self, index: int) -> np.ndarray:
        with self._lock:
            if index in self._kept:
                self._kept.move_to_end(index)
                return self._kept[index]
        values = self.piece(index)
        with self._lock:
            self._kept[index] = values
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return values

    def span(self, first: int, end: int) -> np.ndarray:
        """Rows `first` to `end`."""
        out = np.empty((end - first, *self.shape[1:]), self.dtype)
        self.read(np.arange(first, end), out)
        return out

    def read(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Write rows `numbers` into `out`, one piece after the other."""
        if not len(numbers):
            return
        which = np.searchsorted(self._ends, numbers, side="right")
        order = np.argsort(which, kind="stable")
        pieces, firsts = np.unique(which[order], return_index=True)
        for index, places in zip(pieces, np.split(order, firsts[1:]), strict=True):
            out[places] = self._piece(int(index))[numbers[places] - self._starts[index]]


class ListReader(PiecesReader):
    """Pieces that are in memory."""

    is_in_memory = True

    def __init__(self, pieces: list[np.ndarray]) -> None:
        lengths = [len(piece) for piece in pieces]
        shape = (sum(lengths), *pieces[0].shape[1:])
        super().__init__(np.cumsum(lengths), shape, pieces[0].dtype)
        self.pieces, self.window = pieces, 1

    def _piece(self, index: int) -> np.ndarray:
        return self.pieces[index]


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


def memory() -> int:
    """Bytes of the machine's memory; without end where it is not known."""
    import os

    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**62
