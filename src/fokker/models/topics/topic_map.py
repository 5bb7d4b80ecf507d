"""A map of the topics: a numbered circle for each, and a list of what the numbers mean below it."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from fokker.models.topics.results import Topic, by_prevalence, embed_in_plane
from fokker.report.plots import RIGHT, TRUTH, new_figure

# The map and a row of the list, in inches: as wide as the page, so that the text is not made smaller. And the
# columns of the list.
_WIDTH, _HEIGHT, _ROW, _COLUMNS = 9.0, 6.0, 0.16, 3
# The words of a topic in the list, and the characters of its row.
_WORDS, _CHARACTERS = 4, 42
# Font sizes of the numbers and of the list, in points; the least distance between two numbers, in inches.
_NUMBER_SIZE, _LIST_SIZE, _DISTANCE = 7.0, 7.0, 0.2
_MARGIN = 0.3
# The area of a circle of a topic that has all words, and of one that has none, in points².
_LARGEST, _SMALLEST = 9_000.0, 12.0
_ITERATIONS = 300


def map_figure(topics: Sequence[Topic], distances: np.ndarray) -> Figure:
    """The topics in the plane, by the distances between them (K, K), and all of them in a list.

    A circle is at its place, and its area is the prevalence. Its number is moved where others are in the way,
    with a line to the circle.
    """
    rows = -(-len(topics) // _COLUMNS)
    list_height = _ROW * (rows + 1)
    height = _HEIGHT + list_height
    figure = new_figure(_WIDTH, height)
    figure.set_layout_engine("none")
    size = (_WIDTH, _HEIGHT)
    share = list_height / height
    panel = figure.add_axes((0, share, 1, 1 - share), xlim=(0, _WIDTH), ylim=(0, _HEIGHT))
    legend = figure.add_axes((0, 0, 1, share), xlim=(0, _WIDTH), ylim=(0, list_height))
    points = fit(embed_in_plane(distances), size, _MARGIN)
    numbers = spread(points, _DISTANCE, size)
    areas = [_LARGEST * topic.prevalence + _SMALLEST for topic in topics]
    panel.scatter(points[:, 0], points[:, 1], s=areas, color=RIGHT, alpha=0.25, edgecolor=RIGHT, zorder=1)
    for point, number, topic in zip(points, numbers, topics, strict=True):
        if np.hypot(*(point - number)) > _DISTANCE / 2:
            panel.plot(*np.stack([point, number]).T, color=TRUTH, linewidth=0.4, alpha=0.6, zorder=2)
        panel.annotate(
            str(topic.number),
            number,
            fontsize=_NUMBER_SIZE,
            ha="center",
            va="center",
            zorder=3,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.7},
        )
    for place, topic in enumerate(by_prevalence(topics)):
        column, row = divmod(place, rows)
        x, y = _WIDTH / _COLUMNS * column, list_height - _ROW * row
        legend.text(x + 0.25, y, str(topic.number), fontsize=_LIST_SIZE, ha="right", va="top", weight="bold")
        legend.text(x + 0.32, y, _row(topic), fontsize=_LIST_SIZE, va="top")
    for axes in (panel, legend):
        axes.set_axis_off()  # only the distances have a meaning
    return figure


def _row(topic: Topic) -> str:
    """The name, if it has one, the prevalence and the first words, as many as fit."""
    name = "" if topic.label == str(topic.number) else f"{topic.label}: "
    text = f"{name}{topic.prevalence:.1%}  {' '.join(topic.words[:_WORDS])}"
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"


def fit(points: np.ndarray, size: tuple[float, float], margin: float) -> np.ndarray:
    """Points (n, 2) moved and scaled, equally in both directions, into a box of this size with a margin."""
    low, high = points.min(0), points.max(0)
    free = np.array(size) - 2 * margin
    scale = np.min(free / np.maximum(high - low, 1e-9 * max(1.0, float(np.max(np.abs(points))))))
    # One topic, or topics that are all alike, are in the middle.
    scale = scale if np.any(high > low) else 0.0
    return np.asarray(np.array(size) / 2 + scale * (points - (low + high) / 2))


def spread(points: np.ndarray, distance: float, size: tuple[float, float]) -> np.ndarray:
    """Points (n, 2) near the given ones and in the box of this size, at least `distance` from each other.

    Pairs that are too close are pushed apart until there is none, or for a limited number of times.
    """
    # A regular pattern, so that points at the same place have a direction in which to part.
    angles = np.arange(len(points)) * np.pi * (3 - np.sqrt(5))
    moved = points + 1e-3 * distance * np.stack([np.cos(angles), np.sin(angles)], 1)
    for _ in range(_ITERATIONS):
        offsets = moved[:, None] - moved[None]
        lengths = np.hypot(offsets[..., 0], offsets[..., 1]) + np.eye(len(points)) * 2 * distance
        missing = np.maximum(distance - lengths, 0)
        if not np.any(missing > 1e-6):
            break
        moved += np.einsum("ij,ijc->ic", 0.55 * missing / lengths, offsets)
        moved = np.clip(moved, distance / 2, np.array(size) - distance / 2)
    return moved
