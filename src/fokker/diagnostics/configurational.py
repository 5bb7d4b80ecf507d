"""The temperature of theta itself."""

import numpy as np


def configurational_temperature(draws: np.ndarray, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""E[(θ_i - Eθ_i) ∂U/∂θ_i] of every coordinate, T for draws of exp(-U/T) without walls; standard errors.

    The virial theorem: what the kinetic temperature is to the momentum. `draws` and `slopes`, ∇U at them, are
    m × d. A step too large, or minibatch noise not accounted for, shows as too high a value.
    """
    each = (draws - draws.mean(axis=0)) * slopes
    m = len(each)
    # The mean was taken from the same draws, which costs one of them.
    return each.sum(axis=0) / (m - 1), each.std(axis=0, ddof=1) / np.sqrt(m)
