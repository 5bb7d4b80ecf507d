"""A source of documents with a vocabulary, read in minibatches of word counts."""

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from fokker.corpora._documents import Documents
from fokker.corpora._source import Counts, CountSource, Text, TextSource
from fokker.corpora._tally import Tally
from fokker.corpora._tokens import Tokeniser, joined, splits_at_spaces
from fokker.corpora._vocabulary import Vocabulary

# Characters of a text that are searched for known words at once.
_CHARACTERS_PER_PART = 1_000
_Item = TypeVar("_Item")


class Corpus:
    """Documents in a fixed order, as a stream that can start at any document; created by `open_corpus`.

    `size`: the number of documents that the source declares, including those that will be skipped, or None;
    `count()` counts those that will be yielded. `tally`: what the latest `batches` has read so far.

    Arguments:

    - `source`: texts or counts, as `open_corpus` opens them.
    - `vocabulary`: the words of the ids, a `Vocabulary`.
    - `tokenise`: a function that splits a text into words, such as `fk.corpora.unicode_words`; counts are not
      split.
    - `bigrams`, `minimum_tokens`, `repeat`, `shuffle_buffer`, `seed`: as for `open_corpus`.

    ```python
    corpus = fk.corpora.open_corpus(["the cat sat", "the cat ran"], vocabulary=["cat", "ran", "sat"])
    for documents in corpus.batches(2):
        print(documents.to_matrix(3).toarray())  # [[1, 0, 1], [1, 1, 0]]
    ```
    """

    def __init__(
        self,
        source: TextSource | CountSource,
        vocabulary: Vocabulary,
        tokenise: Tokeniser,
        *,
        bigrams: bool = False,
        minimum_tokens: int = 1,
        repeat: bool = False,
        shuffle_buffer: int = 0,
        seed: int = 0,
    ) -> None:
        if minimum_tokens < 1:
            raise ValueError(f"minimum_tokens must be at least 1; {minimum_tokens} was given.")
        if shuffle_buffer < 0:
            raise ValueError(f"shuffle_buffer must be 0 (no shuffling) or more; {shuffle_buffer} was given.")
        if repeat and source.single_pass:
            raise ValueError(f"repeat=True: {source.label} can be read only once.")
        self.source, self.vocabulary, self.tokenise = source, vocabulary, tokenise
        self.bigrams, self.minimum_tokens, self.repeat = bigrams, minimum_tokens, repeat
        self.shuffle_buffer, self.seed = shuffle_buffer, seed
        self.size = source.size
        self.tally = Tally()
        self._started = False

    def __repr__(self) -> str:
        size = "documents" if self.size is None else f"{self.size:,} documents"
        return f"Corpus({self.source.label}: {size}, {len(self.vocabulary):,} words)"

    def batches(self, size: int, skip: int = 0) -> Iterator[Documents]:
        """Minibatches of `size` documents (the last may be smaller), after the first `skip` documents.

        Documents that are empty, have no known word or fewer than `minimum_tokens` are left out and counted
        in the tally. Documents in `skip` are read only until it is certain that they count; complete passes
        of a repeated source are skipped without reading.
        """
        if size < 1 or skip < 0:
            raise ValueError(
                f"a batch has at least 1 document and skip is at least 0; {size=}, {skip=} were given."
            )
        if self.source.single_pass and self._started:
            raise ValueError(
                f"{self.source.label} can be read only once and was already read: open it again."
            )
        self._started = True
        self.tally = Tally()
        return self._batches(size, skip, self.tally)

    def count(self) -> int:
        """The number of documents of one pass; reads the source once."""
        if self.source.single_pass:
            raise ValueError(f"{self.source.label} can be read only once: counting would consume it.")
        tally = Tally()
        for _ in self._rows(0, None, tally):
            pass
        return tally.documents

    def _batches(self, size: int, skip: int, tally: Tally) -> Iterator[Documents]:
        rows = self._passes(skip, tally)
        while batch := list(itertools.islice(rows, size)):
            documents = Documents.from_rows([row for _, row in batch], [place for place, _ in batch])
            self._check_words(documents)
            yield documents

    def _passes(self, skip: int, tally: Tally) -> Iterator[tuple[int, Counts]]:
        """The rows of all passes with their places in the source, without the first `skip`."""
        pass_number, is_first_pass = 0, True
        while is_first_pass or self.repeat:
            # The tally covers the first pass only: a second one would count the same documents again.
            pass_tally = tally if is_first_pass else Tally()
            yield from self._rows(pass_number, skip, pass_tally)
            if not pass_tally.documents:
                raise ValueError(self._no_document_message(pass_tally))
            is_first_pass, pass_number = False, pass_number + 1
            skipped_passes, skip = divmod(max(skip - pass_tally.documents, 0), pass_tally.documents)
            pass_number += skipped_passes

    def _rows(self, pass_number: int, skip: int | None, tally: Tally) -> Iterator[tuple[int, Counts]]:
        """The rows of one pass without the first `skip` (None: skip all); the tally counts these too."""
        source = self.source
        items: Iterator[Text | Counts] = (
            source.texts(tally) if isinstance(source, TextSource) else source.counts(tally)
        )
        stream: Iterator[tuple[int, Text | Counts]] = enumerate(items)
        if self.shuffle_buffer:
            stream = shuffled(stream, self.shuffle_buffer, np.random.default_rng([self.seed, pass_number]))
        for place, item in stream:
            is_skipped = skip is None or tally.documents < skip
            row: Counts | None = None
            if len(item) == 3:
                row, has_tokens = item, len(item[1]) > 0
            elif is_skipped:
                known, has_tokens = self._count_known(item)
            else:
                row, has_tokens = self._count_words(item)
            if row is not None:
                known = int(row[2].sum(dtype=np.int64))
            if known < self.minimum_tokens:
                _count_left_out(known, has_tokens, tally)
                continue
            tally.documents += 1
            if row is not None and not is_skipped:
                yield place, row

    def _count_words(self, text: Text) -> tuple[Counts, bool]:
        """The counts of a text, and whether it has any token."""
        name, pieces = text
        tokens = [token for piece in pieces for token in self._tokens(piece)]
        return (name, *self.vocabulary.count(tokens)), bool(tokens)

    def _tokens(self, piece: str) -> list[str]:
        tokens = self.tokenise(piece)
        return joined(tokens, self.vocabulary.index) if self.bigrams else tokens

    def _count_known(self, text: Text) -> tuple[int, bool]:
        """The number of known words of a text, at most `minimum_tokens`, and whether it has any token."""
        index, known, has_tokens = self.vocabulary.index, 0, False
        for piece in text[1]:
            # A bigram could be split between two parts.
            for part in _parts(piece) if splits_at_spaces(self.tokenise) and not self.bigrams else (piece,):
                for token in self._tokens(part):
                    has_tokens = True
                    if token in index:
                        known += 1
                        if known >= self.minimum_tokens:
                            return known, has_tokens
        return known, has_tokens

    def _check_words(self, documents: Documents) -> None:
        width = len(self.vocabulary)
        if documents.words.size and documents.words.max() >= width:
            place = int(np.argmax(documents.words >= width))
            name = documents.names[int(np.searchsorted(documents.indptr, place, side="right")) - 1]
            raise ValueError(
                f"document {name!r} of {self.source.label} has the word id {documents.words[place]} (from "
                f"0), outside the vocabulary of {width:,} words: give the vocabulary that the corpus was "
                "counted with."
            )

    def _no_document_message(self, tally: Tally) -> str:
        summary = tally.sentence() or "It is empty."
        return (
            f"{self.source.label} has no document of at least {self.minimum_tokens} known "
            f"word{'s' if self.minimum_tokens > 1 else ''}. {summary}"
        )


def _count_left_out(known: int, has_tokens: bool, tally: Tally) -> None:
    """Count a document that is left out, by its reason."""
    if known:
        tally.too_short += 1
    elif has_tokens:
        tally.without_known_word += 1
    else:
        tally.empty += 1


def _parts(text: str) -> Iterator[str]:
    """A text split at spaces, for tokenisers for which these separate words."""
    start = 0
    while start < len(text):
        stop = text.find(" ", start + _CHARACTERS_PER_PART)
        stop = len(text) if stop < 0 else stop
        yield text[start:stop]
        start = stop


def shuffled(stream: Iterable[_Item], size: int, generator: np.random.Generator) -> Iterator[_Item]:
    """The same items, shuffled with a buffer of this size.

    A buffer that holds all items gives a uniform permutation. Otherwise each new item takes a random place in
    the full buffer, and the item that was there is yielded.
    """
    buffer: list[_Item] = []
    for item in stream:
        if len(buffer) < size:
            buffer.append(item)
            continue
        place = int(generator.integers(size))
        buffer[place], item = item, buffer[place]
        yield item
    for place in generator.permutation(len(buffer)):
        yield buffer[place]
