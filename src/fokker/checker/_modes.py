"""Which modes the points are in: a verdict reaches no further than the points."""

import numpy as np

from fokker.checker._evaluate import Evaluator

_POINTS, _NODES = 48, 9
# An energy above both ends of a segment by this much separates two modes.
_BARRIER = 3.0


def find_modes(evaluate: Evaluator, points: np.ndarray) -> np.ndarray:
    """The point of least energy of each mode, the deepest first.

    Points are of one mode if a chain of segments joins them on which H does not rise above its ends by
    `_BARRIER`: of a convex H there is one, however bent a valley is there is one where its points are dense.
    """
    some = points[np.linspace(0, len(points) - 1, min(len(points), _POINTS)).astype(int)]
    energies = evaluate.energy(some)
    some, energies = some[np.isfinite(energies)], energies[np.isfinite(energies)]
    n, d = some.shape
    first, second = np.triu_indices(n, 1)
    nodes = np.linspace(0, 1, _NODES + 2)[1:-1]
    between = some[first][:, None] + nodes[:, None] * (some[second] - some[first])[:, None]
    heights = evaluate.energy(between.reshape(-1, d)).reshape(-1, _NODES).max(axis=1)
    joined = heights <= np.maximum(energies[first], energies[second]) + _BARRIER
    label = np.arange(n)
    for a, b in zip(first[joined], second[joined], strict=True):
        if label[a] != label[b]:
            label[label == max(label[a], label[b])] = min(label[a], label[b])
    modes = [np.flatnonzero(label == k)[np.argmin(energies[label == k])] for k in np.unique(label)]
    return some[sorted(modes, key=lambda i: energies[i])]
