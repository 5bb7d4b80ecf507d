"""A page about a factorisation: how well it predicts, how sure it is, and what it found."""

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fokker._core.digits import percent
from fokker._core.files import write_text
from fokker.datasets.ratings import Ratings
from fokker.diagnostics import Finding, Grade, Verdict
from fokker.models.factorisation.implicit import Ranking, ranking_of
from fokker.models.factorisation.inputs import row_numbers
from fokker.models.factorisation.predict import Recommendation
from fokker.report.figures import Axis, Figure, Mark
from fokker.report.page import figure_part, html, page, pairs, table, verdict_part

if TYPE_CHECKING:
    from fokker.models.factorisation.estimator import Factorisation

# Probabilities of the intervals whose coverage is shown.
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# The interval that the verdict is about, and an error of its coverage that does no harm.
_LEVEL, _HARMLESS = 0.9, 0.03
# Items on the map, the ones rated most often, and how many characters of their titles it shows.
_ON_MAP, _CHARACTERS = 40, 28


def write_report(model: "Factorisation", path: Path, test: Ratings | None, user: Hashable) -> Path:
    """Write the page, and return its path."""
    ratings, draws = model.ratings_, model._fitted()
    rows = [
        ["fitted to", f"{len(ratings):,} ratings"],
        ["users, items", f"{ratings.num_users:,}, {ratings.num_items:,}"],
        ["factors", str(model.factors)],
        ["sampler", f"{model.sampler}, {model.num_passes} passes, {len(draws)} draws"],
        ["mean rating", f"{model.mean_:.3f}"],
        ["standard deviation of the noise", f"{model.noise_:.3f}"],
    ]
    parts, verdict, tolerated = [], verdict_of(model, test), _tolerated(test)
    checked = (
        "Held-out ratings: the error against that of their mean, and how many of them are in their 90 % "
        f"intervals. Intervals with fewer than {percent(_LEVEL - tolerated, 1)} of the ratings, or more than "
        f"{percent(min(_LEVEL + tolerated, 1), 1)}, would have been reported."
    )
    what = "expected rating"
    if model._confidence is not None:
        what, rows[-2:] = "score", [["confidence", f"{model._confidence:g}"]]
        checked = "Held-out items: whether more of them are recommended than by popularity."
    if model._confidence is not None and test is not None:
        rows += [
            [f"{name} among 20", f"{mine:.3f}, by popularity {theirs:.3f}"]
            for name, mine, theirs in zip(("recall", "NDCG"), *_rankings(model, test), strict=True)
        ]
    elif test is not None:
        rows += [
            ["test RMSE", f"{model.score(test):.4f} on {len(test):,} ratings"],
            ["coverage of 90 % intervals", f"{percent(coverage(model, test, _LEVEL), 1)}"],
        ]
        parts += ["<h2>Intervals on held-out ratings</h2>", figure_part(coverage_figure(model, test))]
    if model.curve_:
        parts += ["<h2>Test error by pass</h2>", figure_part(curve_figure(model))]
    if user is not None:
        best = shown_recommendations(model, user)
        columns: tuple[str, ...] = ("item", "title", what, "90 % interval of it")
        listed = [
            [str(r.item), r.title, f"{r.mean:.2f}", f"{r.interval[0]:.2f} … {r.interval[1]:.2f}"]
            for r in best
        ]
        if not any(r.title for r in best):
            columns, listed = columns[:1] + columns[2:], [row[:1] + row[2:] for row in listed]
        parts += [html("<h2>Recommended to user {{ user }}</h2>", user=user)]
        parts.append(table(columns, listed, "Recommended", sortable=True))
        if model._confidence is None:
            low, high = model.ratings_.range
            parts.append(
                f"<p>Cut off at the range of the ratings, {low:g} to {high:g}; the order is that of "
                "the values before.</p>"
            )
    if model.factors >= 2:
        parts += ["<h2>Items by two factors</h2>", figure_part(map_figure(model))]
    verdict_page = verdict_part(verdict.grade, verdict.problems, checked="" if test is None else checked)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page("Matrix factorisation", verdict_page, pairs(dict(rows), "The fit"), *parts))
    return path


def shown_recommendations(model: "Factorisation", user: Hashable) -> list[Recommendation]:
    """What is recommended to a user, with expected ratings within the range of the ratings.

    Scores of counts have no range. In Python `recommend` leaves this to its argument `clip`.
    """
    return model.recommend(user, clip=model._confidence is None)


