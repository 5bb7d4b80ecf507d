"""The compiled sweeps against enumeration: every draw is from its full conditional, whatever the threads."""

import numpy as np
import pytest
from test_lda_reference import BETA, CASES, CLEAR, FALSE_ALARM, THETA, false_alarm

from enumerated_topics import enumerate_topics
from fokker.corpora import Documents
from fokker.lab.experiments._topic_runs import expected_counts

COPIES = 600


def copies(words, count=COPIES):
    """The same document many times, with words of its own for each copy: their counts then stay apart."""
    found, counts = np.unique(words, return_counts=True)
    rows = [(str(i), found + i * len(BETA), counts) for i in range(count)]
    return Documents.from_rows([(name, w.astype(np.int32), c.astype(np.int32)) for name, w, c in rows])


def estimates(words, beta, gamma, sweeps=400, burn_in=200, seed=5, topics=3):
    """E[n_kw] and E[n_dk] of each copy, as rows."""
    documents = copies(words)
    prior = np.broadcast_to(np.asarray(gamma, float), (topics,))
    found = expected_counts(
        documents,
        np.tile(beta, (COPIES, 1)).astype(np.float32),
        prior,
        np.uint64(seed),
        sweeps=sweeps,
        burn_in=burn_in,
    )
    return np.concatenate([found.counts.reshape(COPIES, -1), found.mixtures], 1).astype(np.float64)


def exact(words, beta, gamma):
    found = enumerate_topics(words, beta, gamma)
    return np.concatenate([found.counts.ravel(), found.mixture])


@pytest.mark.parametrize("case", CASES)
def test_the_sweeps_agree_with_enumeration(case):
    words, gamma = CASES[case]
    # A document of few words with a small γ seldom changes its mind.
    sweeps = 3000 if case == "sparse" else 400
    drawn = estimates(words, BETA, gamma, sweeps, sweeps // 2)
    assert false_alarm(drawn, exact(words, BETA, gamma)) > FALSE_ALARM


def test_with_theta_in_place_of_beta_they_are_found_wrong():
    words, gamma = CASES["asymmetric"]
    assert false_alarm(estimates(words, THETA, gamma), exact(words, BETA, gamma)) < CLEAR


@pytest.mark.slow
@pytest.mark.parametrize("topics", [1, 16, 17])
def test_topics_that_fill_their_vectors_or_do_not_agree_with_enumeration(topics):
    rng = np.random.default_rng(topics)
    beta = rng.dirichlet(np.full(4, 0.5), topics).T
    gamma = rng.gamma(1.0, 0.3, topics) + 0.01
    words = [0, 2, 2] if topics < 40 else [0, 2]
    drawn, truth = estimates(words, beta, gamma, topics=topics), exact(words, beta, gamma)
    if topics == 1:
        np.testing.assert_allclose(drawn, np.broadcast_to(truth, drawn.shape))
        return
    # Topics that are all but impossible are looked at together: seldom drawn, their errors are not normal.
    likely = truth > 0.01
    join = lambda x: np.concatenate([x[..., likely], x[..., ~likely].sum(-1, keepdims=True)], -1)  # noqa: E731
    assert false_alarm(join(drawn), join(truth)) > FALSE_ALARM


def corpus(count=37, words=60, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(0.02, count)
    matrix = np.stack([rng.multinomial(n, rng.dirichlet(np.full(words, 0.1))) for n in lengths])
    return Documents.from_matrix(matrix), rng.gamma(0.3, 1, (words, 20)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads):
    documents, beta = corpus()
    gamma = np.full(20, 0.1)
    alone = expected_counts(documents, beta, gamma, np.uint64(9), sweeps=20, burn_in=5)
    shared = expected_counts(documents, beta, gamma, np.uint64(9), sweeps=20, burn_in=5, threads=threads)
    np.testing.assert_array_equal(alone.counts, shared.counts)
    np.testing.assert_array_equal(alone.mixtures, shared.mixtures)
    other = expected_counts(documents, beta, gamma, np.uint64(10), sweeps=20, burn_in=5)
    assert np.any(other.counts != alone.counts)


def test_every_word_is_counted_once():
    documents, beta = corpus()
    found = expected_counts(documents, beta, np.full(20, 0.1), np.uint64(9), sweeps=12, burn_in=4)
    by_word = np.asarray(documents.to_matrix(60).sum(0)).ravel()
    np.testing.assert_allclose(found.counts.sum(1), by_word, rtol=1e-5)
    np.testing.assert_allclose(found.mixtures.sum(1), documents.lengths, rtol=1e-5)


def test_the_first_sweep_places_each_word_given_those_before():
    words, gamma = [0, 1], (0.2, 1.0, 3.0)
    g, b = np.array(gamma), BETA
    first = g * b[0] / np.sum(g * b[0])
    second = np.zeros(3)
    for k in range(3):
        weights = (g + np.eye(3)[k]) * b[1]
        second += first[k] * weights / weights.sum()
    drawn = estimates(words, BETA, gamma, sweeps=1, burn_in=0)[:, : 2 * 3]
    assert false_alarm(drawn, np.concatenate([first, second])) > FALSE_ALARM


def test_counts_above_sixteen_bits_and_words_that_no_topic_has_survive():
    documents = Documents.from_matrix(np.array([[70_000, 1, 0], [0, 0, 3]]))
    beta = np.array([[0.9, 0.1], [0.0, 0.0], [0.0, 1e-38]], np.float32)
    found = expected_counts(documents, beta, np.full(2, 0.1), np.uint64(1), sweeps=4, burn_in=2)
    np.testing.assert_allclose(found.counts.sum(1), [70_000, 1, 3])
    # A word that has underflowed everywhere goes where its document is.
    assert found.counts[1, 0] > 0.5


def test_an_empty_document_has_no_topics():
    documents = Documents.from_matrix(np.array([[0, 0], [2, 1], [0, 0]]))
    found = expected_counts(
        documents, np.full((2, 3), 0.3, np.float32), np.full(3, 0.1), np.uint64(1), sweeps=4, burn_in=2
    )
    np.testing.assert_allclose(found.mixtures.sum(1), [0, 3, 0], rtol=1e-6)
