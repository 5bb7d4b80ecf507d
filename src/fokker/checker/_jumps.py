r"""Jumps of H, D and the drift, which the residual at single points cannot detect.

With p = exp(-H) and the flux J = v p, v = f - S, S = ∇·D - D∇H, a surface with normal n adds these terms
to the stationary Fokker–Planck equation, besides R = 0 on both sides:

    n·[v] p   and the derivative of   [D]n p,

where [·] is the jump. A jump of the drift along the surface is harmless, and so is a jump of a D that does
not act across it. A kink of H or D is not a jump of v, because f and S have the same kink.
"""

from dataclasses import dataclass

import numpy as np

from fokker.checker._evaluate import LARGEST_FULL_MATRIX, Evaluator, Values
from fokker.dynamics.problem import Problem

_SEGMENTS, _SUSPECTS, _CASES = 128, 32, 6
_NODES = 33
_HALVINGS = 45
# An increment that stays above this share of the function's range, however short the interval, is a jump.
SMALLEST_JUMP = 1e-3
# Displacement for finding a surface's normal, in standard deviations, and the searched interval.
_DISPLACEMENT, _WINDOW = 1e-5, 1e-3
# A jump is along the surface if its normal part is below the first share, across it if above the second.
_ALONG, _ACROSS = 1e-3, 1e-2


@dataclass(frozen=True)
class Jumps:
    """Errors and doubts in words: for H and D, and separately for the drift."""

    wrong: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    drift_wrong: tuple[str, ...] = ()
    drift_doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Jump:
    """One jump: its segment, its place on it, and the points and values on both sides."""

    start: np.ndarray
    direction: np.ndarray
    place: float
    low: np.ndarray
    high: np.ndarray
    values: tuple[np.ndarray, np.ndarray]


