"""Read word counts in the formats of UCI and LDA-C, and from matrices."""

import io
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fokker.corpora._documents import MAX_INT32, Documents, sort_and_merge
from fokker.corpora._source import Counts, CountSource
from fokker.corpora._tally import Tally
from fokker.rows.arrays import arrays_of
from fokker.rows.compressed import blocks, lines, read_all

# Entries of a UCI file that are parsed at once.
_ENTRIES_PER_CHUNK = 20_000


class BagOfWords(CountSource):
    """UCI's docword.NAME.txt: three lines D, W, NNZ, then lines `document word count`.

    Documents and words are numbered from 1; the lines are ordered by document.
    """

    path: Path

    def __init__(self, path: Path) -> None:
        self.label, self.path = str(path), path
        header = [line for _, line in itertools.islice(lines(blocks(path, Tally().lose)), 3)]
        try:
            self.size, self.words, self.entries = map(int, header)
        except ValueError:
            raise ValueError(
                f"{path} does not begin with three lines with the numbers of documents, words and entries: "
                "is it UCI's bag of words?"
            ) from None

    def width(self) -> int:
        """The number of words in the header."""
        return self.words

    def counts(self, tally: Tally) -> Iterator[Counts]:
        """The documents, in order; documents without an entry are counted as empty."""
        num_entries, expected = 0, 1
        number = 0  # of the current document
        parts: list[np.ndarray] = []
        entries = itertools.islice(lines(blocks(self.path, tally.lose)), 3, None)
        while chunk := list(itertools.islice(entries, _ENTRIES_PER_CHUNK)):
            table = self._table(chunk)
            num_entries += len(table)
            starts = np.flatnonzero(np.diff(table[:, 0], prepend=number))
            bounds = [0, *starts.tolist(), len(table)]
            for start, stop in itertools.pairwise(bounds):
                if start == stop:
                    continue
                document = int(table[start, 0])
                if document != number:
                    if number:
                        yield self._document(number, parts)
                    if document < expected:
                        raise ValueError(
                            f"{self.label}: document {document} comes after document {number}, at the latest "
                            f"in line {chunk[start][0]}: the entries must be ordered by document."
                        )
                    tally.empty += document - expected
                    number, expected, parts = document, document + 1, []
                parts.append(table[start:stop, 1:])
        # Damaged compression is already in the tally; an intact file must contain what its header declares.
        if num_entries < self.entries and not tally.lost_bytes:
            raise ValueError(
                f"{self.label} is cut short: its header declares {self.entries:,} entries, {num_entries:,} "
                f"are present (the last is of document {number:,} of {self.size:,}). Download it again, or "
                "correct the header."
            )
        if number:
            yield self._document(number, parts)
        if not tally.lost_bytes and self.size is not None:
            tally.empty += max(self.size - max(expected - 1, 0), 0)

    def _table(self, chunk: Sequence[tuple[int, bytes]]) -> np.ndarray:
        try:
            table = np.array(list(map(int, b" ".join(line for _, line in chunk).split())), np.int64)
            table = table.reshape(-1, 3)
            is_valid = len(table) == len(chunk)
        except (ValueError, OverflowError):
            is_valid = False
        if is_valid and np.all((table >= (1, 1, 0)) & (table <= (MAX_INT32, self.words, MAX_INT32))):
            return table
        return np.array(
            [self._entry(number, line) for number, line in chunk if line.strip()], np.int64
        ).reshape(-1, 3)

    def _entry(self, number: int, line: bytes) -> list[int]:
        """Parse one line; the error names the line."""
        shown = line[:60].decode("utf-8", errors="replace")
        try:
            document, word, count = map(int, line.split())
        except ValueError:
            raise ValueError(
                f"{self.label}, line {number}: {shown!r} is not `document word count` in whole numbers."
            ) from None
        if not 1 <= word <= self.words:
            raise ValueError(
                f"{self.label}, line {number}: the word id {word} is outside the vocabulary: according to "
                f"the header it has the ids 1 to {self.words}."
            )
        if document < 1 or not 0 <= count <= MAX_INT32:
            raise ValueError(
                f"{self.label}, line {number}: {shown!r}: document numbers start at 1 and counts are from "
                f"0 to {MAX_INT32:,}."
            )
        return [document, word, count]

    def _document(self, number: int, parts: list[np.ndarray]) -> Counts:
        table = np.concatenate(parts)
        return _document_counts(str(number), table[:, 0] - 1, table[:, 1])


