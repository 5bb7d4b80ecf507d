"""How numbers are shown: estimates with the decimals that their standard error leaves certain, and shares."""

import numpy as np


def decimals(error: float) -> int:
    """Up to the first digit of a standard error; two where this cannot be said."""
    if not (np.isfinite(error) and error > 0):
        return 2
    return int(np.clip(-np.floor(np.log10(error)), 0, 15))


def with_error(value: float, error: float, sign: str = "") -> str:
    """An estimate with its standard error, as in "1.00 ± 0.02"; `sign="+"` shows that of a positive one."""
    places = decimals(error)
    return f"{without_minus_zero(f'{value:{sign}.{places}f}')} ± {error:.{places}f}"


def without_minus_zero(text: str) -> str:
    """A number as text, where a value that is rounded to zero has no sign."""
    return text.removeprefix("-") if text.startswith("-") and not text.strip("-0.") else text


def r_hat_text(value: float) -> str:
    """R-hat as text: of chains that stand still it is some number of many digits, or infinite."""
    return "–" if np.isnan(value) else "> 1000" if value > 1000 else f"{value:.3f}"


def percent(share: float, places: int = 0, sign: str = "") -> str:
    """A share as in "80 %"; `sign="+"` shows that of a positive one."""
    return f"{100 * share:{sign}.{places}f} %"
