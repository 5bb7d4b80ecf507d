"""Detect the format of a source and open it."""

import glob
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fokker.corpora._binary import binary_kind, is_arrays, is_parquet
from fokker.corpora._corpus import Corpus
from fokker.corpora._counts import BagOfWords, LdaC, Matrix, load_npz
from fokker.corpora._docstrings import Docstrings
from fokker.corpora._documents import Documents
from fokker.corpora._json import JsonArray, JsonLines, is_json_object
from fokker.corpora._mediawiki import MediaWiki
from fokker.corpora._source import CountSource, FileSource, TableSource, TextSource
from fokker.corpora._tables import Csv, Parquet
from fokker.corpora._tally import Tally
from fokker.corpora._texts import Replayed, StandardInput, Strings, TextFiles, TextLines
from fokker.corpora._tokens import Tokeniser, are_phrases, is_without_spaces, tokeniser
from fokker.corpora._vocabulary import Vocabulary
from fokker.rows.compressed import head, uncompressed_name

FORMATS = {
    "files": "one document per file",
    "lines": "one document per line",
    "jsonl": "one JSON object per line",
    "json": "a JSON array of objects or strings",
    "csv": "a table with one row per document",
    "parquet": "a Parquet table with one row per document",
    "mediawiki": "a MediaWiki XML dump",
    "uci": "UCI's bag of words",
    "lda-c": "LDA-C's word counts",
    "npz": "a matrix of counts",
}
_TEXT_SUFFIXES = {"", ".txt", ".text", ".md", ".rst"}
_BY_NAME = (
    (re.compile(r"^docword\b.*\.txt$"), "uci"),
    (re.compile(r"\.(jsonl|ndjson)$"), "jsonl"),
    (re.compile(r"\.(csv|tsv)$"), "csv"),
    (re.compile(r"\.(parquet|pq)$"), "parquet"),
    (re.compile(r"\.xml($|-p\d)"), "mediawiki"),
    (re.compile(r"\.(dat|ldac|lda-c)$"), "lda-c"),
    (re.compile(r"\.npz$"), "npz"),
)
_BY_CONTENT: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (
        re.compile(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)?<(mediawiki|page)\b", re.DOTALL),
        "mediawiki",
    ),
    (re.compile(rb"\d+\s*\n\d+\s*\n\d+\s*\n\d+ \d+ \d+"), "uci"),
    (re.compile(rb"\d+( \d+:\d+)+\s*\n"), "lda-c"),
    (re.compile(rb'(\xef\xbb\xbf)?\s*\[\s*[{"]'), "json"),
)
_OF_MANY_FILES: dict[str, type[FileSource]] = {
    "lines": TextLines,
    "jsonl": JsonLines,
    "json": JsonArray,
    "csv": Csv,
    "parquet": Parquet,
    "mediawiki": MediaWiki,
}
_OF_ONE_FILE: dict[str, Callable[[Path], CountSource]] = {"uci": BagOfWords, "lda-c": LdaC, "npz": load_npz}
# Formats that hold bytes other than text.
_BINARY_FORMATS = ("npz", "parquet")
# Of a document, so many characters decide whether its script has spaces.
_SEARCHED_CHARACTERS = 1_000
# Where this share of the first documents is in a script without spaces, a warning says so.
_MAX_SHARE_WITHOUT_SPACES = 0.25

VocabularyLike = (
    Vocabulary | str | os.PathLike[str] | Sequence[str] | Callable[[Iterable[list[str]]], Vocabulary]
)


