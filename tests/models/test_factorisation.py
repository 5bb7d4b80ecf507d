"""Bayesian matrix factorisation: its draws against closed forms, its predictions, and what it refuses."""

import copy
import dataclasses
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import fokker as fk
from conftest import quick_jit
from fokker.datasets.ratings import Ratings
from fokker.models.factorisation import chain as chain_module
from fokker.models.factorisation.chain import Draw, FactorChain, GibbsSweep, is_varied
from fokker.models.factorisation.conditional import draw_gaussians, draw_rows
from fokker.models.factorisation.hyperparameters import (
    Hyperparameters,
    Noise,
    RowSums,
    draw_equal_noise,
    draw_hyperparameters,
    draw_noise,
    draw_wishart,
    equal_noise,
)
from fokker.models.factorisation.minibatches import MinibatchPass, log_likelihood
from fokker.models.factorisation.predict import draw_new_users, summarise
from fokker.models.factorisation.report import map_figure, shown_recommendations
from fokker.models.factorisation.stored import ratings_state, restored_ratings
from fokker.targets.tables import RowLikelihood, RowPrior, Table

# Of one friction: a program for all step sizes.
MINIBATCHES: dict[str, Any] = {"sampler": "sgnht", "batch_size": 80, "friction": 3.0}

# Hyperparameters -------------------------------------------------------------------------------------------


def test_wishart_draws_have_the_moments_of_the_wishart():
    # E Λ = νW, Var Λ_ij = ν(W_ij² + W_ii W_jj). 4000 draws: means within 5 standard errors, one false alarm
    # in 10⁶ for each of 6 numbers.
    W, freedom, count = np.array([[0.5, 0.2], [0.2, 0.4]]), 5.0, 4000
    generator = np.random.default_rng(0)
    draws = np.stack([draw_wishart(generator, W, freedom) for _ in range(count)])
    deviation = np.sqrt(freedom * (W**2 + np.outer(np.diag(W), np.diag(W))))
    assert np.all(np.abs(draws.mean(0) - freedom * W) < 5 * deviation / np.sqrt(count))
    np.testing.assert_allclose(draws.std(0), deviation, rtol=0.12)
    assert np.any(np.abs(draws.mean(0) - (freedom - 1) * W) > 5 * deviation / np.sqrt(count))  # the control


@pytest.mark.parametrize("prior", ["normal-wishart", "normal-gamma"])
def test_hyperparameters_given_rows_have_the_moments_of_their_conditional(prior):
    # Means over 4000 draws within 5 standard errors, as above.
    count, n, d = 4000, 7, 2
    rows = np.random.default_rng(1).normal(size=(n, d)) @ np.array([[1.0, 0.5], [0.0, 0.7]]) + 2
    mean = rows.mean(0)
    scatter = (rows - mean).T @ (rows - mean)
    generator = np.random.default_rng(0)
    draws = [draw_hyperparameters(generator, RowSums(n, mean, scatter), prior) for _ in range(count)]
    shrunk = scatter + 2 * n / (2 + n) * np.outer(mean, mean)
    precisions = np.stack([h.precision for h in draws])
    if prior == "normal-wishart":
        wanted = (d + n) * np.linalg.inv(d / 10 * np.eye(d) + shrunk)
    else:
        wanted = np.diag((1 + n / 2) / (0.1 + np.diag(shrunk) / 2))
    error = precisions.std(0) / np.sqrt(count) + 1e-12
    assert np.all(np.abs(precisions.mean(0) - wanted) < 5 * error)
    means = np.stack([h.mean for h in draws])
    assert np.all(np.abs(means.mean(0) - n * mean / (2 + n)) < 5 * means.std(0) / np.sqrt(count))
    # (β₀ + n)(μ - E)ᵀΛ(μ - E) is χ² of d degrees of freedom given Λ.
    squares = [
        (2 + n) * (h.mean - n * mean / (2 + n)) @ h.precision @ (h.mean - n * mean / (2 + n)) for h in draws
    ]
    assert abs(np.mean(squares) - d) < 5 * np.sqrt(2 * d / count)


def test_the_noise_precision_has_the_moments_of_its_gamma():
    generator = np.random.default_rng(0)
    counts, squares = np.array([4, 6]), np.array([3.0, 1.0])
    draws = [draw_equal_noise(generator, counts, squares).precision for _ in range(4000)]
    shape, rate = 1 + 10 / 2, 0.1 + 4.0 / 2
    assert np.all(np.diff(draws) == 0)
    assert abs(np.mean(draws) - shape / rate) < 5 * np.sqrt(shape) / rate / np.sqrt(4000)
    by_user = [
        draw_noise(generator, Noise(np.ones(2), 2.0, 0.5), counts, squares).precision for _ in range(4000)
    ]
    shapes, rates = 2 + counts / 2, 0.5 + squares / 2
    assert np.all(np.abs(np.mean(by_user, 0) - shapes / rates) < 5 * np.sqrt(shapes) / rates / np.sqrt(4000))


