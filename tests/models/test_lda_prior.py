"""The priors of topics: γ drawn given sampled topics against the density, pseudo-counts of words, seeds."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammaln, logsumexp
from test_lda_start import drawn_corpus

import fokker as fk
from enumerated_topics import log_polya
from fokker.corpora import Documents
from fokker.models.topics.assignments import Assignments
from fokker.models.topics.chain import TopicChain
from fokker.models.topics.document_prior import DocumentPrior, added, counts_above
from fokker.models.topics.exact import ROUNDS
from fokker.models.topics.learned_prior import LearnedPrior
from fokker.models.topics.seeds import read_seeds
from fokker.models.topics.settings import Settings
from fokker.models.topics.start import Assignment, merge_and_split
from fokker.models.topics.word_prior import WordPrior

# ---- γ given the topics of the words


def counts_of(gamma, documents, length, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.multinomial(length, rng.dirichlet(gamma)) for _ in range(documents)])


def draws_of(prior, counts, number):
    """γ drawn again and again given the same topics."""
    above = counts_above(counts)
    draws = []
    for seed in range(number):
        prior = prior.given(above, seed, repeats=1)
        draws.append(prior)
    return draws


def test_documents_are_counted_by_the_words_they_have_at_least():
    counts = np.array([[3, 0], [1, 2], [0, 0]])
    above = counts_above(counts)
    # Row by row: more than 0, 1, 2 words of topic 0, of topic 1, in all.
    np.testing.assert_array_equal(above, [[2, 1, 1], [1, 1, 0], [2, 2, 2]])
    np.testing.assert_array_equal(added(counts_above(counts[1:]), counts_above(counts[:1])), above)
    assert counts_above(np.zeros((2, 3))).shape == (4, 0)
    # p(n | γ) from these numbers alone.
    gamma, j = np.array([0.3, 1.7]), np.arange(3)
    log_p = np.sum(above[:2] * np.log(gamma[:, None] + j)) - np.sum(above[2] * np.log(2.0 + j))
    assert log_p == pytest.approx(log_polya(counts, gamma).sum())


def log_density_of_c(counts, base, mean, c):
    """log p(n | c b) + log p(c), up to a constant, at each c."""
    return np.array([log_polya(counts, x * base).sum() - x / mean for x in c])


def test_the_concentration_has_its_posterior():
    # 30 documents, so that the posterior is wide. 4,000 draws, thinned to 800 nearly independent ones: a test
    # of Kolmogorov and Smirnov at 10⁻⁴.
    counts = counts_of(np.full(3, 0.4), 30, 12)
    prior = DocumentPrior.of("symmetric", 3)
    grid = np.linspace(0.05, 6, 600)
    log_p = log_density_of_c(counts, np.full(3, 1 / 3), prior.mean_concentration, grid)
    cdf = np.cumsum(np.exp(log_p - logsumexp(log_p)))
    draws = np.array([p.concentration for p in draws_of(prior, counts, 4000)[::5]])
    assert np.all(draws < 6)

    def p_value(draws):
        return stats.kstest(draws, lambda x: np.interp(x, grid, cdf)).pvalue

    assert p_value(draws) > 1e-4
    # Negative control: without tables, each topic of a document as often as it has words, or once.
    for wrong in (counts.sum(0), (counts > 0).sum(0)):
        above = counts_above(counts)
        above[:-1] = 0
        above[:-1, 0] = wrong
        values = []
        for seed in range(300):
            prior = prior.given(above, seed, repeats=1)
            values.append(prior.concentration)
        assert p_value(values) < 1e-6


def test_the_base_has_its_posterior():
    # Two topics: p(n | c b) over (c, b₁) on a grid. 6,000 draws with an autocorrelation of a few: a standard
    # error of about 0.02 posterior standard deviations; 0.12 is six of them.
    counts = counts_of(np.array([0.3, 1.2]), 40, 15)
    prior = DocumentPrior.of("asymmetric", 2)
    c, b = np.linspace(0.1, 8, 120), np.linspace(0.01, 0.7, 100)
    log_p = np.array([log_density_of_c(counts, np.array([x, 1 - x]), prior.mean_concentration, c) for x in b])
    p = np.exp(log_p - logsumexp(log_p))
    found = draws_of(prior, counts, 6000)
    for values, grid, weights in (
        ([q.base[0] for q in found], b, p.sum(1)),
        ([q.concentration for q in found], c, p.sum(0)),
    ):
        mean = weights @ grid
        deviation = np.sqrt(weights @ (grid - mean) ** 2)
        assert abs(np.mean(values) - mean) < 0.12 * deviation
        assert np.std(values) == pytest.approx(deviation, rel=0.1)


@pytest.mark.slow
def test_the_base_concentration_has_its_posterior_given_the_tables():
    # p(g | m) ∝ e^{-g/10} Γ(g)/Γ(g + m·) Π_k Γ(g/K + m_k)/Γ(g/K). 4,000 draws, thinned; as above.
    # One word per document of a topic: one table each.
    by_topic = np.array([40, 25, 7, 1, 0, 0, 0, 0])
    above = counts_above(np.repeat(np.eye(8, dtype=int), by_topic, 0))
    prior = DocumentPrior.of("hdp", 8)
    grid = np.linspace(0.02, 40, 4000)
    a = grid[:, None] / 8
    log_p = gammaln(grid) - gammaln(grid + by_topic.sum()) - grid / 10
    log_p += np.sum(gammaln(a + by_topic) - gammaln(a), 1)
    cdf = np.cumsum(np.exp(log_p - logsumexp(log_p)))
    draws, bases = [], []
    for seed in range(4000):
        prior = prior.given(above, seed, repeats=1)
        draws.append(prior.base_concentration)
        bases.append(prior.base[4:].mean())
    assert stats.kstest(draws[::5], lambda x: np.interp(x, grid, cdf)).pvalue > 1e-4
    # Topics without tables have the share g/K of g + m·: a standard error of a few percent.
    weights = np.exp(log_p - logsumexp(log_p))
    assert np.mean(bases) == pytest.approx(weights @ (grid / 8 / (grid + by_topic.sum())), rel=0.2)


def test_expected_counts_would_make_the_concentration_too_large():
    """What was done before: Minka's fixed point on E[n_dk]. With words that tell little, E[n] is smooth."""
    rng = np.random.default_rng(0)
    truth, beta = 0.1, np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    counts = np.stack([rng.multinomial(12, rng.dirichlet([truth] * 2) @ beta) for _ in range(400)])
    documents = Documents.from_matrix(counts)
    chain = TopicChain(3, 2, sampler="scir", alpha=0.1, gamma="symmetric", sweeps=20, burn_in=10)
    chain.topics.replace(np.ascontiguousarray(beta.T, np.float32))
    found = []
    for _ in range(60):
        chain.count(documents)
        # A draw of the topics: every word has one.
        assert chain.document_prior._pass[:-1].sum() == documents.tokens
        chain.document_prior.end_pass(400, 400, chain.number, np.zeros(2))
        found.append(chain.gamma[0])
    # The standard deviation of the posterior is 0.02: a false alarm in fewer than one of 10⁴ corpora.
    assert np.mean(found[20:]) == pytest.approx(truth, abs=0.08)
    gamma = np.full(2, truth)
    for _ in range(60):
        chain.document_prior.prior = DocumentPrior.of(gamma[0], 2)
        n = chain.expect(documents)[1].mixtures
        numerator = (digamma(gamma + n) - digamma(gamma)).sum()
        denominator = 2 * (digamma(gamma.sum() + n.sum(1)) - digamma(gamma.sum())).sum()
        gamma = gamma * numerator / denominator
    assert gamma[0] > 3 * truth


