"""A model that was learned, in one file: draws of the topics, and all that is needed to read new text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fokker.corpora import Corpus, Documents, Vocabulary, open_corpus
from fokker.models.lda.evaluate import mixtures
from fokker.models.lda.files import read_arrays, write_arrays
from fokker.models.lda.settings import Settings

MODEL = "model.npz"
_KIND, _VERSION = "model", 1


@dataclass(frozen=True)
class Model:
    """Draws of β (n, V, K), γ (K,), the vocabulary, and how text is parted into words.

    `pattern`: the regular expression of a word, None for the letters a to z. `settings`: what it was made by.
    """

    beta: np.ndarray
    gamma: np.ndarray
    vocabulary: Vocabulary
    settings: Settings
    pattern: str | None = None

    def save(self, path: Path) -> None:
        """Write it, whole or not at all."""
        header = {
            "kind": _KIND,
            "version": _VERSION,
            "words": self.vocabulary.words,
            "pattern": self.pattern,
            # As many threads as the machine has that will use it.
            "settings": self.settings.to_json() | {"threads": None},
        }
        write_arrays(path, header, {"beta": self.beta.astype(np.float32, copy=False), "gamma": self.gamma})

    @staticmethod
    def load(path: Path) -> "Model":
        """From a file that `save` wrote, or the folder that it is in."""
        header, arrays = read_arrays(path / MODEL if path.is_dir() else path, _KIND, _VERSION)
        return Model(
            arrays["beta"],
            arrays["gamma"],
            Vocabulary(header["words"]),
            Settings.from_json(header["settings"]),
            header["pattern"],
        )

    @property
    def mean(self) -> np.ndarray:
        """E[β] over the draws (V, K)."""
        return self.beta.mean(0)

    def open(self, source: Any, *, format: str | None = None, key: str = "text") -> Corpus:
        """New documents, read with the words of this model."""
        return open_corpus(source, vocabulary=self.vocabulary, pattern=self.pattern, format=format, key=key)

    def mixtures(self, documents: Documents, seed: int = 0) -> np.ndarray:
        """E[π_dk] of new documents (D, K), averaged over the draws of β."""
        found = (
            mixtures(
                documents,
                beta,
                self.gamma,
                seed,
                sweeps=self.settings.sweeps,
                burn_in=self.settings.burn_in,
                threads=self.settings.processors,
            )
            for beta in self.beta
        )
        return np.asarray(sum(found) / len(self.beta))

    def infer(
        self, corpus: Corpus, batch: int = 100, seed: int = 0
    ) -> Iterator[tuple[Documents, np.ndarray]]:
        """The documents of a corpus with their mixtures, some at a time."""
        for number, documents in enumerate(corpus.batches(batch)):
            yield documents, self.mixtures(documents, seed + number)


def top_words(beta: np.ndarray, number: int) -> np.ndarray:
    """The words of each topic that are likeliest (K, number), the likeliest first, given β (V, K)."""
    number = min(number, len(beta))
    some = np.argpartition(-beta, number - 1, axis=0)[:number]
    order = np.argsort(-np.take_along_axis(beta, some, 0), axis=0, kind="stable")
    return np.asarray(np.take_along_axis(some, order, 0).T)
