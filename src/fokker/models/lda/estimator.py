"""`fk.models.LDA`: topics with the interface of scikit-learn."""

import dataclasses
import numbers
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import jax
import numpy as np

from fokker.corpora import Documents
from fokker.models.estimator import Stored
from fokker.models.lda._scikit_learn import Base, NotFittedError, validated
from fokker.models.lda._uniform import seed_at
from fokker.models.lda.chain import TopicChain
from fokker.models.lda.coherence import MEASURES
from fokker.models.lda.draws import TopicDraws, credible_bounds, draws_needed
from fokker.models.lda.estimator_curve import Curve
from fokker.models.lda.estimator_parameters import checked_settings, new_seed, num_threads, word_prior
from fokker.models.lda.evaluate import mixture_draw, mixtures, perplexity
from fokker.models.lda.files import with_prefix, without_prefix
from fokker.models.lda.judgement import FIT, STREAM, Fit, Verdict, judge
from fokker.models.lda.model import top_words
from fokker.models.lda.settings import Settings, default_passes
from fokker.models.lda.share import share_of
from fokker.models.lda.start import is_enough
from fokker.models.lda.weights import Weights
from fokker.run.processes import together

# Different from the streams of a chain and of evaluations with the same seed.
_ROUNDING = 103
# What a fitted estimator has besides its parameters and what `save` stores in arrays.
_FITTED = (
    "n_features_in_",
    "n_documents_seen_",
    "n_batch_iter_",
    "_seed",
    "_passes_made",
    "_num_documents",
    "_is_stream",
)


