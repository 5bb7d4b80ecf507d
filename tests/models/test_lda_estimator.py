"""`fk.models.LDA` has the interface of scikit-learn."""

import importlib
import pickle
import sys

import numpy as np
import pandas
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from test_lda_chain import known_corpus

import fokker as fk
from fokker.corpora import Documents
from fokker.models.topics.chain import TopicChain
from fokker.models.topics.evaluate import identities, mixture_draw, mixtures
from fokker.models.topics.judgement import (
    judge,
)
from fokker.models.topics.weights import Weights
from fokker.models.topics.wording import FIT

pytestmark = pytest.mark.dependencies

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


def test_what_cannot_change_is_no_problem():
    """A single topic has all words; five words are the five first of every topic."""
    g = np.random.default_rng(0)
    one = fk.models.LDA(1, passes=4, progress=False).fit(g.poisson(0.5, size=(100, 30)))
    assert not any("drawn" in problem for problem in one.verdict_.problems)
    mixtures = g.dirichlet([0.2] * 5, 100)
    few = fk.models.LDA(3, passes=4, progress=False).fit(np.array([g.multinomial(40, p) for p in mixtures]))
    assert "changed during the draws" not in str(few.verdict_)


def test_a_chain_that_stands_still_is_reported(counts, monkeypatch):
    lda = fk.models.LDA(5, topic_word_prior=0.05, doc_topic_prior=0.2, passes=2, **QUICK)
    text = "The topics of the words were drawn once for all 20 draws"
    assert text not in str(lda.fit(counts[:100]).verdict_)
    # Broken on purpose, and a pass that is too large for memory: θ alone is drawn again, independently.
    with monkeypatch.context() as broken:
        broken.setattr("fokker.models.topics.assignments.Assignments.sweep", lambda *given: None)
        stuck = lda.fit(counts[:100])
        assert any(problem.startswith(text) for problem in stuck.verdict_.problems)
    assert text in str(pickle.loads(pickle.dumps(stuck)).verdict_)
    monkeypatch.setattr("fokker.models.topics.assignments._MAX_BYTES", 700)
    assert text in str(lda.fit(counts[:100]).verdict_)


def test_topics_that_drift_during_the_draws_are_reported(fitted):
    draws = np.array(fitted._training.draws.draws)  # (n, V, K)
    words = [str(w) for w in range(draws.shape[1])]
    assert "changed during the draws" not in str(judge(fitted._training.judged(draws, words), FIT))
    # From the middle on two topics have the words of other ones, bit by bit.
    share = np.clip(np.linspace(-0.5, 1.5, len(draws)), 0, 1)[:, None, None]
    drifting = draws.copy()
    drifting[:, :, [1, 3]] = (1 - share) * draws[:, :, [1, 3]] + share * draws[:, ::-1][:, :, [1, 3]]
    (problem,) = (x for x in judge(fitted._training.judged(drifting, words), FIT).problems if "changed" in x)
    assert problem.startswith("2 of 5 topics changed during the draws")
    assert problem.endswith(": 1, 3. Increase passes.")


def test_intervals_that_the_draws_cannot_give_are_refused_with_what_is_needed(fitted, counts):
    for probability, needed in ((0.95, 39), (0.99, 199), (0.905, 21)):
        with pytest.raises(
            ValueError, match=f"needs {needed} stored draws .* are 20: fit with draws={needed}"
        ):
            fitted.credible_interval(probability)
    assert fitted.credible_interval(0.9).shape == fitted.credible_interval(0.5).shape == (2, 5, 50)
    # A stream halves its store when it is full.
    stream = fk.models.LDA(3, **SCIR).partial_fit(counts[:60])
    with pytest.raises(ValueError, match=r"needs 19 stored draws .*: fit with draws=38"):
        stream.credible_interval(0.9)


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


