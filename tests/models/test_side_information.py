"""Features of users and items in a factorisation: exact draws, predictions without ratings, bad tables."""

import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import fokker as fk
from fokker.datasets.ratings import Ratings
from fokker.models.factorisation import minibatches
from fokker.models.factorisation.chain import Draw, FactorChain, GibbsSweep
from fokker.models.factorisation.conditional import draw_rows
from fokker.models.factorisation.features import with_features
from fokker.models.factorisation.hyperparameters import (
    Hyperparameters,
    Noise,
    RowSums,
    draw_hyperparameters,
    equal_noise,
)
from fokker.models.factorisation.minibatches import MinibatchPass, log_likelihood
from fokker.models.factorisation.predict import draw_new_users

# The law of the links --------------------------------------------------------------------------------------


def covariates(rows: int, columns: int, seed: int = 0) -> Any:
    g = np.random.default_rng(seed)
    ratings = Ratings(
        np.arange(rows), np.zeros(rows, int), g.normal(size=rows), np.arange(rows), np.arange(1)
    )
    frame = pd.DataFrame(g.normal(size=(rows, columns)) @ g.normal(size=(columns, columns)))
    return with_features(ratings, frame, None)[1]["users"], frame


@pytest.mark.parametrize("prior", ["normal-wishart", "normal-gamma"])
def test_links_and_their_precision_keep_the_joint_distribution(prior):
    """Geweke's test: rows given the hyperparameters and these given the rows, in turns, keep the prior.

    So λ is Gamma(1, 0.1), λ Σ B_jᵀΛB_j and β₀μᵀΛμ are χ², and the mean of Λ is known. Averages over 4000
    rounds by 40 batches; one false alarm in 10⁵ at 5.5 standard errors of so few batches, for ten numbers.
    """
    n, p, d, rounds = 4, 2, 2, 4000
    (features, x, _), _ = covariates(n, p)
    g = np.random.default_rng(3)
    h = Hyperparameters(np.zeros(d), np.eye(d), np.zeros((p, d)), 10.0)
    drawn = []
    for _ in range(rounds):
        rows = h.draw(g, x)
        deviations = rows - rows.mean(0)
        sums = RowSums(n, rows.mean(0), deviations.T @ deviations, x.T @ deviations, features.squares)
        h = draw_hyperparameters(g, sums, prior, h.link_precision)
        squares = h.link_precision * np.sum(h.link @ h.precision * h.link)
        mean = 2.0 * h.mean @ h.precision @ h.mean
        drawn.append(
            (h.link_precision, squares, chi2.cdf(squares, p * d), mean, np.log(np.diag(h.precision)).sum())
        )
    batches = np.reshape(drawn, (40, -1, 5)).mean(1)
    error = batches.std(0, ddof=1) / np.sqrt(40)
    # E log Λ_jj: a χ² of d degrees over d; or Gamma(1, 0.1).
    logs = 10 * g.chisquare(d, 10**6) / d if prior == "normal-wishart" else g.gamma(1.0, 10.0, 10**6)
    wanted = np.array([10.0, p * d, 0.5, d, d * np.log(logs).mean()])
    assert np.all(np.abs(batches.mean(0) - wanted) < 5.5 * error)
    assert np.all(error[[0, 1, 3]] < 0.1 * wanted[[0, 1, 3]])  # so that a mistake of a half is seen


