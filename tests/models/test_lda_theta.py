"""The samplers of topics keep the posterior of θ given counts, and the exact transitions are exact.

With the counts N fixed, β_k ~ Dirichlet(α + N_k) and θ_k· ~ Gamma(Vα), independent, in every topic: thousands
of topics with the same counts are thousands of independent chains. Comparisons are of means over topics with
their standard errors; with some 150 of them at 5 standard errors a false alarm has a chance of 1e-4.
"""

import importlib

import jax
import numpy as np
import pytest
from scipy import stats

from fokker.fields import Elementwise
from fokker.models.topics import lazy as lazy_module
from fokker.models.topics import potential as potential_module
from fokker.models.topics._checks import NotFiniteError
from fokker.models.topics.cir import draw_gamma, draw_poisson, transitions
from fokker.models.topics.lazy import LazyTopics
from fokker.models.topics.samplers import make_topics
from fokker.models.topics.settings import SAMPLERS

# The name in the package is that of the function.
recipe_module = importlib.import_module("fokker.samplers.plain")

pytestmark = pytest.mark.usefixtures("optimised")

ALPHA = 0.6
COUNTS = np.array([6.0, 2.0, 1.0, 0.0])
TOPICS = 3000


def settled(sampler, h, steps, counts=COUNTS, alpha=ALPHA, friction=1.5, seed=0):
    """θ (V, K) after many steps from a draw of the posterior, with the same counts in every topic."""
    rng = np.random.default_rng(seed)
    V = len(counts)
    beta = rng.dirichlet(alpha + counts, TOPICS).T
    theta = np.maximum(beta * rng.gamma(V * alpha, 1, TOPICS), 1e-30)
    topics = make_topics(sampler, theta, alpha, jax.random.key(seed))
    N = np.repeat(counts[:, None], TOPICS, 1).astype(np.float32)
    for _ in range(steps):
        topics.step(np.arange(V), N, h, friction, 1.0)
    return topics.all_rows()


def deviations(theta, counts=COUNTS, alpha=ALPHA):
    """Standard errors by which the moments of β and of θ_k· miss those of the posterior."""
    totals = theta.sum(0)
    beta = theta / totals
    exact = stats.dirichlet(alpha + counts)
    variance = exact.var()
    seen = {
        "β": (beta - exact.mean()[:, None], 0.0),
        "β²": ((beta - exact.mean()[:, None]) ** 2, variance[:, None]),
        "θ_k·": (totals[None], len(counts) * alpha),
        "θ_k·²": ((totals[None] - len(counts) * alpha) ** 2, len(counts) * alpha),
    }
    return {
        name: (x - wanted).mean(1) / ((x - wanted).std(1) / np.sqrt(x.shape[1]))
        for name, (x, wanted) in seen.items()
    }


def worst(theta, **given):
    return max(np.abs(z).max() for z in deviations(theta, **given).values())


@pytest.mark.parametrize(
    ("sampler", "h", "steps"), [("scir", 0.05, 60), ("sgrld", 0.004, 400), ("sgrhmc", 0.02, 400)]
)
def test_the_posterior_given_counts_is_kept(sampler, h, steps):
    assert worst(settled(sampler, h, steps)) < 5


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "h"), [("sgld", 2e-3), ("sghmc", 0.02)])
def test_without_a_metric_it_is_kept_where_the_density_is_smooth_at_zero(sampler, h):
    counts = np.array([6.0, 4.0, 3.0, 5.0])
    theta = settled(sampler, h, 400, counts, alpha=2.0)
    # The softened logarithm at zero and the step leave a bias of a few per cent of a standard deviation.
    beta = theta / theta.sum(0)
    exact = stats.dirichlet(2.0 + counts)
    np.testing.assert_allclose(beta.mean(1), exact.mean(), atol=0.15 * np.sqrt(exact.var()).min())
    np.testing.assert_allclose(beta.std(1), np.sqrt(exact.var()), rtol=0.12)
    assert theta.sum(0).mean() == pytest.approx(8.0, rel=0.05)