def test_shape_and_rate_of_the_noise_are_learned():
    """400 users with τ ~ Gamma(3, rate 2) and 50 ratings each: the posterior of both is near."""
    g = np.random.default_rng(0)
    counts = np.full(400, 50)
    tau = g.gamma(3.0, 1 / 2.0, 400)
    noise = Noise(np.ones(400), 1.0, 1.0)
    drawn = []
    for _ in range(400):
        noise = draw_noise(g, noise, counts, g.chisquare(50, 400) / tau)
        drawn.append((noise.shape, noise.rate))
    a, b = np.mean(drawn[100:], 0)
    # Standard errors of a shape and a rate from 400 gamma variables: about 7 %.
    assert abs(a / 3 - 1) < 0.3
    assert abs(b / 2 - 1) < 0.3


@pytest.mark.slow
def test_shape_and_rate_have_their_exact_posterior():
    r"""By a grid over log a and log b, with the precisions integrated out.

    p(a, b | squares) ∝ p(a) p(b) Π b^a Γ(a + n/2) / (Γ(a) (b + s/2)^(a + n/2)). Four users, so that priors
    and the Jacobian of log a count. Averages over 10,000 draws, whose standard errors are by 50 batches: a
    false alarm in 10⁴ at 4.4 of them. Each control is a mistake that a step for a could have.
    """
    counts, squares = np.array([8, 12, 5, 20]), np.array([3.0, 14.0, 2.0, 30.0])
    log_a, log_b = np.linspace(-5, 7, 400)[:, None], np.linspace(-7, 7, 400)[None]
    a, b = np.exp(log_a), np.exp(log_b)

    def averages(jacobian=1.0, rate=0.1):
        log_p = -rate * a + jacobian * log_a - 0.1 * b + log_b
        for n, s in zip(counts, squares, strict=True):
            log_p = log_p + a * log_b - gammaln(a) + gammaln(a + n / 2) - (a + n / 2) * np.log(b + s / 2)
        p = np.exp(log_p - log_p.max())
        return np.array([np.sum(p * f) for f in (log_a, log_b, log_a**2, log_a * log_b)]) / np.sum(p)

    generator, noise, drawn = np.random.default_rng(0), Noise(np.ones(4), 1.0, 1.0), []
    for _ in range(10_000):
        noise = draw_noise(generator, noise, counts, squares)
        x, y = np.log([noise.shape, noise.rate])
        drawn.append((x, y, x**2, x * y))
    batches = np.reshape(drawn, (50, -1, 4)).mean(1)
    error = batches.std(0, ddof=1) / np.sqrt(50)
    off = [np.abs(batches.mean(0) - averages(**mistake)) / error
           for mistake in ({}, {"jacobian": 0.0}, {"rate": 0.0})]  # fmt: skip
    assert np.all(off[0] < 4.4)
    assert np.all(np.min(off[1:], 1) > 6)


# The target ------------------------------------------------------------------------------------------------


def small_target() -> Any:
    g = np.random.default_rng(0)
    data = {
        "users": jnp.asarray(g.integers(0, 3, 12)),
        "items": jnp.asarray(g.integers(0, 4, 12)),
        "rating": jnp.asarray(g.normal(size=12)),
        "precision": jnp.full(12, 2.0),
    }
    tables = {
        "users": Table(3, np.full(3, 0.1), 2.0),
        "items": Table(4, np.zeros(3), np.diag([1.0, 2.0, 3.0])),
    }
    return fk.Posterior(RowPrior(tables), RowLikelihood(log_likelihood, ("users", "items")), data)


@pytest.mark.slow
def test_the_gradient_of_ratings_is_that_of_finite_differences(x64):
    target = small_target()
    g = np.random.default_rng(2)
    theta = {"users": jnp.asarray(g.normal(size=(3, 3))), "items": jnp.asarray(g.normal(size=(4, 3)))}
    gradient = quick_jit(jax.grad(target.potential))(theta)
    potential = quick_jit(target.potential)
    for name, place in (("users", (1, 0)), ("users", (2, 2)), ("items", (3, 0)), ("items", (0, 1))):
        up, down = (potential({**theta, name: theta[name].at[place].add(change)}) for change in (1e-5, -1e-5))
        assert float(gradient[name][place]) == pytest.approx(float(up - down) / 2e-5, rel=1e-6)
    # The formula itself: τ/2 Σ(r - a - b - U·V)² and the priors.
    u, v = theta["users"][target.data["users"]], theta["items"][target.data["items"]]
    error = target.data["rating"] - u[:, 0] - v[:, 0] - jnp.sum(u[:, 1:] * v[:, 1:], 1)
    prior = jnp.sum((theta["users"] - 0.1) ** 2) + jnp.sum(theta["items"] ** 2 @ jnp.array([0.5, 1.0, 1.5]))
    assert float(potential(theta)) == pytest.approx(float(jnp.sum(error**2) + prior), rel=1e-12)