def test_links_have_the_moments_of_a_regression():
    """E B and E Λ given rows and λ, by the normal equations of columns as they were given."""
    n, p, d, lam, count = 30, 3, 2, 4.0, 4000
    (features, x, _), frame = covariates(n, p)
    g = np.random.default_rng(1)
    rows = x @ g.normal(size=(p, d)) + g.normal(size=(n, d)) + 1
    centred = rows - rows.mean(0)
    sums = RowSums(n, rows.mean(0), centred.T @ centred, x.T @ centred, features.squares)
    draws = [draw_hyperparameters(g, sums, "normal-wishart", lam) for _ in range(count)]
    X = ((frame - frame.mean()) / frame.std(ddof=0)).to_numpy()
    ridge = np.linalg.solve(X.T @ X + lam * np.eye(p), X.T @ centred)
    # Of standardised columns, before their axes were turned.
    links = np.stack([features.axes @ h.link for h in draws])
    assert np.all(np.abs(links.mean(0) - ridge) < 5 * links.std(0) / np.sqrt(count))
    residual = centred.T @ centred - ridge.T @ (X.T @ X + lam * np.eye(p)) @ ridge
    scatter = d / 10 * np.eye(d) + residual + 2 * n / (2 + n) * np.outer(rows.mean(0), rows.mean(0))
    precisions = np.stack([h.precision for h in draws])
    wanted = (d + n) * np.linalg.inv(scatter)
    assert np.all(np.abs(precisions.mean(0) - wanted) < 5 * precisions.std(0) / np.sqrt(count))
    without = (d + n) * np.linalg.inv(scatter + centred.T @ centred - residual)  # the control
    assert np.any(np.abs(precisions.mean(0) - without) > 5 * precisions.std(0) / np.sqrt(count))


class Columns:
    """A generator whose normal numbers are those given, one array after the other, and others their means."""

    def __init__(self, *normals: np.ndarray) -> None:
        self.normals = list(normals)

    def standard_normal(self, shape: Any) -> np.ndarray:
        return np.broadcast_to(self.normals.pop(0), shape)

    def gamma(self, shape: Any, scale: Any, size: Any = None) -> Any:
        return np.broadcast_to(shape * scale, np.shape(shape) if size is None else size)

    def chisquare(self, freedom: Any) -> np.ndarray:
        return np.asarray(freedom, float)


def test_means_and_links_are_drawn_with_the_covariance_of_their_conditional():
    """z in the place of their noise gives Rz, where RRᵀ is the covariance: by unit vectors, without luck."""
    n, p, d, lam = 5, 2, 3, 4.0
    (features, x, _), _ = covariates(n, p)
    g = np.random.default_rng(2)
    rows, below = g.normal(size=(n, d)), g.normal(size=(d, d))
    centred = rows - rows.mean(0)
    sums = RowSums(n, rows.mean(0), centred.T @ centred, x.T @ centred, features.squares)

    def drawn(of_mean: Any, of_links: Any) -> Hyperparameters:
        generator: Any = Columns(below, of_mean, of_links)
        return draw_hyperparameters(generator, sums, "normal-wishart", lam)

    middle, units = drawn(0.0, 0.0), np.eye(d)
    means = np.stack([drawn(z, 0.0).mean for z in units]) - middle.mean
    np.testing.assert_allclose(means.T @ means, np.linalg.inv((2 + n) * middle.precision), rtol=1e-8)
    links = np.stack([drawn(0.0, z).link for z in units]) - middle.link
    for row, square in enumerate(features.squares):
        wanted = np.linalg.inv((square + lam) * middle.precision)
        np.testing.assert_allclose(links[:, row].T @ links[:, row], wanted, rtol=1e-8)


def test_rows_without_ratings_are_drawn_with_the_covariance_and_the_noise_of_their_table():
    g = np.random.default_rng(0)
    ratings, given = with_features(small_ratings(), {i: g.normal(size=2) for i in range(11)}, None)
    chain = FactorChain(small_ratings(), 2, prior="normal-gamma", seed=0, covariates=given)
    h = Hyperparameters(g.normal(size=3), np.diag([1.0, 2.0, 3.0]) + 0.3, g.normal(size=(2, 3)))
    chain.hyperparameters["users"], chain.noise = h, Noise(np.ones(8), 3.0, 6.0)
    generator: Any = Columns(np.eye(3), np.zeros(3))  # of users, of items
    chain.generator_of_new = generator
    draw = chain.draw()
    assert draw.users.shape == (ratings.num_users, 3) == (11, 3)
    root = draw.users[8:] - h.mean - given["users"].new @ h.link
    np.testing.assert_allclose(root.T @ root, np.linalg.inv(h.precision), rtol=1e-5)
    np.testing.assert_allclose(draw.noise.precision, [1.0] * 8 + [0.5] * 3)