def breaking(monkeypatch, mistake):
    """Put a mistake into the library that the samplers of topics are made of."""
    right, drawn = Elementwise.divergence, recipe_module.draw_like
    if mistake == "noise doubled":
        monkeypatch.setattr(
            recipe_module, "draw_like", lambda *given: jax.tree.map(lambda x: 2 * x, drawn(*given))
        )
    else:
        factor = {"Γ reversed": -1.0, "Γ dropped": 0.0}[mistake]
        monkeypatch.setattr(Elementwise, "divergence", lambda *given, **more: factor * right(*given, **more))


@pytest.fixture
def compiled_anew():
    """What was compiled before has no mistake in it, and what is compiled now may not be used again."""
    potential_module.advance.clear_cache()
    yield
    potential_module.advance.clear_cache()


@pytest.mark.parametrize("mistake", ["Γ reversed", "Γ dropped", "noise doubled"])
def test_mistakes_in_the_dynamics_are_found(monkeypatch, compiled_anew, mistake):
    breaking(monkeypatch, mistake)
    assert worst(settled("sgrld", 0.004, 100)) > 15


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "h"), [("sgld", 2e-3), ("sghmc", 0.02)])
def test_doubled_noise_is_found_without_a_metric(monkeypatch, compiled_anew, sampler, h):
    breaking(monkeypatch, "noise doubled")
    counts = np.array([6.0, 4.0, 3.0, 5.0])
    theta = settled(sampler, h, 400, counts, alpha=2.0)
    beta = theta / theta.sum(0)
    # Of what the test of the right sampler allows, 0.12, more than twice.
    assert np.all(beta.std(1) > 1.3 * np.sqrt(stats.dirichlet(2.0 + counts).var()))


def test_counts_that_are_not_scaled_are_found():
    # What forgetting |S|/|S̃| = 4 comes to.
    assert worst(settled("scir", 0.05, 60, COUNTS / 4), counts=COUNTS) > 20


def test_doubled_noise_is_found(monkeypatch):
    moved = lazy_module.transitions
    monkeypatch.setattr(
        lazy_module,
        "transitions",
        lambda theta, alpha, counts, delta, g, *rest: moved(theta, alpha, counts, delta, 2 * g, *rest),
    )
    assert worst(settled("scir", 0.05, 60)) > 20


# ---- words that a minibatch does not have


@pytest.mark.slow
def test_words_seen_late_have_the_law_of_words_seen_at_every_step():
    counts = np.zeros(60)
    counts[:3] = 40.0, 20.0, 10.0
    alpha, h, V = 0.3, 0.02, 60
    rng = np.random.default_rng(1)
    start = np.maximum(rng.gamma(alpha, 1, (V, TOPICS)), 1e-30).astype(np.float32)

    def run(seen):
        topics = LazyTopics("scir", start.copy(), alpha, jax.random.key(3))
        for t in range(80):
            words = np.arange(V) if seen == "all" else np.unique([0, 1, 2, 3 + t % 57])
            N = np.repeat(counts[words][:, None], TOPICS, 1).astype(np.float32)
            topics.step(words, N, h, 0.0, 1.0)
        return topics, topics.all_rows()

    (_, always), (late, seldom) = run("all"), run("few")
    for moment in (1, 2):
        a, b = always.astype(np.float64) ** moment, seldom.astype(np.float64) ** moment
        error = np.sqrt((a.var(1) + b.var(1)) / TOPICS)
        assert np.abs((a.mean(1) - b.mean(1)) / error).max() < 5
    # θ_k· is carried as an expectation: right in the mean, and near what it is.
    missed = late.totals - seldom.sum(0)
    assert abs(missed.mean()) < 5 * missed.std() / np.sqrt(TOPICS)
    assert missed.std() < 0.5 * seldom.sum(0).std()


