"""Topics of documents: enumeration against quadrature, and both Gibbs samplers against enumeration."""

import math

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import roots_sh_jacobi

import padded_topics
from enumerated_topics import (
    MAX_ASSIGNMENTS,
    all_assignments,
    dense_gibbs,
    enumerate_posterior,
    enumerate_topics,
)
from fokker.models.topics import gibbs_jax
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

COPIES, LONGEST = 512, 4


def counts_itself(n, old, gamma, beta):
    return (gamma + n) * beta


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("weights", "beta", "right"),
    [(gibbs_jax._weights, BETA, True), (gibbs_jax._weights, THETA, False), (counts_itself, BETA, False)],
    ids=["right", "theta", "counts-itself"],
)
def test_the_conditional_keeps_the_posterior(case, weights, beta, right, x64):
    words, gamma = CASES[case]
    truth = enumerate_topics(words, BETA, gamma)
    z = truth.assignments
    n = (z[:, :, None] == np.arange(3)).sum(axis=1).astype(float)
    change = 0.0
    for j, word in enumerate(words):
        made = np.asarray(weights(n, z[:, j], np.broadcast_to(gamma, (1, 3)), beta[[word]]))
        flow = truth.probabilities[:, None] * made / made.sum(axis=1, keepdims=True)
        after = np.zeros(len(z))
        for topic in range(3):
            moved = z.copy()
            moved[:, j] = topic
            np.add.at(after, moved @ 3 ** np.arange(len(words)), flow[:, topic])
        change = max(change, np.abs(after - truth.probabilities).max())
    assert change < 1e-12 if right else change > 1e-4


def in_jax(case, beta=BETA, burn_in=1500, sweeps=1600, expected=None):
    """Copies of a document, each with words of its own, against enumeration."""
    words, gamma = CASES[case]
    expected = enumerate_topics(words, BETA, gamma).counts if expected is None else expected
    tokens = np.zeros((COPIES, LONGEST), np.int32)
    tokens[:, : len(words)] = np.add.outer(4 * np.arange(COPIES), words)
    lengths = np.full(COPIES, len(words))
    found = padded_topics.expected_counts_padded(
        jax.random.key(2),
        tokens,
        lengths,
        np.tile(beta, (COPIES, 1)),
        np.broadcast_to(gamma, 3),
        sweeps,
        burn_in,
    )
    counts = np.asarray(found.counts, float).reshape(COPIES, 4, 3)
    mixtures = np.asarray(found.mixtures, float)
    np.testing.assert_allclose(counts.sum(axis=1), mixtures, rtol=1e-5)
    np.testing.assert_allclose(mixtures.sum(axis=1), lengths, rtol=1e-5)
    return false_alarm(counts, expected)


@pytest.mark.parametrize("case", CASES)
def test_many_documents_at_once_agree_with_enumeration(case, optimised):
    assert in_jax(case) > FALSE_ALARM


def test_with_theta_in_place_of_beta_many_documents_are_found_wrong():
    assert in_jax("asymmetric", THETA) < CLEAR


def test_a_token_that_counts_itself_is_found(monkeypatch):
    totals = gibbs_jax._totals.__wrapped__
    again = jax.jit(lambda *given, **static: totals(*given, **static), static_argnames=("sweeps", "burn_in"))
    monkeypatch.setattr(gibbs_jax, "_totals", again)
    monkeypatch.setattr(gibbs_jax, "_weights", counts_itself)
    assert in_jax("repeats") < CLEAR


def test_the_first_sweep_places_each_token_given_those_before():
    words, gamma = CASES["sparse"]
    counts = np.zeros((4, 3))
    for z in all_assignments(len(words), 3):
        n, probability = np.zeros(3), 1.0
        for word, topic in zip(words, z, strict=True):
            weights = (gamma + n) * BETA[word]
            probability *= weights[topic] / weights.sum()
            n[topic] += 1
        np.add.at(counts, (words, z), probability)
    assert in_jax("sparse", burn_in=0, sweeps=1, expected=counts) > FALSE_ALARM
    # This is not the posterior, which knows the words to come: burn-in is not for nothing.
    assert in_jax("sparse", burn_in=0, sweeps=1) < CLEAR


def test_the_average_is_over_the_sweeps_after_burn_in():
    *documents, beta = corpus()
    tokens, lengths = padded_topics.pad(*documents)

    def counts(sweeps, burn_in):
        found = padded_topics.expected_counts_padded(
            jax.random.key(1), tokens, lengths, beta, 0.1, sweeps, burn_in
        )
        return np.asarray(found.counts)

    # A draw does not know how many sweeps will follow.
    second, third = counts(2, 1), counts(3, 2)
    assert np.any(second != third)
    np.testing.assert_array_equal(counts(3, 1), (second + third) / 2)


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


