r"""Whether data lose what matters when they are rounded to single precision.

Single precision stores x in steps of about q = 2⁻²³|x|. A column that rounding changes is refused

- by its mean: what N rows say of it is known to sd/√N. Rounding by at most q/2 may shift it by an eighth of
  that where  q √N > sd/4,  q = 2⁻²³ √mean(x²);
- by its resolution: q is more than 1/4096 of the sd and more than 1/16 of the typical gap between
  neighbouring values, as of Julian days over some years: a period of a day would be lost;
- by its values: most pairs of neighbouring values become equal, as of times within seconds in two years.

Columns around zero never are, as q is 10⁻⁷ of their sd; a constant column, and whole numbers up to 2²⁴, lose
nothing. Two columns that a model may subtract, such as a start and an end in seconds since 1970, are refused
by the first rule for their difference. What is finer than these rules, and a small part of the rows that is
rounded more than the rest, is not seen. Data that are given in single precision are taken as they are.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from fokker._core.digits import percent
from fokker.rows.values import check_underflow, stored_dtype

# The part of a standard error, of a sd and of a gap that one step of single precision may be.
_PART, _LEVELS, _GAP = 0.25, 4096, 16
# Numbers that are looked at, in rows spread evenly over the data; and of a column, where values are sorted.
_NUMBERS, _SORTED = 2**20, 2**16
# The most columns whose differences are looked at.
_MOST_PAIRED = 64
# Values of double precision that differ by less than this, relative to them, differ by rounding.
_NOISE = 2.0**-44

_CENTRE = "subtract a constant where the data are prepared"
_OWN_TYPE = "if such differences do not matter, give it as x.astype(np.float32)"
DOUBLE = "compute in double precision, for example by fk.Posterior(…, precision='double')"


class PrecisionError(ValueError):
    """Data that single precision would round noticeably."""


def _sampled(values: np.ndarray) -> np.ndarray:
    """Rows spread evenly over an array, as a matrix of double precision; of complex numbers both parts."""
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag], -1)
    per_row = max(1, int(np.prod(values.shape[1:], dtype=np.int64)))
    step = max(1, len(values) * per_row // _NUMBERS)
    return np.asarray(values[::step], np.float64).reshape(-1, per_row)


def is_exact(dtype: np.dtype, stored: np.dtype | None = None) -> bool:
    """Whether the stored type has all the numbers of the given one; whole numbers stay whole."""
    wanted = stored_dtype(dtype) if stored is None else np.dtype(stored)
    return wanted.kind in "iu" or np.can_cast(dtype, wanted, "safe")


def check_rounding(
    name: str,
    values: np.ndarray,
    rows: int,
    stored: np.dtype | None = None,
    double: str | None = DOUBLE,
) -> None:
    """Raise a `PrecisionError` where a column loses too much by rounding.

    `values` are all rows or some of them, `rows` the number of all; `stored`: the type that they will have,
    where it is not the one that JAX gives them. `double`: how to compute in double precision, if one can.
    """
    if values.dtype.kind not in "iufc" or not values.size or is_exact(values.dtype, stored):
        return
    if stored is not None:
        check_underflow(name, values, stored)
    x = _sampled(values)
    with np.errstate(all="ignore"):  # of what is not finite, which is refused elsewhere
        spread, is_changed = np.std(x, axis=0), _is_changed(x)
        is_lost = is_changed & (_step(x) * rows**0.5 > _PART * spread)
        is_coarse = is_changed & (spread < _LEVELS * _step(x))
    for column in np.flatnonzero(is_lost | is_coarse | (is_changed & _are_merged(x))).tolist():
        where = _column_name(name, x, column)
        if is_lost[column]:
            raise PrecisionError(
                f"{_described(where, x[:, column])}, too coarse for {rows:,} rows: "
                f"{_remedies(x[:, column], double)}."
            )
        _check_resolution(where, x[:, column], double)


def check_distinct(name: str, values: np.ndarray) -> None:
    """Raise a `PrecisionError` where rounding makes most neighbouring values of a column equal.

    For rows at which a function is evaluated: how many there are says nothing of the scale that matters.
    """
    if values.dtype.kind not in "fc" or not values.size or is_exact(values.dtype):
        return
    x = _sampled(values)
    for column in np.flatnonzero(_is_changed(x) & _are_merged(x)).tolist():
        _check_resolution(_column_name(name, x, column), x[:, column], DOUBLE)


def _neighbours(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gaps between neighbouring values of each column, 0 where they are equal, and which are lost."""
    ordered = np.sort(x[:: max(1, len(x) // _SORTED)], axis=0)
    gaps = np.diff(ordered, axis=0)
    gaps = np.where(gaps > _NOISE * np.abs(ordered[1:]), gaps, 0.0)
    return gaps, (np.diff(_rounded(ordered), axis=0) == 0) & (gaps > 0)


def _are_merged(x: np.ndarray) -> np.ndarray:
    """Which columns have most of their neighbouring values made equal."""
    with np.errstate(all="ignore"):
        gaps, is_lost = _neighbours(x)
    return 2 * is_lost.sum(0) > (gaps > 0).sum(0)


def _check_resolution(where: str, x: np.ndarray, double: str | None) -> None:
    """Raise where a column, which has few steps of single precision, loses neighbouring values."""
    gaps, is_lost = _neighbours(x[:, None])
    if _are_merged(x[:, None])[0]:
        share = is_lost.sum() / (gaps > 0).sum()
        raise PrecisionError(
            f"{_described(where, x)}, which makes {percent(share)} of its neighbouring values equal: "
            f"{_CENTRE}, of several groups the origin of each as a column of its own"
            f"{f', or {double}' if double else ''}."
        )
    gap = float(np.median(gaps[gaps > 0]))
    if _spacing(x) > gap / _GAP:
        raise PrecisionError(
            f"{_described(where, x)}, where neighbouring values are {gap:.3g} apart: {_remedies(x, double)}; "
            f"{_OWN_TYPE}."
        )


def _described(where: str, x: np.ndarray) -> str:
    return (
        f"{where} is about {np.mean(x):.10g} ± {np.std(x):.3g}, and single precision stores it in steps of "
        f"{_spacing(x):.3g}"
    )


def _remedies(x: np.ndarray, double: str | None) -> str:
    centre = round(float(np.mean(x)), -math.floor(math.log10(np.std(x))))
    return f"{_CENTRE}, as in x - {centre:.15g}{f', or {double}' if double else ''}"


def check_differences(
    columns: Sequence[tuple[str, np.ndarray]],
    rows: int,
    stored: np.dtype | None = None,
    double: str | None = DOUBLE,
) -> None:
    """Raise a `PrecisionError` where the difference of two columns, given by some of their rows, is lost.

    Arrays of more axes have several columns. The difference of two columns of whole numbers is exact.
    """
    single = list(itertools.islice(_single_columns(columns, stored), _MOST_PAIRED))
    for (name, x, is_whole), (other, y, is_whole_too) in itertools.combinations(single, 2):
        if x.shape != y.shape or (is_whole and is_whole_too):
            continue
        step = float(_step(x[:, None])[0])
        limit = step * rows**0.5 / _PART
        # The spread of a difference is at least the difference of the spreads.
        if not abs(float(np.std(x)) - float(np.std(y))) < limit:
            continue
        with np.errstate(all="ignore"):
            spread = float(np.std(x - y))
            noise = _NOISE * float(np.abs(x).max())
        if noise < spread < limit and not np.array_equal(_rounded(x) - _rounded(y), x - y):
            raise PrecisionError(
                f"{name} and {other} differ by {float(np.mean(x - y)):.3g} ± {spread:.3g}, and single "
                f"precision stores them in steps of {step:.3g}: give the difference as a column, or "
                f"{_CENTRE} from both{f', or {double}' if double else ''}."
            )


def _single_columns(
    columns: Sequence[tuple[str, np.ndarray]], stored: np.dtype | None
) -> Iterator[tuple[str, np.ndarray, bool]]:
    """The columns that rounding changes: name, some of the values, and whether they stay whole numbers."""
    for name, values in columns:
        is_whole = values.dtype.kind in "iu" and stored is None
        is_kept = is_exact(values.dtype, stored) and not is_whole
        if values.dtype.kind not in "iufc" or not values.size or is_kept:
            continue
        x = _sampled(values)
        for column in np.flatnonzero(_is_changed(x)).tolist():
            yield _column_name(name, x, column), x[:, column], is_whole


def _column_name(name: str, x: np.ndarray, column: int) -> str:
    return name if x.shape[1] == 1 else f"{name}, column {column},"


def _rounded(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float32).astype(np.float64)


def _spacing(x: np.ndarray) -> float:
    """The distance of neighbouring numbers of single precision in the middle of a column."""
    return float(np.spacing(np.float32(np.median(np.abs(x)))))


def _step(x: np.ndarray) -> np.ndarray:
    """The distance of neighbouring numbers of single precision, at the size of each column."""
    return np.finfo(np.float32).eps * np.sqrt(np.mean(x**2, axis=0))


def _is_changed(x: np.ndarray) -> np.ndarray:
    """Which columns rounding changes, of those that are not constant but for the rounding of doubles."""
    with np.errstate(all="ignore"):
        is_constant = np.ptp(x, axis=0) <= _NOISE * np.abs(x).max(axis=0)
        return np.any(_rounded(x) != x, axis=0) & ~is_constant
