"""The box of a completion: it contains all of the mass, and the density at its faces is negligible."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fokker.dynamics.problem import Problem

Box = list[tuple[float, float]]
Energy = Callable[[np.ndarray], np.ndarray]

# H - min H at the faces: exp(-36) = 2e-16. The search aims a little higher, because its grid is coarse.
FACE_ENERGY = 34.5
_AIM = 37.0
# Points per side of the coarse grid, by dimension.
_COARSE = {1: 513, 2: 65, 3: 33}
_WIDEST = 1e7


def validated_box(box: Any, problem: Problem) -> Box:
    """The user's box as one (low, high) per coordinate, validated."""
    names, d = problem.coordinate_names(), problem.dimension
    wanted = f"box takes one (low, high) per coordinate, {d} in total ({', '.join(names)})"
    if isinstance(box, Mapping):
        if set(box) == set(names):
            box = [box[name] for name in names]
        elif set(box) == set(problem.names):
            # One pair for a variable of several coordinates is used for each of them.
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
                f"box: the side of {name} is ({low:g}, {high:g}); give finite numbers low < high."
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
    """A box in up to three dimensions with less than 1e-15 of the maximum density at its faces.

    It starts at the example state, grows at each face that still has density, and then shrinks to the region
    with density. Then a region three times as wide is searched for other modes.
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
        surroundings = np.stack([centre - 1.5 * width, centre + 1.5 * width], axis=1)
        points = coarse_points(surroundings).reshape(-1, len(sides))
        H = energy(points)
        outside = ((points < sides[:, 0]) | (points > sides[:, 1])).any(axis=1) & (least + FACE_ENERGY > H)
        if not outside.any():
            break
        other_mode = points[outside]
        sides = np.stack(
            [
                np.minimum(sides[:, 0], other_mode.min(axis=0)),
                np.maximum(sides[:, 1], other_mode.max(axis=0)),
            ],
            axis=1,
        )
    sides, _ = _grow(energy, sides, least, problem)
    return [(float(low), float(high)) for low, high in sides]


def _grow(energy: Energy, sides: np.ndarray, least: float, problem: Problem) -> tuple[np.ndarray, float]:
    sides = sides.copy()
    first = sides[:, 1] - sides[:, 0]
    for _ in range(200):
        H = energy(coarse_points(sides).reshape(-1, len(sides))).reshape((_COARSE[len(sides)],) * len(sides))
        least = min(least, float(H.min()))
        has_density = least_on_faces(H) < least + FACE_ENERGY + 1.5
        if not has_density.any():
            return sides, least
        width = sides[:, 1] - sides[:, 0]
        sides[:, 0] -= np.where(has_density[:, 0], 0.25 * width, 0.0)
        sides[:, 1] += np.where(has_density[:, 1], 0.25 * width, 0.0)
        unbounded = np.flatnonzero(width > _WIDEST * np.maximum(first, 1.0))
        if unbounded.size:
            name = problem.coordinate_names()[int(unbounded[0])]
            raise never_decays(name, sides[unbounded[0]])
    return sides, least


def never_decays(name: str, side: np.ndarray) -> ValueError:
    """The error for a target that does not fit in a box."""
    return ValueError(
        f"the density exp(-H) does not decay in {name}: it is still above 1e-15 of its maximum at {name} = "
        f"{side[0]:.3g} or {side[1]:.3g}, so no box contains the mass. Check that H depends on {name} and "
        "grows in both directions (a momentum needs its kinetic energy in H), or give box=… for a heavy tail."
    )


def _shrink(energy: Energy, sides: np.ndarray, least: float) -> tuple[np.ndarray, bool]:
    """The box around the points with density, plus one coarse cell; whether it is nearly the same box."""
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
    """Raise if a box misses the mass; return a note if there is density at a face.

    `at_face` is the least H on each face, (d, 2); `least` is the least H inside.
    """
    lowest = np.unravel_index(int(np.argmin(at_face)), at_face.shape)
    name = names[int(lowest[0])]
    if start_energy < least - 3.0 or float(at_face.min()) <= least + 0.5:
        where = (
            f"the example state has {np.exp(min(least - start_energy, 700.0)):.3g} times its maximum density"
            if start_energy < least - 3.0
            else f"the maximum of the density is at its face {name} = {box[int(lowest[0])][int(lowest[1])]:g}"
        )
        raise ValueError(
            f"the box {box} does not contain the mass: {where}. Give a box around the mass, or leave "
            "out box to have it found."
        )
    remaining = float(np.exp(least - at_face.min()))
    if remaining > 1e-12:
        return [
            f"at the face {name} = {box[int(lowest[0])][int(lowest[1])]:g} of the box the density is still "
            f"{remaining:.1e} of its maximum: the flux must vanish inside the box, but does not. Give a "
            "wider box, or leave out box to have it found."
        ]
    return []