class Silent:
    """A generator whose noise is zero: draws are their means."""

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.zeros(shape)

    def gamma(self, shape: Any, scale: Any) -> np.ndarray:
        return shape * scale


def small_ratings(users: int = 8, items: int = 6) -> Ratings:
    g = np.random.default_rng(0)
    u, i = np.nonzero(g.uniform(size=(users, items)) < 0.6)
    return Ratings(u, i, g.normal(size=len(u)), np.arange(users), np.arange(items))


def test_rows_have_the_mean_that_their_features_say():
    """Each row as in a table whose prior mean is that of the row."""
    g = np.random.default_rng(0)
    chain = FactorChain(small_ratings(), 2, prior="normal-gamma", seed=0)
    own = GibbsSweep(chain).ratings["users"]
    prior = Hyperparameters(g.normal(size=3), np.diag([1.0, 2.0, 3.0]) + 0.3)
    shifts, precisions = g.normal(size=(8, 3)), np.full(len(chain.values), 2.0)
    silent: Any = Silent()
    rows = draw_rows(silent, own, chain.tables["items"], prior, precisions, shifts)
    for row, shift in enumerate(shifts):
        moved = prior._replace(mean=prior.mean + shift)
        alone = draw_rows(silent, own, chain.tables["items"], moved, precisions)[row]
        np.testing.assert_allclose(rows[row], alone, rtol=1e-10)
    # Someone new, by the same law: their features move the prior mean of their row.
    link, x = g.normal(size=(2, 3)), np.array([0.5, -1.0])
    tables = (np.zeros((1, 3)), chain.tables["items"])
    new, there = (
        draw_new_users(
            [Draw(*tables, {"users": h, "items": h}, equal_noise(2.0, 1), 0.0, 1.0)],
            np.array([1, 3]),
            np.array([0.4, -0.2]),
            silent,
            x if h.link.size else None,
        )[0]
        for h in (prior._replace(link=link), prior._replace(mean=prior.mean + x @ link))
    )
    np.testing.assert_allclose(new, there, rtol=1e-10)


def test_minibatches_move_rows_without_what_features_add(monkeypatch):
    """A new link leaves the tables where they are; the likelihood of a rating is that of the whole row."""
    monkeypatch.setattr(minibatches, "_pass", lambda inputs, state: state)  # which compiles
    g = np.random.default_rng(0)
    ratings, given = with_features(small_ratings(), {i: g.normal(size=2) for i in range(8)}, None)
    chain = FactorChain(ratings, 2, prior="normal-gamma", seed=0, covariates=given)
    move = MinibatchPass(chain, fk.lazy(fk.samplers.sgld(1e-3)), 8)
    before = {name: x.copy() for name, x in chain.tables.items()}
    for _ in range(2):
        link = g.normal(size=(2, 3))
        chain.hyperparameters["users"] = chain.hyperparameters["users"]._replace(link=link)
        move(chain)
        for name, table in chain.tables.items():
            np.testing.assert_allclose(table, before[name], atol=1e-4)
        position = np.asarray(move.state.position["users"])
        np.testing.assert_allclose(position, before["users"] - given["users"].rows @ link, atol=1e-4)
        data, added = move._target(chain).data, given["users"].rows @ link
        np.testing.assert_allclose(data["shift of users"], added[chain.users], rtol=1e-5)
        assert "shift of items" not in data  # which have no features
    rows = {name: jnp.asarray(g.normal(size=3)) for name in ("users", "items")}
    shift = g.normal(size=3)
    datum = {"rating": 0.3, "precision": 2.0}
    whole = log_likelihood({**rows, "users": rows["users"] + shift}, datum)
    assert log_likelihood(rows, {**datum, "shift of users": shift}) == pytest.approx(float(whole), rel=1e-5)


