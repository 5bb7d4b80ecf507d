"""Word counts from the formats of UCI and LDA-C, and from matrices."""

import io
import itertools
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fokker.corpora._compressed import blocks, whole
from fokker.corpora._documents import LARGEST, Documents, put_in_order
from fokker.corpora._lines import lines
from fokker.corpora._source import Counts, CountSource
from fokker.corpora._tally import Tally

# Entries of a UCI file that are turned into numbers at once.
_ENTRIES = 20_000


class BagOfWords(CountSource):
    """UCI's docword.NAME.txt: three lines D, W, NNZ, then `document word count`, from 1, ordered by "
    "document."""

    path: Path

    def __init__(self, path: Path) -> None:
        self.label, self.path = str(path), path
        header = [line for _, line in itertools.islice(lines(blocks(path, Tally())), 3)]
        try:
            self.size, self.words, self.entries = map(int, header)
        except ValueError:
            raise ValueError(
                f"{path} does not begin with three lines that say how many documents, words and entries it "
                "has: is it UCI's bag of words?"
            ) from None

    def width(self) -> int:
        """As the header says."""
        return self.words

    def counts(self, tally: Tally) -> Iterator[Counts]:
        """The documents, in order; those of which there is no entry are counted as empty."""
        found, expected = 0, 1
        number = 0  # of the document whose entries are gathered
        gathered: list[np.ndarray] = []
        entries = itertools.islice(lines(blocks(self.path, tally)), 3, None)
        while chunk := list(itertools.islice(entries, _ENTRIES)):
            table = self._table(chunk)
            found += len(table)
            starts = np.flatnonzero(np.diff(table[:, 0], prepend=number))
            bounds = [0, *starts.tolist(), len(table)]
            for start, stop in itertools.pairwise(bounds):
                if start == stop:
                    continue
                document = int(table[start, 0])
                if document != number:
                    if number:
                        yield self._document(number, gathered)
                    if document < expected:
                        raise ValueError(
                            f"{self.label}: document {document} comes after document {number}, at the latest "
                            f"in line {chunk[start][0]}: the entries must be ordered by document."
                        )
                    tally.empty += document - expected
                    number, expected, gathered = document, document + 1, []
                gathered.append(table[start:stop, 1:])
        # A file whose compression is damaged has said so; one that is whole must hold what its header says.
        if found < self.entries and not tally.lost_bytes:
            raise ValueError(
                f"{self.label} is cut short: its header promises {self.entries:,} entries, {found:,} are "
                f"there (the last is of document {number:,} of {self.size:,}). Fetch it again, or mend the "
                "header."
            )
        if number:
            yield self._document(number, gathered)
        if not tally.lost_bytes and self.size is not None:
            tally.empty += max(self.size - max(expected - 1, 0), 0)

    def _table(self, chunk: Sequence[tuple[int, bytes]]) -> np.ndarray:
        try:
            table = np.array(list(map(int, b" ".join(line for _, line in chunk).split())), np.int64)
            table = table.reshape(-1, 3)
            good = len(table) == len(chunk)
        except (ValueError, OverflowError):
            good = False
        if good and np.all((table >= (1, 1, 0)) & (table <= (LARGEST, self.words, LARGEST))):
            return table
        return np.array(
            [self._entry(number, line) for number, line in chunk if line.strip()], np.int64
        ).reshape(-1, 3)

    def _entry(self, number: int, line: bytes) -> list[int]:
        """One line, to find the one that is wrong."""
        shown = line[:60].decode("utf-8", errors="replace")
        try:
            document, word, count = map(int, line.split())
        except ValueError:
            raise ValueError(
                f"{self.label}, line {number}: {shown!r} is not `document word count` in whole numbers."
            ) from None
        if not 1 <= word <= self.words:
            raise ValueError(
                f"{self.label}, line {number}: the word id {word} is outside the vocabulary, which by the "
                f"header has the ids 1 to {self.words}."
            )
        if document < 1 or not 0 <= count <= LARGEST:
            raise ValueError(
                f"{self.label}, line {number}: {shown!r}: documents are numbered from 1 and counts are from "
                f"0 to {LARGEST:,}."
            )
        return [document, word, count]

    def _document(self, number: int, parts: list[np.ndarray]) -> Counts:
        table = np.concatenate(parts)
        return _counted(str(number), table[:, 0] - 1, table[:, 1])