def find_jumps(problem: Problem, evaluate: Evaluator, points: np.ndarray, rounding: float) -> Jumps:
    """Search for jumps along segments between points of the target."""
    d = problem.dimension
    count = min(len(points) // 2, _SEGMENTS if d <= 64 else 8)
    half = len(points) // 2
    starts, directions = points[:count], points[half : half + count] - points[:count]
    nodes = np.linspace(0.0, 1.0, _NODES)
    along = starts[:, None] + nodes[:, None] * directions[:, None]
    series = _series(evaluate.fields(along.reshape(-1, d)), rounding)
    series = {kind: value.reshape(count, _NODES, -1) for kind, value in series.items()}
    ceiling = np.max(evaluate.energy(points[: 4 * _SEGMENTS])) + 5
    jumps = {
        kind: _of_kind(evaluate, kind, series[kind], starts, directions, nodes, ceiling, rounding)
        for kind in ("H", "D", "v")
    }
    spread = np.std(points, axis=0) + 1e-12
    wrong, doubts, drift_wrong, drift_doubts = [], [], [], []
    if jumps["H"]:
        wrong.append(
            "H jumps between points of the target: the drift contains no force from this jump of the energy"
        )
    across = _across_D(evaluate, jumps["D"], spread, d, rounding)
    if across is None:
        doubts.append("D jumps between points of the target, in a direction that could not be determined")
    elif across:
        wrong.append("D jumps between points of the target: Γ is infinite there, and no drift can contain it")
    share = _share_across(evaluate, jumps["v"], spread, d, rounding)
    names = problem.coordinate_names()
    if share is None or _ALONG < share <= _ACROSS:
        drift_doubts.append(
            "the drift jumps between points of the target, and it could not be decided whether the flux into "
            "one side of the jump is the flux out of the other"
        )
    elif share > _ACROSS:
        where = jumps["v"][0].low
        place = ", ".join(f"{name} = {value:.3g}" for name, value in zip(names[:4], where, strict=False))
        drift_wrong.append(
            f"the drift jumps (at {place}{', …' if d > 4 else ''}) across a surface, so that the flux into "
            "one side is not the flux out of the other: the residual is zero next to it, but exp(-H) is not "
            "stationary"
        )
    return Jumps(tuple(wrong), tuple(doubts), tuple(drift_wrong), tuple(drift_doubts))


def _series(values: Values, rounding: float) -> dict[str, np.ndarray]:
    """The functions that may jump; v = f - S is set to zero where it is rounding error."""
    f, S = values["f"], values["S"]
    v = np.where(np.abs(f - S) <= rounding * (np.abs(f) + np.abs(S)), 0.0, f - S)
    return {"H": values["H"][:, None], "D": values["D"], "v": v}


def _of_kind(
    evaluate: Evaluator,
    kind: str,
    values: np.ndarray,
    starts: np.ndarray,
    directions: np.ndarray,
    nodes: np.ndarray,
    ceiling: float,
    rounding: float,
) -> list[_Jump]:
    """The jumps of one function, the largest first."""
    if not np.all(np.isfinite(values)):
        fine = np.all(np.isfinite(values), axis=(1, 2))
        values, starts, directions = values[fine], starts[fine], directions[fine]
    if not len(values):
        return []
    span = np.max(values, axis=(0, 1)) - np.min(values, axis=(0, 1))
    # A constant varies by rounding, which is not a jump.
    varies = span > 1e-8 * np.max(np.abs(values), axis=(0, 1))
    unit = np.where(varies & (span > 0), span, np.inf)
    increments = np.diff(values, axis=1)
    padded = np.pad(increments, ((0, 0), (1, 1), (0, 0)), mode="edge")
    # A smooth function's increments change little from one interval to the next.
    uneven = np.max(np.abs(increments - (padded[:, :-2] + padded[:, 2:]) / 2) / unit, axis=2)
    interval = np.argmax(uneven, axis=1)
    suspects = np.argsort(-np.max(uneven, axis=1))[:_SUSPECTS]
    starts, directions, interval, rows = starts[suspects], directions[suspects], interval[suspects], suspects
    low, high = nodes[interval], nodes[interval + 1]
    at_low, at_high = values[rows, interval], values[rows, interval + 1]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        at = _series(evaluate.fields(starts + middle[:, None] * directions), rounding)[kind]
        left = np.max(np.abs(at - at_low) / unit, axis=1) > np.max(np.abs(at_high - at) / unit, axis=1)
        low, high = np.where(left, low, middle), np.where(left, middle, high)
        at_low, at_high = np.where(left[:, None], at_low, at), np.where(left[:, None], at, at_high)
    size = np.max(np.abs(at_high - at_low) / unit, axis=1)
    has_mass = evaluate.energy(starts + low[:, None] * directions) <= ceiling
    jumped = [i for i in np.argsort(-size) if size[i] > SMALLEST_JUMP and has_mass[i]]
    return [
        _Jump(
            starts[i],
            directions[i],
            float(low[i]),
            starts[i] + low[i] * directions[i],
            starts[i] + high[i] * directions[i],
            (at_low[i], at_high[i]),
        )
        for i in jumped
    ]


def _normal(evaluate: Evaluator, kind: str, jump: _Jump, spread: np.ndarray, rounding: float) -> np.ndarray:
    """The surface's normal, from how the place of the jump moves when the segment is displaced.

    It is in standard deviations and has unit length; NaN if a displaced segment does not meet the surface.
    """
    d = spread.size
    starts = jump.start + _DISPLACEMENT * np.diag(spread)
    low, high = np.full(d, jump.place - _WINDOW), np.full(d, jump.place + _WINDOW)
    before, after = jump.values
    between = after - before

    def is_beyond(t: np.ndarray) -> np.ndarray:
        at = _series(evaluate.fields(starts + t[:, None] * jump.direction), rounding)[kind]
        return (at - before) @ between > between @ between / 2

    ends_differ = ~is_beyond(low) & is_beyond(high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = is_beyond(middle)
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    normal = (jump.place - low) / _DISPLACEMENT
    if not np.all(ends_differ) or not np.any(normal):
        return np.full(d, np.nan)
    return normal / np.linalg.norm(normal)


def _share_across(
    evaluate: Evaluator, jumps: list[_Jump], spread: np.ndarray, d: int, rounding: float
) -> float | None:
    """The largest |n·[v]| over |[v]|; None if a normal was not found."""
    shares = []
    for jump in jumps[:_CASES] if d <= 64 else []:
        normal = _normal(evaluate, "v", jump, spread, rounding)
        step = (jump.values[1] - jump.values[0]) / spread
        shares.append(abs(normal @ step) / np.linalg.norm(step))
    known = [share for share in shares if np.isfinite(share)]
    if known and max(known) > _ACROSS:
        return float(max(known))
    if jumps and (len(known) < len(shares) or not known):
        return None
    return float(max(known, default=0.0))


def _across_D(
    evaluate: Evaluator, jumps: list[_Jump], spread: np.ndarray, d: int, rounding: float
) -> bool | None:
    """Whether [D]n is not zero; None if a normal was not found."""
    if not jumps:
        return False
    if d > LARGEST_FULL_MATRIX or d > 64:
        return None
    known = []
    for jump in jumps[:_CASES]:
        normal = _normal(evaluate, "D", jump, spread, rounding)
        if not np.all(np.isfinite(normal)):
            continue
        at_low, at_high = evaluate.matrices(np.stack([jump.low, jump.high]))["D"]
        step = (at_high - at_low) / np.outer(spread, spread)
        known.append(float(np.linalg.norm(step @ normal) / np.linalg.norm(step)))
    if known and max(known) > _ACROSS:
        return True
    return None if not known or max(known) > _ALONG else False
