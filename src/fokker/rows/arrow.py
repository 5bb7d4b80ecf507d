"""Columns of Arrow tables and of Parquet files."""

from pathlib import Path
from typing import Any

import numpy as np

from fokker.rows.readers import ListReader, PiecesReader
from fokker.rows.source import Problem, Reader


def is_arrow(data: Any) -> bool:
    """Whether it is a table or a record batch of Arrow; Arrow is not imported for this."""
    return type(data).__module__.partition(".")[0] == "pyarrow" and hasattr(data, "schema")


def of_table(table: Any) -> dict[str, Reader]:
    """The columns of a table in memory, by name, without a copy."""
    if not hasattr(table.column(0), "chunks"):
        import pyarrow

        table = pyarrow.Table.from_batches([table])
    columns: dict[str, Reader] = {}
    for name in table.column_names:
        pieces = [_values(name, chunk) for chunk in table.column(name).chunks if len(chunk)]
        columns[name] = ListReader(pieces or [np.empty(0)])
    return columns


def of_parquet(path: Path) -> dict[str, Reader]:
    """The columns of a Parquet file, by name."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            "reading Parquet needs pyarrow: install it by pip install 'fokker[arrow]'."
        ) from error
    file = parquet.ParquetFile(path, memory_map=True)
    if not file.metadata.num_rows:
        raise ValueError(f"the data are empty: {path} has no rows.")
    return {name: _Column(file, name) for name in file.schema_arrow.names}


class _Column(PiecesReader):
    """One column of a Parquet file; a row group is decoded as a whole."""

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name = file, name
        lengths = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        field = file.schema_arrow.field(name).type
        tail = (field.list_size,) if hasattr(field, "list_size") else ()
        kind = field.value_type if tail else field
        super().__init__(np.cumsum(lengths), (sum(lengths), *tail), _dtype(name, kind))

    def piece(self, index: int) -> np.ndarray:
        """The values of one row group."""
        column = self._file.read_row_group(index, columns=[self._name]).column(0)
        first = int(self._starts[index])
        parts = [_values(self._name, chunk, first) for chunk in column.chunks if len(chunk)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _dtype(name: str, kind: Any) -> np.dtype:
    try:
        dtype = np.dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        dtype = np.dtype(object)
    if dtype.kind not in "biufc":
        raise TypeError(
            f"the column {name!r} has the type {kind}: give numbers, for categories their codes, and vectors "
            "as lists of a fixed size; or leave the column out."
        )
    return dtype


def _values(name: str, chunk: Any, first: int = 0) -> np.ndarray:
    """A chunk of a column as NumPy, lists of a fixed size as rows of a matrix."""
    if chunk.null_count:
        row = first + int(np.argmax(np.asarray(chunk.is_null())))
        raise Problem(
            f"the column {name!r} has missing values, first near row {row}: fill them, and give a mask as "
            "another column that log_likelihood uses."
        )
    if hasattr(chunk.type, "list_size"):
        _dtype(name, chunk.type.value_type)
        return chunk.flatten().to_numpy(zero_copy_only=False).reshape(len(chunk), -1)
    _dtype(name, chunk.type)
    return chunk.to_numpy(zero_copy_only=False)