# ---- γ of a chain


def test_steps_average_documents_with_a_share_that_shrinks_and_passes_sum_them(monkeypatch):
    given = []
    monkeypatch.setattr(DocumentPrior, "given", lambda self, above, *_, **__: given.append(above) or self)
    learned = LearnedPrior(DocumentPrior.of("asymmetric", 2), jax.random.key(0))
    first, second = np.array([[1, 0], [2, 1]]), np.array([[0, 1]])
    learned.step(first, 100, 1)
    learned.step(second, 100, 2)
    learned.step(np.zeros((2, 2)), 100, 3)  # no word: nothing is learned
    share = 12**-0.7
    np.testing.assert_allclose(given[0], [[100, 50, 0], [50, 0, 0], [100, 50, 50]])
    np.testing.assert_allclose(given[1][1], [50 * (1 - share) + 100 * share, 0, 0])
    np.testing.assert_allclose(given[1][0], [100 * (1 - share), 50 * (1 - share), 0])
    assert len(given) == 2
    learned.count(first)
    learned.count(second)
    learned.end_pass(3, 6, 5, np.array([3, 2]))
    np.testing.assert_allclose(given[2], 2 * np.array([[2, 1, 0], [2, 0, 0], [3, 1, 1]]))
    assert learned.draws.shape == (1, 2)
    learned.step(first, 100, 6)
    assert len(learned.draws) == 0  # draws of steps are none of an exact pass