def open_corpus(
    source: Any = None,
    *,
    vocabulary: VocabularyLike | None = None,
    format: str | None = None,
    key: str = "text",
    pattern: str = "unicode",
    bigrams: bool = False,
    minimum_tokens: int = 1,
    learn_from: int = 2_000,
    repeat: bool = False,
    shuffle_buffer: int = 0,
    seed: int = 0,
) -> Corpus:
    r"""Open almost any source of documents as a stream of word counts.

    ```python
    corpus = fk.corpora.open_corpus("articles/*.txt")
    for documents in corpus.batches(100):
        ...
    ```

    Arguments:

    - `source`: a folder or glob of text files; a file of text (one document per line), JSON lines, a JSON
      array, CSV, Parquet, UCI or LDA-C counts, .npz, or a MediaWiki dump, each plain or compressed with gzip,
      bzip2, xz or zstd; a SciPy matrix, an array or `Documents`; an iterable of strings; "-" for standard
      input; None for the docstrings of the running Python.
    - `vocabulary`: a `Vocabulary`, a file with one word per line, or a list of words. None learns one from
      the text in an extra pass, or from the first `learn_from` documents if the source can be read only once.
      To learn it with other settings, give a function such as
      `functools.partial(Vocabulary.learn, maximum_words=5_000)`. For counts, the words are read from
      vocab.NAME.txt or vocab.txt in the folder of the file; without such a file, words are numbered.
    - `format`: one of `FORMATS`; by default it is detected from the name and the contents of a file.
    - `key`: the key of the text in a JSON object, or its column in a table.
    - `pattern`: what a word is. "unicode" is a letter of any alphabet followed by letters, digits and
      accents; "letters" is the letters a to z alone, as in the published experiments; anything else is a
      regular expression.
    - `bigrams`: replace two words that follow each other by one, such as "new_york", where the vocabulary has
      it; a vocabulary that is learned then has such pairs.
      Of counts, which have no text, `key`, `pattern` and `bigrams` change nothing.
    - `minimum_tokens`: documents with fewer known words are skipped.
    - `learn_from`: see `vocabulary`.
    - `repeat`: start again at the end, without limit.
    - `shuffle_buffer`: shuffle with a buffer of this many documents, differently in each pass; 0 does not.
    - `seed`: what the shuffled order depends on.

    Returns a `Corpus`. Nothing is read yet but what the vocabulary needs.
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"format={format!r} is not one of {', '.join(FORMATS)}.")
    opened_source = _open_source(source, format, key)
    tokenise = tokeniser(pattern)
    if isinstance(opened_source, CountSource):
        resolved_vocabulary = _vocabulary_for_counts(opened_source, vocabulary)
    else:
        opened_source, resolved_vocabulary = _vocabulary_for_text(
            opened_source, vocabulary, tokenise, learn_from, bigrams
        )
    return Corpus(
        opened_source,
        resolved_vocabulary,
        tokenise,
        bigrams=bigrams,
        minimum_tokens=minimum_tokens,
        repeat=repeat,
        shuffle_buffer=shuffle_buffer,
        seed=seed,
    )


def column_of_corpus(source: Any, column: str, *, format: str | None = None, key: str = "text") -> list[str]:
    """The values of a column beside the text, as texts, by the places of the documents in the source.

    Args:
        source: a file, folder or glob of CSV, JSON or Parquet, or a .npz file that has an array of this name.
        column: its name.
        format: that of the files, as for `open_corpus`.
        key: the column of the text.

    Returns:
        One text for each document of the source, also for those that `open_corpus` leaves out; "" where the
        value is missing.
    """
    opened = _open_source(source, format, key)
    if isinstance(opened, TableSource):
        opened.named_by = column
        values = [name for name, _ in opened.texts(Tally())]
        if any(values):
            return values
        raise ValueError(f"no document of {opened.label} has a value under {column!r}.")
    path = getattr(opened, "path", None)
    if path is not None and is_arrays(head(path)):
        with np.load(path, allow_pickle=False) as arrays:
            sizes = {name: arrays[name].shape for name in arrays.files}
            if sizes.get(column) == (opened.size,):
                return [str(value) for value in arrays[column].tolist()]
        known = [name for name, shape in sizes.items() if shape == (opened.size,)]
        raise ValueError(
            f"{path} has no array {column!r} with one value per document; it has "
            f"{', '.join(known) or 'none'}."
        )
    raise ValueError(f"{opened.label} has no columns beside its documents.")


def _open_source(source: Any, format: str | None, key: str) -> TextSource | CountSource:
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
        f"a {type(source).__name__} is not a corpus: give a file, a folder, a glob, a matrix, an iterable of "
        "strings, '-' for standard input, or None for the docstrings of the running Python."
    )


def _from_files(name: str, format: str | None, key: str) -> TextSource | CountSource:
    path = Path(name)
    if path.is_dir():
        paths = sorted(file for file in path.rglob("*") if _belongs_to_corpus(file, path, format))
        if not paths:
            raise ValueError(
                f"{name} has no text files (.txt, .md, .rst or no suffix): give a glob for other files."
            )
        return (
            TextFiles(name, paths, path)
            if format in (None, "files")
            else _from_paths(name, paths, format, key)
        )
    if path.is_file():
        format = format or _guess_format(path)
        if format not in _BINARY_FORMATS and (kind := binary_kind(head(path))):
            raise ValueError(f"{name} is not text but {kind}.")
        return _from_paths(name, [path], format, key)
    if glob.has_magic(name):
        paths = sorted(Path(file) for file in glob.glob(name, recursive=True) if os.path.isfile(file))
        if not paths:
            raise FileNotFoundError(f"no file matches {name}.")
        return _from_paths(name, paths, format or _guess_format_of_many(paths[0]), key)
    if path.exists():
        return _from_paths(name, [path], format or "lines", key)
    raise FileNotFoundError(f"there is no file or folder {name}.")


def _from_paths(label: str, paths: Sequence[Path], format: str, key: str) -> TextSource | CountSource:
    if format == "files":
        return TextFiles(label, paths)
    if format in _OF_MANY_FILES:
        return _OF_MANY_FILES[format](label, paths, key)
    if len(paths) > 1:
        raise ValueError(f"{label}: {FORMATS[format]} is read from one file; there are {len(paths)}.")
    return _OF_ONE_FILE[format](paths[0])


def _belongs_to_corpus(path: Path, folder: Path, format: str | None) -> bool:
    """Whether a file of a folder is part of the corpus.

    Hidden files are not. For text, the suffix must be one of text files.
    """
    if any(part.startswith(".") for part in path.relative_to(folder).parts) or not path.is_file():
        return False
    if format not in (None, "files"):
        return True
    suffix = _uncompressed_name(path)[1]
    return suffix in _TEXT_SUFFIXES or suffix[1:].isdigit()


def _uncompressed_name(path: Path) -> tuple[str, str]:
    """A file's name and suffix in lower case, without the suffix of its compression."""
    name = uncompressed_name(Path(path.name.lower()))
    return name.name, name.suffix