def verdict_of(model: "Factorisation", test: Ratings | None) -> Verdict:
    """Whether held-out ratings are predicted better than by the mean, and are within their intervals.

    Of counts, whether held-out items are recommended more often than by popularity.
    """
    if test is None:
        return Verdict.of_problem("nothing was checked: give test=…, ratings that were held out.")
    findings = []
    if model._confidence is not None:
        own, other = _rankings(model, test)
        if own.ndcg <= other.ndcg:
            popular = f"{other.ndcg:.3f}, that of the most popular items for everyone"
            text = f"NDCG, {own.ndcg:.3f}, is not above {popular}."
            findings.append(Finding(Grade.BAD, text))
        return Verdict(tuple(findings))
    score, inside = model.score(test), coverage(model, test, _LEVEL)
    alone = float(np.sqrt(np.mean((test.values - model.mean_) ** 2)))
    if score >= alone:
        text = f"the test RMSE, {score:.3f}, is not below {alone:.3f}, that of the mean rating alone."
        findings.append(Finding(Grade.BAD, text))
    if abs(inside - _LEVEL) > _tolerated(test):
        what = "narrow: take fewer factors, more passes, or more draws" if inside < _LEVEL else "wide"
        text = f"{percent(inside, 1)} of held-out ratings are in their 90 % intervals, which are too {what}."
        findings.append(Finding(Grade.CARE, text))
    return Verdict(tuple(findings))


def _tolerated(test: Ratings | None) -> float:
    """The error of a share in intervals that is not noticed.

    Chance alone exceeds three standard errors in one of 370 fits; of many ratings small errors do no harm.
    """
    number = 1 if test is None else max(len(test), 1)
    return max(_HARMLESS, 3 * float(np.sqrt(_LEVEL * (1 - _LEVEL) / number)))


def _rankings(model: "Factorisation", test: Ratings) -> tuple[Ranking, Ranking]:
    """Recall and NDCG of the model, and of the most popular items for everyone."""
    ratings = model.ratings_
    popularity = np.bincount(ratings.items, minlength=ratings.num_items)
    other = ranking_of(lambda user: popularity, ratings, row_numbers(model._lookups, test), 20)
    return model.ranking(test), other


def coverage(model: "Factorisation", test: Ratings, level: float) -> float:
    """The share of held-out ratings inside their predictive intervals."""
    low, high = model.predict(test, interval=level).interval
    return float(np.mean((test.values >= low) & (test.values <= high)))


def coverage_figure(model: "Factorisation", test: Ratings) -> Figure:
    """The share of ratings inside intervals, against the probability of the intervals."""
    shares = [coverage(model, test, level) for level in LEVELS]
    return Figure(
        "Held-out ratings inside their interval",
        ", ".join(
            f"{percent(share, 1)} of {percent(level)}" for share, level in zip(shares, LEVELS, strict=True)
        )
        + ".",
        [
            Mark("line", "truth", "exact", [0.45, 1], [0.45, 1], dashed=True),
            Mark("line", "chain-0", None, LEVELS, shares),
            Mark("points", "chain-0", "model", LEVELS, shares),
        ],
        Axis("probability of the interval"),
        Axis("share inside"),
    )


def curve_figure(model: "Factorisation") -> Figure:
    """The test error of each state and of the running mean of predictions."""
    now, mean = np.array(model.curve_).T
    passes = np.arange(1, len(now) + 1)
    after = passes > model.num_burn_in
    marks = [Mark("line", "chain-1", "a single draw", passes, now)]
    if after.any():
        marks.append(
            Mark("line", "chain-0", "the mean of all draws so far", passes[after], mean[after], width=2)
        )
    return Figure(
        "Test RMSE", f"{mean[-1]:.4f} at the end.", marks, Axis("pass over the ratings"), Axis("RMSE")
    )


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


def shortened(name: str) -> str:
    """A name as the map shows it: with an ellipsis where it is cut off."""
    return name if len(name) <= _CHARACTERS else f"{name[: _CHARACTERS - 1].rstrip()}…"


def map_figure(model: "Factorisation") -> Figure:
    """The items rated most often, in two coordinates."""
    counts = np.bincount(model.ratings_.items, minlength=model.ratings_.num_items)
    items = np.argsort(-counts, kind="stable")[:_ON_MAP]
    x, y = item_map(model, items).T
    titles, known = model.ratings_.titles, model.ratings_.item_names
    names = [str(known[i]) if titles is None or not titles[i] else str(titles[i]) for i in items]
    return Figure(
        "The items rated most often",
        "Items whose predictions are alike are near each other; zoom in to see the hidden names.",
        [Mark("points", "chain-2", x=x, y=y, text=[shortened(name) for name in names])],
        is_map=True,
    )
