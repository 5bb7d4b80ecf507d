"""Arrays in pages: numbers as base64, which are smaller than their digits and quick to read."""

import base64
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

# Shorter arrays are lists, which people can read.
_SHORT = 64
# The code of a number that is not finite, among those of 16 bits.
_MISSING = 65535


def packed(values: ArrayLike) -> Any:
    """An array as JSON: a list of numbers, or base64 of 32-bit numbers if it is long."""
    flat = np.asarray(values, float).ravel()
    if flat.size <= _SHORT:
        return [float(f"{x:.7g}") if np.isfinite(x) else None for x in flat.tolist()]
    return {"f32": floats(flat)}


def floats(values: ArrayLike) -> str:
    """32-bit numbers, little-endian, in base64."""
    with np.errstate(over="ignore"):
        return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode()


def words(values: np.ndarray, low: ArrayLike, high: ArrayLike) -> str:
    """Numbers between two bounds in 16 bits each: to 1/65,534 of the range, enough for a picture."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    is_finite = np.isfinite(values)
    with np.errstate(all="ignore"):
        share = (values - low) / np.where(high > low, high - low, 1.0)
        codes = np.rint(np.clip(np.where(is_finite, share, 0.0), 0, 1) * (_MISSING - 1))
    return base64.b64encode(np.where(is_finite, codes, _MISSING).astype("<u2").tobytes()).decode()
