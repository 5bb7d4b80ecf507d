"""`fk.models.LDA` has the interface of scikit-learn."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

import fokker as fk
from fokker.corpora import Documents
from fokker.models.lda.chain import TopicChain, updated_gamma
from fokker.models.lda.evaluate import mixtures
from test_lda_chain import known_corpus

QUICK = dict(batch_size=25, sweeps=10, burn_in=5, n_jobs=1)  # noqa: C408


@pytest.fixture(scope="module")
def counts():
    documents, _ = known_corpus(300)
    return documents.to_matrix(50)


@pytest.fixture(scope="module")
def fitted(counts):
    return fk.models.LDA(5, topic_word_prior=0.05, doc_topic_prior=0.2, passes=4, **QUICK).fit(counts)


def test_topics_are_distributions_with_their_uncertainty(fitted):
    assert fitted.components_.shape == (5, 50)
    np.testing.assert_allclose(fitted.components_.sum(1), 1, rtol=1e-5)
    low, high = fitted.credible_interval(0.9)
    assert np.all(low <= high)
    # The mean of a skewed law may lie outside, but seldom for a word that matters.
    often = fitted.components_ > 0.03
    inside = (low <= fitted.components_) & (fitted.components_ <= high)
    assert inside[often].mean() > 0.95
    assert np.all((high - low)[often] > 0)
    assert fitted.draws_.shape[1:] == (5, 50)
    assert len(fitted.draws_) > 3
    assert fitted.n_documents_seen_ == 4 * 300


def test_transform_and_perplexity(fitted, counts):
    pi = fitted.transform(counts[:20])
    assert pi.shape == (20, 5)
    np.testing.assert_allclose(pi.sum(1), 1, rtol=1e-5)
    unigrams = np.asarray(counts.sum(0)).ravel() / counts.sum()
    of_unigrams = np.exp(-(counts @ np.log(np.maximum(unigrams, 1e-12))).sum() / counts.sum())
    assert fitted.perplexity(counts) < 0.7 * of_unigrams
    assert fitted.score(counts) == pytest.approx(-np.log(fitted.perplexity(counts)))


def test_the_same_seed_gives_the_same_topics_and_partial_fit_goes_on(counts):
    def made(n_jobs=1):
        return fk.models.LDA(5, random_state=3, batch_size=25, sweeps=6, burn_in=3, passes=1, n_jobs=n_jobs)

    whole = made().partial_fit(counts[:100])
    in_two = made(n_jobs=2).partial_fit(counts[:50]).partial_fit(counts[50:100])
    assert in_two.n_batch_iter_ == 4
    np.testing.assert_array_equal(whole.components_, in_two.components_)
    # A seed less chance than the order: fit starts again.
    first = made().fit(counts[:100]).components_
    np.testing.assert_array_equal(made().fit(counts[:100]).fit(counts[:100]).components_, first)
    other = made().set_params(random_state=4).fit(counts[:100]).components_
    assert np.any(other != first)


def test_kinds_of_matrices_give_the_same(counts):
    some = counts[:60]
    found = [
        fk.models.LDA(4, passes=1, **QUICK).fit(X).components_
        for X in (some, some.toarray(), sparse.csc_matrix(some), some.toarray().astype(np.uint16))
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_it_drops_into_a_pipeline_after_countvectorizer():
    texts = [
        "cats purr and cats sleep",
        "stocks rise and stocks fall",
        "cats sleep",
        "markets and stocks",
    ] * 15
    pipeline = make_pipeline(CountVectorizer(), fk.models.LDA(2, passes=1, **QUICK))
    pi = pipeline.fit(texts).transform(["cats purr", "stocks fall"])
    assert pi.shape == (2, 2)
    assert list(pipeline[-1].get_feature_names_out()) == ["lda0", "lda1"]
    copy = clone(pipeline[-1])
    assert copy.get_params() == pipeline[-1].get_params()
    assert not hasattr(copy, "_chain")


def test_rows_without_words_are_passed_over_and_get_the_prior(counts, fitted, monkeypatch):
    with_empty = sparse.vstack([counts[:40], sparse.csr_matrix((3, 50))]).tocsr()
    lda = fk.models.LDA(3, passes=1, **QUICK).fit(with_empty)
    assert lda.n_documents_seen_ == 40
    # By default as often as it takes to read so many documents; those without words do not count.
    monkeypatch.setattr("fokker.models.lda.settings._DOCUMENTS_TO_READ", 199)
    assert fk.models.LDA(3, **QUICK).fit(with_empty).n_documents_seen_ == 5 * 40
    np.testing.assert_allclose(fitted.transform(with_empty)[-1], 0.2, rtol=1e-5)


@pytest.mark.parametrize(("given", "wanted"), [({}, 40), ({"total_samples": 1000}, 1000)])
def test_the_corpus_is_as_large_as_it_is_said_or_found_to_be(counts, monkeypatch, given, wanted):
    told = []
    step = TopicChain.step
    monkeypatch.setattr(
        TopicChain, "step", lambda self, batch, total: (told.append(total), step(self, batch, total))[1]
    )
    # A row without words is in no minibatch: counted as a document, it would have the others count too much.
    with_empty = sparse.vstack([counts[:40], sparse.csr_matrix((30, 50))]).tocsr()
    fk.models.LDA(3, passes=2, **QUICK, **given).fit(with_empty)
    assert told == [wanted] * 4
    told.clear()
    fk.models.LDA(3, **QUICK, **given).partial_fit(with_empty).partial_fit(with_empty)
    assert told == ([20, 40, 60, 80] if not given else [wanted] * 4)


def test_transform_averages_over_the_draws_with_gamma_as_it_was_learned(counts):
    lda = fk.models.LDA(3, learn_doc_topic_prior=True, passes=4, **QUICK).fit(counts[:100])
    gamma = lda.doc_topic_prior_
    assert np.ptp(gamma) > 0
    assert len(lda.draws_) > 1
    some = sparse.vstack([counts[:5], sparse.csr_matrix((1, 50))]).tocsr()
    each = [
        mixtures(Documents.from_matrix(some), draw.T, gamma, i, sweeps=10, burn_in=5)
        for i, draw in enumerate(lda.draws_)
    ]
    found = lda.transform(some)
    np.testing.assert_allclose(found, np.mean(each, 0), rtol=1e-5)
    np.testing.assert_allclose(found[-1], gamma / gamma.sum(), rtol=1e-5)


def test_gamma_is_learned():
    rng = np.random.default_rng(0)
    truth = np.array([0.1, 0.4, 1.5])
    counts = np.stack([rng.multinomial(80, rng.dirichlet(truth)) for _ in range(3000)])
    gamma = np.full(3, 0.5)
    for _ in range(60):
        gamma = updated_gamma(gamma, counts)
    np.testing.assert_allclose(gamma, truth, rtol=0.12)


def test_a_learned_gamma_nears_the_truth_in_a_chain(counts):
    lda = fk.models.LDA(
        5, doc_topic_prior=0.05, learn_doc_topic_prior=True, topic_word_prior=0.05, passes=5, **QUICK
    )
    lda.fit(counts)
    # The documents were made with 0.2.
    assert 0.13 < lda.doc_topic_prior_.mean() < 0.3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_components": 51}, "K larger than V"),
        ({"n_components": 0}, "topics must be a whole number"),
        ({"sampler": "sgrdl"}, "Did you mean 'sgrld'"),
        ({"burn_in": 10, "sweeps": 10}, "at least one must remain"),
        ({"doc_topic_prior": 0.0}, "gamma must be a positive number"),
        ({"topic_word_prior": float("nan")}, "alpha must be a positive number"),
        ({"passes": 0}, "passes must be a whole number"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"total_samples": -3}, "total must be a whole number"),
    ],
)
def test_settings_that_make_no_sense_are_named(counts, settings, words):
    with pytest.raises(ValueError, match=words):
        fk.models.LDA(**{"n_components": 5, **settings}).fit(counts)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.zeros((3, 4)), "no document of X has a word"),
        (np.zeros((0, 4)), "no rows"),
        (np.ones(4), "one row per document"),
        (np.array([[0.5, 1.0]]), "0.5"),
        (np.array([[-1, 2]]), "-1"),
        (np.array([[np.nan, 2.0]]), "nan"),
    ],
)
def test_counts_that_are_none_are_named(matrix, words):
    with pytest.raises(ValueError, match=words):
        fk.models.LDA(2, **QUICK).fit(matrix)


def test_other_words_and_no_fit_are_named(fitted):
    with pytest.raises(ValueError, match="over 50 words"):
        fitted.transform(np.ones((2, 7)))
    with pytest.raises(ValueError, match="not fitted yet"):
        fk.models.LDA(3).transform(np.ones((2, 7)))
