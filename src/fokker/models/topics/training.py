"""A chain over topics with all that is learned and judged: `fokker lda` and `fk.models.LDA` both feed it."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fokker.corpora import Documents
from fokker.models.named_arrays import with_prefix, without_prefix
from fokker.models.topics._expected import ExpectedCounts
from fokker.models.topics.chain import TopicChain
from fokker.models.topics.curve import PerplexityCurve
from fokker.models.topics.draws import TopicDraws
from fokker.models.topics.evaluate import HeldOut
from fokker.models.topics.exact import ROUNDS
from fokker.models.topics.judgement import SAMPLE_DOCUMENTS, Fit
from fokker.models.topics.settings import Settings
from fokker.models.topics.share import GatheredRows, share_of
from fokker.models.topics.start import is_enough
from fokker.models.topics.word_prior import WordPrior


class Training:
    """The chain, its stored draws, its evaluations, and what of the documents a judgement looks at.

    `documents`: how many the chain used, those of later passes again. `sample`: the first of them, in which
    words are measured. `held_out`: how many to hold out from a stream. `has_all`: with several processes,
    whether each stores the draws of all topics, and not only those of its own.
    """

    def __init__(
        self, settings: Settings, words: int, word_prior: WordPrior, *, held_out: int = 0, has_all: bool
    ) -> None:
        self.settings, self._has_all = settings, has_all
        self.share = share_of(settings.topics, settings.sampler)
        self.chain = TopicChain.of(settings, words, self.share, word_prior)
        self.draws = TopicDraws(words, settings.topics, settings.draws)
        self.curve = PerplexityCurve(held_out, settings.seed, settings.num_threads, self.share)
        self.documents = 0
        self.word_counts = np.zeros(words, np.int64)
        self.sample = Documents.concatenate([])

    def go_on_with(self, settings: Settings) -> None:
        """Use other settings from now on, of which those of `MAY_CHANGE` alone differ."""
        self.settings = settings
        self.chain.use(settings.num_threads, settings.sweeps, settings.burn_in)
        self.curve.use_threads(settings.num_threads)

    def train(
        self, documents: Documents, total: float, *, is_exact: bool, is_new: bool, seconds: float
    ) -> ExpectedCounts:
        """Step with a minibatch of `total` documents, or count it in an exact pass.

        `is_new`: whether these documents come for the first time.
        """
        self.documents += documents.size
        expected = self.chain.count(documents) if is_exact else self.chain.step(documents, total)
        if is_new:
            # The same documents again would seem to be evidence.
            np.add.at(self.word_counts, documents.words, documents.counts)
            if not np.any(is_enough(self.sample.lengths, SAMPLE_DOCUMENTS)):
                self.sample = Documents.concatenate([self.sample, documents])
        if not is_exact:
            self.draws.offer(self.chain.number, self.beta)
            if self.curve.is_due(self.chain.number, self.settings.batch):
                self._evaluate(self.chain.own_beta(), seconds)
        return expected

    def end_exact_pass(
        self,
        number: int,
        num_exact: int,
        total: float,
        seconds: float,
        show: Callable[[int, int], None] = lambda number, rounds: None,
    ) -> None:
        """Store and evaluate draws of the exact pass `number` of so many, and move the topics to the last.

        Where it is the only one, there are as many rounds before the first draw as between all of them:
        otherwise the passes without draws are these. `show`: called before each round with its number, and
        that of all of them.
        """
        num_draws = self.draws.num_of_pass(number, num_exact)
        gap = max(1, ROUNDS // max(1, num_draws))
        num_before = ROUNDS if num_exact == 1 or not num_draws else 0
        num_rounds = num_before + num_draws * gap

        def redraw(until: int) -> None:
            while self.chain.num_rounds < until:
                show(self.chain.num_rounds, num_rounds)
                self.chain.redraw_pass(total)

        def drawn(draw: int) -> np.ndarray:
            redraw(num_before + (draw + 1) * gap)
            beta = self.chain.own_beta_given_pass(total)
            self._evaluate(beta, seconds, is_exact=True)
            return self.share.all_topics(beta) if self._has_all else beta

        redraw(num_before)
        self.draws.offer_pass(self.chain.number, number, num_exact, drawn, self.chain.has_moved)
        self.chain.end_pass(total)
        if not num_draws:
            self._evaluate(self.chain.own_beta(), seconds, is_exact=True)

    def beta(self) -> np.ndarray:
        """The current β, as it is stored."""
        return self.chain.beta() if self._has_all else self.chain.own_beta()

    def _evaluate(self, own_beta: np.ndarray, seconds: float, is_exact: bool = False) -> None:
        self.curve.evaluate(
            GatheredRows(own_beta, self.share),
            self.chain.gamma,
            documents=self.documents,
            seconds=seconds,
            is_exact=is_exact,
        )

    def judged(
        self,
        draws: np.ndarray | Sequence[np.ndarray],
        vocabulary: Sequence[str],
        show: Callable[[int], None] = lambda number: None,
    ) -> Fit:
        """What a judgement looks at, given all topics of the stored draws, and the words.

        `show`: called with the number of draws that are evaluated.
        """
        settings, prior = self.settings, self.chain.document_prior
        evaluated = None
        if self.curve.held_out is not None:
            evaluated = HeldOut(self.curve.documents, settings.seed, settings.num_threads)
            for number, beta in enumerate(draws):
                show(number)
                evaluated.add(beta, prior.mean)
        # In the held-out documents alone even good topics have words that never occur together.
        is_part = self.curve.is_held_out or not self.sample.size
        measured = [evaluated.documents] if is_part and evaluated is not None else []
        return Fit(
            draws=draws,
            num_exact_passes=self.draws.num_exact_passes,
            num_assignments=self.draws.num_assignments,
            prior=prior,
            vocabulary=vocabulary,
            # A seed may be the number of a word.
            seed_words={
                str(name): [str(word) if isinstance(word, str) else vocabulary[word] for word in words]
                for name, words in (settings.seed_words or {}).items()
            },
            topic_names=settings.topic_names,
            curve=self.curve.points,
            evaluated=evaluated,
            are_held_out=self.curve.is_held_out,
            reference=Documents.concatenate([*measured, self.sample]),
            word_counts=self.word_counts,
        )

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that a resumed run needs, with the names of the documents of the curve."""
        chain = self.chain.state_of_all_topics() if self._has_all else self.chain.state()
        return {
            **with_prefix("chain", chain),
            **with_prefix("draws", self.draws.state()),
            **self.curve.state(),
            # Without their names, which nothing needs.
            **with_prefix("sample", self.sample.arrays()),
            "word_counts": self.word_counts,
        }

    def restore(self, arrays: Mapping[str, np.ndarray], documents: int, names: Sequence[str]) -> None:
        """Restore a `state` after so many documents; `names`: of the documents of the curve."""
        restore = self.chain.restore_all_topics if self._has_all else self.chain.restore
        restore(without_prefix("chain", arrays))
        self.draws.restore(without_prefix("draws", arrays))
        self.curve.restore(arrays, names)
        if sample := without_prefix("sample", arrays):  # older files of estimators have none
            self.sample = Documents.from_arrays(sample["indptr"], sample["words"], sample["counts"])
        self.word_counts = np.array(arrays["word_counts"])
        self.documents = documents