def test_padding_writes_out_the_tokens():
    padded, lengths = padded_topics.pad([0, 2, 2, 3], [5, 1, 7], [2, 1, 9], multiple=2)
    assert padded.shape == (3, 16)
    assert lengths.tolist() == [3, 0, 9]
    assert padded[0, :3].tolist() == [5, 5, 1]
    assert padded[2, :9].tolist() == [7] * 9
    assert padded[0, 3:].sum() + padded[1].sum() + padded[2, 9:].sum() == 0
    # A part of a longer matrix.
    padded, lengths = padded_topics.pad([2, 3], [5, 1, 7], [2, 1, 3], multiple=4)
    assert padded.tolist() == [[7, 7, 7, 0]]


def test_neither_padding_nor_grouping_nor_order_changes_a_draw():
    *documents, beta = corpus()
    key, gamma = jax.random.key(4), np.linspace(0.05, 0.5, 7)
    # Eight sweeps are kept: sums of eighths have no rounding.
    settings = {"sweeps": 10, "burn_in": 2}
    tokens, lengths = padded_topics.pad(*documents)
    whole = padded_topics.expected_counts_padded(key, tokens, lengths, beta, gamma, **settings)
    assert np.array_equal(np.asarray(whole.mixtures).sum(axis=1), lengths)
    assert np.asarray(whole.counts).sum() == lengths.sum()

    wide = np.pad(tokens, ((0, 0), (0, tokens.shape[1])), constant_values=3)
    padded = padded_topics.expected_counts_padded(key, wide, lengths, beta, gamma, **settings)
    jax.tree.map(np.testing.assert_array_equal, padded, whole)

    order = np.random.default_rng(5).permutation(lengths.size)
    mixed = padded_topics.expected_counts_padded(
        key, tokens[order], lengths[order], beta, gamma, **settings, documents=order
    )
    np.testing.assert_array_equal(mixed.mixtures, np.asarray(whole.mixtures)[order])
    np.testing.assert_array_equal(mixed.counts, whole.counts)

    grouped = padded_topics.expected_counts(key, *documents, beta, gamma, **settings, multiple=32)
    jax.tree.map(np.testing.assert_array_equal, grouped, whole)
    # The first documents alone, then the others.
    first, second = (
        padded_topics.expected_counts(
            key, *rows(*documents, *ends), beta, gamma, **settings, first=ends[0], multiple=32
        )
        for ends in ((0, 13), (13, 40))
    )
    np.testing.assert_array_equal(np.concatenate([first.mixtures, second.mixtures]), whole.mixtures)
    np.testing.assert_array_equal(first.counts + second.counts, whole.counts)

    # What should change a draw does.
    other = padded_topics.expected_counts(key, *documents, beta, gamma, **settings, first=1, multiple=32)
    assert np.any(other.mixtures != grouped.mixtures)
    other = padded_topics.expected_counts(jax.random.key(6), *documents, beta, gamma, **settings, multiple=32)
    assert np.any(other.mixtures != grouped.mixtures)


def test_minibatches_of_like_size_are_compiled_for_once():
    gamma, settings = 0.1, {"sweeps": 3, "burn_in": 1, "multiple": 64}
    compiled = []
    for seed, U in ((7, 50), (8, 61), (9, 44)):
        *documents, beta = corpus(40, U, seed)
        padded_topics.expected_counts(jax.random.key(seed), *documents, beta, gamma, **settings)
        compiled.append(gibbs_jax._totals._cache_size())
    assert compiled[0] == compiled[-1]


def test_double_precision_elsewhere_changes_nothing(x64):
    *documents, beta = corpus()
    settings = {"sweeps": 3, "burn_in": 1, "multiple": 64}
    double = padded_topics.expected_counts(jax.random.key(4), *documents, beta, 0.1, **settings)
    with jax.enable_x64(False):
        single = padded_topics.expected_counts(jax.random.key(4), *documents, beta, 0.1, **settings)
    jax.tree.map(np.testing.assert_array_equal, double, single)
    assert double.counts.dtype == np.float32


def test_words_that_have_underflowed_go_where_the_document_is():
    # Word 0 has no probability left in any topic, word 1 in the second alone, word 2 little in both.
    beta = np.array([[0.0, 0.0], [0.0, 0.4], [1e-12, 1e-10]])
    indptr, words = [0, 2, 3, 4], [0, 1, 0, 2]
    found = padded_topics.expected_counts(
        jax.random.key(0), indptr, words, [1, 20, 20, 1], beta, 0.01, 200, 100
    )
    assert found.counts[1].tolist() == [0, 20]
    assert found.counts[0].sum() == pytest.approx(21)
    assert found.mixtures[0, 1] > 20.9
    assert found.mixtures[2, 1] > 0.9


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="at least one must be left"):
        dense_gibbs([0], BETA, 0.5, 3, 3, np.random.default_rng(0))
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="at least one must be left"):
        padded_topics.expected_counts(key, [0, 1], [0], [1], BETA, 0.5, 3, 3)
    with pytest.raises(ValueError, match="at least one must be left"):
        padded_topics.expected_counts_padded(key, [[0]], [1], BETA, 0.5, 0, 0)
    with pytest.raises(ValueError, match="beta has 4 rows"):
        padded_topics.expected_counts(key, [0, 1], [4], [1], BETA, 0.5, 3, 1)