# The chain -------------------------------------------------------------------------------------------------


def make_ratings(
    users: int = 60, items: int = 40, share: float = 0.35, noise: float = 0.3, seed: int = 0
) -> Any:
    """Ratings from known factors: a `Ratings` and the expected ratings of all pairs."""
    g = np.random.default_rng(seed)
    a, b = g.normal(size=users) * 0.4, g.normal(size=items) * 0.6
    U, V = g.normal(size=(users, 2)) * 0.7, g.normal(size=(items, 2)) * 0.8
    truth = 3.0 + a[:, None] + b[None, :] + U @ V.T
    u, i = np.nonzero(g.uniform(size=truth.shape) < share)
    values = (truth[u, i] + noise * g.normal(size=len(u))).astype(np.float32)
    titles = np.array([f"item number {j}" for j in range(items)])
    names = (np.arange(users) * 10, np.array([f"i{j}" for j in range(items)]))
    return Ratings(u.astype(np.int32), i.astype(np.int32), values, *names, titles), truth


@pytest.fixture(scope="module")
def fitted() -> Any:
    ratings, truth = make_ratings()
    train, test = ratings.split(0.2, seed=1)
    return (
        fk.models.Factorisation(2, passes=60, draws=40, progress=False).fit(train, test=test),
        train,
        test,
        truth,
    )


@pytest.mark.slow
def test_a_rank_one_posterior_is_that_of_numerical_integration(x64):
    # One user and one item: p(u, v) ∝ exp(-τ(r - uv)²/2 - λ(u² + v²)/2), against E[uv] on a grid. 4000 draws
    # with an effective size above 400: within 5 standard errors of 0.6/√400.
    tau, lam, r = 4.0, 1.0, 1.5
    grid = np.linspace(-5, 5, 801)
    u, v = grid[:, None], grid[None, :]
    weights = np.exp(-tau * (r - u * v) ** 2 / 2 - lam * (u**2 + v**2) / 2)
    wanted = float((weights * u * v).sum() / weights.sum())
    priors = {name: Table(1, jnp.zeros(1), lam) for name in ("users", "items")}
    data = {"users": np.zeros(1, int), "items": np.zeros(1, int), "rating": np.array([r])}
    target = fk.tables(priors, _product_likelihood(tau), data)
    inner = fk.samplers.sghmc(0.15, 1.0, integrator=fk.integrators.Splitting())
    start = {name: jnp.ones((1, 1)) for name in priors}
    settings = {"init": start, "steps": 40_000, "thin": 10, "burn_in": 500, "chains": 1, "progress": False}
    trace = fk.sample(target, fk.lazy(inner, {"users": [1.0], "items": [2.0]}), **settings)
    product = trace.samples["users"][0, :, 0, 0] * trace.samples["items"][0, :, 0, 0]
    assert float(np.mean(product)) == pytest.approx(wanted, abs=0.15)
    assert abs(wanted - r) > 0.15  # the control: shrinkage by the prior is seen


def _product_likelihood(tau: float) -> Any:
    return lambda rows, datum: -tau * (datum["rating"] - rows["users"][0] * rows["items"][0]) ** 2 / 2


def test_known_factors_are_recovered(fitted):
    model, train, test, truth = fitted
    # The noise has the standard deviation 0.3, and expected ratings spread by 1.1.
    assert model.score(test) < 0.5
    assert 0.25 < model.noise_ < 0.4
    assert model.curve_[-1][1] == pytest.approx(model.score(test), abs=0.03)
    everything = model.predict(np.repeat(train.user_names, 40), np.tile(train.item_names, 60))
    assert np.corrcoef(everything, truth.ravel())[0, 1] > 0.9


def test_intervals_cover_held_out_ratings(fitted):
    model, _, test, _ = fitted
    predictions = model.predict(test, return_std=True, interval=0.9)
    low, high = predictions.interval
    # About 170 ratings: 0.90 ± 4 standard deviations of 0.023.
    assert 0.8 < np.mean((test.values >= low) & (test.values <= high)) < 0.995
    np.testing.assert_allclose((high - low) / (2 * 1.645), predictions.std, rtol=0.2)
    assert np.all(predictions.std >= 0.9 * model.noise_)
    clipped = model.predict(test, interval=0.9, clip=True).interval
    assert clipped.min() >= model.ratings_.range[0]
    assert clipped.max() <= model.ratings_.range[1]


