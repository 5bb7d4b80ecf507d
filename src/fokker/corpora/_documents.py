"""Documents as word counts, in compressed rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

MAX_INT32 = np.iinfo(np.int32).max


class Documents(NamedTuple):
    """Documents as word counts, in compressed rows.

    Document i has the words `words[indptr[i]:indptr[i + 1]]`, with their numbers in `counts`.

    `indptr`: int64, one longer than the number of documents. `words`: int32, ascending and unique within a
    document. `counts`: int32, positive. `names`: one per document. `places`: where each document is in its
    source, counted from 0 with those that are left out (int64); None if they come from no source.
    """

    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    names: tuple[str, ...]
    places: np.ndarray | None = None

    @property
    def size(self) -> int:
        """The number of documents (`len` is that of the tuple, 5)."""
        return len(self.indptr) - 1

    @property
    def tokens(self) -> int:
        """The number of words, repeats included."""
        return int(self.counts.sum(dtype=np.int64))

    @property
    def lengths(self) -> np.ndarray:
        """The number of words of each document, repeats included."""
        totals = np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])
        return totals[self.indptr[1:]] - totals[self.indptr[:-1]]

    def row(self, i: int) -> tuple[str, np.ndarray, np.ndarray]:
        """Name, words and counts of one document."""
        start, stop = self.indptr[i], self.indptr[i + 1]
        return self.names[i], self.words[start:stop], self.counts[start:stop]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, without the names of the documents."""
        return {"indptr": self.indptr, "words": self.words, "counts": self.counts}

    def select(self, indices: Any) -> "Documents":
        """The documents at these indices: integers, a slice, or one boolean per document."""
        indices_in_order = np.arange(self.size)[indices]
        widths = np.diff(self.indptr)[indices_in_order]
        indptr = offsets(widths)
        positions = np.arange(indptr[-1]) + np.repeat(self.indptr[indices_in_order] - indptr[:-1], widths)
        return Documents(
            indptr,
            self.words[positions],
            self.counts[positions],
            tuple(self.names[i] for i in indices_in_order.tolist()),
            None if self.places is None else self.places[indices_in_order],
        )

    @staticmethod
    def concatenate(parts: Sequence["Documents"]) -> "Documents":
        """All documents of all parts, in order."""
        if not parts:
            return Documents.from_rows([])
        places = [part.places for part in parts if part.places is not None]
        return Documents(
            offsets(np.concatenate([np.diff(part.indptr) for part in parts])),
            np.concatenate([part.words for part in parts]),
            np.concatenate([part.counts for part in parts]),
            tuple(name for part in parts for name in part.names),
            np.concatenate(places) if len(places) == len(parts) else None,
        )

    @staticmethod
    def from_rows(
        rows: Sequence[tuple[str, np.ndarray, np.ndarray]], places: Sequence[int] | None = None
    ) -> "Documents":
        """Documents from the name, words and counts of each."""
        empty = np.zeros(0, np.int32)
        return Documents(
            offsets(np.array([len(words) for _, words, _ in rows], np.int64)),
            np.concatenate([empty, *(words for _, words, _ in rows)]),
            np.concatenate([empty, *(counts for _, _, counts in rows)]),
            tuple(name for name, _, _ in rows),
            None if places is None else np.array(places, np.int64),
        )

    @staticmethod
    def from_matrix(matrix: Any, names: Sequence[str] | None = None) -> "Documents":
        """Documents from a SciPy sparse matrix or an array, with a row per document and a column per word."""
        from scipy import sparse  # imported only where needed: it takes longer than everything else

        if not sparse.issparse(matrix):
            matrix = np.asarray(matrix)
            if matrix.ndim != 2:
                raise ValueError(
                    "a matrix of counts has one row per document and one column per word; the shape "
                    f"{matrix.shape} was given."
                )
            if matrix.dtype.kind not in "biuf":
                raise TypeError(f"counts must be numbers; an array of {matrix.dtype} was given.")
        compressed = sparse.csr_matrix(matrix)
        return Documents.from_arrays(compressed.indptr, compressed.indices, compressed.data, names)

    @staticmethod
    def from_arrays(indptr: Any, words: Any, counts: Any, names: Sequence[str] | None = None) -> "Documents":
        """Documents from the arrays of a compressed matrix, checked and sorted.

        The arrays may have any numeric type: they are cast before any arithmetic.
        """
        indptr, words, counts = np.asarray(indptr), np.asarray(words), np.asarray(counts)
        for description, array in (("indptr", indptr), ("the word ids", words)):
            if array.ndim != 1 or array.dtype.kind not in "iu":
                raise TypeError(
                    f"{description} must be a one-dimensional array of integers; {array.dtype} of shape "
                    f"{array.shape} was given."
                )
        indptr = indptr.astype(np.int64)
        widths = np.diff(indptr)
        if not len(indptr) or indptr[0] != 0 or np.any(widths < 0):
            raise ValueError(
                "indptr must begin with 0 and never decrease: it holds the start of each document's words."
            )
        if not len(words) == len(counts) == indptr[-1]:
            raise ValueError(
                f"indptr describes {indptr[-1]:,} entries; there are {len(words):,} word ids and "
                f"{len(counts):,} counts: are the arrays cut short, or from different corpora?"
            )
        rows = np.repeat(np.arange(len(widths)), widths)
        _check_counts(counts, rows)
        _raise_if_any(words.astype(np.int64) < 0, words, rows, "is not a word id: they start at 0")
        _raise_if_any(words > MAX_INT32, words, rows, f"is not a word id: they end at {MAX_INT32:,}")
        words, counts = words.astype(np.int64), counts.astype(np.int64)
        same_row = rows[1:] == rows[:-1]
        if np.any(counts == 0) or np.any(same_row & (words[1:] <= words[:-1])):
            rows, words, counts = _sorted_and_merged(rows, words, counts)
            _raise_if_any(
                counts > MAX_INT32, counts, rows, f"is above the largest allowed count, {MAX_INT32:,}"
            )
        return Documents(
            offsets(np.bincount(rows, minlength=len(widths))),
            words.astype(np.int32),
            counts.astype(np.int32),
            _names(names, len(widths)),
        )

    def to_matrix(self, width: int) -> Any:
        """A SciPy matrix (CSR, int32) with one row per document and `width` columns, one per word."""
        from scipy import sparse

        if self.words.size and width <= self.words.max():
            raise ValueError(f"width is {width}; the documents have word ids up to {self.words.max()}.")
        return sparse.csr_matrix((self.counts, self.words, self.indptr), shape=(self.size, width))


