"""One column of a table: whether it holds numbers, what is missing, and the codes of categories."""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fokker._core.names import nearest
from fokker.rows.texts import advice, days, has_decimal_comma

if TYPE_CHECKING:
    from pandas import Series

# The most names of columns, and labels of categories, in a message.
_MOST_NAMES = 12
# Values that are looked at together, so that a check of a mapped file takes no memory to speak of.
_VALUES = 2**22
# The number of what can be no category.
_NO_TEXT = -2


class TableColumn:
    """One column of a file, checked; `line(row)` says where in the file a row is.

    `values`: all of them, or for the problem of a column that cannot be used some of them. `pieces`: all
    values, a part at a time, for the codes of categories; by default `values` as they are. `missing`: the
    number of missing values and the row of the first, where it is known. `decimal`: the mark before
    decimals, in a text file; `note`: what is said besides of missing values among categories.
    """

    def __init__(
        self,
        name: str,
        values: Any,
        line: Callable[[int], str],
        pieces: Callable[[], Iterable[np.ndarray]] | None = None,
        missing: tuple[int, int] | None = None,
        decimal: str | None = None,
        note: str = "",
    ) -> None:
        self.name, self.values, self.line = name, values, line
        self._decimal, self._note = decimal, note
        self._pieces = pieces or (lambda: [np.asarray(values)])
        self.problem: str | None = None
        kind = values.dtype.kind
        infinite: int | None = None
        if missing is None and values.ndim == 1 and kind == "f":
            missing, infinite = _not_finite(values)
        if missing is not None and missing[0]:
            self.problem = self._missing_problem(*missing)
        elif infinite is not None:
            self.problem = (
                f"the column {name!r} has {values[infinite]} in {line(infinite)}, which is not finite: "
                "correct it, or remove the row."
            )
        elif kind not in "biufc":
            self.problem = self._text_problem(values)

    def _with_point(self, value: object) -> object:
        """A text with the decimal point that Python reads."""
        if self._decimal != "," or not isinstance(value, str):
            return value
        return value.replace(".", " ").replace(",", ".")

    def _missing_problem(self, count: int, first: int) -> str:
        advice = "remove these rows, or put a number there and add a column that marks them."
        return f"{self._missing_words(count, first)}: {advice}"

    def _missing_words(self, count: int, first: int) -> str:
        return (
            f"the column {self.name!r} has {count:,} missing value{'s' if count > 1 else ''}, first in "
            f"{self.line(first)}"
        )

    def missing_texts(self) -> str:
        """How many values of a column of texts are missing, and in which line the first is."""
        numbers = np.concatenate([_numbered(values, {}) for values in self._pieces()])
        return self._missing_words(int((numbers < 0).sum()), int(np.argmax(numbers < 0)))

    def _text_problem(self, values: np.ndarray) -> str:
        if values.dtype.kind not in "OUST" or values.ndim != 1:
            is_date = values.dtype.kind == "M" and values.ndim == 1
            instead = f": dates=[{self.name!r}] makes days since 1970-01-01 of it" if is_date else ""
            return f"the column {self.name!r} has the type {values.dtype}, and numbers are needed{instead}."
        present = ~_missing(values)
        is_text = present & ~np.array([is_number(self._with_point(value)) for value in values.tolist()], bool)
        if not is_text.any():
            return (
                self._missing_problem(int((~present).sum()), int(np.argmax(~present)))
                if not present.all()
                else (f"the column {self.name!r} holds numbers as {values.dtype}: write them as numbers.")
            )
        first = int(np.argmax(is_text))
        example = values.tolist()[first]
        what = f"the column {self.name!r} has {example!r} in {self.line(first)}"
        if not isinstance(example, Hashable):
            return f"{what}, and numbers are needed, or lists of a fixed size, as pyarrow.list_(type, size)."
        texts = [str(value) for value in values[is_text][:1000].tolist()]
        if 2 * is_text.sum() < present.sum() and not all(map(has_decimal_comma, texts)):
            return f"{what}, which is not a number: correct it, or remove the row."
        return f"{what}, {advice(self.name, texts, self._decimal)}"

    def codes(
        self, labels: Sequence[str] | None, *, may_be_missing: bool = False
    ) -> tuple[np.ndarray, list[str]]:
        """The place of each value among the labels, by default among its sorted values; and the labels.

        Labels are texts: 01234 and 1234 are two, as are 1.0 and 1. Spaces around them do not count. A missing
        value is an error, or -1 where it may be missing.
        """
        if self.values.ndim != 1:
            raise ValueError(
                f"categories=[{self.name!r}]: it has {self.values.shape[1]} values per row, not one."
            )
        texts: dict[str, int] = {}  # in the order in which they come
        numbers = np.concatenate([_numbered(values, texts) for values in self._pieces()])
        if (numbers == _NO_TEXT).any():
            raise ValueError(f"categories=[{self.name!r}]: its values are lists or tables, without codes.")
        missing = numbers < 0
        if missing.any() and not may_be_missing:
            problem = self._missing_problem(int(missing.sum()), int(np.argmax(missing)))
            raise ValueError(f"{problem}{self._note}")
        known = _sorted_labels(texts) if labels is None else list(labels)
        places = {label: place for place, label in enumerate(known)}
        for text, number in texts.items():
            if text not in places:
                row = int(np.argmax(numbers == number))
                raise ValueError(
                    f"the column {self.name!r} has {text!r} in {self.line(row)}, a category that the run "
                    f"has not seen: it has {listed(known)}."
                )
        return np.array([*(places[text] for text in texts), -1], np.int32)[numbers], known

    def days(self) -> np.ndarray:
        """The dates of a column as days since 1970-01-01 00:00 UTC."""
        if self.values.ndim != 1:
            raise ValueError(f"dates=[{self.name!r}]: it has {self.values.shape[1]} values per row, not one.")
        numbers = days(self.name, np.concatenate(list(self._pieces())), self.line)
        missing, _ = _not_finite(numbers)
        if missing[0]:
            raise ValueError(self._missing_problem(*missing))
        return numbers


