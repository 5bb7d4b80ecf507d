"""The temperature of theta itself."""

import numpy as np


def configurational_temperature(draws: np.ndarray, slopes: np.ndarray) -> tuple[float, float]:
    r"""E[(θ - Eθ)·∇U]/d, which is T for draws of exp(-U/T) without walls, and its standard error.

    The virial theorem: what the kinetic temperature is to the momentum. `draws` and `slopes`, ∇U at them, are
    m × d. A step too large, or minibatch noise not accounted for, shows as too high a value.
    """
    each = np.sum((draws - draws.mean(axis=0)) * slopes, axis=1) / draws.shape[1]
    m = len(each)
    # The mean was taken from the same draws, which costs one of them.
    return float(each.sum() / (m - 1)), float(each.std(ddof=1) / np.sqrt(m))