def test_a_learned_prior_is_restored_within_a_pass_to_the_bit():
    documents = Documents.from_matrix(np.random.default_rng(0).poisson(0.7, (20, 12)))
    halves = documents.select(slice(0, 9)), documents.select(slice(9, None))

    def fresh():
        return TopicChain(12, 3, sampler="scir", alpha=0.1, gamma="hdp", sweeps=4, burn_in=2)

    whole, first, second = fresh(), fresh(), fresh()
    for chain in (whole, first):
        chain.step(documents, 20)
        chain.count(halves[0])
    second.restore({name: np.array(x) for name, x in first.state().items()})
    for chain in (whole, second):
        chain.count(halves[1])
        chain.end_pass(20)
        chain.step(halves[0], 20)
    np.testing.assert_array_equal(second.gamma, whole.gamma)
    assert second.document_prior.prior.base_concentration == whole.document_prior.prior.base_concentration
    np.testing.assert_array_equal(second.beta(), whole.beta())


@pytest.mark.slow
def test_hdp_leaves_topics_without_words_and_says_how_many_it_uses():
    documents, _ = drawn_corpus(3, 200, topics=4, words=200, length=50)
    quick = {"passes": 6, "sweeps": 10, "burn_in": 5, "n_jobs": 1, "topic_word_prior": 0.05}
    lda = fk.models.LDA(10, doc_topic_prior="hdp", **quick).fit(documents.to_matrix(200))
    gamma = np.sort(lda.doc_topic_prior_)[::-1]
    # Mixtures were drawn with 0.2 for each of four topics.
    assert gamma[3] > 0.1
    assert gamma[:4].sum() == pytest.approx(0.8, rel=0.3)
    assert gamma[4:].sum() < 0.05
    used = lda._training.chain.document_prior.num_used
    assert 4 <= used.min() <= used.max() < 9
    assert "of 10 topics are used" in str(lda.verdict_)
    assert lda._training.chain.document_prior.is_used.sum() < 9
    # Negative control: a fixed γ uses all of them.
    fixed = fk.models.LDA(10, doc_topic_prior=0.1, **{**quick, "passes": 2}).fit(documents.to_matrix(200))
    assert fixed.doc_topic_prior_draws_.shape == (0, 10)
    assert fixed._training.chain.document_prior.is_used.all()


# ---- pseudo-counts and seeds


