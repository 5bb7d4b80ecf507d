"""Tables from files: columns by name, from CSV, Parquet, npy and npz."""

import collections
import csv
import gzip
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fokker._core.state import nearest

# The column of a .npy file, which has no names of its own.
UNNAMED = "x"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_FORMATS = ".csv, .tsv (also .gz), .parquet, .npy or .npz"
# The most names of columns, and labels of categories, in a message.
_MOST_NAMES = 12

# Labels of a column of categories, in the order of their codes.
Labels = Mapping[str, Sequence[str] | None]


class ColumnError(KeyError):
    """A column that is not there, or cannot be used; the message says why and what to do."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, eq=False)
class _About:
    """What is known of a table besides its numbers: columns that cannot be used and why, and labels.

    `order`: the columns that `matrix` takes, also those that new rows do not have.
    """

    problems: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, list[str]] = field(default_factory=dict)
    order: tuple[str, ...] = ()


class Columns(dict[str, Any]):
    """Columns by name, each an array whose first axis runs over the rows; a tree, as a dictionary is.

    Columns of text, or with missing values, are not among them: `data["city"]` raises and says what to do.
    """

    def __init__(self, columns: Mapping[str, Any], about: _About | None = None) -> None:
        super().__init__(columns)
        self.about = _About() if about is None else about

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(next(iter(self.values())).shape[0]) if self else 0

    @property
    def labels(self) -> Mapping[str, list[str]]:
        """The labels of each column of categories, in the order of their codes."""
        return self.about.labels

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that `matrix` takes by default, in this order: of new rows, those of the run."""
        return self.about.order or tuple(self)

    def matrix(self, *names: str, without: Sequence[str] = ()) -> Any:
        """These columns, by default all but those `without`, beside each other as a matrix."""
        left_out = [without] if isinstance(without, str) else without
        chosen = names or tuple(name for name in self.order if name not in left_out)
        columns = [self[name] for name in chosen]
        if any(isinstance(column, jax.Array) for column in columns):
            return jax.numpy.stack(columns, axis=-1)
        return np.stack(columns, axis=-1)

    def __missing__(self, name: str) -> Any:
        known = [*self, *self.about.problems]
        if name in self.about.problems:
            raise ColumnError(self.about.problems[name])
        of_run = ", which those of the run have" if name in self.about.order else ""
        raise ColumnError(
            f"the data have no column {name!r}{of_run}.{nearest(str(name), known)} The columns are "
            f"{_listed(known)}."
        )


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(map(str, names[:_MOST_NAMES]))
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES:,} more"


def _flatten(columns: Columns) -> tuple[tuple[Any, ...], Any]:
    names = tuple(sorted(columns))
    return tuple(columns[name] for name in names), (names, columns.about)


def _flatten_with_keys(columns: Columns) -> tuple[tuple[Any, ...], Any]:
    values, aux = _flatten(columns)
    return tuple(zip(map(jax.tree_util.DictKey, aux[0]), values, strict=True)), aux


jax.tree_util.register_pytree_with_keys(
    Columns,
    _flatten_with_keys,
    lambda aux, values: Columns(dict(zip(aux[0], values, strict=True)), aux[1]),
    _flatten,
)


