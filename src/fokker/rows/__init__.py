"""Data that are read where they lie, in files or in the host's memory, and streams of batches."""

from fokker.rows.opened import is_stream, opened
from fokker.rows.source import (
    Problem,
    Reader,
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
    "Problem",
    "Reader",
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
