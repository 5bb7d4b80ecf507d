"""The figure in which a chain is shown, and all that moves in it."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon

from fokker.lab.animation._chain_view import Backdrop, ChainView, Trajectory
from fokker.lab.animation._frames import OKABE_ITO, Frame, Stage
from fokker.report.plots import ACCENT, RIGHT, TRUTH, WRONG

# A colour and a marker for each doubling of a tree.
DOUBLINGS = tuple(zip(OKABE_ITO, "os^DvPXh", strict=True))
WIDTH, HEIGHT, DPI = 640, 360, 100
# Steps that the tail shows.
TAIL = 24
_BINS = 40
_SMALL = 7.0
_LABEL: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}


def draw_backdrop(axes: Axes, backdrop: Backdrop) -> None:
    """The density in light greys; of one coordinate as bands across the panel."""
    if len(backdrop.box) == 2:
        x, y, density = backdrop.grid
    else:
        x, y = backdrop.grid[0], np.array([0.0, 1.0])
        density = np.repeat(backdrop.grid[1][:, None], 2, axis=1)
    # Evenly spaced in the logarithm, so that tails are seen too.
    levels = np.exp(-np.array([8.0, 6.0, 4.5, 3.0, 2.0, 1.0, 0.4, 0.0]))
    shades = [str(0.965 - 0.035 * i) for i in range(len(levels) - 1)]
    axes.contourf(x, y, density.T, levels=levels, colors=shades)
    axes.set_xlim(backdrop.box[0])


def _plain(axes: Axes, size: float = _SMALL) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=size - 0.5, length=2, pad=1.5)


class Scene:
    """The figure of one chain, and the artists that move on it."""

    def __init__(self, backdrop: Backdrop, chain: ChainView) -> None:
        self.backdrop, self.chain = backdrop, chain
        self.flat = len(backdrop.box) == 1
        figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor="white")
        rows, beside = len(chain.series), len(backdrop.marginals)
        below = 0.17 * rows
        top, bottom = 0.86, 0.075 + below + (0.055 if rows else 0.0)
        self.main = figure.add_axes((0.065, bottom, 0.545, top - bottom))
        figure.text(0.065, 0.945, f"{chain.title} on {backdrop.title}", fontsize=10.5, weight="bold")
        figure.text(0.065, 0.895, chain.line, fontsize=_SMALL, color="#555555")
        self.count = figure.text(0.985, 0.945, "", fontsize=9, ha="right", color=RIGHT)
        figure.text(0.985, 0.895, "▮ sampled", fontsize=_SMALL, ha="right", color=RIGHT)
        figure.text(0.865, 0.895, "━ exact", fontsize=_SMALL, ha="right", color=TRUTH)
        if chain.proposals is not None:
            figure.text(0.79, 0.895, "× rejected", fontsize=_SMALL, ha="right", color=WRONG)
        draw_backdrop(self.main, backdrop)
        _plain(self.main)
        if self.flat:
            self.main.set(ylim=(0, 1), yticks=[])
            self.main.set_ylabel(f"the last {TAIL} steps, newest below", fontsize=_SMALL)
        else:
            self.main.set_ylim(backdrop.box[1])
        self._make_moving(figure, bottom, top, beside, rows)
        self.stamped = 0
        self.stage = Stage(figure, self.moving)

    def _make_moving(self, figure: Figure, bottom: float, top: float, beside: int, rows: int) -> None:
        main = self.main
        self.tail = LineCollection([], linewidths=1.5, capstyle="round")
        self.offers = LineCollection([], linewidths=0.8, linestyles=":", colors=WRONG)
        main.add_collection(self.tail, autolim=False)
        main.add_collection(self.offers, autolim=False)
        (self.dots,) = main.plot([], [], "o", color=RIGHT, alpha=0.35, markersize=1.8, markeredgewidth=0)
        (self.crosses,) = main.plot([], [], "x", color=WRONG, markersize=5, markeredgewidth=1.3)
        (self.thread,) = main.plot([], [], "-", color="#777777", linewidth=0.8)
        self.visited = [
            main.plot(
                [], [], marker, markersize=5.5, markerfacecolor="white", markeredgecolor=colour, ls="none"
            )[0]
            for colour, marker in DOUBLINGS
        ]
        (self.point,) = main.plot([], [], "o", color=RIGHT, markersize=6.5, markeredgecolor="white")
        (self.chosen,) = main.plot([], [], "*", color=ACCENT, markersize=13, markeredgecolor="white")
        self.histograms = self._marginal_panels(figure, beside, bottom, top)
        self.lines = self._series_panels(figure, rows)
        self.moving: list[Any] = [
            *self.histograms,
            self.tail,
            self.offers,
            self.crosses,
            self.thread,
            *self.visited,
            self.point,
            self.chosen,
            *self.lines,
            self.count,
        ]

    def _marginal_panels(self, figure: Figure, beside: int, bottom: float, top: float) -> list[Polygon]:
        """The exact curves, and histograms that stay inside their panels."""
        polygons = []
        self.edges = []
        gap = 0.085
        height = (top - bottom - gap * (beside - 1)) / beside
        for i, (x, density) in enumerate(self.backdrop.marginals):
            axes = figure.add_axes((0.665, top - (i + 1) * height - i * gap, 0.315, height))
            low, high = self.backdrop.box[i]
            axes.plot(x, density, color=TRUTH, linewidth=1.4)
            axes.set(xlim=(low, high), ylim=(0, 1.45 * float(density.max())), yticks=[])
            _plain(axes)
            axes.spines["left"].set_visible(False)
            name = "θ" if self.flat else "θ₁θ₂"[2 * i : 2 * i + 2]
            axes.text(0.01, 0.97, name, transform=axes.transAxes, fontsize=9, va="top")
            polygon = Polygon(np.zeros((3, 2)), facecolor=to_rgba(RIGHT, 0.28), edgecolor=RIGHT, lw=0.9)
            axes.add_patch(polygon)
            polygons.append(polygon)
            self.edges.append(np.linspace(low, high, _BINS + 1))
        return polygons

    def _series_panels(self, figure: Figure, rows: int) -> list[Line2D]:
        lines = []
        for i, series in enumerate(self.chain.series):
            axes = figure.add_axes((0.065, 0.075 + 0.17 * (rows - 1 - i), 0.92, 0.13))
            axes.set(xlim=(1, len(series.values)), ylim=series.range())
            # As time runs in the animation: the first steps one by one, then faster.
            axes.set_xscale("log")
            if series.reference is not None:
                axes.axhline(series.reference, color=TRUTH, linewidth=0.9, linestyle="--")
            axes.text(
                0.006, 0.95, series.name, transform=axes.transAxes, fontsize=_SMALL, va="top", bbox=_LABEL
            )
            _plain(axes)
            if i < rows - 1:
                axes.set_xticklabels([])
            lines += axes.plot([], [], color=RIGHT, linewidth=1.0)
        return lines

    def _place(self, points: np.ndarray, ages: Any = 0.0) -> np.ndarray:
        """Where points are drawn; with one coordinate, the newest at the bottom and older ones above."""
        if not self.flat:
            return points[:, :2]
        return np.column_stack([points[:, 0], np.broadcast_to(0.06 + ages / (TAIL + 2), len(points))])

    def at(self, done: int) -> Frame:
        """The frame after so many steps."""
        chain = self.chain
        self.count.set_text(f"{done:,} draws")
        first = max(0, done - TAIL)
        ages = np.arange(done - first - 1, -1, -1.0)
        recent = self._place(chain.positions[first:done], ages)
        self.tail.set_segments(list(np.stack([recent[:-1], recent[1:]], axis=1)))
        self.tail.set_color([to_rgba(RIGHT, 0.95 * 0.88**age) for age in ages[1:]])
        self.point.set_data(*recent[-1:].T)
        if chain.proposals is not None and chain.accepted is not None:
            refused = ~np.asarray(chain.accepted[first:done], bool)
            offered = self._place(chain.proposals[first:done], ages)
            self.crosses.set_data(*offered[refused].T)
            self.offers.set_segments(list(np.stack([recent[refused], offered[refused]], axis=1)))
        if not self.flat:
            self._stamp(done)
        self._grow(done)
        return self.stage.frame()

    def _stamp(self, done: int) -> None:
        """The new points join the sample for good, at most a few hundred of them per frame."""
        new = self.chain.positions[self.stamped : done]
        self.dots.set_data(*new[:: max(1, len(new) // 400)].T)
        self.stage.stamp([self.dots])
        self.stamped = done
        # The dots have been drawn: they do not move.
        self.dots.set_data([], [])

    def _grow(self, done: int) -> None:
        for i, (polygon, edges) in enumerate(zip(self.histograms, self.edges, strict=True)):
            counts = np.histogram(self.chain.positions[:done, i], edges)[0]
            heights = np.repeat(counts / (done * (edges[1] - edges[0])), 2)
            outline = np.column_stack([np.repeat(edges, 2)[1:-1], heights])
            polygon.set_xy(np.concatenate([[[edges[0], 0.0]], outline, [[edges[-1], 0.0]]]))
        for line, series in zip(self.lines, self.chain.series, strict=True):
            # No more points than pixels.
            shown = np.unique(np.geomspace(1, done, min(done, 500)).astype(int))
            line.set_data(shown, series.values[shown - 1])

    def hide_trajectory(self) -> None:
        """Remove the trajectory from the figure."""
        for artist in (self.thread, *self.visited, self.chosen):
            artist.set_data([], [])

    def trajectory_frames(self, trajectory: Trajectory, frames: int) -> list[Frame]:
        """Frames of the points in the order visited, and of the chosen point at the end."""
        points = self._place(trajectory.points)
        depth = np.zeros(len(points), int) if trajectory.depth is None else trajectory.depth.astype(int)
        self.hide_trajectory()
        self.point.set_data(*points[:1].T)
        # Many points would cover each other.
        for artist in self.visited:
            artist.set_markersize(float(np.clip(5.5 * (24 / len(points)) ** 0.5, 2.5, 5.5)))
        pictures = []
        for seen in np.unique(np.round(np.linspace(1, len(points), frames - 1)).astype(int)):
            for k, artist in enumerate(self.visited):
                mine = points[:seen][depth[:seen] % len(DOUBLINGS) == k]
                artist.set_data(*mine.T)
            self.thread.set_data(*_in_order(points[:seen], trajectory, seen).T)
            grown = f"doubling {depth[seen - 1]}" if trajectory.depth is not None else "leapfrog"
            self.count.set_text(f"{grown}, {seen:,} points")
            pictures.append(self.stage.frame())
        self.chosen.set_data(*points[[trajectory.chosen]].T)
        stays = "rejected: stays" if trajectory.depth is None else "the start is chosen"
        self.count.set_text("★ chosen" if trajectory.accepted else stays)
        pictures.append(self.stage.frame())
        return pictures + [pictures[-1]] * (frames - len(pictures))


def _in_order(points: np.ndarray, trajectory: Trajectory, seen: int) -> np.ndarray:
    """The points of a tree in the order of time: first those backwards in time, reversed."""
    if trajectory.direction is None:
        return points
    forwards = trajectory.direction[:seen] >= 0
    return np.concatenate([points[~forwards][::-1], points[forwards]])