def _numbered(values: np.ndarray, texts: dict[str, int]) -> np.ndarray:
    """The number of each value's text, -1 for a missing one; new texts are added to `texts`."""
    import pandas

    try:
        numbers, distinct = pandas.factorize(values)
    except TypeError:  # of lists and dictionaries
        return np.full(len(values), _NO_TEXT, np.int32)
    distinct = np.asarray(distinct)
    labels = [
        _label(value) for value in (distinct.astype(str) if distinct.dtype.kind == "M" else distinct).tolist()
    ]
    own = [texts.setdefault(label, len(texts)) if label else -1 for label in labels]
    return np.array([*own, -1], np.int32)[numbers]


def _label(value: object) -> str:
    return (value.decode(errors="replace") if isinstance(value, bytes) else str(value)).strip()


def _sorted_labels(labels: Collection[str]) -> list[str]:
    """By value where all are numbers, so that 2 comes before 10."""
    are_numbers = all(map(is_number, labels))
    return sorted(labels, key=lambda label: (float(label) if are_numbers else 0.0, label))


def _missing(values: np.ndarray) -> np.ndarray:
    import pandas

    return np.asarray(pandas.isna(values), bool)


def _not_finite(values: np.ndarray) -> tuple[tuple[int, int], int | None]:
    """How many values are NaN, and the place of the first; and that of the first infinite one."""
    count, place, infinite = 0, 0, None
    for first in range(0, len(values), _VALUES):
        part = values[first : first + _VALUES]
        is_nan, is_infinite = np.isnan(part), np.isinf(part)
        if not count and is_nan.any():
            place = first + int(np.argmax(is_nan))
        if infinite is None and is_infinite.any():
            infinite = first + int(np.argmax(is_infinite))
        count += int(is_nan.sum())
    return (count, place), infinite


def as_array(series: "Series") -> np.ndarray:
    """A column of pandas as NumPy knows it: whole numbers with gaps as floating-point numbers with NaN."""
    values = series.to_numpy()
    return values if values.dtype.kind in "biufcM" else np.asarray(values, object)


def codes_of_frame(name: str, series: "Series") -> tuple[np.ndarray, list[str]] | None:
    """The codes of a column of categories of pandas or Polars, and its labels; None for other columns."""
    kind = type(series.dtype).__name__
    if kind == "CategoricalDtype":
        codes = np.asarray(series.cat.codes, np.int32)
        labels = [_label(value) for value in series.cat.categories.tolist()]
    elif kind in ("Categorical", "Enum"):
        labels = [_label(value) for value in series.cat.get_categories().to_list()]
        places = {label: place for place, label in enumerate(labels)}
        texts = series.cast(str).to_list()
        codes = np.array([-1 if text is None else places[_label(text)] for text in texts], np.int32)
    else:
        return None
    missing = codes < 0
    if missing.any():
        raise ValueError(
            f"{name} has {int(missing.sum()):,} missing values, first in row {int(np.argmax(missing))}: "
            "remove these rows, or give missing values a category of their own."
        )
    return codes, labels


def is_number(value: object) -> bool:
    """Whether a value, of text too, stands for a number."""
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def no_column(name: str, known: Sequence[str], note: str = "") -> str:
    """That there is no column of this name, which one is named like it, and which ones there are."""
    return f"no column {name!r}{note}.{nearest(name, known)} The columns are {listed(known)}."


def listed(names: Sequence[Any]) -> str:
    """Names with commas between them, the first of many."""
    shown = ", ".join(map(str, names[:_MOST_NAMES]))
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES:,} more"
