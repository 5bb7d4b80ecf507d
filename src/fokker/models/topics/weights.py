"""Weights that are no whole numbers, such as tf-idf, as counts."""

import hashlib
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fokker.corpora import Documents
from fokker.models.topics._uniform import mix, streams

# Counts or weights, one row per document and one column per word: an array, a sparse matrix or a data frame.
CountMatrix: TypeAlias = ArrayLike | sparse.spmatrix | sparse.sparray

_TO_UNIT = 2.0**-53


class Weights(NamedTuple):
    """A matrix of weights in compressed rows; `is_whole`: whether all are whole numbers."""

    matrix: sparse.csr_matrix
    is_whole: bool

    @staticmethod
    def of(X: CountMatrix) -> "Weights":
        """The weights of a matrix of numbers; raise where one is negative."""
        matrix = sparse.csr_matrix(X)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if matrix.dtype.kind == "f" and not np.isfinite(matrix.data).all():
            first = int(np.argmin(np.isfinite(matrix.data)))
            value = "NaN" if np.isnan(matrix.data[first]) else "inf"
            raise ValueError(
                f"X has a value that is not finite, {value}, first in row {_row(matrix, first)}, column "
                f"{matrix.indices[first]} (both from 0): remove or replace it."
            )
        if np.any(matrix.data < 0):
            first = int(np.argmax(matrix.data < 0))
            row = _row(matrix, first)
            raise ValueError(
                f"Negative values in data passed to LDA: row {row} (from 0) has {matrix.data[first]}; X has "
                "counts of words."
            )
        is_whole = matrix.dtype.kind in "biu" or bool(np.all(matrix.data == np.floor(matrix.data)))
        return Weights(matrix, is_whole)

    @property
    def has_words(self) -> np.ndarray:
        """Which documents have a word."""
        return np.diff(self.matrix.indptr) > 0

    def counts(self, seed: np.uint64) -> Documents:
        """Whole counts whose expectation is the weights x: ⌊x⌋, or one more with probability x - ⌊x⌋.

        The counts of a document depend on its weights and the seed alone, not on the other documents.
        """
        matrix = self.matrix
        if self.is_whole:
            return Documents.from_matrix(matrix)
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        entries = streams(seed, self._identities())[rows] ^ mix.py_func(matrix.indices.astype(np.uint64))
        u = (mix.py_func(entries) >> np.uint64(11)).astype(np.float64) * _TO_UNIT
        whole = np.floor(matrix.data)
        counts = whole + (u < matrix.data - whole)
        return Documents.from_arrays(matrix.indptr, matrix.indices, counts)

    def _identities(self) -> np.ndarray:
        data, indices = self.matrix.data.astype(np.float64), self.matrix.indices.astype(np.int64)
        bounds = zip(self.matrix.indptr[:-1], self.matrix.indptr[1:], strict=True)
        hashes = (
            hashlib.blake2b(indices[i:j].tobytes() + data[i:j].tobytes(), digest_size=8).digest()
            for i, j in bounds
        )
        return np.frombuffer(b"".join(hashes), "<u8").astype(np.uint64)


def _row(matrix: sparse.csr_matrix, entry: int) -> int:
    """The row of a stored entry."""
    return int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
