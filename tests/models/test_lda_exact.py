"""Exact passes: the draws of a pass are those of the posterior, and their intervals contain the truth."""

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln
from test_lda_chain import ALPHA, GAMMA, TINY, TOPICS, WORDS, some_documents, tiny_documents

from enumerated_topics import enumerate_posterior
from fokker.corpora import Documents
from fokker.models.topics.assignments import Assignments
from fokker.models.topics.cells import num_blocks
from fokker.models.topics.chain import TopicChain
from fokker.models.topics.draws import TopicDraws, attainable_probability, credible_bounds, draws_needed
from fokker.models.topics.exact import PassCounts, sweeps_per_round
from fokker.models.topics.samplers import make_topics
from fokker.models.topics.settings import Settings
from fokker.models.topics.share import Share
from fokker.models.topics.training import Training
from fokker.models.topics.word_prior import WordPrior

# ---- one draw


@pytest.mark.parametrize(("alpha", "count", "weight"), [(0.3, 0, 1.0), (0.3, 4, 1.0), (0.3, 4, 2.5)])
def test_a_draw_is_a_gamma_of_alpha_and_the_weighted_count(alpha, count, weight):
    counts = PassCounts(300, Share(40))
    counts.add(np.arange(300), np.full((300, 40), float(count), np.float32), 7)
    theta = counts.draw(alpha, weight, np.uint64(5))
    # A false alarm has a chance of 1e-5 in each case.
    assert stats.kstest(theta.ravel(), stats.gamma(alpha + weight * count).cdf).pvalue > 1e-5
    np.testing.assert_array_equal(counts.draw(alpha, weight, np.uint64(5), threads=2), theta)
    assert np.any(counts.draw(alpha, weight, np.uint64(6)) != theta)


@pytest.mark.parametrize("engine", ["numba", "jax"])
def test_a_sample_has_every_token_once_and_the_mixtures_stay_expectations(engine):
    chain = TopicChain(12, 3, sampler="scir", alpha=0.1, gamma=0.2, sweeps=8, burn_in=4, engine=engine)
    documents = some_documents([9, 3, 14])
    words, sample = chain.expect(documents, sample=True)
    np.testing.assert_array_equal(sample.counts, np.round(sample.counts))
    # z belongs to the tokens in their order.
    by_token = np.zeros((12, 3))
    np.add.at(by_token, (np.repeat(documents.words, documents.counts), sample.z), 1)
    np.testing.assert_array_equal(by_token[words], sample.counts)
    tokens = np.bincount(documents.words, weights=documents.counts, minlength=12)
    np.testing.assert_array_equal(sample.counts.sum(1), tokens[words])
    # Averages over four sweeps, not the counts of the last one.
    np.testing.assert_allclose(sample.mixtures.sum(1), [9, 3, 14])
    assert np.any(sample.mixtures != np.round(sample.mixtures))


# ---- the posterior


def next_draw(chain, total):
    chain.redraw_pass(total)
    return chain.own_beta_given_pass(total)


def exact_draws(chain, documents, passes, batch, total):
    """β after each pass (passes, V, K)."""
    draws = []
    for _ in range(passes):
        for first in range(0, documents.size, batch):
            chain.count(documents.select(slice(first, first + batch)))
        draws.append(next_draw(chain, total))
        chain.end_pass(total)
    return np.stack(draws)