class LdaC(CountSource):
    """LDA-C's lines `n id:count id:count …` with ids from 0. Line numbers, from 1, are the document names."""

    path: Path

    def __init__(self, path: Path) -> None:
        self.label, self.path = str(path), path

    def width(self) -> int:
        """One more than the largest word id; needs a pass over the file."""
        return 1 + max((int(words[-1]) for _, words, _ in self.counts(Tally()) if len(words)), default=-1)

    def counts(self, tally: Tally) -> Iterator[Counts]:
        """The documents, in order."""
        for number, line in lines(blocks(self.path, tally.lose)):
            if line.strip():
                yield self._document(number, line)

    def _document(self, number: int, line: bytes) -> Counts:
        try:
            declared, *numbers = map(int, line.replace(b":", b" ").split())
            if line.count(b":") * 2 != len(numbers):
                raise ValueError
        except ValueError:
            shown = line[:60].decode("utf-8", errors="replace")
            raise ValueError(
                f"{self.label}, line {number} is not `n id:count id:count …` in whole numbers: {shown!r}."
            ) from None
        if len(numbers) != 2 * declared:
            raise ValueError(
                f"{self.label}, line {number} declares {declared} words and has {len(numbers) // 2}: the "
                "file may be cut short there."
            )
        if numbers and not 0 <= min(numbers) <= max(numbers) <= MAX_INT32:
            raise ValueError(f"{self.label}, line {number}: ids and counts must be from 0 to {MAX_INT32:,}.")
        pairs = np.array(numbers, np.int64)
        return _document_counts(str(number), pairs[::2], pairs[1::2])


class Matrix(CountSource):
    """Documents in memory."""

    portable = False  # a copy in another process would cost more than it saves

    def __init__(
        self, label: str, documents: Documents, width: int | None = None, path: Path | None = None
    ) -> None:
        self.label, self.documents, self.size = label, documents, documents.size
        self.path, self._width = path, width

    def width(self) -> int:
        """The width of the matrix if it is known, else one more than the largest word id."""
        if self._width is not None:
            return self._width
        return int(self.documents.words.max(initial=-1)) + 1

    def counts(self, tally: Tally) -> Iterator[Counts]:
        """The documents, in order."""
        return map(self.documents.row, range(self.documents.size))


def load_npz(path: Path) -> Matrix:
    """Load a .npz file of SciPy, or with the arrays indptr, indices and counts (or data).

    The file may be compressed again. Document names come from an array names, title, page_id or id.
    """
    tally = Tally()
    contents = read_all(path, tally.lose)
    arrays = arrays_of(contents, path, tally.sentence())
    values = arrays.get("counts", arrays.get("data"))
    words = arrays.get("indices", arrays.get("words"))
    width = int(arrays["shape"][1]) if "shape" in arrays else None
    if "format" in arrays and bytes(arrays["format"].item()) != b"csr":
        from scipy import sparse

        matrix = sparse.load_npz(io.BytesIO(contents))
        return Matrix(str(path), Documents.from_matrix(matrix), width, path)
    if "indptr" not in arrays or words is None or values is None:
        raise ValueError(
            f"{path} contains the arrays {', '.join(arrays) or '(none)'}; a corpus needs indptr, indices and "
            "counts (or data), or the arrays that scipy.sparse.save_npz writes."
        )
    names = next((arrays[name] for name in ("names", "title", "page_id", "id") if name in arrays), None)
    if names is not None and names.shape != (len(arrays["indptr"]) - 1,):
        names = None
    name_list = None if names is None else [str(name) for name in names.tolist()]
    try:
        return Matrix(
            str(path), Documents.from_arrays(arrays["indptr"], words, values, name_list), width, path
        )
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path}: {error}") from None


def _document_counts(name: str, words: np.ndarray, counts: np.ndarray) -> Counts:
    words, counts = sort_and_merge(words, counts)
    if counts.size and counts.max() > MAX_INT32:
        raise ValueError(
            f"document {name}: the count of a word is {counts.max():,}; the largest allowed is {MAX_INT32:,}."
        )
    return name, words.astype(np.int32), counts.astype(np.int32)
