"""`fk.models.LDA`: topics with the interface of scikit-learn."""

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import jax
import numpy as np

from fokker.corpora import Documents
from fokker.diagnostics import Verdict
from fokker.models.checks import optional, whole, within
from fokker.models.estimator import Estimator, Transformer, new_seed, validate_data
from fokker.models.topics._uniform import seed_at
from fokker.models.topics.coherence import MEASURES
from fokker.models.topics.draws import credible_bounds, draws_needed
from fokker.models.topics.evaluate import mixture_draw, mixtures, perplexity
from fokker.models.topics.files import with_prefix, without_prefix
from fokker.models.topics.judgement import FIT, STREAM, judge
from fokker.models.topics.model import top_words
from fokker.models.topics.settings import DECLARED, FIELDS, MAY_CHANGE, Settings, default_passes
from fokker.models.topics.start import is_enough
from fokker.models.topics.training import Training
from fokker.models.topics.weights import Weights
from fokker.run.processes import together
from fokker.run.progress import Progress

# Different from the streams of a chain and of evaluations with the same seed.
_ROUNDING = 103
# The parameters: settings of topics by the names that scikit-learn uses, and those of the estimator alone.
_PARAMETERS: list[tuple[str, Any, Any]] = [
    *(
        (known.parameter, FIELDS[name].type, FIELDS[name].default)
        for name, known in DECLARED.items()
        if known.parameter
    ),
    ("feature_names", Sequence[str] | None, None),
    ("passes", int | None, None),
    ("validation_fraction", float, 0.0),
    ("random_state", Any, 0),
    ("progress", bool, False),
]
_Parameters: Any = dataclasses.make_dataclass(
    "_Parameters",
    [
        (name, kind, dataclasses.field(default=default, kw_only=name != "n_components"))
        for name, kind, default in _PARAMETERS
    ],
    eq=False,
    repr=False,
)