@pytest.mark.parametrize("sampler", ["scir", "sgrld"])
def test_threads_change_no_bit_of_what_is_carried_along(sampler):
    def run(threads):
        rng = np.random.default_rng(0)
        start = rng.gamma(0.1, 1, (400, 20)) + 1e-3
        topics = LazyTopics(sampler, start.astype(np.float32), 0.05, jax.random.key(3), threads)
        for _ in range(30):
            words = np.sort(rng.choice(400, 150, replace=False))
            topics.step(words, rng.gamma(0.5, 10, (150, 20)).astype(np.float32), 1e-3, 0.0, 1.0)
        return topics.state() | {"whole": topics.all_rows()}

    alone = run(1)
    for threads in (2, 5):
        shared = run(threads)
        for name, x in alone.items():
            np.testing.assert_array_equal(shared[name], x)


def test_looking_at_the_topics_changes_nothing():
    def run(looks):
        topics = LazyTopics("sgrld", np.ones((20, 3), np.float32), 0.1, jax.random.key(0))
        for t in range(12):
            topics.step(np.array([t % 20, 19]), np.ones((2, 3), np.float32), 0.01, 0.0, 1.0)
            if looks:
                topics.all_rows()
        return topics.state()

    seen, unseen = run(True), run(False)
    for name in seen:
        np.testing.assert_array_equal(seen[name], unseen[name])


def test_the_clock_starts_anew_and_forgets_nothing(monkeypatch):
    def run(remembered, threads=1):
        monkeypatch.setattr(LazyTopics, "_MAX_STEPS", remembered)
        topics = LazyTopics("scir", np.full((30, 2000), 0.5, np.float32), 0.3, jax.random.key(5), threads)
        for t in range(40):
            topics.step(np.array([t % 7]), np.full((1, 2000), 2.0, np.float32), 0.05, 0.0, 1.0)
        return topics.all_rows()

    short, long = run(8), run(1024)
    error = np.sqrt((short.var(1) + long.var(1)) / 2000)
    assert np.abs((short.mean(1) - long.mean(1)) / error).max() < 5
    np.testing.assert_array_equal(long, run(1024, threads=2))


@pytest.mark.parametrize("sampler", ["scir", "sgrld"])
def test_once_every_word_is_up_to_date_the_expected_total_is_the_total(sampler):
    topics = LazyTopics(sampler, np.full((9, 40), 0.7, np.float32), 0.3, jax.random.key(2))
    for t in range(10):
        words = np.unique([t % 3, 3 + t % 5])
        topics.step(words, np.full((len(words), 40), 3.0, np.float32), 0.05, 0.0, 1.0)
    assert np.abs(topics.totals / topics.all_rows().sum(0) - 1).max() > 0.01
    theta = topics.rows(np.arange(9))
    np.testing.assert_allclose(topics.totals, theta.sum(0, dtype=np.float64), rtol=1e-6)
    # No time has passed since.
    np.testing.assert_array_equal(topics.rows(np.arange(9)), theta)
    np.testing.assert_array_equal(topics.all_rows(), theta)


def test_the_clock_starts_anew_before_it_runs_out_of_numbers():
    V, alpha = 10, 0.4
    topics = LazyTopics("scir", np.full((V, 2000), 0.5, np.float32), alpha, jax.random.key(5))
    passed = 0.0
    for _ in range(80):
        before = topics._rate[topics._now].min()
        topics.step(np.array([0]), np.full((1, 2000), 300.0, np.float32), 0.5, 0.0, 1.0)
        passed += max(0.0, topics._rate[topics._now].min() - before)
    # Longer than exp can bear.
    assert passed > 720
    # With so long a step words that are not seen are drawn from Gamma(α)/b.
    b = 1 + 300 / topics.totals
    scaled = topics.all_rows()[1:] * b
    assert np.all(np.isfinite(scaled))
    assert 0.3 < scaled.mean() < 0.55


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_restored_state_goes_on_as_before(sampler):
    def fresh():
        return make_topics(sampler, np.full((9, 4), 0.7, np.float32), 0.2, jax.random.key(1))

    def on(topics, first, last):
        for t in range(first, last):
            topics.step(np.array([0, 1 + t % 8]), np.full((2, 4), 1.5, np.float32), 1e-3, 1.0, 2.0)
        return topics

    whole = on(fresh(), 0, 12)
    part = on(fresh(), 0, 5)
    kept = {name: np.array(x) for name, x in part.state().items()}
    resumed = fresh()
    resumed.restore(kept)
    np.testing.assert_array_equal(on(resumed, 5, 12).all_rows(), whole.all_rows())
    np.testing.assert_array_equal(resumed.totals, whole.totals)