def test_partial_fit_takes_other_settings_of_reading_and_refuses_those_of_the_chain(counts):
    lda = fk.models.LDA(3, topic_word_prior=np.full(50, 0.1), **QUICK).partial_fit(counts[:50])
    before = lda.get_params()
    for name, value in {
        "n_components": 7,
        "sampler": "scir",
        "topic_word_prior": 0.2,
        "doc_topic_prior": 0.2,
        "seed_words": {"a": [1]},
        "step_size": 0.1,
        "friction": 2.0,
        "draws": 30,
        "random_state": 1,
    }.items():
        lda.set_params(**{name: value})
        message = rf"cannot change {name}: {name} was .* and is .*call fit again, or make a new LDA"
        with pytest.raises(ValueError, match=message):
            lda.partial_fit(counts[50:100])
        assert lda.topic_names_ == ["0", "1", "2"]
        lda.set_params(**{name: before[name]})
    assert lda.n_documents_seen_ == 50
    # An equal value is no change; the documents after it are read in other minibatches.
    lda.set_params(topic_word_prior=[0.1] * 50, random_state=np.int64(0), passes=3, progress=False)
    lda.set_params(batch_size=10, n_jobs=2, sweeps=6, burn_in=2).partial_fit(counts[50:100])
    assert lda.n_batch_iter_ == 2 + 5
    chain, curve = lda._training.chain, lda._training.curve
    assert (chain.sweeps, chain.burn_in) == (6, 2)
    assert {chain.threads, chain.topics.threads, curve.threads, curve.held_out.threads} == {2}


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
    assert not hasattr(copy, "_training")


def test_rows_without_words_are_passed_over_and_get_the_prior(counts, fitted, monkeypatch):
    with_empty = sparse.vstack([counts[:40], sparse.csr_matrix((3, 50))]).tocsr()
    lda = fk.models.LDA(3, passes=1, **QUICK).fit(with_empty)
    assert lda.n_documents_seen_ == 40
    # By default twice where there are fewer than so many documents; those without words do not count.
    monkeypatch.setattr("fokker.models.topics.settings._DOCUMENTS_TO_READ", 41)
    assert fk.models.LDA(3, **QUICK).fit(with_empty).n_documents_seen_ == 2 * 40
    np.testing.assert_allclose(fitted.transform(with_empty)[-1], 0.2, rtol=1e-5)


@pytest.mark.parametrize(("given", "wanted"), [({}, 40), ({"total_samples": 1000}, 1000)])
def test_the_corpus_is_as_large_as_it_is_said_or_found_to_be(counts, monkeypatch, given, wanted):
    totals_given = []
    for name in ("step", "end_pass"):
        original = getattr(TopicChain, name)
        monkeypatch.setattr(
            TopicChain, name, lambda *given, f=original: (totals_given.append(given[-1]), f(*given))[1]
        )
    # A row without words is in no minibatch: counted as a document, it would have the others count too much.
    with_empty = sparse.vstack([counts[:40], sparse.csr_matrix((30, 50))]).tocsr()
    fk.models.LDA(3, passes=2, **QUICK, **given).fit(with_empty)
    # Two minibatches of the first pass, and the end of the second, which is exact.
    assert totals_given == [wanted] * 3
    totals_given.clear()
    fk.models.LDA(3, **QUICK, **given).partial_fit(with_empty).partial_fit(with_empty)
    assert totals_given == ([20, 40, 60, 80] if not given else [wanted] * 4)


def test_transform_averages_over_the_draws_with_gamma_as_it_was_learned(counts):
    lda = fk.models.LDA(3, doc_topic_prior="asymmetric", passes=4, **QUICK).fit(counts[:100])
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


@pytest.mark.slow
def test_a_learned_gamma_nears_the_truth_in_a_chain(counts):
    lda = fk.models.LDA(5, doc_topic_prior="symmetric", topic_word_prior=0.05, passes=5, **QUICK)
    lda.fit(counts)
    # The documents were made with 0.2.
    assert 0.13 < lda.doc_topic_prior_.mean() < 0.3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_components": 51}, "topics=51 is more than the 50 words of the vocabulary"),
        ({"n_components": 0}, "n_components must be a whole number of at least 1; 0"),
        ({"n_components": 2.0}, r"n_components must be a whole number of at least 1; 2\.0"),
        ({"sampler": "sgrdl"}, "Did you mean 'sgrld'"),
        ({"burn_in": 10, "sweeps": 10}, "at least one must remain"),
        ({"doc_topic_prior": 0.0}, "doc_topic_prior must be a positive number"),
        ({"topic_word_prior": float("nan")}, "topic_word_prior must be a positive number"),
        ({"passes": 0}, "passes must be a whole number"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"total_samples": -3}, "total_samples must be a whole number"),
        (
            {"topic_word_prior": [0.1] * 49},
            r"one per word \(50,\), or one per topic and word \(5, 50\); an array of shape \(49,\)",
        ),
        ({"doc_topic_prior": [0.1] * 4}, "doc_topic_prior has 4 numbers for 5 topics"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"step_size": -1.0}, "step_size must be a positive number"),
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0"),
        ({"random_state": "x"}, "random_state must be a whole number of 32 bits, from 0 .* Or give a numpy"),
        ({"validation_fraction": 1.0}, "validation_fraction must be from 0 to below 1"),
    ],
)
def test_settings_that_make_no_sense_are_named(counts, settings, words):
    with pytest.raises(ValueError, match=words):
        fk.models.LDA(**{"n_components": 5, **settings}).fit(counts)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.zeros((3, 4)), "no document of X has a word"),
        (np.zeros((0, 4)), "0 sample"),
        (np.ones(4), "Expected 2D array"),
        (np.ones((3, 1)), "n_features=1 word"),
        (np.array([[1, 2], [-3, 2]]), r"Negative values .* row 1 \(from 0\) has -3"),
        (
            np.array([[1, 2], [3, np.nan]]),
            r"not finite, NaN, first in row 1, column 1 \(both from 0\): remove",
        ),
        (sparse.csr_matrix([[0, 2], [np.inf, 1]]), "not finite, inf, first in row 1, column 0"),
    ],
)
def test_counts_that_are_none_are_named(matrix, words):
    with pytest.raises(ValueError, match=words):
        fk.models.LDA(2, **QUICK).fit(matrix)


