"""What a vocabulary loses with the words that are in too many documents."""

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable

# Looked at for documents that lose all their words: so many, of no more different words than that each.
_NUM_DOCUMENTS, _MOST_WORDS = 1_000, 100
# What is said: these shares of such documents, and of the occurrences of words, each once per document.
_MOST_EMPTY, _MOST_OCCURRENCES = 0.1, 1 / 3
# Of fewer documents nothing is said: half of them are no large number.
_FEWEST_DOCUMENTS = 10


class FrequentWords:
    """Finds out whether the words that are in too many documents are most of a corpus."""

    def __init__(self) -> None:
        self._short: list[frozenset[str]] = []
        self._num_documents = 0

    def add(self, words: Collection[str]) -> None:
        """Look at the different words of the next document."""
        if self._num_documents < _NUM_DOCUMENTS:
            self._num_documents += 1
            if 0 < len(words) <= _MOST_WORDS:
                self._short.append(frozenset(words))

    def warn(
        self,
        counts: Counter[str],
        is_allowed: Callable[[str], bool],
        limits: tuple[float, float],
        selected: Iterable[str],
        num_documents: int,
        maximum_documents: float,
    ) -> None:
        """Warn where they are a large part.

        `counts`: the number of documents of each word; `limits`: the fewest and the most documents;
        `is_allowed`: whether a word is kept whatever these are.
        """
        smallest, largest = limits
        frequent = {word for word, n in counts.items() if n > largest and is_allowed(word)}
        if not frequent or num_documents < _FEWEST_DOCUMENTS:
            return
        others = [n for word, n in counts.items() if smallest <= n <= largest and is_allowed(word)]
        lost = sum(counts[word] for word in frequent)
        kept = frozenset(selected)
        num_empty = sum(bool(words & frequent) and not words & kept for words in self._short)
        is_part_empty = num_empty >= _MOST_EMPTY * self._num_documents
        if not is_part_empty and lost < _MOST_OCCURRENCES * (lost + sum(others)):
            return
        is_one, total = len(frequent) == 1, len(frequent) + len(others)
        sentence = (
            f"{len(frequent):,} of {total:,} words {'is' if is_one else 'are'} left out, as "
            f"{'it is' if is_one else 'they are'} in more than {largest:,.0f} of the {num_documents:,} "
            f"documents (maximum_documents={maximum_documents})"
        )
        if num_empty:
            first = "the first " if num_documents > self._num_documents else ""
            have = "has" if num_empty == 1 else "have"
            sentence += f"; {num_empty:,} of {first}{self._num_documents:,} documents {have} no other words"
        warnings.warn(f"{sentence}. To keep them, give a larger maximum_documents.", stacklevel=3)