class LdaC(CountSource):
    """LDA-C's lines `n id:count id:count …` with ids from 0; the documents are named by their lines, from "
    "1."""

    path: Path

    def __init__(self, path: Path) -> None:
        self.label, self.path = str(path), path

    def width(self) -> int:
        """One more than the largest word id, by a pass over the file."""
        return 1 + max((int(words[-1]) for _, words, _ in self.counts(Tally()) if len(words)), default=-1)

    def counts(self, tally: Tally) -> Iterator[Counts]:
        """The documents, in order."""
        for number, line in lines(blocks(self.path, tally)):
            if line.strip():
                yield self._document(number, line)

    def _document(self, number: int, line: bytes) -> Counts:
        try:
            said, *numbers = map(int, line.replace(b":", b" ").split())
            if line.count(b":") * 2 != len(numbers):
                raise ValueError
        except ValueError:
            shown = line[:60].decode("utf-8", errors="replace")
            raise ValueError(
                f"{self.label}, line {number} is not `n id:count id:count …` in whole numbers: {shown!r}."
            ) from None
        if len(numbers) != 2 * said:
            raise ValueError(
                f"{self.label}, line {number} says it has {said} words and has {len(numbers) // 2}: the file "
                "may be cut short there."
            )
        if numbers and not 0 <= min(numbers) <= max(numbers) <= LARGEST:
            raise ValueError(f"{self.label}, line {number}: ids and counts must be from 0 to {LARGEST:,}.")
        pairs = np.array(numbers, np.int64)
        return _counted(str(number), pairs[::2], pairs[1::2])


class Matrix(CountSource):
    """Documents in memory."""

    portable = False  # a copy in another process would cost more than it saves

    def __init__(
        self, label: str, documents: Documents, width: int | None = None, path: Path | None = None
    ) -> None:
        self.label, self.documents, self.size = label, documents, documents.size
        self.path, self._width = path, width

    def width(self) -> int:
        """The width of the matrix if it had one, else one more than the largest word id."""
        if self._width is not None:
            return self._width
        return int(self.documents.words.max(initial=-1)) + 1

    def counts(self, tally: Tally) -> Iterator[Counts]:
        """The documents, in order."""
        return map(self.documents.row, range(self.documents.size))


def load_npz(path: Path) -> Matrix:
    """A .npz file, perhaps compressed again: SciPy's, or the arrays indptr, indices and counts (or data).

    An array of names, titles or page ids gives the names.
    """
    tally = Tally()
    contents = whole(path, tally)
    try:
        with np.load(io.BytesIO(contents), allow_pickle=False) as archive:
            arrays: dict[str, Any] = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a whole .npz file: {error}. {tally.sentence()}".rstrip()) from None
    values = arrays.get("counts", arrays.get("data"))
    words = arrays.get("indices", arrays.get("words"))
    width = int(arrays["shape"][1]) if "shape" in arrays else None
    if "format" in arrays and bytes(arrays["format"].item()) != b"csr":
        from scipy import sparse

        matrix = sparse.load_npz(io.BytesIO(contents))
        return Matrix(str(path), Documents.from_matrix(matrix), width, path)
    if "indptr" not in arrays or words is None or values is None:
        raise ValueError(
            f"{path} holds the arrays {', '.join(arrays) or '(none)'}; a corpus needs indptr, indices and "
            "counts (or data), or what scipy.sparse.save_npz writes."
        )
    names = next((arrays[name] for name in ("names", "title", "page_id", "id") if name in arrays), None)
    if names is not None and names.shape != (len(arrays["indptr"]) - 1,):
        names = None
    listed = None if names is None else [str(name) for name in names.tolist()]
    try:
        return Matrix(str(path), Documents.from_arrays(arrays["indptr"], words, values, listed), width, path)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path}: {error}") from None


def _counted(name: str, words: np.ndarray, counts: np.ndarray) -> Counts:
    words, counts = put_in_order(words, counts)
    if counts.size and counts.max() > LARGEST:
        raise ValueError(
            f"document {name}: a word is counted {counts.max():,} times; at most {LARGEST:,} can be."
        )
    return name, words.astype(np.int32), counts.astype(np.int32)