# What users see --------------------------------------------------------------------------------------------


def made(users: int = 60, items: int = 50, seed: int = 0) -> Any:
    """Ratings that depend on two features of items by known factors; the last ten items have no ratings."""
    g = np.random.default_rng(seed)
    features = pd.DataFrame(
        {"long": g.normal(size=items), "old": g.integers(0, 2, items)}, index=[f"i{j}" for j in range(items)]
    )
    V = features.to_numpy() @ g.normal(size=(2, 3)) + 0.2 * g.normal(size=(items, 3))
    U = g.normal(size=(users, 2))
    truth = 3 + V[:, 0] + U @ V[:, 1:].T + 0.3 * g.normal(size=(users, items))
    u, i = np.nonzero(g.uniform(size=(users, items - 10)) < 0.3)
    return (u, features.index.to_numpy()[i], truth[u, i]), features, truth


@pytest.fixture(scope="module")
def fitted() -> Any:
    ratings, features, truth = made()
    model = fk.models.Factorisation(2, passes=150, progress=False).fit(*ratings, item_features=features)
    return model, features, truth


def test_items_without_ratings_are_predicted_by_their_features(fitted):
    model, features, truth = fitted
    cold = features.index[-10:].to_numpy()
    predictions = model.predict(np.repeat(np.arange(60), 10), np.tile(cold, 60), interval=0.9)
    wanted = truth[:, -10:].ravel()
    error = np.sqrt(np.mean((predictions.mean - wanted) ** 2))
    assert error < 0.6 * wanted.std()
    low, high = predictions.interval
    # Ten items: their errors are common to all users, so that the share varies by more than that of 600.
    assert 0.75 < np.mean((wanted >= low) & (wanted <= high)) <= 1
    assert {r.item for r in model.recommend(3, count=50)} >= set(cold)


def test_an_item_of_a_new_kind_has_a_wider_interval():
    """The column of the kind is 0 for all items with ratings: what it adds is not known."""
    ratings, features, _ = made()
    features = features.assign(kind=np.where(features.index == "i49", 1.0, 0.0))
    features.loc["i49"] = [*features.loc["i48"].iloc[:2], 1.0]
    model = fk.models.Factorisation(2, passes=60, progress=False).fit(*ratings, item_features=features)
    known, new = model.predict([3, 3], ["i48", "i49"], return_std=True).std
    assert new > 1.1 * known


def test_a_column_that_is_the_same_for_all_with_ratings_is_scaled_by_all_rows():
    """Also where its mean is rounded: the deviation of six times 0.1 is 1e-17."""
    column = np.array([0.1] * 6 + [0.1 + 1e-16, 1.1])
    frame = pd.DataFrame({"kind": column, "x": np.arange(8.0)})
    ratings = Ratings(np.zeros(7, int), np.arange(7), np.arange(7.0), np.arange(1), np.arange(7))
    items = with_features(ratings, None, frame)[1]["items"]
    np.testing.assert_allclose(items.features.scale, [column.std(), 2.0])
    np.testing.assert_allclose(items.rows.mean(0), 0, atol=1e-12)
    assert np.abs(items.new).max() < 4


def test_a_row_without_ratings_has_the_prior_of_its_features(fitted):
    model, features, _ = fitted
    place = model.ratings_.item_names.tolist().index("i49")
    x = model.features_["items"].coordinates(features.loc[["i49"]].to_numpy(float))[0]
    z = []
    for draw in model.draws_:
        h = draw.hyperparameters["items"]
        deviation = draw.items[place] - h.mean - x @ h.link
        z.append(deviation @ h.precision @ deviation)
    # χ² of 3: the mean of 50 within 5 standard errors.
    assert abs(np.mean(z) - 3) < 5 * np.sqrt(6 / len(z))


