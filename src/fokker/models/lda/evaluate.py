r"""How good topics are: held-out perplexity, and coherence.

Document completion: half of the words of each held-out document, drawn at random, are shown; the mixture is
found from those, and the other half is predicted,

    perplexity = exp(-Σ log p(w) / Σ 1),   p(w) = Σ_k π_dk β_kw,   π_dk = (γ_k + E[n_dk]) / Σ_k (γ_k +
    E[n_dk]).

Patterson and Teh (2013) average p(w) over the draws of the chain before taking the logarithm: with several β
that is what `HeldOut` does.
"""

from collections.abc import Iterable

import jax
import numpy as np

from fokker.corpora import Documents
from fokker.models.lda._uniform import seed_at
from fokker.models.lda.chain import local_words
from fokker.models.lda.gibbs import expected_counts

# Apart from the streams that a chain of the same seed has.
_SPLIT, _SWEEPS = 101, 102


def split_tokens(documents: Documents, seed: int = 0) -> tuple[Documents, Documents]:
    """Each document's words in two halves, token by token at random: what is shown, and what is predicted."""
    generator = np.random.Generator(np.random.Philox(int(seed_at(jax.random.key(seed), _SPLIT))))
    shown = np.zeros_like(documents.counts)
    for start, stop in zip(documents.indptr[:-1], documents.indptr[1:], strict=True):
        counts = documents.counts[start:stop].astype(np.int64)
        if len(counts):
            shown[start:stop] = generator.multivariate_hypergeometric(counts, int(counts.sum()) // 2)
    return _with_counts(documents, shown), _with_counts(documents, documents.counts - shown)


def _with_counts(documents: Documents, counts: np.ndarray) -> Documents:
    """The same documents with other counts; words that have none are dropped."""
    some = counts > 0
    before = np.concatenate([[0], np.cumsum(some)])
    return Documents(before[documents.indptr], documents.words[some], counts[some], documents.names)


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
    """E[π_dk] of each document (D, K) given β (V, K)."""
    words, local = local_words(documents)
    found = expected_counts(
        local,
        beta[words],
        gamma,
        seed_at(jax.random.key(seed), _SWEEPS),
        sweeps=sweeps,
        burn_in=burn_in,
        threads=threads,
    )
    weights = found.mixtures + np.asarray(gamma, np.float32)
    return weights / weights.sum(1, keepdims=True)


class HeldOut:
    """Documents to predict half of; p(w) is averaged over all β that it is shown."""

    def __init__(self, documents: Documents, seed: int = 0, threads: int = 1) -> None:
        whole = documents.select(documents.lengths >= 2)
        if not whole.size:
            raise ValueError("no held-out document has two words: there is nothing to show and to predict.")
        self.documents = whole
        self._shown, self._hidden = split_tokens(whole, seed)
        self._rows = np.repeat(np.arange(whole.size), np.diff(self._hidden.indptr))
        self._sum = np.zeros(len(self._hidden.words))
        self._seed, self._threads, self.draws = seed, threads, 0

    def probabilities(self, beta: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """p(w) of each hidden word under one β (V, K)."""
        pi = mixtures(self._shown, beta, gamma, self._seed, threads=self._threads)
        return np.einsum("nk,nk->n", pi[self._rows], beta[self._hidden.words], dtype=np.float64)

    def add(self, beta: np.ndarray, gamma: np.ndarray) -> float:
        """Take a draw of β into the average; return the perplexity under this draw alone."""
        p = self.probabilities(beta, gamma)
        self._sum += p
        self.draws += 1
        return self._perplexity(p)

    def forget(self) -> None:
        """Begin the average anew."""
        self._sum[:] = 0
        self.draws = 0

    @property
    def perplexity(self) -> float:
        """Of the average over the draws."""
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
        """As it was when `state` was taken."""
        self._sum, self.draws = np.array(state["sum"]), int(state["draws"])


def perplexity(
    documents: Documents, draws: Iterable[np.ndarray], gamma: np.ndarray, seed: int = 0, threads: int = 1
) -> float:
    """Document-completion perplexity, p(w) averaged over draws of β (V, K)."""
    held_out = HeldOut(documents, seed, threads)
    for beta in draws:
        held_out.add(beta, gamma)
    return held_out.perplexity


def coherence(documents: Documents, top_words: np.ndarray) -> np.ndarray:
    r"""NPMI of each topic (K,): the mean over pairs of its top words (K, n) of

        log[p(v, w) / (p(v) p(w))] / -log p(v, w),

    with p(v, w) the share of documents that have both (Bouma 2009; Lau et al. 2014). A pair that never occurs
    together counts -1, a pair that always does 1.
    """
    top_words = np.asarray(top_words)
    wanted, places = np.unique(top_words, return_inverse=True)
    places = places.reshape(top_words.shape)
    has = documents.to_matrix(int(max(documents.words.max(initial=0), wanted.max())) + 1)[:, wanted]
    has.data = np.ones_like(has.data, dtype=np.float64)
    has = has.tocsc()
    share = np.asarray(has.sum(0)).ravel() / documents.size
    found = np.empty(len(top_words))
    for k, topic in enumerate(places):
        both = np.asarray((has[:, topic].T @ has[:, topic]).todense()) / documents.size
        v, w = np.triu_indices(len(topic), 1)
        p = both[v, w]
        together = p > 0
        npmi = np.full(len(p), -1.0)
        independent = share[topic[v]] * share[topic[w]]
        # In every document there is nothing to tell: the limit is 1.
        sure = p >= 1
        ratio = np.log(np.where(together, p, 1) / np.where(together, independent, 1))
        npmi[together] = np.where(sure, 1.0, ratio / -np.log(np.where(sure | ~together, 0.5, p)))[together]
        found[k] = npmi.mean()
    return found