@pytest.mark.parametrize(("total", "is_right"), [(len(TINY), True), (4 * len(TINY), False)])
def test_exact_passes_have_the_enumerated_posterior(total, is_right):
    chain = TopicChain(
        WORDS, TOPICS, sampler="sgrhmc", alpha=ALPHA, gamma=GAMMA, start=ALPHA, sweeps=12, burn_in=6
    )
    draws = exact_draws(chain, tiny_documents(), 640 if is_right else 240, 3, total)[40:]
    products = np.einsum("nvk,nwk->nvw", draws, draws) / TOPICS
    exact = enumerate_posterior(TINY, WORDS, TOPICS, ALPHA, GAMMA).second_moments()
    blocks = products[: len(products) // 20 * 20].reshape(20, -1, WORDS, WORDS).mean(1)
    error = np.maximum(blocks.std(0, ddof=1) / np.sqrt(20), 0.002)
    # Nine moments at 5 standard errors: a false alarm has a chance below 1e-4. The control has another |S|.
    distance = np.abs((blocks.mean(0) - exact) / error).max()
    assert distance < 5 if is_right else distance > 8


@pytest.mark.parametrize("sampler", ["sgrhmc", "scir", "sghmc"])
def test_theta_is_fixed_in_a_pass_and_then_the_last_exact_draw(sampler):
    chain = TopicChain(12, 3, sampler=sampler, alpha=0.4, gamma=0.2, start=0.5, sweeps=6, burn_in=2)
    before = chain.beta()
    for seed in range(3):
        chain.count(some_documents([9] * 4, seed=seed))
        np.testing.assert_array_equal(chain.beta(), before)
    assert chain.state()["pass_counts"].sum() == 3 * 4 * 9
    first, second = (next_draw(chain, 12) for _ in range(2))
    np.testing.assert_array_equal(chain.own_beta_given_pass(12), second)
    assert np.any(first != second)
    chain.end_pass(12)
    np.testing.assert_allclose(chain.beta(), second, rtol=1e-5, atol=1e-30)
    # θ_k· of the start, for which the steps of the sampler are made.
    np.testing.assert_allclose(chain.topics.totals, 6.0, rtol=1e-5)
    # A step drops the counts of a pass that was not ended.
    chain.count(some_documents([9] * 4))
    chain.step(some_documents([9] * 4), 12)
    assert "pass_counts" not in chain.state()


def simulated(alpha, seed, documents=120, topics=3, words=60, length=40):
    """A corpus drawn from the prior: documents, β (K, V), and the counts of words by topic (K, V)."""
    rng = np.random.default_rng(seed)
    theta = rng.gamma(alpha, 1, (topics, words))
    beta = theta / theta.sum(1, keepdims=True)
    by_topic = [rng.multinomial(length, pi) for pi in rng.dirichlet(np.full(topics, 0.1), documents)]
    counts = np.stack([rng.multinomial(n, beta) for n in by_topic])
    return Documents.from_matrix(counts.sum(1)), beta, counts.sum(0)


def coverage(alpha, exact_passes, corpora=3, passes=13, batch=15):
    """The share of the true β in 90 % intervals: of words that a topic uses, and of the others."""
    used, unused = [], []
    for seed in range(corpora):
        documents, beta, counts = simulated(alpha, seed)
        chain = TopicChain(60, 3, sampler="sgrhmc", alpha=alpha, gamma=0.1, sweeps=12, burn_in=6, seed=seed)
        # Near the truth, with something for every word: which mode a chain finds is not the question here.
        chain.topics.replace((counts.T + 0.5) * (6 / (counts.sum(1) + 30)))
        draws = TopicDraws(60, 3)
        for number in range(passes):
            exact_number = number - passes + exact_passes
            for first in range(0, documents.size, batch):
                part = documents.select(slice(first, first + batch))
                if exact_number >= 0:
                    chain.count(part)
                else:
                    chain.step(part, documents.size)
                    draws.offer(chain.number, chain.beta)
            if exact_number >= 0:
                draws.offer_pass(
                    chain.number, exact_number, exact_passes, lambda i, c=chain: next_draw(c, 120)
                )
                chain.end_pass(120)
        stored = np.stack(draws.draws)
        low, high = credible_bounds(stored, min(0.9, attainable_probability(len(stored))))
        inside = (beta >= low.T) & (beta <= high.T)
        is_used = stored.mean(0).T * counts.sum(1, keepdims=True) >= 3
        used.append(inside[is_used])
        unused.append(inside[~is_used])
    return np.concatenate(used).mean(), np.concatenate(unused).mean()


# Of 540 pairs of a word and a topic 184 are used at α = 0.1, and 39 at α = 0.01. The bounds allow for four
# standard errors and for few passes. At α = 0.01 the lower bounds of unused words are zero: 95 % is right.
@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_intervals_contain_the_truth_for_used_and_for_unused_words(alpha):
    used, unused = coverage(alpha, exact_passes=12)
    assert used > (0.76 if alpha == 0.1 else 0.65)
    assert 0.8 < unused < 0.98


def test_without_exact_passes_they_miss_words_that_are_not_used():
    assert coverage(0.01, exact_passes=0, corpora=2)[1] < 0.3


def test_whether_words_have_moved_is_of_all_rounds_since_it_was_asked():
    chain = TopicChain(12, 3, sampler="scir", alpha=0.1, gamma=0.2, sweeps=4, burn_in=2)
    chain.count(some_documents([9, 3, 14]))
    assert not chain.has_moved()
    chain.redraw_pass(3)
    chain._pass.assignments = None  # the counts stay as they are from now on
    chain.redraw_pass(3)
    assert chain.has_moved()
    chain.redraw_pass(3)
    assert not chain.has_moved()


# ---- the store of draws, and settings


@pytest.mark.parametrize(
    ("passes", "steps"),
    # Of 20 passes for 8 draws it is every third. The store is always full: fewer draws have lower bounds.
    [(1, [1] * 8), (2, [2] * 8), (5, [2, 2, 3, 3, 4, 4, 5, 5]), (40, [19, 22, 25, 28, 31, 34, 37, 40])],
)
def test_the_second_half_of_the_exact_passes_is_stored(passes, steps):
    draws = TopicDraws(2, 2, max_draws=8, interval=1)
    draws.offer(1, lambda: np.full((2, 2), -1.0))
    for number in range(passes):
        draws.offer_pass(number + 1, number, passes, lambda i: np.full((2, 2), float(i)))
        assert len(draws.draws) <= 8
    assert draws.steps == steps
    assert min(draw.min() for draw in draws.draws) == 0
    again = TopicDraws(2, 2, max_draws=8)
    again.restore(draws.state())
    for store in (draws, again):
        store.offer_pass(passes + 1, passes, passes + 1, lambda i: np.zeros((2, 2)))
    assert again.steps == draws.steps


def test_bounds_are_order_statistics_that_keep_their_probability():
    draws = np.random.default_rng(0).permutation(np.arange(1.0, 41.0))[:, None]
    assert [float(x[0]) for x in credible_bounds(draws, 0.9)] == [2.0, 39.0]
    assert [float(x[0]) for x in credible_bounds(draws, 0.5)] == [10.0, 31.0]
    assert [float(x[0]) for x in credible_bounds(draws, 39 / 41)] == [1.0, 40.0]
    assert [float(x[0]) for x in credible_bounds(draws[:1], 0.0)] == [draws[0, 0]] * 2


# Of n + 1 exchangeable draws the last lies between the k-th smallest and the k-th largest of the others
# with probability 1 - 2k/(n + 1): the level is kept, or the draws are too few and that is an error.
@pytest.mark.parametrize("probability", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [1, 5, 19, 20, 39, 199])
def test_bounds_have_their_probability_or_are_refused(n, probability):
    draws = np.arange(1.0, n + 1)[:, None]
    if n < draws_needed(probability):
        assert attainable_probability(n) < probability
        with pytest.raises(ValueError, match=f"need {draws_needed(probability)} draws, and there are {n}"):
            credible_bounds(draws, probability)
    else:
        low, high = (float(x[0]) for x in credible_bounds(draws, probability))
        assert (high - low) / (n + 1) >= probability - 1e-9


def test_an_interval_that_begins_at_zero_ends_where_a_tenth_is_above_it():
    draws = np.arange(1.0, 41.0)[:, None] * np.ones(3)
    draws[:2, 0] = draws[:3, 1] = draws[:4, 2] = 0
    # k is 2 of 40 draws: with four zeros the upper bound is the fourth largest.
    low, high = credible_bounds(draws, 0.9)
    np.testing.assert_array_equal(low, [0, 0, 0])
    np.testing.assert_array_equal(high, [39, 39, 37])
    np.testing.assert_array_equal(credible_bounds(np.zeros((3, 1)), 0.5), np.zeros((2, 1)))


# ---- the topics of rare words


def test_draws_are_further_apart_where_that_is_cheap():
    assert [sweeps_per_round(n) for n in (0, 1_000, 392_000, 1_000_000, 10**8)] == [20, 20, 20, 10, 2]


# Where there is one exact pass, half of its rounds come before its draws; otherwise these are other passes.
@pytest.mark.parametrize(("num_exact", "rounds"), [(1, [range(25, 41, 5)]), (2, [[20], range(5, 21, 5)])])
def test_the_first_half_of_the_rounds_has_no_draws(monkeypatch, num_exact, rounds):
    monkeypatch.setattr("fokker.models.topics.exact._MAX_SWEEPS", 2)
    settings = Settings(topics=3, draws=4, sweeps=4, burn_in=2, gamma=0.2)
    training = Training(settings, 12, WordPrior.symmetric(0.1, 3), has_all=True)
    for number in range(num_exact):
        seen = []
        documents = some_documents([9, 3, 14])
        training.train(documents, 3, is_exact=True, is_new=False, seconds=0)
        beta = training.chain.own_beta_given_pass

        def noted(*given, beta=beta, seen=seen):
            seen.append(training.chain.num_rounds)
            return beta(*given)

        monkeypatch.setattr(training.chain, "own_beta_given_pass", noted)
        shown = []
        training.end_exact_pass(
            number, num_exact, 3, 0, lambda *progress, shown=shown: shown.append(progress)
        )
        monkeypatch.undo()
        # The last draw is taken once more, as the topics that the next pass begins with.
        assert list(dict.fromkeys(seen)) == list(rounds[number])
        assert shown == [(i, rounds[number][-1]) for i in range(rounds[number][-1])]
    assert len(training.draws.draws) == 4


def test_assignments_are_stored_by_token_and_their_counts_follow_the_sweeps():
    assert [Assignments(topics).state()["z"].itemsize for topics in (3, 2**16, 2**16 + 1)] == [2, 2, 4]
    assignments = Assignments(3)
    counts = np.zeros((12, 3), np.int32)
    z_of = np.random.default_rng(0)
    for seed in range(2):
        documents = some_documents([9, 3, 14], seed=seed)
        z = z_of.integers(3, size=26).astype(np.int32)
        assignments.add(documents, z)
        np.add.at(counts, (np.repeat(documents.words, documents.counts), z), 1)
    again = Assignments(3)
    again.restore(assignments.state(), assignments.num_bytes)
    again_counts, before = counts.copy(), counts.copy()
    for store, n_kw in ((assignments, counts), (again, again_counts)):
        for seed in range(3):
            store.sweep(n_kw, WordPrior.symmetric(0.1, 3), np.full(3, 0.2), np.uint64(seed), 2)
    np.testing.assert_array_equal(again_counts, counts)
    assert np.any(counts != before)
    np.testing.assert_array_equal(counts.sum(1), before.sum(1))
    state = assignments.state()
    from_tokens = np.zeros_like(counts)
    np.add.at(from_tokens, (np.repeat(state["words"], state["counts"]), state["z"]), 1)
    np.testing.assert_array_equal(from_tokens, counts)


def divide(monkeypatch, blocks):
    """Sweeps over cells of so many blocks."""
    monkeypatch.setattr("fokker.models.topics.assignments.num_blocks", lambda tokens, documents: blocks)


def test_sweeps_are_divided_where_that_pays():
    # Of NIPS, of Associated Press, and of corpora of documents of 68 and of 1,000 words.
    corpora = [(87_000, 1_000), (392_000, 2_022), (10_000_000, 147_000), (10_000_000, 10_000)]
    assert [num_blocks(*corpus) for corpus in corpora] == [1, 8, 8, 32]


@pytest.mark.slow
def test_threads_change_no_bit_of_divided_sweeps(monkeypatch):
    divide(monkeypatch, 4)
    rng = np.random.default_rng(2)
    matrix = rng.poisson(0.4, (60, 30))
    documents = Documents.from_matrix(matrix)
    prior = WordPrior.symmetric(0.1, 3).with_seeds([[0, 7], [], [2]], 5)
    first = rng.integers(3, size=documents.tokens).astype(np.int32)
    results = []
    for threads in (1, 2, 5):
        assignments, counts = Assignments(3), np.zeros((30, 3), np.int32)
        np.add.at(counts, (np.repeat(documents.words, documents.counts), first), 1)
        assignments.add(documents, first)
        for number in range(4):
            if number == threads:  # as after a checkpoint
                stored, assignments = assignments, Assignments(3)
                assignments.restore(stored.state(), stored.num_bytes)
            assignments.sweep(counts, prior, np.array([0.2, 1, 0.4]), np.uint64(number), 3, threads)
        state = assignments.state()
        words = np.repeat(state["words"], state["counts"])
        from_tokens = np.zeros_like(counts)
        np.add.at(from_tokens, (words, state["z"]), 1)
        np.testing.assert_array_equal(from_tokens, counts)
        # Every token is in its document and of its word.
        of_tokens = np.repeat(np.arange(60), matrix.sum(1))
        np.testing.assert_array_equal(
            np.sort(of_tokens * 30 + words), np.repeat(np.arange(1800), matrix.ravel())
        )
        np.testing.assert_array_equal(assignments.by_document().sum(1), matrix.sum(1))
        results.append(state["z"])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    assert np.mean(results[0] != first) > 0.2


def test_the_threads_of_a_chain_sweep_at_the_end_of_its_pass(monkeypatch):
    divide(monkeypatch, 2)
    seen = []
    monkeypatch.setattr("fokker.models.topics.assignments.sweep_cells", lambda *given: seen.append(given[-1]))
    chain = TopicChain(12, 3, sampler="scir", alpha=0.1, gamma=0.2, sweeps=4, burn_in=2, threads=3)
    chain.count(some_documents([9, 3, 14]))
    chain.redraw_pass(3)
    assert seen == [3]


# Of five blocks two have none of the three words, and two groups no document.
@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_collapsed_sweeps_have_the_distribution_of_all_assignments(monkeypatch, blocks):
    """z of the tiny documents, by their enumerated posterior; the control has half of the α."""
    divide(monkeypatch, blocks)
    documents = tiny_documents()
    exact = enumerate_posterior(TINY, WORDS, TOPICS, ALPHA, GAMMA).second_moments()
    distances = {}
    for alpha in (ALPHA, ALPHA / 2):
        z = np.zeros(documents.tokens, np.int32)
        counts = np.zeros((WORDS, TOPICS), np.int32)
        np.add.at(counts, (np.repeat(documents.words, documents.counts), z), 1)
        assignments = Assignments(TOPICS)
        assignments.add(documents, z)
        products, prior = [], WordPrior.symmetric(alpha, TOPICS)
        for seed in range(4_000):
            assignments.sweep(counts, prior, np.full(TOPICS, GAMMA), np.uint64(seed), 10)
            # E[β β'] given z: moments of Dirichlet(α + n_k).
            a = counts + ALPHA
            total = a.sum(0)
            outer = np.einsum("vk,wk->kvw", a, a) + np.einsum("vk,vw->kvw", a, np.eye(WORDS))
            products.append((outer / (total * (total + 1))[:, None, None]).mean(0))
        blocks = np.array(products).reshape(20, -1, WORDS, WORDS).mean(1)
        error = np.maximum(blocks.std(0, ddof=1) / np.sqrt(20), 0.0005)
        distances[alpha] = np.abs((blocks.mean(0) - exact) / error).max()
    # Nine moments at 5 standard errors of 20 blocks: a false alarm has a chance below 1e-3.
    assert distances[ALPHA] < 5
    assert distances[ALPHA / 2] > 8


def exact_token_moments(documents, words, a_kw, gamma):
    """E[1(z_i = k) 1(z_j = l)] of all pairs of tokens (T, K, T, K), by the sum over all z."""
    vocabulary = np.repeat(documents.words, documents.counts)
    doc = np.repeat(np.arange(documents.size), documents.lengths)
    tokens, topics = len(doc), len(gamma)
    z = np.stack(np.unravel_index(np.arange(topics**tokens), (topics,) * tokens), 1)
    hot = np.eye(topics)[z]
    n_dk = np.stack([hot[:, doc == d].sum(1) for d in range(documents.size)], 1)
    n_wk = np.stack([hot[:, vocabulary == w].sum(1) for w in range(words)], 1)
    logs = gammaln(gamma + n_dk).sum((1, 2)) + gammaln(a_kw.T + n_wk).sum((1, 2))
    logs -= gammaln(a_kw.sum(1) + n_wk.sum(1)).sum(1)
    p = np.exp(logs - logs.max())
    flat = hot.reshape(len(z), -1)
    return (flat * (p / p.sum())[:, None]).T @ flat


# Most words are in no document, and so the blocks have priors that differ.
@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_collapsed_sweeps_have_the_joint_distribution_of_tokens_under_priors_that_differ(monkeypatch, blocks):
    """Topics differ by γ and by pseudo-counts, which belong to the masses of the blocks too."""
    divide(monkeypatch, blocks)
    documents = Documents.from_matrix(
        np.array([[2, 0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0], [0, 0, 2, 1, 0, 0, 0]])
    )
    gamma = np.array([0.4, 1.5])
    prior = WordPrior.symmetric(0.3, 2).with_seeds([[0, 1], [3]], 1.7)
    a_kw = prior.alpha + np.stack([prior.of_topic(k, 7) for k in range(2)])
    exact = exact_token_moments(documents, 7, a_kw, gamma)
    assignments, counts = Assignments(2), np.zeros((7, 2), np.int32)
    z = np.zeros(documents.tokens, np.int32)
    np.add.at(counts, (np.repeat(documents.words, documents.counts), z), 1)
    assignments.add(documents, z)
    seen = []
    for seed in range(20_000):
        assignments.sweep(counts, prior, gamma, np.uint64(seed), 6)
        seen.append(assignments.state()["z"].copy())
    state = assignments.state()
    # Words of a document stand in the order of their blocks there.
    of_tokens = np.repeat(np.repeat(np.arange(3), state["widths"]) * 7 + state["words"], state["counts"])
    order = np.argsort(of_tokens, kind="stable")
    hot = np.eye(2)[np.array(seen)[:, order]].reshape(len(seen), -1)
    parts = np.einsum("bni,bnj->bij", *[hot.reshape(40, -1, hot.shape[1])] * 2) / (len(hot) // 40)
    error = np.maximum(parts.std(0, ddof=1) / np.sqrt(40), 1e-4)
    # Some hundred moments at 5 standard errors of 40 parts: a false alarm has a chance of about 1e-3.
    assert np.abs((parts.mean(0) - exact) / error).max() < 5


def test_a_rare_word_changes_its_topic_between_passes():
    """With β fixed it stays where it is for about 1/α passes."""
    # Word 10 is once in a document of two topics of five words each.
    documents = Documents.from_matrix(np.array([[20] * 10 + [1]]))

    def num_changes(is_collapsed):
        chain = TopicChain(11, 2, sampler="scir", alpha=0.01, gamma=0.1, sweeps=6, burn_in=3)
        theta = np.full((11, 2), 0.001)
        theta[:5, 0] = theta[5:10, 1] = 1
        chain.topics.replace(theta.astype(np.float32))
        owners = []
        for _ in range(150):
            chain.count(documents)
            if not is_collapsed:
                chain._pass.assignments = None
            chain.end_pass(1)
            owners.append(chain.beta()[10].argmax())
        return np.sum(np.diff(owners) != 0)

    # Half of 149 for independent topics: 40 is more than five standard errors below.
    assert num_changes(True) > 40
    assert num_changes(False) < 15


def test_a_pass_that_is_too_large_for_memory_is_not_swept_over(monkeypatch):
    monkeypatch.setattr("fokker.models.topics.assignments._MAX_BYTES", 700)
    chain = TopicChain(12, 3, sampler="scir", alpha=0.1, gamma=0.2, sweeps=4, burn_in=2)
    chain.count(some_documents([9, 3]))
    assert chain._pass.assignments is not None
    for seed in range(4):
        chain.count(some_documents([9, 30], seed=seed))
    assert chain._pass.assignments is None
    counts = chain._pass.counts.copy()
    next_draw(chain, 2)
    np.testing.assert_array_equal(chain._pass.counts, counts)
    again = TopicChain(12, 3, sampler="scir", alpha=0.1, gamma=0.2, sweeps=4, burn_in=2)
    again.restore(chain.state())
    assert again._pass.assignments is None


def test_an_empty_topic_of_few_words_is_one_word():
    # With Vα = 0.05 all θ of a topic without tokens are below the smallest number about every 30th time.
    chain = TopicChain(5, 2, sampler="scir", alpha=0.01, gamma=0.1, sweeps=4, burn_in=2)
    documents = Documents.from_matrix(np.array([[3, 0, 2, 0, 1], [1, 4, 0, 0, 0]]))
    chain.count(documents)
    chain._pass.counts[:, 0] += chain._pass.counts[:, 1]
    chain._pass.counts[:, 1] = 0
    chain._pass.assignments = None  # the counts are no longer those of its tokens
    beta = np.stack([next_draw(chain, 2) for _ in range(300)])
    np.testing.assert_allclose(beta.sum(1), 1, rtol=1e-5)
    # Each word is the first in a fifth of 300 draws: outside of 30 to 90 with a chance of 1e-4 for all five.
    largest = np.bincount(beta[:, :, 1].argmax(1), minlength=5)
    assert largest.min() > 30
    assert largest.max() < 90


def test_scir_bears_a_topic_that_was_empty():
    theta = np.full((5, 2), 1.0, np.float32)
    theta[:, 1] = 1e-6
    topics = make_topics("scir", theta, 0.01, jax.random.key(0))
    # The rate of the second topic is 10⁴ in this step, and words outside the minibatch forget their θ.
    topics.step(np.arange(2), np.full((2, 2), 40.0, np.float32), 1e-3, 0.0, 1.0)
    after = topics.all_rows()
    assert np.all(np.isfinite(after))
    np.testing.assert_allclose(topics.totals, after.sum(0), rtol=0.5)


def test_half_of_the_passes_are_exact_unless_said_otherwise():
    assert [Settings().num_exact_passes(n) for n in (None, 1, 2, 5, 20)] == [0, 0, 1, 2, 10]
    assert [Settings(exact_passes=3).num_exact_passes(n) for n in (None, 1, 8)] == [0, 1, 3]
    with pytest.raises(ValueError, match="exact_passes must be a whole number of at least 0; -1 was given"):
        Settings(exact_passes=-1)


# ---- scir


def test_scir_lowers_alpha_from_its_start_and_a_restored_state_knows_it():
    def fresh():
        return TopicChain(40, 3, sampler="scir", alpha=0.08, gamma=0.2, start=0.4, sweeps=2, burn_in=1)

    chain, alphas = fresh(), []
    documents = some_documents([4] * 4, words=40)
    for t in range(160):
        if t == 60:
            saved = {name: np.array(x) for name, x in chain.state().items()}
        alphas.append(chain.topics._step_alpha)
        chain.step(documents, 8)
    np.testing.assert_allclose(alphas, [0.4] * 50 + [0.2] * 50 + [0.1] * 50 + [0.08] * 10)
    again = fresh()
    again.restore(saved)
    for _ in range(100):
        again.step(documents, 8)
    np.testing.assert_array_equal(again.beta(), chain.beta())
    assert chain.topics.alpha == 0.08


def test_draws_of_steps_after_exact_ones_are_not_taken_for_exact():
    """As of a run that goes on with more passes than it ended with."""
    draws = TopicDraws(3, 2, 4)
    draws.offer_pass(8, 0, 1, lambda draw: np.full((3, 2), 0.5))
    assert draws.num_exact_passes == 1
    assert draws.offer(draws.interval * 16, lambda: np.zeros((3, 2)))
    assert draws.num_exact_passes == 0
    assert len(draws.draws) == 1
