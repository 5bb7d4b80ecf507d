r"""Does D vanish on a surface between draws of the target, which paths then never cross?

On the line with D = z², ∫ dz / (pD) diverges at zero from both sides (Feller's test): a path that starts at
z > 0 stays there. In more dimensions a surface with normal n is not crossed if D n = 0 and v·n = 0 on it,
with v = f - S, and nᵀDn decreases at least like the distance to it. A D that vanishes at single points, or
on a line in space, is harmless: a segment between two draws does not meet it.
"""

from collections.abc import Callable

import numpy as np

from fokker.checker._compact import Lifted
from fokker.checker._evaluate import Evaluator
from fokker.checker._reducible import without_far_tails
from fokker.dynamics.problem import Problem

_LARGEST = 32
_SEGMENTS, _NODES, _ROUNDS = 32, 33, 60
# The least eigenvalue of D at a dip, as a share of that at the ends, that is looked at closely; and zero.
_DIP, _ZERO = 0.5, 1e-10
# Distances to the surface, in spreads, between which the power of nᵀDn is measured, and the least power.
_DISTANCES, _POWER = (1e-4, 1e-2), 0.95


def find_barrier(problem: Problem, evaluate: Evaluator, points: np.ndarray) -> str:
    """A doubt in words; empty if D vanishes on no surface that separates draws."""
    d = problem.dimension
    if d > _LARGEST:
        return ""
    # Of angles and unit vectors the radii are constant by construction: D has so many zeros.
    constant = problem.number_of_radii if isinstance(problem, Lifted) else 0
    points = points[without_far_tails(points)]
    spread = np.std(points, axis=0) + 1e-12
    starts, ways = _segments(points, spread)

    def least(places: np.ndarray) -> np.ndarray:
        return np.linalg.eigvalsh(_scaled(evaluate, places, spread))[:, constant]

    with np.errstate(all="ignore"):
        nodes = np.linspace(0, 1, _NODES)
        values = least((starts[:, None] + nodes[:, None] * ways[:, None]).reshape(-1, d)).reshape(
            len(starts), -1
        )
        ends = np.minimum(values[:, 0], values[:, -1])
        lowest = np.argmin(values, axis=1)
        rows = np.flatnonzero((ends > 0) & np.all(np.isfinite(values), axis=1))
        rows = rows[values[rows, lowest[rows]] < _DIP * ends[rows]]
        if not rows.size:
            return ""
        starts, ways, ends = starts[rows], ways[rows], ends[rows]
        low, high = nodes[lowest[rows] - 1], nodes[lowest[rows] + 1]
        for _ in range(_ROUNDS):
            third = (high - low) / 3
            first, second = (starts + (t[:, None]) * ways for t in (low + third, high - third))
            left = least(first) < least(second)
            low, high = np.where(left, low, low + third), np.where(left, high - third, high)
        places = starts + low[:, None] * ways
        for row in np.flatnonzero(least(places) <= _ZERO * ends)[:4]:
            if _is_never_crossed(evaluate, least, places[row], ways[row], spread):
                names = problem.coordinate_names()
                place = np.round(places[row] / spread, 9) * spread + 0.0
                where = ", ".join(f"{n} = {x:.3g}" for n, x in zip(names[:4], place, strict=False))
                return (
                    f"D vanishes on a surface (at {where}) that paths never cross: exp(-H) is stationary, "
                    "but from one side the other is not reached"
                )
    return ""


def _segments(points: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ways: between draws in pairs, and from inner draws to the outermost, past most surfaces."""
    half = min(len(points) // 2, _SEGMENTS)
    order = np.argsort(np.max(np.abs(points - np.median(points, axis=0)) / spread, axis=1))
    starts = np.concatenate([points[:half], points[order[:half]]])
    return starts, np.concatenate([points[half : 2 * half], points[order[::-1][:half]]]) - starts


def _scaled(evaluate: Evaluator, places: np.ndarray, spread: np.ndarray) -> np.ndarray:
    D = evaluate.matrices(places)["D"] / np.outer(spread, spread)
    return np.where(np.isfinite(D), D, 0.0)


def _is_never_crossed(
    evaluate: Evaluator,
    least: Callable[[np.ndarray], np.ndarray],
    place: np.ndarray,
    way: np.ndarray,
    spread: np.ndarray,
) -> bool:
    """Whether D n = 0 and v·n = 0 at the place, n the direction in which D's least eigenvalue grows."""
    d = place.size
    near, far = _DISTANCES
    step = way / np.linalg.norm(way / spread)
    around = near * spread * np.concatenate([np.eye(d), -np.eye(d)]) / 10
    heights = least(place + near * step + around)
    normal = heights[:d] - heights[d:]
    if not np.any(normal):
        return False
    normal /= np.linalg.norm(normal)
    D = _scaled(evaluate, place + np.array([[0.0], [near], [far]]) * step, spread)
    # A curved surface has another normal a short way off: only its part in D's kernel at the place counts.
    values, vectors = np.linalg.eigh(D[0])
    kernel = vectors[:, values <= _ZERO * np.max(np.abs(D))]
    normal = kernel @ (kernel.T @ normal)
    if np.linalg.norm(normal) < 0.9:
        return False
    normal /= np.linalg.norm(normal)
    across = abs(normal @ (step / spread))
    through = np.einsum("i,nij,j->n", normal, D, normal)
    fields = evaluate.fields(place[None])
    v = (fields["f"] - fields["S"])[0] / spread
    ends = evaluate.fields(np.stack([place - way / 2, place + way / 2]))
    typical = np.max(np.abs(ends["f"]) + np.abs(ends["S"])) / np.min(spread)
    # The power of the distance; a surface met at a grazing angle is not judged.
    power = np.log(through[2] / through[1]) / np.log(far / near)
    is_sealed = through[0] <= 1e-4 * through[1]
    return bool(is_sealed and power >= _POWER and across > 0.1 and abs(v @ normal) <= 1e-6 * typical)
