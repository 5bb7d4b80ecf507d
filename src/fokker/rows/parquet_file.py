"""Open Parquet files."""

from pathlib import Path
from typing import Any


def check_pyarrow() -> None:
    """Raise unless PyArrow is installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "reading Parquet needs pyarrow: pip install 'fokker[arrow]' (or pip install pyarrow)."
        ) from error


def open_parquet(path: Path) -> Any:
    """The file, as PyArrow opens it; raise unless every column has a name of its own."""
    check_pyarrow()
    from pyarrow import ArrowException, parquet

    if path.is_dir():
        raise ValueError(f"{path} is a folder: give one of the files in it.")
    try:
        file = parquet.ParquetFile(path)
    except ArrowException as error:
        raise ValueError(f"{path} could not be read: {str(error).splitlines()[0]}") from error
    names = file.schema_arrow.names
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ValueError(f"{path} has two columns {twice!r}: rename one.")
    return file