def test_other_words_and_no_fit_are_named(fitted):
    with pytest.raises(ValueError, match="7 features, but LDA is expecting 50"):
        fitted.transform(np.ones((2, 7)))
    for use in ("transform", "perplexity", "score", "coherence"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(fk.models.LDA(3), use)(np.ones((2, 7)))
    with pytest.raises(NotFittedError):
        fk.models.LDA(3).show_topics()


# What scikit-learn expects.

SCIR = dict(sampler="scir", passes=1, batch_size=20, sweeps=4, burn_in=2, n_jobs=1, draws=3)  # noqa: C408


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of weights that are rounded
def test_every_check_of_scikit_learn_passes():
    results = check_estimator(fk.models.LDA(2, **SCIR), on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) > 40


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sampler": "sgld", "friction": 2.0}, "friction=2.0 is of sghmc and sgrhmc, and sampler='sgld' has"),
        ({"seed_weight": 5}, "seed_weight=5.0 is of seed_words=…, which are not given"),
    ],
)
def test_settings_that_others_leave_without_effect_are_refused(counts, settings, message):
    for fit in (fk.models.LDA.fit, fk.models.LDA.partial_fit):
        with pytest.raises(ValueError, match=message):
            fit(fk.models.LDA(3, **settings), counts)


def test_columns_in_another_order_are_refused(counts):
    names = [f"word{w}" for w in range(50)]
    frame = pandas.DataFrame(counts[:60].toarray(), columns=names)
    lda = fk.models.LDA(3, **SCIR).fit(frame)
    assert lda.show_topics(2)[0][0][0].startswith("word")
    with pytest.raises(ValueError, match="must be in the same order"):
        lda.transform(frame[names[::-1]])
    assert lda.set_output(transform="pandas").transform(frame[:2]).columns.tolist() == [
        "lda0",
        "lda1",
        "lda2",
    ]


def test_intervals_of_mixtures_contain_them_as_often_as_they_say(fitted, counts):
    low, high = fitted.mixture_interval(counts[:6], 0.9)
    assert low.shape == (6, 5)
    assert np.all((low >= 0) & (low < high) & (high <= 1))
    np.testing.assert_array_equal(fitted.mixture_interval(counts[2:4], 0.9)[0], low[2:4])
    with pytest.raises(ValueError, match="needs 39 stored draws"):
        fitted.mixture_interval(counts[:6], 0.95)
    # Documents whose topics and mixtures are known: 0.9 for 19 draws; 400 × 3 pairs, four standard errors of
    # documents, as shares of one document hang together.
    generator = np.random.default_rng(0)
    beta, gamma = generator.dirichlet(np.full(30, 0.2), 3).T, np.array([0.3, 0.5, 0.7])
    pi = generator.dirichlet(gamma, 400)
    documents = Weights.of(np.stack([generator.multinomial(15, beta @ p) for p in pi])).counts(0)
    draws = np.stack([mixture_draw(documents, beta, gamma, seed, sweeps=15) for seed in range(19)])
    inside = (draws.min(0) <= pi) & (pi <= draws.max(0))
    assert abs(inside.mean() - 0.9) < 4 * inside.mean(1).std() / 20


def test_a_document_has_the_same_mixture_in_any_company(fitted, counts):
    together = fitted.transform(counts[:12])
    np.testing.assert_array_equal(fitted.transform(counts[5:6]), together[5:6])
    np.testing.assert_array_equal(fitted.transform(counts[:12][::-1]), together[::-1])
    # Another document has other random numbers, so that errors do not repeat in all of them.
    assert len(np.unique(identities(Documents.from_matrix(counts[:12])))) == 12