def read_table(
    files: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    categories: Labels | None = None,
    columns_of_run: Sequence[str] | None = None,
) -> Columns:
    """The columns of one file, or of several with as many rows each.

    A file is named by its path; a .npy file as NAME=PATH, for the name of its only column. `columns`: those
    to read, and their order in a matrix; by default all. `categories`: columns whose values, as texts, are
    replaced by codes 0, 1, …, with their labels in this order, or None for the sorted values.

    `columns_of_run`: these are new rows, and a matrix of them has these columns. One that is not there, or
    has a category without a label, is a problem only for a model that uses it.
    """
    labels = dict(categories or {})
    read: dict[str, Any] = {}
    problems: dict[str, str] = {}
    found_labels: dict[str, list[Any]] = {}
    known: list[str] = []
    for text in files:
        chosen = None if columns is None else {*columns, *labels}
        for name, column in _read_file(text, chosen, set(labels)).items():
            known.append(name)
            if chosen is not None and name not in chosen:
                continue
            if name in read or name in problems:
                raise ValueError(f"the column {name!r} is in more than one file of the data: rename one.")
            if name in labels:
                try:
                    read[name], found_labels[name] = column.codes(labels[name])
                except ValueError as error:
                    if columns_of_run is None:
                        raise
                    problems[name] = str(error)
            elif column.problem is not None:
                problems[name] = column.problem
            else:
                read[name] = column.values
    wanted = () if columns_of_run is not None else (("--columns", columns or ()), ("--categories", labels))
    for option, names in wanted:
        for name in names:
            if name not in known:
                raise ValueError(
                    f"the data have no column {name!r}, which {option} names, or which they had before."
                    f"{nearest(name, known)} Their columns are {_listed(known)}."
                )
    sizes = collections.Counter(len(column) for column in read.values())
    if len(files) > 1 and len(sizes) > 1:
        described = ", ".join(f"{name} has {len(column):,}" for name, column in read.items())
        raise ValueError(f"the files of the data differ in their number of rows: {described}.")
    if len(sizes) > 1:
        _set_aside(read, problems, sizes)
    if not read:
        reason = next(iter(problems.values()), "there are no columns")
        raise ValueError(f"{', '.join(files)} has no column of numbers: {reason}")
    if not next(iter(read.values())).shape[0]:
        raise ValueError(f"{', '.join(files)} has no rows.")
    # With those that cannot be used: a matrix does not leave one out in silence.
    order = known if columns is None else list(dict.fromkeys([*columns, *labels]))
    return Columns(read, _About(problems, found_labels, tuple(columns_of_run or order)))


def _set_aside(read: dict[str, Any], problems: dict[str, str], sizes: collections.Counter[int]) -> None:
    """Arrays of another length than most, such as the names of features beside a matrix of them."""
    (size, times), *others = sizes.most_common()
    if others[0][1] == times:
        described = ", ".join(f"{name} has {len(column):,}" for name, column in read.items())
        raise ValueError(
            f"the arrays of the data differ in length: {described}. Choose those with one row per datum by "
            "--columns."
        )
    for name in [name for name, column in read.items() if len(column) != size]:
        problems[name] = (
            f"the array {name!r} has {len(read.pop(name)):,} rows where most have {size:,}: it cannot be a "
            "column of the data."
        )


