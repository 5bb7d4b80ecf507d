"""How many decimals of an estimate to show: those that its standard error leaves certain."""

import numpy as np


def decimals(error: float) -> int:
    """Up to the first digit of a standard error; two where this cannot be said."""
    if not (np.isfinite(error) and error > 0):
        return 2
    return int(np.clip(-np.floor(np.log10(error)), 0, 15))


def with_error(value: float, error: float, sign: str = "") -> str:
    """An estimate with its standard error, as in "1.00 ± 0.02"; `sign="+"` shows that of a positive one."""
    places = decimals(error)
    return f"{value:{sign}.{places}f} ± {error:.{places}f}"
