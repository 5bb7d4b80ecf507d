"""Points of the target and a box around it in any dimension, by sampling along coordinate lines."""

from dataclasses import dataclass

import numpy as np

from fokker.completion._box import FACE_ENERGY, Box, Energy, never_decays
from fokker.dynamics.problem import Problem

Array = np.ndarray

_CHAINS = 32
_NODES = 129
# Sweeps at a temperature of 4, to reach the tails and nearby modes, and then at 1, for typical points.
_HOT_SWEEPS, _SWEEPS, _HOT = 8, 12, 4.0
_MOST_GROWTH = 60


@dataclass(frozen=True, eq=False)
class Exploration:
    """A box, points drawn from exp(-H), and the least H that occurred."""

    box: Box
    points: Array
    least: float


def explore(energy: Energy, problem: Problem, box: Box | None) -> Exploration:
    """Griddy Gibbs: coordinate by coordinate, each chain draws from exp(-H) on the nodes of a line.

    Without a given box, the sides grow until the density at both ends of every line is below 1e-15 of its
    maximum, and shrink to the region above that. The draws are the same at every call.
    """
    rng = np.random.default_rng(0)
    start = np.asarray(problem.start)
    d, names = len(start), problem.coordinate_names()
    points = np.tile(start, (_CHAINS, 1))
    if box is None:
        sides = np.stack([start - 1.0, start + 1.0], axis=1)
    else:
        sides = np.array(box)
        points = np.clip(points, sides[:, 0], sides[:, 1])
    widest = np.full((d, 2), [np.inf, -np.inf])
    least = float(energy(points)[0])
    for sweep in range(_SWEEPS):
        temperature = _HOT if sweep < _HOT_SWEEPS else 1.0
        for a in range(d):
            for attempt in range(_MOST_GROWTH + 1):
                nodes = np.linspace(sides[a, 0], sides[a, 1], _NODES)
                H = _along(energy, points, a, nodes)
                least = min(least, float(H.min()))
                if box is not None or not (change := _resized(sides, a, nodes, H, least)):
                    break
                if change == "wider" and attempt == _MOST_GROWTH:
                    raise never_decays(names[a], sides[a])
            points = points.copy()
            points[:, a] = _draw(rng, nodes, H / temperature)
            if sweep >= _SWEEPS // 2:
                widest[a] = [min(widest[a, 0], sides[a, 0]), max(widest[a, 1], sides[a, 1])]
    final = sides if box is not None else widest
    return Exploration([(float(low), float(high)) for low, high in final], points, least)


def _along(energy: Energy, points: Array, axis: int, nodes: Array) -> Array:
    """H on the line through each point along one axis: (chains, nodes)."""
    lines = np.repeat(points[:, None, :], len(nodes), axis=1)
    lines[:, :, axis] = nodes
    return energy(lines.reshape(-1, points.shape[1])).reshape(len(points), len(nodes))


def _resized(sides: Array, a: int, nodes: Array, H: Array, least: float) -> str:
    """Change the side of one axis in place if necessary; return "wider", "narrower" or ""."""
    lowest = H.min(axis=0)
    width = sides[a, 1] - sides[a, 0]
    has_density = np.array([lowest[0], lowest[-1]]) < least + FACE_ENERGY
    if has_density.any():
        sides[a] += [-width / 2 * has_density[0], width / 2 * has_density[1]]
        return "wider"
    inside = np.flatnonzero(lowest < least + FACE_ENERGY + 5.0)
    cell = nodes[1] - nodes[0]
    if not inside.size:
        return ""
    low, high = nodes[inside[0]] - 2 * cell, nodes[inside[-1]] + 2 * cell
    if high - low < 0.8 * width:
        sides[a] = [low, high]
        return "narrower"
    return ""


def _draw(rng: np.random.Generator, nodes: Array, H: Array) -> Array:
    """One draw for each line from exp(-H) on its nodes, uniform within the cell."""
    weights = np.exp(-(H - H.min(axis=1, keepdims=True)))
    cumulative = np.cumsum(weights, axis=1)
    level = rng.random((len(H), 1)) * cumulative[:, -1:]
    node = np.minimum((cumulative < level).sum(axis=1), len(nodes) - 1)
    offset = (rng.random(len(H)) - 0.5) * (nodes[1] - nodes[0])
    return np.clip(nodes[node] + offset, nodes[0], nodes[-1])
