"""A page about a factorisation: how well it predicts, how sure it is, and what it found."""

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from fokker._core.files import write_text
from fokker.datasets.ratings import Ratings
from fokker.report.page import image, page, table
from fokker.report.plots import ACCENT, RIGHT, TRUTH, WRONG, new_figure, tidy

if TYPE_CHECKING:
    from fokker.models.factorisation.estimator import Factorisation

# Probabilities of the intervals whose coverage is shown.
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# Items on the map, the ones rated most often.
_ON_MAP = 40


def write_report(model: "Factorisation", path: Path, test: Ratings | None, user: Hashable) -> Path:
    """Write the page, and return its path."""
    ratings, draws = model.ratings_, model._fitted()
    rows = [
        ["ratings", f"{len(ratings):,}"],
        ["users, items", f"{ratings.num_users:,}, {ratings.num_items:,}"],
        ["factors", str(model.factors)],
        ["sampler", f"{model.sampler}, {model.num_passes} passes, {len(draws)} draws"],
        ["mean rating", f"{model.mean_:.3f}"],
        ["standard deviation of the noise", f"{model.noise_:.3f}"],
    ]
    parts = []
    if test is not None:
        rows += [
            ["test RMSE", f"{model.score(test):.4f} on {len(test):,} ratings"],
            ["coverage of 90 % intervals", f"{coverage(model, test, 0.9):.1%}"],
        ]
        parts += ["<h2>Intervals on held-out ratings</h2>", image(coverage_figure(model, test), "coverage")]
    if model.curve_:
        parts += ["<h2>Test error by pass</h2>", image(curve_figure(model), "test RMSE")]
    if user is not None:
        columns = ("item", "title", "expected rating", "90 % interval of it")
        listed = [
            [str(r.item), r.title, f"{r.mean:.2f}", f"{r.interval[0]:.2f} … {r.interval[1]:.2f}"]
            for r in model.recommend(user)
        ]
        parts += [f"<h2>Recommended to user {user}</h2>", table(columns, listed)]
    if model.factors >= 2:
        parts += ["<h2>Items by two factors</h2>", image(map_figure(model), "map of items")]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page("Matrix factorisation", table(("", ""), rows), *parts))
    return path


def coverage(model: "Factorisation", test: Ratings, level: float) -> float:
    """The share of held-out ratings inside their predictive intervals."""
    low, high = model.predict(test, interval=level).interval
    return float(np.mean((test.values >= low) & (test.values <= high)))


def coverage_figure(model: "Factorisation", test: Ratings) -> Figure:
    """The share of ratings inside intervals, against the probability of the intervals."""
    figure = new_figure(4.5, 3.6)
    panel = figure.subplots()
    panel.plot([0.45, 1], [0.45, 1], color=TRUTH, linewidth=1, label="exact")
    panel.plot(LEVELS, [coverage(model, test, level) for level in LEVELS], "o-", color=RIGHT, label="model")
    tidy(panel, "Held-out ratings inside their interval", "probability of the interval", "share inside")
    panel.legend(frameon=False, fontsize=8)
    return figure


def curve_figure(model: "Factorisation") -> Figure:
    """The test error of each state and of the running mean of predictions."""
    figure = new_figure(7.0, 3.2)
    panel = figure.subplots()
    now, mean = np.array(model.curve_).T
    passes = np.arange(1, len(now) + 1)
    panel.plot(passes, now, color=WRONG, linewidth=1, label="a single draw")
    after = passes > model.num_burn_in
    panel.plot(passes[after], mean[after], color=RIGHT, label="the mean of all draws so far")
    tidy(panel, "Test RMSE", "pass over the ratings")
    panel.legend(frameon=False, fontsize=8)
    return figure


def item_map(model: "Factorisation", items: np.ndarray) -> np.ndarray:
    """Two coordinates for items: the directions in which predictions of all users differ most.

    Factors can be rotated without a change of the predictions, so that their draws cannot be averaged: the
    map is that of the last draw, in the principal axes of U Vᵀ.
    """
    draw = model._fitted()[-1]
    users, factors = draw.users[:, 1:].astype(float), draw.items[:, 1:].astype(float)
    root = np.linalg.cholesky(users.T @ users / len(users) + 1e-9 * np.eye(model.factors))
    centred = factors @ root
    centred = centred - centred[items].mean(0)
    _, _, axes = np.linalg.svd(centred[items], full_matrices=False)
    return centred[items] @ axes[:2].T


def map_figure(model: "Factorisation") -> Figure:
    """The items rated most often, in two coordinates."""
    counts = np.bincount(model.ratings_.items, minlength=model.ratings_.num_items)
    items = np.argsort(-counts, kind="stable")[:_ON_MAP]
    x, y = item_map(model, items).T
    figure = new_figure(9.0, 6.0)
    panel = figure.subplots()
    panel.scatter(x, y, s=14, color=ACCENT)
    titles = model.ratings_.titles
    for i, a, b in zip(items, x, y, strict=True):
        name = str(model.ratings_.item_names[i]) if titles is None or not titles[i] else str(titles[i])
        panel.annotate(name[:28], (a, b), fontsize=7, xytext=(3, 2), textcoords="offset points")
    tidy(panel, "The items rated most often", "first axis of the factors", "second axis")
    return figure