def test_recommendations_are_the_best_of_what_is_not_rated(fitted):
    model, train, _, _ = fitted
    user = train.user_names[3]
    listed = model.recommend(user, count=5)
    rated = set(train.item_names[train.items[train.users == 3]])
    assert len(listed) == 5
    assert not rated & {r.item for r in listed}
    assert [r.mean for r in listed] == sorted((r.mean for r in listed), reverse=True)
    assert all(r.interval[0] < r.mean < r.interval[1] for r in listed)
    assert listed[0].title == f"item number {listed[0].item[1:]}"
    means = model.predict([user] * 40, train.item_names)
    unrated = [m for m, name in zip(means, train.item_names, strict=True) if name not in rated]
    assert listed[0].mean == pytest.approx(max(unrated))


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("interval", (-1, 0, 1, 90, True, "0.9", None, np.nan), "a probability between 0 and 1"),
        ("count", (-1, 0, 2.5, True, "5", None), "a whole number of at least 1"),
    ],
)
def test_recommendations_without_a_probability_or_a_number_are_refused(fitted, name, values, wanted):
    for value in values:
        with pytest.raises(ValueError, match=f"{name} must be {wanted}.*; {value!r} was given"):
            fitted[0].recommend(0, **{name: value})


def test_recommendations_can_be_clipped_to_the_range_of_the_ratings(fitted, tmp_path):
    model = fitted[0]
    narrow = copy.copy(model)
    narrow.ratings_ = dataclasses.replace(model.ratings_, values=np.clip(model.ratings_.values, 2.9, 3.1))
    plain, clipped = (narrow.recommend(0, count=8, clip=clip) for clip in (False, True))
    assert [r.item for r in plain] == [r.item for r in clipped]
    assert max(r.mean for r in plain) > 3.1
    for one, other in zip(plain, clipped, strict=True):
        numbers = np.clip([one.mean, *one.interval], *narrow.ratings_.range)
        np.testing.assert_array_equal(numbers, [other.mean, *other.interval])
    # So are those that a report or the command shows.
    assert shown_recommendations(narrow, 0)[:8] == clipped
    text = narrow.report(tmp_path / "report.html", user=0).read_text()
    assert "Cut off at the range of the ratings, 2.9 to 3.1; the order is that of the values before." in text
    assert f"<td>{plain[0].mean:.2f}" not in text


@pytest.mark.parametrize("value", [1.0, 4.0, 0.1])
def test_ratings_that_are_all_the_same_are_warned_of_and_predicted(value):
    users, items = (x.ravel() for x in np.indices((6, 5)))
    model = fk.models.Factorisation(1, passes=6, draws=3, progress=False)
    with pytest.warns(UserWarning, match=f"all 30 ratings are {value:g}: .* arbitrary"):
        model.fit(users, items, np.full(30, value))
    predictions = model.predict([0, 5], [0, 4], return_std=True, clip=True)
    np.testing.assert_allclose(predictions.mean, value, rtol=1e-6)
    assert np.all(np.isfinite(predictions.std))


@pytest.mark.slow
def test_minibatches_of_ratings_without_noise_say_why_they_diverge():
    users, items = (x.ravel() for x in np.indices((6, 5)))
    model = fk.models.Factorisation(1, sampler="sgld", progress=False)
    with (
        pytest.warns(UserWarning, match="all 30 ratings are 3"),
        pytest.raises(RuntimeError, match=r"explained with hardly any noise.*sampler='gibbs'"),
    ):
        model.fit(users, items, np.full(30, 3.0))


def test_ratings_that_differ_by_rounding_are_the_same():
    assert not is_varied(np.array([0.1, 0.1 + 1e-9, 0.1]))
    assert not is_varied(np.zeros(3))
    assert is_varied(np.array([0.1, 0.1001]))


