"""The chain over topics: a minibatch of documents in, one step of θ out."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.special import digamma

from fokker._core.random import fold_in
from fokker.corpora import Documents
from fokker.models.lda import gibbs, gibbs_jax
from fokker.models.lda._expected import Expected
from fokker.models.lda._uniform import seed_at
from fokker.models.lda.cir import SMALLEST
from fokker.models.lda.theta import WITH_MOMENTUM, DenseTopics, LazyTopics, make_topics

Schedule = Callable[[int], float]

# Streams of random numbers of a chain, apart from each other.
_START, _SWEEPS, _TOPICS = range(3)


# The decay of Patterson and Teh (2013).
_DECAY_AFTER, _DECAY_POWER = 1000.0, 0.6


def decaying(a: float, b: float = _DECAY_AFTER, c: float = _DECAY_POWER) -> Schedule:
    """ε_t = a (1 + t/b)^{-c}."""
    return lambda t: a * (1 + t / b) ** -c


def automatic(sampler: str, rate: float, start: float) -> tuple[float, float]:
    r"""A step size and a friction for the rate N_k·/θ_k· at which data wash out what θ was.

    An overdamped step forgets the share hb of θ, b = 1 + N_k·/θ_k·; with momentum θ swings with the frequency
    ω = √(b/2), and friction above ω damps it. The shares here are those that served best in one pass over
    10,000 articles; |S|, the words a document and θ₀ enter through the rate. Without a metric a step is as
    long for every word: it is measured in θ₀.
    """
    b = 1 + rate
    omega = float(np.sqrt(b / 2))
    h, friction = {
        "sgld": (0.1 * start / b, 0.0),
        "sghmc": (0.2 * start**0.5 / omega, 2.4 * omega / start**0.5),
        "sgrld": (0.35 / b, 0.0),
        "scir": (0.15 / b, 0.0),
        "sgrhmc": (0.5 / omega, 2.4 * omega),
    }[sampler]
    return h, friction


# Minibatches that learning γ waits for, and how fast it forgets (Hoffman et al. 2010).
_LEARNING_DELAY, _LEARNING_POWER = 10.0, 0.7


def likelier_gamma(gamma: np.ndarray, counts: np.ndarray) -> np.ndarray:
    r"""γ_k ← γ_k Σ_d [ψ(γ_k + n_dk) - ψ(γ_k)] / Σ_d [ψ(γ· + n_d·) - ψ(γ·)] (Minka 2000).

    A step towards the γ under which the documents' topic counts (D, K) are likeliest; here they are
    expectations.
    """
    more = (digamma(gamma + counts) - digamma(gamma)).sum(0)
    total = (digamma(gamma.sum() + counts.sum(1)) - digamma(gamma.sum())).sum()
    # Not to zero: a topic that no document of a minibatch has may come back.
    return np.maximum(gamma * more / total, _LEAST_GAMMA)


_LEAST_GAMMA = 1e-4


class TopicChain:
    """θ, and the sweeps over documents that move it.

    The state after t minibatches depends on the seed and the minibatches alone. Where `step_size` or
    `friction` is None they are those of `automatic`, with the decay of Patterson and Teh for the step.
    """

    def __init__(
        self,
        words: int,
        topics: int,
        *,
        sampler: str,
        alpha: float,
        gamma: float | np.ndarray,
        learn_gamma: bool = False,
        step_size: Schedule | None = None,
        friction: float | None = None,
        start: float = 0.1,
        sweeps: int = 50,
        burn_in: int = 25,
        threads: int = 1,
        engine: str = "numba",
        seed: int = 0,
    ) -> None:
        key = jax.random.key(seed)
        self.gamma = np.broadcast_to(np.asarray(gamma, np.float64), (topics,)).copy()
        self.learn_gamma = learn_gamma
        self.step_size, self.friction, self.start = step_size, friction, start
        self.sweeps, self.burn_in, self.threads = sweeps, burn_in, threads
        self.engine = engine
        # Words a document, of the first minibatch.
        self._length = 0.0
        # Documents of the largest minibatch so far.
        self._usual = 0
        self._key = fold_in(key, _SWEEPS)
        # From a seed: NumPy's generator of Gamma numbers is far faster than JAX's on a CPU.
        generator = np.random.Generator(np.random.Philox(int(seed_at(key, _START))))
        theta = generator.standard_gamma(start, (words, topics), dtype=np.float32)
        theta = np.maximum(theta, SMALLEST)
        self.topics: DenseTopics | LazyTopics = make_topics(
            sampler, theta, alpha, fold_in(key, _TOPICS), threads
        )

    @property
    def number(self) -> int:
        """Minibatches so far."""
        return self.topics.number

    def expect(self, documents: Documents) -> tuple[np.ndarray, Expected]:
        """The minibatch's words, and the expected counts of each topic under θ as it is."""
        words, local = local_words(documents)
        beta = self.topics.rows(words) / self.topics.totals.astype(np.float32)
        if self.engine == "jax":
            return words, gibbs_jax.expected_counts(
                fold_in(self._key, self.number),
                local.indptr,
                local.words,
                local.counts,
                beta,
                self.gamma,
                self.sweeps,
                self.burn_in,
            )
        return words, gibbs.expected_counts(
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
        h, friction = self._settings(documents, total)
        # Fewer documents than usual, each of which counts the more, are a part of a step.
        self._usual = max(self._usual, documents.size)
        h *= documents.size / self._usual
        self.topics.step(words, expected.counts * np.float32(scale), h, friction, scale)
        if self.learn_gamma and documents.tokens:
            share = (self.number + _LEARNING_DELAY) ** -_LEARNING_POWER
            self.gamma = self.gamma ** (1 - share) * likelier_gamma(self.gamma, expected.mixtures) ** share
        return expected

    def _settings(self, documents: Documents, total: float) -> tuple[float, float]:
        """The step size and the friction of the next step."""
        self._length = self._length or documents.tokens / documents.size
        words, topics = self.topics.shape
        rate = total * self._length / topics / (self.start * words)
        h, friction = automatic(self.topics.sampler, rate, self.start)
        if self.step_size is not None:
            h = self.step_size(self.number)
        else:
            half = 0.5 if self.topics.sampler in WITH_MOMENTUM else 1.0
            h *= decaying(1.0, c=half * _DECAY_POWER)(self.number)
        return h, friction if self.friction is None else self.friction

    def beta(self) -> np.ndarray:
        """β (V, K) of θ as it is: columns sum to one."""
        theta = self.topics.whole()
        return theta / theta.sum(0)

    def state(self) -> dict[str, np.ndarray]:
        """All that a resume needs."""
        return self.topics.state() | {
            "gamma": self.gamma,
            "length": np.asarray(self._length),
            "usual": np.asarray(self._usual),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """As it was when `state` was taken."""
        self.gamma, self._length = np.array(state["gamma"]), float(state["length"])
        self._usual = int(state["usual"])
        self.topics.restore(state)


def local_words(documents: Documents) -> tuple[np.ndarray, Documents]:
    """The words that the documents have, and the documents with their words numbered by place among those."""
    words, places = np.unique(documents.words, return_inverse=True)
    return words, documents._replace(words=places.astype(np.int32))
