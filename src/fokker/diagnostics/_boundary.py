"""Whether the density of a target ends or jumps where the draws are.

There, E[v·(θ - c) v·∇U] = T|v|² and E[∇U] = 0 have a further term, the density on the boundary, which ∇U does
not show: right draws look wrong, and draws of a sampler that follows ∇U, to which the boundary is invisible,
look right.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from fokker.diagnostics._gradients import Potential

# Intervals of a segment, and of each interval that is looked at again.
_INTERVALS, _FINER = 32, 64
# How often the intervals with the largest jumps are looked at again.
_ROUNDS = 2
# A smaller jump of U/T changes the density by less than a fifth.
_JUMP = 0.2
# Relative rounding of U in single precision, with a margin.
_ROUNDING = 1e-5
# How far beyond a draw, in its distance from the mean, the density may end.
_BEYOND = 1.5
# Where U/T is higher than at any draw by more than the first value, the density at the boundary is
# negligible; by more than the second, what looks like an end may be the largest number there is.
_NEGLIGIBLE, _OVERFLOW = 1.0, 100.0


class Boundary(NamedTuple):
    """A place where U jumps by `jump`, infinite where the density ends, and the coordinate that crosses it.

    `coordinate` is None where no single one does. `is_relevant`: whether the density is not negligible there.
    """

    coordinate: str | None
    place: float
    jump: float
    is_relevant: bool

    @property
    def is_end(self) -> bool:
        """Whether the density ends there."""
        return bool(np.isinf(self.jump))

    def __str__(self) -> str:
        what = "ends" if np.isinf(self.jump) else f"jumps by a factor of {np.exp(min(self.jump, 50.0)):.2g}"
        where = "a surface" if self.coordinate is None else f"{self.coordinate} ≈ {self.place:.3g}"
        return f"the density of the target {what} at {where}"


def find_boundary(
    potential: Potential,
    draws: Float[np.ndarray, "c n d"],
    temperature: float,
    also_negligible: bool = False,
    names: Sequence[str] = (),
) -> Boundary | None:
    """Look for a jump of U along segments between draws, and outwards from draws.

    With `also_negligible`, also for one where the density vanishes: it is at most crossed by steps.
    """
    flat, values = draws.reshape(-1, draws.shape[2]), potential.values.reshape(-1)
    segments = potential.most // (_INTERVALS + 1)
    if segments < 2 or not np.isfinite(values).all():
        return None
    generator = np.random.default_rng(0)
    start, end = (flat[generator.integers(len(flat), size=segments)] for _ in range(2))
    outwards = np.arange(segments) % 2 == 0
    end[outwards] = start[outwards] + _BEYOND * (start[outwards] - flat.mean(axis=0))
    highest = values.max() / temperature
    for margin in (_NEGLIGIBLE, _OVERFLOW)[: 1 + also_negligible]:
        crossing = _crossing(potential, start, end, temperature, highest + margin)
        if crossing is not None:
            return _named(potential, crossing, temperature, margin == _NEGLIGIBLE, names)
    return None


def _crossing(
    potential: Potential, start: np.ndarray, end: np.ndarray, temperature: float, highest: float
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Two points beside each other with the largest jump between them, where U/T is not above `highest`."""
    for number in range(_ROUNDS + 1):
        intervals = _INTERVALS if number == 0 else _FINER
        room = potential.most // (intervals + 1)
        start, end, jumps = _largest_jumps(
            potential, start[:room], end[:room], intervals, temperature, highest
        )
        # The largest first; the others are not looked at again.
        order = np.argsort(-jumps, kind="stable")
        order = order[jumps[order] > _JUMP]
        if not len(order):
            return None
        start, end, jumps = start[order], end[order], jumps[order]
    return start[0], end[0], float(jumps[0])


def _largest_jumps(
    potential: Potential,
    start: np.ndarray,
    end: np.ndarray,
    intervals: int,
    temperature: float,
    highest: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The interval of each segment over which U/T changes most beyond what its gradient explains."""
    share = np.linspace(0, 1, intervals + 1)[None, :, None]
    points = start[:, None] + share * (end - start)[:, None]
    values, gradients = potential.at(points.reshape(-1, points.shape[2]))
    values = (values / temperature).reshape(points.shape[:2])
    gradients = np.nan_to_num(gradients / temperature, nan=0.0, posinf=0.0, neginf=0.0).reshape(points.shape)
    left, right = values[:, :-1], values[:, 1:]
    step = points[:, 1:] - points[:, :-1]
    expected = np.sum((gradients[:, :-1] + gradients[:, 1:]) / 2 * step, axis=2)
    one_inside = np.isfinite(left) != np.isfinite(right)
    with np.errstate(invalid="ignore"):
        jump = np.abs(right - left - expected) - _ROUNDING * np.maximum(np.abs(left), np.abs(right))
        inside = np.fmin(left, right)
    jump = np.where(one_inside, np.inf, np.nan_to_num(jump, nan=0.0))
    jump = np.where(inside <= highest, jump, 0.0)
    place = np.argmax(jump, axis=1)
    row = np.arange(len(points))
    return points[row, place], points[row, place + 1], jump[row, place]


def _named(
    potential: Potential,
    crossing: tuple[np.ndarray, np.ndarray, float],
    temperature: float,
    is_relevant: bool,
    names: Sequence[str],
) -> Boundary:
    """With the coordinate that crosses the boundary if it moves alone."""
    start, end, jump = crossing
    d = len(start)
    if d + 2 > potential.most:
        return Boundary(None, np.nan, jump, is_relevant)
    alone = np.concatenate([start[None], end[None], np.where(np.eye(d, dtype=bool), end, start)])
    values = potential.at(alone)[0] / temperature
    with np.errstate(invalid="ignore"):
        whole = values[1] - values[0]
        crosses = np.isfinite(values[2:]) != np.isfinite(values[0])
        if np.isfinite(whole):
            crosses = np.abs(values[2:] - values[0]) > np.abs(whole) / 2
    if crosses.sum() != 1:
        return Boundary(None, np.nan, jump, is_relevant)
    i = int(np.argmax(crosses))
    name = names[i] if len(names) == d else f"coordinate {i}"
    return Boundary(name, float((start[i] + end[i]) / 2), jump, is_relevant)
