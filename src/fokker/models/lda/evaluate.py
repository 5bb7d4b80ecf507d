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

import jax
import numpy as np

from fokker.corpora import Documents
from fokker.models.lda._expected import MIN_PROBABILITY
from fokker.models.lda._uniform import seed_at
from fokker.models.lda.chain import local_words
from fokker.models.lda.gibbs import expected_counts

# Different from the streams of a chain with the same seed.
_SPLIT, _SWEEPS = 101, 102


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
        offsets[documents.indptr], documents.words[is_present], counts[is_present], documents.names
    )


def mixtures(
    documents: Documents,
    beta: np.ndarray,
    gamma: np.ndarray,
    seed: int = 0,
    *,
    sweeps: int = 50,
    burn_in: int = 25,
    threads: int = 1,
) -> np.ndarray:
    """E[π_dk] of each document (D, K) given β (V, K).

    That of a document depends on its words alone, not on the other documents.
    """
    words, local = local_words(documents)
    expected = expected_counts(
        local,
        beta[words],
        gamma,
        seed_at(jax.random.key(seed), _SWEEPS),
        sweeps=sweeps,
        burn_in=burn_in,
        threads=threads,
        identities=identities(documents),
    )
    weights = expected.mixtures + np.asarray(gamma, np.float32)
    return weights / weights.sum(1, keepdims=True)


def identities(documents: Documents) -> np.ndarray:
    """A hash of the words of each document (uint64): the same document has the same random numbers."""
    hashes = (
        hashlib.blake2b(words.tobytes() + counts.tobytes(), digest_size=8).digest()
        for _, words, counts in map(documents.row, range(documents.size))
    )
    return np.frombuffer(b"".join(hashes), "<u8").astype(np.uint64)


class HeldOut:
    """Documents of which half is predicted; p(w) is averaged over all β that were added."""

    def __init__(self, documents: Documents, seed: int = 0, threads: int = 1) -> None:
        with_two_words = documents.select(documents.lengths >= 2)
        if not with_two_words.size:
            raise ValueError("no held-out document has two words: there is nothing to predict.")
        self.documents = with_two_words
        self._observed, self._hidden = split_tokens(with_two_words, seed)
        self._rows = np.repeat(np.arange(with_two_words.size), np.diff(self._hidden.indptr))
        self._sum = np.zeros(len(self._hidden.words))
        self._seed, self._threads, self.draws = seed, threads, 0

    def probabilities(self, beta: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """p(w) of each hidden word under one β (V, K)."""
        pi = mixtures(self._observed, beta, gamma, self._seed, threads=self._threads)
        p = np.einsum("nk,nk->n", pi[self._rows], beta[self._hidden.words], dtype=np.float64)
        # An exact draw may have no topic with the word.
        return np.maximum(p, MIN_PROBABILITY)

    def add(self, beta: np.ndarray, gamma: np.ndarray) -> float:
        """Add a draw of β to the average; return the perplexity under this draw alone."""
        p = self.probabilities(beta, gamma)
        self._sum += p
        self.draws += 1
        return self._perplexity(p)

    def reset(self) -> None:
        """Reset the average."""
        self._sum[:] = 0
        self.draws = 0

    @property
    def perplexity(self) -> float:
        """The perplexity of p(w) averaged over the draws."""
        if not self.draws:
            raise ValueError("there is no draw of the topics yet: add one.")
        return self._perplexity(self._sum / self.draws)

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
