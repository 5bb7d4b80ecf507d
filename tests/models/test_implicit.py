"""A factorisation of counts: its conditional against dense normal equations, its order, what it refuses."""

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fokker as fk
from fokker.datasets.ratings import Ratings
from fokker.models.factorisation.chain import GibbsSweep
from fokker.models.factorisation.features import with_features
from fokker.models.factorisation.hyperparameters import Hyperparameters, equal_noise
from fokker.models.factorisation.implicit import ImplicitChain, as_rated_by_new, for_new_users, ranking_of
from fokker.models.factorisation.predict import draw_new_users
from fokker.models.factorisation.report import verdict_of

ALPHA, TAU = 0.7, 3.0


class Fixed:
    """A generator whose noise is given: a draw is its mean and a column of the root of its covariance."""

    def __init__(self, noise: np.ndarray) -> None:
        self.noise = noise

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(self.noise[:, None], shape)

    def gamma(self, shape: Any, scale: Any) -> np.ndarray:
        return shape * scale


def small_chain() -> tuple[ImplicitChain, np.ndarray]:
    """A chain of 6 users and 5 items of which 4 were chosen, with features of users; and all counts."""
    g = np.random.default_rng(0)
    counts = g.poisson(0.6, size=(6, 5)) * np.array([1, 1, 1, 1, 0])
    u, i = np.nonzero(counts)
    ratings = Ratings(u, i, counts[u, i].astype(np.float32), np.arange(6), np.arange(5))
    ratings, given = with_features(ratings, {j: g.normal(size=2) for j in range(6)}, None)
    chain = ImplicitChain(ratings, 2, confidence=ALPHA, prior="normal-gamma", seed=0, covariates=given)
    for name, p in (("users", 2), ("items", 0)):
        chain.tables[name] = g.normal(size=chain.tables[name].shape)
        precision = np.diag([1.0, 2.0, 3.0]) + 0.3
        chain.hyperparameters[name] = Hyperparameters(g.normal(size=3), precision, g.normal(size=(p, 3)))
    chain.noise = equal_noise(TAU, 6)
    return chain, counts


@pytest.mark.parametrize("noise", [np.zeros(3), np.array([0.0, 1.0, 0.0]), np.array([1.0, -2.0, 0.5])])
def test_rows_have_the_weighted_normal_equations_of_all_pairs(noise):
    """Every pair with its 0 or 1 and its weight 1 + αn, one row at a time."""
    chain, counts = small_chain()
    start = {name: x.copy() for name, x in chain.tables.items()}
    generator: Any = Fixed(noise)
    chain.generator = generator
    GibbsSweep(chain)(chain)
    # Items are drawn after users, given the new ones.
    for name, others, table in (
        ("users", start["items"], counts),
        ("items", chain.tables["users"], counts.T),
    ):
        h, x = chain.hyperparameters[name], chain.covariates[name].rows
        features = np.concatenate([np.ones((len(others), 1)), others[:, 1:]], 1)
        for row, n in enumerate(table):
            c, y = TAU * (1 + ALPHA * n), (n > 0) - others[:, 0]
            P = h.precision + (features.T * c) @ features
            f = h.precision @ (h.mean + x[row] @ h.link) + features.T @ (c * y)
            root = np.linalg.cholesky(P)
            wanted = np.linalg.solve(P, f) + np.linalg.solve(root.T, noise)
            np.testing.assert_allclose(chain.tables[name][row], wanted, rtol=1e-8)


@pytest.mark.parametrize("noise", [np.zeros(3), np.array([1.0, -2.0, 0.5])])
def test_someone_new_has_the_weighted_normal_equations_of_all_pairs(noise):
    """As a row of the fit has: with the 0 of the other items, which were fitted, and the weight 1 + αn.

    An item that only has features is a 1 with the weight 1 + αn where it was chosen, and nothing otherwise.
    """
    chain, _ = small_chain()
    draw, x, n = chain.draw(), np.array([0.3, -0.8]), np.array([0, 3, 0, 1, 0, 2, 0])
    # The last two only have features.
    draw = draw._replace(items=np.concatenate([draw.items, [[0.5, -1, 2], [9, 9, 9]]]).astype(np.float32))
    generator: Any = Fixed(noise)
    seen = np.flatnonzero(n)
    values, weights = as_rated_by_new(n[seen], seen, 5, ALPHA)
    row = draw_new_users(for_new_users([draw], 5), seen, values, generator, x, weights)[0][0]
    h, items, n = draw.hyperparameters["users"], draw.items[:6].astype(float), n[:6]
    features = np.concatenate([np.ones((6, 1)), items[:, 1:]], 1)
    c, y = TAU * (1 + ALPHA * n), (n > 0) - items[:, 0]
    P = h.precision + (features.T * c) @ features
    f = h.precision @ (h.mean + x @ h.link) + features.T @ (c * y)
    wanted = np.linalg.solve(P, f) + np.linalg.solve(np.linalg.cholesky(P).T, noise)
    np.testing.assert_allclose(row, wanted, rtol=1e-5)


