"""Tables in text files: comma- or tab-separated values with a header."""

import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

from fokker.rows.column import Column, as_array, is_number

# Separators by the ending of a file's name.
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_csv(path: Path, delimiter: str, categories: set[str]) -> dict[str, Column]:
    """The columns of a file, checked; those in `categories` are read as texts."""
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
    except (gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"{path} could not be read: {error}") from error
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
        name: Column(
            name, as_array(frame[name]), lambda row: f"line {_line_of(path, delimiter, row)} of {path}"
        )
        for name in names
        if name != row_names
    }


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
    numbers = [name for name in names if is_number(name)]
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
