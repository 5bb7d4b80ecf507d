"""The modes that contain the points: a verdict is valid only around them."""

from collections.abc import Callable

import jax
import numpy as np
from scipy.optimize import minimize

from fokker._core.quick import compile_once
from fokker.checker._evaluate import Evaluator

_POINTS, _NODES = 48, 9
# Two modes are separated by an energy that is higher than at both ends of a segment by this much.
_BARRIER = 3.0
# Rounds in which paths are bent into valleys, and to how many near neighbours of each component.
_ROUNDS, _NEIGHBOURS = 6, 3
# Steps of a descent to a minimum along a valley, and into a valley; how much higher it may end.
_ALONG, _INTO, _HIGHER = 500, 50, 0.1


def find_modes(evaluate: Evaluator, points: np.ndarray) -> np.ndarray:
    """The point of least energy of each mode, the deepest first.

    Points descend first: in many dimensions draws are higher than the barriers between modes. Then they
    belong to the same mode if a chain of segments connects them on which H does not exceed its values at the
    ends by `_BARRIER`. Segments between two parts of a curved valley leave it: their middles descend into it
    and connect the parts, as does the minimum at which both end.
    """
    selected = points[np.linspace(0, len(points) - 1, min(len(points), _POINTS)).astype(int)]
    selected = selected[np.isfinite(evaluate.energy(selected))]
    descend = _descent(evaluate)
    ends = np.array([descend(x, _INTO) for x in selected]).reshape(selected.shape)
    selected = np.where(np.isfinite(evaluate.energy(ends))[:, None], ends, selected)
    energies = evaluate.energy(selected)
    label = _connected(evaluate, selected, energies, np.arange(len(selected)))
    for _ in range(_ROUNDS):
        lowest = _lowest(label, energies)
        if len(lowest) < 2:
            break
        minima = [descend(selected[i], _ALONG) for i in lowest]
        pairs = _nearest_pairs(selected, label)
        middles = [descend((selected[a] + selected[b]) / 2, _INTO) for a, b in pairs]
        added = np.array(minima + middles)
        of_added = evaluate.energy(added)
        # A middle that stays on the barrier, as at a saddle, connects nothing.
        limits = np.concatenate([energies[lowest], [np.max(energies[[a, b]]) for a, b in pairs]]) + _HIGHER
        is_low = of_added <= limits
        # The minimum below a point is in its mode.
        of_label = np.concatenate([label[lowest], len(selected) + np.arange(len(middles))])
        selected, energies, label = (
            np.concatenate([old, new[is_low]])
            for old, new in ((selected, added), (energies, of_added), (label, of_label))
        )
        label = _connected(evaluate, selected, energies, label)
    return selected[_lowest(label, energies)]


def _lowest(label: np.ndarray, energies: np.ndarray) -> np.ndarray:
    """The point of least energy of each component, the deepest first."""
    lowest = [np.flatnonzero(label == k)[np.argmin(energies[label == k])] for k in np.unique(label)]
    return np.array(sorted(lowest, key=lambda i: energies[i]), int)


def _connected(
    evaluate: Evaluator, points: np.ndarray, energies: np.ndarray, label: np.ndarray
) -> np.ndarray:
    """The component of each point, by segments between points that are not yet in the same component."""
    first, second = np.triu_indices(len(points), 1)
    apart = label[first] != label[second]
    first, second = first[apart], second[apart]
    nodes = np.linspace(0, 1, _NODES + 2)[1:-1]
    between = points[first][:, None] + nodes[:, None] * (points[second] - points[first])[:, None]
    heights = evaluate.energy(between.reshape(-1, points.shape[1])).reshape(-1, _NODES).max(axis=1)
    joined = heights <= np.maximum(energies[first], energies[second]) + _BARRIER
    label = label.copy()
    for a, b in zip(first[joined], second[joined], strict=True):
        if label[a] != label[b]:
            label[label == max(label[a], label[b])] = min(label[a], label[b])
    return label


def _nearest_pairs(points: np.ndarray, label: np.ndarray) -> list[tuple[int, int]]:
    """From each component the shortest ways to points of others."""
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    distance[label[:, None] == label[None]] = np.inf
    pairs = set()
    for k in np.unique(label):
        inside = np.flatnonzero(label == k)
        nearest = np.argmin(distance[inside], axis=1)
        for i in np.argsort(distance[inside, nearest])[:_NEIGHBOURS]:
            a, b = int(inside[i]), int(nearest[i])
            pairs.add((min(a, b), max(a, b)))
    return sorted(pairs)


def _descent(evaluate: Evaluator) -> Callable[[np.ndarray, int], np.ndarray]:
    """Descends from a point, in at most so many steps."""
    energy_and_gradient = compile_once(jax.value_and_grad(evaluate.problem.hamiltonian))

    def values(x: np.ndarray) -> tuple[float, np.ndarray]:
        energy, gradient = energy_and_gradient(x)
        return float(energy), np.asarray(gradient, np.float64)

    def descend(x: np.ndarray, steps: int) -> np.ndarray:
        options = {"maxiter": steps, "maxls": 50, "ftol": 0.0}  # in a narrow valley H falls slowly
        end: np.ndarray = minimize(values, x, jac=True, method="L-BFGS-B", options=options).x
        return end if np.all(np.isfinite(end)) else x

    return descend
