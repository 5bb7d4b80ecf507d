"""The modes that contain the points: a verdict is valid only around them."""

import numpy as np

from fokker.checker._evaluate import Evaluator

_POINTS, _NODES = 48, 9
# Two modes are separated by an energy that is higher than at both ends of a segment by this much.
_BARRIER = 3.0


def find_modes(evaluate: Evaluator, points: np.ndarray) -> np.ndarray:
    """The point of least energy of each mode, the deepest first.

    Points belong to the same mode if a chain of segments connects them on which H does not exceed its values
    at the ends by `_BARRIER`. A convex H has one mode, and so has a curved valley with enough points.
    """
    selected = points[np.linspace(0, len(points) - 1, min(len(points), _POINTS)).astype(int)]
    energies = evaluate.energy(selected)
    selected, energies = selected[np.isfinite(energies)], energies[np.isfinite(energies)]
    n, d = selected.shape
    first, second = np.triu_indices(n, 1)
    nodes = np.linspace(0, 1, _NODES + 2)[1:-1]
    between = selected[first][:, None] + nodes[:, None] * (selected[second] - selected[first])[:, None]
    heights = evaluate.energy(between.reshape(-1, d)).reshape(-1, _NODES).max(axis=1)
    joined = heights <= np.maximum(energies[first], energies[second]) + _BARRIER
    label = np.arange(n)
    for a, b in zip(first[joined], second[joined], strict=True):
        if label[a] != label[b]:
            label[label == max(label[a], label[b])] = min(label[a], label[b])
    modes = [np.flatnonzero(label == k)[np.argmin(energies[label == k])] for k in np.unique(label)]
    return selected[sorted(modes, key=lambda i: energies[i])]