@pytest.mark.slow
def test_minibatches_with_features_predict_as_exact_draws_do(fitted):
    model, features, _ = fitted
    settings: dict[str, Any] = {"sampler": "sgnht", "batch_size": 100, "passes": 200, "progress": False}
    other = fk.models.Factorisation(2, **settings).fit(*made()[0], item_features=features)
    pairs = np.repeat(np.arange(60), 50), np.tile(features.index.to_numpy(), 60)
    exact, drawn = (m.predict(*pairs, return_std=True) for m in (model, other))
    assert np.sqrt(np.mean((exact.mean - drawn.mean) ** 2)) < 0.3 * np.mean(exact.std)
    np.testing.assert_allclose(drawn.std.mean(), exact.std.mean(), rtol=0.1)


def test_someone_new_is_predicted_by_features():
    (u, i, r), features, truth = made()
    model = fk.models.Factorisation(2, passes=60, progress=False)
    model.fit(i, u, r, user_features=features)  # items are the users here
    error = {}
    for known in (True, False):
        rows = [features.iloc[j].to_dict() if known else None for j in range(40, 50)]
        means = [model.predict(None, np.arange(60), rated={}, features=row) for row in rows]
        error[known] = np.sqrt(np.mean((np.array(means) - truth[:, 40:].T) ** 2))
    assert error[True] < 0.7 * error[False]
    row = features.iloc[45]
    best = model.recommend(features=row.tolist(), count=3)
    assert best == model.recommend(rated={}, features=row.to_dict(), count=3)
    with pytest.raises(ValueError, match=r"features has no 'old': give long, old"):
        model.predict(None, [1], features={"long": 1.0})
    with pytest.raises(ValueError, match=r"a finite number for each of long, old"):
        model.predict(None, [1], features=[1.0, np.nan])
    with pytest.raises(ValueError, match=r"features are for someone new: give None as the user"):
        model.predict("i1", [1], features=[1.0, 0.0])


