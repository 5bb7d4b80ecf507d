"""Sums over words whose rounding does not depend on how many topics there are beside."""

from typing import Any

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def column_sums(x: np.ndarray) -> Any:
    """Σ_w x_wk of each column, in float64, from the first row to the last.

    NumPy adds a single column in another order than several: a process with one topic would differ from one
    with all of them.
    """
    totals = np.zeros(x.shape[1])
    for w in range(x.shape[0]):
        for k in range(x.shape[1]):
            totals[k] += x[w, k]
    return totals
