"""Tables in text files: values with a separator between them."""

import codecs
import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fokker.rows.column import TableColumn, as_array, is_number
from fokker.rows.compressed import open_binary

if TYPE_CHECKING:
    from pandas import Series

# Separators by the ending of a file's name, and by their names.
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_NAMED = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
_OPTION = {"\t": "tab"}
# The largest field; Python's default is 128 KiB, less than a long document.
_MAX_FIELD = 1 << 30
# Texts of a missing value where the user names none: those of pandas.
_MISSING = (
    *("NA", "N/A", "n/a", "#N/A", "#NA", "#N/A N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "null", "NULL"),
    *("None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
# What the separators are called in messages.
_CALLED = {"\t": "tabs", ",": "commas", ";": "semicolons", " ": "spaces"}


@dataclass(frozen=True)
class TextFormat:
    """How numbers and texts are written in a text file.

    `separator`: between the fields; None for that of the file's ending, a comma in .csv. `decimal`: the mark
    before the decimals; also a comma in a file with commas, if its numbers are in quotes. `encoding`: of the
    characters, by Python's name; utf-8 with or without a mark at the start. `missing`: texts that stand for a
    missing value, as empty fields always do; None for NA, NaN, null and the like.
    """

    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8-sig"
    missing: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        separator = None if self.separator is None else _NAMED.get(self.separator, self.separator)
        object.__setattr__(self, "separator", separator)
        if separator is not None and (len(separator) != 1 or separator in '"\n\r'):
            raise ValueError(f"separator={separator!r}: give one character, such as ';', or tab.")
        if self.decimal not in (".", ","):
            raise ValueError(f"decimal={self.decimal!r}: give . or a comma.")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(
                f"encoding={self.encoding!r}: Python knows no such encoding; Excel on Windows writes cp1252."
            ) from None

    @property
    def missing_texts(self) -> list[str]:
        """All texts that stand for a missing value."""
        return ["", *(_MISSING if self.missing is None else self.missing)]

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> "TextFormat":
        """From options by name, as they are stored with a run."""
        missing = options.get("missing")
        return cls(**{**options, "missing": None if missing is None else tuple(missing)})

    def of(self, path: Path, kind: str) -> "TextFormat":
        """The format of a file: its separator by its ending, or by a first line `sep=;` of Excel."""
        chosen = replace(self, separator=self.separator or DELIMITERS[kind])
        first = _first_line(path, self.encoding)
        is_excel = self.separator is None and first.startswith("sep=") and len(first) == len("sep=") + 1
        return replace(chosen, separator=first[-1]) if is_excel else chosen


def most_frequent(marks: str, line: str) -> str:
    """The separator of a line: the mark that is most frequent in it."""
    return max(marks, key=line.count)


def numbered_rows(
    text_lines: Iterable[str], separator: str, bad_line: Callable[[int, str], None] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row, with the number of its last line; fields in quotes may contain line ends.

    A row that cannot be parsed is an error, or is left to `bad_line`. A separator of several characters
    counts in quotes too.
    """
    if len(separator) > 1:
        yield from ((n, line.rstrip("\r\n").split(separator)) for n, line in enumerate(text_lines, 1))
        return
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD))
    reader = csv.reader(text_lines, delimiter=separator)
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if bad_line is None:
                raise
            bad_line(reader.line_num, str(error))
        else:
            yield reader.line_num, fields


def parsed(file: IO[Any], form: TextFormat, has_header: bool, **options: object) -> Any:
    """The table as a frame of pandas; `options` are those of `pandas.read_csv`."""
    import pandas

    return pandas.read_csv(
        file,
        sep=form.separator,
        decimal=form.decimal,
        header=0 if has_header else None,
        index_col=False,
        low_memory=False,
        encoding=form.encoding,
        keep_default_na=False,
        na_values=form.missing_texts,
        **options,
    )


def read_csv(
    path: Path, kind: str, form: TextFormat, categories: Collection[str], dates: Collection[str] = ()
) -> dict[str, TableColumn]:
    """The columns of a file, checked; those in `categories` and `dates` are read as texts.

    `kind`: the ending of its name, without that of its compression.
    """
    import pandas

    try:
        form = form.of(path, kind)
        names, row_names, blank = _header(path, form)
        with open_binary(path) as file:
            frame = parsed(
                file,
                form,
                has_header=True,
                skiprows=int(_has_separator_line(path, form)) + blank,
                # In a column alone it is a missing value.
                skip_blank_lines=len(names) > 1,
                names=names,
                dtype=dict.fromkeys({*categories, *dates}.intersection(names), str),
            )
    except UnicodeDecodeError as error:
        name = form.encoding.replace("-sig", "")
        raise ValueError(
            f"{path} is not encoded in {name}: {error}. For files of Excel on Windows give "
            "encoding='cp1252' or encoding='utf-16'."
        ) from error
    except (pandas.errors.ParserError, csv.Error) as error:
        raise ValueError(_bad_line(path, form, str(error))) from error
    if len(names) == 1:
        frame = frame.iloc[: len(frame) - _blank_at_end(path)]
    if not len(frame):
        raise ValueError(f"{path} has a header, and no rows.")
    # Pandas fills up lines that are too short.
    if frame[names[-1]].isna().any():
        _refuse_short_lines(path, form, len(names))
    return {
        name: TableColumn(
            name,
            as_array(_without_missing(frame[name], form)),
            lambda row: f"line {_line_of(path, form, row)} of {path}",
            decimal=form.decimal,
            note=_NOTE if form.missing is None else "",
        )
        for name in names
        if name != row_names
    }


def _blank_at_end(path: Path) -> int:
    """The number of blank lines after the last row, which are no rows."""
    number = 0
    with open_binary(path) as file:
        for line in file:
            number = 0 if line.strip() else number + 1
    return number


def _without_missing(series: "Series", form: TextFormat) -> Any:
    """A column with its texts of missing values taken as such with spaces around them too, as in 1, NA."""
    if series.dtype.kind in "biufc":
        is_missing = series.isin([float(text) for text in form.missing or () if is_number(text)])
    else:
        texts = set(form.missing_texts)
        is_missing = series.isin([x for x in series.unique() if isinstance(x, str) and x.strip() in texts])
    return series.mask(is_missing) if is_missing.any() else series


# Of a column of categories, where NA may be one of them: Namibia's code, for example.
_NOTE = " Where NA and the like are categories, missing=() takes empty fields alone as missing."


def _open(path: Path, encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_binary(path), encoding, newline="")


def _first_line(path: Path, encoding: str) -> str:
    with _open(path, encoding) as file:
        return file.readline().strip().strip('"').lower()


def _has_separator_line(path: Path, form: TextFormat) -> bool:
    """Whether the first line is Excel's, such as sep=;, which names the separator."""
    return _first_line(path, form.encoding) == f"sep={form.separator}"


def _lines(path: Path, form: TextFormat) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file as text, each with the number of its last line.

    Without empty ones, but in a file with one column: there they are rows with a missing value.
    """
    skipped, width = int(_has_separator_line(path, form)), 0
    with _open(path, form.encoding) as file:
        for _ in range(skipped):
            next(file)
        for number, fields in numbered_rows(file, form.separator or ","):
            width = width or len(fields)
            if fields or width == 1:
                yield number + skipped, fields or [""]


def _header(path: Path, form: TextFormat) -> tuple[list[str], str | None, int]:
    """The names of the columns; that of a first column of row names, which R writes without a name; and how
    many blank lines are before them.
    """
    lines = _lines(path, form)
    line, names = next(lines, (1, []))
    if not names:
        raise ValueError(f"{path} is empty.")
    blank = line - 1 - sum(name.count("\n") for name in names) - int(_has_separator_line(path, form))
    names = [name.strip() for name in names]
    numbers = [name for name in names if is_number(name)]
    if numbers:
        raise ValueError(
            f"line {line} of {path} has the number {numbers[0]} and is not a header: the first line has to "
            "name the columns."
        )
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|,"):
        mark = most_frequent(";\t|,", names[0])
        option = f"separator={_OPTION.get(mark, mark)!r}"
        wanted = _CALLED.get(form.separator or ",", repr(form.separator))
        raise ValueError(
            f"line {line} of {path} is one name, {names[0]!r}: the columns have to be separated by {wanted}, "
            f"or give {option}."
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
    return names, row_names, blank


def _wrong_line(path: Path, line: int, fields: list[str], wanted: int) -> str:
    return (
        f"line {line} of {path} has {len(fields)} field(s), and the header names {wanted}: correct the line."
    )


def _refuse_short_lines(path: Path, form: TextFormat, wanted: int) -> None:
    for line, fields in _lines(path, form):
        if len(fields) != wanted:
            raise ValueError(_wrong_line(path, line, fields, wanted))


def _bad_line(path: Path, form: TextFormat, message: str) -> str:
    """Which line pandas could not read."""
    rows = _lines(path, form)
    wanted = len(next(rows)[1])
    for line, fields in rows:
        if len(fields) != wanted:
            return _wrong_line(path, line, fields, wanted)
    return f"{path} could not be read: {message}"


def _line_of(path: Path, form: TextFormat, row: int) -> int:
    """The line of a row; empty lines, and line breaks in quotes, move it."""
    for place, (line, _) in enumerate(_lines(path, form)):
        if place == row + 1:
            return line
    return row + 2
