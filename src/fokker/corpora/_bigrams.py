"""Pairs of words that belong together, such as "new york"."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from fokker.corpora._tokens import JOINT, num_letters

# A pair with a smaller NPMI is two words that happen to follow each other.
MIN_NPMI = 0.5
_Pair = tuple[str, str]


class BigramCounter:
    r"""Counts words and pairs of words that follow each other, and selects the pairs that belong together.

        NPMI = log[p(v, w) / (p(v) p(w))] / -log p(v, w)

    over the tokens (Bouma 2009): 1 for two words that occur only together, 0 for independent ones. Memory
    holds at most `maximum_entries` pairs; beyond that, the rarest are discarded.
    """

    def __init__(self, maximum_entries: int) -> None:
        self.maximum_entries = maximum_entries
        self.words, self.pairs, self.documents = Counter[str](), Counter[_Pair](), Counter[_Pair]()

    def add(self, tokens: Sequence[str]) -> None:
        """Count one document."""
        pairs = Counter(pairwise(tokens))
        self.words.update(tokens)
        self.pairs.update(pairs)
        self.documents.update(pairs.keys())
        if len(self.pairs) > self.maximum_entries:
            threshold = sorted(self.pairs.values(), reverse=True)[self.maximum_entries // 2]
            self.pairs = Counter({pair: n for pair, n in self.pairs.items() if n > threshold})
            self.documents = Counter({pair: self.documents[pair] for pair in self.pairs})

    def select(
        self, minimum_documents: float, minimum_letters: int, stop_words: Collection[str]
    ) -> frozenset[str]:
        """The pairs in at least this many documents, without stop words and short words, of a large NPMI."""
        total = self.words.total()
        return frozenset(
            JOINT.join(pair)
            for pair, n in self.pairs.items()
            if self.documents[pair] >= minimum_documents
            and self._npmi(pair, n, total) >= MIN_NPMI
            and all(num_letters(word) >= minimum_letters and word not in stop_words for word in pair)
        )

    def _npmi(self, pair: _Pair, n: int, total: int) -> float:
        v, w = pair
        return (
            math.log(n * total / (self.words[v] * self.words[w])) / math.log(total / n) if n < total else 1.0
        )


def is_repeatable(documents: Iterable[Sequence[str]]) -> bool:
    """Whether documents can be read twice."""
    return iter(documents) is not documents
