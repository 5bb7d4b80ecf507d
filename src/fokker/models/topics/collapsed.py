r"""Collapsed Gibbs sweeps over the topics z of all words of some documents, with β integrated out.

    p(z_j = k | all other z) ∝ (γ_k + n_dk^{\j}) (α + δ_kw + n_kw^{\j}) / (Vα + δ_k· + n_k·^{\j})

is the conditional of Griffiths and Steyvers (2004), with pseudo-counts δ (`fokker.models.topics.word_prior`).
The sweeps of a minibatch have β fixed instead. With a small α a topic that has no token of a word then has a
β_kw of practically zero, and the tokens of a rare word stay together in one topic for about 1/α passes. With
β integrated out they move.

The tokens are redrawn one after the other, in one thread: those of a document change the counts that the next
one sees.
"""

from functools import lru_cache
from typing import Any

import numba
import numpy as np

from fokker.corpora import Documents
from fokker.models.topics._uniform import stream, uniform
from fokker.models.topics._vector_draw import LANES, draw_collapsed
from fokker.models.topics.gibbs import aligned_array, padded_width
from fokker.models.topics.word_prior import WordPrior

# The most memory for documents and their topics. A larger pass is not swept over.
_MAX_BYTES = 2**29
# Counts of a word in a topic are whole numbers of float32, which are exact up to this one.
MAX_COUNT = 2**24


@lru_cache
def _compiled_sweep(blocks: int) -> Any:
    """The sweeps, compiled for topics in this many vectors, as those of `gibbs`."""
    width = blocks * LANES

    @numba.njit(nogil=True, cache=True, error_model="numpy")
    def _sweep(
        indptr: np.ndarray,
        words: np.ndarray,
        counts: np.ndarray,
        z: np.ndarray,
        by_word: np.ndarray,
        n_k: np.ndarray,
        num_words: int,
        topics: int,
        alphas: np.ndarray,
        gamma: np.ndarray,
        seed: np.uint64,
        control: np.ndarray,
    ) -> None:
        """One sweep with each of `alphas`; `by_word`, n_kw + δ_kw row by row, and `n_k` follow.

        `control`: the number of sweeps so far, and whether to stop, as another thread sees and sets them.
        """
        n_dk, scale, scratch = aligned_array(width), aligned_array(width), aligned_array(width)
        state, one = stream(seed, 0), np.float32(1)
        for alpha in alphas:
            if control[1]:
                return
            prior = num_words * np.float64(alpha)
            for k in range(width):
                scale[k] = one / np.float32(n_k[k] + prior)
            first = 0
            for d in range(len(indptr) - 1):
                n_dk[:] = gamma
                j = first
                for i in range(indptr[d], indptr[d + 1]):
                    for _ in range(counts[i]):
                        n_dk[z[j]] += one
                        j += 1
                j = first
                for i in range(indptr[d], indptr[d + 1]):
                    row = np.int64(words[i]) * width
                    for _ in range(counts[i]):
                        old = np.int64(z[j])
                        old_scale = one / np.float32(n_k[old] - 1 + prior)
                        state, u = uniform(state)
                        new = draw_collapsed(
                            n_dk, by_word, row, scale, scratch, blocks, old, old_scale, alpha, u
                        )
                        # Rounding at the end of the sum can give an index beyond the last topic.
                        new = min(new, topics - 1)
                        if new != old:
                            n_dk[old] -= one
                            by_word[row + old] -= one
                            n_k[old] -= 1
                            scale[old] = old_scale
                            n_dk[new] += one
                            by_word[row + new] += one
                            n_k[new] += 1
                            scale[new] = one / np.float32(n_k[new] + prior)
                            z[j] = new
                        j += 1
                first = j
            control[0] += 1

    return _sweep