class LDA(Stored, Base):
    r"""Latent Dirichlet allocation by stochastic-gradient MCMC, one minibatch after another.

        β_k ~ Dirichlet(α),  π_d ~ Dirichlet(γ),  a word of document d: z ~ π_d, w ~ β_z

    X is a matrix of counts with one row per document and one column per word, as from CountVectorizer, sparse
    or dense. θ, with β_kw = θ_kw/θ_k·, is moved by `sampler` (sgrhmc, sgrld, scir, sghmc, sgld) given the
    topics of the words of a minibatch, drawn by Gibbs sweeps (Patterson and Teh 2013; Ma et al. 2015, section
    4.2). Weights that are no whole numbers are rounded up or down at random, differently in each pass, so
    that their expectation is right; `fit` warns of them, because tf-idf weights are not counts.

    ```python
    topics = make_pipeline(CountVectorizer(stop_words="english"), fk.models.LDA(20)).fit(texts)
    lda = fk.models.LDA(50)
    for X in stream:
        lda.partial_fit(X)
    lda.components_, lda.credible_interval(0.9), lda.transform(X), lda.perplexity(held_out)
    lda.show_topics(10, feature_names=vectorizer.get_feature_names_out()), print(lda.verdict_)
    ```

    `topic_word_prior` is α: a number, one per word (V,), or one per topic and word (K, V). `doc_topic_prior`
    is γ: a number, one per topic, or how it is learned: "symmetric", one number for all topics; "asymmetric",
    one per topic; "hdp", one per topic with only as many topics in use as the documents need, at most
    `n_components` (`fokker.models.lda.document_prior`). `seed_words`: {name: [word, …]} for the first topics;
    each word has `seed_weight` pseudo-counts in its topic. A word is a name of a column of X, by its data
    frame or by `feature_names`, or the number of a column. `total_samples` is |S|, the number of documents.
    By default it is the number of rows of X for `fit`, and the number of documents read so far for
    `partial_fit`. A `step_size` or `friction` of None is chosen according to |S|. `passes` is the number of
    passes over X in `fit`, None for enough to read 20,000 documents. `start_documents`: in `fit` the topics
    start from a collapsed Gibbs chain over this many documents of X (`fokker.models.lda.start`), 0 for random
    topics. `partial_fit` starts from random topics. `draws` is the number of stored draws of the topics,
    spaced over the second half of the chain. `exact_passes` are the last passes of `fit`, without the noise
    of minibatches: from them come the draws. None takes half of the passes. `validation_fraction`: the share
    of the documents of `fit` that are only evaluated. `n_jobs`: threads; None or -1 for all processors.
    `random_state`: a seed, a RandomState or a Generator to draw one from, or None for another one in each
    fit. `verbose`: show the progress.

    After `fk.processes.start` all processes call `fit` with the same X and divide the work. All have the same
    result, that of one process.

    After fitting: `components_` (K, V), the posterior mean of β (rows sum to one; scikit-learn's are counts);
    `draws_` (draws, K, V); `n_documents_seen_`, `n_batch_iter_`, `doc_topic_prior_`, `topic_names_`;
    `doc_topic_prior_draws_` (n, K), a learned γ after each exact pass; `perplexity_curve_`, the perplexity
    during the fit, and `verdict_`, whether to trust the topics.
    """

    _kind = "fitted LDA"
    # The keys of a chain cannot be copied: it is built again from its arrays.
    _rebuilt = ("_chain", "_draws", "_curve", "_word_counts")

    def __init__(
        self,
        n_components: int = 50,
        *,
        sampler: str = "sgrhmc",
        topic_word_prior: float | Sequence[Any] = 0.01,
        doc_topic_prior: float | Sequence[float] | str = "asymmetric",
        seed_words: Mapping[str, Sequence[str | int]] | None = None,
        seed_weight: float = 100.0,
        feature_names: Sequence[str] | None = None,
        batch_size: int = 50,
        passes: int | None = None,
        exact_passes: int | None = None,
        start_documents: int = 2000,
        total_samples: int | None = None,
        sweeps: int = 50,
        burn_in: int = 25,
        step_size: float | None = None,
        friction: float | None = None,
        draws: int = 20,
        validation_fraction: float = 0.0,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.sampler = sampler
        self.topic_word_prior = topic_word_prior
        self.doc_topic_prior = doc_topic_prior
        self.seed_words = seed_words
        self.seed_weight = seed_weight
        self.feature_names = feature_names
        self.batch_size = batch_size
        self.passes = passes
        self.exact_passes = exact_passes
        self.start_documents = start_documents
        self.total_samples = total_samples
        self.sweeps = sweeps
        self.burn_in = burn_in
        self.step_size = step_size
        self.friction = friction
        self.draws = draws
        self.validation_fraction = validation_fraction
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # Fitting.

    @together()
    def fit(self, X: Any, y: Any = None) -> Self:
        """Start a new chain and pass over X in minibatches, in an order drawn with the seed; y is ignored."""
        weights = Weights.of(validated(self, X, reset=True))
        settings = self._start_chain()
        _check_weights(weights)
        generator = np.random.Generator(np.random.Philox(self._seed))
        # Documents without words are in no minibatch, and |S| does not count them.
        indices = np.flatnonzero(weights.has_words)
        num_held_out = int(self.validation_fraction * len(indices))
        if num_held_out:
            order = generator.permutation(len(indices))
            held_out, indices = indices[order[:num_held_out]], np.sort(indices[order[num_held_out:]])
            self._curve.start(self._counts(weights).select(held_out), self._seed, num_threads(self.n_jobs))
            self._curve.is_held_out = True
        self._num_documents = len(indices)
        passes = default_passes(len(indices)) if self.passes is None else int(self.passes)
        num_exact = settings.num_exact_passes(passes)
        for number in range(passes):
            documents = self._counts(weights).select(indices[generator.permutation(len(indices))])
            if number == 0 and settings.start_documents and documents.tokens:
                is_surplus = np.cumsum(is_enough(documents.lengths, settings.start_documents)) > 1
                self._start(documents.select(~is_surplus))
            is_exact = number >= passes - num_exact
            seconds = self._steps(documents, len(indices), passes * len(indices), is_exact)
            if is_exact and self._chain.is_counting:
                self._end_exact_pass(number - passes + num_exact, num_exact, len(indices))
                self._curve.evaluate(self._chain, self.n_documents_seen_, seconds, is_exact=True)
        return self

    def _start(self, documents: Documents) -> None:
        """Find the first topics in these documents."""
        from fokker.run.progress import Progress

        with Progress("finding the first topics", unit="sweeps", enabled=bool(self.verbose)) as progress:
            self._chain.start_from(documents, lambda done, total: progress.update(done, total=total))

    def _end_exact_pass(self, number: int, num_exact: int, num_documents: int) -> None:
        """Store exact draws, and move the topics to one of them."""
        total = self.total_samples or num_documents
        self._draws.offer_pass(
            self._chain.number, number, num_exact, lambda draw: self._chain.beta_given_pass(total, draw)
        )
        self._chain.end_pass(total)

    @together()
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continue with the documents of X, in minibatches in their order; y is ignored."""
        is_first = not hasattr(self, "_chain")
        weights = Weights.of(validated(self, X, reset=is_first))
        if is_first:
            self._start_chain()
            _check_weights(weights)
        self._is_stream = True
        self._steps(self._counts(weights).select(weights.has_words), None, None, is_exact=False)
        return self

    def _start_chain(self) -> Settings:
        words = self.n_features_in_
        self._seed = new_seed(self.random_state)
        settings = checked_settings(self, words, self._seed)
        self._chain: TopicChain = self._new_chain(settings)
        self._draws = TopicDraws(words, settings.topics, int(self.draws))
        self._curve = Curve()
        self._word_counts = np.zeros(words, np.int64)
        self.n_documents_seen_ = 0
        self.n_batch_iter_ = 0
        self._passes_made = 0
        # |S| of partial_fit: the documents of fit count once, whatever the passes.
        self._num_documents = 0
        # Whether partial_fit came last.
        self._is_stream = False
        return settings

    def _new_chain(self, settings: Settings) -> TopicChain:
        words = self.n_features_in_
        share = share_of(settings.topics, settings.sampler)
        return settings.chain(words, share, word_prior(self, settings, words))

    def _counts(self, weights: Weights) -> Documents:
        """The documents as whole counts; weights are rounded differently in each call."""
        self._passes_made += 1
        return weights.counts(seed_at(jax.random.key(self._seed + _ROUNDING), self._passes_made))

    def _steps(
        self, documents: Documents, num_documents: int | None, end: int | None, is_exact: bool
    ) -> float:
        """Step with the documents, or count them in an exact pass, and return the seconds."""
        from fokker.run.progress import Progress

        if not documents.size:
            raise ValueError("no document of X has a word: are the counts all zero?")
        if self._curve.held_out is None:
            self._curve.start(documents, self._seed, num_threads(self.n_jobs))
        started = time.monotonic()
        with Progress(
            "learning topics",
            end or self.n_documents_seen_ + documents.size,
            unit="documents",
            completed=self.n_documents_seen_,
            enabled=bool(self.verbose),
        ) as progress:
            for batch in _minibatches(documents, int(self.batch_size)):
                self.n_documents_seen_ += batch.size
                if num_documents is None:
                    self._num_documents += batch.size
                if batch.tokens and is_exact:
                    self._chain.count(batch)
                elif batch.tokens:
                    self._chain.step(batch, self.total_samples or num_documents or self._num_documents)
                np.add.at(self._word_counts, batch.words, batch.counts)
                if num_documents is None or self.n_documents_seen_ <= num_documents:
                    # Not in later passes: the same documents again would seem to be evidence.
                    self._curve.add_to_sample(batch)
                self.n_batch_iter_ = self._chain.number
                seconds = time.monotonic() - started
                if not is_exact:
                    self._draws.offer(self._chain.number, self._chain.beta)
                    self._curve.offer(self._chain, self.n_documents_seen_, seconds, batch.size)
                note = f"perplexity {self._curve.points[-1].of_draw:,.0f}" if self._curve.points else ""
                progress.update(self.n_documents_seen_, note=note)
        return time.monotonic() - started

    # What was learned.

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_chain")

    def _check_fitted(self) -> None:
        if not hasattr(self, "_chain"):
            raise NotFittedError("This LDA instance is not fitted yet: call fit or partial_fit first.")

    def _stored_draws(self) -> list[np.ndarray]:
        """The stored draws of β (V, K), or the current one if there are none yet."""
        self._check_fitted()
        return self._draws.draws or [self._chain.beta()]

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
        self._check_fitted()
        return self._chain.document_prior.mean.copy()

    @property
    def doc_topic_prior_draws_(self) -> np.ndarray:
        """Draws of a learned γ (n, K), one at the end of each exact pass."""
        self._check_fitted()
        return self._chain.document_prior.draws.copy()

    @property
    def topic_names_(self) -> list[str]:
        """The names of the topics: those of `seed_words`, then numbers."""
        self._check_fitted()
        names = [str(name) for name in self.seed_words or ()]
        return names + [str(k) for k in range(len(names), int(self.n_components))]

    @property
    def perplexity_curve_(self) -> np.ndarray:
        """The perplexity during the fit (n, 3): documents read, of the current draw, of an average of draws.

        It is that of the documents that `validation_fraction` holds out, or of some training documents.
        """
        self._check_fitted()
        return np.array([(p.documents, p.of_draw, p.of_average) for p in self._curve.points]).reshape(-1, 3)

    @property
    def verdict_(self) -> Verdict:
        """Problems with the topics, and further notes: `print(lda.verdict_)`."""
        draws, names = self._stored_draws(), self._feature_names()
        gamma, threads = self.doc_topic_prior_, num_threads(self.n_jobs)
        seeds = self.seed_words or {}
        fit = Fit(
            draws=draws,
            num_exact_passes=self._draws.num_exact_passes,
            prior=self._chain.document_prior,
            vocabulary=names,
            # A seed may be the number of a column.
            seed_words={
                name: [names[w] if isinstance(w, numbers.Integral) else str(w) for w in words]
                for name, words in seeds.items()
            },
            topic_names=self.topic_names_,
            curve=self._curve.points,
            evaluated=self._curve.evaluated(draws, gamma, self._seed, threads),
            are_held_out=self._curve.is_held_out,
            reference=self._curve.reference,
            word_counts=self._word_counts,
            seed=self._seed,
        )
        found = judge(fit, STREAM if self._is_stream else FIT)
        if self._curve.is_held_out:
            return found
        how = "call perplexity with other documents" if self._is_stream else "set validation_fraction"
        undecided = f"No documents were held out: {how} to judge predictions, which is not done here."
        return dataclasses.replace(found, notes=(*found.notes, undecided))

    def _feature_names(self) -> list[str]:
        """The words of the columns of X, or their numbers."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = self.feature_names
        return [f"#{w}" for w in range(self.n_features_in_)] if names is None else [str(x) for x in names]

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

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
        wanted = needed if self._draws.num_exact_passes else 2 * needed
        advice = f"fit with draws={wanted:,}"
        if self._draws.max_draws < min(wanted, int(self.draws)):
            advice = f"the memory for draws, 1 GiB, holds {self._draws.max_draws:,} of X with so many columns"
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

    def coherence(self, X: Any, measure: str = "npmi", n_words: int = 10) -> np.ndarray:
        """The coherence of each topic (K,) in the documents of X: npmi, c_v or u_mass of its first words."""
        if measure not in MEASURES:
            raise ValueError(f"measure is one of {', '.join(MEASURES)}, not {measure!r}.")
        return MEASURES[measure](self._documents(X), top_words(self.components_.T, n_words))

    def _documents(self, X: Any, draw: int = 0) -> Documents:
        """The documents of X, as counts; weights are rounded differently for each draw."""
        self._check_fitted()
        weights = Weights.of(validated(self, X, reset=False))
        return weights.counts(seed_at(jax.random.key(self._seed + _ROUNDING), draw))

    def transform(self, X: Any) -> np.ndarray:
        """E[π_d] of each document (D, K), averaged over the draws of the topics.

        That of a document does not depend on the other documents of X.
        """
        draws = self._stored_draws()
        weights = Weights.of(validated(self, X, reset=False))
        rounding = jax.random.key(self._seed + _ROUNDING)
        per_draw = [
            mixtures(
                weights.counts(seed_at(rounding, i)),
                beta,
                self.doc_topic_prior_,
                self._seed + i,
                sweeps=int(self.sweeps),
                burn_in=int(self.burn_in),
                threads=num_threads(self.n_jobs),
            )
            for i, beta in enumerate(draws)
        ]
        return np.mean(per_draw, 0)

    def mixture_interval(self, X: Any, probability: float = 0.9) -> np.ndarray:
        """The bounds (2, D, K) between which the topic proportions π_d lie with this probability.

        For each stored draw of the topics they are drawn given the words of the document; how many draws a
        probability needs is said at `credible_interval`. Those of a document do not depend on the others.
        """
        draws, probability = self._stored_draws(), self._checked_probability(probability)
        weights = Weights.of(validated(self, X, reset=False))
        rounding = jax.random.key(self._seed + _ROUNDING)
        per_draw = [
            mixture_draw(
                weights.counts(seed_at(rounding, i)),
                beta,
                self.doc_topic_prior_,
                self._seed + i,
                sweeps=int(self.sweeps),
                threads=num_threads(self.n_jobs),
            )
            for i, beta in enumerate(draws)
        ]
        return np.stack(credible_bounds(np.stack(per_draw), probability))

    def perplexity(self, X: Any) -> float:
        """The perplexity of half of the words of each document given the other half, averaged over the draws.

        It differs from the bound of scikit-learn; to compare both, use
        `fokker.models.lda.evaluate.perplexity`.
        """
        draws = self._stored_draws()
        return perplexity(
            self._documents(X), draws, self.doc_topic_prior_, self._seed, num_threads(self.n_jobs)
        )

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log probability of a held-out word: -log of the perplexity."""
        return -float(np.log(self.perplexity(X)))

    # Storing.

    def _stored_parameters(self) -> dict[str, Any]:
        # A random_state that is a generator is stored as the seed that was drawn from it.
        parameters: dict[str, Any] = self.get_params(deep=False)
        return parameters if self.random_state is None else {**parameters, "random_state": self._seed}

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        names = getattr(self, "feature_names_in_", None)
        curve_header, curve_arrays = self._curve.state()
        header = {
            "fitted": {name: getattr(self, name) for name in _FITTED},
            "feature_names": None if names is None else [str(name) for name in names],
            "curve": curve_header,
        }
        arrays = {
            **with_prefix("chain", self._chain.state_of_all_topics()),
            **with_prefix("draws", self._draws.state()),
            **with_prefix("curve", curve_arrays),
            "word_counts": self._word_counts,
        }
        return header, arrays

    def _restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.__dict__.update(header["fitted"])
        if header["feature_names"] is not None:
            self.feature_names_in_ = np.asarray(header["feature_names"], dtype=object)
        settings = checked_settings(self, self.n_features_in_, self._seed)
        self._chain = self._new_chain(settings)
        self._chain.restore_all_topics(without_prefix("chain", arrays))
        self._draws = TopicDraws(self.n_features_in_, settings.topics, int(self.draws))
        self._draws.restore(without_prefix("draws", arrays))
        self._curve = Curve.restored(
            header["curve"], without_prefix("curve", arrays), self._seed, num_threads(self.n_jobs)
        )
        self._word_counts = np.array(arrays["word_counts"])


def _check_weights(weights: Weights) -> None:
    if not weights.is_whole:
        warnings.warn(
            "X has weights that are no whole numbers: they are rounded at random, so that their expectation "
            "is right. If they are tf-idf weights, give counts instead, as from CountVectorizer: LDA is a "
            "model of counts.",
            stacklevel=3,
        )


def _minibatches(documents: Documents, size: int) -> Iterator[Documents]:
    """The documents in minibatches of at most `size`."""
    # Of similar size: in a small last minibatch each document would have a much too large weight.
    for indices in np.array_split(np.arange(documents.size), -(-documents.size // size)):
        yield documents.select(indices)
