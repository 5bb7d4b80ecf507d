"""Text from files, lines, standard input and iterables."""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fokker.corpora._binary import binary_kind
from fokker.corpora._json import is_json_object, json_texts
from fokker.corpora._source import FileSource, Text, TextSource
from fokker.corpora._tally import Tally, decoded
from fokker.rows.compressed import blocks, lines, read_all

_READ = 1 << 16


class TextFiles(FileSource):
    """One document per file, named by its path relative to `root`; files that are not text are counted."""

    def __init__(self, label: str, paths: Sequence[Path], root: Path | None = None) -> None:
        super().__init__(label, paths)
        self.root, self.size = root, len(paths)

    def texts_of(self, path: Path, tally: Tally) -> Iterator[Text]:
        """The document of one file."""
        name = str(path.relative_to(self.root)) if self.root else str(path)
        contents = read_all(path, tally.lose)
        if kind := binary_kind(contents):
            tally.binary_files += 1
            tally.note(f"{name} is {kind}")
        else:
            yield name, (decoded(contents, tally),)


class TextLines(FileSource):
    """One document per line, named by its number (and file, if there are several)."""

    def texts_of(self, path: Path, tally: Tally) -> Iterator[Text]:
        """The lines of one file, in order."""
        for number, line in lines(blocks(path, tally.lose)):
            yield self.name_of(path, number), (decoded(line, tally),)


class StandardInput(TextSource):
    """One document per line, plain text or JSON; the first non-empty line decides which."""

    label, single_pass, portable = "standard input", True, False

    def __init__(self, key: str, format: str | None) -> None:
        self.key, self.format = key, format

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The lines, as they arrive."""
        as_json = None if self.format is None else self.format == "jsonl"
        # `os.read` returns the available bytes without waiting for more. It also holds no lock, which a
        # thread that is still waiting when the program ends could not release.
        descriptor = sys.stdin.fileno()
        for number, line in lines(iter(lambda: os.read(descriptor, _READ), b"")):
            if as_json is None and line.strip():
                as_json = is_json_object(line)
            if as_json and not line.strip():
                continue
            if as_json:
                yield from json_texts([(number, decoded(line, tally))], self.key, str, tally)
            else:
                yield str(number), (decoded(line, tally),)


class Strings(TextSource):
    """An iterable of strings, named by their positions from 0."""

    label, portable = "the iterable of strings", False

    def __init__(self, strings: Iterable[str]) -> None:
        self.strings = strings
        self.single_pass = iter(strings) is strings
        self.size = len(strings) if isinstance(strings, Sequence) else None

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The strings, in order."""
        for i, text in enumerate(self.strings):
            if not isinstance(text, str):
                raise TypeError(
                    f"a corpus can be an iterable of strings, one per document; element {i} is a "
                    f"{type(text).__name__}: {text!r:.60}."
                )
            yield str(i), (text,)


class Replayed(TextSource):
    """A single-pass source whose first documents were already read and are stored."""

    single_pass, portable = True, False

    def __init__(self, source: TextSource, number: int) -> None:
        self.label, self.source, self.tally = source.label, source, Tally()
        self.remainder = source.texts(self.tally)
        self.first_documents = list(itertools.islice(self.remainder, number))

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The stored documents, then the rest."""
        self.tally.move_to(tally)
        yield from self.first_documents
        self.first_documents = []
        for text in self.remainder:
            self.tally.move_to(tally)
            yield text
        self.tally.move_to(tally)
