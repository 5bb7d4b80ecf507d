"""The chain over topics: a minibatch of documents in, one step of θ out."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from fokker._random import fold_in
from fokker.corpora import Documents
from fokker.lda._expected import Expected
from fokker.lda._uniform import seed_at
from fokker.lda.gibbs import expected_counts
from fokker.lda.theta import DenseTopics, LazyTopics, make_topics

Schedule = Callable[[int], float]

# Streams of random numbers of a chain, apart from each other.
_START, _SWEEPS, _TOPICS = range(3)


def decaying(a: float, b: float = 1000.0, c: float = 0.6) -> Schedule:
    """ε_t = a (1 + t/b)^{-c}, the decay of Patterson and Teh (2013)."""
    return lambda t: a * (1 + t / b) ** -c


class TopicChain:
    """θ, and the sweeps over documents that move it.

    The state after t minibatches depends on the seed and the minibatches alone.
    """

    def __init__(
        self,
        words: int,
        topics: int,
        *,
        sampler: str,
        alpha: float,
        gamma: float | np.ndarray,
        step_size: Schedule,
        start: float,
        friction: float = 1.0,
        sweeps: int = 50,
        burn_in: int = 25,
        threads: int = 1,
        seed: int = 0,
    ) -> None:
        key = jax.random.key(seed)
        self.gamma = np.broadcast_to(np.asarray(gamma, np.float64), (topics,)).copy()
        self.step_size, self.sweeps, self.burn_in, self.threads = step_size, sweeps, burn_in, threads
        self._key = fold_in(key, _SWEEPS)
        # From a seed: NumPy's generator of Gamma numbers is far faster than JAX's on a CPU.
        generator = np.random.Generator(np.random.Philox(int(seed_at(key, _START))))
        theta = generator.standard_gamma(start, (words, topics), dtype=np.float32)
        theta = np.maximum(theta, np.float32(1e-30))
        self.topics: DenseTopics | LazyTopics = make_topics(
            sampler, theta, alpha, fold_in(key, _TOPICS), friction, threads
        )

    @property
    def number(self) -> int:
        """Minibatches so far."""
        return self.topics.number

    def expect(self, documents: Documents) -> tuple[np.ndarray, Expected]:
        """The minibatch's words, and the expected counts of each topic under θ as it is."""
        words, local = local_words(documents)
        beta = self.topics.rows(words) / self.topics.totals.astype(np.float32)
        return words, expected_counts(
            local,
            beta,
            self.gamma,
            seed_at(self._key, self.number),
            sweeps=self.sweeps,
            burn_in=self.burn_in,
            threads=self.threads,
        )

    def step(self, documents: Documents, total: float) -> Expected:
        """One minibatch of a corpus of `total` documents: |S|/|S̃| = total/size."""
        words, expected = self.expect(documents)
        scale = total / documents.size
        self.topics.step(words, expected.counts * np.float32(scale), self.step_size(self.number), scale)
        return expected

    def beta(self) -> np.ndarray:
        """β (V, K) of θ as it is: columns sum to one."""
        theta = self.topics.whole()
        return theta / theta.sum(0)

    def state(self) -> dict[str, np.ndarray]:
        """All that a resume needs."""
        return self.topics.state() | {"gamma": self.gamma}

    def restore(self, state: dict[str, Any]) -> None:
        """As it was when `state` was taken."""
        self.gamma = np.array(state["gamma"])
        self.topics.restore(state)


def local_words(documents: Documents) -> tuple[np.ndarray, Documents]:
    """The words that the documents have, and the documents with their words numbered by place among those."""
    words, places = np.unique(documents.words, return_inverse=True)
    return words, documents._replace(words=places.astype(np.int32))
