"""The chain over topics: each minibatch gives one step of θ, or each pass an exact draw of it."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from fokker._core.random import fold_in
from fokker.corpora import Documents
from fokker.models.lda import gibbs, gibbs_jax
from fokker.models.lda._expected import ExpectedCounts
from fokker.models.lda._uniform import seed_at
from fokker.models.lda.cir import MIN_THETA
from fokker.models.lda.document_prior import DocumentPrior
from fokker.models.lda.exact import PassCounts
from fokker.models.lda.files import with_prefix, without_prefix
from fokker.models.lda.learned_prior import LearnedPrior
from fokker.models.lda.start import CHAINS, first_topics
from fokker.models.lda.theta import WITH_MOMENTUM, Topics, make_topics
from fokker.models.lda.word_prior import WordPrior

Schedule = Callable[[int], float]

# The words of which θ is drawn at a time at the start.
_WORDS_PER_PART = 4096
# Independent random streams of a chain.
_START, _SWEEPS, _TOPICS, _SAMPLE, _EXACT, _PRIOR = range(6)


# The decay of Patterson and Teh (2013).
_DECAY_AFTER, _DECAY_POWER = 1000.0, 0.6


def decaying(a: float, b: float = _DECAY_AFTER, c: float = _DECAY_POWER) -> Schedule:
    """ε_t = a (1 + t/b)^{-c}."""
    return lambda t: a * (1 + t / b) ** -c


def automatic_settings(sampler: str, rate: float, start: float) -> tuple[float, float]:
    r"""A step size and a friction for the rate N_k·/θ_k· at which the data replace the previous θ.

    An overdamped step replaces the share hb of θ, with b = 1 + N_k·/θ_k·. With momentum θ oscillates with the
    frequency ω = √(b/2), and friction above ω damps it. The factors here worked best in one pass over 10,000
    articles; |S|, the number of words per document and θ₀ enter through the rate. Without a metric the step
    is the same for every word and is measured in units of θ₀.
    """
    b = 1 + rate
    omega = float(np.sqrt(b / 2))
    h, friction = {
        "sgld": (0.1 * start / b, 0.0),
        "sghmc": (0.2 * start**0.5 / omega, 2.4 * omega / start**0.5),
        "sgrld": (0.35 / b, 0.0),
        "scir": (0.35 / b, 0.0),
        "sgrhmc": (0.5 / omega, 2.4 * omega),
    }[sampler]
    return h, friction


# After a start from all documents there is nothing left to learn from them, and a large step only adds the
# noise of minibatches, which removes the smallest topics. This is the factor of the step then.
_STEP_AFTER_ALL = 0.2


class TopicChain:
    """θ, and the sweeps over documents that move it.

    `step` moves θ by one step of the sampler with each minibatch. For exact draws give all minibatches of a
    pass to `count`, which leaves θ as it is, then call `end_pass`.

    The state after t minibatches depends only on the seed and the minibatches. A `step_size` or `friction` of
    None takes that of `automatic_settings`; the step then decays as in Patterson and Teh.
    """

    def __init__(
        self,
        words: int,
        topics: int,
        *,
        sampler: str,
        alpha: float | WordPrior,
        gamma: float | Sequence[float] | str,
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
        self.word_prior = alpha if isinstance(alpha, WordPrior) else WordPrior.symmetric(alpha, topics)
        self.document_prior = LearnedPrior(DocumentPrior.of(gamma, topics), fold_in(key, _PRIOR))
        self.step_size, self.friction, self.start = step_size, friction, start
        self.sweeps, self.burn_in, self.threads = sweeps, burn_in, threads
        self.engine = engine
        # The number of words per document in the first minibatch.
        self._length = 0.0
        # The number of documents in the largest minibatch so far.
        self._largest_batch = 0
        # The number of documents that the topics started from.
        self._sample_size = 0
        self._key, self._sample_key, self._exact_key = (
            fold_in(key, stream) for stream in (_SWEEPS, _SAMPLE, _EXACT)
        )
        # The counts of an exact pass that has begun.
        self._pass: PassCounts | None = None
        # NumPy's Gamma generator is much faster than JAX's on a CPU.
        generator = np.random.Generator(np.random.Philox(int(seed_at(key, _START))))
        theta = generator.standard_gamma(start, (words, topics), dtype=np.float32)
        # Random topics with pseudo-counts have more of these words.
        theta[self.word_prior.words] += generator.standard_gamma(self.word_prior.pseudo_counts)
        np.maximum(theta, MIN_THETA, out=theta)
        self.topics: Topics = make_topics(
            sampler, theta, self.word_prior.alpha, fold_in(key, _TOPICS), threads, start
        )

    @property
    def gamma(self) -> np.ndarray:
        """γ (K,), given, or the current draw of a learned one."""
        return self.document_prior.prior.gamma

    @property
    def number(self) -> int:
        """The number of minibatches so far."""
        return self.topics.number

    @property
    def is_counting(self) -> bool:
        """Whether an exact pass has begun and has not ended."""
        return self._pass is not None

    def start_from(self, documents: Documents) -> None:
        """Replace θ by a draw given the topics that `start.first_topics` finds in these documents.

        θ_kw ~ Gamma(α + δ_kw + n_kw, 1), scaled to the θ_k· of a random start: β does not depend on θ_k·.
        """
        V, _ = self.topics.shape
        alpha = self.topics.alpha
        seeds = [int(seed_at(self._sample_key, number)) for number in range(CHAINS + 1)]
        assignment, document_prior = first_topics(
            documents, V, self.word_prior, self.document_prior.prior, seeds[1:], self.threads
        )
        self.document_prior.start_from(document_prior, assignment.by_document)
        counts = assignment.by_word
        generator = np.random.Generator(np.random.Philox(seeds[0]))
        # In parts and in place of the counts: there may be gigabytes of them.
        for first in range(0, V, _WORDS_PER_PART):
            part = counts[first : first + _WORDS_PER_PART]
            part[:] = generator.standard_gamma(part + np.float64(alpha))
        counts *= (self.start * V / counts.sum(0, dtype=np.float64)).astype(np.float32)
        self.topics.replace(np.maximum(counts, MIN_THETA, out=counts))
        self._sample_size = documents.size

    def expect(self, documents: Documents, sample: bool = False) -> tuple[np.ndarray, ExpectedCounts]:
        """The words of the minibatch, and the expected counts of each topic under the current θ.

        With `sample`, the counts of one draw of the topics of the words take the place of the expected ones.
        """
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
                sample=sample,
            )
        return words, gibbs.expected_counts(
            local,
            beta,
            self.gamma,
            seed_at(self._key, self.number),
            sweeps=self.sweeps,
            burn_in=self.burn_in,
            threads=self.threads,
            sample=sample,
        )

    def step(self, documents: Documents, total: float) -> ExpectedCounts:
        """One step with a minibatch of a corpus of `total` documents: |S|/|S̃| = total/size."""
        self._pass = None
        words, expected = self.expect(documents)
        data_weight = total / documents.size
        h, friction = self._step_settings(documents, total)
        # Each document of a smaller minibatch has a larger weight: such a minibatch takes a smaller step.
        self._largest_batch = max(self._largest_batch, documents.size)
        h *= documents.size / self._largest_batch
        words, counts = self.word_prior.added_to(words, expected.counts * np.float32(data_weight))
        self.topics.step(words, counts, h, friction, data_weight)
        self.document_prior.step(expected.last, total, self.number)
        return expected

    def count(self, documents: Documents) -> ExpectedCounts:
        """Draw the topics of the words of a minibatch and add them to the counts of an exact pass."""
        words, expected = self.expect(documents, sample=True)
        if self._pass is None:
            self._pass = PassCounts(*self.topics.shape)
        self._pass.add(words, expected.counts, documents.size)
        self.topics.number += 1
        self.document_prior.count(expected.last)
        return expected

    def beta_given_pass(self, total: float, draw: int) -> np.ndarray:
        """An exact draw of β (V, K) given the counts of the pass, by number; `total` as in `step`.

        Where θ is smaller than the smallest number of the chain, β is zero: bounds of words that a topic does
        not use then begin at zero.
        """
        assert self._pass is not None, "an exact draw needs the counts of a pass: call count first"
        seed = seed_at(self._exact_key, (self.number << 16) + draw)
        data_weight = total / self._pass.documents
        theta = self._pass.draw(self.topics.alpha, data_weight, seed, self.threads)
        # The sum of Gamma(a) and Gamma(δ) is Gamma(a + δ).
        generator = np.random.Generator(np.random.Philox(int(seed)))
        theta[self.word_prior.words] += generator.standard_gamma(self.word_prior.pseudo_counts)
        totals = theta.sum(0, dtype=np.float64)
        if not np.all(totals):
            # A topic without tokens in a small vocabulary: one word, any of them, has nearly all of it.
            empty = np.flatnonzero(totals == 0)
            words = generator.integers(len(theta), size=len(empty))
            theta[words, empty] = totals[empty] = 1
        theta /= totals.astype(np.float32)
        return theta

    def end_pass(self, total: float) -> None:
        """Move θ to the first exact draw, with the θ_k· of the start, and begin the next pass."""
        theta = self.beta_given_pass(total, 0)
        theta *= np.float32(self.start * len(theta))
        self.topics.replace(np.maximum(theta, MIN_THETA, out=theta))
        assert self._pass is not None
        tokens = self._pass.counts.sum(0, dtype=np.int64)
        self.document_prior.end_pass(self._pass.documents, total, self.number, tokens)
        self._pass = None

    def _step_settings(self, documents: Documents, total: float) -> tuple[float, float]:
        """The step size and the friction of the next step."""
        self._length = self._length or documents.tokens / documents.size
        words, topics = self.topics.shape
        rate = total * self._length / topics / (self.start * words)
        h, friction = automatic_settings(self.topics.sampler, rate, self.start)
        if self.step_size is not None:
            h = self.step_size(self.number)
        else:
            exponent_factor = 0.5 if self.topics.sampler in WITH_MOMENTUM else 1.0
            h *= decaying(1.0, c=exponent_factor * _DECAY_POWER)(self.number)
            h *= _STEP_AFTER_ALL ** min(1.0, self._sample_size / total)
        return h, friction if self.friction is None else self.friction

    def beta(self) -> np.ndarray:
        """β (V, K) of the current θ: columns sum to one."""
        theta = self.topics.all_rows()
        return theta / theta.sum(0)

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs."""
        state = self.topics.state() | {
            "length": np.asarray(self._length),
            "usual": np.asarray(self._largest_batch),
            "sample_size": np.asarray(self._sample_size),
        }
        if self._pass is not None:
            state |= {"pass_counts": self._pass.counts, "pass_documents": np.asarray(self._pass.documents)}
        return state | with_prefix("document_prior", self.document_prior.state())

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self._length = float(state["length"])
        self._largest_batch, self._sample_size = int(state["usual"]), int(state["sample_size"])
        self._pass = None
        if "pass_counts" in state:
            self._pass = PassCounts(*self.topics.shape)
            self._pass.counts[:] = state["pass_counts"]
            self._pass.documents = int(state["pass_documents"])
        self.document_prior.restore(without_prefix("document_prior", state))
        self.topics.restore(state)


def local_words(documents: Documents) -> tuple[np.ndarray, Documents]:
    """The distinct words of the documents, and the documents with indices into these as word ids."""
    words, local_ids = np.unique(documents.words, return_inverse=True)
    return words, documents._replace(words=local_ids.astype(np.int32))
