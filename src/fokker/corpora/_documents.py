"""Documents as word counts, in compressed rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

LARGEST = np.iinfo(np.int32).max


class Documents(NamedTuple):
    """Some documents as word counts, in compressed rows.

    Document i has `words[indptr[i]:indptr[i + 1]]`, each as often as `counts` says.

    `indptr`: int64, one more than there are documents. `words`: int32, ascending and unique within a
    document. `counts`: int32, positive. `names`: one a document.
    """

    indptr: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many documents there are (`len` is that of the tuple, 4)."""
        return len(self.indptr) - 1

    @property
    def tokens(self) -> int:
        """How many words there are, repeats included."""
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

    def select(self, indices: Any) -> "Documents":
        """Those documents, in that order: whole numbers, a slice, or one truth value a document."""
        chosen = np.arange(self.size)[indices]
        widths = np.diff(self.indptr)[chosen]
        indptr = offsets(widths)
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[chosen] - indptr[:-1], widths)
        return Documents(
            indptr, self.words[places], self.counts[places], tuple(self.names[i] for i in chosen.tolist())
        )

    @staticmethod
    def concatenate(parts: Sequence["Documents"]) -> "Documents":
        """All documents of all parts, in order."""
        if not parts:
            return Documents.from_rows([])
        return Documents(
            offsets(np.concatenate([np.diff(part.indptr) for part in parts])),
            np.concatenate([part.words for part in parts]),
            np.concatenate([part.counts for part in parts]),
            tuple(name for part in parts for name in part.names),
        )

    @staticmethod
    def from_rows(rows: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> "Documents":
        """Documents from the name, words and counts of each."""
        empty = np.zeros(0, np.int32)
        return Documents(
            offsets(np.array([len(words) for _, words, _ in rows], np.int64)),
            np.concatenate([empty, *(words for _, words, _ in rows)]),
            np.concatenate([empty, *(counts for _, _, counts in rows)]),
            tuple(name for name, _, _ in rows),
        )

    @staticmethod
    def from_matrix(matrix: Any, names: Sequence[str] | None = None) -> "Documents":
        """Documents from a matrix with a row a document and a column a word: a SciPy sparse one or an "
        "array."""
        from scipy import sparse  # takes longer to import than all the rest: only where it is needed

        if not sparse.issparse(matrix):
            matrix = np.asarray(matrix)
            if matrix.ndim != 2:
                raise ValueError(
                    f"a matrix of counts has a row a document and a column a word; the shape {matrix.shape} "
                    "was given."
                )
            if matrix.dtype.kind not in "biuf":
                raise TypeError(f"counts must be numbers; an array of {matrix.dtype} was given.")
        compressed = sparse.csr_matrix(matrix)
        return Documents.from_arrays(compressed.indptr, compressed.indices, compressed.data, names)

    @staticmethod
    def from_arrays(indptr: Any, words: Any, counts: Any, names: Sequence[str] | None = None) -> "Documents":
        """Documents from the arrays of a compressed matrix, checked and put in order.

        The arrays may be of any type of number: they are cast before anything is added up or subtracted.
        """
        indptr, words, counts = np.asarray(indptr), np.asarray(words), np.asarray(counts)
        for what, array in (("indptr", indptr), ("the word ids", words)):
            if array.ndim != 1 or array.dtype.kind not in "iu":
                raise TypeError(
                    f"{what} must be one row of whole numbers; {array.dtype} of shape {array.shape} was "
                    "given."
                )
        indptr = indptr.astype(np.int64)
        widths = np.diff(indptr)
        if not len(indptr) or indptr[0] != 0 or np.any(widths < 0):
            raise ValueError(
                "indptr must begin with 0 and never decrease: where each document's words begin."
            )
        if not len(words) == len(counts) == indptr[-1]:
            raise ValueError(
                f"indptr speaks of {indptr[-1]:,} entries; there are {len(words):,} word ids and "
                f"{len(counts):,} counts: are the arrays cut short, or of different corpora?"
            )
        rows = np.repeat(np.arange(len(widths)), widths)
        _check_counts(counts, rows)
        _refuse(words.astype(np.int64) < 0, words, rows, "is not a word id: they begin at 0")
        _refuse(words > LARGEST, words, rows, f"is not a word id: they end at {LARGEST:,}")
        words, counts = words.astype(np.int64), counts.astype(np.int64)
        same_row = rows[1:] == rows[:-1]
        if np.any(counts == 0) or np.any(same_row & (words[1:] <= words[:-1])):
            rows, words, counts = _in_order(rows, words, counts)
            _refuse(counts > LARGEST, counts, rows, f"is more than a count can be, {LARGEST:,}")
        return Documents(
            offsets(np.bincount(rows, minlength=len(widths))),
            words.astype(np.int32),
            counts.astype(np.int32),
            _names(names, len(widths)),
        )

    def to_matrix(self, width: int) -> Any:
        """A SciPy matrix (CSR, int32) with a row a document and `width` columns, one a word."""
        from scipy import sparse

        if self.words.size and width <= self.words.max():
            raise ValueError(f"width is {width}; the documents have word ids up to {self.words.max()}.")
        return sparse.csr_matrix((self.counts, self.words, self.indptr), shape=(self.size, width))


def offsets(widths: np.ndarray) -> np.ndarray:
    """Where each of some pieces of these widths begins, laid end to end, and where the last ends."""
    return np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])


def put_in_order(words: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One document's words ascending and unique, with repeats added up and zeros dropped (int64 in and "
    "out)."""
    if np.all(counts > 0) and np.all(words[1:] > words[:-1]):
        return words, counts
    _, words, counts = _in_order(np.zeros_like(words), words, counts)
    return words, counts


def _in_order(
    rows: np.ndarray, words: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    there = counts > 0
    rows, words, counts = rows[there], words[there], counts[there]
    order = np.lexsort((words, rows))
    rows, words, counts = rows[order], words[order], counts[order]
    new = np.ones(len(words), bool)
    new[1:] = (rows[1:] != rows[:-1]) | (words[1:] != words[:-1])
    sums = np.bincount(np.cumsum(new) - 1, weights=counts).astype(np.int64) if len(words) else counts
    return rows[new], words[new], sums


def _check_counts(counts: np.ndarray, rows: np.ndarray) -> None:
    if counts.ndim != 1 or counts.dtype.kind not in "biuf":
        raise TypeError(f"counts must be one row of numbers; {counts.dtype} of {counts.shape} was given.")
    if counts.dtype.kind == "f":
        _refuse(~np.isfinite(counts), counts, rows, "is not a finite number")
        _refuse(counts != np.floor(counts), counts, rows, "is not a whole number")
    if counts.dtype.kind != "u":
        _refuse(counts < 0, counts, rows, "is negative")
    _refuse(counts > LARGEST, counts, rows, f"is more than a count can be, {LARGEST:,}")


def _refuse(bad: np.ndarray, values: np.ndarray, rows: np.ndarray, what: str) -> None:
    if np.any(bad):
        place = int(np.argmax(bad))
        raise ValueError(f"row {rows[place]} (from 0): {values[place]} {what}.")


def _names(names: Sequence[str] | None, size: int) -> tuple[str, ...]:
    chosen = tuple(str(i) for i in range(size)) if names is None else tuple(str(name) for name in names)
    if len(chosen) != size:
        raise ValueError(f"there are {size:,} documents and {len(chosen):,} names: one a document is needed.")
    return chosen
