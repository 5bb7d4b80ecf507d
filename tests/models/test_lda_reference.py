"""Topics of documents: enumeration against quadrature, and both Gibbs samplers against enumeration."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammainc, gammaln, roots_sh_jacobi

from enumerated_topics import (
    MAX_ASSIGNMENTS,
    all_assignments,
    dense_gibbs,
    enumerate_posterior,
    enumerate_topics,
)
from fokker.corpora import Documents
from fokker.models.topics import gibbs_jax
from fokker.models.topics.chain import TopicChain
from marks import long_case

# Of one comparison of a right sampler with enumeration, over all its numbers; there are fewer than ten.
FALSE_ALARM = 1e-4
# What a wrong sampler must be found with.
CLEAR = 1e-9

# Words by topics; θ's column sums are far from equal, as they are when θ is sampled.
BETA = np.array([[0.5, 0.1, 0.2], [0.2, 0.6, 0.1], [0.2, 0.2, 0.3], [0.1, 0.1, 0.4]])
THETA = BETA * np.array([0.3, 4.0, 1.5])
CASES = {
    "repeats": ([0, 0, 1, 0], 0.5),
    "asymmetric": ([0, 1, 2, 2], (0.2, 1.0, 3.0)),
    "sparse": ([0, 0, 2], 0.01),
    "one": ([3], (0.7, 0.1, 0.2)),
}


def beta_rule(a, b, points=30):
    """Nodes and weights for the expectation under Beta(a, b): exact for polynomials of degree < 2 points."""
    nodes, weights = roots_sh_jacobi(points, a + b - 1, a)
    return nodes, weights / weights.sum()


def false_alarm(estimates, truth):
    """The probability of such a distance between the estimates' mean and the truth, in any number."""
    varied = truth > 0
    assert np.all(estimates[:, ~varied] == 0)
    found, truth = estimates[:, varied], truth[varied]
    error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
    assert np.all(error > 0)
    t = np.abs(found.mean(axis=0) - truth) / error
    return min(1.0, truth.size * 2 * stats.t.sf(t.max(), len(found) - 1))


# Enumeration ------------------------------------------------------------------------------------------------


def test_two_tokens_by_hand():
    # γ = (1, 2): p(z) = γ_a γ_b/12 for two topics, γ_a (γ_a + 1)/12 for twice the same.
    found = enumerate_topics([0, 1], [[0.5, 0.2], [0.1, 0.3]], [1.0, 2.0])
    joint = {
        (0, 0): 2 / 12 * 0.5 * 0.1,
        (0, 1): 2 / 12 * 0.5 * 0.3,
        (1, 0): 2 / 12 * 0.2 * 0.1,
        (1, 1): 6 / 12 * 0.2 * 0.3,
    }
    total = sum(joint.values())
    assert math.isclose(found.log_evidence, math.log(total))
    for z, p in zip(found.assignments, found.probabilities, strict=True):
        assert math.isclose(p, joint[tuple(z.tolist())] / total)
    first = (joint[0, 0] + joint[0, 1]) / total
    second = (joint[0, 0] + joint[1, 0]) / total
    np.testing.assert_allclose(found.counts, [[first, 1 - first], [second, 1 - second]])
    np.testing.assert_allclose(found.mixture, [first + second, 2 - first - second])


@pytest.mark.parametrize("gamma", [(0.5, 0.5), (0.3, 2.0), (0.01, 0.01)])
@pytest.mark.parametrize("words", [[0], [0, 0, 1], [2, 1, 0, 2, 2, 1, 1]])
def test_topics_are_those_of_an_integral_over_the_mixture(words, gamma):
    beta = BETA[:, :2]
    found = enumerate_topics(words, beta, gamma)
    assert math.isclose(found.probabilities.sum(), 1)
    # Given π tokens are independent, with p(x) = Σ_k π_k β_kx: z need not be summed.
    pi, weights = beta_rule(*gamma)
    parts = np.stack([pi, 1 - pi], axis=1)[:, None, :] * beta[words]
    likelihood = weights * parts.sum(axis=2).prod(axis=1)
    assert math.isclose(found.log_evidence, math.log(likelihood.sum()), rel_tol=1e-10)
    shares = parts / parts.sum(axis=2, keepdims=True)
    topics = np.einsum("p,ptk->tk", likelihood / likelihood.sum(), shares)
    counts = np.zeros_like(beta)
    np.add.at(counts, words, topics)
    np.testing.assert_allclose(found.counts, counts, atol=1e-10)
    np.testing.assert_allclose(found.mixture, counts.sum(axis=0), atol=1e-10)