class LDA(Transformer, _Parameters, Estimator):
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
    `n_components` (`fokker.models.topics.document_prior`). `seed_words`: {name: [word, …]} for the first
    topics; each word has `seed_weight` pseudo-counts in its topic. A word is a name of a column of X, by its
    data frame or by `feature_names`, or the number of a column. `total_samples` is |S|, the number of
    documents. By default it is the number of rows of X for `fit`, and the number of documents read so far for
    `partial_fit`. A `step_size` or `friction` of None is chosen according to |S|. `passes` is the number of
    passes over X in `fit`, None for enough to read 20,000 documents. `start_documents`: in `fit` the topics
    start from a collapsed Gibbs chain over this many documents of X (`fokker.models.topics.start`), 0 for
    random topics. `partial_fit` starts from random topics. `draws` is the number of stored draws of the
    topics, spaced over the second half of the chain. `exact_passes` are the last passes of `fit`, without the
    noise of minibatches: from them come the draws. None takes half of the passes. `validation_fraction`: the
    share of the documents of `fit` that are only evaluated. `n_jobs`: threads; None or -1 for all processors.
    `random_state`: a seed, a RandomState or a Generator to draw one from, or None for another one in each
    fit. `progress`: whether to show it.

    After `fk.processes.start` all processes call `fit` with the same X and divide the work. All have the same
    result, that of one process.

    After fitting: `components_` (K, V), the posterior mean of β (rows sum to one; scikit-learn's are counts);
    `draws_` (draws, K, V); `n_documents_seen_`, `n_batch_iter_`, `doc_topic_prior_`, `topic_names_`;
    `doc_topic_prior_draws_` (n, K), a learned γ after each exact pass; `perplexity_curve_`, the perplexity
    during the fit, and `verdict_`, whether to trust the topics.
    """

    _kind = "fitted LDA"
    _fitted_by = "_training"
    # The keys of a chain cannot be copied: it is built again from its arrays.
    _rebuilt = ("_training",)
    _attributes = ("n_features_in_", "_passes_made", "_num_documents", "_is_stream")
    _renamed: ClassVar[dict[str, str]] = {"verbose": "progress"}
    _training: Training

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        # Mixtures are float32, whatever the type of the counts.
        tags.transformer_tags.preserves_dtype = []
        return tags

    # Fitting.

    @together()
    def fit(self, X: Any, y: Any = None) -> Self:
        """Start a new chain and pass over X in minibatches, in an order drawn with the seed; y is ignored."""
        weights = self._weights(X, reset=True)
        self._start_training()
        _check_weights(weights)
        generator = np.random.Generator(np.random.Philox(self._seed))
        # Documents without words are in no minibatch, and |S| does not count them.
        indices = np.flatnonzero(weights.has_words)
        num_held_out = int(self.validation_fraction * len(indices))
        if num_held_out:
            order = generator.permutation(len(indices))
            held_out, indices = indices[order[:num_held_out]], np.sort(indices[order[num_held_out:]])
            self._training.curve.use(self._counts(weights).select(held_out), is_held_out=True)
        self._num_documents = len(indices)
        training, settings = self._training, self._training.settings
        passes = default_passes(len(indices)) if self.passes is None else int(self.passes)
        num_exact = settings.num_exact_passes(passes)
        for number in range(passes):
            documents = self._counts(weights).select(indices[generator.permutation(len(indices))])
            if number == 0 and settings.start_documents and documents.tokens:
                is_surplus = np.cumsum(is_enough(documents.lengths, settings.start_documents)) > 1
                self._find_first_topics(documents.select(~is_surplus))
            is_exact = number >= passes - num_exact
            seconds = self._train(documents, passes * len(indices), is_exact, is_new=number == 0)
            if is_exact and training.chain.is_counting:
                training.end_exact_pass(number - passes + num_exact, num_exact, self._total(), seconds)
        return self

    def _find_first_topics(self, documents: Documents) -> None:
        with Progress("finding the first topics", unit="sweeps", enabled=self.progress) as progress:
            self._training.chain.start_from(
                documents, lambda completed, total: progress.update(completed, total=total)
            )

    @together()
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continue with the documents of X, in minibatches in their order; y is ignored.

        `set_params` may have changed how documents are read (`batch_size`, `sweeps`, `burn_in`, `n_jobs`,
        `total_samples`, `progress`), and what is of `fit` alone. Other changes are refused.
        """
        is_first = not self.__sklearn_is_fitted__()
        if not is_first:
            self._check_unchanged()
        weights = self._weights(X, reset=is_first)
        if is_first:
            self._start_training()
            _check_weights(weights)
        self._training.go_on_with(self._settings())
        self._is_stream = True
        documents = self._counts(weights).select(weights.has_words)
        self._train(documents, self.n_documents_seen_ + documents.size, is_exact=False, is_new=True)
        return self

    def _weights(self, X: Any, reset: bool) -> Weights:
        """The matrix X, checked; `reset`: remember its columns."""
        if isinstance(X, str) or (isinstance(X, list | tuple) and X and isinstance(X[0], str)):
            raise ValueError(
                "X is text, and counts are needed, one row per document and one column per word: "
                "CountVectorizer().fit_transform(texts) of scikit-learn makes them, or `fokker lda` reads "
                "text."
            )
        return Weights.of(validate_data(self, X, reset=reset, accept_sparse="csr"))

    def _start_training(self) -> None:
        optional(whole(1))("passes", self.passes)
        within(0, 1, "from 0 to below 1")("validation_fraction", self.validation_fraction)
        self._seed = new_seed(self.random_state)
        self._training = self._new_training()
        self._passes_made = 0
        # |S| of partial_fit: the documents of fit count once, whatever the passes.
        self._num_documents = 0
        # Whether partial_fit came last.
        self._is_stream = False

    def _settings(self) -> Settings:
        return Settings.of_parameters(self.get_params(deep=False), self._seed)

    def _check_unchanged(self) -> None:
        """Raise where a parameter has changed that a chain has from its start."""
        before, now = self._training.settings, self._settings()
        values = {
            str(known.parameter): (getattr(before, name), getattr(now, name))
            for name, known in DECLARED.items()
            if known.parameter and name not in MAY_CHANGE
        }
        if isinstance(self.random_state, int | np.integer):
            values["random_state"] = (self._seed, self.random_state)
        if changed := [name for name, (earlier, later) in values.items() if earlier != later]:
            # Priors and seed words may be long.
            texts = [f"{name} was {values[name][0]!r:.60} and is {values[name][1]!r:.60}" for name in changed]
            raise ValueError(
                f"partial_fit goes on with a chain that cannot change {', '.join(changed)}: "
                f"{'; '.join(texts)}. Set it back, call fit again, or make a new LDA."
            )

    def _new_training(self) -> Training:
        words = self.n_features_in_
        if words < 2:
            raise ValueError("X has n_features=1 word: topics differ in the probabilities of two or more.")
        settings, names = self._settings(), self._column_names()
        if names is not None and len(names) != words:
            raise ValueError(
                f"feature_names has {len(names)} names for the {words} columns of X: give one per column."
            )
        return Training(settings, words, settings.word_prior(words, names), has_all=True)

    def _counts(self, weights: Weights) -> Documents:
        """The documents as whole counts; weights are rounded differently in each call."""
        self._passes_made += 1
        return weights.counts(seed_at(jax.random.key(self._seed + _ROUNDING), self._passes_made))

    def _total(self, upcoming: int = 0) -> float:
        """|S|: as given, or the number of documents, those of the next minibatch included."""
        total = self._training.settings.total
        if total == "growing":
            return min(self._num_documents, self.n_documents_seen_ + upcoming)
        return total or self._num_documents

    def _train(self, documents: Documents, end: int, is_exact: bool, is_new: bool) -> float:
        """Step with the documents, or count them in an exact pass, and return the seconds."""
        if not documents.size:
            raise ValueError("no document of X has a word: are the counts all zero?")
        training, started = self._training, time.monotonic()
        if training.curve.held_out is None:
            training.curve.use(documents, is_held_out=False)
        with Progress(
            "learning topics", end, unit="documents", completed=training.documents, enabled=self.progress
        ) as progress:
            for batch in _minibatches(documents, training.settings.batch):
                if self._is_stream:
                    self._num_documents += batch.size
                seconds = time.monotonic() - started
                total = self._total(batch.size)
                if batch.tokens:
                    training.train(batch, total, is_exact=is_exact, is_new=is_new, seconds=seconds)
                else:  # all weights were rounded to zero
                    training.documents += batch.size
                points = training.curve.points
                note = f"perplexity {points[-1].of_draw:,.0f}" if points else ""
                progress.update(training.documents, note=note)
        return time.monotonic() - started

    # What was learned.

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

    def coherence(self, X: Any, measure: str = "npmi", n_words: int = 10) -> np.ndarray:
        """The coherence of each topic (K,) in the documents of X: npmi, c_v or u_mass of its first words."""
        if measure not in MEASURES:
            raise ValueError(f"measure is one of {', '.join(MEASURES)}, not {measure!r}.")
        return MEASURES[measure](self._documents(X), top_words(self.components_.T, n_words))

    def _documents(self, X: Any, draw: int = 0) -> Documents:
        """The documents of X, as counts; weights are rounded differently for each draw."""
        self._check_fitted()
        weights = self._weights(X, reset=False)
        return weights.counts(seed_at(jax.random.key(self._seed + _ROUNDING), draw))

    def transform(self, X: Any) -> np.ndarray:
        """E[π_d] of each document (D, K), averaged over the draws of the topics.

        That of a document does not depend on the other documents of X.
        """
        self._check_fitted()
        return np.mean(self._at_draws(partial(mixtures, burn_in=self._settings().burn_in), X), 0)

    def mixture_interval(self, X: Any, probability: float = 0.9) -> np.ndarray:
        """The bounds (2, D, K) between which the topic proportions π_d lie with this probability.

        For each stored draw of the topics they are drawn given the words of the document; how many draws a
        probability needs is said at `credible_interval`. Those of a document do not depend on the others.
        """
        self._check_fitted()
        probability = self._checked_probability(probability)
        return np.stack(credible_bounds(np.stack(self._at_draws(mixture_draw, X)), probability))

    def _at_draws(self, function: Callable[..., np.ndarray], X: Any) -> list[np.ndarray]:
        """A function of documents and topics at each stored draw of the topics."""
        draws, settings = self._stored_draws(), self._settings()
        weights = self._weights(X, reset=False)
        rounding = jax.random.key(self._seed + _ROUNDING)
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

    def perplexity(self, X: Any) -> float:
        """The perplexity of half of the words of each document given the other half, averaged over the draws.

        It differs from the bound of scikit-learn; to compare both, use
        `fokker.models.topics.evaluate.perplexity`.
        """
        draws = self._stored_draws()
        return perplexity(
            self._documents(X), draws, self.doc_topic_prior_, self._seed, self._settings().num_threads
        )

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log probability of a held-out word: -log of the perplexity."""
        return -float(np.log(self.perplexity(X)))

    # Storing.

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        curve = self._training.curve
        names = [str(name) for name in curve.documents.names]
        header = {
            "n_documents_seen": self.n_documents_seen_,
            "is_held_out": curve.is_held_out,
            "names": names,
        }
        return {"training": header}, self._training.state()

    def _restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        if "training" not in header:
            header, arrays = _of_older_file(header, arrays)
        stored = header["training"]
        # Before the start takes memory for a model of the size that the file says.
        shape = (self.n_features_in_, self._settings().topics)
        if arrays["chain.theta"].shape != shape:
            raise ValueError(f"the topics have the shape {arrays['chain.theta'].shape} in place of {shape}")
        training = self._new_training()
        training.restore(arrays, stored["n_documents_seen"], stored["names"])
        training.curve.is_held_out = stored["is_held_out"]
        self._training = training


def _of_older_file(
    header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A state that an earlier version has written, by the names that its parts have now."""
    curve = without_prefix("curve", arrays)
    documents = {f"documents.{name}": curve[name] for name in ("indptr", "words", "counts") if name in curve}
    held_out = {f"held_out.{name}": curve[name] for name in ("sum", "draws") if name in curve}
    training = {
        "n_documents_seen": header["fitted"]["n_documents_seen_"],
        "is_held_out": header["curve"]["is_held_out"],
        "names": [str(i) for i in range(len(curve.get("indptr", [0])) - 1)],
    }
    return {"training": training}, {
        **{name: x for name, x in arrays.items() if not name.startswith("curve.")},
        **with_prefix("sample", without_prefix("sample", curve)),
        **documents,
        **held_out,
        "curve": curve["points"],
    }


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
