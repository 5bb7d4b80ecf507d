"""Interfaces of the sources of a corpus: text, or word counts."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from fokker.corpora._tally import Tally

# A text is an iterable of pieces, generated on demand; no word crosses a boundary. To know that a long
# document contains a known word, its first pieces are enough.
Text = tuple[str, Iterable[str]]
Counts = tuple[str, np.ndarray, np.ndarray]


class CorpusSource(ABC):
    """A source of documents.

    `label`: its name in messages. `single_pass`: whether it can be read only once. `portable`: whether
    another process can open it too. `size`: the number of documents it declares, or None.
    """

    label: str
    single_pass: bool = False
    portable: bool = True
    size: int | None = None


class TextSource(CorpusSource):
    """A source of named texts."""

    @abstractmethod
    def texts(self, tally: Tally) -> Iterator[Text]:
        """Yield all documents in order; count in the tally what could not be read."""


class FileSource(TextSource):
    """Texts in files, one file after the other. `key`: where the text of a record is."""

    def __init__(self, label: str, paths: Sequence[Path], key: str = "") -> None:
        self.label, self.paths, self.key = label, tuple(paths), key

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The documents of all files, in order; what could not be read is counted in the tally."""
        for path in self.paths:
            yield from self.texts_of(path, tally)

    @abstractmethod
    def texts_of(self, path: Path, tally: Tally) -> Iterator[Text]:
        """The documents of one file, in order."""

    def name_of(self, path: Path, number: int) -> str:
        """The name of a document that has none: its number, and its file if there are several."""
        return str(number) if len(self.paths) == 1 else f"{path.name}:{number}"


class TableSource(FileSource):
    """A source of texts in a column of a table, or under a key of records.

    `named_by`: another column, whose values name the documents, "" where one is missing; None for the title,
    name or id, else the number of the row.
    """

    named_by: str | None = None


class CountSource(CorpusSource):
    """A source of named documents as word ids (ascending, unique) and counts, both int32.

    `path`: its file, or None. The same folder may contain a list of the words.
    """

    path: Path | None = None

    @abstractmethod
    def width(self) -> int:
        """A number above all word ids; needs a pass over the source if the source does not declare it."""

    @abstractmethod
    def counts(self, tally: Tally) -> Iterator[Counts]:
        """Yield all documents in order; count in the tally what could not be read."""
