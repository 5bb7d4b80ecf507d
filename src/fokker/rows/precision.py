r"""Whether data lose what matters when they are rounded to single precision.

Single precision stores x in steps of about q = 2⁻²³|x|. What N rows say of a column's mean is known to
sd/√N. So a column is refused where rounding changes it and

    q √N > sd / 4,  q = 2⁻²³ √mean(x²):

rounding by at most q/2 may then shift a mean by an eighth of its standard error. Columns around zero never
are, as q is 10⁻⁷ of their sd; a constant column, and whole numbers up to 2²⁴, lose nothing. Two columns that
a model may subtract, such as a start and an end in seconds since 1970, are refused by the same rule for their
difference.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from fokker.rows.values import stored_dtype

# The part of a standard error that one step of single precision may be.
_PART = 0.25
# Numbers that are looked at, in rows spread evenly over the data; and the most columns whose differences are.
_NUMBERS, _MOST_PAIRED = 2**20, 64

_CENTRE = "subtract a constant where the data are prepared"
_DOUBLE = "compute in double precision, as by fk.Posterior(…, precision='double')"


class PrecisionError(ValueError):
    """Data that single precision would round noticeably."""


def _sampled(values: np.ndarray) -> np.ndarray:
    """Rows spread evenly over an array, as a matrix of double precision."""
    per_row = max(1, int(np.prod(values.shape[1:], dtype=np.int64)))
    step = max(1, len(values) * per_row // _NUMBERS)
    return np.asarray(values[::step], np.float64).reshape(-1, per_row)


def is_exact(given: np.dtype, stored: np.dtype | None = None) -> bool:
    """Whether the stored type has all the numbers of the given one; whole numbers stay whole."""
    wanted = stored_dtype(given) if stored is None else np.dtype(stored)
    return wanted.kind in "iu" or np.can_cast(given, wanted, "safe")


def check_rounding(
    name: str, values: np.ndarray, rows: int, stored: np.dtype | None = None, can_be_double: bool = True
) -> None:
    """Raise a `PrecisionError` where a column loses too much by rounding.

    `values` are all rows or some of them, `rows` the number of all; `stored`: the type that they will have,
    where it is not the one that JAX gives them. `can_be_double`: whether double precision is a remedy.
    """
    if values.dtype.kind not in "iuf" or not values.size or is_exact(values.dtype, stored):
        return
    wrong = _lost(_sampled(values), rows)
    if wrong is not None:
        column, middle, spread = wrong
        where = name if values.ndim == 1 else f"{name}, column {column},"
        step = float(np.spacing(np.float32(abs(middle))))
        centre = round(middle, -math.floor(math.log10(spread)))
        remedy = f"{_CENTRE}, as in x - {centre:.15g}{f', or {_DOUBLE}' if can_be_double else ''}"
        raise PrecisionError(
            f"{where} is about {middle:.10g} ± {spread:.3g}, and single precision stores it in steps of "
            f"{step:.3g}, too coarse for {rows:,} rows: {remedy}."
        )


def check_differences(columns: Sequence[tuple[str, np.ndarray]], rows: int) -> None:
    """Raise a `PrecisionError` where the difference of two columns, given by some of their rows, is lost."""
    wide = [(name, _sampled(x)) for name, x in columns if x.ndim == 1 and not is_exact(x.dtype)]
    for (name, x), (other, y) in itertools.combinations(wide[:_MOST_PAIRED], 2):
        if x.shape != y.shape or np.array_equal(_rounded(x) - _rounded(y), x - y):
            continue
        with np.errstate(all="ignore"):
            spread, step = float(np.std(x - y)), float(_step(x)[0])
        if 0 < spread < step * rows**0.5 / _PART:
            raise PrecisionError(
                f"{name} and {other} differ by {float(np.mean(x - y)):.3g} ± {spread:.3g}, and single "
                f"precision stores them in steps of {step:.3g}: give the difference as a column, "
                f"{_CENTRE} from both, or {_DOUBLE}."
            )


def _rounded(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float32).astype(np.float64)


def _step(x: np.ndarray) -> np.ndarray:
    """The distance of neighbouring numbers of single precision, at the size of each column."""
    return np.finfo(np.float32).eps * np.sqrt(np.mean(x**2, axis=0))


def _lost(x: np.ndarray, rows: int) -> tuple[int, float, float] | None:
    """The first column that loses too much: its number, mean and spread."""
    with np.errstate(all="ignore"):  # of what is not finite, which is refused elsewhere
        spread, step = np.std(x, axis=0), _step(x)
        is_changed = np.any(_rounded(x) != x, axis=0)
        wrong = is_changed & (x.min(axis=0) < x.max(axis=0)) & (step * rows**0.5 > _PART * spread)
    if not wrong.any():
        return None
    column = int(np.argmax(wrong))
    return column, float(np.mean(x[:, column])), float(spread[column])