@pytest.fixture(scope="module")
def of_two_kinds() -> Any:
    """A model of users and items of two kinds, which features tell; items 20 to 29 only have features."""
    g = np.random.default_rng(0)
    u, i = np.nonzero(
        g.uniform(size=(60, 20)) < np.where(np.add.outer(np.arange(60), np.arange(20)) % 2, 0, 0.6)
    )
    model = fk.models.Factorisation(2, confidence=0.1, passes=450, burn_in=50, draws=400, progress=False)
    kinds = {j: [float(j % 2)] for j in [*range(60), 61]}
    return model.fit(u, i, user_features=kinds, item_features={j: kinds[j] for j in range(30)})


@pytest.mark.parametrize("rated", [None, {}, dict.fromkeys(range(20, 30, 2), 1), {0: 2, 21: 3}], ids=str)
def test_someone_new_is_predicted_by_what_is_known_of_them(of_two_kinds, rated):
    """Features alone say nothing of what was chosen; with `rated` all other items of the fit are zeros.

    The mean of each draw is that of dense equations; a prediction is an average over 400 of them, drawn with
    their covariance: one false alarm in 10⁵ at 5 standard errors, of 30 items.
    """
    model, given, means, variances = of_two_kinds, rated or {}, [], []
    n = np.array([given.get(j, 0) for j in range(30)])
    known = np.zeros(30, bool) if rated is None else (n > 0) | (np.arange(30) < 20)
    x = model.features_["users"].coordinates(np.array([[1.0]]))[0]
    for draw in model.draws_:
        h, tau, items = draw.hyperparameters["users"], draw.noise.precision[0], draw.items.astype(float)
        features = np.concatenate([np.ones((30, 1)), items[:, 1:]], 1)
        c = tau * (1 + 0.1 * n) * known
        P = h.precision + (features.T * c) @ features
        f = h.precision @ (h.mean + x @ h.link) + features.T @ (c * ((n > 0) - items[:, 0]))
        means.append(items[:, 0] + features @ np.linalg.solve(P, f))
        variances.append(np.einsum("nj,nj->n", features, np.linalg.solve(P, features.T).T))
    error = np.sqrt(np.mean(variances, 0) / 400)
    predicted = [model.predict(None, np.arange(30), rated=rated, features=[1.0])]
    predicted += [model.predict(np.full(30, 61), np.arange(30))] * (rated is None)  # in the fit by features
    for scores in predicted:
        assert np.all(np.abs(scores - np.mean(means, 0)) < 5 * error)
    assert np.max(error) < 0.05  # zeros that are left out, or added, differ by more
    if rated is None:
        best = model.recommend(features=[1.0], count=10)
        assert {r.item % 2 for r in best} == {1}


def test_parameters_that_are_set_after_a_fit_change_no_prediction(of_two_kinds, tmp_path):
    model, new = copy.copy(of_two_kinds), {"rated": {0: 2, 21: 3}, "count": 5}
    before = model.recommend(**new), model.report(tmp_path / "before.html").read_text()
    model.set_params(confidence=None, factors=1, passes=3)
    model.save(tmp_path / "model.npz")
    loaded = fk.models.Factorisation.load(tmp_path / "model.npz")
    assert (loaded.confidence, loaded.factors, loaded.passes) == (0.1, 2, 450)
    for again in (model, loaded, pickle.loads(pickle.dumps(model))):
        assert again.recommend(**new) == before[0]
        assert again.report(tmp_path / "after.html").read_text() == before[1]
        with pytest.raises(ValueError, match=r"with confidence, predictions are scores"):
            again.predict([1], [1], interval=0.9)
        with pytest.raises(ValueError, match=r"no error of ratings"):
            again.score([1], [1], [1.0])
    # A new fit has those that are set.
    ratings = fk.models.Factorisation(1, confidence=0.1, passes=3, draws=1, progress=False).fit(
        [1, 2], [1, 2]
    )
    ratings.set_params(confidence=None).fit([1, 2, 1], [1, 2, 2], [1.0, 2.0, 3.0])
    assert ratings.predict([1], [2], interval=0.9).interval.shape == (2, 1)