def test_a_model_is_saved_pickled_and_cloned(fitted, tmp_path):
    model = fitted[0]
    model.save(tmp_path / "model.npz")
    test = fitted[2]
    for again in (fk.models.Factorisation.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert again.get_params() == model.get_params()
        np.testing.assert_array_equal(again.predict(test), model.predict(test))
        assert again.recommend(0) == model.recommend(0)
        assert (again.noise_, again.mean_, again.curve_) == (model.noise_, model.mean_, model.curve_)
    unfitted = clone(model)
    assert unfitted.get_params() == model.get_params()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        unfitted.save(tmp_path / "none.npz")
    assert fk.models.Factorisation(2, passes=9).set_params(passes=30).num_burn_in == 10
    assert fk.models.Factorisation(2).num_passes < fk.models.Factorisation(2, sampler="sghmc").num_passes
    with pytest.raises(ValueError, match="passes must be a whole number"):
        unfitted.set_params(passes=0).fit(test)


def test_identifiers_of_any_kind_survive_a_file(tmp_path):
    users = np.array(["Ä", "b", "b"], dtype=object)
    ratings = Ratings.from_identifiers(users, np.array([3, 1, 3]), np.array([1.0, 2.0, 3.0]))
    ratings = dataclasses.replace(ratings, titles=np.array(["x", ""], dtype=object))
    again = restored_ratings(*ratings_state(ratings))
    for name in ("users", "items", "values", "user_names", "item_names", "titles"):
        np.testing.assert_array_equal(getattr(again, name), getattr(ratings, name))
    assert again.user_names.dtype == object


def test_someone_new_is_predicted_as_if_they_had_been_there(fitted):
    model, train, _, _ = fitted
    # The same ratings as a user who was there: their predictions agree.
    number = int(np.argmax(np.bincount(train.users)))
    rated = dict(
        zip(
            train.item_names[train.items[train.users == number]].tolist(),
            train.values[train.users == number].tolist(),
            strict=True,
        )
    )
    new = model.predict(None, train.item_names, rated=rated)
    old = model.predict([train.user_names[number]] * 40, train.item_names)
    assert np.corrcoef(new, old)[0, 1] > 0.95
    assert np.sqrt(np.mean((new - old) ** 2)) < 0.35
    # Without any ratings: the mean of users, with a wide interval.
    cold = model.predict(None, train.item_names, rated={}, return_std=True)
    assert np.all(
        cold.std
        > 1.2 * model.predict([train.user_names[number]] * 40, train.item_names, return_std=True).std.mean()
    )
    assert not set(rated) & {r.item for r in model.recommend(rated=rated, count=5)}


def test_a_new_row_has_the_exact_conditional():
    # Moments over 4000 copies of one draw, against the normal equations: five standard errors.
    g = np.random.default_rng(0)
    items = g.normal(size=(5, 3)).astype(np.float32)
    prior = Hyperparameters(np.array([0.2, -0.1, 0.3]), np.diag([4.0, 2.0, 1.0]))
    noise = equal_noise(3.0, 1)
    draw = Draw(np.zeros((1, 3)), items, {"users": prior, "items": prior}, noise, 2.5, 1.5)
    rated, values = np.array([0, 2, 4]), np.array([4.0, 1.0, 3.0])
    rows, deviations = draw_new_users([draw] * 4000, rated, values, np.random.default_rng(1))
    np.testing.assert_allclose(deviations, 1.5 * 3.0**-0.5, rtol=1e-3)
    features = np.concatenate([np.ones((3, 1)), items[rated, 1:]], 1)
    precision = prior.precision + 3.0 * features.T @ features
    y = (values - 2.5) / 1.5 - items[rated, 0]
    wanted = np.linalg.solve(precision, prior.precision @ prior.mean + 3.0 * features.T @ y)
    covariance = np.linalg.inv(precision)
    assert np.all(np.abs(rows.mean(0) - wanted) < 5 * np.sqrt(np.diag(covariance) / 4000))
    np.testing.assert_allclose(np.cov(rows.T), covariance, atol=0.1 * np.diag(covariance).max())


@pytest.mark.long("factorisation::after_a_pass_all_rows_are_up_to_date_and_a_dense_chain_needs_no_such_thing")
def test_a_user_without_ratings_has_the_prior(fitted):
    train = fitted[1]
    ratings = Ratings(
        train.users, train.items, train.values, np.append(train.user_names, 9999), train.item_names
    )
    settings = {"passes": 430, "burn_in": 30, "draws": 400, "progress": False}
    again = fk.models.Factorisation(2, sampler="sgnht", batch_size=40, **settings).fit(ratings)
    # Each by its own law: the hyperparameters of so few ratings differ much from draw to draw.
    laws = [(draw.users[-1], draw.hyperparameters["users"]) for draw in again.draws_]
    z = np.stack([(row - h.mean) / np.sqrt(np.diag(np.linalg.inv(h.precision))) for row, h in laws])
    # 400 draws with autocorrelations of up to 0.9, so 20 effective ones or more: a standard deviation of 3 is
    # within a factor of 2 but once in 10⁴.
    assert np.all((z.std(0) > 0.5) & (z.std(0) < 2.0))


def test_factors_that_a_few_thousand_ratings_do_not_need_do_little_harm(monkeypatch):
    """Where a precision of 1 is expected a priori they keep a size of their own."""
    generator = np.random.default_rng(0)
    pairs = generator.permutation(150 * 60)[:2867]
    users, items = pairs // 60, pairs % 60
    a, b, u, v = (s * generator.normal(size=n) for s, n in ((0.5, 150), (0.5, 60), (1, 150), (0.8, 60)))
    values = 3 + a[users] + b[items] + u[users] * v[items] + 0.4 * generator.normal(size=len(pairs))
    train, test = slice(2300), slice(2300, None)

    def error(factors):
        model = fk.models.Factorisation(factors, random_state=0, progress=False)
        model.fit(users[train], items[train], values[train])
        return model.score(users[test], items[test], values[test])

    least = error(2)
    assert error(10) < 1.07 * least
    monkeypatch.setattr("fokker.models.factorisation.hyperparameters._PRECISION", 1.0)
    assert error(10) > 1.1 * least


def test_held_out_ratings_that_are_no_ratings_are_refused_with_what_makes_them(fitted, tmp_path):
    model, train, *_ = fitted
    table, new = np.ones((3, 3)), fk.models.Factorisation(1)
    message = r"test must be a Ratings: .*from_identifiers.* makes one; ndarray was given"
    with pytest.raises(TypeError, match=message):
        model.report(tmp_path / "report.html", test=table)
    with pytest.raises(TypeError, match=message):
        new.fit(train, test=table)
    for call in (model.score, model.ranking):
        with pytest.raises(TypeError, match=r"give a Ratings, as .*from_identifiers makes one"):
            call(table)


def test_the_report_is_written(fitted, tmp_path):
    model, train, test, _ = fitted
    model = copy.copy(model)
    titles = np.array([f"The long title of the item {name}" for name in train.item_names])
    model.ratings_ = dataclasses.replace(train, titles=titles)
    path = model.report(tmp_path / "report.html", test=test, user=train.user_names[0])
    text = path.read_text()
    for part in (
        "test RMSE",
        "coverage of 90 % intervals",
        "Recommended to user 0",
        "The items rated most often",
        "Intervals with fewer than ",
    ):
        assert part in text
    (marks,) = map_figure(model).marks
    assert set(marks.text) == {"The long title of the item…"}


@pytest.mark.slow
def test_a_chain_is_the_same_for_a_seed(fitted):
    train = fitted[1]
    for extra in ({}, MINIBATCHES):
        settings: dict[str, Any] = {"passes": 2, "burn_in": 0, "draws": 2, "progress": False, **extra}
        one, other = (fk.models.Factorisation(2, **settings).fit(train) for _ in range(2))
        np.testing.assert_array_equal(one.draws_[-1].users, other.draws_[-1].users)
        assert not np.array_equal(one.draws_[0].items, one.draws_[1].items)


# What is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [1, 2], ["good", "bad"]), "values must be numbers"),
        (([1, 2], [1, 2], [1.0, np.nan]), "values must be finite; entry 1 is nan"),
        (([1, 2], [1], [1.0, 2.0]), "three vectors of one length"),
        (([1, 1], [5, 5], [1.0, 2.0]), "user 1 rated item 5 more than once"),
        (([], [], []), "there are no ratings"),
        (([1, 2],), "fit takes a Ratings"),
    ],
)
def test_bad_ratings_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fk.models.Factorisation(2).fit(*arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"factors": 0}, "factors must be a whole number of at least 1; 0"),
        ({"sampler": "sghcm"}, "Did you mean 'sghmc'"),
        ({"prior": "wishart"}, "prior is one of"),
        ({"passes": 3, "burn_in": 3}, "leaves no pass for draws"),
        ({"step_size": 0.1}, "step_size=0.1 is for minibatches, .* leave it out, or give sampler='sgnht'"),
        ({"batch_size": 10}, "batch_size=10 is for minibatches"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        fk.models.Factorisation(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"sampler": "sghmc", "thermostat_mass": 2.0},
            "thermostat_mass=2.0 is of sampler='sgnht', and sampler='sghmc' has no thermostat: leave it out",
        ),
        (
            {"confidence": 1.0, "noise_by_user": True},
            "noise_by_user=True is for ratings, and confidence=1 for counts, .*: leave one of them out",
        ),
    ],
)
def test_settings_that_others_leave_without_effect_are_refused(settings, message):
    model = fk.models.Factorisation(2, **settings)  # as `load` makes those that are stored
    with pytest.raises(ValueError, match=message):
        model.fit([1, 2], [1, 2], [1.0, 2.0])


