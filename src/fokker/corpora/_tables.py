"""Text in a column of a table: CSV, or Parquet."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fokker.corpora._compressed import blocks
from fokker.corpora._json import NAME_KEYS
from fokker.corpora._lines import decoded, lines
from fokker.corpora._source import Text, TextSource, line_name
from fokker.corpora._tally import Tally

_DELIMITERS = ",;\t|"
# The largest field; Python's default is 128 KiB, less than a long document.
_MAX_FIELD = 1 << 30
_MAX_NAMED_COLUMNS = 12


class Csv(TextSource):
    """One row per document, with its text in the column `key`, named by its title, name or id.

    The first row has the names of the columns, unless `key` is a number, from 1. The delimiter (comma,
    semicolon, tab or |) is the one that is most frequent in the first row. Fields in quotes may contain line
    ends.
    """

    def __init__(self, label: str, paths: Sequence[Path], key: str) -> None:
        self.label, self.paths, self.key = label, tuple(paths), key

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The rows of all files, in order; rows without the column are counted in the tally."""
        csv.field_size_limit(max(csv.field_size_limit(), _MAX_FIELD))
        for path in self.paths:
            yield from self._rows(path, tally)

    def _rows(self, path: Path, tally: Tally) -> Iterator[Text]:
        text_lines = (f"{decoded(line, tally)}\n" for _, line in lines(blocks(path, tally)))
        first_line = next(text_lines, "")
        delimiter = max(_DELIMITERS, key=first_line.count)
        reader = csv.reader(_chained(first_line, text_lines), delimiter=delimiter)
        rows = _intact_rows(reader, path, tally)
        header: list[str] | None = None
        if not self.key.isdigit():
            header = [name.strip() for name in next(rows, [])]
        column = column_of(self.key, header, str(path))
        name_column = None if header is None else _name_column(header, column)
        for number, row in enumerate(rows, 1):
            if not row:
                continue
            name = line_name(path, number, self.paths)
            if len(row) <= column:
                tally.bad_lines += 1
                tally.note(f"row {name} of {path.name}: {len(row)} columns, none with the text")
                continue
            if name_column is not None and len(row) > name_column and row[name_column]:
                name = row[name_column]
            yield name, (row[column],)


class Parquet(TextSource):
    """One row per document, with its text in the column `key`, named by its title, name or id."""

    def __init__(self, label: str, paths: Sequence[Path], key: str) -> None:
        self.label, self.paths, self.key = label, tuple(paths), key
        _pyarrow()

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The rows of all files, in order."""
        parquet = _pyarrow()
        for path in self.paths:
            try:
                file = parquet.ParquetFile(path)
            except (OSError, ValueError) as error:
                raise ValueError(f"{path} is not a complete Parquet file: {error}.") from None
            header = list(file.schema_arrow.names)
            column = column_of(self.key, header, str(path))
            kind = str(file.schema_arrow.field(column).type).removeprefix("large_")
            if kind not in ("string", "string_view"):
                raise ValueError(
                    f"the column {header[column]!r} of {path} is of type {kind}, not text: choose another of "
                    f"{_shown(header)} with key=…."
                )
            name_column = _name_column(header, column)
            columns = [header[i] for i in (column, name_column) if i is not None]
            number = 0
            for batch in file.iter_batches(columns=columns):
                texts = batch.column(header[column]).to_pylist()
                names = [None] * len(texts)
                if name_column is not None:
                    names = batch.column(header[name_column]).to_pylist()
                for text, name in zip(texts, names, strict=True):
                    number += 1
                    yield str(name) if name else line_name(path, number, self.paths), (text or "",)


def _pyarrow() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            "reading Parquet needs pyarrow: pip install 'fokker[arrow]' (or pip install pyarrow)."
        ) from None
    return parquet


def column_of(key: str, header: Sequence[str] | None, label: str) -> int:
    """The position of the column of the text; raise if there is none of this name."""
    if header is None:
        if int(key) < 1:
            raise ValueError(f"the columns of {label} are numbered from 1; the column {key} was asked for.")
        return int(key) - 1
    names = [name.lower() for name in header]
    if key in header or names.count(key.lower()) == 1:
        return list(header).index(key) if key in header else names.index(key.lower())
    if len(header) == 1:
        return 0
    raise ValueError(
        f"{label} has no column {key!r}; it has {_shown(header)}: choose the one of the text with "
        "key=…. If the first row of a CSV file is not a header, give the number of the column, from 1."
    )


def _name_column(header: Sequence[str], text_column: int) -> int | None:
    lower = [name.lower() for name in header]
    return next(
        (lower.index(key) for key in NAME_KEYS if key in lower and lower.index(key) != text_column), None
    )


def _shown(header: Sequence[str]) -> str:
    shown = ", ".join(map(repr, header[:_MAX_NAMED_COLUMNS])) or "no columns"
    more = len(header) - _MAX_NAMED_COLUMNS
    return f"{shown} and {more} more" if more > 0 else shown


def _chained(first: str, rest: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
    yield from rest


def _intact_rows(reader: Any, path: Path, tally: Tally) -> Iterator[list[str]]:
    """The rows that can be parsed; the tally counts the others."""
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            tally.bad_lines += 1
            tally.note(f"line {reader.line_num} of {path.name}: {error}")