def test_numbers_of_numpy_and_every_random_state(counts):
    some = counts[:40]

    def components(**settings):
        return fk.models.LDA(**{"n_components": 3, **SCIR, **settings}).fit(some).components_

    plain = components(random_state=7, doc_topic_prior=0.1)
    same = components(
        n_components=np.int64(3), random_state=np.int32(7), doc_topic_prior=np.float32(0.1), passes=np.int8(1)
    )
    np.testing.assert_allclose(same, plain, rtol=1e-5)
    np.testing.assert_array_equal(components(random_state=7, doc_topic_prior=[0.1] * 3), plain)
    assert np.any(components(random_state=7, doc_topic_prior=[3.0, 0.1, 0.1]) != plain)
    drawn = [components(random_state=np.random.RandomState(1)) for _ in range(2)]
    np.testing.assert_array_equal(*drawn)
    np.testing.assert_array_equal(*(components(random_state=np.random.default_rng(1)) for _ in range(2)))
    assert np.any(components(random_state=None) != components(random_state=None))


def test_weights_are_rounded_without_bias_and_warned_of(counts):
    weights = sparse.random(30, 40, 0.3, random_state=np.random.default_rng(0), format="csr") * 3
    rounded = [Weights.of(weights).counts(np.uint64(seed)).to_matrix(40).toarray() for seed in range(1000)]
    x = weights.toarray()
    share = x - np.floor(x)
    error = (np.mean(rounded, 0) - x)[share > 0] / np.sqrt(share * (1 - share) / 1000)[share > 0]
    # 360 errors, about standard normal: the largest is above 4.5 once in 400 keys, the mean square outside
    # of 0.75 to 1.25 once in 1,000.
    assert np.abs(error).max() < 4.5
    assert 0.75 < np.mean(error**2) < 1.25
    # Negative control: rounding to the nearest is far off.
    assert np.abs((np.rint(x) - x)[share > 0] / np.sqrt(share * (1 - share) / 1000)[share > 0]).max() > 15
    with pytest.warns(UserWarning, match="no whole numbers: .* CountVectorizer"):
        lda = fk.models.LDA(3, **SCIR).fit(weights)
    together = lda.transform(weights)
    np.testing.assert_array_equal(lda.transform(weights[3:5]), together[3:5])


@pytest.mark.parametrize("copied", ["file", "pickle"])
def test_a_stored_estimator_goes_on_to_the_bit(counts, tmp_path, copied):
    names = [f"w{w}" for w in range(50)]
    frame = pandas.DataFrame(counts[:60].toarray(), columns=names)
    lda = fk.models.LDA(3, **SCIR, random_state=np.random.RandomState(2), doc_topic_prior=np.full(3, 0.2))
    lda.fit(frame)
    if copied == "file":
        lda.save(tmp_path / "lda.npz")
        again = fk.models.LDA.load(tmp_path / "lda.npz")
        assert again.random_state == lda._seed
    else:
        again = pickle.loads(pickle.dumps(lda))
    np.testing.assert_array_equal(again.draws_, lda.draws_)
    np.testing.assert_array_equal(again.perplexity_curve_, lda.perplexity_curve_)
    assert again.show_topics(3) == lda.show_topics(3)
    assert str(again.verdict_) == str(lda.verdict_)
    for estimator in (lda, again):
        estimator.partial_fit(frame)
    np.testing.assert_array_equal(again.components_, lda.components_)
    np.testing.assert_array_equal(again.transform(frame[:5]), lda.transform(frame[:5]))


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match="is damaged, or not a fitted LDA"):
        fk.models.LDA.load(tmp_path / "x.npz")
    with pytest.raises(NotFittedError):
        fk.models.LDA(3).save(tmp_path / "y.npz")


