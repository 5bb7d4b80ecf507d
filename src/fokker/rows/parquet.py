"""Columns of Parquet files, which stay there: a row group is decoded as a whole when its rows are needed."""

import contextlib
import math
import threading
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fokker.rows.arrow import checked_type, is_missing, type_of_numbers, values_of
from fokker.rows.column import TableColumn, as_array
from fokker.rows.parquet_file import open_parquet
from fokker.rows.readers import CACHE, PiecesReader
from fokker.rows.source import Reader, Source, in_a_sentence

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile


def of_parquet(path: Path) -> dict[str, Reader]:
    """The columns of a Parquet file, by name; raise if one does not hold numbers."""
    file = _with_rows(path)
    names = file.schema_arrow.names
    for name in names:
        checked_type(name, file.schema_arrow.field(name).type)
    return dict(_readers(file, names))


def read_parquet(
    path: Path, names: Collection[str] | None, categories: Collection[str]
) -> dict[str, TableColumn | None]:
    """The columns of a Parquet file, or those named, checked; columns of numbers stay in the file.

    Those in `categories` are to have codes, and are not for their numbers. Others than those named are None.
    """
    file = _with_rows(path)
    schema = file.schema_arrow
    # Pandas stores the index of a frame as further columns.
    index = {
        name for name in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)
    }
    known = [name for name in schema.names if name not in index]
    chosen = [name for name in known if names is None or name in names]
    numbers = [name for name in chosen if name not in categories and type_of_numbers(schema.field(name).type)]
    readers = _readers(file, numbers)
    columns: dict[str, TableColumn | None] = dict.fromkeys(known)
    for name in chosen:
        line, pieces = (lambda row: f"row {row} of {path}"), partial(_pieces, file, path, name)
        if name in readers:
            reader = readers[name]
            with _naming(path, name):
                missing = reader.missing()
            columns[name] = TableColumn(name, Source(reader, f"data[{name!r}]"), line, pieces, missing)
        else:
            # One piece is enough to say what is wrong with it.
            columns[name] = TableColumn(name, next(pieces()), line, pieces)
    return columns


@contextlib.contextmanager
def _naming(path: Path, name: str) -> Iterator[None]:
    """An error of reading with the name of the column."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as error:
        raise ValueError(
            f"the column {name!r} of {path} could not be read: {in_a_sentence(error)}."
        ) from error


def _with_rows(path: Path) -> Any:
    file = open_parquet(path)
    if not file.metadata.num_rows:
        raise ValueError(f"the data are empty: {path} has no rows.")
    return file


def _pieces(file: "ParquetFile", path: Path, name: str) -> Iterator[np.ndarray]:
    """The values of a column, one row group after the other, as pandas has them."""
    for group in range(file.metadata.num_row_groups):
        with _naming(path, name):
            values = as_array(file.read_row_group(group, columns=[name]).column(name).to_pandas())
        yield values


def _readers(file: "ParquetFile", names: Collection[str]) -> "dict[str, _ColumnReader]":
    """Readers of columns of numbers, which together keep as much decoded as one reader would alone."""
    types = {name: checked_type(name, file.schema_arrow.field(name).type) for name in names}
    widths = {name: dtype.itemsize * math.prod(tail) for name, (dtype, tail) in types.items()}
    share = CACHE / max(1, sum(widths.values()))
    lock = threading.Lock()
    return {name: _ColumnReader(file, lock, name, int(share * widths[name])) for name in names}


class _ColumnReader(PiecesReader):
    """One column of a Parquet file."""

    def __init__(self, file: "ParquetFile", lock: threading.Lock, name: str, cache: int) -> None:
        self._file, self._file_lock, self._name = file, lock, name
        lengths = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        dtype, tail = checked_type(name, file.schema_arrow.field(name).type)
        super().__init__(np.cumsum(lengths), (sum(lengths), *tail), dtype, cache)

    def piece(self, index: int) -> np.ndarray:
        """The values of one row group."""
        first = int(self._starts[index])
        parts = [values_of(self._name, chunk, first) for chunk in self._chunks(index)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _chunks(self, index: int) -> list[Any]:
        # By its name: columns=["a"] reads "a.b" too.
        with self._file_lock:
            column = self._file.read_row_group(index, columns=[self._name]).column(self._name)
        return [chunk for chunk in column.chunks if len(chunk)]

    def missing(self) -> tuple[int, int]:
        """The number of rows with a missing value, null or NaN, and the first of them.

        Whole numbers are read only where the file does not count the nulls of its row groups.
        """
        count = place = 0
        for index, start in enumerate(self._starts.tolist()):
            if self.dtype.kind not in "fc" and self._has_no_nulls(index):
                continue
            for chunk in self._chunks(index):
                wrong = is_missing(chunk)
                if not count and wrong.any():
                    place = start + int(np.argmax(wrong))
                count, start = count + int(wrong.sum()), start + len(wrong)
        return count, place

    def _has_no_nulls(self, index: int) -> bool:
        group = self._file.metadata.row_group(index)
        for place in range(group.num_columns):
            column = group.column(place)
            if column.path_in_schema == self._name:
                statistics = column.statistics
                return bool(
                    statistics is not None and statistics.has_null_count and not statistics.null_count
                )
        return False
