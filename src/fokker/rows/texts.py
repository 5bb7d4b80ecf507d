"""What texts in a column stand for: numbers written in another way, dates, or names."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pandas import Series

# Numbers as much of the world writes them: -1,4625 and 1.234,5; and with commas between thousands.
_DECIMAL_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_DECIMAL_POINT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# Digits with a sign of Unicode, a currency, a percent sign, a unit, or other marks between thousands.
_DECORATED = re.compile(r"[^\w\s]{0,2}\s?[+\-−]?\d[\d.,'’\s]*\s?([%‰°]?|[^\W\d_]{1,3}|[^\w\s])")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}([./])\d{1,2}\2\d{2,4}( .*)?")
# Dates that are no ISO 8601. A point is written between day, month and year in this order; with a slash it
# may be either.
_TIMES = ("", " %H:%M", " %H:%M:%S")
_DOTTED, _DAY_FIRST, _MONTH_FIRST = ("%d.%m.%Y",), ("%d/%m/%Y",), ("%m/%d/%Y",)
# Their century is a guess: 68 would be 2068 beside 1971 for 71.
_SHORT_YEARS = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%y-%m-%d")
# How many of the units of NumPy's times a day has; the coarser units are those of days.
_PER_DAY = {"h": 24, "m": 1440, "s": 86_400} | {
    unit: 86_400 * 10**power for unit, power in (("ms", 3), ("us", 6), ("ns", 9), ("ps", 12), ("fs", 15))
}
# Texts that are looked at, for what most of them are.
_LOOKED_AT = 1000


def advice(name: str, texts: Sequence[str], decimal: str | None = None) -> str:
    """What to do about a column whose values are these texts, most of them no numbers.

    `decimal`: the decimal mark of a text file, which the user can choose; None in files that have numbers.
    """
    option = "write numbers, as 1.5" if decimal is None else "give decimal=','"
    shown = [text.strip() for text in texts[:_LOOKED_AT] if text.strip()]

    def are_mostly(pattern: re.Pattern[str]) -> bool:
        return 2 * sum(bool(pattern.fullmatch(text)) for text in shown) > len(shown)

    if decimal == "," and (are_mostly(_DECIMAL_POINT) or are_mostly(_DECIMAL_COMMA)):
        return "which is not a number with decimal=',' and no point between thousands: correct the file."
    if all(_THOUSANDS.fullmatch(text) for text in shown):
        is_clear = any("." in text or text.count(",") > 1 for text in shown)
        instead = "" if is_clear else f", or if they are decimal commas {option}"
        return f"a number with commas between thousands: remove them from the file{instead}."
    if are_mostly(_DECIMAL_COMMA):
        return f"a number with a decimal comma: {option}."
    if are_mostly(_DATE):
        return f"which looks like a date: dates=[{name!r}] makes it a number, of days since 1970-01-01."
    if are_mostly(_THOUSANDS) or are_mostly(_DECORATED):
        return (
            "which looks like a number with further signs: write numbers alone. If it is a name, "
            f"categories=[{name!r}] gives each value a code, 0, 1, …."
        )
    return f"and numbers are needed: categories=[{name!r}] gives each value a code, 0, 1, …."


def has_decimal_comma(text: str) -> bool:
    """Whether a text is a number with a decimal comma, as -1,4625."""
    return bool(_DECIMAL_COMMA.fullmatch(text.strip()))


def days(name: str, values: np.ndarray, line: Callable[[int], str]) -> np.ndarray:
    """Dates, or texts of them, as days since 1970-01-01 00:00 UTC; NaN where one is missing.

    `line(row)` says where a row is. Dates without a zone are those of UTC.
    """
    import pandas

    if values.dtype.kind in "biufc":
        raise ValueError(f"dates=[{name!r}]: the column has numbers already: leave it out.")
    if values.dtype.kind == "M":
        return _days_of_times(name, values)
    series = pandas.Series(values, dtype=object if values.dtype.kind == "O" else None)
    is_missing = np.asarray(series.isna(), bool)
    dates = _parsed(series)
    if dates is None:
        first, second = (_by_format(series, formats) for formats in (_DAY_FIRST, _MONTH_FIRST))
        if first is not None and second is not None and not first.equals(second):
            raise ValueError(
                f"dates=[{name!r}]: {_first(series)!r} may be day/month or month/day, and no date in the "
                "column says which: write dates as 2024-12-31."
            )
        dates = first if first is not None else second
    if dates is None:
        if _by_format(series, _SHORT_YEARS) is not None:
            raise ValueError(
                f"dates=[{name!r}]: {_first(series)!r} has a year of two digits, and nothing says of which "
                "century: write dates as 2024-12-31."
            )
        wrong = np.asarray(pandas.to_datetime(series, errors="coerce", utc=True, format="ISO8601").isna())
        row = int(np.argmax(wrong & ~is_missing))
        raise ValueError(
            f"dates=[{name!r}]: {series.iloc[row]!r} in {line(row)} is not a date as the others: write dates "
            "as 2024-12-31, or 2024-12-31T23:59:00 with a time."
        )
    return _days_of_times(name, dates.to_numpy())


def _days_of_times(name: str, times: np.ndarray) -> np.ndarray:
    """Times of NumPy as days since 1970-01-01, in their own unit: nanoseconds end in the year 2262."""
    unit, _ = np.datetime_data(times.dtype)
    own = times.astype(f"datetime64[{unit if unit in _PER_DAY else 'D'}]")
    is_missing = np.isnat(times)
    if ((own.astype(times.dtype) != times) & ~is_missing).any():
        raise ValueError(f"dates=[{name!r}]: they are of the type {times.dtype}, too far from 1970 for days.")
    return np.where(is_missing, np.nan, own.astype(np.int64) / _PER_DAY.get(unit, 1))


def _parsed(series: "Series") -> "Series | None":
    """Dates that can be read in one way only: of their own type, by ISO 8601, or with points."""
    try:
        return _dates(series)
    except (ValueError, TypeError):
        return _by_format(series, _DOTTED)


def _by_format(series: "Series", formats: Sequence[str]) -> "Series | None":
    """The dates, if all are of one of these formats, with or without a time; else None."""
    for form in (day + of_day for day in formats for of_day in _TIMES):
        try:
            return _dates(series, form)
        except (ValueError, TypeError):
            continue
    return None


def _dates(series: "Series", form: str | None = None) -> "Series":
    """Dates of a format, by default of ISO 8601 or their own type, in UTC."""
    import pandas

    try:
        dates = pandas.to_datetime(series, format=form or "ISO8601", utc=form is None)
    except pandas.errors.OutOfBoundsDatetime:
        # Pandas 2 reads texts and dates of Python in nanoseconds, which end in 2262.
        return pandas.Series(np.array([_one_date(value, form) for value in series], "datetime64[us]"))
    return dates.dt.tz_localize(None) if form is None else dates


def _one_date(value: object, form: str | None) -> datetime | None:
    """One date as `_dates` reads it, of the years 1 to 9999; None for a missing one."""
    import pandas

    if pandas.isna(value):
        return None
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip()) if form is None else datetime.strptime(value, form)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time.min)
    if not isinstance(value, datetime):
        raise TypeError
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def _first(series: "Series") -> object:
    return series.dropna().iloc[0]
