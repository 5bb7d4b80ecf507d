"""`fk.models.LDA`: topics with the interface of scikit-learn."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fokker.corpora import Documents
from fokker.models.lda.chain import TopicChain
from fokker.models.lda.draws import TopicDraws
from fokker.models.lda.evaluate import mixtures, perplexity
from fokker.models.lda.settings import Settings, default_passes
from fokker.models.lda.start import is_enough

if TYPE_CHECKING:
    Base: Any = object
else:
    try:
        # With scikit-learn installed: cloning, pipelines, grid searches and set_output.
        from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

        class Base(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
            """The base classes of a scikit-learn transformer."""

    except ImportError:
        import inspect

        class Base:
            """The methods of scikit-learn's base classes that the estimator needs."""

            def get_params(self, deep: bool = True) -> dict[str, Any]:
                """The parameters by name."""
                return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

            def set_params(self, **parameters: Any) -> Self:
                """Set parameters by name."""
                for name, value in parameters.items():
                    if name not in self.get_params():
                        raise ValueError(f"there is no parameter {name!r}.")
                    setattr(self, name, value)
                return self

            def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
                """Fit, then return the mixtures of the same documents."""
                return self.fit(X, y).transform(X)


class LDA(Base):
    r"""Latent Dirichlet allocation by stochastic-gradient MCMC, one minibatch after another.

        β_k ~ Dirichlet(α),  π_d ~ Dirichlet(γ),  a word of document d: z ~ π_d, w ~ β_z

    X is a matrix of counts with one row per document and one column per word, as from CountVectorizer, sparse
    or dense. θ, with β_kw = θ_kw/θ_k·, is moved by `sampler` (sgrhmc, sgrld, scir, sghmc, sgld) given the
    topics of the words of a minibatch, drawn by Gibbs sweeps (Patterson and Teh 2013; Ma et al. 2015, section
    4.2).

    ```python
    topics = make_pipeline(CountVectorizer(stop_words="english"), fk.models.LDA(20)).fit(texts)
    lda = fk.models.LDA(50)
    for X in stream:
        lda.partial_fit(X)
    lda.components_, lda.credible_interval(0.9), lda.transform(X), lda.perplexity(held_out)
    ```

    `topic_word_prior` is α, `doc_topic_prior` is γ, or its initial value with `learn_doc_topic_prior`.
    `total_samples` is |S|, the number of documents. By default it is the number of rows of X for `fit`, and
    the number of documents read so far for `partial_fit`. A `step_size` or `friction` of None is chosen
    according to |S|. `passes` is the number of passes over X in `fit`, None for enough to read 20,000
    documents. `start_documents`: in `fit` the topics start from a collapsed Gibbs chain over this many
    documents of X (`fokker.models.lda.start`), 0 for random topics. `partial_fit` starts from random topics.
    `draws` is the number of stored draws of the topics, spaced over the second half of the chain.

    After fitting: `components_` (K, V), the posterior mean of β (rows sum to one; scikit-learn's are counts);
    `draws_` (draws, K, V); `n_documents_seen_`, `n_batch_iter_`, `doc_topic_prior_`.
    """

    def __init__(
        self,
        n_components: int = 50,
        *,
        sampler: str = "sgrhmc",
        topic_word_prior: float = 0.01,
        doc_topic_prior: float = 0.1,
        learn_doc_topic_prior: bool = False,
        batch_size: int = 50,
        passes: int | None = None,
        start_documents: int = 2000,
        total_samples: int | None = None,
        sweeps: int = 50,
        burn_in: int = 25,
        step_size: float | None = None,
        friction: float | None = None,
        draws: int = 20,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.sampler = sampler
        self.topic_word_prior = topic_word_prior
        self.doc_topic_prior = doc_topic_prior
        self.learn_doc_topic_prior = learn_doc_topic_prior
        self.batch_size = batch_size
        self.passes = passes
        self.start_documents = start_documents
        self.total_samples = total_samples
        self.sweeps = sweeps
        self.burn_in = burn_in
        self.step_size = step_size
        self.friction = friction
        self.draws = draws
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _settings(self) -> Settings:
        threads = None if self.n_jobs is None or self.n_jobs < 1 else self.n_jobs
        return Settings(
            topics=self.n_components,
            sampler=self.sampler,
            alpha=self.topic_word_prior,
            gamma=self.doc_topic_prior,
            learn_gamma=self.learn_doc_topic_prior,
            step=self.step_size,
            friction=self.friction,
            batch=self.batch_size,
            start_documents=self.start_documents,
            sweeps=self.sweeps,
            burn_in=self.burn_in,
            threads=threads,
            seed=self.random_state,
            total=self.total_samples,
        )

    def _start_chain(self, X: Any) -> None:
        settings = self._settings()
        if not isinstance(self.draws, int) or self.draws < 1:
            raise ValueError(f"draws must be a whole number of at least 1; {self.draws!r} was given.")
        words = np.shape(X)[1]
        self._threads = settings.num_threads
        self._chain: TopicChain = settings.chain(words)
        self._draws = TopicDraws(words, self.n_components, self.draws)
        self.n_features_in_ = words
        self.n_documents_seen_ = 0
        self.n_batch_iter_ = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Start a new chain and pass over X in minibatches, in an order drawn with the seed; y is ignored."""
        if self.passes is not None and (not isinstance(self.passes, int) or self.passes < 1):
            raise ValueError(f"passes must be a whole number of at least 1; {self.passes!r} was given.")
        documents = _documents(X)
        self._remember_names(X)
        self._start_chain(X)
        generator = np.random.Generator(np.random.Philox(self.random_state))
        # |S| counts the documents with words: only these are in a minibatch.
        num_documents = int(np.sum(documents.lengths > 0))
        for _ in range(default_passes(num_documents) if self.passes is None else self.passes):
            shuffled = documents.select(generator.permutation(documents.size))
            if self.start_documents and not self.n_batch_iter_:
                self._start_from(shuffled.select(shuffled.lengths > 0))
            self._steps(shuffled, num_documents)
        return self

    def _start_from(self, documents: Documents) -> None:
        surplus = np.cumsum(is_enough(documents.lengths, self.start_documents)) > 1
        if documents.size:
            self._chain.start_from(documents.select(~surplus))

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continue with the documents of X, in minibatches in their order."""
        documents = _documents(X, self)
        if not hasattr(self, "_chain"):
            self._remember_names(X)
            self._start_chain(X)
        self._steps(documents, None)
        return self

    def _steps(self, documents: Documents, num_documents: int | None) -> None:
        for batch in _minibatches(documents, self.batch_size):
            self.n_documents_seen_ += batch.size
            self._chain.step(batch, self.total_samples or num_documents or self.n_documents_seen_)
            self.n_batch_iter_ = self._chain.number
            self._draws.offer(self._chain.number, self._chain.beta)

    def _remember_names(self, X: Any) -> None:
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)

    def _stored_draws(self) -> list[np.ndarray]:
        """The stored draws of β (V, K), or the current one if there are none yet."""
        if not hasattr(self, "_chain"):
            raise ValueError("this LDA is not fitted yet: call fit or partial_fit first.")
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
        """γ (K,), given or learned."""
        self._stored_draws()
        return self._chain.gamma.copy()

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def credible_interval(self, probability: float = 0.9) -> np.ndarray:
        """The bounds (2, K, V) between which β lies with this probability, from the stored draws.

        They are wider than those of the posterior because of the noise of minibatches; longer chains with
        smaller steps have less of it.
        """
        if not 0 < probability < 1:
            raise ValueError(f"the probability must be between 0 and 1; {probability!r} was given.")
        return np.quantile(self.draws_, [(1 - probability) / 2, (1 + probability) / 2], axis=0)

    def transform(self, X: Any) -> np.ndarray:
        """E[π_d] of each document (D, K), averaged over the draws of the topics."""
        draws = self._stored_draws()
        documents = _documents(X, self)
        per_draw = [
            mixtures(
                documents,
                beta,
                self._chain.gamma,
                self.random_state + i,
                sweeps=self.sweeps,
                burn_in=self.burn_in,
                threads=self._threads,
            )
            for i, beta in enumerate(draws)
        ]
        return np.mean(per_draw, 0)

    def perplexity(self, X: Any) -> float:
        """The perplexity of half of the words of each document given the other half, averaged over the draws.

        It differs from the bound of scikit-learn; to compare both, use
        `fokker.models.lda.evaluate.perplexity`.
        """
        draws = self._stored_draws()
        return perplexity(_documents(X, self), draws, self._chain.gamma, self.random_state, self._threads)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log probability of a held-out word: -log of the perplexity."""
        return -float(np.log(self.perplexity(X)))


def _documents(X: Any, fitted: LDA | None = None) -> Documents:
    """X as documents; raise unless it is a matrix of counts with as many columns as the fitted one."""
    if np.ndim(X) != 2 and not hasattr(X, "tocsr"):
        raise ValueError("X must have one row per document and one column per word: give a matrix of counts.")
    if fitted is not None and hasattr(fitted, "n_features_in_") and np.shape(X)[1] != fitted.n_features_in_:
        raise ValueError(
            f"X has {np.shape(X)[1]} columns, but the topics are over {fitted.n_features_in_} words: use the "
            "same vocabulary."
        )
    documents = Documents.from_matrix(X)
    if not documents.size:
        raise ValueError("X has no rows: give at least one document.")
    return documents


def _minibatches(documents: Documents, size: int) -> Iterator[Documents]:
    """The documents with words, in minibatches of at most `size`."""
    with_words = documents.select(documents.lengths > 0)
    if not with_words.size:
        raise ValueError("no document of X has a word: are the counts all zero?")
    # Of similar size: in a small last minibatch each document would have a much too large weight.
    for indices in np.array_split(np.arange(with_words.size), -(-with_words.size // size)):
        yield with_words.select(indices)
