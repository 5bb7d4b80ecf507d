r"""Held-out perplexity, and the mixtures of documents.

Document completion: the mixture of each held-out document is estimated from a random half of its words, and
the other half is predicted,

    perplexity = exp(-Σ log p(w) / Σ 1),   p(w) = Σ_k π_dk β_kw,   π_dk = (γ_k + E[n_dk]) / Σ_k (γ_k +
    E[n_dk]).

Patterson and Teh (2013) average p(w) over the draws of the chain before taking the logarithm; `HeldOut` does
the same for several β. A p(w) below 1e-30 counts as 1e-30: an exact draw may have no topic with the word.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from fokker.corpora import Documents
from fokker.models.topics._expected import MIN_PROBABILITY, averaged
from fokker.models.topics._uniform import seed_at
from fokker.models.topics.collapsed import local_words, topics_of_documents
from fokker.models.topics.gibbs import topic_counts
from fokker.models.topics.share import Share


class RowsOfBeta(Protocol):
    """β (V, K), of which the rows of some words are asked for: an array, or what gathers them."""

    def __getitem__(self, words: np.ndarray, /) -> Any:
        """The rows of these words."""


# Different from the streams of a chain with the same seed.
_SPLIT, _SWEEPS, _DIRICHLET = 101, 102, 104


def split_tokens(documents: Documents, seed: int = 0) -> tuple[Documents, Documents]:
    """Split the tokens of each document at random in two halves: observed, and to be predicted."""
    generator = np.random.Generator(np.random.Philox(int(seed_at(jax.random.key(seed), _SPLIT))))
    observed = np.zeros_like(documents.counts)
    for start, stop in zip(documents.indptr[:-1], documents.indptr[1:], strict=True):
        counts = documents.counts[start:stop].astype(np.int64)
        if len(counts):
            observed[start:stop] = generator.multivariate_hypergeometric(counts, int(counts.sum()) // 2)
    return _replace_counts(documents, observed), _replace_counts(documents, documents.counts - observed)


def _replace_counts(documents: Documents, counts: np.ndarray) -> Documents:
    """The same documents with other counts; words with a count of zero are removed."""
    is_present = counts > 0
    offsets = np.concatenate([[0], np.cumsum(is_present)])
    return Documents(
        offsets[documents.indptr],
        documents.words[is_present],
        counts[is_present],
        documents.names,
        documents.places,
    )


def mixtures(
    documents: Documents,
    beta: RowsOfBeta,
    gamma: np.ndarray,
    seed: int = 0,
    *,
    sweeps: int = 50,
    burn_in: int = 25,
    threads: int = 1,
    share: Share | None = None,
) -> np.ndarray:
    """E[π_dk] of each document (D, K) given β (V, K).

    That of a document depends on its words alone, not on the other documents. With a `share`, each process
    sweeps over some of them.
    """
    share = share or Share(len(gamma))
    words, local = local_words(documents)
    dealt = share.deal(local.lengths)
    counts, in_documents = topic_counts(
        local.select(dealt),
        beta[words],
        gamma,
        seed_at(jax.random.key(seed), _SWEEPS),
        sweeps=sweeps,
        burn_in=burn_in,
        threads=threads,
        identities=identities(documents)[dealt],
    )
    # Only n_dk are needed.
    of_words, of_documents, _ = share.total(counts[:0], in_documents, dealt, local, sweeps - burn_in)
    expected = averaged(of_words, of_documents, sweeps - burn_in)
    weights = expected.mixtures + np.asarray(gamma, np.float32)
    return weights / weights.sum(1, keepdims=True)


def counts_draw(
    documents: Documents,
    beta: np.ndarray,
    gamma: np.ndarray,
    seed: int = 0,
    *,
    sweeps: int = 50,
    threads: int = 1,
) -> np.ndarray:
    """n_dk (D, K) of a draw of the topics z of all words given β (V, K).

    Those of a document depend on its words alone, not on the other documents.
    """
    words, local = local_words(documents)
    z = np.empty(local.tokens, np.int32)
    topic_counts(
        local,
        beta[words],
        gamma,
        seed_at(jax.random.key(seed), _SWEEPS),
        sweeps=sweeps,
        burn_in=sweeps - 1,
        threads=threads,
        sample=True,
        identities=identities(documents),
        assignments=z,
    )
    return topics_of_documents(local, z, len(gamma))


def mixture_draw(
    documents: Documents,
    beta: np.ndarray,
    gamma: np.ndarray,
    seed: int = 0,
    *,
    sweeps: int = 50,
    threads: int = 1,
) -> np.ndarray:
    """A draw of π_d of each document (D, K) given β (V, K): of `counts_draw`, then Dirichlet(γ + n_d)."""
    counts = counts_draw(documents, beta, gamma, seed, sweeps=sweeps, threads=threads)
    shapes = counts + np.asarray(gamma, np.float64)
    stream = int(seed_at(jax.random.key(seed), _DIRICHLET))
    weights = np.stack(
        [
            np.random.Generator(np.random.Philox([stream, int(identity)])).standard_gamma(shape)
            for identity, shape in zip(identities(documents), shapes, strict=True)
        ]
    ).reshape(shapes.shape)
    # A document without words and a small γ may have a Gamma of zero in every topic.
    weights = np.maximum(weights, np.finfo(float).tiny)
    return np.asarray(weights / weights.sum(1, keepdims=True))


def identities(documents: Documents) -> np.ndarray:
    """A hash of the words of each document (uint64): the same document has the same random numbers."""
    hashes = (
        hashlib.blake2b(words.tobytes() + counts.tobytes(), digest_size=8).digest()
        for _, words, counts in map(documents.row, range(documents.size))
    )
    return np.frombuffer(b"".join(hashes), "<u8").astype(np.uint64)


class DocumentScores(NamedTuple):
    """Σ log p(w) over the hidden words of each document, and how many these are (D,)."""

    names: tuple[str, ...]
    log_probabilities: np.ndarray
    num_words: np.ndarray

    @property
    def perplexity(self) -> float:
        """The perplexity of all hidden words."""
        return float(np.exp(-self.log_probabilities.sum() / self.num_words.sum()))

    @property
    def standard_error(self) -> float:
        """That of the perplexity, if the documents are a random sample."""
        return self.perplexity * _standard_error(-self.log_probabilities, self.num_words)

    def log_ratio(self, other: "DocumentScores") -> tuple[float, float]:
        """The logarithm of this perplexity over another one of the same words, with its standard error.

        The documents are compared one by one: some are harder than others for every model.
        """
        if self.names != other.names or not np.array_equal(self.num_words, other.num_words):
            raise ValueError("the held-out documents differ: only perplexities of the same words compare.")
        differences = other.log_probabilities - self.log_probabilities
        return float(differences.sum() / self.num_words.sum()), _standard_error(differences, self.num_words)


def _standard_error(values: np.ndarray, sizes: np.ndarray) -> float:
    """The standard error of Σ values / Σ sizes over a random sample of documents: that of a ratio.

    √[D/(D-1) Σ_d (v_d - r n_d)²] / Σ_d n_d,   r = Σ v_d / Σ n_d   (Cochran 1977, section 2.11)
    """
    if len(values) < 2:
        return float("nan")
    residuals = values - values.sum() / sizes.sum() * sizes
    return float(np.sqrt(len(values) / (len(values) - 1) * np.sum(residuals**2)) / sizes.sum())


class HeldOut:
    """Documents of which half is predicted; p(w) is averaged over all β that were added."""

    def __init__(
        self, documents: Documents, seed: int = 0, threads: int = 1, share: Share | None = None
    ) -> None:
        with_two_words = documents.select(documents.lengths >= 2)
        if not with_two_words.size:
            raise ValueError("no held-out document has two words: there is nothing to predict.")
        self.documents = with_two_words
        self._observed, self._hidden = split_tokens(with_two_words, seed)
        self._rows = np.repeat(np.arange(with_two_words.size), np.diff(self._hidden.indptr))
        self._sum = np.zeros(len(self._hidden.words))
        self._words, self._index = np.unique(self._hidden.words, return_inverse=True)
        self._seed, self.threads, self.draws = seed, threads, 0
        self._share = share

    def probabilities(self, beta: RowsOfBeta, gamma: np.ndarray) -> np.ndarray:
        """p(w) of each hidden word under one β (V, K)."""
        pi = mixtures(self._observed, beta, gamma, self._seed, threads=self.threads, share=self._share)
        hidden = beta[self._words][self._index]
        p = np.einsum("nk,nk->n", pi[self._rows], hidden, dtype=np.float64)
        # An exact draw may have no topic with the word.
        return np.maximum(p, MIN_PROBABILITY)

    def add(self, beta: RowsOfBeta, gamma: np.ndarray) -> float:
        """Add a draw of β to the average; return the perplexity under this draw alone."""
        p = self.probabilities(beta, gamma)
        self._sum += p
        self.draws += 1
        return self._perplexity(p)

    @property
    def perplexity(self) -> float:
        """The perplexity of p(w) averaged over the draws."""
        if not self.draws:
            raise ValueError("there is no draw of the topics yet: add one.")
        return self._perplexity(self._sum / self.draws)

    def scores(self) -> DocumentScores:
        """The scores of the documents, p(w) averaged over the draws."""
        return self._scores(np.log(self._sum / self.draws))

    def unigram_scores(self, word_counts: np.ndarray) -> DocumentScores:
        """Those of the same words under the word frequencies of the training documents, given counts (V,).

        Each word has half a count more than in these documents, so that unseen words have a positive
        probability.
        """
        weights = word_counts + 0.5
        return self._scores(np.log(weights / weights.sum())[self._hidden.words])

    def _scores(self, log_p: np.ndarray) -> DocumentScores:
        counts = self._hidden.counts
        size = self.documents.size
        return DocumentScores(
            self.documents.names,
            np.bincount(self._rows, counts * log_p, size),
            np.bincount(self._rows, counts, size),
        )

    def _perplexity(self, p: np.ndarray) -> float:
        counts = self._hidden.counts
        return float(np.exp(-np.sum(counts * np.log(p)) / counts.sum()))

    def state(self) -> dict[str, np.ndarray]:
        """The average so far."""
        return {"sum": self._sum, "draws": np.asarray(self.draws)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore a `state`."""
        self._sum, self.draws = np.array(state["sum"]), int(state["draws"])


def perplexity(
    documents: Documents, draws: Iterable[np.ndarray], gamma: np.ndarray, seed: int = 0, threads: int = 1
) -> float:
    """Document-completion perplexity, p(w) averaged over draws of β (V, K)."""
    held_out = HeldOut(documents, seed, threads)
    for beta in draws:
        held_out.add(beta, gamma)
    return held_out.perplexity
