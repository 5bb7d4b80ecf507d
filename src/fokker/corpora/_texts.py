"""Text from files, lines, JSON and iterables."""

import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fokker.corpora._compressed import blocks, read_all
from fokker.corpora._lines import decoded, lines
from fokker.corpora._source import Text, TextSource
from fokker.corpora._tally import Tally

_READ = 1 << 16
_NAME_KEYS = ("title", "name", "id")


class TextFiles(TextSource):
    """One document per file, named by its path relative to `root`."""

    def __init__(self, label: str, paths: Sequence[Path], root: Path | None = None) -> None:
        self.label, self.paths, self.root, self.size = label, tuple(paths), root, len(paths)

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The files, in order."""
        for path in self.paths:
            name = str(path.relative_to(self.root)) if self.root else str(path)
            yield name, (decoded(read_all(path, tally), tally),)


class TextLines(TextSource):
    """One document per line, named by its number (and file, if there are several)."""

    def __init__(self, label: str, paths: Sequence[Path]) -> None:
        self.label, self.paths = label, tuple(paths)

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The lines of all files, in order."""
        for path in self.paths:
            for number, line in lines(blocks(path, tally)):
                yield _line_name(path, number, self.paths), (decoded(line, tally),)


class JsonLines(TextSource):
    """One JSON object per line, with its text under `key`, named by its title, name or id if it has one."""

    def __init__(self, label: str, paths: Sequence[Path], key: str) -> None:
        self.label, self.paths, self.key = label, tuple(paths), key

    def texts(self, tally: Tally) -> Iterator[Text]:
        """The objects of all files, in order; other lines are counted in the tally."""
        for path in self.paths:
            for number, line in lines(blocks(path, tally)):
                if line.strip():
                    name = _line_name(path, number, self.paths)
                    yield from json_text(decoded(line, tally), self.key, name, tally)


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
                yield from json_text(decoded(line, tally), self.key, str(number), tally)
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


def is_json_object(line: bytes) -> bool:
    """Whether a line is a JSON object, or the beginning of one."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return line.lstrip().startswith(b'{"')


def json_text(line: str, key: str, name: str, tally: Tally) -> Iterator[Text]:
    """The text of a JSON line, if it has one."""
    problem = ""
    try:
        entry: Any = json.loads(line)
    except ValueError as error:
        problem = f"not JSON, {error}"
    else:
        if not isinstance(entry, dict):
            problem = f"a JSON {type(entry).__name__}, not an object"
        elif key not in entry:
            problem = f"no key {key!r} among {', '.join(map(repr, list(entry)[:8]))}: set key="
        elif not isinstance(entry[key], str):
            problem = f"{key!r} is a {type(entry[key]).__name__}, not text"
    if problem:
        tally.bad_lines += 1
        tally.note(f"line {name}: {problem}")
        return
    names = (str(entry[name_key]) for name_key in _NAME_KEYS if entry.get(name_key) not in (None, ""))
    yield next(names, name), (entry[key],)


def _line_name(path: Path, number: int, paths: Sequence[Path]) -> str:
    return str(number) if len(paths) == 1 else f"{path.name}:{number}"
