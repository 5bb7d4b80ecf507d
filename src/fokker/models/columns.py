"""How far the numbers of columns are apart."""

import numpy as np
from jaxtyping import Float

# Numbers of a column that differ by less than this share of the largest are the same.
_ROUNDING = 1e-12


def deviations(values: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " p"]:
    """The standard deviation of each column; zero where its numbers differ by rounding, or squares vanish.

    Of a column of 0.1 alone NumPy's is 1e-17, as the mean is rounded.
    """
    is_varied = np.ptp(values, axis=0) > _ROUNDING * np.max(np.abs(values), axis=0)
    return np.where(is_varied, values.std(0), 0.0)
