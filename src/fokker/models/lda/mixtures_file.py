"""A file of the mixtures of the documents, to which rows are appended during a run."""

import csv
import gzip
import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

# Characters collected before they are written, and the most that are held while the disk is full.
_FLUSH_SIZE, _MAX_PENDING = 1 << 22, 1 << 28


class MixturesFile:
    """A .csv.gz with one row per document: its number in the stream, its name, and its topic proportions.

    Each `flush` appends a separate gzip stream, so a file truncated to the size that a flush returned is
    valid. A resumed run removes the rows after its checkpoint in this way.
    """

    def __init__(self, path: Path, topics: Sequence[str], size: int = 0) -> None:
        self.path, self.size, self.dropped = path, size, 0
        self._pending = io.StringIO()
        if size == 0:
            csv.writer(self._pending).writerow(["number", "document", *(f"topic {name}" for name in topics)])
            path.write_bytes(b"")
        elif not path.is_file() or path.stat().st_size < size:
            raise ValueError(
                f"{path} is shorter than when the checkpoint was written, or missing: restore it, or resume "
                "with --no-mixtures."
            )
        else:
            os.truncate(path, size)

    def add(self, numbers: Sequence[int], names: Sequence[str], proportions: np.ndarray) -> None:
        """Add rows for these documents."""
        if self._pending.tell() > _MAX_PENDING:
            self.dropped += len(names)
            return
        rows = zip(numbers, names, proportions.tolist(), strict=True)
        csv.writer(self._pending).writerows(
            [number, name, *(f"{share:.4f}" for share in shares)] for number, name, shares in rows
        )

    @property
    def should_flush(self) -> bool:
        """Whether enough rows are collected to be written."""
        return self._pending.tell() > _FLUSH_SIZE

    def flush(self) -> int:
        """Write the collected rows; return the size of the file. After an error the state is unchanged."""
        if self._pending.tell():
            compressed = gzip.compress(self._pending.getvalue().encode("utf-8"), compresslevel=5, mtime=0)
            with self.path.open("r+b") as file:
                # Remove the beginning of an earlier write that failed.
                file.truncate(self.size)
                file.seek(self.size)
                file.write(compressed)
                file.flush()
                os.fsync(file.fileno())
            self.size += len(compressed)
            self._pending = io.StringIO()
        return self.size
