r"""Rays out of the target, along which the checker looks at H and D far out.

A ray goes through a set A of m coordinates (of the state's own frame, or of a rotated one) while the others
stay where a draw of the target has them. Rays through the same A fill a region of space, in which

    z = z_0 + s w,    the volume between s and s + ds grows like s^{m-1} ds,

so that integrals over the region are integrals over s for almost every direction w. One ray through all
coordinates would not do: exp(-z₁²/2 + cos z₂) has no integral, but decreases along almost every ray.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fokker.checker._evaluate import Evaluator
from fokker.dynamics.problem import Problem

LARGEST_ROTATED = 64
# Up to this many coordinates are each looked at alone: an error may be in any of them.
_LARGEST_ALONE = 256
# A rotated frame is known to about 1e-12 only, so that its rays leave their direction far out.
_FAR, _FAR_ROTATED = 1e40, 1e6
# Distances, in spreads, at which a frame is looked for: the largest at which all is finite.
_DISTANCES = (1e12, 1e8, 1e4, 1e2, 10.0, 3.0)


@dataclass(frozen=True)
class Rays:
    """Rows `starts` + s `directions`; the number m of `coordinates` that each goes through.

    `names` says in words which grow; `farthest` is the largest s at which the ray still has its direction.
    """

    starts: np.ndarray
    directions: np.ndarray
    coordinates: np.ndarray
    names: list[str]
    farthest: np.ndarray

    def at(self, radii: np.ndarray) -> np.ndarray:
        """The points at each radius on each ray, ray by ray."""
        places = self.starts[:, None] + radii[:, None] * self.directions[:, None]
        return places.reshape(-1, self.starts.shape[1])

    def simplest(self, rows: np.ndarray) -> int | None:
        """Of the marked rays, one in the state's own frame and through the fewest coordinates."""
        order = np.lexsort((self.coordinates, -self.farthest))
        return next((int(row) for row in order if rows[row]), None)

    def select(self, rows: np.ndarray) -> "Rays":
        """Some of the rays."""
        names = [self.names[i] for i in rows]
        return Rays(
            self.starts[rows], self.directions[rows], self.coordinates[rows], names, self.farthest[rows]
        )


def make_rays(
    problem: Problem,
    evaluate: Evaluator,
    points: np.ndarray,
    generator: np.random.Generator,
    fixed: np.ndarray,
    number: int,
    by: str,
) -> Rays:
    """Rays through single coordinates, variables, all coordinates and random sets, from draws `points`.

    Coordinates that are `fixed` are not gone through. The second half of the rays is in a rotated frame:
    `by` "H", it has the directions in which H is flat far out; `by` "D", those in which D is large.
    """
    d = problem.dimension
    center = np.median(points, axis=0)
    # Not the standard deviation, which heavy tails make as large as the largest draw.
    spread = 1.5 * np.median(np.abs(points - center), axis=0) + 1e-12
    names = np.asarray(problem.coordinate_names(), dtype=object)
    free = np.flatnonzero(~fixed)

    def matrices(x: np.ndarray) -> np.ndarray:
        if by == "D":
            return evaluate.matrices(x)["D"] / np.outer(spread, spread)
        gradient = evaluate.fields(x)["gradient"] * spread
        return gradient[:, :, None] * gradient[:, None, :]

    rotation = _far_frame(matrices, center, spread, free, generator)
    rays: list[tuple[np.ndarray, np.ndarray, int, str, float]] = []
    for frame in (np.eye(d), rotation):
        if frame is None:
            continue
        is_rotated = frame is rotation
        blocks = [np.intersect1d(np.arange(d)[rows], free) for rows in problem.variables.values()]
        for subset, weights in _subsets(free, [] if is_rotated else blocks, number, generator):
            part = frame[:, subset]
            direction = part @ weights / np.linalg.norm(weights)
            draw = (points[generator.integers(len(points))] - center) / spread
            # The other coordinates stay those of the draw.
            start = center + spread * (draw - part @ (part.T @ draw))
            own = ", ".join(names[subset][:3]) + (", …" if len(subset) > 3 else "")
            own = own if len(subset) == 1 else f"({own})"
            label = _combination(part @ weights * spread, names) if is_rotated else own
            far = _FAR_ROTATED if is_rotated else _FAR
            rays.append((start, spread * direction, len(subset), label, far))
    starts, directions, sizes, labels, farthest = zip(*rays, strict=True) if rays else ([], [], [], [], [])
    return Rays(
        np.reshape(starts, (-1, d)),
        np.reshape(directions, (-1, d)),
        np.asarray(sizes, int),
        list(labels),
        np.asarray(farthest, float),
    )


def _subsets(
    free: np.ndarray, blocks: list[np.ndarray], number: int, generator: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sets of coordinates and directions in them: each alone and both ways, variables, all, random sets."""
    if not free.size:
        return []
    alone = [free[i : i + 1] for i in generator.permutation(free.size)[:_LARGEST_ALONE]]
    directions = [(one, np.array([sign])) for one in alone for sign in (1.0, -1.0)]
    if free.size > 1:
        several = [*[b for b in blocks if b.size > 1][: number // 4], *[free] * (number // 8)]
        while len(several) < number // 2:
            several.append(generator.choice(free, generator.integers(2, free.size + 1), replace=False))
        directions += [(subset, generator.normal(size=subset.size)) for subset in several]
    return directions


def _far_frame(
    matrices: Callable[[np.ndarray], np.ndarray],
    center: np.ndarray,
    spread: np.ndarray,
    free: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray | None:
    """Orthogonal directions, in spreads: eigenvectors of symmetric matrices far out; None if not finite."""
    d = center.size
    if free.size < 2 or d > LARGEST_ROTATED:
        return None
    directions = np.zeros((max(16, 4 * d), d))
    directions[:, free] = generator.normal(size=(len(directions), free.size))
    with np.errstate(all="ignore"):
        for distance in _DISTANCES:
            values = matrices(center + distance * spread * directions)[:, free][:, :, free]
            largest = np.max(np.abs(values))
            if np.isfinite(largest) and largest > 0:
                frame = np.zeros((d, d))
                frame[np.ix_(free, free)] = np.linalg.eigh(np.mean(values / largest, axis=0))[1]
                return frame
    return None


def _combination(direction: np.ndarray, names: np.ndarray) -> str:
    """An oblique direction in words, by the coordinates that change most in it."""
    weights = direction / np.max(np.abs(direction))
    largest = np.argsort(-np.abs(weights))[:3]
    return f"z in the direction ({', '.join(f'{names[i]}: {weights[i]:.3g}' for i in largest)})"
