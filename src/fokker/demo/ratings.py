"""`fokker demo ratings`: who would like what, and how sure one can be, from ratings with known factors."""

import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from fokker._core.digits import percent
from fokker._core.files import write_text
from fokker.datasets.ratings import Ratings
from fokker.demo._console import print_end, print_table
from fokker.models.factorisation.estimator import Factorisation
from fokker.models.factorisation.report import LEVELS, coverage, coverage_figure, map_figure
from fokker.report.page import figure_part, image, page, table
from fokker.report.plots import RIGHT, TRUTH, new_figure, tidy

USERS, ITEMS, FACTORS, SHARE = 400, 150, 3, 0.15
NOISE, PASSES, DRAWS = 0.5, 300, 50
# Items are books of four kinds: those of a kind have similar factors.
KINDS = ("crime", "poetry", "travel", "science")


def make_ratings(seed: int) -> tuple[Ratings, np.ndarray]:
    """Ratings of books by readers from known factors, and the expected ratings of all pairs."""
    generator = np.random.default_rng(seed)
    kind = np.arange(ITEMS) % len(KINDS)
    centres = generator.normal(size=(len(KINDS), FACTORS))
    items = 0.8 * centres[kind] + 0.3 * generator.normal(size=(ITEMS, FACTORS))
    users = 0.6 * generator.normal(size=(USERS, FACTORS))
    biases = 0.3 * generator.normal(size=USERS)[:, None] + 0.4 * generator.normal(size=ITEMS)[None, :]
    truth = 3.5 + biases + users @ items.T
    u, i = np.nonzero(generator.uniform(size=truth.shape) < SHARE)
    values = truth[u, i] + NOISE * generator.normal(size=len(u))
    titles = np.array([f"{KINDS[k]} {number // len(KINDS) + 1}" for number, k in enumerate(kind)])
    ratings = Ratings(
        u.astype(np.int32),
        i.astype(np.int32),
        values.astype(np.float32),
        np.arange(USERS),
        np.arange(ITEMS),
        titles,
    )
    return ratings, truth


def run(out: Path, seed: int, console: Console) -> None:
    """Fit the model to four fifths of the ratings, and compare it with the truth and the rest."""
    start = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    ratings, truth = make_ratings(seed)
    train, test = ratings.split(0.2, seed=seed)
    console.print(
        f"[bold]Ratings[/bold]: {len(ratings):,} of {ITEMS} books by {USERS} readers, made from {FACTORS} "
        f"known factors with noise of {NOISE}"
    )
    model = Factorisation(FACTORS, passes=PASSES, draws=DRAWS, random_state=seed).fit(train, test=test)
    everything = model.predict(np.repeat(np.arange(USERS), ITEMS), np.tile(np.arange(ITEMS), USERS))
    error = float(np.sqrt(np.mean((everything - truth.ravel()) ** 2)))
    spread = float(truth.std())
    compared = ("", "model", "truth, or best possible")
    rows = [
        ["test RMSE", f"{model.score(test):.3f}", f"{_best(truth, test):.3f}"],
        ["RMSE of expected ratings, all pairs", f"{error:.3f}", f"0 (they spread by {spread:.2f})"],
        ["noise", f"{model.noise_:.3f}", f"{NOISE:.3f}"],
        *(
            [f"coverage of {percent(p)} intervals", f"{coverage(model, test, p):.3f}", f"{p:.3f}"]
            for p in LEVELS
        ),
    ]
    print_table(console, "Against the truth", compared, rows)
    reader = int(np.argmax(np.bincount(train.users)))
    columns = ("book", "expected rating", "90 % interval of it", "truth")
    listed = [
        [
            r.title,
            f"{r.mean:.2f}",
            f"{r.interval[0]:.2f} … {r.interval[1]:.2f}",
            f"{truth[reader, r.item]:.2f}",
        ]
        for r in model.recommend(reader)
    ]
    print_table(console, f"Recommended to reader {reader}", columns, listed)
    path = out / "report.html"
    parts = [
        table(compared, rows),
        "<h2>Recovered and true ratings</h2>",
        image(_recovered(truth, everything), "recovered against true ratings"),
        "<h2>Calibration</h2>",
        figure_part(coverage_figure(model, test)),
        f"<h2>Recommended to reader {reader}</h2>",
        table(columns, listed, "Recommended", sortable=True),
        "<h2>Books by two factors</h2>",
        figure_part(map_figure(model)),
    ]
    write_text(path, page("Ratings from known factors", *parts))
    print_end(console, start, path)


def _best(truth: np.ndarray, test: Ratings) -> float:
    """The test error of someone who knows the expected ratings."""
    return float(np.sqrt(np.mean((truth[test.users, test.items] - test.values) ** 2)))


def _recovered(truth: np.ndarray, predicted: np.ndarray) -> Figure:
    figure = new_figure(4.8, 4.4)
    panel = figure.subplots()
    panel.hexbin(truth.ravel(), predicted, gridsize=45, mincnt=1, cmap="Blues", bins="log")
    ends = [float(truth.min()), float(truth.max())]
    panel.plot(ends, ends, color=TRUTH, linewidth=1)
    # The mean of the truth where the model predicts a value: on the line for a calibrated model.
    edges = np.quantile(predicted, np.linspace(0, 1, 16))
    places = np.clip(np.digitize(predicted, edges) - 1, 0, 14)
    means = [
        (truth.ravel()[places == k].mean(), predicted[places == k].mean())
        for k in range(15)
        if np.any(places == k)
    ]
    panel.plot(*np.array(means).T, "o", color=RIGHT, markersize=4, label="mean truth for equal predictions")
    tidy(panel, "Expected ratings of all pairs", "truth", "posterior mean")
    panel.legend(frameon=False, fontsize=8)
    return figure
