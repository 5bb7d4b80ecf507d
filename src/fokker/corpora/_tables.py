"""Text in a column of a table: CSV, or Parquet."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from fokker.corpora._json import NAME_KEYS
from fokker.corpora._source import TableSource, Text
from fokker.corpora._tally import Tally, decoded
from fokker.rows.column import listed, no_column
from fokker.rows.compressed import blocks, lines
from fokker.rows.delimited import most_frequent, numbered_rows
from fokker.rows.parquet_file import check_pyarrow, open_parquet

_DELIMITERS = ",;\t|"


class Csv(TableSource):
    """One row per document, with its text in the column `key`, named by its title, name or id.

    The first row has the names of the columns, unless `key` is a number, from 1. The delimiter (comma,
    semicolon, tab or |) is the one that is most frequent in the first row. Fields in quotes may contain line
    ends.
    """

    def texts_of(self, path: Path, tally: Tally) -> Iterator[Text]:
        """The rows of one file, in order; rows without the column are counted in the tally."""
        text_lines = (f"{decoded(line, tally)}\n" for _, line in lines(blocks(path, tally.lose)))
        first_line = next(text_lines, "")

        def bad_line(number: int, problem: str) -> None:
            tally.bad_line(f"line {number} of {path.name}: {problem}")

        separator = most_frequent(_DELIMITERS, first_line)
        numbered = numbered_rows(itertools.chain([first_line], text_lines), separator, bad_line)
        rows = (fields for _, fields in numbered)
        header: list[str] | None = None
        if not self.key.isdigit():
            header = [name.strip() for name in next(rows, [])]
        column = column_of(self.key, header, str(path))
        name_column = None if header is None else _name_column(header, column, self.named_by, str(path))
        widest, has_column = 0, False
        for number, row in enumerate(rows, 1):
            if not row:
                continue
            widest, has_column = max(widest, len(row)), has_column or len(row) > column
            name = self.name_of(path, number)
            if len(row) <= column:
                tally.bad_line(f"row {name} of {path.name}: {_columns(len(row))}, none with the text")
                continue
            of_column = row[name_column] if name_column is not None and len(row) > name_column else ""
            yield of_column or ("" if self.named_by else name), (row[column],)
        if header is None and widest and not has_column:
            raise ValueError(
                f"{path} has {_columns(widest)}, numbered from 1, and key={self.key!r} is none of them."
            )


class Parquet(TableSource):
    """One row per document, with its text in the column `key`, named by its title, name or id."""

    def __init__(self, label: str, paths: Sequence[Path], key: str) -> None:
        super().__init__(label, paths, key)
        check_pyarrow()  # before the first document is asked for

    def texts_of(self, path: Path, tally: Tally) -> Iterator[Text]:
        """The rows of one file, in order."""
        file = open_parquet(path)
        header = list(file.schema_arrow.names)
        column = column_of(self.key, header, str(path))
        kind = str(file.schema_arrow.field(column).type).removeprefix("large_")
        if kind not in ("string", "string_view"):
            raise ValueError(
                f"the column {header[column]!r} of {path} is of type {kind}, not text: choose another of "
                f"{listed(header)} with key=…."
            )
        name_column = _name_column(header, column, self.named_by, str(path))
        columns = [header[i] for i in dict.fromkeys((column, name_column)) if i is not None]
        number = 0
        for batch in file.iter_batches(columns=columns):
            texts = batch.column(header[column]).to_pylist()
            names = [None] * len(texts)
            if name_column is not None:
                names = batch.column(header[name_column]).to_pylist()
            for text, name in zip(texts, names, strict=True):
                number += 1
                fallback = "" if self.named_by else self.name_of(path, number)
                yield str(name) if name not in (None, "") else fallback, (text or "",)


def _columns(number: int) -> str:
    return f"{number} column{'' if number == 1 else 's'}"


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
        f"{label} has {no_column(key, header)} Choose the one of the text with key=…. If the first row of a "
        "CSV file is not a header, give the number of the column, from 1."
    )


def _name_column(header: Sequence[str], text_column: int, named_by: str | None, label: str) -> int | None:
    if named_by is not None:
        if named_by not in header:
            raise ValueError(f"{label} has {no_column(named_by, header)}")
        return list(header).index(named_by)
    lower = [name.lower() for name in header]
    return next(
        (lower.index(key) for key in NAME_KEYS if key in lower and lower.index(key) != text_column), None
    )