def offsets(widths: np.ndarray) -> np.ndarray:
    """The start of each of consecutive pieces of these widths, and the end of the last."""
    return np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])


def sort_and_merge(words: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the words of one document, add up the counts of repeated words, and remove zeros (all int64)."""
    if np.all(counts > 0) and np.all(words[1:] > words[:-1]):
        return words, counts
    _, words, counts = _sorted_and_merged(np.zeros_like(words), words, counts)
    return words, counts


def _sorted_and_merged(
    rows: np.ndarray, words: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    is_positive = counts > 0
    rows, words, counts = rows[is_positive], words[is_positive], counts[is_positive]
    order = np.lexsort((words, rows))
    rows, words, counts = rows[order], words[order], counts[order]
    is_new = np.ones(len(words), bool)
    is_new[1:] = (rows[1:] != rows[:-1]) | (words[1:] != words[:-1])
    sums = np.bincount(np.cumsum(is_new) - 1, weights=counts).astype(np.int64) if len(words) else counts
    return rows[is_new], words[is_new], sums


def _check_counts(counts: np.ndarray, rows: np.ndarray) -> None:
    if counts.ndim != 1 or counts.dtype.kind not in "biuf":
        raise TypeError(
            f"counts must be a one-dimensional array; {counts.dtype} of {counts.shape} was given."
        )
    if counts.dtype.kind == "f":
        _raise_if_any(~np.isfinite(counts), counts, rows, "is not a finite number")
        _raise_if_any(counts != np.floor(counts), counts, rows, "is not a whole number")
    if counts.dtype.kind != "u":
        _raise_if_any(counts < 0, counts, rows, "is negative")
    _raise_if_any(counts > MAX_INT32, counts, rows, f"is above the largest allowed count, {MAX_INT32:,}")


def _raise_if_any(is_bad: np.ndarray, values: np.ndarray, rows: np.ndarray, description: str) -> None:
    if np.any(is_bad):
        first_bad = int(np.argmax(is_bad))
        raise ValueError(f"row {rows[first_bad]} (from 0): {values[first_bad]} {description}.")


def _names(names: Sequence[str] | None, size: int) -> tuple[str, ...]:
    document_names = (
        tuple(str(i) for i in range(size)) if names is None else tuple(str(name) for name in names)
    )
    if len(document_names) != size:
        raise ValueError(
            f"there are {size:,} documents and {len(document_names):,} names: give one per document."
        )
    return document_names