def test_a_table_of_ratings_comes_alone(fitted):
    model, _, test, _ = fitted
    for call in (
        lambda: model.predict(test, ["i1"]),
        lambda: model.score(test, values=[1.0]),
        lambda: model.ranking(test, ["i1"]),
    ):
        with pytest.raises(ValueError, match="give a Ratings alone, or users, items and values"):
            call()


def test_unknown_identifiers_are_refused_with_the_nearest(fitted):
    model = fitted[0]
    with pytest.raises(KeyError, match=r"no user 41 in the ratings\. For someone new"):
        model.predict([41], ["i1"])
    with pytest.raises(KeyError, match=r"no item 'i1x' in the ratings. Did you mean 'i1"):
        model.predict([40], ["i1x"])
    with pytest.raises(KeyError, match=r"Identifiers of items are of type str, as 'i0'"):
        model.predict([40], [3])
    with pytest.raises(ValueError, match=r"interval must be a probability between 0 and 1, .*; 90 was given"):
        model.predict([40], ["i1"], interval=90)
    with pytest.raises(ValueError, match=r"give a user, or what someone new has rated"):
        model.recommend()
    with pytest.raises(ValueError, match=r"not fitted yet"):
        fk.models.Factorisation(2).predict([1], [1])


@pytest.mark.slow
def test_a_chain_that_diverges_says_so(fitted):
    settings = {**MINIBATCHES, "passes": 3, "burn_in": 2, "step_size": 5.0}
    model = fk.models.Factorisation(2, **settings, progress=False)
    with pytest.raises(RuntimeError, match=r"left the finite numbers in pass \d: take smaller steps"):
        model.fit(fitted[1])


