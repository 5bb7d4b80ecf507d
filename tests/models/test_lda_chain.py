"""The whole chain: the posterior of topics on a corpus small enough to enumerate, known topics recovered."""

import numpy as np
import pytest

from enumerated_topics import enumerate_posterior
from fokker.corpora import Documents
from fokker.models.topics.chain import TopicChain
from fokker.models.topics.coherence import npmi
from fokker.models.topics.draws import TopicDraws
from fokker.models.topics.evaluate import HeldOut, mixtures, perplexity, split_tokens
from fokker.models.topics.step_size import automatic_settings, decaying
from marks import long_case

# ---- the posterior of a corpus of nine words

TINY = [[0, 0, 1], [0, 1, 1], [2, 2, 2]]
WORDS, TOPICS, ALPHA, GAMMA = 3, 2, 1.5, 0.5


def tiny_documents():
    return Documents.from_matrix(np.array([np.bincount(d, minlength=WORDS) for d in TINY]))


def run_tiny(sampler, h, steps, total=len(TINY), seed=0, friction=2.0):
    """Second moments E[Σ_k β_kv β_kw]/K by a chain, with their standard errors from blocks."""
    chain = TopicChain(
        WORDS,
        TOPICS,
        sampler=sampler,
        alpha=ALPHA,
        gamma=GAMMA,
        step_size=lambda t: h,
        friction=friction,
        start=ALPHA,
        sweeps=30,
        burn_in=5,
        seed=seed,
    )
    documents = tiny_documents()
    drawn = np.empty((steps, WORDS, WORDS))
    for t in range(steps):
        chain.step(documents, total)
        beta = chain.beta()
        drawn[t] = beta @ beta.T / TOPICS
    blocks = drawn[steps // 20 :]
    blocks = blocks[: len(blocks) // 20 * 20].reshape(20, -1, WORDS, WORDS).mean(1)
    return blocks.mean(0), blocks.std(0, ddof=1) / np.sqrt(20)


def distance(sampler, h, steps, **given):
    """How far the chain is from the enumerated posterior, in standard errors."""
    exact = enumerate_posterior(TINY, WORDS, TOPICS, ALPHA, GAMMA).second_moments()
    found, error = run_tiny(sampler, h, steps, **given)
    return np.abs(found - exact).max() / np.maximum(error, 0.002).max()


# A standard error below 0.002 is taken for that: a bias of order h, and of the finite sweeps, is allowed for.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "h"),
    [
        long_case("lda_chain::the_posterior_of_topics_is_the_enumerated_one", "scir", 0.1),
        long_case("lda_chain::the_posterior_of_topics_is_the_enumerated_one", "sgrld", 0.04),
        ("sgrhmc", 0.1),
    ],
)
def test_the_posterior_of_topics_is_the_enumerated_one(sampler, h):
    assert distance(sampler, h, 1500) < 5


@pytest.mark.slow
def test_a_corpus_taken_for_larger_than_it_is_is_found():
    # A wrong |S|/|S̃|, by which the posterior is too narrow.
    assert distance("scir", 0.1, 800, total=5 * len(TINY)) > 8


# ---- topics that are known


def known_corpus(documents=600, topics=5, words=50, length=40, seed=0):
    """Documents of topics that each have ten words of their own; the topics (K, V)."""
    rng = np.random.default_rng(seed)
    beta = np.zeros((topics, words))
    for k in range(topics):
        own = slice(k * words // topics, (k + 1) * words // topics)
        beta[k, own] = rng.dirichlet(np.full(words // topics, 2.0))
    mixture = rng.dirichlet(np.full(topics, 0.2), documents)
    matrix = np.stack([rng.multinomial(length, pi @ beta) for pi in mixture])
    return Documents.from_matrix(matrix), beta


@pytest.fixture(scope="module")
def known():
    return known_corpus()


def pass_over(documents, sampler="sgrhmc", passes=2, batch=20, seed=0, words=50, topics=5, **given):
    chain = TopicChain(words, topics, sampler=sampler, alpha=0.05, gamma=0.2, seed=seed, **given)
    draws = TopicDraws(words, topics, interval=1)
    for _ in range(passes):
        for start in range(0, documents.size, batch):
            chain.step(documents.select(slice(start, start + batch)), documents.size)
            draws.offer(chain.number, chain.beta)
    return chain, draws


@pytest.mark.parametrize(
    "sampler", ["sgrhmc", long_case("lda_chain::known_topics_are_recovered", "sgrld"), "scir"]
)
def test_known_topics_are_recovered(known, sampler):
    documents, truth = known
    _, draws = pass_over(documents, sampler, passes=6, sweeps=20, burn_in=10)
    found = np.mean(draws.draws, 0).T
    distances = 0.5 * np.abs(found[:, None] - truth[None]).sum(-1)
    nearest = distances.argmin(0)
    assert len(set(nearest)) == 5
    assert distances.min(0).max() < 0.2


def test_perplexity_is_near_that_of_the_truth_and_far_below_unigrams(known):
    documents, truth = known
    chain, draws = pass_over(documents, sweeps=20, burn_in=10)
    held_out = known_corpus(200, seed=0)[0]
    ours = perplexity(held_out, draws.draws, chain.gamma)
    exact = perplexity(held_out, [truth.T.astype(np.float32)], np.full(5, 0.2))
    unigrams = np.asarray(documents.to_matrix(50).sum(0), np.float32).T
    alone = perplexity(held_out, [unigrams / unigrams.sum()], np.ones(1))
    assert exact < ours * 1.02 < exact * 1.15
    assert ours < 0.6 * alone
    # Averaged over draws the prediction is better than by a draw (Jensen, up to the halves' noise).
    single = np.mean([perplexity(held_out, [draw], chain.gamma) for draw in draws.draws])
    assert ours < single


def test_mixtures_are_shares_and_find_the_topic(known):
    _, truth = known
    document = Documents.from_matrix(np.array([[0] * 10 + [3] * 10 + [0] * 30]))
    pi = mixtures(document, truth.T.astype(np.float32), np.full(5, 0.2))
    assert pi.shape == (1, 5)
    assert pi.sum() == pytest.approx(1)
    assert pi[0, 1] > 0.9


# ---- the same draws, whatever the threads and interruptions


@pytest.mark.parametrize("sampler", ["sgrhmc", "scir"])
def test_a_resumed_chain_and_more_threads_give_the_same_draws(known, sampler):
    documents = known[0].select(slice(0, 120))
    settings = dict(sampler=sampler, alpha=0.05, gamma=0.2, sweeps=6, burn_in=3, seed=4)  # noqa: C408
    parts = [documents.select(slice(i, i + 30)) for i in range(0, 120, 30)]
    whole = TopicChain(50, 5, **settings)
    for part in parts:
        whole.step(part, 120)
    first = TopicChain(50, 5, **settings, threads=2)
    for part in parts[:2]:
        first.step(part, 120)
    second = TopicChain(50, 5, **settings)
    second.restore({name: np.array(x) for name, x in first.state().items()})
    for part in parts[2:]:
        second.step(part, 120)
    np.testing.assert_array_equal(second.beta(), whole.beta())


@pytest.mark.slow
def test_both_engines_move_the_topics_alike(known):
    documents = known[0].select(slice(0, 40))

    def first_counts(engine):
        chain = TopicChain(
            50, 5, sampler="scir", alpha=0.05, gamma=0.2, sweeps=300, burn_in=100, engine=engine
        )
        return chain.expect(documents)[1]

    numba, jax = first_counts("numba"), first_counts("jax")
    # By the same θ: they differ by the noise of 200 sweeps alone.
    assert np.abs(numba.mixtures - jax.mixtures).mean() < 0.6
    assert np.corrcoef(numba.mixtures.ravel(), jax.mixtures.ravel())[0, 1] > 0.99


def test_steps_shrink_as_the_corpus_grows():
    for sampler in ("sgld", "sghmc", "sgrld", "scir", "sgrhmc"):
        small, large = (automatic_settings(sampler, rate, 0.1)[0] for rate in (10.0, 1000.0))
        assert large < small
    assert decaying(0.5, 10.0, 1.0)(10) == pytest.approx(0.25)


def some_documents(lengths, words=12, seed=0):
    """A document of each of these lengths, its words at random."""
    rng = np.random.default_rng(seed)
    return Documents.from_matrix(np.stack([rng.multinomial(n, np.full(words, 1 / words)) for n in lengths]))


def told(chain, monkeypatch):
    """What each step of a chain tells its topics, as it goes."""
    seen = []
    step = chain.topics.step

    def note(words, counts, h, friction, data_weight):
        seen.append((counts.sum(), h, friction, data_weight))
        step(words, counts, h, friction, data_weight)

    monkeypatch.setattr(chain.topics, "step", note)
    return seen


def test_a_minibatch_stands_for_the_corpus_and_a_small_one_is_part_of_a_step(monkeypatch):
    chain = TopicChain(
        12, 3, sampler="scir", alpha=0.1, gamma=0.2, step_size=lambda t: 0.01, sweeps=4, burn_in=2
    )
    seen = told(chain, monkeypatch)
    for size in (8, 2, 16, 8):
        chain.step(some_documents([5] * size), 160)
    # All stand for 160 documents of five words; the step is measured by the largest minibatch so far.
    counts, h, _, data_weight = zip(*seen, strict=True)
    np.testing.assert_allclose(counts, 800, rtol=1e-5)
    np.testing.assert_allclose(h, [0.01, 0.0025, 0.01, 0.005])
    np.testing.assert_allclose(data_weight, [20, 80, 10, 20])


@pytest.mark.parametrize(("sampler", "power"), [("scir", 0.6), ("sgrhmc", 0.3)])
def test_automatic_steps_decay_with_momentum_as_the_root(sampler, power):
    chain = TopicChain(12, 3, sampler=sampler, alpha=0.1, gamma=0.2, start=0.5)
    first, friction = chain._step_settings(some_documents([20, 10]), 600)
    # 600 documents of 15 words over 3 topics, and θ_k· = 12·0.5.
    assert (first, friction) == automatic_settings(sampler, 600 * 15 / 3 / 6, 0.5)
    chain.topics.number = 1000
    # The words a document are those of the first minibatch.
    later, friction_then = chain._step_settings(some_documents([90]), 600)
    assert later == pytest.approx(first * 2**-power)
    assert friction_then == friction


@pytest.mark.parametrize("sampler", ["sgrhmc", "sgrld"])
def test_a_resumed_chain_knows_the_gamma_the_lengths_and_the_sizes_it_had(sampler):
    def fresh():
        return TopicChain(12, 3, sampler=sampler, alpha=0.1, gamma="hdp", sweeps=4, burn_in=2)

    parts = [
        some_documents(lengths, seed=i) for i, lengths in enumerate([[9] * 8, [4] * 3, [6] * 4, [5] * 2])
    ]
    whole, first, second = fresh(), fresh(), fresh()
    for part in parts:
        whole.step(part, 50)
    for part in parts[:2]:
        first.step(part, 50)
    second.restore({name: np.array(x) for name, x in first.state().items()})
    for part in parts[2:]:
        second.step(part, 50)
    np.testing.assert_array_equal(second.beta(), whole.beta())
    np.testing.assert_array_equal(second.gamma, whole.gamma)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numba", "jax"])
def test_each_minibatch_has_random_numbers_of_its_own(engine):
    chain = TopicChain(12, 3, sampler="scir", alpha=0.1, gamma=0.2, sweeps=4, burn_in=2, engine=engine)
    documents = some_documents([9] * 8)
    first, again = chain.expect(documents)[1], chain.expect(documents)[1]
    np.testing.assert_array_equal(again.mixtures, first.mixtures)
    chain.topics.number = 1
    assert np.any(np.asarray(chain.expect(documents)[1].mixtures) != first.mixtures)


# ---- draws kept


def test_draws_are_of_the_second_half_and_bounded():
    draws = TopicDraws(3, 2, max_draws=8, interval=1)
    for t in range(1, 401):
        draws.offer(t, lambda t=t: np.full((3, 2), float(t)))
        assert len(draws.draws) <= 8
        assert 2 * min(draws.steps) >= t - draws.interval
        assert t < 8 or max(draws.steps) > t - draws.interval
    assert draws.steps == [int(draw[0, 0]) for draw in draws.draws]
    assert min(draws.steps) >= 150
    assert len(draws.draws) >= 3
    assert len(set(np.diff(draws.steps))) == 1
    again = TopicDraws(3, 2, max_draws=8)
    again.restore(draws.state())
    for t in range(401, 500):
        for kept in (draws, again):
            kept.offer(t, lambda t=t: np.full((3, 2), float(t)))
    assert again.steps == draws.steps


# ---- halves, and coherence


def test_halves_add_up():
    documents = known_corpus(30)[0]
    shown, hidden = split_tokens(documents, 3)
    np.testing.assert_array_equal(shown.lengths, documents.lengths // 2)
    total = shown.to_matrix(50) + hidden.to_matrix(50)
    assert (total != documents.to_matrix(50)).nnz == 0
    again = split_tokens(documents, 3)[0]
    np.testing.assert_array_equal(again.words, shown.words)


def test_perplexity_is_that_by_hand_where_words_tell_their_topics():
    # Words 0 and 1 are of the first topic alone, 2 and 3 of the second: no sweep can err.
    documents = Documents.from_matrix(np.array([[7, 2, 1, 0], [0, 1, 3, 5], [1, 0, 0, 0]]))
    betas = [
        np.array([[0.9, 0], [0.1, 0], [0, 0.3], [0, 0.7]]),
        np.array([[0.2, 0], [0.8, 0], [0, 0.5], [0, 0.5]]),
    ]
    gamma = np.array([0.4, 3.0])
    shown, hidden = (half.to_matrix(4).toarray() for half in split_tokens(documents.select(slice(0, 2)), 5))
    weights = np.stack([shown[:, :2].sum(1), shown[:, 2:].sum(1)], 1) + gamma
    pi = weights / weights.sum(1, keepdims=True)
    p = [pi @ beta.T for beta in betas]

    def by_hand(p):
        return np.exp(-np.sum(hidden * np.log(p)) / hidden.sum())

    held_out = HeldOut(documents, 5)
    for beta, own in zip(betas, p, strict=True):
        assert held_out.add(beta.astype(np.float32), gamma) == pytest.approx(by_hand(own), rel=1e-5)
    assert held_out.perplexity == pytest.approx(by_hand(np.mean(p, 0)), rel=1e-5)
    again = HeldOut(documents, 5)
    again.restore(held_out.state())
    assert again.perplexity == held_out.perplexity


def test_held_out_documents_of_one_word_are_refused():
    with pytest.raises(ValueError, match="nothing to predict"):
        HeldOut(Documents.from_matrix(np.array([[1, 0], [0, 1]])))
    with pytest.raises(ValueError, match="no draw"):
        _ = HeldOut(Documents.from_matrix(np.array([[1, 1]]))).perplexity


def test_coherence_is_one_for_words_always_together_and_minus_one_for_words_never():
    documents = Documents.from_matrix(np.array([[1, 2, 0, 0], [3, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]))
    found = npmi(documents, np.array([[0, 1], [2, 3]]))
    np.testing.assert_allclose(found, [1.0, -1.0])
    # By hand: p(0) = 2/3, p(1) = 2/3, p(0, 1) = 1/3.
    documents = Documents.from_matrix(np.array([[1, 1], [1, 0], [0, 1]]))
    by_hand = np.log((1 / 3) / (4 / 9)) / -np.log(1 / 3)
    np.testing.assert_allclose(npmi(documents, np.array([[0, 1]])), [by_hand])
