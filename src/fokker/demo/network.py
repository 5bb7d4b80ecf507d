"""`fokker demo network`: what a network does not know, in the plane and on small pictures."""

import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from fokker.demo._console import print_end
from fokker.models.network.estimator import Network
from fokker.models.network.report import judge, log_likelihood_by_draw
from fokker.report.page import image
from fokker.report.plots import RIGHT, WRONG, new_figure, tidy

MOONS, GLYPHS, HELD_OUT = 300, 3000, 500
# Strokes on an 8 × 8 grid: the classes, and shapes of other kinds.
_INSIDE = {"L": "v1 h6", "T": "h1 v4", "+": "h4 v4", "=": "h2 h5", "‖": "v2 v5", "□": "h1 h6 v1 v6"}
_OUTSIDE = {"diagonal": "d", "cross": "d a", "dots": "p"}


def moons(rows: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two half circles that reach into each other, with noise."""
    angle = generator.uniform(0, np.pi, rows)
    label = generator.integers(0, 2, rows)
    sign = 1 - 2 * label
    X = np.c_[np.cos(angle) * sign + label - 0.5, np.sin(angle) * sign + 0.5 * label - 0.25]
    return X * 1.3 + generator.normal(0, 0.15, X.shape), label


def glyphs(
    strokes: dict[str, str], rows: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of 8 × 8 pixels: strokes, shifted by up to one pixel, faint or strong, with noise."""
    names = list(strokes)
    labels = generator.integers(0, len(names), rows)
    pictures = np.zeros((rows, 8, 8))
    for picture, label in zip(pictures, labels, strict=True):
        for stroke in strokes[names[label]].split():
            kind, place = stroke[0], int(stroke[1:] or 0)
            if kind == "h":
                picture[place, 1:7] = 1
            elif kind == "v":
                picture[1:7, place] = 1
            elif kind == "d":
                np.fill_diagonal(picture, 1)
            elif kind == "a":
                np.fill_diagonal(picture[:, ::-1], 1)
            else:
                picture[generator.integers(0, 8, 12), generator.integers(0, 8, 12)] = 1
        picture[:] = np.roll(picture, generator.integers(-1, 2, 2), (0, 1)) * generator.uniform(0.5, 1.5)
    pictures += generator.normal(0, 0.35, pictures.shape)
    return (pictures.reshape(rows, 64) - 0.25) / 0.6, np.asarray(names)[labels]


def run(out: Path, seed: int, console: Console) -> None:
    """Fit both, and write a page with the map of uncertainty and the calibration."""
    start = time.perf_counter()
    generator = np.random.default_rng(seed)
    console.print("[bold]A posterior over the weights of a network[/bold], by SGNHT with minibatches\n")
    X, y = moons(MOONS, generator)
    plane = Network(
        [32], prior=2.0, activation="tanh", batch_size=50, draws=60, calibration=0, random_state=seed
    )
    plane.fit(X, y)
    training, labels = glyphs(_INSIDE, GLYPHS, generator)
    test, test_labels = glyphs(_INSIDE, HELD_OUT, generator)
    other, _ = glyphs(_OUTSIDE, HELD_OUT, generator)
    pictures = Network([30], batch_size=50, calibration=0, random_state=seed).fit(training, labels)
    scores = pictures.evaluate(test, test_labels)
    console.print(str(scores), markup=False)
    console.print(
        f"other shapes are recognised by entropy with AUROC {pictures.out_of_distribution(test, other):.3f}, "
        f"by mutual information {pictures.out_of_distribution(test, other, 'mutual_information'):.3f}"
    )
    verdict, _, _ = judge(pictures, scores, log_likelihood_by_draw(pictures, test, test_labels), test)
    console.print(str(verdict), markup=False, soft_wrap=True)
    path = out / "report.html"
    extra = [
        "<h2>A map of what is not known</h2>",
        "<p>Two classes in the plane, and a network of 32 hidden units. Left: the probability of one class. "
        "Middle: the entropy of the prediction. Right: its part from the weights, the mutual information. It "
        "is small among the data and grows away from them where the boundary could go either way. Far out on "
        "one side of it the network stays certain, though there are no data: a prior over weights does not "
        "prevent that.</p>",
        image(map_figure(plane, X, y), "maps of probability, entropy and mutual information"),
    ]
    pictures.report(path, test, test_labels, other, "A network that knows what it does not know", extra)
    print_end(console, start, path)


def map_figure(net: Network, X: np.ndarray, y: np.ndarray) -> Figure:
    """Probability, entropy and mutual information over the plane, with the data."""
    axis = np.linspace(-5, 5, 90)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    uncertainty = net.uncertainty(grid)
    maps = {
        "probability of class 1": (net.predict_proba(grid)[:, 1], "RdBu"),
        "entropy": (uncertainty.entropy, "viridis"),  # type: ignore[union-attr]
        "mutual information": (uncertainty.mutual_information, "viridis"),  # type: ignore[union-attr]
    }
    figure = new_figure(11.0, 3.6)
    for panel, (name, (values, colours)) in zip(figure.subplots(1, 3), maps.items(), strict=True):
        shown = panel.pcolormesh(axis, axis, values.reshape(90, 90), cmap=colours, shading="nearest")
        figure.colorbar(shown, ax=panel, shrink=0.8)
        for label, colour in ((0, WRONG), (1, RIGHT)):
            panel.scatter(*X[y == label].T, s=4, color=colour, edgecolor="white", linewidth=0.2)
        panel.set_aspect("equal")
        tidy(panel, name)
    return figure
