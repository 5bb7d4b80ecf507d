"""Columns of Arrow tables as arrays of NumPy."""

from typing import TYPE_CHECKING

import numpy as np

from fokker.rows.readers import ListReader
from fokker.rows.source import Reader, RowsError

if TYPE_CHECKING:
    from pyarrow import Array, DataType, RecordBatch, Table


def is_arrow(data: object) -> bool:
    """Whether it is a table or a record batch of Arrow; Arrow is not imported for this."""
    return type(data).__module__.partition(".")[0] == "pyarrow" and hasattr(data, "schema")


def of_table(table: "Table | RecordBatch") -> dict[str, Reader]:
    """The columns of a table in memory, by name, without a copy."""
    if not hasattr(table.column(0), "chunks"):
        import pyarrow

        table = pyarrow.Table.from_batches([table])
    columns: dict[str, Reader] = {}
    for name in table.column_names:
        pieces = [values_of(name, chunk) for chunk in table.column(name).chunks if len(chunk)]
        columns[name] = ListReader(pieces or [np.empty(0)])
    return columns


def type_of_numbers(kind: "DataType") -> tuple[np.dtype, tuple[int, ...]] | None:
    """The type of NumPy and the shape of one row, where a column of this type holds numbers.

    Lists of a fixed size are rows of a matrix.
    """
    tail = (kind.list_size,) if hasattr(kind, "list_size") else ()
    try:
        dtype = np.dtype((kind.value_type if tail else kind).to_pandas_dtype())
    except (NotImplementedError, TypeError):
        return None
    return (dtype, tail) if dtype.kind in "biufc" else None


def checked_type(name: str, kind: "DataType") -> tuple[np.dtype, tuple[int, ...]]:
    """The same; raise for other columns."""
    numbers = type_of_numbers(kind)
    if numbers is None:
        raise TypeError(
            f"the column {name!r} has the type {kind}: give numbers, for categories their codes, and vectors "
            "as lists of a fixed size; or leave the column out."
        )
    return numbers


def values_of(name: str, chunk: "Array", first: int = 0) -> np.ndarray:
    """A chunk of a column as NumPy, lists of a fixed size as rows of a matrix; `first`: its first row."""
    _, tail = checked_type(name, chunk.type)
    missing = _is_null(chunk)
    if missing is not None:
        raise RowsError(
            f"the column {name!r} has missing values, first near row {first + int(np.argmax(missing))}: fill "
            "them, and give a mask as another column that log_likelihood uses."
        )
    values = (chunk.flatten() if tail else chunk).to_numpy(zero_copy_only=False)
    return values.reshape(len(chunk), *tail)


def is_missing(chunk: "Array") -> np.ndarray:
    """Which rows of a chunk of numbers are null or NaN, or lists with such an entry."""
    null = _is_null(chunk)
    if null is not None:
        return null
    values = (chunk.flatten() if hasattr(chunk.type, "list_size") else chunk).to_numpy(zero_copy_only=False)
    is_nan = np.isnan(values) if values.dtype.kind in "fc" else np.zeros(len(values), bool)
    return np.asarray(is_nan.reshape(len(chunk), -1).any(axis=1))


def _is_null(chunk: "Array") -> np.ndarray | None:
    """Which rows are null, or lists with an entry that is; None if there are none."""
    if chunk.null_count:
        return np.asarray(chunk.is_null())
    if hasattr(chunk.type, "list_size") and (entries := chunk.flatten()).null_count:
        return np.asarray(np.asarray(entries.is_null()).reshape(len(chunk), -1).any(axis=1))
    return None
