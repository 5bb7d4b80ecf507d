"""Missing values among labels and identifiers: None, NaN and those of pandas."""

import numpy as np


def check_none_missing(values: np.ndarray, name: str, what: str) -> None:
    """Raise where an entry is missing, or where entries of several types cannot be put in order."""
    for place in np.ndindex(values.shape) if values.dtype.kind in "OfcmM" else ():
        if _is_missing(values[place]):
            value = values[place]
            value = value.item() if isinstance(value, np.floating) else value  # whose repr has its class
            raise ValueError(
                f"{name} has {value!r} in row {place[0]}, which is no {what}: remove the row, or "
                f"give the {what}."
            )
    if values.dtype.kind == "O":
        kinds = {str if isinstance(x, str) else float if _is_number(x) else type(x) for x in values.ravel()}
        if len(kinds) > 1:
            names = " and ".join(sorted("numbers" if k is float else k.__name__ for k in kinds))
            raise TypeError(f"{name} mixes {names}: give every {what} in the same type, for example as text.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number | np.bool_)


def _is_missing(value: object) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | np.datetime64 | np.timedelta64) and bool(value != value)
