"""A learned model in one file: draws of the topics, and the settings for reading new text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fokker._core.files import interpreting, read_arrays, write_arrays
from fokker._core.keys import checked_seed
from fokker.corpora import Corpus, Documents, Vocabulary, open_corpus
from fokker.models.topics.evaluate import mixtures
from fokker.models.topics.files import stored_reading
from fokker.models.topics.settings import Settings

MODEL = "model.npz"
_KIND, _VERSION = "model", 1


@dataclass(frozen=True)
class TopicModel:
    """Draws of β (n, V, K), γ (K,), the vocabulary, and the tokenisation of text.

    `pattern`, `bigrams`: how text becomes words, as for `open_corpus`. `settings`: those of the run.
    """

    beta: np.ndarray
    gamma: np.ndarray
    vocabulary: Vocabulary
    settings: Settings
    pattern: str = "unicode"
    bigrams: bool = False

    def save(self, path: Path) -> None:
        """Write the model atomically."""
        header = {
            "kind": _KIND,
            "version": _VERSION,
            "words": self.vocabulary.words,
            "pattern": self.pattern,
            "bigrams": self.bigrams,
            # None: all processors of the machine that loads the model.
            "settings": self.settings.to_json() | {"threads": None},
        }
        write_arrays(path, header, {"beta": self.beta.astype(np.float32, copy=False), "gamma": self.gamma})

    @staticmethod
    def load(path: Path) -> "TopicModel":
        """Load a file written by `save`, or the one in this folder."""
        if not path.exists():
            raise FileNotFoundError(
                f"there is no file or folder {path}: give the folder of a run of topics, or its {MODEL}."
            )
        path = path / MODEL if path.is_dir() else path
        header, arrays = read_arrays(path, _KIND, _VERSION)
        with interpreting(path, _KIND):
            model = TopicModel(
                arrays["beta"],
                arrays["gamma"],
                Vocabulary(header["words"]),
                Settings.from_json(header["settings"]),
                # Older models have no pattern where words were the letters a to z.
                header["pattern"] or "letters",
                header.get("bigrams", False),
            )
            words, topics = model.beta.shape[1:]
            if (words, topics) != (len(model.vocabulary.words), model.settings.topics):
                raise ValueError(f"{words} words and {topics} topics are not those of its settings")
            if model.gamma.shape != (topics,) or model.beta.dtype.kind + model.gamma.dtype.kind != "ff":
                raise ValueError("its prior is not one number per topic")
        return model

    @property
    def mean(self) -> np.ndarray:
        """E[β] over the draws (V, K)."""
        return self.beta.mean(0)

    def open(self, source: object, *, format: str | None = None, key: str = "text") -> Corpus:
        """Open new documents with the vocabulary of this model."""
        return open_corpus(
            source,
            vocabulary=self.vocabulary,
            pattern=self.pattern,
            bigrams=self.bigrams,
            format=format,
            key=key,
        )

    def open_run(self, folder: Path) -> Corpus:
        """Open the documents of the run in this folder, in their order and with those that were held out."""
        reading = stored_reading(folder)
        if reading.single_pass:
            raise ValueError(
                f"the run in {folder} has read standard input, which is not stored: give its documents to "
                "fokker lda infer."
            )
        return self.open(reading.corpus, format=reading.format, key=reading.key)

    def mixtures(self, documents: Documents, seed: int = 0) -> np.ndarray:
        """E[π_dk] of new documents (D, K), averaged over the draws of β."""
        checked_seed(seed)
        per_draw = (
            mixtures(
                documents,
                beta,
                self.gamma,
                seed,
                sweeps=self.settings.sweeps,
                burn_in=self.settings.burn_in,
                threads=self.settings.num_threads,
            )
            for beta in self.beta
        )
        return np.asarray(sum(per_draw) / len(self.beta))

    def infer(
        self, corpus: Corpus, batch: int = 100, seed: int = 0
    ) -> Iterator[tuple[Documents, np.ndarray]]:
        """The documents of a corpus with their mixtures, which do not depend on the batches."""
        for documents in corpus.batches(batch):
            yield documents, self.mixtures(documents, seed)


def top_words(beta: np.ndarray, number: int) -> np.ndarray:
    """The most probable words of each topic (K, number), in descending order, given β (V, K)."""
    number = min(number, len(beta))
    candidates = np.argpartition(-beta, number - 1, axis=0)[:number]
    order = np.argsort(-np.take_along_axis(beta, candidates, 0), axis=0, kind="stable")
    return np.asarray(np.take_along_axis(candidates, order, 0).T)