def sweep(
    indptr: np.ndarray,
    words: np.ndarray,
    counts: np.ndarray,
    z: np.ndarray,
    by_word: np.ndarray,
    alphas: np.ndarray,
    gamma: np.ndarray,
    seed: np.uint64,
    control: np.ndarray | None = None,
) -> None:
    """Redraw the topic of every token in turn, once with each of `alphas`.

    Args:
        indptr: of the documents, as of a matrix in compressed rows, with `words` and `counts`.
        z: the topic of each token, word by word, each as often as it occurs; it is changed.
        by_word: n_kw + δ_kw (V, K) in float32, of these topics; it follows them.
        alphas: α of each sweep.
        gamma: γ (K,).
        seed: of the random numbers.
        control: the number of sweeps so far, and whether to stop, as another thread sees and sets them.
    """
    num_words, topics = by_word.shape
    width = padded_width(topics)
    padded = np.zeros((num_words, width), np.float32)
    padded[:, :topics] = by_word
    padded_gamma = np.zeros(width, np.float32)
    padded_gamma[:topics] = gamma
    _compiled_sweep(width // LANES)(
        indptr, words, counts, z, padded.reshape(-1), padded.sum(0, dtype=np.float64), num_words, topics,
        np.asarray(alphas, np.float32), padded_gamma, seed,
        np.zeros(2, np.int64) if control is None else control,
    )  # fmt: skip
    by_word[:] = padded[:, :topics]


class Assignments:
    """Documents, and the topic z of each of their tokens: word by word, each as often as it occurs."""

    _NAMES = ("widths", "words", "counts", "z")

    def __init__(self, topics: int, is_here: bool = True) -> None:
        self._topics, self._is_here = topics, is_here
        # Two bytes per token, unless there are more topics than these can count.
        z = np.zeros(0, np.uint16 if topics <= 2**16 else np.int32)
        self._parts: list[tuple[np.ndarray, ...]] = [(*(np.zeros(0, np.int32) for _ in range(3)), z)]
        self.num_bytes = 0

    def add(self, documents: Documents, z: np.ndarray | None) -> None:
        """Add documents with the topics of their tokens; where another process has them, only their size."""
        widths, dtype = np.diff(documents.indptr).astype(np.int32), self._parts[0][-1].dtype
        of_documents = (widths, documents.words, documents.counts)
        self.num_bytes += sum(x.nbytes for x in of_documents) + documents.tokens * dtype.itemsize
        if self._is_here:
            assert z is not None
            self._parts.append((*of_documents, z.astype(dtype)))

    @property
    def is_too_large(self) -> bool:
        """Whether this takes more memory than it may."""
        return self.num_bytes > _MAX_BYTES

    def sweep(
        self, n_kw: np.ndarray, prior: WordPrior, gamma: np.ndarray, seed: np.uint64, sweeps: int
    ) -> None:
        """Redraw the topic of every token in turn, `sweeps` times; n_kw (V, K), their counts, follows."""
        by_word = n_kw.astype(np.float32)
        by_word[prior.words] += prior.pseudo_counts
        widths, words, counts, z = self.state().values()
        indptr = np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])
        sweep(indptr, words, counts, z, by_word, np.full(sweeps, prior.alpha), gamma, seed)
        by_word[prior.words] -= prior.pseudo_counts
        n_kw[:] = np.rint(by_word)

    def by_document(self) -> np.ndarray:
        """n_dk (D, K)."""
        widths, words, counts, z = self.state().values()
        indptr = np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])
        return topics_of_documents(Documents.from_arrays(indptr, words, counts), z, self._topics)

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs; none where another process has them."""
        if not self._is_here:
            return {}
        if len(self._parts) > 1:
            self._parts = [tuple(np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))]
        return dict(zip(self._NAMES, self._parts[0], strict=True))

    def restore(self, state: dict[str, np.ndarray], num_bytes: int) -> None:
        """Restore a `state`, whose arrays have so many bytes."""
        self.num_bytes = num_bytes
        if self._is_here:
            self._parts = [tuple(np.array(state[name]) for name in self._NAMES)]


def topics_of_documents(documents: Documents, z: np.ndarray, topics: int) -> np.ndarray:
    """n_dk (D, K), given the topics z of the tokens."""
    rows = np.repeat(np.arange(documents.size), documents.lengths)
    counts = np.bincount(rows * topics + z, minlength=documents.size * topics)
    return counts.reshape(documents.size, topics)


def local_words(documents: Documents) -> tuple[np.ndarray, Documents]:
    """The distinct words of the documents, and the documents with indices into these as word ids."""
    # Not by sorting them: every one of several processes needs this for the whole minibatch.
    is_here = np.zeros(documents.words.max(initial=-1) + 1, bool)
    is_here[documents.words] = True
    local_ids = np.cumsum(is_here, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(is_here), documents._replace(words=local_ids[documents.words])
