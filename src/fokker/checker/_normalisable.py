r"""Is exp(-H) a density? The residual is zero for every H, whether or not exp(-H) has an integral.

Along rays through m coordinates the mass between s and 2s is

    L(s) = log ∫_s^{2s} exp(-H) s^{m-1} ds,    σ = -dL/d log s.

exp(-H) has no integral if σ ≤ 0 far out along a set of rays: H must grow faster than m log s. With σ > 0 the
mass decreases like s^{-σ}. Close to zero, σ cannot be distinguished from a power of log s, and is undecided.
"""

from dataclasses import dataclass

import numpy as np

from fokker.checker._evaluate import Evaluator
from fokker.checker._rays import Rays, make_rays
from fokker.dynamics.problem import Problem

_RAYS = 48
# Rays at a time, for memory.
_BATCH = 128
# Distances, in spreads, between which σ is measured; the far ones only in the state's own frame.
_NEAR, _FAR = (1e3, 1e4, 1e5, 1e6), (1e20, 1e30, 1e40)
# Points in [s, 2s], over which an oscillating H is averaged: so many that its extremes are among them.
_WINDOW = 1 + (np.arange(96) + 0.5) / 96
# Decay like a power below the first is no decay; up to the second it is undecided.
_ZERO, _EDGE = 1e-6, 0.05
# H is bounded if its extremes change by less than this share of its range and of log s.
_BOUNDED = 0.05
# A tail without an integral decreases no faster than this closer in.
_SLOW = 0.5
_PERIODS = {"2π": 2 * np.pi, "π": np.pi, "4π": 4 * np.pi, "1": 1.0, "2": 2.0, "360": 360.0, "24": 24.0}


@dataclass(frozen=True)
class Integral:
    """Why exp(-H) has no integral (`wrong`), or why that is in doubt, in words."""

    wrong: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def check_integral(
    problem: Problem,
    evaluate: Evaluator,
    points: np.ndarray,
    flat: np.ndarray,
    generator: np.random.Generator,
) -> Integral:
    """Test whether exp(-H) decreases fast enough along rays; coordinates known to be `flat` are left out."""
    rays = make_rays(problem, evaluate, points, generator, flat, _RAYS, by="H")
    if not rays.names:
        return Integral()
    near, is_bounded = _decay(evaluate, rays, _NEAR)
    far = near.copy()
    straight = np.flatnonzero(rays.farthest >= _FAR[-1])
    far[straight], stays_bounded = _decay(evaluate, rays.select(straight), _FAR)
    # Near and far must agree: H may be constant on the way to a proper tail, and far out an H computed as
    # a difference is rounding error.
    is_bounded[straight] &= stays_bounded
    is_slow = (near < _SLOW) & (far <= _EDGE) & ~is_bounded
    is_heavy = is_slow & (far <= _ZERO)
    is_edge = is_slow & ~is_heavy
    bounded = rays.simplest(is_bounded)
    if bounded is not None:
        # Of several bounded coordinates the sum is bounded too, though its extremes are hardly ever reached.
        is_heavy &= (rays.coordinates <= rays.coordinates[bounded]) & (
            rays.farthest >= rays.farthest[bounded]
        )
    if (row := rays.simplest(is_heavy)) is not None:
        return Integral(wrong=(_too_heavy(rays, row, far[row]),))
    if bounded is not None:
        return Integral(doubts=(_bounded(problem, evaluate, points, rays, bounded),))
    if (row := rays.simplest(is_edge)) is not None:
        return Integral(doubts=(_at_the_edge(rays, row, far[row]),))
    return Integral()


def _decay(evaluate: Evaluator, rays: Rays, distances: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The largest σ of each ray between distances, infinite if H is; and whether H is bounded between all."""
    if len(rays.names) > _BATCH:
        rows = np.arange(len(rays.names))
        first, rest = (
            _decay(evaluate, rays.select(part), distances) for part in (rows[:_BATCH], rows[_BATCH:])
        )
        return np.concatenate([first[0], rest[0]]), np.concatenate([first[1], rest[1]])
    radii = np.concatenate([s * _WINDOW for s in distances])
    ratio = np.diff(np.log(distances))
    with np.errstate(all="ignore"):
        H = evaluate.energy(rays.at(radii)).reshape(len(rays.names), len(distances), -1)
        lowest, highest = np.min(H, axis=2), np.max(H, axis=2)
        mass = np.log(np.mean(np.exp(lowest[..., None] - H), axis=2)) - lowest
        sigma = -np.diff(mass, axis=1) / ratio - rays.coordinates[:, None]
        # An H that oscillates reaches nearly the same extremes in each window.
        span = highest - lowest
        allowed = _BOUNDED * (np.minimum(span[:, 1:], span[:, :-1]) + ratio)
        change = np.maximum(np.abs(np.diff(lowest, axis=1)), np.abs(np.diff(highest, axis=1)))
        is_bounded = np.all((change <= allowed) & np.isfinite(allowed), axis=1)
    return np.max(np.where(np.isnan(sigma), np.inf, sigma), axis=1), is_bounded


def _too_heavy(rays: Rays, row: int, sigma: float) -> str:
    m = int(rays.coordinates[row])
    return (
        f"exp(-H) is not a density: as {rays.names[row]} grows, H grows like {sigma + m:.3g} log s with the "
        f"distance s, and must grow faster than {'' if m == 1 else f'{m} '}log s"
        f"{'' if m == 1 else f' in {m} coordinates'} to have an integral"
    )


def _at_the_edge(rays: Rays, row: int, sigma: float) -> str:
    m = int(rays.coordinates[row])
    return (
        f"whether exp(-H) is a density could not be decided: as {rays.names[row]} grows, it decreases like "
        f"s^-{sigma + m:.3g} with the distance s, too close to s^-{m}, which has no integral (a power is "
        f"decided from {m + _EDGE:g} on)"
    )


def _bounded(problem: Problem, evaluate: Evaluator, points: np.ndarray, rays: Rays, row: int) -> str:
    """Advice for an H that does not grow: is it an angle?"""
    words = f"H does not grow as {rays.names[row]} grows, so exp(-H) has no integral"
    coordinate = np.flatnonzero(rays.directions[row])
    if coordinate.size != 1:
        return f"{words}. Was a prior forgotten?"
    index = int(coordinate[0])
    variable = next((n for n, rows in problem.variables.items() if index in range(*rows.indices(10**9))), "")
    period = _period(evaluate, points, index)
    if not period:
        return (
            f"{words}, unless it is an angle: then name it, periodic={{…}}. Was a prior forgotten, or a "
            "small number added to p, which keeps H from growing?"
        )
    if not variable:
        return (
            f"{words}, unless it is an angle: then make it a named variable, as periodic={{'phi': {period}}}"
        )
    rows = problem.variables[variable]
    alone = rows.stop - rows.start == 1
    return (
        f"{words}, unless it is an angle, as its period of {period} suggests: then pass "
        + (f'periodic={{"{variable}": {period}}}' if alone else "periodic={…}")
        + ("" if alone else f" with this coordinate of {variable} as a variable of its own")
    )


def _period(evaluate: Evaluator, points: np.ndarray, index: int) -> str:
    """The period of H in a coordinate, in words; empty if it has none of the usual ones."""
    some = points[:32]
    shift = np.eye(points.shape[1])[index]
    H = evaluate.energy(some)
    for words, period in _PERIODS.items():
        if np.max(np.abs(evaluate.energy(some + period * shift) - H)) <= 1e-9 * (1 + np.max(np.abs(H))):
            return words
    return ""