class _Column:
    """One column of a file, checked; `line(row)` says where in the file a row is."""

    def __init__(self, name: str, values: Any, line: Any) -> None:
        self.name, self.values, self._line, self.problem = name, values, line, None
        is_object = values.dtype.kind not in "biufc"
        missing = _missing(values) if values.ndim == 1 and (is_object or values.dtype.kind == "f") else None
        if is_object:
            self.problem = self._text_problem(values, missing)
        elif missing is not None and missing.any():
            self.problem = self._missing_problem(missing)

    def _missing_problem(self, missing: np.ndarray) -> str:
        count, first = int(missing.sum()), int(np.argmax(missing))
        return (
            f"the column {self.name!r} has {count:,} missing value{'s' if count > 1 else ''}, first in "
            f"{self._line(first)}: remove these rows, or put a number there and add a column that marks them."
        )

    def _text_problem(self, values: np.ndarray, missing: np.ndarray | None) -> str:
        if values.dtype.kind not in "OUST" or values.ndim != 1:
            return f"the column {self.name!r} has the type {values.dtype}, and numbers are needed."
        present = np.ones(len(values), bool) if missing is None else ~missing
        is_text = present & ~np.array([_is_number(value) for value in values.tolist()], bool)
        if not is_text.any():
            return (
                self._missing_problem(~present)
                if not present.all()
                else (f"the column {self.name!r} holds numbers as {values.dtype}: write them as numbers.")
            )
        first = int(np.argmax(is_text))
        what = f"the column {self.name!r} has {values.tolist()[first]!r} in {self._line(first)}"
        if 2 * is_text.sum() < present.sum():
            return f"{what}, which is not a number: correct it, or leave it empty and remove the row."
        return f"{what}, and numbers are needed: --categories {self.name} gives each value a code, 0, 1, …."

    def codes(self, labels: Sequence[str] | None) -> tuple[np.ndarray, list[str]]:
        """The place of each value among the labels, by default among its sorted values; and the labels.

        Labels are texts: 01234 and 1234 are two, as are 1.0 and 1. Spaces around them do not count.
        """
        import pandas

        if self.values.ndim != 1:
            raise ValueError(
                f"--categories {self.name}: it has {self.values.shape[1]} values per row, not one."
            )
        numbers, found = pandas.factorize(np.asarray(self.values))
        found = np.asarray(found)
        texts = [
            _label(value) for value in (found.astype(str) if found.dtype.kind == "M" else found).tolist()
        ]
        missing = (numbers < 0) | np.array([not text for text in texts] + [True], bool)[numbers]
        if missing.any():
            raise ValueError(self._missing_problem(missing))
        known = _sorted_labels(set(texts)) if labels is None else list(labels)
        places = {label: place for place, label in enumerate(known)}
        for number, text in enumerate(texts):
            if text not in places:
                row = int(np.argmax(numbers == number))
                raise ValueError(
                    f"the column {self.name!r} has {text!r} in {self._line(row)}, a category that the run "
                    f"has not seen: it has {_listed(known)}."
                )
        return np.array([places[text] for text in texts], np.int32)[numbers], known


def _label(value: Any) -> str:
    return (value.decode(errors="replace") if isinstance(value, bytes) else str(value)).strip()


def _sorted_labels(labels: Collection[str]) -> list[str]:
    """By value where all are numbers, so that 2 comes before 10."""
    are_numbers = all(map(_is_number, labels))
    return sorted(labels, key=lambda label: (float(label) if are_numbers else 0.0, label))


def _missing(values: np.ndarray) -> np.ndarray:
    import pandas

    return np.asarray(pandas.isna(values), bool)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _read_file(text: str, names: set[str] | None, categories: set[str]) -> dict[str, _Column]:
    """The columns of a file, of which only those named are read where a file can be read in parts.

    `categories`: columns to read as texts where the file has no types.
    """
    given, equals, rest = text.partition("=")
    is_named = bool(equals) and given.isidentifier() and not Path(text).exists()
    path = Path(rest if is_named else text)
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of data {path}.")
    if is_named and kind != ".npy":
        raise ValueError(f"--data {text}: a name is for .npy files; the columns of {path} have their own.")
    if kind in _DELIMITERS:
        return _read_csv(path, _DELIMITERS[kind], categories)
    if kind == ".parquet":
        return _read_parquet(path, names)
    if kind not in (".npy", ".npz"):
        raise ValueError(f"{path} is not one of the formats that can be read: {_FORMATS}.")
    try:
        loaded = np.load(path, mmap_mode="r" if kind == ".npy" else None, allow_pickle=False)
        if kind == ".npz":
            with loaded:
                arrays = {name: loaded[name] for name in loaded.files if names is None or name in names}
        elif loaded.dtype.names:
            arrays = {name: loaded[name] for name in loaded.dtype.names}
        else:
            arrays = {given if is_named else UNNAMED: loaded}
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} could not be read: {error}") from error
    arrays = {name: x for name, x in arrays.items() if x.ndim}
    return {name: _Column(name, x, lambda row: f"row {row} of {path}") for name, x in arrays.items()}


