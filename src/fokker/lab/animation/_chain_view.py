"""A chain on a target as the animations show it: plain arrays, which are sent between processes."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Backdrop:
    """A target to draw on: its box, the density on a grid of it, and the exact marginals as (x, density)."""

    title: str
    box: tuple[tuple[float, float], ...]
    grid: tuple[np.ndarray, ...]
    marginals: tuple[tuple[np.ndarray, np.ndarray], ...]


@dataclass(frozen=True)
class Series:
    """A number at every step, the value that it should have, and the range to draw."""

    name: str
    values: np.ndarray
    reference: float | None = None
    limits: tuple[float, float] | None = None

    def range(self) -> tuple[float, float]:
        """The range to draw: the limits, or one of nearly all values and the reference."""
        if self.limits is not None:
            return self.limits
        values = self.values[np.isfinite(self.values)]
        shown = list(np.quantile(values, (0.01, 0.99))) if values.size else [0.0, 1.0]
        shown += [] if self.reference is None else [self.reference]
        room = 0.1 * (max(shown) - min(shown)) or 0.1
        return min(shown) - room, max(shown) + room


@dataclass(frozen=True)
class Trajectory:
    """The points of one trajectory in the order visited, and which of them became the next state.

    `depth` says for every point of a tree in which doubling it was added; `direction` whether forwards.
    """

    points: np.ndarray
    chosen: int
    accepted: bool = True
    depth: np.ndarray | None = None
    direction: np.ndarray | None = None

    @classmethod
    def of(cls, recorded: Any) -> "Trajectory":
        """From what `sampler.trajectory(key, state)` returns."""
        points = np.asarray(recorded.points, float)
        points = points.reshape(len(points), -1)
        # Where nothing is chosen, a trajectory ends at its last point if that was accepted.
        accepted = bool(np.asarray(getattr(recorded, "accepted", True)))
        chosen = getattr(recorded, "chosen", None)
        index = (len(points) - 1 if accepted else 0) if chosen is None else int(np.asarray(chosen))
        arrays = [getattr(recorded, name, None) for name in ("depth", "direction")]
        depth, direction = (None if x is None else np.asarray(x).reshape(-1) for x in arrays)
        if not 0 <= index < len(points) or any(x is not None and len(x) != len(points) for x in (depth,)):
            raise ValueError(
                f"a trajectory of {len(points)} points has chosen={index} and "
                f"{'no' if depth is None else len(depth)} depths: chosen is a place among the points, and "
                "every point has a depth."
            )
        return cls(points, index, accepted, depth, direction)


@dataclass(frozen=True)
class ChainView:
    """One chain: its positions (steps × dimension), and what else is shown of it."""

    title: str
    line: str
    positions: np.ndarray
    proposals: np.ndarray | None = None
    accepted: np.ndarray | None = None
    series: tuple[Series, ...] = ()
    trajectories: tuple[Trajectory, ...] = ()
