"""Values that are missing, None, NaN, those of pandas or masked ones; or no real numbers, such as dates."""

from typing import Any

import numpy as np

# What NumPy turns into other numbers: the imaginary part is lost, the unit of a time, all fields but one.
_NOT_REAL = {"c": "complex numbers", "M": "dates", "m": "durations", "V": "records"}
_SCALARS = complex | np.complexfloating | np.datetime64 | np.timedelta64


def unmasked(values: Any, name: str) -> np.ndarray:
    """Values as an array; raise where one is masked, since an array has another value in its place."""
    if np.ma.is_masked(values):
        row = np.argwhere(np.ma.getmaskarray(values))[0][0]
        raise ValueError(f"{name} has a masked value, first in row {row}: remove the row, or give the value.")
    return np.asarray(values)


def real_numbers(values: Any, name: str) -> np.ndarray:
    """Values as an array; raise for those that would silently become other numbers."""
    array = unmasked(values, name)
    if array.dtype.kind == "O":
        wrong = next((x for x in array.ravel() if isinstance(x, _SCALARS)), None)
        kind = "O" if wrong is None else np.asarray(wrong).dtype.kind
    else:
        kind = array.dtype.kind
    if kind == "c":
        # With the words that scikit-learn has for it.
        raise ValueError(
            f"Complex data not supported: {name} has complex numbers: give real ones, such as the real and "
            "the imaginary parts by themselves."
        )
    if kind in _NOT_REAL:
        raise ValueError(
            f"{name} has {_NOT_REAL[kind]}, of the type {array.dtype}, and numbers are needed: give "
            "numbers, for example as days since the first, or one column per field."
        )
    return array


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