def test_squared_residuals_are_those_of_all_pairs():
    chain, counts = small_chain()
    u, v = chain.tables["users"], chain.tables["items"]
    scores = u[:, :1] + v[:, 0] + u[:, 1:] @ v[:, 1:].T
    wanted = np.sum((1 + ALPHA * counts) * ((counts > 0) - scores) ** 2, 1)
    np.testing.assert_allclose(chain.squared_residuals(), wanted, rtol=1e-10)
    assert chain.counts.sum() == counts.size


def test_recall_and_ndcg_are_those_of_a_hand():
    known = Ratings(np.array([0]), np.array([0]), np.ones(1), np.arange(2), np.arange(5))
    scores = np.array([[9.0, 5, 4, 3, 2], [1.0, 2, 3, 4, 5]])
    # User 0 gets 1, 2 and has 2, 3 held out; user 1 gets 4, 3 and has 4 held out.
    test = (np.array([0, 0, 1]), np.array([2, 3, 4]))
    found = ranking_of(lambda user: scores[user], known, test, 2)
    second = 1 / np.log2(3)
    assert found.recall == pytest.approx((0.5 + 1) / 2)
    assert found.ndcg == pytest.approx((second / (1 + second) + 1) / 2)


def test_pairs_that_are_known_count_neither_as_hits_nor_as_misses():
    known = Ratings(np.array([0, 1, 1]), np.array([0, 3, 4]), np.ones(3), np.arange(3), np.arange(5))
    scores = np.array([[9.0, 5, 4, 3, 2], [1.0, 2, 3, 4, 5], [5.0, 4, 3, 2, 1]])

    def ranking(test, count):
        return ranking_of(lambda user: scores[user], known, np.array(test).T, count)

    # Item 0 of user 0 is known, and cannot be recommended: item 1 is all that there is to find.
    assert ranking([(0, 0), (0, 1)], 1) == (1.0, 1.0)
    # Nor does a user count of whom everything is known.
    assert ranking([(0, 2), (1, 3), (1, 4)], 1) == (0.0, 0.0)
    # Of the five items user 1 may be recommended three: the others are no hits where there is room for them.
    assert ranking([(1, 0), (1, 3)], 5) == pytest.approx((1.0, 1 / np.log2(4)))
    for test, reason in (
        ([(0, 0), (1, 3)], "the user has each of them in the fitted data too"),
        (np.empty((0, 2), int), "there are none"),
    ):
        with pytest.raises(ValueError, match=f"no held-out pair to recommend: {reason}. Give pairs"):
            ranking(test, 2)


def test_repeated_plays_are_ranked_by_their_new_pairs(fitted, tmp_path):
    """A pair that was fitted is played again: the ranking is that of the pairs that were not."""
    model, train, test = fitted
    again = replace(
        test,
        users=np.append(test.users, train.users),
        items=np.append(test.items, train.items),
        values=np.append(test.values, train.values),
    )
    assert model.ranking(again) == model.ranking(test)
    assert verdict_of(model, again) == verdict_of(model, test)
    for call in (model.ranking, lambda test: model.report(tmp_path / "report.html", test=test)):
        with pytest.raises(ValueError, match="no held-out pair to recommend"):
            call(train)


def made(users: int = 80, items: int = 60) -> Any:
    """Users and items of three kinds: most choices are of the user's own kind, and some items are popular."""
    g = np.random.default_rng(0)
    popular = g.gamma(1.0, size=items)
    same = (np.arange(users)[:, None] - np.arange(items)[None]) % 3 == 0
    u, i = np.nonzero(g.uniform(size=same.shape) < np.where(same, 0.35, 0.05) * np.minimum(popular, 2))
    return Ratings(u, i, np.ones(len(u), np.float32), np.arange(users), np.arange(items))


@pytest.fixture(scope="module")
def fitted() -> Any:
    train, test = made().split(0.25)
    model = fk.models.Factorisation(3, confidence=1.0, passes=60, progress=False)
    return model.fit(train), train, test