def _guess_format_by_name(path: Path) -> str | None:
    name, _ = _uncompressed_name(path)
    return next((format for expression, format in _BY_NAME if expression.search(name)), None)


def _guess_format(path: Path) -> str:
    if (by_name := _guess_format_by_name(path)) is not None:
        return by_name
    first_bytes = head(path)
    if is_arrays(first_bytes) or is_parquet(first_bytes):
        return "npz" if is_arrays(first_bytes) else "parquet"
    for expression, format in _BY_CONTENT:
        if expression.match(first_bytes):
            return format
    first_line = first_bytes.lstrip().partition(b"\n")[0]
    if is_json_object(first_line):
        return "jsonl"
    # Of a file that is named JSON and is no array, the reader of arrays says what it is.
    return "json" if _is_json(path) else "lines"


def _is_json(path: Path) -> bool:
    return _uncompressed_name(path)[1] == ".json"


def _guess_format_of_many(first: Path) -> str:
    """The format of the files of a glob: texts, unless their names say otherwise."""
    return _guess_format_by_name(first) or (_guess_format(first) if _is_json(first) else "files")


def _vocabulary_for_counts(source: CountSource, vocabulary: VocabularyLike | None) -> Vocabulary:
    if callable(vocabulary):
        raise ValueError(f"{source.label} contains counts: there is no text to learn a vocabulary from.")
    if vocabulary is not None:
        return _load_vocabulary(vocabulary)
    for path in [] if source.path is None else _word_list_paths(source.path):
        if path.is_file():
            # Not in lower case: counted words may differ only in capitals.
            return Vocabulary.load(path, lower=False)
    width = source.width()
    if not width:
        raise ValueError(f"{source.label} is empty: it has no words.")
    return Vocabulary.numbered(width)


