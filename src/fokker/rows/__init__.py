"""Data that are read where they lie, in files or in the host's memory, streams of batches, and tables.

What needs JAX is imported on demand: readers of text take the tables of this package without it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from fokker._core.names import no_attribute

if TYPE_CHECKING:
    from fokker.rows.opening import is_stream, opened
    from fokker.rows.source import (
        Reader,
        RowsError,
        Source,
        Taken,
        aligned,
        first_rows,
        in_this_precision_too,
        is_source,
        leaves,
        reading,
        refuse_stream,
        resident,
        size_of,
        some_rows,
        span,
        take,
    )
    from fokker.rows.stream import Stream, StreamBatch, stream_of
    from fokker.rows.table import categories_of, with_codes_of

__all__ = [
    "Reader",
    "RowsError",
    "Source",
    "Stream",
    "StreamBatch",
    "Taken",
    "aligned",
    "categories_of",
    "first_rows",
    "in_this_precision_too",
    "is_source",
    "is_stream",
    "leaves",
    "opened",
    "reading",
    "refuse_stream",
    "resident",
    "size_of",
    "some_rows",
    "span",
    "stream_of",
    "take",
    "with_codes_of",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in ("source", "stream", "opening", "table"):
            module = importlib.import_module(f"fokker.rows.{home}")
            if name in vars(module):
                return vars(module)[name]
    raise no_attribute(__name__, name, __all__)
