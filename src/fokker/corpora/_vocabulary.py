"""The words that are counted, and their ids."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from fokker._core.files import write_text
from fokker.corpora._bigrams import BigramCounter, is_repeatable
from fokker.corpora._frequent import FrequentWords
from fokker.corpora._stop_words import STOP_WORDS, detected_language
from fokker.corpora._stop_words import stop_words as stop_words_of
from fokker.corpora._tokens import joined, normalised, num_letters

_ALL_STOP_WORDS = frozenset[str]().union(*STOP_WORDS.values())


class Vocabulary:
    """Words in a fixed order: the id of a word is its position, from 0.

    `index`: the id of each word.

    Arguments:

    - `words`: all words, each once.
    - `undercount`: the largest possible error of the document counts that a learned vocabulary is based on (0
      if nothing was pruned).
    - `language`: the language that was detected while it was learned, whose stop words were left out.

    ```python
    vocabulary = fk.corpora.Vocabulary(["cat", "ran", "sat"])
    vocabulary.index["sat"]  # 2
    ```
    """

    def __init__(self, words: Iterable[str], *, undercount: int = 0, language: str | None = None) -> None:
        if isinstance(words, str):
            raise TypeError(f"a vocabulary is a list of words; the string {words!r} was given.")
        self.words = tuple(words)
        self.undercount, self.language = undercount, language
        self.index = {word: i for i, word in enumerate(self.words)}
        if not self.words:
            raise ValueError("the vocabulary is empty: it needs at least one word.")
        if len(self.index) < len(self.words):
            word, first, second = _first_duplicate(self.words)
            raise ValueError(
                f"the vocabulary has {word!r} twice, as words {first} and {second} (from 0): remove one."
            )

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)

    def __repr__(self) -> str:
        examples = ", ".join(self.words[:3])
        return f"Vocabulary({len(self):,} words: {examples}{', …' if len(self) > 3 else ''})"

    def count(self, tokens: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the known words among these tokens, ascending, and the count of each."""
        index = self.index
        known = sorted((index[word], n) for word, n in Counter(tokens).items() if word in index)
        pairs = np.array(known, np.int32).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    @staticmethod
    def numbered(size: int) -> "Vocabulary":
        """Words #0, #1, … for a corpus of word ids without a word list."""
        return Vocabulary(f"#{i}" for i in range(size))

    @staticmethod
    def load(path: str | os.PathLike[str], *, lower: bool = True) -> "Vocabulary":
        """Read a file with one word per line; the first is word 0.

        Words are normalised and converted to lower case, like the text, unless `lower` is False. Empty lines
        at the end are ignored. Elsewhere they are an error, because they would shift the ids.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").rstrip().split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"the vocabulary {path} is not UTF-8 text: {error}.") from None
        words = [normalised(line.strip()) if lower else line.strip() for line in lines]
        if words == [""]:
            raise ValueError(f"the vocabulary {path} is empty: it needs one word per line.")
        if "" in words:
            raise ValueError(f"the vocabulary {path} has an empty line, {words.index('') + 1}: remove it.")
        if len(set(words)) < len(words):
            word, first, second = _first_duplicate(words)
            hint = ""
            if lines[first].strip() != lines[second].strip():
                hint = " (they differ in capitals only: lower=False keeps those)"
            raise ValueError(
                f"the vocabulary {path} has {word!r} twice, in lines {first + 1} and {second + 1}{hint}: "
                "remove one."
            )
        return Vocabulary(words)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one word per line; `Vocabulary.load(path)` reads the file."""
        write_text(Path(path), "".join(f"{word}\n" for word in self.words))

    @staticmethod
    def learn(
        documents: Iterable[Sequence[str]],
        *,
        maximum_words: int = 10_000,
        minimum_documents: float = 2,
        maximum_documents: float = 0.5,
        minimum_letters: int = 3,
        stop_words: str | os.PathLike[str] | Iterable[str] = "auto",
        bigrams: bool = False,
        maximum_entries: int = 2_000_000,
    ) -> "Vocabulary":
        """Select the words that occur in most documents, in one pass over tokenised documents.

        ```python
        words = [["red", "wine"], ["white", "wine"], ["red", "beer"], ["white", "beer"]]
        fk.corpora.Vocabulary.learn(words, maximum_documents=1.0).words  # ('beer', 'red', 'white', 'wine')
        ```

        Excluded are stop words, words of fewer than `minimum_letters` letters, and words that occur in fewer
        documents than `minimum_documents` or in more than `maximum_documents`. These two are numbers of
        documents (int) or shares of them (float, from 0 to 1). Of the others, the `maximum_words` that occur
        in most documents are selected and sorted by that number, then alphabetically.

        It warns where the words in too many documents are a large part: a third of all occurrences, where a
        word counts once per document, or all words of a tenth of the documents.

        `stop_words`: a language of `STOP_WORDS` (or its code, such as "de"), a file with one word per line,
        "none", a collection of words, or "auto", those of the language that is detected. `bigrams`: also
        count pairs of words that belong together, such as "new_york", in place of the two words. That needs
        a pass of its own, before the other.

        Memory holds at most `maximum_entries` words, plus those of one document. Beyond that, the rarest
        words are discarded: all with a count of at most some c, so that half remain. A discarded word that
        occurs again starts from 0: its count is too small by at most the sum of these c, which is
        `undercount`. So every word in at least `minimum_documents` + `undercount` documents is still found.
        """
        _check_limit("minimum_documents", minimum_documents)
        _check_limit("maximum_documents", maximum_documents)
        given_stop_words = stop_words_of(stop_words)
        pairs: frozenset[str] = frozenset()
        if bigrams:
            if not is_repeatable(documents):
                raise TypeError(
                    "bigrams=True reads the documents twice: give a list of them, not an iterator."
                )
            pairs = _learn_bigrams(
                documents, minimum_documents, minimum_letters, given_stop_words, maximum_entries
            )
        num_documents, document_counts, undercount = 0, Counter[str](), 0
        num_tokens, stop_word_counts, frequent = 0, Counter[str](), FrequentWords()
        for tokens in documents:
            num_documents += 1
            counts = Counter(joined(tokens, pairs) if pairs else tokens)
            document_counts.update(counts.keys())
            frequent.add(counts.keys())
            num_tokens += len(tokens)
            stop_word_counts.update({word: counts[word] for word in counts.keys() & _ALL_STOP_WORDS})
            if len(document_counts) > maximum_entries:
                threshold = sorted(document_counts.values(), reverse=True)[maximum_entries // 2]
                document_counts = Counter({word: n for word, n in document_counts.items() if n > threshold})
                undercount += threshold
        language, excluded = _language(given_stop_words, stop_word_counts, num_tokens)
        smallest, largest = (
            _number_of(limit, num_documents) for limit in (minimum_documents, maximum_documents)
        )

        def is_allowed(word: str) -> bool:
            return num_letters(word) >= minimum_letters and word not in excluded

        candidates = [
            (-n, word) for word, n in document_counts.items() if smallest <= n <= largest and is_allowed(word)
        ]
        if not candidates:
            raise ValueError(
                f"no vocabulary can be learned: none of the {len(document_counts):,} words of "
                f"{num_documents:,} documents is in at least {smallest:,.0f} of them and in at most "
                f"{largest:,.0f}, has at least {minimum_letters} letters and is not a stop word. Give a "
                "vocabulary, or change the limits: minimum_documents=…, "
                "maximum_documents=… or stop_words=…."
            )
        candidates.sort()
        words = [word for _, word in candidates[:maximum_words]]
        limits = smallest, largest
        frequent.warn(document_counts, is_allowed, limits, words, num_documents, maximum_documents)
        return Vocabulary(words, undercount=undercount, language=language)


def _learn_bigrams(
    documents: Iterable[Sequence[str]],
    minimum_documents: float,
    minimum_letters: int,
    stop_words: frozenset[str] | None,
    maximum_entries: int,
) -> frozenset[str]:
    counter = BigramCounter(maximum_entries)
    num_documents = 0
    for tokens in documents:
        num_documents += 1
        counter.add(tokens)
    _, excluded = _language(stop_words, counter.words, counter.words.total())
    return counter.select(_number_of(minimum_documents, num_documents), minimum_letters, excluded)


def _language(
    stop_words: frozenset[str] | None, occurrences: Counter[str], num_tokens: int
) -> tuple[str | None, frozenset[str]]:
    """The language that is detected, if stop words are not given, and the stop words."""
    if stop_words is not None:
        return None, stop_words
    language = detected_language(occurrences, num_tokens)
    return language, STOP_WORDS[language] if language else frozenset()


def _check_limit(name: str, limit: float) -> None:
    if limit < 0 or (isinstance(limit, float) and limit > 1):
        raise ValueError(
            f"{name} is a number of documents (a whole number) or a share of them (from 0.0 to 1.0); "
            f"{limit!r} was given."
        )


def _number_of(limit: float, num_documents: int) -> float:
    """The number of documents of a limit that may be a share."""
    return limit * num_documents if isinstance(limit, float) else limit


def _first_duplicate(words: Sequence[str]) -> tuple[str, int, int]:
    """The first word that occurs twice, and both its positions."""
    first: dict[str, int] = {}
    for i, word in enumerate(words):
        if word in first:
            return word, first[word], i
        first[word] = i
    raise AssertionError("no word occurs twice")