def test_each_round_of_an_exact_pass_has_a_prior_of_its_own():
    documents, _ = drawn_corpus(1, 60, topics=3, words=60, length=20)
    quick = {"passes": 2, "sweeps": 10, "burn_in": 5, "n_jobs": 1, "start_documents": 60}
    lda = fk.models.LDA(3, draws=6, **quick).fit(documents.to_matrix(60))
    num_rounds = ROUNDS + 6 * (ROUNDS // 6)  # those before the first draw, and those before each of six
    assert lda.doc_topic_prior_draws_.shape == (num_rounds, 3)
    assert len(np.unique(lda.doc_topic_prior_draws_[:, 0])) == num_rounds
    np.testing.assert_allclose(lda.doc_topic_prior_, lda.doc_topic_prior_draws_[num_rounds // 2 :].mean(0))


def test_collapsed_sweeps_have_pseudo_counts():
    """A single token: p(z = k) ∝ γ_k (α + δ_kw)/(Vα + δ_k·)."""
    gamma, table = np.array([0.3, 0.7]), np.array([[0.5, 0.5, 4.5], [0.5, 2.5, 0.5]])
    documents = Documents.from_matrix(np.array([[0, 0, 1]]))
    found = {}
    for name, prior in (("δ", WordPrior.of_array(table, 2)), ("none", WordPrior.symmetric(0.5, 2))):
        assignments, counts = Assignments(2), np.zeros((3, 2), np.int32)
        assignments.add(documents, np.zeros(1, np.int32))
        counts[2, 0] = 1
        topics = []
        for seed in range(2_000):
            assignments.sweep(counts, prior, gamma, np.uint64(seed), 1)
            topics.append(counts[2, 1])
        found[name] = np.mean(topics)
    weights = gamma * table[:, 2] / table.sum(1)
    # Five standard errors of 0.01; the control is 40 away.
    assert found["δ"] == pytest.approx(weights[1] / weights.sum(), abs=0.05)
    assert found["none"] == pytest.approx(0.7, abs=0.05)


@pytest.mark.slow
def test_pseudo_counts_are_a_prior_of_words():
    """Exact draws have E[β] of Dirichlet(α + δ + n)."""
    prior = WordPrior.of_array(np.array([[0.5, 0.5, 4.5], [0.5, 2.5, 0.5]]), 2)
    assert (prior.alpha, prior.words.tolist(), prior.pinned) == (0.5, [1, 2], (0, 1))
    chain = TopicChain(3, 2, sampler="scir", alpha=prior, gamma=1.0, sweeps=4, burn_in=2)
    words, counts = prior.added_to(np.array([0, 2]), np.array([[3.0, 1.0], [1.0, 0.0]], np.float32))
    assert words.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(counts, [[3, 1], [0, 2], [5, 0]])
    chain.count(Documents.from_matrix(np.array([[1, 0, 0]])))
    assert chain._pass is not None
    chain._pass.counts[:] = [[3, 1], [0, 0], [1, 0]]
    chain._pass.assignments = None  # the counts are not those of its tokens
    draws = []
    for _ in range(2000):
        chain.redraw_pass(1)
        draws.append(chain.own_beta_given_pass(1))
    concentration = np.array([[3.5, 1.5], [0.5, 2.5], [5.5, 0.5]])
    # Standard errors are below 0.005; five of them.
    np.testing.assert_allclose(np.mean(draws, 0), concentration / concentration.sum(0), atol=0.025)


def test_steps_have_the_pseudo_counts_with_and_without_the_words(monkeypatch):
    prior = WordPrior.symmetric(0.1, 2).with_seeds([[2], [0, 2]], 7.0)
    chain = TopicChain(4, 2, sampler="scir", alpha=prior, gamma=1.0, sweeps=4, burn_in=2)
    given = []
    monkeypatch.setattr(chain.topics, "step", lambda words, counts, *_: given.append((words, counts)))
    expected = chain.step(Documents.from_matrix(np.array([[0, 3, 1, 0]])), 10).counts
    words, counts = given[0]
    assert words.tolist() == [0, 1, 2]
    np.testing.assert_allclose(counts, [[0, 7], 10 * expected[0], 10 * expected[1] + 7], rtol=1e-6)


def test_pinned_topics_are_neither_merged_nor_split():
    # Two copies of one subject and two subjects in one topic: the moves would exchange them.
    documents, truth = drawn_corpus(0, 200, topics=4)
    entries = np.repeat(documents.words, documents.counts)
    subject = truth[:, entries].argmax(0)
    z = np.array([0, 0, 1, 3])[subject]
    z[(subject == 2) & (np.arange(len(z)) % 2 == 0)] = 2
    moves = []
    for pinned in ((), (0, 1, 2, 3)):
        prior = dataclasses.replace(WordPrior.symmetric(0.01, 4), pinned=pinned)
        assignment = Assignment(documents, z.astype(np.int32), np.empty((1000, 4)), np.empty((200, 4)), prior)
        generator, gamma = np.random.default_rng(0), np.full(4, 0.1)
        assignment.sweep(np.empty(0, np.float32), gamma, generator)
        moves.append(merge_and_split(assignment, gamma, generator))
    assert moves == [1, 0]


@pytest.mark.slow
def test_named_topics_have_their_seed_words_and_others_stay_free(tmp_path):
    documents, truth = drawn_corpus(4, 300, topics=6, words=300, length=60)
    top = truth.argsort(1)[:, ::-1]
    wanted = {"last": top[5, :3].tolist(), "third": top[2, :3].tolist()}
    names = np.array([f"w{w}" for w in range(300)])
    seeds = {name: [*names[words], "unknown"] for name, words in wanted.items()}
    quick = {"passes": 2, "sweeps": 10, "burn_in": 5, "n_jobs": 1, "start_documents": 300}
    with pytest.warns(UserWarning, match="ignored: unknown, unknown"):
        lda = fk.models.LDA(6, seed_words=seeds, feature_names=names, **quick).fit(documents.to_matrix(300))
    cosine = (lda.components_ @ truth.T) / np.outer(
        *(np.linalg.norm(x, axis=1) for x in (lda.components_, truth))
    )
    assert min(cosine[0, 5], cosine[1, 2]) > 0.95
    assert lda.topic_names_ == ["last", "third", "2", "3", "4", "5"]
    # The others find the other subjects.
    assert cosine[2:].max(0)[[0, 1, 3, 4]].min() > 0.9
    lda.save(tmp_path / "seeded.npz")
    with pytest.warns(UserWarning, match="unknown"):
        again = fk.models.LDA.load(tmp_path / "seeded.npz")
    assert again.topic_names_ == lda.topic_names_
    # Negative control: without seeds the first two topics are others.
    free = fk.models.LDA(6, **quick).fit(documents.to_matrix(300)).components_
    assert (free[0] @ truth[5] < 0.5 * truth[5] @ truth[5]) or (
        free[1] @ truth[2] < 0.5 * truth[2] @ truth[2]
    )


def test_seeds_that_make_no_sense_are_named(tmp_path):
    counts = np.eye(4, dtype=int) + 1

    def fit(**settings):
        fk.models.LDA(2, passes=1, **settings).fit(counts)

    with pytest.raises(ValueError, match=r"set feature_names to the words"):
        fit(seed_words={"a": ["x"]})
    with pytest.raises(ValueError, match="dictionary of lists of words"):
        fit(seed_words={"a": "x"})
    with pytest.raises(ValueError, match="none of the seed words of the topic 'a' is in the vocabulary"):
        fit(seed_words={"a": ["x"]}, feature_names=list("bcde"))
    with pytest.raises(ValueError, match="feature_names has 1 names for the 4 columns"):
        fit(seed_words={"a": ["x"]}, feature_names=["x"])
    with pytest.raises(ValueError, match="3 topics with seed words and 2 topics"):
        fit(seed_words={"a": [0], "b": [1], "c": [2]})
    path = tmp_path / "seeds.txt"
    for text, words in (
        ("space nasa", "line 1 of .* is 'space nasa': give a name, a colon"),
        ("a: b\n\na: c", "line 3 of .* has the name 'a' again"),
        ("# nothing", "has no seed words"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            read_seeds(path)
    path.write_text("space: NASA orbit # both\n\n sport : ball\n")
    assert read_seeds(path) == {"space": ["nasa", "orbit"], "sport": ["ball"]}


def test_gamma_is_numbers_or_a_way_to_learn_it():
    with pytest.raises(ValueError, match=r"one of symmetric, asymmetric, hdp; 'hpd' was given\. Did you"):
        Settings(gamma="hpd")
    with pytest.raises(ValueError, match="gamma has 2 numbers for 3 topics"):
        Settings(topics=3, gamma=[0.1, 0.2])
    with pytest.raises(ValueError, match=r"gamma must be a positive number; -0\.2"):
        Settings(topics=2, gamma=[0.1, -0.2])
    np.testing.assert_allclose(TopicChain.of(Settings(topics=2, gamma=[0.1, 0.7]), 4).gamma, [0.1, 0.7])
