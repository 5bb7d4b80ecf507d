r"""Collapsed Gibbs sweeps over the topics z of all words of some documents, with β integrated out.

    p(z_j = k | all other z) ∝ (γ_k + n_dk^{\j}) (α + δ_kw + n_kw^{\j}) / (Vα + δ_k· + n_k·^{\j})

is the conditional of Griffiths and Steyvers (2004), with pseudo-counts δ (`fokker.models.topics.word_prior`).
The sweeps of a minibatch have β fixed instead. With a small α a topic that has no token of a word then has a
β_kw of practically zero, and the tokens of a rare word stay together in one topic for about 1/α passes. With
β integrated out they move.

The tokens are redrawn one after the other, in one thread: those of a document change the counts that the next
one sees. `fokker.models.topics.cells` has sweeps by several threads.
"""

from functools import lru_cache
from typing import Any

import numba
import numpy as np

from fokker.corpora import Documents
from fokker.models.topics._uniform import stream, uniform
from fokker.models.topics._vector_draw import LANES, draw_collapsed
from fokker.models.topics.gibbs import aligned_array, padded_width

# Counts of a word in a topic are whole numbers of float32, which are exact up to this one.
MAX_COUNT = 2**24


@numba.njit(nogil=True, cache=True, inline="always", error_model="numpy")
def redraw_word(
    blocks: int,
    topics: int,
    n_dk: np.ndarray,
    by_word: np.ndarray,
    row: int,
    n_k: np.ndarray,
    prior: float,
    mass: np.ndarray,
    scale: np.ndarray,
    scratch: np.ndarray,
    alpha: np.float32,
    z: np.ndarray,
    first: int,
    number: int,
    state: np.uint64,
) -> Any:
    """Redraw so many tokens of one word, whose counts are at `row`, and return the random state.

    `scale` is m_k/(n_k + prior) with m the `mass`; it follows the counts, as they all do.
    """
    one = np.float32(1)
    for j in range(first, first + number):
        old = np.int64(z[j])
        old_scale = mass[old] / np.float32(n_k[old] - 1 + prior)
        state, u = uniform(state)
        new = draw_collapsed(n_dk, by_word, row, scale, scratch, blocks, old, old_scale, alpha, u)
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
            scale[new] = mass[new] / np.float32(n_k[new] + prior)
            z[j] = new
    return state


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
        state, one, mass = stream(seed, 0), np.float32(1), np.ones(width, np.float32)
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
                    state = redraw_word(
                        blocks, topics, n_dk, by_word, row, n_k, prior, mass, scale, scratch, alpha,
                        z, j, counts[i], state,
                    )  # fmt: skip
                    j += counts[i]
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
    rows = padded(by_word)
    _compiled_sweep(rows.shape[1] // LANES)(
        indptr, words, counts, z, rows.reshape(-1), rows.sum(0, dtype=np.float64), num_words, topics,
        np.asarray(alphas, np.float32), padded(gamma[None])[0], seed,
        np.zeros(2, np.int64) if control is None else control,
    )  # fmt: skip
    by_word[:] = rows[:, :topics]


def padded(rows: np.ndarray) -> np.ndarray:
    """The rows (n, K) in float32, filled up with zeros, each from the beginning of a cache line on."""
    num_rows, topics = rows.shape
    width = padded_width(topics)
    copy = np.asarray(aligned_array(num_rows * width)).reshape(num_rows, width)
    copy[:, :topics] = rows
    copy[:, topics:] = 0
    return copy


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