@pytest.mark.parametrize(("alpha", "gamma"), [(0.5, 0.4), ((0.3, 1.5), (0.2, 0.9)), (0.05, 0.1)])
def test_the_posterior_is_that_of_an_integral_over_topics_and_mixtures(alpha, gamma):
    documents = [[0, 0, 1], [1, 1], [0, 1, 1, 1]]
    found = enumerate_posterior(documents, 2, 2, alpha, gamma)
    a, g = np.broadcast_to(alpha, 2), np.broadcast_to(gamma, 2)
    b, b_weights = beta_rule(*a, points=12)
    pi, pi_weights = beta_rule(*g, points=12)
    # By β_1, β_2, π: the probability of word 0.
    word = pi * b[:, None, None] + (1 - pi) * b[None, :, None]
    posterior = np.outer(b_weights, b_weights)
    for words in documents:
        zeros = words.count(0)
        posterior = posterior * (word**zeros * (1 - word) ** (len(words) - zeros) @ pi_weights)
    assert math.isclose(found.log_evidence, math.log(posterior.sum()), rel_tol=1e-10)
    assert math.isclose(found.probabilities.sum(), 1)
    posterior /= posterior.sum()
    mixed = g[0] / g.sum() * b[:, None] + g[1] / g.sum() * b[None, :]
    predictive = np.array([np.sum(posterior * mixed), np.sum(posterior * (1 - mixed))])
    np.testing.assert_allclose(found.predictive(), predictive, rtol=1e-9)
    rows = np.stack([b, 1 - b])
    second = (
        np.einsum("ij,vi,wi->vw", posterior, rows, rows) + np.einsum("ij,vj,wj->vw", posterior, rows, rows)
    ) / 2
    np.testing.assert_allclose(found.second_moments(), second, rtol=1e-9)


def test_what_is_predicted_is_a_ratio_of_evidences():
    documents, V, K, alpha = [[0, 2, 2], [1, 0]], 3, 3, (0.4, 0.8, 1.3)

    def ratio(*more, gamma):
        with_more = enumerate_posterior([*documents, *more], V, K, alpha, gamma)
        return math.exp(
            with_more.log_evidence - enumerate_posterior(documents, V, K, alpha, gamma).log_evidence
        )

    gamma = (0.2, 0.5, 1.1)
    found = enumerate_posterior(documents, V, K, alpha, gamma).predictive()
    np.testing.assert_allclose(found, [ratio([v], gamma=gamma) for v in range(V)])
    # Two words share a mixture or do not: E[π_k π_l] = (γ + 1[k=l]) / (K (Kγ + 1)) parts the like topics.
    gamma = 0.3
    shared = np.array([[ratio([v, w], gamma=gamma) for v in range(V)] for w in range(V)])
    apart = np.array([[ratio([v], [w], gamma=gamma) for v in range(V)] for w in range(V)])
    like = shared * (K * gamma + 1) - apart * K * gamma
    np.testing.assert_allclose(enumerate_posterior(documents, V, K, alpha, gamma).second_moments(), like)


def test_enumerations_of_nothing_and_of_too_much():
    nothing = enumerate_topics([], BETA, 0.5)
    assert nothing.log_evidence == 0
    assert not nothing.counts.any()
    prior = enumerate_posterior([[]], 3, 2, 0.5, 0.5)
    np.testing.assert_allclose(prior.predictive(), 1 / 3)
    assert np.array_equal(all_assignments(2, 2), [[0, 0], [1, 0], [0, 1], [1, 1]])
    with pytest.raises(ValueError, match=f"at most {MAX_ASSIGNMENTS}"):
        enumerate_topics([0] * 40, BETA, 0.5)
    with pytest.raises(ValueError, match="beta has 4 rows"):
        enumerate_topics([4], BETA, 0.5)
    with pytest.raises(ValueError, match="vocabulary is 0 to 2"):
        enumerate_posterior([[0], [3]], 3, 2, 0.5, 0.5)
    with pytest.raises(ValueError, match="zero under every topic"):
        enumerate_topics([0], np.zeros((1, 2)), 0.5)


# The textbook's sweep ---------------------------------------------------------------------------------------


