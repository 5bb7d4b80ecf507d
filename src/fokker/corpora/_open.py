"""Finding out what a source is, and opening it."""

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fokker.corpora._compressed import SUFFIXES, head
from fokker.corpora._corpus import Corpus
from fokker.corpora._counts import BagOfWords, LdaC, Matrix, load_npz
from fokker.corpora._docstrings import Docstrings
from fokker.corpora._documents import Documents
from fokker.corpora._mediawiki import MediaWiki
from fokker.corpora._source import CountSource, TextSource
from fokker.corpora._tally import Tally
from fokker.corpora._texts import (
    JsonLines,
    Replayed,
    StandardInput,
    Strings,
    TextFiles,
    TextLines,
    is_json_object,
)
from fokker.corpora._tokens import Tokeniser, letters, matches
from fokker.corpora._vocabulary import Vocabulary

FORMATS = {
    "files": "a document a file",
    "lines": "a document a line",
    "jsonl": "a JSON object a line",
    "mediawiki": "a MediaWiki XML dump",
    "uci": "UCI's bag of words",
    "lda-c": "LDA-C's word counts",
    "npz": "a matrix of counts",
}
_TEXT_SUFFIXES = {"", ".txt", ".text", ".md", ".rst"}
_BY_NAME = (
    (re.compile(r"^docword\b.*\.txt$"), "uci"),
    (re.compile(r"\.(jsonl|ndjson)$"), "jsonl"),
    (re.compile(r"\.xml($|-p\d)"), "mediawiki"),
    (re.compile(r"\.(dat|ldac|lda-c)$"), "lda-c"),
    (re.compile(r"\.npz$"), "npz"),
)
_BY_CONTENT: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"PK\x03\x04"), "npz"),
    (
        re.compile(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)?<(mediawiki|page)\b", re.DOTALL),
        "mediawiki",
    ),
    (re.compile(rb"\d+\s*\n\d+\s*\n\d+\s*\n\d+ \d+ \d+"), "uci"),
    (re.compile(rb"\d+( \d+:\d+)+\s*\n"), "lda-c"),
)

VocabularyLike = (
    Vocabulary | str | os.PathLike[str] | Sequence[str] | Callable[[Iterable[list[str]]], Vocabulary]
)


def open_corpus(
    source: Any = None,
    *,
    vocabulary: VocabularyLike | None = None,
    format: str | None = None,
    key: str = "text",
    pattern: str | None = None,
    minimum_tokens: int = 1,
    learn_from: int = 2_000,
    repeat: bool = False,
    shuffle_buffer: int = 0,
    seed: int = 0,
) -> Corpus:
    r"""A corpus to be read as a stream of word counts, from nearly anything.

    `source`: a folder or glob of text files; a file of text (a document a line), JSON lines, UCI's or
    LDA-C's counts, .npz, or a MediaWiki dump, each plain or compressed by gzip, bzip2 or xz; a SciPy
    matrix, an array or `Documents`; an iterable of strings; "-", standard input; None, the docstrings of
    this Python. What a file is, is seen by its name and contents, or said by `format`, one of `FORMATS`.

    `vocabulary`: a `Vocabulary`, a file of one word a line, or a list of words. None learns one from text
    in a pass before; from what can be read only once, from the first `learn_from` documents. To learn
    another one give a function, such as `functools.partial(Vocabulary.learn, maximum_words=5_000)`. Counts
    take the vocab.NAME.txt or vocab.txt beside their file, else numbers for words.

    `key`: where a JSON object has its text. `pattern`: a regular expression for words other than of the
    letters a to z. `minimum_tokens`: known words below which a document is skipped. `repeat`: begin again
    at the end, for ever. `shuffle_buffer`: mix the order through a buffer of so many documents, by `seed`,
    anew in each pass.
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"format={format!r} is none of {', '.join(FORMATS)}.")
    opened = _source(source, format, key)
    tokenise: Tokeniser = letters if pattern is None else matches(pattern)
    if isinstance(opened, CountSource):
        words = _vocabulary_of_counts(opened, vocabulary)
    else:
        opened, words = _vocabulary_of_text(opened, vocabulary, tokenise, learn_from)
    return Corpus(
        opened,
        words,
        tokenise,
        minimum_tokens=minimum_tokens,
        repeat=repeat,
        shuffle_buffer=shuffle_buffer,
        seed=seed,
    )


def _source(source: Any, format: str | None, key: str) -> TextSource | CountSource:
    if source is None:
        return Docstrings()
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if name == "-":
            if format not in (None, "lines", "jsonl"):
                raise ValueError(f"standard input is read as lines or jsonl, not as {format}: give a file.")
            return StandardInput(key, format)
        return _from_files(name, format, key)
    if isinstance(source, Documents):
        return Matrix("the documents", source)
    if isinstance(source, np.ndarray) and source.dtype.kind in "OUT":
        return Strings(source.tolist())
    if isinstance(source, np.ndarray) or hasattr(source, "tocsr"):
        return Matrix("the matrix", Documents.from_matrix(source), source.shape[1])
    if isinstance(source, Iterable) and not isinstance(source, bytes | bytearray):
        return Strings(source)
    raise TypeError(
        f"a {type(source).__name__} is no corpus: give a file, a folder, a glob, a matrix, an iterable of "
        "strings, '-' for standard input, or None for the docstrings of this Python."
    )


def _from_files(name: str, format: str | None, key: str) -> TextSource | CountSource:
    path = Path(name)
    if path.is_dir():
        paths = sorted(found for found in path.rglob("*") if _is_meant(found, path, format))
        if not paths:
            raise ValueError(
                f"{name} has no text files (.txt, .md, .rst or without a suffix): give a glob of others."
            )
        return (
            TextFiles(name, paths, path)
            if format in (None, "files")
            else _from_paths(name, paths, format, key)
        )
    if path.is_file():
        return _from_paths(name, [path], format or _guess(path), key)
    if glob.has_magic(name):
        paths = sorted(Path(found) for found in glob.glob(name, recursive=True) if os.path.isfile(found))
        if not paths:
            raise FileNotFoundError(f"no file matches {name}.")
        return _from_paths(name, paths, format or _guess_by_name(paths[0]) or "files", key)
    if path.exists():
        return _from_paths(name, [path], format or "lines", key)
    raise FileNotFoundError(f"there is no file or folder {name}.")


def _from_paths(label: str, paths: Sequence[Path], format: str, key: str) -> TextSource | CountSource:
    if format == "files":
        return TextFiles(label, paths)
    if format == "lines":
        return TextLines(label, paths)
    if format == "jsonl":
        return JsonLines(label, paths, key)
    if format == "mediawiki":
        return MediaWiki(label, paths)
    if len(paths) > 1:
        raise ValueError(f"{label}: {FORMATS[format]} is read from one file; there are {len(paths)}.")
    return {"uci": BagOfWords, "lda-c": LdaC, "npz": load_npz}[format](paths[0])


def _is_meant(path: Path, folder: Path, format: str | None) -> bool:
    """Whether a file of a folder is part of the corpus: all that are not hidden, but of text those that "
    "look it."""
    if any(part.startswith(".") for part in path.relative_to(folder).parts) or not path.is_file():
        return False
    if format not in (None, "files"):
        return True
    suffix = _unpacked_name(path)[1]
    return suffix in _TEXT_SUFFIXES or suffix[1:].isdigit()