def test_items_are_ordered_better_than_by_popularity(fitted, tmp_path):
    model, train, test = fitted
    own = model.ranking(test, count=10)
    popularity = np.bincount(train.items, minlength=60)
    other = ranking_of(lambda user: popularity, train, (test.users, test.items), 10)
    assert own.recall > 1.2 * other.recall
    assert own.ndcg > 1.3 * other.ndcg
    best = model.recommend(4, count=8)
    assert np.mean([r.item % 3 == 1 for r in best]) > 0.7
    assert all(r.interval[0] < r.mean < r.interval[1] for r in best)
    # As if they had been there: someone new with the items of user 4.
    chosen = train.items[train.users == 4]
    scores = model.predict(None, np.arange(60), rated=dict.fromkeys(chosen.tolist(), 1))
    assert np.corrcoef(scores, model.predict(np.full(60, 4), np.arange(60)))[0, 1] > 0.95
    text = model.report(tmp_path / "report.html", test=test, user=4).read_text()
    assert "by popularity" in text
    assert "expected rating" not in text
    model.save(tmp_path / "model.npz")
    again = fk.models.Factorisation.load(tmp_path / "model.npz")
    new = {"rated": {3: 2}, "count": 3}
    assert again.recommend(**new) == model.recommend(**new)
    assert again.ranking(test.users, test.items) == model.ranking(test)


def test_pairs_that_repeat_are_counted():
    model = fk.models.Factorisation(1, confidence=1.0, passes=2, burn_in=0, draws=1, progress=False)
    model.fit(["a", "b", "a", "a"], [1, 1, 2, 1])
    assert sorted(zip(model.ratings_.users.tolist(), model.ratings_.items.tolist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (1, 0),
    ]
    assert model.ratings_.values.tolist() == [2, 1, 1]


def test_what_has_no_meaning_for_counts_is_refused(fitted):
    model, train, test = fitted
    with pytest.raises(ValueError, match=r"confidence=1 is for sampler='gibbs'"):
        fk.models.Factorisation(confidence=1.0, sampler="sgnht")
    with pytest.raises(ValueError, match=r"confidence must be a positive number"):
        fk.models.Factorisation(confidence=0.0)
    with pytest.raises(ValueError, match=r"all above 0; that in place 1 is 0: leave out what was not seen"):
        fk.models.Factorisation(confidence=1.0).fit([1, 2], [1, 2], [1, 0])
    with pytest.raises(TypeError, match=r"with confidence, fit takes a Ratings, or the users and items"):
        fk.models.Factorisation(confidence=1.0).fit([1, 2])
    for call in (
        lambda: model.predict([1], [1], interval=0.9),
        lambda: model.predict([1], [1], return_std=True),
        lambda: model.recommend(1, clip=True),
        lambda: fk.models.Factorisation(confidence=1.0).fit(train, test=test),
    ):
        with pytest.raises(ValueError, match=r"is for ratings: with confidence, predictions are scores"):
            call()
    with pytest.raises(ValueError, match=r"count must be a whole number of at least 1"):
        model.ranking(test, count=0)
    with pytest.raises(ValueError, match=r"no error of ratings: ranking\(test\) has recall"):
        model.score(test)
    with pytest.raises(ValueError, match=r"rated must be above 0; they are \[0\]"):
        model.recommend(rated={3: 0})


def test_few_pairs_of_many_are_no_divergence():
    """The residuals are of all pairs, of which here one in 13,000 was chosen."""
    g, n = np.random.default_rng(0), 20_000
    users, items = np.append(np.arange(n), g.integers(0, n, 10_000)), g.permutation(n)
    items = np.append(items, g.integers(0, n, 10_000))
    model = fk.models.Factorisation(1, confidence=1.0, passes=4, draws=2, progress=False)
    draws = model.fit(users, items).draws_
    assert draws
    assert all(np.all(np.isfinite(draw.users)) for draw in draws)


def test_someone_new_has_zeros_with_the_items_that_were_fitted():
    """And not with those that only have features."""
    chain, _ = small_chain()
    draw = chain.draw()
    more = draw._replace(items=np.concatenate([draw.items, np.ones((3, 3), np.float32)]))
    (wanted,), (found,) = for_new_users([draw], 5), for_new_users([more], 5)
    np.testing.assert_array_equal(
        found.hyperparameters["users"].precision, wanted.hyperparameters["users"].precision
    )
    (other,) = for_new_users([more], 8)
    assert not np.allclose(
        other.hyperparameters["users"].precision, wanted.hyperparameters["users"].precision
    )