def test_rows_without_ratings_are_the_same_where_a_test_error_is_followed():
    """Which draws are stored, and all that is in them, has nothing to do with `test`."""
    (u, i, r), features, _ = made()
    ratings = Ratings.from_identifiers(u, i, r)
    users = {j: [float(j % 3)] for j in range(61)}  # 60 has no ratings, nor have some of the items

    def drawn(**given: Any) -> Any:
        model = fk.models.Factorisation(2, passes=30, draws=5, progress=False)
        return model.fit(ratings, user_features=users, item_features=features, **given)

    one, other = drawn(), drawn(test=ratings)
    assert len(other.curve_) == 30
    for mine, theirs in zip(one.draws_, other.draws_, strict=True):
        for name in ("users", "items"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
        np.testing.assert_array_equal(mine.noise.precision, theirs.noise.precision)
    assert len(one.draws_[0].users) == len(one.draws_[0].noise.precision) == 61


def test_a_model_with_features_is_stored(fitted, tmp_path):
    model = fitted[0]
    model.save(tmp_path / "model.npz")
    for again in (fk.models.Factorisation.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(
            again.predict([3, 3], ["i1", "i49"]), model.predict([3, 3], ["i1", "i49"])
        )
        assert again.features_["items"].columns == ("long", "old")
        np.testing.assert_array_equal(again.features_["items"].axes, model.features_["items"].axes)
        np.testing.assert_array_equal(
            again.draws_[-1].hyperparameters["items"].link, model.draws_[-1].hyperparameters["items"].link
        )
        assert again.features_["users"].columns == ()
    # A file of before there were features.
    header, arrays = model._fitted_state()
    for name in [name for name in arrays if "link" in name or name.startswith("features.")]:
        del arrays[name]
    again._restore(header, arrays)
    assert np.isfinite(again.predict(None, ["i1"], rated={"i2": 3.0})).all()
    with pytest.raises(ValueError, match=r"features was given, and the model was fitted without"):
        again.predict(None, ["i1"], features=[1.0])


FRAME = pd.DataFrame({"a": [1.0, 2, 3], "b": [0, 1, 1]}, index=[1, 2, 3])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (FRAME.loc[[1, 3]], r"item_features has no row for item 2 of the ratings: add it"),
        (FRAME.loc[[3]], r"no row for item 1 of the ratings, nor for 1 more: add it"),
        (FRAME.set_axis(["1", "2", "3"]), r"no row for item 1.* Its identifiers are like '1'"),
        (
            FRAME.assign(a=[1.0, np.nan, 2]),
            r"the column 'a' of item_features has 1 missing .* first of item 2",
        ),
        (FRAME.assign(a=[1.0, np.inf, 2]), r"the column 'a' of item_features has 1 missing or infinite"),
        (
            FRAME.assign(a=5.0),
            r"the column 'a' of item_features has the same value in all rows.*: leave out a",
        ),
        (
            FRAME.assign(b=["x", "y", "x"]),
            r"the column 'b' of item_features holds 'x', not a number: .*get_dummies",
        ),
        (pd.concat([FRAME, FRAME]), r"item_features has more than one row for 1: keep one"),
        (
            FRAME.set_axis(["a", "a"], axis=1),
            r"item_features has more than one column 'a': keep one, or rename",
        ),
        (FRAME * 1e-200, r"the column 'a' of item_features has the same value in all rows"),
        (FRAME.to_numpy(), r"item_features must be a pandas.DataFrame whose index .* ndarray was given"),
        (
            pd.DataFrame({"a": [0.1] * 3, "b": [0, 1, 1]}, index=[1, 2, 3]),
            r"the column 'a' of item_features has the same value in all rows",
        ),
        (FRAME[[]], r"item_features has 3 rows and 0 columns: it is empty"),
    ],
)
def test_tables_of_features_that_cannot_be_used_are_refused(features, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fk.models.Factorisation(1, passes=2).fit([1, 1, 2], [1, 2, 1], [1.0, 2, 3], item_features=features)


@pytest.mark.parametrize(
    ("known", "new", "wrong"),
    [
        (["1", "2"], [2], "2, .* such as '1', and would become '2' there"),
        (["1", "2"], ["a", 3], "3, .* such as '1', and would become '3' there"),
        ([1, 2], [5.0, 3.5], "3.5, .* such as 1, and would become 3 there"),
        ([1, 2], ["x"], "'x', .* such as 1: give"),
        ([1, 2], [2**70], f"{2**70}, .* such as 1: give"),
        ([1.5, 2.5], ["x"], "'x', .* such as 1.5: give"),
    ],
)
def test_new_identifiers_that_would_become_others_are_refused(known, new, wrong):
    """As a text "2" of a number 2, which would then be a second item "2"."""
    ratings = Ratings.from_identifiers(np.zeros(2, int), np.array(known), np.arange(2.0))
    features = {name: [float(place), 1.0 - place**2] for place, name in enumerate(known + new)}
    with pytest.raises(ValueError, match=f"item_features has a row for item {wrong}.* of one type"):
        with_features(ratings, None, features)


def test_new_identifiers_are_stored_as_they_are_given():
    for known, new in ((["a", "b"], ["longer", "c"]), ([1, 2], [5.0, 7]), ([1.5, 2.5], [4])):
        ratings = Ratings.from_identifiers(np.zeros(2, int), np.array(known), np.arange(2.0))
        features = {name: [float(place), 1.0 - place**2] for place, name in enumerate(known + new)}
        assert with_features(ratings, None, features)[0].item_names.tolist() == known + new
