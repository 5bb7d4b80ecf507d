"""What an estimator of topics has learned: the topics, whether to trust them, and documents under them."""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import jax
import numpy as np

from fokker.corpora import Documents
from fokker.diagnostics import Verdict
from fokker.models.estimator import Estimator, Transformer
from fokker.models.fits import as_fitted
from fokker.models.topics._uniform import seed_at
from fokker.models.topics.coherence import MEASURES
from fokker.models.topics.draws import credible_bounds, draws_needed
from fokker.models.topics.evaluate import counts_draw, mixture_draw, mixtures, perplexity
from fokker.models.topics.groups import Bin, TopicGroups
from fokker.models.topics.judgement import (
    judge,
)
from fokker.models.topics.model import top_words
from fokker.models.topics.settings import Settings
from fokker.models.topics.training import Training
from fokker.models.topics.trends import Per, Trends, TrendSums
from fokker.models.topics.weights import CountMatrix, Weights
from fokker.models.topics.wording import FIT, STREAM

# Different from the streams of a chain and of evaluations with the same seed.
ROUNDING = 103
# The words of a topic in a table of trends.
_TREND_WORDS = 6


class LearnedTopics(Transformer, Estimator):
    """The fitted attributes of `fk.models.LDA`, and its methods that apply topics to documents."""

    _training: Training
    _is_stream: bool
    n_components: int
    draws: int
    n_features_in_: int
    feature_names: Sequence[str] | None

    @abstractmethod
    def _settings(self) -> Settings:
        """The settings that the parameters stand for."""

    @abstractmethod
    def _weights(self, X: CountMatrix, reset: bool) -> Weights:
        """The matrix X, checked; `reset`: remember its columns."""

    @property
    def n_documents_seen_(self) -> int:
        """The number of documents that the chain used, in all passes."""
        return self._fitted().documents

    @property
    def n_batch_iter_(self) -> int:
        """The number of minibatches."""
        return self._fitted().chain.number

    def _fitted(self) -> Training:
        self._check_fitted()
        return self._training

    def _stored_draws(self) -> list[np.ndarray]:
        """The stored draws of β (V, K), or the current one if there are none yet."""
        return self._fitted().draws.draws or [self._training.beta()]

    @property
    def components_(self) -> np.ndarray:
        """The posterior mean of β (K, V)."""
        return np.mean(self._stored_draws(), 0).T

    @property
    def draws_(self) -> np.ndarray:
        """The stored draws of β (draws, K, V)."""
        return np.stack(self._stored_draws()).transpose(0, 2, 1)

    @property
    def doc_topic_prior_(self) -> np.ndarray:
        """γ (K,): as given, or the posterior mean of a learned one."""
        return self._fitted().chain.document_prior.mean.copy()

    @property
    def doc_topic_prior_draws_(self) -> np.ndarray:
        """Draws of a learned γ (n, K), one at the end of each exact pass."""
        return self._fitted().chain.document_prior.draws.copy()

    @property
    def topic_names_(self) -> list[str]:
        """The names of the topics: those of `seed_words`, then numbers."""
        return list(self._fitted().settings.topic_names)

    @property
    def perplexity_curve_(self) -> np.ndarray:
        """The perplexity during the fit (n, 3): documents read, of the current draw, of an average of draws.

        It is that of the documents that `validation_fraction` holds out, or of some training documents.
        """
        points = self._fitted().curve.points
        return np.array([(p.documents, p.of_draw, p.of_average) for p in points]).reshape(-1, 3)

    @property
    def verdict_(self) -> Verdict:
        """Problems with the topics, and further notes: `print(lda.verdict_)`."""
        fit = self._fitted().judged(self._stored_draws(), self._feature_names())
        verdict = judge(fit, STREAM if self._is_stream else FIT)
        if fit.are_held_out:
            return verdict
        how = "call perplexity with other documents" if self._is_stream else "set validation_fraction"
        undecided = f"No documents were held out: {how} to judge predictions, which is not done here."
        return dataclasses.replace(verdict, notes=(*verdict.notes, undecided))

    def _feature_names(self) -> list[str]:
        """The words of the columns of X, or their numbers."""
        names = self._column_names()
        return [f"#{w}" for w in range(self.n_features_in_)] if names is None else [str(x) for x in names]

    def _column_names(self) -> Sequence[str] | None:
        """The words of the columns of X: those of a data frame, else the parameter."""
        names: Sequence[str] | None = getattr(self, "feature_names_in_", None)
        return self.feature_names if names is None else names

    @property
    def _n_features_out(self) -> int:
        return int(as_fitted(self).n_components)

    def credible_interval(self, probability: float = 0.9) -> np.ndarray:
        """The bounds (2, K, V) between which β lies with this probability, from the stored draws.

        After `fit` with two or more passes they are those of the posterior (see `exact_passes`). After one
        pass, or `partial_fit`, they have the noise of minibatches and may contain β much less often.

        Bounds of probability p need 2/(1 - p) - 1 draws: the 20 of the default are enough for 0.9, and
        `draws=39` for 0.95. After `partial_fit` there are from half to all of `draws`.
        """
        return np.stack(credible_bounds(self.draws_, self._checked_probability(probability)))

    def _checked_probability(self, probability: float) -> float:
        if not 0 < probability < 1:
            raise ValueError(f"the probability must be between 0 and 1; {probability!r} was given.")
        stored, needed = len(self._stored_draws()), draws_needed(probability)
        if stored >= needed:
            return probability
        # A stream drops every second draw when its store is full.
        wanted = needed if self._training.draws.num_exact_passes else 2 * needed
        advice = f"fit with draws={wanted:,}"
        if (most := self._training.draws.max_draws) < min(wanted, int(self.draws)):
            advice = f"the memory for draws, 1 GiB, holds {most:,} of X with so many columns"
        raise ValueError(
            f"an interval of probability {probability:g} needs {needed:,} stored draws of the topics, and "
            f"there are {stored:,}: {advice}, or ask for a lower probability."
        )

    def show_topics(
        self, n_words: int = 10, feature_names: Sequence[str] | None = None
    ) -> list[list[tuple[str, float]]]:
        """The most probable words of each topic, with their probabilities.

        `feature_names`: the words of the columns of X, by default those of the data frame of `fit`, else
        numbers.
        """
        topics = self.components_
        names = self._feature_names() if feature_names is None else feature_names
        if len(names) != topics.shape[1]:
            raise ValueError(
                f"feature_names has {len(names)} names for the {topics.shape[1]} columns of X: give one per "
                "column."
            )
        return [
            [(str(names[w]), float(topics[k, w])) for w in words]
            for k, words in enumerate(top_words(topics.T, n_words))
        ]

    def coherence(self, X: CountMatrix, measure: str = "npmi", n_words: int = 10) -> np.ndarray:
        """The coherence of each topic (K,) in the documents of X: npmi, c_v or u_mass of its first words."""
        if measure not in MEASURES:
            raise ValueError(f"measure is one of {', '.join(MEASURES)}, not {measure!r}.")
        return MEASURES[measure](self._documents(X), top_words(self.components_.T, n_words))

    def _documents(self, X: CountMatrix) -> Documents:
        """The documents of X, as counts."""
        self._check_fitted()
        weights = self._weights(X, reset=False)
        return weights.counts(seed_at(jax.random.key(self._seed + ROUNDING), 0))

    def transform(self, X: CountMatrix) -> np.ndarray:
        """E[π_d] of each document (D, K), averaged over the draws of the topics.

        That of a document does not depend on the other documents of X.
        """
        self._check_fitted()
        return np.mean(self._at_draws(partial(mixtures, burn_in=self._settings().burn_in), X), 0)

    def mixture_interval(self, X: CountMatrix, probability: float = 0.9) -> np.ndarray:
        """The bounds (2, D, K) between which the topic proportions π_d lie with this probability.

        For each stored draw of the topics they are drawn given the words of the document; how many draws a
        probability needs is said at `credible_interval`. Those of a document do not depend on the others.
        """
        self._check_fitted()
        probability = self._checked_probability(probability)
        return np.stack(credible_bounds(np.stack(self._at_draws(mixture_draw, X)), probability))

    def _at_draws(self, function: Callable[..., np.ndarray], X: CountMatrix) -> list[np.ndarray]:
        """A function of documents and topics at each stored draw of the topics."""
        draws, settings = self._stored_draws(), self._settings()
        weights = self._weights(X, reset=False)
        rounding = jax.random.key(self._seed + ROUNDING)
        return [
            function(
                weights.counts(seed_at(rounding, i)),
                beta,
                self.doc_topic_prior_,
                self._seed + i,
                sweeps=settings.sweeps,
                threads=settings.num_threads,
            )
            for i, beta in enumerate(draws)
        ]

    def trends(
        self,
        X: CountMatrix,
        groups: Sequence[object],
        *,
        by: str = "group",
        bin: Bin | None = None,
        per: Per = "words",
        sampling: bool = True,
        probability: float = 0.9,
    ) -> Trends:
        """The prevalence of the topics in groups of documents, such as years, with intervals.

        Args:
            X: the documents.
            groups: one value per document: a year, a date, a name; None or NaN where it is not known.
            by: what the groups are called in tables.
            bin: "year", "month" or "day" of values that are dates; None takes them as they are.
            per: "words", the share of a topic in all words of a group; "documents", the mean of its shares.
            sampling: whether the intervals include the sampling of documents besides the posterior. Without
                it they are of these documents alone.
            probability: that of the intervals, and of no clear difference by chance.

        Returns:
            `Trends` with `groups`, `documents` per group, `mean`, `low`, `high` (G, K), and `num_clear`, how
                many topics differ clearly between groups.

        ```python
        trends = lda.trends(X, years, by="year")
        trends.mean[:, 3], trends.low[:, 3], trends.high[:, 3]
        ```
        """
        self._check_fitted()
        of_documents = TopicGroups.of(groups, by, bin)
        if len(of_documents.codes) != (rows := X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))):
            raise ValueError(
                f"groups has {len(of_documents.codes):,} values for the {rows:,} rows of X: give one per row."
            )
        counts = self._at_draws(counts_draw, X)
        sums = TrendSums(
            of_documents,
            len(self.topic_names_),
            len(counts),
            per=per,
            sampling=sampling,
            probability=probability,
            seed=self._seed,
        )
        for draw, of_draw in enumerate(counts):
            sums.add(draw, of_documents.codes, of_draw)
        words = self.show_topics(_TREND_WORDS)
        return sums.result(
            tuple(self.topic_names_), tuple(tuple(word for word, _ in topic) for topic in words)
        )

    def perplexity(self, X: CountMatrix) -> float:
        """The perplexity of half of the words of each document given the other half, averaged over the draws.

        It differs from the bound of scikit-learn; to compare both, use
        `fokker.models.topics.evaluate.perplexity`.
        """
        draws = self._stored_draws()
        return perplexity(
            self._documents(X), draws, self.doc_topic_prior_, self._seed, self._settings().num_threads
        )

    def score(self, X: CountMatrix, y: object = None) -> float:
        """The mean log probability of a held-out word: -log of the perplexity."""
        return -float(np.log(self.perplexity(X)))