# ---- exact transitions


@pytest.mark.parametrize("a", [0.003, 0.4, 0.7, 3.0])
@pytest.mark.parametrize("rate", [0.0, 0.3, 25.0])
def test_a_transition_is_a_noncentral_chi_square(a, rate):
    g, delta = 0.2, 0.5
    theta = np.full((200, 100), rate * g / delta, np.float32)
    zeros = np.zeros(200, np.int64)
    row = np.full((1, 100), 1.0)
    innovation = transitions(theta, a, None, delta * row, g * row, zeros, np.arange(200), np.uint64(7))
    drawn = theta.ravel() / g
    law = stats.ncx2(2 * a, 2 * rate, scale=0.5) if rate else stats.gamma(a)
    # Below 1e-20 the smallest numbers are cut off; compare the rest, and the share of it.
    cut = 1e-20
    share = 1 - law.cdf(cut)
    n = np.sum(drawn > cut)
    assert abs(n - share * drawn.size) < 5 * np.sqrt(drawn.size * share * (1 - share)) + 1
    uniform = (law.cdf(drawn[drawn > cut]) - law.cdf(cut)) / share
    assert stats.kstest(uniform, "uniform").pvalue > 1e-5
    expected = 200 * (rate * g + a * g)
    np.testing.assert_allclose(innovation, theta.sum(0) - expected, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("rate", [1e-9, 0.02, 3.0, 9.9, 10.1, 400.0])
def test_poisson_numbers_have_their_law(rate):
    state, drawn = np.uint64(3), np.empty(20_000)
    for i in range(len(drawn)):
        state, drawn[i] = draw_poisson(np.uint64(state), rate)
    law = stats.poisson(rate)
    assert abs(drawn.mean() - rate) < 5 * np.sqrt(rate / len(drawn)) + 1e-12
    edges = np.unique(law.ppf(np.linspace(0, 1, 12)[1:-1]))
    for edge in edges:
        p = law.cdf(edge)
        assert abs(np.mean(drawn <= edge) - p) < 5 * np.sqrt(p * (1 - p) / len(drawn)) + 1e-9


def test_gamma_numbers_of_tiny_shape_may_be_nothing():
    state, drawn = np.uint64(1), np.empty(2000)
    for i in range(len(drawn)):
        state, drawn[i] = draw_gamma(np.uint64(state), 1e-4)
    assert np.mean(drawn == 0) > 0.98
    assert np.all(np.isfinite(drawn))


# ---- bad input


def test_an_unknown_sampler_is_named():
    with pytest.raises(ValueError, match=r"not 'sgrdl'\. Did you mean 'sgrld'"):
        make_topics("sgrdl", np.ones((2, 2)), 0.1, jax.random.key(0))


@pytest.mark.parametrize("sampler", ["sgrhmc", "sgrld"])
def test_a_step_out_of_the_finite_numbers_stops_the_chain_and_keeps_what_was(sampler):
    topics = make_topics(sampler, np.ones((2, 2), np.float32), 0.1, jax.random.key(0))

    def go_on():
        for _ in range(50):
            topics.step(np.arange(2), np.full((2, 2), 1e30, np.float32), 1e8, 1e-9, 1.0)

    with pytest.raises(NotFiniteError, match="smaller"):
        go_on()
    assert np.all(np.isfinite(topics.all_rows()))


def test_friction_that_a_step_cannot_bear_is_refused():
    topics = make_topics("sgrhmc", np.ones((2, 2), np.float32), 0.1, jax.random.key(0))
    with pytest.raises(ValueError, match="less than 2"):
        topics.step(np.arange(2), np.ones((2, 2), np.float32), 0.2, 10.0, 1.0)