@pytest.mark.parametrize("block", [2**18, 64])
def test_residuals_are_those_of_all_ratings(block, monkeypatch):
    """Summed by blocks, and what is left over."""
    monkeypatch.setattr(chain_module, "_RATINGS", block)
    ratings, _ = make_ratings()
    chain = FactorChain(ratings, 2, prior="normal-gamma", seed=0)
    squares = ((ratings.values - chain.draw().expected(ratings.users, ratings.items)) / chain.scale) ** 2
    assert len(ratings) % 64 > 0
    wanted = [np.sum(squares[ratings.users == user]) for user in range(60)]
    np.testing.assert_allclose(chain.squared_residuals(), wanted, rtol=1e-4)


@pytest.mark.slow
def test_after_a_pass_all_rows_are_up_to_date_and_a_dense_chain_needs_no_such_thing():
    ratings, _ = make_ratings()
    inner = fk.samplers.sgld(1e-3)
    for sampler in (fk.lazy(inner), inner):
        chain = FactorChain(ratings, 2, prior="normal-gamma", seed=0)
        move = MinibatchPass(chain, sampler, 40)
        start = chain.tables["users"].copy()
        assert move.interval == -(-len(ratings) // 40)
        assert chain.advance(move)
        assert int(move.state.step) == move.interval
        assert not np.any(chain.tables["users"] == start)
        if sampler is not inner:
            assert set(np.asarray(move.state.memory.rows.rows["users"])) == {move.interval}


# Exact draws -----------------------------------------------------------------------------------------------


def test_gaussians_are_drawn_with_their_mean_and_covariance():
    # L⁻ᵀ(L⁻¹f + noise) is affine in the noise: zero noise gives the mean, unit vectors the root of P⁻¹.
    g = np.random.default_rng(0)
    d, n = 4, 3
    roots = g.normal(size=(n, d, d))
    P = roots @ roots.transpose(0, 2, 1) + np.eye(d)
    f = g.normal(size=(n, d))

    class Fixed:
        def __init__(self, noise: np.ndarray) -> None:
            self.noise = noise

        def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
            return np.broadcast_to(self.noise[:, None], shape)

    def drawn(noise: np.ndarray) -> np.ndarray:
        precision = np.tril(P).transpose(1, 2, 0).copy()  # the lower triangle alone is read
        return draw_gaussians(Fixed(noise), precision, f.T.copy()).T  # type: ignore[arg-type]

    mean = drawn(np.zeros(d))
    np.testing.assert_allclose(mean, np.linalg.solve(P, f[..., None])[..., 0], rtol=1e-10)
    columns = np.stack([drawn(np.eye(d)[j]) - mean for j in range(d)], -1)
    np.testing.assert_allclose(columns @ columns.transpose(0, 2, 1), np.linalg.inv(P), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("block", [2**18, 20])
def test_rows_given_the_other_table_have_the_mode_of_the_posterior_for_their_mean(block, monkeypatch):
    """Without noise of the draw, the gradient of the potential vanishes in these rows; also by blocks."""
    monkeypatch.setattr("fokker.models.factorisation.conditional._NUMBERS", block)
    ratings, _ = make_ratings(7, 5)
    chain = FactorChain(ratings, 2, prior="normal-gamma", seed=0)
    g = np.random.default_rng(1)
    priors = {
        name: Hyperparameters(g.normal(size=3), np.diag([1.0, 2.0, 3.0]) + 0.3) for name in ("users", "items")
    }
    tau = g.uniform(1, 4, len(chain.counts))

    class Silent:
        def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
            return np.zeros(shape)

    for name, other in (("users", "items"), ("items", "users")):
        own = GibbsSweep(chain).ratings[name]
        precisions = tau[chain.users[GibbsSweep(chain).order[name]]]
        rows = draw_rows(Silent(), own, chain.tables[other], priors[name], precisions)  # type: ignore[arg-type]
        tables = {**chain.tables, name: rows}
        u, v = tables["users"][chain.users], tables["items"][chain.items]
        error = chain.values - u[:, 0] - v[:, 0] - np.sum(u[:, 1:] * v[:, 1:], 1)
        features = np.concatenate([np.ones((len(u), 1)), (v if name == "users" else u)[:, 1:]], 1)
        gradient = (rows - priors[name].mean) @ priors[name].precision
        np.subtract.at(gradient, getattr(chain, name), (tau[chain.users] * error)[:, None] * features)
        np.testing.assert_allclose(gradient, 0, atol=1e-10)


@pytest.mark.slow
def test_sweeps_keep_the_joint_distribution_of_tables_and_ratings():
    """The joint distribution test of Geweke (2004) for the sweep, which moves data and tables in turns.

    Where ratings are drawn anew given the tables after every sweep, the tables have their prior: the mean of
    their squares is that of independent draws of the prior. 1500 sweeps, whose squares are correlated over
    about 10: five standard errors.
    """
    g = np.random.default_rng(0)
    users, items = (x.ravel() for x in np.indices((3, 4)))
    ratings = Ratings(users, items, g.normal(size=12).astype(np.float32), np.arange(3), np.arange(4))
    chain = FactorChain(ratings, 1, prior="normal-gamma", seed=0)
    sweep = GibbsSweep(chain)
    squares = []
    for _ in range(1500):
        u, v = chain.tables["users"][users], chain.tables["items"][items]
        chain.values = (
            u[:, 0] + v[:, 0] + u[:, 1] * v[:, 1] + g.normal(size=12) * chain.noise.precision[users] ** -0.5
        )
        for name, order in sweep.order.items():
            sweep.ratings[name].data[:] = chain.values[order]
        sweep(chain)
        squares.append([np.mean(chain.tables[name] ** 2) for name in ("users", "items")])
    # Means of zero and precisions of 10, as at the start of a chain.
    by_block = np.mean(np.reshape(squares, (30, 50, 2)), 1)
    error = by_block.std(0) / np.sqrt(30)
    assert np.all(np.abs(by_block.mean(0) - 0.1) < 5 * error)
    assert np.all(error < 0.01)


def test_bounds_of_intervals_are_quantiles_of_the_mixture():
    g = np.random.default_rng(0)
    means, deviations = g.normal(size=(7, 5)), g.uniform(0.2, 2, size=(7, 5))
    predictions = summarise(means, deviations, 0.8)
    assert predictions.interval is not None
    for bound, level in zip(predictions.interval, (0.1, 0.9), strict=True):
        np.testing.assert_allclose(norm.cdf((bound - means) / deviations).mean(0), level, atol=1e-5)
    np.testing.assert_allclose(predictions.std**2, means.var(0) + np.mean(deviations**2, 0))


def test_users_who_rate_irregularly_have_wider_intervals():
    """Every second user has four times the noise, and it is found; with one noise for all it is not."""
    ratings, _ = make_ratings(noise=0.0)
    noise = np.where(ratings.users % 2, 0.8, 0.2)
    values = ratings.values + noise * np.random.default_rng(3).normal(size=len(ratings))
    ratings = dataclasses.replace(ratings, values=values.astype(np.float32))
    ratio = {}
    for noise_by_user in (True, False):
        model = fk.models.Factorisation(2, noise_by_user=noise_by_user, passes=60, progress=False).fit(
            ratings
        )
        deviations = np.mean([draw.deviations for draw in model.draws_], 0)
        ratio[noise_by_user] = deviations[1::2].mean() / deviations[::2].mean()
    assert ratio[True] > 2
    assert ratio[False] == 1


def test_a_file_with_one_noise_for_all_is_read(fitted):
    """As files were before each user had their own."""
    model = fitted[0]
    header, arrays = model._fitted_state()
    del arrays["draws.noise"]
    numbers = arrays["draws.numbers"]
    arrays["draws.numbers"] = np.concatenate([np.full((len(numbers), 1), 4.0), numbers[:, 2:]], axis=1)
    again = clone(model)
    again._seed = 0
    again._restore(header, arrays)
    assert again.noise_ == pytest.approx(again.draws_[0].scale / 2)
    np.testing.assert_allclose(again.predict([0], ["i3"]), model.predict([0], ["i3"]))
    assert np.isfinite(again.predict(None, ["i3"], rated={"i1": 3.0}, return_std=True).std)
