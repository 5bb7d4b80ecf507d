"""A source of documents with a vocabulary: minibatches of word counts."""

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from fokker.corpora._documents import Documents
from fokker.corpora._source import Counts, CountSource, Text, TextSource
from fokker.corpora._tally import Tally
from fokker.corpora._tokens import Tokeniser, letters
from fokker.corpora._vocabulary import Vocabulary

# Characters of a text that are looked at for known words at once.
_PART = 1_000
_Item = TypeVar("_Item")


class Corpus:
    """Documents in a fixed order, as a stream that can be begun anew and anywhere; made by `open_corpus`.

    `vocabulary`: the words that the ids stand for. `size`: how many documents the source says it has, those
    that will be skipped included, None if it does not say; `count` counts those that will be given.
    `tally`: what the latest `batches` has seen of the source so far.
    """

    def __init__(
        self,
        source: TextSource | CountSource,
        vocabulary: Vocabulary,
        tokenise: Tokeniser,
        *,
        minimum_tokens: int = 1,
        repeat: bool = False,
        shuffle_buffer: int = 0,
        seed: int = 0,
    ) -> None:
        if minimum_tokens < 1:
            raise ValueError(f"minimum_tokens must be at least 1; {minimum_tokens} was given.")
        if shuffle_buffer < 0:
            raise ValueError(f"shuffle_buffer must be 0 (no shuffling) or more; {shuffle_buffer} was given.")
        if repeat and source.once:
            raise ValueError(f"repeat=True: {source.label} can be read only once.")
        self.source, self.vocabulary, self.tokenise = source, vocabulary, tokenise
        self.minimum_tokens, self.repeat = minimum_tokens, repeat
        self.shuffle_buffer, self.seed = shuffle_buffer, seed
        self.size = source.size
        self.tally = Tally()
        self._begun = False

    def __repr__(self) -> str:
        size = "documents" if self.size is None else f"{self.size:,} documents"
        return f"Corpus({self.source.label}: {size}, {len(self.vocabulary):,} words)"

    def batches(self, size: int, skip: int = 0) -> Iterator[Documents]:
        """Minibatches of `size` documents (the last may be smaller), after the first `skip` documents.

        Documents that are empty, have no known word or fewer than `minimum_tokens` are left out and counted
        in the tally. A skipped document is looked at only until it is known to be one that counts; whole
        passes of a repeated source are skipped without being read again.
        """
        if size < 1 or skip < 0:
            raise ValueError(
                f"a batch has at least 1 document and skip is at least 0; {size=}, {skip=} were given."
            )
        if self.source.once and self._begun:
            raise ValueError(f"{self.source.label} can be read only once, and it was: open it again.")
        self._begun = True
        self.tally = Tally()
        return self._batches(size, skip, self.tally)

    def count(self) -> int:
        """How many documents one pass gives, found by making one."""
        if self.source.once:
            raise ValueError(f"{self.source.label} can be read only once: counting would use it up.")
        tally = Tally()
        for _ in self._rows(0, None, tally):
            pass
        return tally.documents

    def _batches(self, size: int, skip: int, tally: Tally) -> Iterator[Documents]:
        rows = self._passes(skip, tally)
        while batch := list(itertools.islice(rows, size)):
            documents = Documents.from_rows(batch)
            self._check_words(documents)
            yield documents

    def _passes(self, skip: int, tally: Tally) -> Iterator[Counts]:
        """The rows of all passes, after the first `skip`."""
        number, first = 0, True
        while first or self.repeat:
            # The tally is of one pass: what a second one would add is known.
            seen = tally if first else Tally()
            yield from self._rows(number, skip, seen)
            if not seen.documents:
                raise ValueError(self._nothing(seen))
            first, number = False, number + 1
            passes, skip = divmod(max(skip - seen.documents, 0), seen.documents)
            number += passes

    def _rows(self, number: int, skip: int | None, tally: Tally) -> Iterator[Counts]:
        """The rows of one pass after the first `skip` (None: all), which are counted too."""
        stream: Iterator[Text | Counts]
        if isinstance(self.source, TextSource):
            stream = self.source.texts(tally)
        else:
            stream = self.source.counts(tally)
        if self.shuffle_buffer:
            stream = shuffled(stream, self.shuffle_buffer, np.random.default_rng([self.seed, number]))
        for item in stream:
            skipped = skip is None or tally.documents < skip
            row: Counts | None = None
            if len(item) == 3:
                row, some = item, len(item[1]) > 0
            elif skipped:
                known, some = self._look(item)
            else:
                row, some = self._counted(item)
            if row is not None:
                known = int(row[2].sum(dtype=np.int64))
            if known < self.minimum_tokens:
                _count_missing(known, some, tally)
                continue
            tally.documents += 1
            if row is not None and not skipped:
                yield row

    def _counted(self, text: Text) -> tuple[Counts, bool]:
        """The counts of a text, and whether there was any token."""
        name, pieces = text
        tokens = [token for piece in pieces for token in self.tokenise(piece)]
        return (name, *self.vocabulary.count(tokens)), bool(tokens)

    def _look(self, text: Text) -> tuple[int, bool]:
        """How many known words a text has, up to where there are enough, and whether there was any token."""
        index, known, some = self.vocabulary.index, 0, False
        for piece in text[1]:
            for part in _parts(piece) if self.tokenise is letters else (piece,):
                for token in self.tokenise(part):
                    some = True
                    if token in index:
                        known += 1
                        if known >= self.minimum_tokens:
                            return known, some
        return known, some

    def _check_words(self, documents: Documents) -> None:
        width = len(self.vocabulary)
        if documents.words.size and documents.words.max() >= width:
            place = int(np.argmax(documents.words >= width))
            name = documents.names[int(np.searchsorted(documents.indptr, place, side="right")) - 1]
            raise ValueError(
                f"document {name!r} of {self.source.label} has the word id {documents.words[place]} (from "
                f"0), outside the vocabulary of {width:,} words: give the one that the corpus was counted "
                "with."
            )

    def _nothing(self, tally: Tally) -> str:
        told = tally.sentence() or "It is empty."
        return (
            f"{self.source.label} has no document of at least {self.minimum_tokens} known "
            f"word{'s' if self.minimum_tokens > 1 else ''}. {told}"
        )


def _count_missing(known: int, some: bool, tally: Tally) -> None:
    """Count a document that is left out, by why it is."""
    if known:
        tally.too_short += 1
    elif some:
        tally.without_known_word += 1
    else:
        tally.empty += 1


def _parts(text: str) -> Iterator[str]:
    """A text cut at blanks, where `letters` parts words anyway."""
    start = 0
    while start < len(text):
        stop = text.find(" ", start + _PART)
        stop = len(text) if stop < 0 else stop
        yield text[start:stop]
        start = stop


def shuffled(stream: Iterable[_Item], size: int, generator: np.random.Generator) -> Iterator[_Item]:
    """The same items, in an order mixed by a buffer of that size.

    One that holds all of them shuffles them wholly. Each item that comes takes a random place in the full
    buffer, and what was there goes out.
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
