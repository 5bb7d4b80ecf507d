"""From what a user gives as data to leaves that can be read: files, tables, chunked arrays, streams."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.tree_util import KeyPath
from jaxtyping import PyTree
from numpy.typing import DTypeLike

from fokker.rows.arrow import is_arrow, of_table
from fokker.rows.column import as_array, codes_of_frame
from fokker.rows.parquet import of_parquet
from fokker.rows.readers import ArrayReader, ChunkedReader
from fokker.rows.source import Reader, Source, is_source
from fokker.rows.table import Columns, of_columns

if TYPE_CHECKING:
    from pandas import DataFrame

# Tables that the command line reads, and a posterior does not.
_TABLES = (".csv", ".tsv", ".txt", ".gz", ".npz")


def opened(data: PyTree[Any]) -> PyTree[Any]:
    """The data with a `Source` in place of each mapped array, path, Arrow table and chunked dataset."""
    return jax.tree_util.tree_map_with_path(_opened, data, is_leaf=is_source)


def _opened(path: KeyPath, leaf: Any) -> Any:
    name = f"data{jax.tree_util.keystr(path)}"
    if is_arrow(leaf):
        return _columns(name, of_table(leaf))
    if is_frame(leaf):
        return _columns_of_frame(name, leaf)
    if isinstance(leaf, str | Path):
        _check_path(name, leaf)
    if isinstance(leaf, str | Path) and str(leaf).endswith(".parquet"):
        return _columns(name, of_parquet(Path(leaf)))
    if isinstance(leaf, str | Path) and str(leaf).endswith(".npy"):
        leaf = _load(name, leaf)
    if is_chunked(leaf):
        _check_type(name, leaf.dtype)
        mapped = _mapped(leaf)
        return Source(ChunkedReader(leaf) if mapped is None else ArrayReader(mapped), name)
    if isinstance(leaf, np.memmap) and leaf.ndim:
        _check_type(name, leaf.dtype)
        return Source(ArrayReader(leaf), name)
    return leaf


def _check_path(name: str, path: str | Path) -> None:
    """Raise where a path is not that of a file that is read here; a text that is no path is left alone."""
    is_read = str(path).endswith((".npy", ".parquet"))
    if isinstance(path, str) and not is_read and not str(path).endswith(_TABLES) and not Path(path).exists():
        return
    if not Path(path).exists():
        raise FileNotFoundError(f"{name} is the path {str(path)!r}, and there is no such file.")
    if not is_read or not Path(path).is_file():
        what = "a folder" if Path(path).is_dir() else "a file of another format"
        raise ValueError(
            f"{name} is the path {str(path)!r}, {what}: .npy and .parquet files are read here. Read a "
            "table of text by pandas.read_csv, or let `fokker sample` read it."
        )


def is_frame(leaf: object) -> bool:
    """Whether it is a table of pandas or Polars, neither of which is imported for this."""
    return type(leaf).__module__.partition(".")[0] in ("pandas", "polars") and hasattr(leaf, "columns")


def _columns_of_frame(name: str, frame: "DataFrame") -> Columns:
    """The columns of a DataFrame; those of the type category as codes, with their labels."""
    names = list(frame.columns)
    wrong = next((column for column in names if not isinstance(column, str) or names.count(column) > 1), None)
    if wrong is not None:
        raise ValueError(
            f"{name} is a DataFrame with the column {wrong!r}: columns need names that are texts, each its "
            "own, as log_likelihood(theta, row) finds them by row['name']. Rename it, or give "
            "data.to_numpy()."
        )
    coded = {column: codes_of_frame(f"{name}[{column!r}]", frame[column]) for column in names}
    labels = {column: of[1] for column, of in coded.items() if of is not None}
    return of_columns(
        {column: as_array(frame[column]) if of is None else of[0] for column, of in coded.items()}, labels
    )


def _load(name: str, path: str | Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"{name}: {path} cannot be read as an array of numbers. NumPy says: {error}"
        ) from error


def _columns(name: str, columns: Mapping[str, Reader]) -> dict[str, Source]:
    return {column: Source(reader, f"{name}[{column!r}]") for column, reader in columns.items()}


def _check_type(name: str, dtype: DTypeLike) -> None:
    if np.dtype(dtype).kind not in "biufc":
        raise TypeError(f"{name} has the type {dtype}: give numbers, for categories their codes.")


def is_chunked(leaf: object) -> bool:
    """Whether it is an array that is read in chunks by slices, as a dataset of HDF5 or of Zarr."""
    has_form = all(hasattr(leaf, name) for name in ("shape", "dtype", "chunks", "__getitem__"))
    return has_form and not isinstance(leaf, np.ndarray | jax.Array) and len(leaf.shape) > 0  # type: ignore[attr-defined]


def _mapped(dataset: Any) -> np.ndarray | None:
    """A dataset of HDF5 that is stored in one piece, in a file that is not written to, as a mapped array."""
    if dataset.chunks is not None or not hasattr(dataset, "id") or not hasattr(dataset, "file"):
        return None
    offset = dataset.id.get_offset()
    if offset is None or dataset.file.mode != "r" or dataset.file.userblock_size:
        return None
    return np.memmap(dataset.file.filename, dataset.dtype, "r", offset, tuple(dataset.shape))


def is_stream(data: object) -> bool:
    """Whether it is an iterable of batches, or a function that returns one, and not a tree of arrays."""
    if isinstance(data, str | bytes | Path | np.ndarray | jax.Array) or is_source(data) or is_arrow(data):
        return False
    if not jax.tree_util.all_leaves([data]) or hasattr(data, "__array__") or is_chunked(data):
        return False
    return callable(data) or isinstance(data, Iterable)
