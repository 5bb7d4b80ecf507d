"""The documents' mixtures, written as they are found: a table that is only ever added to."""

import csv
import gzip
import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

# Characters gathered before they are written, and those that are held while the disk is full.
_GATHERED, _HELD = 1 << 22, 1 << 28


class MixturesFile:
    """A .csv.gz with a row a document: its number in the stream, its name, and its proportions of topics.

    Each `flush` adds a stream of gzip's own, so that a file cut back to the size that a flush returned is
    whole again: that is how a resumed run drops what came after its checkpoint.
    """

    def __init__(self, path: Path, topics: int, size: int = 0) -> None:
        self.path, self.size, self.dropped = path, size, 0
        self._pending = io.StringIO()
        if size == 0:
            csv.writer(self._pending).writerow(["number", "document", *(f"topic {k}" for k in range(topics))])
            path.write_bytes(b"")
        elif not path.is_file() or path.stat().st_size < size:
            raise ValueError(
                f"{path} is shorter than when the checkpoint was written, or gone: put it back, or resume "
                "with --no-mixtures."
            )
        else:
            os.truncate(path, size)

    def add(self, numbers: Sequence[int], names: Sequence[str], proportions: np.ndarray) -> None:
        """Rows for some documents."""
        if self._pending.tell() > _HELD:
            self.dropped += len(names)
            return
        rows = zip(numbers, names, proportions.tolist(), strict=True)
        csv.writer(self._pending).writerows(
            [number, name, *(f"{share:.4f}" for share in shares)] for number, name, shares in rows
        )

    @property
    def full(self) -> bool:
        """Whether enough is gathered to be written."""
        return self._pending.tell() > _GATHERED

    def flush(self) -> int:
        """Write what is gathered and return the size of the file; after an error all is as it was before."""
        if self._pending.tell():
            packed = gzip.compress(self._pending.getvalue().encode("utf-8"), compresslevel=5, mtime=0)
            with self.path.open("r+b") as file:
                # After a write that failed, its beginning may be there.
                file.truncate(self.size)
                file.seek(self.size)
                file.write(packed)
                file.flush()
                os.fsync(file.fileno())
            self.size += len(packed)
            self._pending = io.StringIO()
        return self.size
