"""The chain over topics: each minibatch gives one step of θ, or each pass an exact draw of it."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import jax
import numpy as np

from fokker._core.random import fold_in
from fokker.corpora import Documents
from fokker.models.named_arrays import with_prefix, without_prefix
from fokker.models.topics import gibbs, gibbs_jax
from fokker.models.topics._expected import ExpectedCounts, averaged
from fokker.models.topics._sums import column_sums
from fokker.models.topics._uniform import seed_at
from fokker.models.topics.cir import MIN_THETA
from fokker.models.topics.collapsed import local_words, topics_of_documents
from fokker.models.topics.document_prior import DocumentPrior
from fokker.models.topics.exact import PassCounts
from fokker.models.topics.learned_prior import LearnedPrior
from fokker.models.topics.samplers import make_topics
from fokker.models.topics.settings import WITH_MOMENTUM, Settings
from fokker.models.topics.share import Share
from fokker.models.topics.start import CHAINS, first_topics
from fokker.models.topics.step_size import DECAY_POWER, Schedule, automatic_settings, decaying
from fokker.models.topics.word_prior import WordPrior

# The arrays of a `TopicChain.state` whose last axis runs over the topics of a share.
BY_TOPIC = ("theta", "r", "totals", "rate", "time", "pass_counts")
# Those whose names begin with this are with the first process only.
OF_FIRST = "assignments."
# The words of which θ is drawn at a time at the start.
_WORDS_PER_PART = 4096
# Independent random streams of a chain.
_START, _SWEEPS, _TOPICS, _SAMPLE, _EXACT, _PRIOR = range(6)
# The bits of the number of a minibatch, above which is that of a draw of its pass.
_DRAW_BITS = 40
# After a start from all documents there is nothing left to learn from them, and a large step only adds the
# noise of minibatches, which removes the smallest topics. This is the factor of the step then.
_STEP_AFTER_ALL = 0.2


class TopicChain:
    """θ, and the sweeps over documents that move it.

    `step` moves θ by one step of the sampler with each minibatch. For exact draws give all minibatches of a
    pass to `count`, which leaves θ as it is, then call `end_pass`.

    The state after t minibatches depends only on the seed and the minibatches. A `step_size` or `friction` of
    None takes that of `automatic_settings`; the step then decays as in Patterson and Teh.

    With a `share`, this process has some of the topics and sweeps over some of the documents. All processes
    then make the same calls; the methods whose names begin with `own` give what is here.
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
        share: Share | None = None,
    ) -> None:
        key = jax.random.key(seed)
        self.share = share = share or Share(topics)
        self.word_prior = alpha if isinstance(alpha, WordPrior) else WordPrior.symmetric(alpha, topics)
        self._own_word_prior = self.word_prior.columns(range(share.own.start, share.own.stop))
        self.document_prior = LearnedPrior(DocumentPrior.of(gamma, topics), fold_in(key, _PRIOR))
        self.step_size, self.friction, self.start = step_size, friction, start
        self.sweeps, self.burn_in, self.threads, self.engine = sweeps, burn_in, threads, engine
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
        theta = np.empty((words, share.own.stop - share.own.start), np.float32)
        for first in range(0, words, _WORDS_PER_PART):
            # Of all topics, so that they do not depend on which of them are here.
            part = theta[first : first + _WORDS_PER_PART]
            part[:] = generator.standard_gamma(start, (len(part), topics), dtype=np.float32)[:, share.own]
        # Random topics with pseudo-counts have more of these words.
        self._add_pseudo_counts(theta, generator)
        np.maximum(theta, MIN_THETA, out=theta)
        self.topics = make_topics(
            sampler, theta, self.word_prior.alpha, fold_in(key, _TOPICS), threads, start, share
        )

    @classmethod
    def of(
        cls, settings: Settings, words: int, share: Share | None = None, word_prior: WordPrior | None = None
    ) -> Self:
        """A new chain over topics of this many words, or over the topics of a share.

        By default it has the prior `alpha` of all words.
        """
        if settings.topics > words:
            noun = "word" if words == 1 else "words"
            raise ValueError(
                f"topics={settings.topics} is more than the {words} {noun} of the vocabulary, and topics of "
                "so few words cannot all differ: take fewer topics, or a corpus with more words."
            )
        step = settings.step
        return cls(
            words,
            settings.topics,
            sampler=settings.sampler,
            alpha=word_prior or settings.word_prior(words, None),
            gamma=settings.gamma,
            step_size=None if step is None else decaying(step, settings.decay_after, settings.decay_power),
            start=settings.start,
            friction=settings.friction,
            sweeps=settings.sweeps,
            burn_in=settings.burn_in,
            threads=settings.num_threads,
            engine=settings.engine,
            seed=settings.seed,
            share=share,
        )

    def use(self, threads: int, sweeps: int, burn_in: int) -> None:
        """Use so many threads and sweeps from now on."""
        self.sweeps, self.burn_in, self.threads = sweeps, burn_in, threads
        self.topics.threads = threads

    def _add_pseudo_counts(self, theta: np.ndarray, generator: np.random.Generator) -> None:
        """Add Gamma(δ_kw) to θ of the topics here: the sum of Gamma(a) and Gamma(δ) is Gamma(a + δ)."""
        drawn = generator.standard_gamma(self.word_prior.pseudo_counts)
        theta[self.word_prior.words] += drawn[:, self.share.own]

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

    def start_from(
        self, documents: Documents, show: Callable[[int, int], None] = lambda completed, total: None
    ) -> None:
        """Replace θ by a draw given the topics that `start.first_topics` finds in these documents.

        `show`: called with the number of sweeps so far and in all.

        θ_kw ~ Gamma(α + δ_kw + n_kw, 1), scaled to the θ_k· of a random start: β does not depend on θ_k·.
        """
        V, _ = self.topics.shape
        alpha = self.topics.alpha
        seeds = [int(seed_at(self._sample_key, number)) for number in range(CHAINS + 1)]
        counts, by_document, document_prior = first_topics(
            documents,
            V,
            self.word_prior,
            self.document_prior.prior,
            seeds[1:],
            self.threads,
            self.share,
            show,
        )
        self.document_prior.start_from(document_prior, by_document)
        generator = np.random.Generator(np.random.Philox(seeds[0]))
        # In parts and in place of the counts: there may be gigabytes of them.
        for first in range(0, V, _WORDS_PER_PART):
            part = counts[first : first + _WORDS_PER_PART]
            part[:] = generator.standard_gamma(part + np.float64(alpha))
        counts = np.ascontiguousarray(counts[:, self.share.own])
        counts *= (self.start * V / column_sums(counts)).astype(np.float32)
        self.topics.replace(np.maximum(counts, MIN_THETA, out=counts))
        self._sample_size = documents.size

    def expect(self, documents: Documents, sample: bool = False) -> tuple[np.ndarray, ExpectedCounts]:
        """The words of the minibatch, and the expected counts of each topic here under the current θ.

        With `sample`, the counts of one draw of the topics of the words take the place of the expected ones.
        These topics, one per token, are then `z`, and also where γ is learned.
        """
        words, local = local_words(documents)
        own_beta = self.topics.rows(words) / self.topics.totals.astype(np.float32)
        beta = self.share.all_topics(own_beta)
        dealt = self.share.deal(local.lengths)
        part = local if len(dealt) == local.size else local.select(dealt)
        z = np.empty(part.tokens, np.int32) if sample or self.document_prior.is_learned else None
        sweeps, burn_in = self.sweeps, self.burn_in
        if self.engine == "jax":
            sweeps, burn_in = gibbs_jax.SWEEPS * sweeps, gibbs_jax.SWEEPS * burn_in
            counts, mixtures = gibbs_jax.topic_counts(
                fold_in(self._key, self.number),
                part.indptr,
                part.words,
                part.counts,
                beta,
                self.gamma,
                sweeps,
                burn_in,
                dealt,
                sample=sample,
                assignments=z,
            )
        else:
            counts, mixtures = gibbs.topic_counts(
                part,
                beta,
                self.gamma,
                seed_at(self._key, self.number),
                sweeps=sweeps,
                burn_in=burn_in,
                threads=self.threads,
                sample=sample,
                identities=dealt,
                assignments=z,
            )
        num_sweeps = sweeps - burn_in
        counts, mixtures, z = self.share.total(counts, mixtures, dealt, local, num_sweeps, z)
        return words, averaged(counts, mixtures, num_sweeps, sample, z)

    def step(self, documents: Documents, total: float) -> ExpectedCounts:
        """One step with a minibatch of a corpus of `total` documents: |S|/|S̃| = total/size."""
        self._pass = None
        words, expected = self.expect(documents)
        data_weight = total / documents.size
        h, friction = self._step_settings(documents, total)
        # Each document of a smaller minibatch has a larger weight: such a minibatch takes a smaller step.
        self._largest_batch = max(self._largest_batch, documents.size)
        h *= documents.size / self._largest_batch
        words, counts = self._own_word_prior.added_to(words, expected.counts * np.float32(data_weight))
        self.topics.step(words, counts, h, friction, data_weight)
        if self.document_prior.is_learned:
            counts = topics_of_documents(documents, expected.z, self.share.topics)
            self.document_prior.step(counts, total, self.number)
        return expected

    def count(self, documents: Documents) -> ExpectedCounts:
        """Draw the topics of the words of a minibatch and add them to the counts of an exact pass."""
        words, expected = self.expect(documents, sample=True)
        if self._pass is None:
            self._pass = PassCounts(self.topics.shape[0], self.share)
        self._pass.add(words, expected.counts, documents.size)
        self._pass.keep(documents, expected.z)
        self.topics.number += 1
        if self.document_prior.is_learned:
            self.document_prior.count(topics_of_documents(documents, expected.z, self.share.topics))
        return expected

    @property
    def num_rounds(self) -> int:
        """The rounds of the pass so far."""
        assert self._pass is not None, "an exact draw needs the counts of a pass: call count first"
        return self._pass.num_rounds

    def redraw_pass(self, total: float) -> None:
        """One round: draw a learned γ, then the topics of all words of the pass, with β integrated out."""
        number = self.num_rounds
        assert self._pass is not None
        data_weight = total / self._pass.documents
        self._draw_gamma(total, number)
        # With documents of this weight β given z has the mean (α + δ_kw + w n_kw)/(Vα + δ_k· + w n_k·).
        prior = self.word_prior.divided_by(data_weight)
        self._pass.redraw(prior, self.gamma, ~self._exact_seed(number), self.threads)

    def has_moved(self) -> bool:
        """Whether a word has changed its topic in the rounds since this was last asked."""
        assert self._pass is not None
        has_moved, self._pass.has_moved = self._pass.has_moved, False
        return has_moved

    def _exact_seed(self, number: int) -> np.uint64:
        return seed_at(self._exact_key, (self.number << 16) + number)

    def own_beta_given_pass(self, total: float, out: np.ndarray | None = None) -> np.ndarray:
        """An exact draw of β (V, own topics) given the topics of all words; `total` as in `step`.

        The same again before the next round. `out`: memory for it.

        Where θ is smaller than the smallest number of the chain, β is zero: bounds of words that a topic does
        not use then begin at zero.
        """
        seed = self._exact_seed(max(0, self.num_rounds - 1))
        assert self._pass is not None
        data_weight = total / self._pass.documents
        theta = self._pass.draw(self.topics.alpha, data_weight, seed, self.threads, out)
        generator = np.random.Generator(np.random.Philox(int(seed)))
        self._add_pseudo_counts(theta, generator)
        totals = column_sums(theta)
        if not np.all(totals):
            # A topic without tokens in a small vocabulary: one word, any of them, has nearly all of it.
            empty = np.flatnonzero(totals == 0)
            words = generator.integers(len(theta), size=self.share.topics)[self.share.own]
            theta[words[empty], empty] = totals[empty] = 1
        theta /= totals.astype(np.float32)
        return theta

    def _draw_gamma(self, total: float, number: int) -> None:
        """Draw γ given the topics of all words of the pass, before these are redrawn."""
        assert self._pass is not None
        if not self.document_prior.is_learned:
            return
        if self._pass.num_rounds and (above := self._pass.counts_above()) is not None:
            self.document_prior.recount(above)
        if self.document_prior.is_counted:
            tokens = self.share.all_topics(self._pass.counts.sum(0, dtype=np.int64))
            number = self.number + (number << _DRAW_BITS)
            self.document_prior.end_pass(self._pass.documents, total, number, tokens)

    def end_pass(self, total: float) -> None:
        """Move θ to an exact draw, with the θ_k· of the start, and begin the next pass."""
        if not self.num_rounds:
            self.redraw_pass(total)
        theta = self.own_beta_given_pass(total, self.topics.memory)
        theta *= np.float32(self.start * len(theta))
        self.topics.replace(np.maximum(theta, MIN_THETA, out=theta))
        self._pass = None

    def _step_settings(self, documents: Documents, total: float) -> tuple[float, float]:
        """The step size and the friction of the next step."""
        self._length = self._length or documents.tokens / documents.size
        words, topics = self.topics.shape[0], self.share.topics
        rate = total * self._length / topics / (self.start * words)
        h, friction = automatic_settings(self.topics.sampler, rate, self.start)
        if self.step_size is not None:
            h = self.step_size(self.number)
        else:
            exponent_factor = 0.5 if self.topics.sampler in WITH_MOMENTUM else 1.0
            h *= decaying(1.0, c=exponent_factor * DECAY_POWER)(self.number)
            h *= _STEP_AFTER_ALL ** min(1.0, self._sample_size / total)
        return h, friction if self.friction is None else self.friction

    def beta(self) -> np.ndarray:
        """β (V, K) of the current θ: columns sum to one."""
        return self.share.all_topics(self.own_beta())

    def own_beta(self) -> np.ndarray:
        """The columns of β of the topics that are here."""
        theta = self.topics.all_rows()
        # Arrays of JAX may have their columns one after the other, and sums along rows another rounding.
        return np.ascontiguousarray(theta / column_sums(theta).astype(np.float32))

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs; those named in `BY_TOPIC` of the topics that are here."""
        state = self.topics.state() | {
            "length": np.asarray(self._length),
            "usual": np.asarray(self._largest_batch),
            "sample_size": np.asarray(self._sample_size),
        }
        if self._pass is not None:
            state |= {"pass_counts": self._pass.counts, "pass_documents": np.asarray(self._pass.documents)}
            if self._pass.assignments is not None:
                state["assignments_bytes"] = np.asarray(self._pass.assignments.num_bytes)
                state |= with_prefix("assignments", self._pass.assignments.state())
        return state | with_prefix("document_prior", self.document_prior.state())

    def state_of_all_topics(self) -> dict[str, np.ndarray]:
        """As `state`, with all topics, in all processes."""
        return {name: self.share.all_topics(x) if name in BY_TOPIC else x for name, x in self.state().items()}

    def restore_all_topics(self, state: dict[str, Any]) -> None:
        """Restore a `state_of_all_topics`, of which this process takes its own topics."""
        self.restore({name: x[..., self.share.own] if name in BY_TOPIC else x for name, x in state.items()})

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state`."""
        self._length = float(state["length"])
        self._largest_batch, self._sample_size = int(state["usual"]), int(state["sample_size"])
        self._pass = None
        if "pass_counts" in state:
            self._pass = PassCounts(self.topics.shape[0], self.share)
            self._pass.counts[:] = state["pass_counts"]
            self._pass.documents = int(state["pass_documents"])
            if "assignments_bytes" in state:
                assert self._pass.assignments is not None
                num_bytes = int(state["assignments_bytes"])
                self._pass.assignments.restore(without_prefix("assignments", state), num_bytes)
            else:
                self._pass.assignments = None
        self.document_prior.restore(without_prefix("document_prior", state))
        self.topics.restore(state)
