"""What a corpus is read from: text to be counted, or counts."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from fokker.corpora._tally import Tally

# A text comes in pieces that part no word and are made when asked for: to know that a long document has a
# known word, its beginning is enough.
Text = tuple[str, Iterable[str]]
Counts = tuple[str, np.ndarray, np.ndarray]


class Source(ABC):
    """Somewhere documents come from.

    `label` names it in messages. `once`: it can be read a single time. `portable`: another process can open
    it too. `size`: how many documents it says it has, None where it does not say.
    """

    label: str
    once: bool = False
    portable: bool = True
    size: int | None = None


class TextSource(Source):
    """A source of names and texts."""

    @abstractmethod
    def texts(self, tally: Tally) -> Iterator[Text]:
        """All documents, in order; the tally is told what could not be read."""


class CountSource(Source):
    """A source of names, word ids (ascending, unique) and counts, all int32.

    `path`: the file it is from, if it is from one; a list of the words may be beside it.
    """

    path: Path | None = None

    @abstractmethod
    def width(self) -> int:
        """A number above all word ids, by a pass over the source if it does not say."""

    @abstractmethod
    def counts(self, tally: Tally) -> Iterator[Counts]:
        """All documents, in order; the tally is told what could not be read."""