def _read_csv(path: Path, delimiter: str, categories: set[str]) -> dict[str, _Column]:
    import pandas

    try:
        names, row_names = _header(path, delimiter)
        frame = pandas.read_csv(
            path,
            sep=delimiter,
            header=0,
            names=names,
            index_col=False,
            low_memory=False,
            dtype=dict.fromkeys(categories.intersection(names), str),
            encoding="utf-8-sig",
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not encoded in UTF-8: {error}.") from error
    except (pandas.errors.ParserError, csv.Error) as error:
        raise ValueError(_bad_line(path, delimiter, str(error))) from error
    if not len(frame):
        raise ValueError(f"{path} has a header, and no rows.")
    # Pandas fills up lines that are too short.
    if frame[names[-1]].isna().any():
        _refuse_short_lines(path, delimiter, len(names))
    return {
        name: _Column(
            name, _array(frame[name]), lambda row: f"line {_line_of(path, delimiter, row)} of {path}"
        )
        for name in names
        if name != row_names
    }


def _array(series: Any) -> np.ndarray:
    """A column of pandas as NumPy knows it: whole numbers with gaps as floating-point numbers with NaN."""
    values = series.to_numpy()
    return values if values.dtype.kind in "biufcM" else np.asarray(values, object)


def _lines(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file as text, without empty ones, each with the number of its last line."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        reader = csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""), delimiter=delimiter)
        for fields in reader:
            if fields:
                yield reader.line_num, fields


def _header(path: Path, delimiter: str) -> tuple[list[str], str | None]:
    """The names of the columns, and that of a first column of row names, which R writes without a name."""
    lines = _lines(path, delimiter)
    line, names = next(lines, (1, []))
    if not names:
        raise ValueError(f"{path} is empty.")
    names = [name.strip() for name in names]
    numbers = [name for name in names if _is_number(name)]
    if numbers:
        raise ValueError(
            f"line {line} of {path} has the number {numbers[0]} and is not a header: the first line has to "
            "name the columns."
        )
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|,"):
        wanted = "tabs" if delimiter == "\t" else "commas"
        raise ValueError(
            f"line {line} of {path} is one name, {names[0]!r}: the columns have to be separated by {wanted}."
        )
    row_names = None
    if not names[0] and len(names) > 1:
        names[0] = row_names = "row names"
    for place, name in enumerate(names):
        if not name:
            raise ValueError(f"line {line} of {path} has no name for column {place + 1}: name every column.")
        if name in names[:place]:
            raise ValueError(f"line {line} of {path} names two columns {name!r}: rename one.")
    line, fields = next(lines, (0, names))
    if len(fields) != len(names):
        raise ValueError(_wrong_line(path, line, fields, len(names)))
    return names, row_names


def _wrong_line(path: Path, line: int, fields: list[str], wanted: int) -> str:
    return (
        f"line {line} of {path} has {len(fields)} field(s), and the header names {wanted}: correct the line."
    )


def _refuse_short_lines(path: Path, delimiter: str, wanted: int) -> None:
    for line, fields in _lines(path, delimiter):
        if len(fields) != wanted:
            raise ValueError(_wrong_line(path, line, fields, wanted))


def _bad_line(path: Path, delimiter: str, message: str) -> str:
    """Which line pandas could not read."""
    rows = _lines(path, delimiter)
    wanted = len(next(rows)[1])
    for line, fields in rows:
        if len(fields) != wanted:
            return _wrong_line(path, line, fields, wanted)
    return f"{path} could not be read: {message}"


def _line_of(path: Path, delimiter: str, row: int) -> int:
    """The line of a row; empty lines, and line breaks in quotes, move it."""
    for place, (line, _) in enumerate(_lines(path, delimiter)):
        if place == row + 1:
            return line
    return row + 2


def _read_parquet(path: Path, names: set[str] | None) -> dict[str, _Column]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError(
            f"{path}: Parquet needs PyArrow, which is not installed: pip install 'fokker[arrow]'."
        ) from error
    try:
        with ParquetFile(path) as file:
            known = file.schema_arrow.names
            chosen = known if names is None else [name for name in known if name in names]
            frame = file.read(columns=chosen).to_pandas()
    except ArrowException as error:
        raise ValueError(f"{path} could not be read: {str(error).splitlines()[0]}") from error
    return {
        name: _Column(name, _array(frame[name]), lambda row: f"row {row} of {path}") for name in frame.columns
    }
