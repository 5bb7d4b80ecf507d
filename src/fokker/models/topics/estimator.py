"""`fk.models.LDA`: topics with the interface of scikit-learn."""

import dataclasses
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import jax
import numpy as np

from fokker._core.missing import real_numbers, unmasked
from fokker.corpora import Documents
from fokker.models.checks import optional, whole, within
from fokker.models.estimator import new_seed, validate_data
from fokker.models.fits import as_fitted, parameters_now
from fokker.models.named_arrays import with_prefix, without_prefix
from fokker.models.topics._uniform import seed_at
from fokker.models.topics.learned import ROUNDING, LearnedTopics
from fokker.models.topics.passes import PassPlan
from fokker.models.topics.settings import DECLARED, FIELDS, MAY_CHANGE, Settings, default_passes
from fokker.models.topics.start import is_enough
from fokker.models.topics.training import Training
from fokker.models.topics.weights import CountMatrix, Weights
from fokker.run.processes import together
from fokker.run.progress import Progress

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


class LDA(_Parameters, LearnedTopics):
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
    lda.trends(X, years, by="year").mean  # prevalence by year, with bounds
    lda.show_topics(10, feature_names=vectorizer.get_feature_names_out()), print(lda.verdict_)
    ```

    Args:
        n_components: K, the number of topics.
        sampler: one of sgrhmc, sgrld, scir, sghmc, sgld.
        topic_word_prior: α: a number, one per word (V,), or one per topic and word (K, V).
        doc_topic_prior: γ: a number, one per topic, or how it is learned: "symmetric", one number for all
            topics; "asymmetric", one per topic; "hdp", one per topic with only as many topics in use as the
            documents need, at most `n_components` (`fokker.models.topics.document_prior`).
        seed_words: {name: [word, …]} for the first topics. A word is a name of a column of X, by its data
            frame or by `feature_names`, or the number of a column.
        seed_weight: the pseudo-counts of each seed word in its topic.
        step_size, friction: of the steps; None chooses them according to |S|.
        start_documents: in `fit` the topics start from a collapsed Gibbs chain over this many documents of X
            (`fokker.models.topics.start`), 0 for random topics. `partial_fit` starts from random topics.
        batch_size, sweeps, burn_in: documents per step, Gibbs sweeps over each, and those not counted.
        n_jobs: threads, which do not change the result; None or -1 for all processors.
        total_samples: |S|, the number of documents. By default it is the number of rows of X for `fit`, and
            the number of documents read so far for `partial_fit`.
        exact_passes: the last passes of `fit`, without the noise of minibatches, from which the draws come.
            None takes half of the passes.
        draws: the number of stored draws of the topics.
        feature_names: the words of the columns of X, where it is no data frame.
        passes: over X in `fit`; None for two, or one over 20,000 documents or more.
        validation_fraction: the share of the documents of `fit` that are only evaluated.
        random_state: a seed, a RandomState or a Generator to draw one from, or None for another one in each
            fit.
        progress: whether to show it.

    After `fk.processes.start` all processes call `fit` with the same X and divide the work. All have the same
    result, that of one process.

    After fitting: `components_` (K, V), the posterior mean of β (rows sum to one; scikit-learn's are counts);
    `draws_` (draws, K, V); `n_documents_seen_`, `n_batch_iter_`, `doc_topic_prior_`, `topic_names_`;
    `doc_topic_prior_draws_` (n, K), a learned γ of each round of the exact passes; `perplexity_curve_`, the
    perplexity during the fit, and `verdict_`, whether to trust the topics.
    """

    _kind = "fitted LDA"
    _fitted_by = "_training"
    # The keys of a chain cannot be copied: it is built again from its arrays.
    _rebuilt = ("_training",)
    _attributes = ("_passes_made", "_num_documents", "_is_stream")
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
    def fit(self, X: CountMatrix, y: object = None) -> Self:
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
        settings = self._training.settings
        passes = default_passes(len(indices)) if self.passes is None else int(self.passes)
        plan = PassPlan(passes, settings.num_exact_passes(passes), len(indices))
        for number in range(passes):
            documents = self._counts(weights).select(indices[generator.permutation(len(indices))])
            if number == 0 and settings.start_documents and documents.tokens:
                is_surplus = np.cumsum(is_enough(documents.lengths, settings.start_documents)) > 1
                self._find_first_topics(documents.select(~is_surplus))
            self._train(documents, plan)
        return self

    def _find_first_topics(self, documents: Documents) -> None:
        with Progress("finding the first topics", unit="sweeps", enabled=self.progress) as progress:
            self._training.chain.start_from(
                documents, lambda completed, total: progress.update(completed, total=total)
            )

    @together()
    def partial_fit(self, X: CountMatrix, y: object = None) -> Self:
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
        self._fitted_with = parameters_now(self)
        self._is_stream = True
        documents = self._counts(weights).select(weights.has_words)
        self._train(documents, PassPlan(None))
        return self

    def _weights(self, X: CountMatrix, reset: bool) -> Weights:
        """The matrix X, checked; `reset`: remember its columns."""
        if isinstance(X, str) or (isinstance(X, list | tuple) and X and isinstance(X[0], str)):
            raise ValueError(
                "X is text, and counts are needed, one row per document and one column per word: "
                "CountVectorizer().fit_transform(texts) of scikit-learn makes them, or `fokker lda` reads "
                "text."
            )
        if not hasattr(X, "tocsr"):
            unmasked(X, "X")  # before scikit-learn makes an array of it, without the mask
        # scikit-learn's own check of finite values does not say where they are.
        checked = validate_data(self, X, reset=reset, accept_sparse="csr", ensure_all_finite=False)
        real_numbers(checked.data if hasattr(checked, "tocsr") else checked, "X")
        return Weights.of(checked)

    def _start_training(self) -> None:
        optional(whole(1))("passes", self.passes)
        within(0, 1, "from 0 to below 1")("validation_fraction", self.validation_fraction)
        self._seed, self._fitted_with = new_seed(self.random_state), parameters_now(self)
        self._settings().check_for_start()
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
        return weights.counts(seed_at(jax.random.key(self._seed + ROUNDING), self._passes_made))

    def _train(self, documents: Documents, plan: PassPlan) -> None:
        """Step with the documents, or count them in an exact pass, as the plan says."""
        if not documents.size:
            raise ValueError("no document of X has a word: are the counts all zero?")
        training, started = self._training, time.monotonic()
        if training.curve.held_out is None:
            training.curve.use(documents, is_held_out=False)
        end = plan.end or training.documents + documents.size
        with Progress(
            "learning topics", end, unit="documents", completed=training.documents, enabled=self.progress
        ) as progress:
            for batch in _minibatches(documents, training.settings.batch):
                if self._is_stream:
                    self._num_documents += batch.size
                seconds = time.monotonic() - started
                trained = training.documents + batch.size
                total = training.settings.represented(self._num_documents, trained)
                exact_pass, is_new = plan.exact_pass, not plan.is_first_read
                if batch.tokens:
                    training.train(
                        batch, total, is_exact=exact_pass is not None, is_new=is_new, seconds=seconds
                    )
                else:  # all weights were rounded to zero
                    training.documents = trained
                plan.position += batch.size
                points = training.curve.points
                note = f"perplexity {points[-1].of_draw:,.0f}" if points else ""
                progress.update(training.documents, note=note)
        if exact_pass is not None and training.chain.is_counting:
            total = training.settings.represented(self._num_documents, training.documents)
            training.end_exact_pass(exact_pass, plan.num_exact, total, time.monotonic() - started)

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
        fit = as_fitted(self)
        shape = (self.n_features_in_, fit._settings().topics)
        if arrays["chain.theta"].shape != shape:
            raise ValueError(f"the topics have the shape {arrays['chain.theta'].shape} in place of {shape}")
        training = fit._new_training()
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