def dense(case, beta, sweeps, seed=1):
    words, gamma = CASES[case]
    truth = enumerate_topics(words, BETA, gamma)
    found = [
        dense_gibbs(words, beta, gamma, sweeps, sweeps // 4, rng)
        for rng in np.random.default_rng(seed).spawn(24)
    ]
    for counts, mixture in found:
        np.testing.assert_allclose(counts.sum(axis=1), np.bincount(words, minlength=4), rtol=1e-12)
        np.testing.assert_allclose(counts.sum(axis=0), mixture, rtol=1e-12)
    return false_alarm(np.stack([counts for counts, _ in found]), truth.counts)


@pytest.mark.parametrize(
    ("case", "sweeps"),
    [
        ("repeats", 400),
        ("asymmetric", 400),
        long_case("lda_reference::the_textbook_sweep_agrees_with_enumeration", "sparse", 3000),
        ("one", 400),
    ],
)
def test_the_textbook_sweep_agrees_with_enumeration(case, sweeps):
    assert dense(case, BETA, sweeps) > FALSE_ALARM


def test_with_theta_in_place_of_beta_the_textbook_sweep_is_found_wrong():
    assert dense("asymmetric", THETA, 400) < CLEAR


# Many documents in JAX --------------------------------------------------------------------------------------

COPIES = 512
# Mistakes that enumeration finds: what the Gamma numbers are drawn with in place of γ + n.
MISTAKES = {
    "forgets-γ": lambda shapes: jnp.maximum(shapes - 0.4, 1e-3),
    "γ-twice": lambda shapes: shapes + 0.5,
}


@pytest.mark.parametrize("shape", [0.01, 0.5, 1.0, 7.5, 300.0])
def test_logarithms_of_gamma_numbers_have_their_distribution(shape):
    documents = np.arange(200, dtype=np.uint32)
    key = np.uint32(1), np.uint32(2)
    x = np.asarray(gibbs_jax._log_gammas(key, documents, np.full((200, 50), shape, np.float32)), float)
    assert np.all(np.isfinite(x))

    def cdf(log_gamma):
        # Near zero, where exp underflows, it is its first term.
        tail = np.exp(shape * log_gamma - gammaln(shape + 1))
        return np.where(log_gamma < -80, tail, gammainc(shape, np.exp(np.maximum(log_gamma, -80))))

    assert stats.kstest(x.ravel(), cdf).pvalue > FALSE_ALARM
    # Numbers that are 20 % too large, which changes a power of 1/100 little, are found.
    assert stats.kstest(x.ravel() + 0.2, cdf).pvalue < CLEAR or shape < 0.5


def test_a_gamma_number_is_that_of_the_first_proposal_that_is_accepted(monkeypatch):
    """Where five are rejected, as happens once in 10⁷ times, the sixth; a rejected one has another law."""

    def chosen(key, documents, places):
        first = np.full(np.broadcast_shapes(documents.shape, places.shape), 2**31, np.uint32)
        first[1:6] = 0  # a normal number of -5: v < 0
        return first, np.full_like(first, 2**31)

    monkeypatch.setattr(gibbs_jax, "threefry", chosen)
    shapes = np.array([[0.1, 0.5, 1.0]], np.float32)
    found = gibbs_jax._log_gammas((np.uint32(1), np.uint32(2)), np.zeros(1, np.uint32), shapes)
    # x = 0 and U = 1/2.
    np.testing.assert_allclose(found, np.log(shapes + 2 / 3) + np.log(0.5) / shapes, rtol=1e-5)


def copies(case, beta=BETA, number=COPIES):
    """Rows of a sparse matrix: copies of a document, each with words of its own."""
    words, gamma = CASES[case]
    by_copy = np.add.outer(4 * np.arange(number), words)
    indptr = len(words) * np.arange(number + 1)
    return indptr, by_copy.ravel(), np.ones(by_copy.size, int), np.tile(beta, (number, 1)), gamma


def in_jax(case, beta=BETA, burn_in=300, sweeps=400, expected=None):
    """Copies of a document against enumeration."""
    words, gamma = CASES[case]
    expected = enumerate_topics(words, BETA, gamma).counts if expected is None else expected
    counts, mixtures = gibbs_jax.topic_counts(jax.random.key(2), *copies(case, beta), sweeps, burn_in)
    counts = counts.reshape(COPIES, 4, 3)
    np.testing.assert_array_equal(counts.sum(axis=1), mixtures)
    np.testing.assert_array_equal(mixtures.sum(axis=1), len(words) * (sweeps - burn_in))
    return false_alarm(counts / (sweeps - burn_in), expected)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_many_documents_at_once_agree_with_enumeration(case):
    assert in_jax(case) > FALSE_ALARM


@pytest.mark.slow
def test_with_theta_in_place_of_beta_many_documents_are_found_wrong():
    assert in_jax("asymmetric", THETA) < CLEAR


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mixtures_of_another_distribution_are_found(monkeypatch, mistake):
    right, totals = gibbs_jax._log_gammas, gibbs_jax._totals.__wrapped__
    again = jax.jit(
        lambda *arrays, **static: totals(*arrays, **static), static_argnames=("sweeps", "burn_in", "sample")
    )
    monkeypatch.setattr(gibbs_jax, "_totals", again)
    monkeypatch.setattr(
        gibbs_jax, "_log_gammas", lambda key, number, shapes: right(key, number, MISTAKES[mistake](shapes))
    )
    assert in_jax("repeats") < CLEAR


def chi_square(case, sweeps=40, number=4000):
    """The false-alarm rate of the topics that one sample gives to copies of a document."""
    words, gamma = CASES[case]
    truth = enumerate_topics(words, BETA, gamma)
    z = np.full(number * len(words), -1, np.int32)
    indptr, _, counts, _, _ = copies(case, number=number)
    gibbs_jax.topic_counts(
        jax.random.key(3), indptr, np.tile(words, number), counts, BETA, gamma, sweeps, 0, 0, True, z
    )
    found = np.bincount(z.reshape(number, -1) @ 3 ** np.arange(len(words)), minlength=len(truth.assignments))
    expected = number * truth.probabilities
    # Rare assignments together, so that each cell has enough.
    is_rare = expected < 10
    cells, means = (np.append(x[~is_rare], x[is_rare].sum()) for x in (found, expected))
    is_cell = means > 0
    return stats.chisquare(cells[is_cell], means[is_cell]).pvalue


@pytest.mark.slow
def test_a_sample_is_an_exact_draw_of_all_topics_of_a_document():
    assert chi_square("repeats") > FALSE_ALARM
    # The first sweep does not know the other words: burn-in is not for nothing.
    assert chi_square("repeats", sweeps=1) < CLEAR


def test_the_first_sweep_has_the_mean_of_the_prior():
    words, gamma = CASES["asymmetric"]
    counts, weights = np.zeros((4, 3)), np.array(gamma) * BETA[words]
    np.add.at(counts, words, weights / weights.sum(axis=1, keepdims=True))
    assert in_jax("asymmetric", burn_in=0, sweeps=1, expected=counts) > FALSE_ALARM


@pytest.mark.slow
def test_the_average_is_over_the_sweeps_after_burn_in():
    *documents, beta = corpus()

    def counts(sweeps, burn_in):
        return gibbs_jax.topic_counts(jax.random.key(1), *documents, beta, 0.1, sweeps, burn_in)[0]

    # A draw does not know how many sweeps will follow.
    second, third = counts(2, 1), counts(3, 2)
    assert np.any(second != third)
    np.testing.assert_array_equal(counts(3, 1), second + third)


def corpus(count=40, U=50, seed=3):
    """Rows of a sparse matrix: documents of 0 to about 40 tokens."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 12, count)
    kinds[0] = 0
    indptr = np.concatenate([[0], np.cumsum(kinds)])
    words = np.concatenate([np.sort(rng.choice(U, k, replace=False)) for k in kinds])
    beta = rng.dirichlet(np.full(U, 0.3), 7).T
    return indptr, words, rng.integers(1, 8, words.size), beta


def rows(indptr, words, counts, start, stop):
    """Some of its documents alone."""
    inside = slice(indptr[start], indptr[stop])
    return indptr[start : stop + 1] - indptr[start], words[inside], counts[inside]


@pytest.mark.slow
def test_neither_padding_nor_parts_nor_order_changes_a_draw(monkeypatch):
    indptr, words, counts, beta = corpus()
    documents, gamma, num_tokens = (indptr, words, counts), np.linspace(0.05, 0.5, 7), counts.sum()
    lengths = np.add.reduceat(np.append(counts, 0), indptr[:-1]) * (np.diff(indptr) > 0)

    def swept(indptr, words, counts, key=4, first=0, beta=beta):
        z = np.full(counts.sum(), -1, np.int32)
        totals = gibbs_jax.topic_counts(
            jax.random.key(key), indptr, words, counts, beta, gamma, 10, 2, first, False, z
        )
        return (*totals, z)

    whole = swept(*documents)
    np.testing.assert_array_equal(whole[1].sum(axis=1), 8 * lengths)
    assert whole[0].sum() == 8 * num_tokens
    assert set(whole[2]) <= set(range(7))

    # More padding of documents, tokens and words.
    monkeypatch.setattr(gibbs_jax, "rounded_up", lambda number: 3 * number + 11)
    jax.tree.map(np.testing.assert_array_equal, swept(*documents), whole)
    monkeypatch.undo()
    # In several parts, some of a single document that is longer than a part may be.
    monkeypatch.setattr(gibbs_jax, "_MAX_NUMBERS", 7 * 20)
    jax.tree.map(np.testing.assert_array_equal, swept(*documents), whole)
    monkeypatch.undo()
    # The first documents alone, then the others; and in another order.
    first, second = (
        swept(*rows(*documents, *ends), first=numbers)
        for ends, numbers in (((0, 13), 0), ((13, 40), np.arange(13, 40)))
    )
    np.testing.assert_array_equal(np.concatenate([first[1], second[1]]), whole[1])
    np.testing.assert_array_equal(np.concatenate([first[2], second[2]]), whole[2])
    np.testing.assert_array_equal(first[0] + second[0], whole[0])
    order = np.random.default_rng(5).permutation(lengths.size)
    pieces = [slice(*indptr[d : d + 2]) for d in order]
    mixed = swept(
        np.concatenate([[0], np.cumsum(np.diff(indptr)[order])]),
        *(np.concatenate([x[piece] for piece in pieces]) for x in (words, counts)),
        first=order,
    )
    np.testing.assert_array_equal(mixed[0], whole[0])
    np.testing.assert_array_equal(mixed[1], whole[1][order])

    # What should change a draw does.
    assert np.any(swept(*documents, first=1)[1] != whole[1])
    assert np.any(swept(*documents, key=6)[1] != whole[1])


def test_minibatches_of_like_size_are_compiled_for_once():
    compiled = []
    for seed, U in ((7, 50), (8, 61), (9, 44)):
        indptr, words, counts, beta = corpus(40, U, seed)
        counts[-1] += 1280 - counts.sum() - seed
        gibbs_jax.topic_counts(jax.random.key(seed), indptr, words, counts, beta, 0.1, 3, 1)
        compiled.append(gibbs_jax._totals._cache_size())
    assert compiled[0] == compiled[-1]


@pytest.mark.slow
def test_double_precision_elsewhere_changes_nothing(x64):
    *documents, beta = corpus()
    double = gibbs_jax.topic_counts(jax.random.key(4), *documents, beta, 0.1, 3, 1)
    with jax.enable_x64(False):
        single = gibbs_jax.topic_counts(jax.random.key(4), *documents, beta, 0.1, 3, 1)
    jax.tree.map(np.testing.assert_array_equal, double, single)


def test_documents_without_words_have_no_topics():
    counts, mixtures = gibbs_jax.topic_counts(jax.random.key(0), [0, 0, 0], [], [], BETA, 0.1, 3, 1)
    assert not counts.any()
    assert mixtures.shape == (2, 3)


def test_the_engine_makes_as_many_sweeps_as_have_the_same_error(monkeypatch):
    given, topic_counts = [], gibbs_jax.topic_counts

    def noted(*arrays, **options):
        given.append(arrays[6:8])
        return topic_counts(*arrays, **options)

    monkeypatch.setattr(gibbs_jax, "topic_counts", noted)
    chain = TopicChain(50, 3, sampler="scir", alpha=0.1, gamma=0.2, sweeps=5, burn_in=2, engine="jax")
    documents = Documents.from_arrays(*corpus()[:3])
    expected = chain.expect(documents)[1]
    assert given == [(5 * gibbs_jax.SWEEPS, 2 * gibbs_jax.SWEEPS)]
    np.testing.assert_allclose(expected.mixtures.sum(axis=1), documents.lengths, rtol=1e-6)


def test_words_that_have_underflowed_go_where_the_document_is():
    # Word 0 has no probability left in any topic, word 1 in the second alone, word 2 little in both.
    beta = np.array([[0.0, 0.0], [0.0, 0.4], [1e-12, 1e-10]])
    indptr, words = [0, 2, 3, 4], [0, 1, 0, 2]
    counts, mixtures = gibbs_jax.topic_counts(
        jax.random.key(0), indptr, words, [1, 20, 20, 1], beta, 0.01, 200, 100
    )
    assert counts[1].tolist() == [0, 2000]
    assert counts[0].sum() == 2100
    assert mixtures[0, 1] > 2090
    assert mixtures[2, 1] > 90


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="at least one must be left"):
        dense_gibbs([0], BETA, 0.5, 3, 3, np.random.default_rng(0))
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="at least one must be left"):
        gibbs_jax.topic_counts(key, [0, 1], [0], [1], BETA, 0.5, 3, 3)
    with pytest.raises(ValueError, match="beta has 4 rows"):
        gibbs_jax.topic_counts(key, [0, 1], [4], [1], BETA, 0.5, 3, 1)
