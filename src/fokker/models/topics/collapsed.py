r"""Collapsed Gibbs sweeps over the topics z of all words of an exact pass, with β integrated out.

    p(z_j = k | all other z) ∝ (γ_k + n_dk^{\j}) (α + δ_kw + n_kw^{\j}) / (Vα + δ_k· + n_k·^{\j})

is the conditional of Griffiths and Steyvers (2004), with pseudo-counts δ (`fokker.models.topics.word_prior`).
The sweeps of a minibatch have β fixed instead. With a small α a topic that has no token of a word then has a
β_kw of practically zero, and the tokens of a rare word stay together in one topic for about 1/α passes. With
β integrated out they move.

The tokens are redrawn one after the other, in one thread: those of a document change the counts that the next
one sees.
"""

from typing import Any

import numba
import numpy as np

from fokker.corpora import Documents
from fokker.models.topics._uniform import drawn_index, stream
from fokker.models.topics.word_prior import WordPrior

# The most memory for documents and their topics. A larger pass is not swept over.
_MAX_BYTES = 2**29


@numba.njit(nogil=True, cache=True)
def _sweep(
    widths: Any,
    words: Any,
    counts: Any,
    z: Any,
    n_kw: Any,
    priors: Any,
    prior_of: Any,
    prior_of_topic: Any,
    gamma: Any,
    seed: Any,
    sweeps: int,
) -> None:
    """Redraw z of every token, `sweeps` times; n_kw (V, K) follows.

    Document d has the next `widths[d]` of `words`, each as often as `counts` says. α + δ_kw of word w is row
    `prior_of[w]` of `priors`.
    """
    V, K = n_kw.shape
    # Whole numbers of any size: float32 counts to 2²⁴ only.
    n_k = np.zeros(K)
    for w in range(V):
        for k in range(K):
            n_k[k] += n_kw[w, k]
    scale = np.empty(K, np.float32)
    for k in range(K):
        scale[k] = 1 / (n_k[k] + prior_of_topic[k])
    n_dk, cumulative = np.empty(K, np.float32), np.empty(K, np.float32)
    state = stream(seed, 0)
    for _ in range(sweeps):
        start, j = 0, 0
        for width in widths:
            num_tokens = counts[start : start + width].sum()
            n_dk[:] = gamma
            for k in z[j : j + num_tokens]:
                n_dk[k] += 1
            for i in range(start, start + width):
                row, prior = n_kw[words[i]], priors[prior_of[words[i]]]
                for _ in range(counts[i]):
                    old = z[j]
                    n_dk[old] -= 1
                    row[old] -= 1
                    n_k[old] -= 1
                    scale[old] = 1 / (n_k[old] + prior_of_topic[old])
                    total = np.float32(0)
                    for k in range(K):
                        total += n_dk[k] * (np.float32(row[k]) + prior[k]) * scale[k]
                        cumulative[k] = total
                    state, new = drawn_index(state, cumulative)
                    z[j] = new
                    n_dk[new] += 1
                    row[new] += 1
                    n_k[new] += 1
                    scale[new] = 1 / (n_k[new] + prior_of_topic[new])
                    j += 1
            start += width


class Assignments:
    """Documents, and the topic z of each of their tokens: word by word, each as often as it occurs."""

    _NAMES = ("widths", "words", "counts", "z")

    def __init__(self, topics: int, is_here: bool = True) -> None:
        self._is_here = is_here
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
        V, K = n_kw.shape
        priors = np.full((1 + len(prior.words), K), prior.alpha, np.float32)
        priors[1:] += prior.pseudo_counts
        # Words without pseudo-counts have the first row.
        prior_of = np.zeros(V, np.int32)
        prior_of[prior.words] = np.arange(1, len(priors))
        prior_of_topic = V * prior.alpha + prior.by_topic
        widths, words, counts, z = self.state().values()
        _sweep(
            widths, words, counts, z, n_kw, priors, prior_of, prior_of_topic, gamma.astype(np.float32), seed,
            sweeps,
        )  # fmt: skip

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
