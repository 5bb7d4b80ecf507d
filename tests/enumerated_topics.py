"""Reference code for latent Dirichlet allocation: sums over all topic assignments, and a plain Gibbs sweep.

It is slow and simple on purpose: the fast code is tested against it.

Word x_j of a document has a topic z_j, drawn from the document's mixture π ~ Dirichlet(γ). A word of topic k
is drawn from β_k, where β_kw = θ_kw/θ_k· and θ_kw ~ Gamma(α, 1). Row w of `beta` holds the probabilities of
word w under each topic.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# The largest enumeration: its arrays take about a gigabyte.
MAX_ASSIGNMENTS = 2**20


class Enumeration(NamedTuple):
    """The exact distribution of the topics of one document given β.

    `assignments` (Z, T): every z. `probabilities` (Z,): p(z | x, β, γ). `counts` (U, K): E[n_kw].
    `mixture` (K,): E[n_k]. `log_evidence`: log p(x | β, γ), the mixture integrated out.
    """

    assignments: Integers
    probabilities: Floats
    counts: Floats
    mixture: Floats
    log_evidence: float


class TopicPosterior(NamedTuple):
    """The exact posterior of the topics of a corpus: a mixture of products of Dirichlet distributions.

    Given z the topics are independent, β_k | z ~ Dirichlet(α + n_k(z)): `concentrations` (Z, K, V) are α + n,
    `probabilities` (Z,) the weights p(z | x), `log_evidence` is log p(x). `weights` (K,) are γ/γ·.

    The words carry no information about the row sums of θ: the posterior of θ_k· is its prior Gamma(α·, 1),
    independent of β.
    """

    concentrations: Floats
    probabilities: Floats
    weights: Floats
    log_evidence: float

    def expectation(self, conditional: Callable[[Floats], Floats]) -> Floats:
        """E[f(β)], where `conditional` maps concentrations (Z, K, V) to E[f(β) | z] (Z, ...)."""
        return np.tensordot(self.probabilities, conditional(self.concentrations), 1)

    def predictive(self) -> Floats:
        """The distribution of the word of a new document of one token: E[Σ_k (γ_k/γ·) β_kw], by w.

        For a symmetric γ it is E[Σ_k β_kw]/K, which does not depend on the labels of the topics.
        """
        return self.expectation(
            lambda a: np.einsum("k,zkv->zv", self.weights, a / a.sum(axis=-1, keepdims=True))
        )

    def second_moments(self) -> Floats:
        """E[Σ_k β_kv β_kw]/K, by v and w, which does not depend on the labels of the topics.

        For Dirichlet(a), E[β_v β_w] = (a_v a_w + a_v 1[v=w]) / (a· (a· + 1)).
        """

        def conditional(a: Floats) -> Floats:
            total = a.sum(axis=-1)[..., None, None]
            products = a[..., :, None] * a[..., None, :] + a[..., None] * np.eye(a.shape[-1])
            return (products / (total * (total + 1))).mean(axis=1)

        return self.expectation(conditional)


def all_assignments(tokens: int, K: int) -> Integers:
    """All assignments of K topics to this many tokens, one per row."""
    if K**tokens > MAX_ASSIGNMENTS:
        raise ValueError(
            f"{tokens} tokens have {K}^{tokens} = {K**tokens} assignments to topics; at most "
            f"{MAX_ASSIGNMENTS} can be enumerated. Use fewer tokens or topics."
        )
    positions = np.arange(tokens, dtype=np.int64)
    return np.arange(K**tokens, dtype=np.int64)[:, None] // K**positions % K


def log_polya(counts: NDArray[np.integer] | Floats, concentration: Floats) -> Floats:
    """The log probability of a sequence with these counts, with Dirichlet(a) probabilities integrated out.

    log Γ(a·) - log Γ(a· + n·) + Σ_i [log Γ(a_i + n_i) - log Γ(a_i)], along the last axis.
    """
    a = concentration
    parts = gammaln(a + counts) - gammaln(a)
    total: Floats = gammaln(a.sum(-1)) - gammaln(a.sum(-1) + counts.sum(-1)) + parts.sum(-1)
    return total


def enumerate_topics(words: Sequence[int], beta: ArrayLike, gamma: ArrayLike) -> Enumeration:
    """The topics of the tokens of one document, by summation over all K^T assignments.

    p(x, z | β, γ) = Polya(n(z); γ) Π_j β_{z_j, x_j}
    """
    beta, gamma, tokens = _checked_inputs(words, beta, gamma)
    U, K = beta.shape
    z = all_assignments(len(tokens), K)
    one_hot = z[:, :, None] == np.arange(K)  # (Z, T, K)
    with np.errstate(divide="ignore"):  # for words of probability zero
        log_joint = log_polya(one_hot.sum(axis=1), gamma) + np.log(beta)[tokens, z].sum(axis=1)
    log_evidence = float(logsumexp(log_joint))
    if log_evidence == -np.inf:
        raise ValueError("the document contains a word whose probability is zero under every topic.")
    probabilities = np.exp(log_joint - log_evidence)
    topics = np.einsum("z,ztk->tk", probabilities, one_hot)  # p(z_j = k | x)
    counts = np.zeros((U, K))
    np.add.at(counts, tokens, topics)
    return Enumeration(z, probabilities, counts, topics.sum(axis=0), log_evidence)


def dense_gibbs(
    words: Sequence[int],
    beta: ArrayLike,
    gamma: ArrayLike,
    sweeps: int,
    burn_in: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    r"""E[n_kw] (U, K) and E[n_k] (K,) of one document by Gibbs sampling, starting from random topics.

    p(z_j = k | z_{\j}, x) ∝ (γ_k + n_k^{\j}) β_{k, x_j}

    Patterson and Teh (2013) print θ for β. θ is not normalised, so it would favour topics with a large θ_k·,
    of which the words are independent. The sum over all assignments (`enumerate_topics`) agrees with β.
    """
    if not 0 <= burn_in < sweeps:
        raise ValueError(f"of {sweeps} sweeps, {burn_in} are burn-in: at least one must be left.")
    beta, gamma, tokens = _checked_inputs(words, beta, gamma)
    K = gamma.size
    z = rng.integers(K, size=len(tokens))
    n = np.bincount(z, minlength=K)
    counts, mixture = np.zeros_like(beta), np.zeros(K)
    for sweep in range(sweeps):
        for j, word in enumerate(tokens):
            n[z[j]] -= 1
            cumulative = np.cumsum((gamma + n) * beta[word])
            z[j] = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
            n[z[j]] += 1
        if sweep >= burn_in:
            np.add.at(counts, (tokens, z), 1.0)
            mixture += n
    return counts / (sweeps - burn_in), mixture / (sweeps - burn_in)


def enumerate_posterior(
    documents: Sequence[Sequence[int]], V: int, K: int, alpha: ArrayLike, gamma: ArrayLike
) -> TopicPosterior:
    """The topics of a tiny corpus, by summation over all assignments of all its tokens.

    p(x, z) = Π_d Polya(n_d(z); γ) Π_k Polya(n_k(z); α), with n_d counts of topics and n_k counts of words
    """
    alpha = np.broadcast_to(np.asarray(alpha, float), (V,))
    gamma = np.broadcast_to(np.asarray(gamma, float), (K,))
    tokens = np.array([word for words in documents for word in words], dtype=np.int64)
    document_of_token = np.repeat(np.arange(len(documents)), [len(words) for words in documents])
    if tokens.size and (tokens.min() < 0 or tokens.max() >= V):
        raise ValueError(f"words run from {tokens.min()} to {tokens.max()}; the vocabulary is 0 to {V - 1}.")
    z = all_assignments(tokens.size, K)
    one_hot = (z[:, :, None] == np.arange(K)).astype(float)  # (Z, T, K)
    by_document = np.einsum("ztk,td->zdk", one_hot, np.eye(len(documents))[document_of_token], optimize=True)
    by_word = np.einsum("ztk,tv->zkv", one_hot, np.eye(V)[tokens], optimize=True)
    log_joint = log_polya(by_document, gamma).sum(axis=1) + log_polya(by_word, alpha).sum(axis=1)
    log_evidence = float(logsumexp(log_joint))
    probabilities = np.exp(log_joint - log_evidence)
    return TopicPosterior(alpha + by_word, probabilities, gamma / gamma.sum(), log_evidence)


def _checked_inputs(
    words: Sequence[int], beta: ArrayLike, gamma: ArrayLike
) -> tuple[Floats, Floats, Integers]:
    beta, tokens = np.asarray(beta, float), np.asarray(words, dtype=np.int64)
    if beta.ndim != 2:
        raise ValueError(
            f"beta must have a row for each word and a column for each topic; it is {beta.shape}."
        )
    if tokens.size and (tokens.min() < 0 or tokens.max() >= beta.shape[0]):
        raise ValueError(f"words run from {tokens.min()} to {tokens.max()}; beta has {beta.shape[0]} rows.")
    return beta, np.broadcast_to(np.asarray(gamma, float), beta.shape[1:]), tokens