@pytest.mark.slow
def test_the_curve_falls_and_the_verdict_is_in_words(fitted, counts):
    prior = {"topic_word_prior": 0.05, "doc_topic_prior": 0.2}
    curve = fk.models.LDA(5, **prior, passes=4, start_documents=0, **QUICK).fit(counts).perplexity_curve_
    # The last two passes are exact: the first is evaluated at its end, of the second each of 20 draws.
    assert curve[-21:, 0].tolist() == [900, *[1200] * 20]
    assert np.sum(curve[:, 0] == 900) == 1
    assert curve[-1, 1] < 0.8 * curve[0, 1]
    # A start from documents is there from the first step.
    assert fitted.perplexity_curve_[0, 1] < 0.8 * curve[0, 1]
    assert "training documents" in str(fitted.verdict_)
    assert "validation_fraction" in str(fitted.verdict_)
    assert "noise of minibatches" not in str(fitted.verdict_)
    held = fk.models.LDA(3, **SCIR, validation_fraction=0.2).fit(counts[:60])
    assert held.n_documents_seen_ == 48
    assert "of 12 held-out documents" in str(held.verdict_)
    assert not held.verdict_.ok
    # Two topics of a corpus that has none.
    noise = np.random.default_rng(0).poisson(0.3, (40, 50))
    verdict = fk.models.LDA(2, **SCIR, validation_fraction=0.5).fit(noise).verdict_
    assert "explain nothing" in str(verdict)
    assert str(verdict).startswith("Do not use:")
    assert verdict.grade is fk.diagnostics.Grade.BAD
    verdict = fk.models.LDA(1, **SCIR, validation_fraction=0.5).fit(noise).verdict_
    assert "One topic is those frequencies: try more (n_components)." in str(verdict)
    assert "no two" not in str(verdict)
    # Topics are judged by their words, as `fokker lda` does.
    rare = np.random.default_rng(0).poisson(0.06, (60, 50))
    problems = fk.models.LDA(10, **SCIR).fit(rare).verdict_.problems
    assert any("NPMI below 0" in problem and "n_components" in problem for problem in problems)
    assert "no two share" in str(fitted.verdict_)


def test_the_verdict_after_partial_fit_says_what_it_is_based_on(counts):
    lda = fk.models.LDA(3, **SCIR).fit(counts[:60]).partial_fit(counts[:60])
    text = str(lda.verdict_)
    assert "call perplexity with other documents to judge predictions" in text
    assert "Give more documents to partial_fit." in text
    assert "come from steps with minibatches: their bounds have the noise of minibatches" in text
    assert "validation_fraction" not in text
    assert "Increase passes" not in text


def test_topics_are_shown_with_their_words(fitted, counts):
    names = [f"word{w}" for w in range(50)]
    shown = fitted.show_topics(4, feature_names=names)
    assert [len(topic) for topic in shown] == [4] * 5
    first = [int(word.removeprefix("word")) for word, _ in shown[0]]
    assert first == np.argsort(-fitted.components_[0])[:4].tolist()
    assert fitted.show_topics(1)[0][0][0] == f"#{first[0]}"
    with pytest.raises(ValueError, match="3 names for the 50 columns"):
        fitted.show_topics(feature_names=["a", "b", "c"])
    assert fitted.coherence(counts, "c_v").shape == (5,)
    with pytest.raises(ValueError, match="npmi, c_v, u_mass, not 'cv'"):
        fitted.coherence(counts, "cv")


def test_it_works_without_scikit_learn(counts, monkeypatch):
    modules = tuple(f"fokker.models.{name}" for name in ("estimator", "topics.learned", "topics.estimator"))
    importlib.import_module(modules[-1])  # so that it comes back after the test
    for name in modules:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    lda = importlib.import_module(modules[-1]).LDA(3, **SCIR)
    frame = pandas.DataFrame(counts[:60].toarray(), columns=[f"w{w}" for w in range(50)])
    with pytest.raises(AttributeError, match="not fitted yet"):
        lda.transform(frame)
    assert lda.fit_transform(frame).shape == (60, 3)
    assert lda.get_params()["n_components"] == 3
    assert lda.set_params(passes=2).passes == 2
    for wrong, message in (
        (counts[:, :3], "X has 3 features, but LDA is expecting 50"),
        (np.ones(50), "one row per datum"),
        (frame[frame.columns[::-1]], "feature names should match"),
    ):
        with pytest.raises(ValueError, match=message):
            lda.transform(wrong)
    with pytest.raises(ValueError, match="no parameter 'pases'"):
        lda.set_params(pases=2)


def test_the_documents_of_fit_count_once_in_the_size_of_the_corpus(counts, monkeypatch):
    lda = fk.models.LDA(3, passes=4, exact_passes=0, start_documents=0, batch_size=50).fit(counts)
    totals, right = [], TopicChain.step

    def step(self, documents, total):
        totals.append(total)
        return right(self, documents, total)

    monkeypatch.setattr(TopicChain, "step", step)
    size = int(np.sum(counts.sum(axis=1) > 0))
    lda.partial_fit(counts[:50])
    assert totals == [size + 50]
    assert lda.n_documents_seen_ == 4 * size + 50


def test_texts_are_refused_with_what_counts_them():
    with pytest.raises(ValueError, match=r"X is text, and counts are needed.*CountVectorizer"):
        fk.models.LDA(2).fit(["one text", "another"])
