"""Files that other tools for topics read: pyLDAvis, MALLET's readers, gensim."""

import functools
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from fokker._core.files import write_atomically
from fokker.corpora import Corpus, Documents
from fokker.models.topics.model import TopicModel, top_words

_TOPIC_KEYS = 20
_DIGITS = 6


class Exported(NamedTuple):
    """A model with documents and their mixtures (D, K), in the order of the documents."""

    model: TopicModel
    documents: Documents
    mixtures: np.ndarray

    @staticmethod
    def of(
        model: TopicModel, corpus: Corpus, seed: int = 0, show: Callable[[int], None] = lambda number: None
    ) -> "Exported":
        """The model applied to all documents of a corpus; `show` is called with how many are done."""
        parts: list[tuple[Documents, np.ndarray]] = []
        number = 0
        for documents, mixtures in model.infer(corpus, seed=seed):
            parts.append((documents, mixtures))
            number += documents.size
            show(number)
        return Exported(
            model,
            Documents.concatenate([documents for documents, _ in parts]),
            np.concatenate([mixtures for _, mixtures in parts]),
        )

    @property
    def word_counts(self) -> np.ndarray:
        """How often each word of the vocabulary occurs in the documents (V,)."""
        counts = np.zeros(len(self.model.vocabulary), np.int64)
        np.add.at(counts, self.documents.words, self.documents.counts)
        return counts

    @property
    def topic_words(self) -> np.ndarray:
        """E[β] (K, V), in float64 so that its rows sum to one."""
        beta = self.model.mean.T.astype(np.float64)
        return beta / beta.sum(1, keepdims=True)

    @property
    def topic_tokens(self) -> np.ndarray:
        """The expected number of words of each topic (K,)."""
        return np.asarray(self.documents.lengths @ self.mixtures)


def pyldavis(exported: Exported) -> dict[str, bytes]:
    """The arguments of `pyLDAvis.prepare`, as JSON; words that occur in no document are left out."""
    counts = exported.word_counts
    occurs = counts > 0
    topic_words = exported.topic_words[:, occurs]
    topic_words /= topic_words.sum(1, keepdims=True)
    mixtures = exported.mixtures.astype(np.float64)
    mixtures /= mixtures.sum(1, keepdims=True)
    arguments = {
        "topic_term_dists": _rounded(topic_words),
        "doc_topic_dists": _rounded(mixtures),
        "doc_lengths": exported.documents.lengths.tolist(),
        "vocab": [word for word, is_used in zip(exported.model.vocabulary, occurs, strict=True) if is_used],
        "term_frequency": counts[occurs].tolist(),
    }
    return {"pyldavis.json": json.dumps(arguments, ensure_ascii=False).encode()}


def mallet(exported: Exported) -> dict[str, bytes]:
    """Files as MALLET writes them: topic keys, topics of documents, and weights of words."""
    words = exported.model.vocabulary.words
    mean = exported.model.mean
    keys = [
        f"{k}\t{gamma:.5f}\t{' '.join(words[w] for w in top)}\n"
        for k, (gamma, top) in enumerate(zip(exported.model.gamma, top_words(mean, _TOPIC_KEYS), strict=True))
    ]
    rows = [
        "\t".join([str(i), _one_field(name), *(f"{share:.{_DIGITS}f}" for share in shares)]) + "\n"
        for i, (name, shares) in enumerate(zip(exported.documents.names, exported.mixtures, strict=True))
    ]
    weights = exported.topic_words * exported.topic_tokens[:, None]
    by_word = [
        f"{k}\t{word}\t{weight:.6g}\n"
        for k, row in enumerate(weights.tolist())
        for word, weight in zip(words, row, strict=True)
    ]
    return {
        "topic-keys.txt": "".join(keys).encode(),
        "doc-topics.txt": "".join(rows).encode(),
        "topic-word-weights.txt": "".join(by_word).encode(),
    }


def gensim(exported: Exported) -> dict[str, bytes]:
    """A dictionary and a corpus for gensim, and the arrays that an `LdaModel` is made of (docs/lda.md)."""
    documents, words = exported.documents, exported.model.vocabulary.words
    in_documents = np.bincount(documents.words, minlength=len(words))
    order = sorted(range(len(words)), key=words.__getitem__)
    dictionary = [f"{documents.size}\n", *(f"{w}\t{words[w]}\t{in_documents[w]}\n" for w in order)]
    rows = np.repeat(np.arange(documents.size), np.diff(documents.indptr))
    entries = zip((rows + 1).tolist(), (documents.words + 1).tolist(), documents.counts.tolist(), strict=True)
    matrix = [
        "%%MatrixMarket matrix coordinate real general\n",
        f"{documents.size} {len(words)} {len(documents.words)}\n",
        *(f"{d} {w} {n}\n" for d, w, n in entries),
    ]
    return {
        "dictionary.txt": "".join(dictionary).encode(),
        "corpus.mm": "".join(matrix).encode(),
        "sstats.npy": _npy((exported.topic_words * exported.topic_tokens[:, None]).astype(np.float32)),
        "alpha.npy": _npy(exported.model.gamma.astype(np.float32)),
    }


TOOLS: Mapping[str, Callable[[Exported], dict[str, bytes]]] = {
    "pyldavis": pyldavis,
    "mallet": mallet,
    "gensim": gensim,
}


def write(exported: Exported, tool: str, folder: Path) -> list[Path]:
    """Write the files for a tool of `TOOLS`; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, contents in TOOLS[tool](exported).items():
        write_atomically(folder / name, functools.partial(_write, contents))
        paths.append(folder / name)
    return paths


def _write(contents: bytes, file: BinaryIO) -> None:
    file.write(contents)


def _rounded(matrix: np.ndarray) -> list[list[float]]:
    return [[float(f"{x:.8g}") for x in row] for row in matrix.tolist()]


def _one_field(name: str) -> str:
    """A name without spaces, at which gensim's reader separates fields; MALLET's word where there is none."""
    return "_".join(name.split()) or "no-name"


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()
