"""Groups of documents: by the values of a column, or by the years, months or days of its dates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fokker.rows.column import listed
from fokker.rows.texts import days

Bin = Literal["year", "month", "day"]
# More groups than this can be neither read in a table nor seen in a plot.
_MAX_GROUPS = 100
_MISSING = {"", "na", "nan", "nat", "none", "null", "<na>"}


@dataclass(frozen=True)
class TopicGroups:
    """The group of each document.

    `by`: what they are called. `labels`: the groups, in order. `codes` (D,): the group of each document, -1
    where its value is missing. `is_ordered`: whether they are numbers or dates, which a line can connect.
    """

    by: str
    labels: tuple[str, ...]
    codes: np.ndarray
    is_ordered: bool

    @staticmethod
    def of(values: Iterable[object], by: str, bin: Bin | None = None) -> "TopicGroups":
        """Groups of equal values.

        Args:
            values: one per document: texts, numbers or dates; None, NaN or an empty text where one is
                missing.
            by: the name of the column, for messages and tables.
            bin: "year", "month" or "day" of values that are dates; None takes the values as they are.
        """
        if bin not in (None, *get_args(Bin)):
            raise ValueError(f"bin must be one of {', '.join(get_args(Bin))}, or None; {bin!r} was given.")
        texts = np.array([_text(value) for value in values], dtype=object)
        is_known = np.array([text.lower() not in _MISSING for text in texts], bool)
        if not is_known.any():
            raise ValueError(f"by={by!r}: no document has a value there: choose another column.")
        if bin is not None:
            texts[is_known] = _binned(texts[is_known], np.flatnonzero(is_known), by, bin)
        labels, order = _ordered(set(texts[is_known]))
        if len(labels) > _MAX_GROUPS:
            raise ValueError(
                f"by={by!r} has {len(labels):,} different values, such as {listed(labels[:3])}; at most "
                f"{_MAX_GROUPS} can be shown: if they are dates, set bin='year' or bin='month', else choose "
                "a column with fewer."
            )
        number = {label: i for i, label in enumerate(labels)}
        codes = np.array([number[t] if known else -1 for t, known in zip(texts, is_known, strict=True)])
        return TopicGroups(by, tuple(labels), codes, order)

    def select(self, documents: np.ndarray) -> "TopicGroups":
        """Those of the documents at these places of the column."""
        if len(documents) and documents.max() >= len(self.codes):
            raise ValueError(
                f"by={self.by!r} has {len(self.codes):,} values, and a document is at the place "
                f"{int(documents.max()) + 1:,} of the corpus: one value per document is needed, in the same "
                "order."
            )
        return TopicGroups(self.by, self.labels, self.codes[documents], self.is_ordered)


def _text(value: object) -> str:
    """A value as it is shown; a whole number of floating point, as missing values make of all, as one."""
    if value is None:
        return ""
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if is_whole else str(value).strip()  # type: ignore[call-overload]


def _binned(texts: np.ndarray, places: np.ndarray, by: str, bin: Bin) -> list[str]:
    try:
        since_1970 = days(by, texts, lambda row: f"document {int(places[row]) + 1}")
    except ValueError as error:
        raise ValueError(
            f"bin={bin!r}: {str(error).removeprefix(f'dates=[{by!r}]: ')} Or give bin=None to take the "
            "values as they are."
        ) from None
    dates = np.floor(since_1970).astype("datetime64[D]")
    return [str(date) for date in dates.astype(f"datetime64[{bin[0].upper()}]")]


def _ordered(labels: set[str]) -> tuple[list[str], bool]:
    """Labels in order, and whether they are numbers or dates."""
    try:
        return sorted(labels, key=float), True
    except ValueError:
        texts: Sequence[str] = sorted(labels)
    try:
        np.array(texts, "datetime64")
    except ValueError:
        return list(texts), False
    return list(texts), True


__all__ = ["Bin", "TopicGroups"]
