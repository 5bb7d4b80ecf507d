"""How the documents of a run are read, and how many of them are held out."""

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fokker.models.checks import optional, whole
from fokker.models.declared import declared_in, setting

if TYPE_CHECKING:
    from fokker.corpora import Corpus, Vocabulary
    from fokker.corpora._open import VocabularyLike

# Corpora of at most this many bytes are counted in a pass before the first step.
_MAX_BYTES_TO_COUNT = 1 << 26
_SHUFFLE_BUFFER = 5_000


@dataclass(frozen=True)
class Reading:
    """How the documents are read; see `fokker.corpora.open_corpus`.

    `corpus`: a file, folder or glob, "-" for standard input, None for the docstrings of Python. `held_out`:
    the number of documents held out for evaluation, None for `default_held_out`.
    """

    corpus: str | None = setting(None)
    format: str | None = setting(None, help="The format of the corpus.", option=str, shown="detected")
    key: str = setting(
        "text",
        help="The key of the text in a JSON object, or its column in a table: its name, or in a CSV file "
        "without a header its number, from 1.",
    )
    pattern: str = setting(
        "unicode",
        help="What a word is: unicode (letters of any alphabet), letters (a to z alone), or a regular "
        "expression.",
    )
    bigrams: bool = setting(
        False, help="Pairs of words that belong together, such as new_york, are words too."
    )
    minimum_tokens: int = setting(1, help="Documents with fewer known words are skipped.")
    shuffle_buffer: int | None = setting(
        None,
        help="Shuffle with a buffer of this many documents; 0: no shuffling.",
        option=int,
        shown="5000; 0 for standard input",
    )
    held_out: int | None = setting(
        None,
        optional(whole(1)),
        help="Documents held out for evaluation.",
        option=int,
        shown="1 % of those read, 100 to 1000; 100 for standard input",
    )

    def __post_init__(self) -> None:
        for name, declared in declared_in(Reading).items():
            declared.check(name, getattr(self, name))

    @property
    def single_pass(self) -> bool:
        """Whether it can be read only once."""
        return self.corpus == "-"

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Reading":
        """The reading of a stored run. Older ones have no pattern where words were the letters a to z."""
        return Reading(**{**values, "pattern": values["pattern"] or "letters"})

    def open(self, vocabulary: "VocabularyLike | None", seed: int) -> "Corpus":
        """Open the corpus; it repeats if it can be read more than once."""
        from fokker.corpora import open_corpus

        buffer = (
            (0 if self.single_pass else _SHUFFLE_BUFFER)
            if self.shuffle_buffer is None
            else self.shuffle_buffer
        )
        return open_corpus(
            self.corpus,
            vocabulary=vocabulary,
            format=self.format,
            key=self.key,
            pattern=self.pattern,
            bigrams=self.bigrams,
            minimum_tokens=self.minimum_tokens,
            repeat=not self.single_pass,
            shuffle_buffer=buffer,
            seed=seed,
        )


def num_passes(reading: Reading, passes: int | None) -> int | None:
    """The number of passes; standard input has one, even with no limit."""
    return 1 if passes is None and reading.single_pass else passes


def is_quick_to_count(corpus: "Corpus") -> bool:
    """Whether its documents can be counted before the first step."""
    source = corpus.source
    if source.single_pass:
        return False
    paths = [*getattr(source, "paths", ()), *filter(None, [getattr(source, "path", None)])]
    # Other than plain files, such as a named pipe, may be readable only once.
    return all(path.is_file() for path in paths) and sum(map(os.path.getsize, paths)) <= _MAX_BYTES_TO_COUNT


def learned_vocabulary(**settings: Any) -> "Callable[..., Vocabulary]":
    """A function that learns a vocabulary from the text, with settings of `Vocabulary.learn`."""
    from fokker.corpora import Vocabulary

    return functools.partial(Vocabulary.learn, **settings)
