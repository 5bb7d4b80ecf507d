"""The target on a grid: the window that shows its mass, and its share of each cell."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fokker.studio.formulas import Node
from fokker.studio.formulas.values import value

# Cells per side of the histogram, and points per side of a cell.
CELLS, WITHIN = 48, 4
# The window has the points where U/T is less than this above its minimum.
_DEPTH = 9.0
_WIDEST = 64.0


@dataclass(frozen=True)
class Truth:
    """The window, the share of the target in each cell (x first), and the share outside of the window.

    `is_bounded`: whether the density is small at the edges of everything that was looked at.
    """

    box: tuple[float, float, float, float]
    cells: np.ndarray
    outside: float
    is_bounded: bool

    def histogram(self, points: np.ndarray) -> np.ndarray:
        """How many points are in each cell; those that are not finite or outside are in none."""
        left, right, bottom, top = self.box
        inside = points[np.all(np.isfinite(points), axis=-1)]
        counts, _, _ = np.histogram2d(inside[:, 0], inside[:, 1], CELLS, [[left, right], [bottom, top]])
        return counts

    def divergence(self, counts: np.ndarray, number: int) -> float:
        """KL(draws ‖ target) over the cells and one more for the rest of the plane, in nats."""
        shares = np.append(counts.ravel() / number, max(number - counts.sum(), 0.0) / number)
        exact = np.maximum(np.append(self.cells.ravel(), self.outside), 1e-12)
        used = shares > 0
        return float(np.sum(shares[used] * np.log(shares[used] / exact[used])))


def _on_grid(potential: Node, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    X, Y = np.meshgrid(x, y, indexing="ij")
    with np.errstate(all="ignore"):
        U = np.broadcast_to(np.asarray(value(potential, {"x": X, "y": Y}), float), X.shape)
    return np.where(np.isnan(U), np.inf, U)


def _fit(potential: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[tuple[float, ...], bool]:
    """Zoom in on the points of low energy, three times."""
    box, is_bounded = (-_WIDEST, _WIDEST, -_WIDEST, _WIDEST), True
    for zoom in range(4):
        x, y = np.linspace(box[0], box[1], 241), np.linspace(box[2], box[3], 241)
        U = potential(x, y)
        if not np.any(np.isfinite(U)):
            return (-4.0, 4.0, -4.0, 4.0), False
        low = np.min(U[np.isfinite(U)]) + _DEPTH >= U
        if zoom == 0:
            edges = [low[0], low[-1], low[:, 0], low[:, -1]]
            is_bounded = not any(np.any(edge) for edge in edges)
        columns, rows = np.flatnonzero(low.any(axis=1)), np.flatnonzero(low.any(axis=0))
        # One point more on each side, since the edge lies between points.
        i, j = max(columns[0] - 1, 0), min(columns[-1] + 1, 240)
        k, m = max(rows[0] - 1, 0), min(rows[-1] + 1, 240)
        box = (float(x[i]), float(x[j]), float(y[k]), float(y[m]))
    return box, is_bounded


@functools.lru_cache(maxsize=32)
def truth_of(potential: Node, temperature: float) -> Truth:
    """The target exp(-U/T) on a window of its own."""

    def energy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return _on_grid(potential, x, y) / temperature

    fitted, is_bounded = _fit(energy)
    middle = ((fitted[0] + fitted[1]) / 2, (fitted[2] + fitted[3]) / 2)
    # A margin of a twentieth, for draws that are spread too far.
    half = tuple(max(0.55 * (fitted[2 * a + 1] - fitted[2 * a]), 0.1) for a in (0, 1))
    box = (middle[0] - half[0], middle[0] + half[0], middle[1] - half[1], middle[1] + half[1])

    # Three windows wide, for the share outside.
    def points(a: int) -> np.ndarray:
        low, width = middle[a] - 3 * half[a], 6 * half[a]
        return low + width * (np.arange(3 * CELLS * WITHIN) + 0.5) / (3 * CELLS * WITHIN)

    U = energy(points(0), points(1))
    lowest = np.min(U[np.isfinite(U)]) if np.any(np.isfinite(U)) else 0.0
    density = np.exp(-np.minimum(U - lowest, 700.0))
    shares = density.reshape(3 * CELLS, WITHIN, 3 * CELLS, WITHIN).sum(axis=(1, 3))
    shares /= shares.sum()
    cells = shares[CELLS : 2 * CELLS, CELLS : 2 * CELLS]
    return Truth(box, cells, float(max(1.0 - cells.sum(), 0.0)), is_bounded)


def describe(truth: Truth) -> dict[str, Any]:
    """The window for the page."""
    return {"box": truth.box, "outside": truth.outside, "bounded": truth.is_bounded, "cells": CELLS}
