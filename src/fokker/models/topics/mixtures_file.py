"""The mixtures of the documents: rows appended during a run, and a table in the order of the source."""

import csv
import gzip
import hashlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fokker._core.files import check_no_links, naming, write_atomically
from fokker.corpora import Documents

# Characters collected before they are written, and the most that are held while the disk is full.
_FLUSH_SIZE, _MAX_PENDING = 1 << 22, 1 << 28
# The rows between two reports of how many are written.
_ROWS_PER_REPORT = 1_000


class MixturesError(ValueError):
    """The mixtures of a run cannot be continued."""


class MixturesFile:
    """A .csv.gz with one row per document: its place in the source, its name, and its topic proportions.

    Rows are appended in the order of the stream. Each `flush` appends a separate gzip stream, so a file
    truncated to the size that a flush returned is valid. A resumed run removes the rows after its checkpoint
    in this way. `write_in_order` writes all rows to another file, in the order of the source.
    """

    def __init__(self, path: Path, topics: Sequence[str], size: int = 0, digest: str | None = None) -> None:
        """`size`: of the rows to keep, and the `digest` of these bytes, where it is known."""
        check_no_links(path)
        self.path, self.size, self.dropped = path, size, 0
        self._pending = io.StringIO()
        self._digest = hashlib.blake2b(digest_size=16)
        if size == 0:
            csv.writer(self._pending).writerow(["number", "document", *(f"topic {name}" for name in topics)])
            path.write_bytes(b"")
        elif not path.is_file() or path.stat().st_size < size:
            raise MixturesError(
                f"{path} is shorter than when the checkpoint was written, or missing: restore it, or resume "
                "without mixtures."
            )
        else:
            self._add_to_digest(path, size)
            if digest not in (None, self.digest):
                raise MixturesError(
                    f"{path} is not the file that belongs to the checkpoint: put it back, or resume without "
                    "mixtures."
                )
            os.truncate(path, size)

    def _add_to_digest(self, path: Path, size: int) -> None:
        with path.open("rb") as file:
            while size and (block := file.read(min(size, _FLUSH_SIZE))):
                self._digest.update(block)
                size -= len(block)

    @property
    def digest(self) -> str:
        """Of all bytes that are written."""
        return self._digest.hexdigest()

    def add(self, documents: Documents, proportions: np.ndarray) -> None:
        """Add rows for these documents."""
        if self._pending.tell() > _MAX_PENDING:
            self.dropped += documents.size
            return
        csv.writer(self._pending).writerows(_rows(documents, proportions))

    @property
    def should_flush(self) -> bool:
        """Whether enough rows are collected to be written."""
        return self._pending.tell() > _FLUSH_SIZE

    def flush(self) -> int:
        """Write the collected rows; return the size of the file. After an error the state is unchanged."""
        if self._pending.tell():
            compressed = gzip.compress(self._pending.getvalue().encode("utf-8"), compresslevel=5, mtime=0)
            with naming(self.path), self.path.open("r+b") as file:
                # Remove the beginning of an earlier write that failed.
                file.truncate(self.size)
                file.seek(self.size)
                file.write(compressed)
                file.flush()
                os.fsync(file.fileno())
            self._digest.update(compressed)
            self.size += len(compressed)
            self._pending = io.StringIO()
        return self.size

    def write_in_order(
        self, path: Path, documents: Documents, proportions: np.ndarray, show: Callable[[int, int], None]
    ) -> None:
        """Write all rows, and those of further documents, by their places in the source.

        The file is read twice: first the places, then the rows, of which only those are in memory that wait
        for an earlier one. These are few, as the stream is shuffled within a buffer. `show`: called with the
        number of rows so far and in all.
        """
        self.flush()
        waiting: dict[int, list[list[str]]] = {}
        for row in _rows(documents, proportions):
            waiting.setdefault(int(row[0]), []).append(row)
        rows = self._read()
        header = next(rows)
        places = sorted([*waiting, *(int(row[0]) for row in rows)])
        rows = self._read()
        next(rows)

        def write(file: BinaryIO) -> None:
            # Without the time and the name of the file, so that the same rows give the same bytes.
            with (
                gzip.GzipFile("", "wb", 5, file, mtime=0) as compressed,
                io.TextIOWrapper(compressed, encoding="utf-8", newline="") as text,
            ):
                writer = csv.writer(text, lineterminator="\n")
                writer.writerow(header)
                for number, place in enumerate(places):
                    if number % _ROWS_PER_REPORT == 0:
                        show(number, len(places))
                    while place not in waiting:
                        row = next(rows)
                        waiting.setdefault(int(row[0]), []).append(row)
                    writer.writerow(waiting[place].pop(0))
                    if not waiting[place]:
                        del waiting[place]

        write_atomically(path, write)

    def _read(self) -> Iterator[list[str]]:
        """The names of the columns, then the rows."""
        with gzip.open(self.path, "rt", encoding="utf-8", newline="") as file:
            yield from csv.reader(file)


def _rows(documents: Documents, proportions: np.ndarray) -> Iterator[list[str]]:
    assert documents.places is not None
    entries = zip(documents.places.tolist(), documents.names, proportions.tolist(), strict=True)
    return ([str(place), name, *(f"{share:.4f}" for share in shares)] for place, name, shares in entries)
