"""The box that a completion works in: all of the mass, with a density at every face that can be neglected."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fokker.dynamics.problem import Problem

Box = list[tuple[float, float]]
Energy = Callable[[np.ndarray], np.ndarray]

# H - min H at the faces: exp(-36) = 2e-16. The search aims a little beyond, since its grid is coarse.
FACE_ENERGY = 34.5
_AIM = 37.0
# Points a side of the coarse grid, by dimension.
_COARSE = {1: 513, 2: 65, 3: 33}
_WIDEST = 1e7


def given_box(box: Any, problem: Problem) -> Box:
    """The user's box as one (low, high) a coordinate, validated."""
    names, d = problem.coordinate_names(), problem.dimension
    wanted = f"box takes one (low, high) a coordinate, {d} in all ({', '.join(names)})"
    if isinstance(box, Mapping):
        if set(box) == set(names):
            box = [box[name] for name in names]
        elif set(box) == set(problem.names):
            # One pair for a variable of several coordinates serves each of them.
            sizes = {name: s.stop - s.start for name, s in problem.variables.items()}
            box = [box[name] for name in problem.names for _ in range(sizes[name])]
        else:
            raise ValueError(f"box names {', '.join(map(str, box))}. {wanted}: name each of them.")
    try:
        sides = np.asarray(box, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"box is {box!r}, which are not pairs of numbers. {wanted}.") from error
    if sides.shape != (d, 2):
        raise ValueError(
            f"box has shape {sides.shape}. {wanted}, as in [(-3, 3)]{f' * {d}' if d > 1 else ''}."
        )
    for name, (low, high) in zip(names, sides, strict=True):
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(
                f"box: the side of {name} is ({low:g}, {high:g}); low < high, both finite, is wanted."
            )
    return [(float(low), float(high)) for low, high in sides]


def coarse_points(box: np.ndarray) -> np.ndarray:
    """A coarse grid over the box, faces included: shape (n, …, n, d)."""
    n = _COARSE[len(box)]
    return np.stack(np.meshgrid(*(np.linspace(low, high, n) for low, high in box), indexing="ij"), axis=-1)


def least_on_faces(H: np.ndarray) -> np.ndarray:
    """The least H on each face: shape (d, 2)."""
    return np.array([[H.take(0, axis=a).min(), H.take(-1, axis=a).min()] for a in range(H.ndim)])


def find_box(energy: Energy, problem: Problem) -> Box:
    """A box in up to three dimensions whose faces have less than 1e-15 of the greatest density.

    From the example state it grows over whichever face still has density, then shrinks to where density is;
    once done, the surroundings three times as wide are searched for another mode.
    """
    start = np.asarray(problem.start)
    sides = np.stack([start - 1.0, start + 1.0], axis=1)
    least = float(energy(start[None])[0])
    for _ in range(8):
        sides, least = _grow(energy, sides, least, problem)
        sides, settled = _shrink(energy, sides, least)
        if not settled:
            continue
        centre, width = sides.mean(axis=1), sides[:, 1] - sides[:, 0]
        around = np.stack([centre - 1.5 * width, centre + 1.5 * width], axis=1)
        points = coarse_points(around).reshape(-1, len(sides))
        H = energy(points)
        outside = ((points < sides[:, 0]) | (points > sides[:, 1])).any(axis=1) & (least + FACE_ENERGY > H)
        if not outside.any():
            break
        found = points[outside]
        sides = np.stack(
            [np.minimum(sides[:, 0], found.min(axis=0)), np.maximum(sides[:, 1], found.max(axis=0))], axis=1
        )
    sides, _ = _grow(energy, sides, least, problem)
    return [(float(low), float(high)) for low, high in sides]


def _grow(energy: Energy, sides: np.ndarray, least: float, problem: Problem) -> tuple[np.ndarray, float]:
    sides = sides.copy()
    first = sides[:, 1] - sides[:, 0]
    for _ in range(200):
        H = energy(coarse_points(sides).reshape(-1, len(sides))).reshape((_COARSE[len(sides)],) * len(sides))
        least = min(least, float(H.min()))
        short = least_on_faces(H) < least + FACE_ENERGY + 1.5
        if not short.any():
            return sides, least
        width = sides[:, 1] - sides[:, 0]
        sides[:, 0] -= np.where(short[:, 0], 0.25 * width, 0.0)
        sides[:, 1] += np.where(short[:, 1], 0.25 * width, 0.0)
        endless = np.flatnonzero(width > _WIDEST * np.maximum(first, 1.0))
        if endless.size:
            name = problem.coordinate_names()[int(endless[0])]
            raise never_decays(name, sides[endless[0]])
    return sides, least


def never_decays(name: str, side: np.ndarray) -> ValueError:
    """The error for a target that cannot be put in a box."""
    return ValueError(
        f"the density exp(-H) does not decay in {name}: it is above 1e-15 of its maximum still at {name} = "
        f"{side[0]:.3g} or {side[1]:.3g}, so no box holds the mass. Check that H depends on {name} and grows "
        "in both directions (a momentum needs its kinetic energy in H), or give box=… for a heavy tail."
    )


def _shrink(energy: Energy, sides: np.ndarray, least: float) -> tuple[np.ndarray, bool]:
    """The box around what is above the aim, one coarse cell wider; whether it was nearly that already."""
    points = coarse_points(sides)
    d = len(sides)
    H = energy(points.reshape(-1, d)).reshape(points.shape[:-1])
    inside = points[min(float(H.min()), least) + _AIM > H]
    if not len(inside):
        inside = points.reshape(-1, d)[[int(np.argmin(H))]]
    cell = (sides[:, 1] - sides[:, 0]) / (_COARSE[d] - 1)
    low = np.maximum(inside.min(axis=0) - cell, sides[:, 0])
    high = np.minimum(inside.max(axis=0) + cell, sides[:, 1])
    settled = bool(np.all(high - low > 0.8 * (sides[:, 1] - sides[:, 0])))
    return np.stack([low, high], axis=1), settled


def check_mass(
    box: Box, least: float, at_face: np.ndarray, start_energy: float, names: list[str]
) -> list[str]:
    """Raise where a given box misses the mass; a note where density is left at a face.

    `at_face` is the least H on each face, (d, 2); `least` the least H inside.
    """
    lowest = np.unravel_index(int(np.argmin(at_face)), at_face.shape)
    name = names[int(lowest[0])]
    if start_energy < least - 3.0 or float(at_face.min()) <= least + 0.5:
        where = (
            f"the example state has {np.exp(min(least - start_energy, 700.0)):.3g} times its greatest density"
            if start_energy < least - 3.0
            else f"the density is greatest at its face {name} = {box[int(lowest[0])][int(lowest[1])]:g}"
        )
        raise ValueError(
            f"the box {box} does not contain the mass: {where}. Give a box around the mass, or leave "
            "box out to have it found."
        )
    left = float(np.exp(least - at_face.min()))
    if left > 1e-12:
        return [
            f"at the face {name} = {box[int(lowest[0])][int(lowest[1])]:g} of the box the density is still "
            f"{left:.1e} of its maximum: the flux does not end inside the box, as it must. Take a "
            "wider box, or leave box out to have it found."
        ]
    return []