def _word_list_paths(path: Path) -> list[Path]:
    """The files that may list the words of a file of counts."""
    name, _ = _uncompressed_name(path)
    named_list = [path.with_name(name.replace("docword", "vocab", 1))] if name.startswith("docword") else []
    return [*named_list, path.with_name("vocab.txt")]


def _vocabulary_for_text(
    source: TextSource,
    vocabulary: VocabularyLike | None,
    tokenise: Tokeniser,
    learn_from: int,
    bigrams: bool,
) -> tuple[TextSource, Vocabulary]:
    if vocabulary is not None and not callable(vocabulary):
        return source, _load_vocabulary(vocabulary)
    if learn_from < 1:
        raise ValueError(f"learn_from must be at least 1 document; {learn_from} was given.")
    if source.single_pass:
        source = Replayed(source, learn_from)
    documents = _TokenisedDocuments(source, tokenise)
    try:
        learned = (vocabulary or Vocabulary.learn)(documents, **({"bigrams": True} if bigrams else {}))
    except ValueError as error:
        if not documents.is_complete:  # the error is the source's own
            raise
        if documents.number:
            raise ValueError(f"{source.label}: {error}{documents.hint()}") from None
        summary = documents.tally.sentence()
        raise ValueError(f"{source.label} has no document. {summary or 'It is empty.'}") from None
    if hint := documents.hint():
        warnings.warn(f"{source.label}:{hint}", stacklevel=4)
    return source, learned


class _TokenisedDocuments:
    """The tokens of each document of a source, which can be read more than once.

    `number`: how many documents the latest pass has read. `without_spaces`: how many of them are in a script
    that has no spaces between words, so that phrases were found in place of words. `is_complete`: whether the
    pass has ended.
    """

    def __init__(self, source: TextSource, tokenise: Tokeniser) -> None:
        self.source, self.tokenise = source, tokenise
        self.number = self.without_spaces = 0
        self.is_complete = False
        self.tally = Tally()

    def __iter__(self) -> Iterator[list[str]]:
        self.number = self.without_spaces = 0
        self.is_complete = False
        self.tally = self.source.tally if isinstance(self.source, Replayed) else Tally()
        for _, pieces in (
            self.source.first_documents
            if isinstance(self.source, Replayed)
            else self.source.texts(self.tally)
        ):
            self.number += 1
            tokens: list[str] = []
            for i, piece in enumerate(pieces):
                words = self.tokenise(piece)
                tokens += words
                # Not where spaces were inserted, or single characters are the words.
                is_searched = i == 0 and is_without_spaces(piece[:_SEARCHED_CHARACTERS])
                self.without_spaces += is_searched and are_phrases(words)
            yield tokens
        self.is_complete = True

    def hint(self) -> str:
        """What to do about text without spaces, if there is much of it."""
        if self.without_spaces <= _MAX_SHARE_WITHOUT_SPACES * self.number:
            return ""
        return (
            f" {self.without_spaces:,} of {self.number:,} documents are in a script without spaces between "
            "words (Chinese, Japanese, Thai, …), where this finds no words but whole phrases. Insert spaces "
            "between the words first, for example with jieba (Chinese), MeCab (Japanese) or PyThaiNLP "
            "(Thai), or take single characters for words with pattern=r'\\w'."
        )


def _load_vocabulary(vocabulary: Vocabulary | str | os.PathLike[str] | Sequence[str]) -> Vocabulary:
    if isinstance(vocabulary, Vocabulary):
        return vocabulary
    if isinstance(vocabulary, str | os.PathLike):
        if not Path(vocabulary).is_file():
            raise FileNotFoundError(f"there is no vocabulary file {os.fspath(vocabulary)}.")
        return Vocabulary.load(vocabulary)
    return Vocabulary(vocabulary)
