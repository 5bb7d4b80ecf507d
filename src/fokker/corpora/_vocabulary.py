"""The words that are counted, and their ids."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from fokker.corpora._stop_words import ENGLISH_STOP_WORDS


class Vocabulary:
    """Words in a fixed order: the id of a word is its position, from 0.

    `words`: all words. `index`: the id of each word. `undercount`: the largest possible error of the document
    counts that a learned vocabulary is based on (0 if nothing was pruned).
    """

    def __init__(self, words: Iterable[str], *, undercount: int = 0) -> None:
        if isinstance(words, str):
            raise TypeError(f"a vocabulary is a list of words; the string {words!r} was given.")
        self.words = tuple(words)
        self.undercount = undercount
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

        Words are converted to lower case, like the text, unless `lower` is False. Empty lines at the end are
        ignored. Elsewhere they are an error, because they would shift the ids.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").rstrip().split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"the vocabulary {path} is not UTF-8 text: {error}.") from None
        words = [line.strip().lower() if lower else line.strip() for line in lines]
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
        Path(path).write_text("".join(f"{word}\n" for word in self.words), encoding="utf-8")

    @staticmethod
    def learn(
        documents: Iterable[Sequence[str]],
        *,
        maximum_words: int = 10_000,
        minimum_documents: int = 2,
        maximum_share: float = 0.5,
        minimum_letters: int = 3,
        stop_words: Iterable[str] = ENGLISH_STOP_WORDS,
        maximum_entries: int = 2_000_000,
    ) -> "Vocabulary":
        """Select the words that occur in most documents, in one pass over tokenised documents.

        Excluded are stop words, words of fewer than `minimum_letters` letters, and words that occur in fewer
        documents than `minimum_documents` or in a larger share than `maximum_share`. Of the others, the
        `maximum_words` that occur in most documents are selected and sorted by that number, then
        alphabetically.

        Memory holds at most `maximum_entries` words, plus those of one document. Beyond that, the rarest
        words are discarded: all with a count of at most some c, so that half remain. A discarded word that
        occurs again starts from 0: its count is too small by at most the sum of these c, which is
        `undercount`. So every word in at least `minimum_documents` + `undercount` documents is still found.
        """
        num_documents, document_counts, undercount = 0, Counter[str](), 0
        for tokens in documents:
            num_documents += 1
            document_counts.update(set(tokens))
            if len(document_counts) > maximum_entries:
                threshold = sorted(document_counts.values(), reverse=True)[maximum_entries // 2]
                document_counts = Counter({word: n for word, n in document_counts.items() if n > threshold})
                undercount += threshold
        excluded = frozenset(stop_words)
        candidates = [
            (-n, word)
            for word, n in document_counts.items()
            if minimum_documents <= n <= maximum_share * num_documents
            and len(word) >= minimum_letters
            and word not in excluded
        ]
        if not candidates:
            raise ValueError(
                f"no vocabulary can be learned: none of the {len(document_counts):,} words of "
                f"{num_documents:,} documents is in at least {minimum_documents} of them and in at most "
                f"{maximum_share:.0%}, has at least {minimum_letters} letters and is not a stop word. Give a "
                "vocabulary, or change these limits (Vocabulary.learn)."
            )
        candidates.sort()
        return Vocabulary((word for _, word in candidates[:maximum_words]), undercount=undercount)


def _first_duplicate(words: Sequence[str]) -> tuple[str, int, int]:
    """The first word that occurs twice, and both its positions."""
    first: dict[str, int] = {}
    for i, word in enumerate(words):
        if word in first:
            return word, first[word], i
        first[word] = i
    raise AssertionError("no word occurs twice")
