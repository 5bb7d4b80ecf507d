"""The words that are counted, each with its number."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from fokker.corpora._stop_words import ENGLISH_STOP_WORDS


class Vocabulary:
    """Words in a fixed order: a word's place, from 0, is its id.

    `words`: all of them. `index`: the id of each. `undercount`: by how much the counts behind a learned
    vocabulary can be short (0 where nothing was pruned).
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
            word, first, second = _repeat(self.words)
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
        few = ", ".join(self.words[:3])
        return f"Vocabulary({len(self):,} words: {few}{', …' if len(self) > 3 else ''})"

    def count(self, tokens: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the known words among these, ascending, and how often each is there."""
        index = self.index
        known = sorted((index[word], n) for word, n in Counter(tokens).items() if word in index)
        pairs = np.array(known, np.int32).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    @staticmethod
    def numbered(size: int) -> "Vocabulary":
        """Words #0, #1, … for a corpus that comes as numbers without their words."""
        return Vocabulary(f"#{i}" for i in range(size))

    @staticmethod
    def load(path: str | os.PathLike[str], *, lower: bool = True) -> "Vocabulary":
        """A file with one word a line, the first being word 0, made lower case as the text will be.

        Empty lines at the end do not count; within the list they would shift what follows and are an error.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").rstrip().split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"the vocabulary {path} is not UTF-8 text: {error}.") from None
        words = [line.strip().lower() if lower else line.strip() for line in lines]
        if words == [""]:
            raise ValueError(f"the vocabulary {path} is empty: it needs one word a line.")
        if "" in words:
            raise ValueError(f"the vocabulary {path} has an empty line, {words.index('') + 1}: remove it.")
        if len(set(words)) < len(words):
            word, first, second = _repeat(words)
            hint = ""
            if lines[first].strip() != lines[second].strip():
                hint = " (they differ in capitals only: lower=False keeps those)"
            raise ValueError(
                f"the vocabulary {path} has {word!r} twice, in lines {first + 1} and {second + 1}{hint}: "
                "remove one."
            )
        return Vocabulary(words)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one word a line; `Vocabulary.load(path)` reads it."""
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
        """The words that are in most documents, in one pass over documents of tokens.

        Left out are stop words, words of fewer than `minimum_letters`, and those in fewer documents than
        `minimum_documents` or in a larger share than `maximum_share`. Of the rest the `maximum_words` that
        are in most documents stay, these first, equals by alphabet.

        Memory holds at most `maximum_entries` words, plus those of one document. Beyond that the rarest are
        forgotten, all with a count up to some c at a time, until half are left. A word that comes again
        begins at 0: its count is short by at most the sum of those c, which is `undercount`. Every word in
        at least `minimum_documents` + `undercount` documents is thus still seen.
        """
        number, seen, undercount = 0, Counter[str](), 0
        for tokens in documents:
            number += 1
            seen.update(set(tokens))
            if len(seen) > maximum_entries:
                forgotten = sorted(seen.values(), reverse=True)[maximum_entries // 2]
                seen = Counter({word: n for word, n in seen.items() if n > forgotten})
                undercount += forgotten
        dropped = frozenset(stop_words)
        found = [
            (-n, word)
            for word, n in seen.items()
            if minimum_documents <= n <= maximum_share * number
            and len(word) >= minimum_letters
            and word not in dropped
        ]
        if not found:
            raise ValueError(
                f"no vocabulary can be learned: none of the {len(seen):,} words of {number:,} documents is "
                f"in at least {minimum_documents} of them and in at most {maximum_share:.0%}, has at least "
                f"{minimum_letters} letters and is no stop word. Give a vocabulary, or change these limits "
                "(Vocabulary.learn)."
            )
        found.sort()
        return Vocabulary((word for _, word in found[:maximum_words]), undercount=undercount)


def _repeat(words: Sequence[str]) -> tuple[str, int, int]:
    """The first word that is there twice, and both its places."""
    first: dict[str, int] = {}
    for i, word in enumerate(words):
        if word in first:
            return word, first[word], i
        first[word] = i
    raise AssertionError("no word is there twice")
