r"""The prior of the words of topics, β_k ~ Dirichlet(α + δ_k): a number α, pseudo-counts δ_kw of some words.

Pseudo-counts act as words that are in the topic in addition to those of the documents: wherever the sampler
has a count n_kw, it has n_kw + δ_kw. With θ_kw of Gamma(α, 1) and N_kw + δ_kw in place of N_kw, the density
of β = θ/θ_k· is that of Dirichlet(α + N + δ), and that of θ_k· is unchanged. So one mechanism serves every
sampler, the start and the exact draws; and what has no pseudo-counts costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class WordPrior:
    """α, and the pseudo-counts (P, K) of these words (P,), in ascending order.

    `pinned`: topics that have a meaning of their own, so that the start does not merge or split them.
    """

    alpha: float
    words: np.ndarray
    pseudo_counts: np.ndarray
    pinned: tuple[int, ...] = ()

    @staticmethod
    def symmetric(alpha: float, topics: int) -> "WordPrior":
        """One number for all words of all topics."""
        return WordPrior(alpha, np.zeros(0, np.int64), np.zeros((0, topics), np.float32))

    @staticmethod
    def of_array(prior: np.ndarray, topics: int) -> "WordPrior":
        """One number, one per word (V,), or one per topic and word (K, V): α is the smallest of them."""
        alpha = float(prior.min())
        if prior.ndim == 0:
            return WordPrior.symmetric(alpha, topics)
        pseudo_counts = np.broadcast_to(np.atleast_2d(prior) - alpha, (topics, prior.shape[-1])).T
        words = np.flatnonzero(pseudo_counts.any(1))
        pinned = tuple(range(topics)) if np.ptp(pseudo_counts, axis=1).any() else ()
        return WordPrior(alpha, words, pseudo_counts[words].astype(np.float32), pinned)

    def with_seeds(self, seeds: Sequence[Sequence[int]], weight: float) -> "WordPrior":
        """Topic k has `weight` more pseudo-counts of each of the words `seeds[k]`."""
        topics = self.pseudo_counts.shape[1]
        rows = [(w, k) for k, words in enumerate(seeds) for w in set(words)]
        seeded = np.unique(np.array([w for w, _ in rows], np.int64))
        extra = np.zeros((len(seeded), topics), np.float32)
        for w, k in rows:
            extra[np.searchsorted(seeded, w), k] = weight
        words, pseudo_counts = self.added_to(seeded, extra)
        pinned = tuple(sorted({*self.pinned, *(k for _, k in rows)}))
        return WordPrior(self.alpha, words, pseudo_counts, pinned)

    @property
    def by_topic(self) -> np.ndarray:
        """δ_k· (K,)."""
        return np.asarray(self.pseudo_counts.sum(0, dtype=np.float64))

    def divided_by(self, weight: float) -> "WordPrior":
        """The prior beside which documents count once where they count `weight` times beside this one."""
        return WordPrior(
            self.alpha / weight, self.words, self.pseudo_counts / np.float32(weight), self.pinned
        )

    def columns(self, topics: Sequence[int]) -> "WordPrior":
        """The prior of some of the topics."""
        return WordPrior(self.alpha, self.words, self.pseudo_counts[:, list(topics)])

    def of_topic(self, topic: int, words: int) -> np.ndarray:
        """δ_kw of one topic, of all words (V,)."""
        column = np.zeros(words, np.float32)
        column[self.words] = self.pseudo_counts[:, topic]
        return column

    def added_to(self, words: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The counts (U, K) of distinct words (U,) plus the pseudo-counts, and all words that have either."""
        if not len(self.words):
            return words, counts
        both = np.union1d(words, self.words)
        total = np.zeros((len(both), counts.shape[1]), np.float32)
        total[np.searchsorted(both, words)] = counts
        total[np.searchsorted(both, self.words)] += self.pseudo_counts
        return both, total