def _unpacked_name(path: Path) -> tuple[str, str]:
    """A file's name and suffix, in small letters, without what says how it is compressed."""
    plain = Path(path.name.lower())
    if plain.suffix in SUFFIXES:
        plain = plain.with_suffix("")
    return plain.name, plain.suffix


def _guess_by_name(path: Path) -> str | None:
    name, _ = _unpacked_name(path)
    return next((format for expression, format in _BY_NAME if expression.search(name)), None)


def _guess(path: Path) -> str:
    if (by_name := _guess_by_name(path)) is not None:
        return by_name
    beginning = head(path)
    for expression, format in _BY_CONTENT:
        if expression.match(beginning):
            return format
    first = beginning.lstrip().partition(b"\n")[0]
    return "jsonl" if is_json_object(first) else "lines"


def _vocabulary_of_counts(source: CountSource, vocabulary: VocabularyLike | None) -> Vocabulary:
    if callable(vocabulary):
        raise ValueError(f"{source.label} is counts already: there is no text to learn a vocabulary from.")
    if vocabulary is not None:
        return _given(vocabulary)
    for beside in [] if source.path is None else _lists_beside(source.path):
        if beside.is_file():
            # As it is: counted words may differ in capitals only.
            return Vocabulary.load(beside, lower=False)
    width = source.width()
    if not width:
        raise ValueError(f"{source.label} is empty: it has no word.")
    return Vocabulary.numbered(width)


def _lists_beside(path: Path) -> list[Path]:
    """Where the words of a file of counts may be listed."""
    name, _ = _unpacked_name(path)
    own = [path.with_name(name.replace("docword", "vocab", 1))] if name.startswith("docword") else []
    return [*own, path.with_name("vocab.txt")]


def _vocabulary_of_text(
    source: TextSource, vocabulary: VocabularyLike | None, tokenise: Tokeniser, learn_from: int
) -> tuple[TextSource, Vocabulary]:
    if vocabulary is not None and not callable(vocabulary):
        return source, _given(vocabulary)
    if learn_from < 1:
        raise ValueError(f"learn_from must be at least 1 document; {learn_from} was given.")
    if source.once:
        source = Replayed(source, learn_from)
    learn = vocabulary or Vocabulary.learn
    tally = Tally()
    number = 0

    def documents() -> Iterator[list[str]]:
        nonlocal number
        for _, pieces in source.beginning if isinstance(source, Replayed) else source.texts(tally):
            number += 1
            yield [token for piece in pieces for token in tokenise(piece)]

    try:
        learned = learn(documents())
    except ValueError as error:
        if number:
            raise ValueError(f"{source.label}: {error}") from None
        told = (source.tally if isinstance(source, Replayed) else tally).sentence()
        raise ValueError(f"{source.label} has no document. {told or 'It is empty.'}") from None
    return source, learned


def _given(vocabulary: Vocabulary | str | os.PathLike[str] | Sequence[str]) -> Vocabulary:
    if isinstance(vocabulary, Vocabulary):
        return vocabulary
    if isinstance(vocabulary, str | os.PathLike):
        if not Path(vocabulary).is_file():
            raise FileNotFoundError(f"there is no vocabulary file {os.fspath(vocabulary)}.")
        return Vocabulary.load(vocabulary)
    return Vocabulary(vocabulary)
