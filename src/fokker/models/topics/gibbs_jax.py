r"""The topics of the words of many documents by Gibbs sampling in JAX, for GPUs: all tokens in parallel.

    π_d ~ Dirichlet(γ + n_d),    then    p(z_j = k | π_d, x) ∝ π_dk β_{k, x_j}   for every token j alone

Both are exact full conditionals of the posterior of (π_d, z), so that z has the same distribution as in
`fokker.models.topics.gibbs`, which has π_d integrated out and so draws the tokens of a document one after the
other. With π_d drawn successive sweeps are more alike: `SWEEPS` of them are as good as one.

Every draw is a function of the key, the number of the document, the sweep, and the position of the token or
the topic only, so padding and grouping do not change it. The exception is a device that sums in another order
for another shape; it changes about one draw in millions. Counts are those of draws of z, not of their
probabilities given π_d: sums of integers do not depend on their order either.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt32
from numpy.typing import ArrayLike, NDArray

from fokker._core.random import bits, fold_in
from fokker._core.threefry import threefry
from fokker.models.topics._expected import MIN_PROBABILITY
from fokker.models.topics.share import rounded_up

# Sweeps with the error of one in which the mixtures are integrated out (measured: see docs/lda.md).
SWEEPS = 2
# The most numbers of an array over tokens and topics: more documents are processed in parts.
_MAX_NUMBERS = 2**28
# The proposals for a Gamma number. Each is accepted with a probability of at least 0.95; after these, of
# which all are rejected once in 10⁸ times, the first one is taken.
_PROPOSALS = 6

Integers = NDArray[np.int64]


def topic_counts(
    key: Key[Array, ""],
    indptr: ArrayLike,
    words: ArrayLike,
    counts: ArrayLike,
    beta: ArrayLike,
    gamma: ArrayLike,
    sweeps: int,
    burn_in: int,
    first: int | ArrayLike = 0,
    sample: bool = False,
    assignments: NDArray[np.int32] | None = None,
) -> tuple[Integers, Integers]:
    """n_kw (U, K) and n_dk (D, K), summed over the sweeps after burn-in.

    With `sample`, n_kw of the last sweep, one draw of the topics. `assignments`, one per token, receives the
    topics of the last sweep.

    `first` is the number of the first document, or the numbers of all. Tokens, documents and words are
    padded: a stream of minibatches needs compilation for a few shapes only.
    """
    if not 0 <= burn_in < sweeps:
        raise ValueError(f"of {sweeps} sweeps, {burn_in} are burn-in: at least one must be left.")
    beta = np.asarray(beta, np.float32)
    U, K = beta.shape
    tokens, ends = _tokens(indptr, words, counts)
    if tokens.size and (tokens.min() < 0 or tokens.max() >= U):
        raise ValueError(f"words run from {tokens.min()} to {tokens.max()}; beta has {U} rows.")
    numbers = np.asarray(first) + (np.arange(ends.size - 1) if np.ndim(first) == 0 else 0)
    device_beta = jnp.asarray(_padded(beta, rounded_up(U)))
    device_gamma = jnp.asarray(np.broadcast_to(np.asarray(gamma, np.float32), (1, K)))
    pending = []
    for part in _parts(ends, max(1, _MAX_NUMBERS // K)):
        bounds = ends[part.start : part.stop + 1]
        N, D = int(bounds[-1] - bounds[0]), part.stop - part.start
        own = np.repeat(np.arange(D), np.diff(bounds))
        by_token = np.stack([tokens[bounds[0] : bounds[-1]], own, np.arange(N) - (bounds - bounds[0])[own]])
        totals = _totals(
            key,
            jnp.asarray(_padded(by_token.T.astype(np.int32), rounded_up(N)).T),
            jnp.int32(N),
            device_beta,
            device_gamma,
            jnp.asarray(_padded(numbers[part].astype(np.uint32), rounded_up(D))),
            sweeps=sweeps,
            burn_in=burn_in,
            sample=sample,
        )
        pending.append((part, totals))
    # Fetched last, so that a GPU receives the next part before it has finished the current one.
    all_counts, mixtures = np.zeros((U, K), np.int64), np.zeros((numbers.size, K), np.int64)
    for part, (part_counts, part_mixtures, z) in pending:
        all_counts += np.asarray(part_counts)[:U]
        mixtures[part] = np.asarray(part_mixtures)[: part.stop - part.start]
        if assignments is not None:
            inside = slice(*ends[[part.start, part.stop]])
            assignments[inside] = np.asarray(z)[: inside.stop - inside.start]
    return all_counts, mixtures


@partial(jax.jit, static_argnames=("sweeps", "burn_in", "sample"))
def _totals(
    key: Key[Array, ""],
    tokens: Int[Array, "3 N"],
    num_tokens: Int[Array, ""],
    beta: Float[Array, "U K"],
    gamma: Float[Array, "1 K"],
    documents: UInt32[Array, " D"],
    *,
    sweeps: int,
    burn_in: int,
    sample: bool,
) -> tuple[Int[Array, "U K"], Int[Array, "D K"], Int[Array, " N"]]:
    """n_kw and n_dk, summed over the sweeps after burn-in, and z of the last sweep.

    `tokens`: of each its word, the index of its document, and its position there. `documents`: their numbers.
    With `sample`, n_kw is that of the last sweep.
    """
    (words, own, positions), K = tokens, beta.shape[1]
    beta = jnp.maximum(beta, MIN_PROBABILITY)
    is_token = jnp.arange(words.size, dtype=jnp.int32) < num_tokens

    def sweep(number: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        _, n, counts, mixtures = state
        random_words = bits(fold_in(key, number), (4,))
        log_pi = _log_gammas((random_words[0], random_words[1]), documents, gamma + n.astype(jnp.float32))
        # The first sweep has the mean of the prior.
        log_pi = jnp.where(number == 0, jnp.log(gamma), log_pi)
        # The largest is 1, and with MIN_PROBABILITY no sum of weights underflows.
        pi = jnp.exp(log_pi - jnp.max(log_pi, axis=1, keepdims=True))
        cumulative = _cumulative(pi[own] * beta[words])
        first, _ = threefry((random_words[2], random_words[3]), documents[own], positions.astype(jnp.uint32))
        # u > 0, so that a topic of no weight is not drawn, and u ≤ 1, so that there is one.
        is_below = cumulative < _uniform(first)[:, None] * cumulative[:, -1:]
        # Topic K means no topic: that of padding. It is not counted.
        z = jnp.where(is_token, jnp.sum(is_below, axis=1, dtype=jnp.int32), K)
        n = jnp.zeros_like(n).at[own, z].add(1, mode="drop")
        is_counted = (number >= burn_in).astype(jnp.int32)
        is_counted_by_word = (number == sweeps - 1).astype(jnp.int32) if sample else is_counted
        return (
            z,
            n,
            counts.at[words, z].add(is_counted_by_word, mode="drop"),
            mixtures + is_counted * n,
        )

    no_counts = jnp.zeros((documents.size, K), jnp.int32)
    state = jnp.zeros(words.shape, jnp.int32), no_counts, jnp.zeros(beta.shape, jnp.int32), no_counts
    z, _, counts, mixtures = jax.lax.fori_loop(0, sweeps, sweep, state)
    return counts, mixtures, z


def _log_gammas(
    key: tuple[Array, Array], documents: UInt32[Array, " D"], shapes: Float[Array, "D K"]
) -> Float[Array, "D K"]:
    """log g, where g ~ Gamma(a, 1) for each of `shapes`, with the numbers of their documents as counters.

    Gamma(a) = Gamma(a + 1) U^{1/a}, the first by the proposals of Marsaglia and Tsang (2000). In logarithms,
    because with a = 0.01 half of the numbers are below 10⁻³⁰.
    """
    D, K = shapes.shape
    # A word for the power of U, then one for each proposal.
    places = np.arange(K * (1 + _PROPOSALS), dtype=np.uint32).reshape(K, -1).T[:, None, :]
    counters = np.zeros((1 + _PROPOSALS, D, K), np.uint32)
    random_words = threefry(key, documents[None, :, None] + counters, places + counters)
    first, second = (_uniform(word) for word in random_words)
    d = shapes[None] + np.float32(2 / 3)
    x = np.float32(2**0.5) * jax.lax.erf_inv(2 * first[1:] - 1)
    v = 1 + x / jnp.sqrt(9 * d)
    # A v below zero is rejected.
    log_v = 3 * jnp.log(jnp.maximum(v, np.float32(1e-6)))
    is_accepted = (v > 0) & (jnp.log(second[1:]) < x * x / 2 + d * (1 - jnp.exp(log_v) + log_v))
    accepted = jnp.argmax(is_accepted, axis=0)[None]
    return (jnp.log(d) + jnp.take_along_axis(log_v, accepted, axis=0))[0] + jnp.log(first[0]) / shapes


def _cumulative(weights: Array) -> Array:
    """Cumulative sums along each row, as a product with a triangular matrix of ones.

    It is one kernel on a GPU; on a CPU it is two to three times as fast as `jnp.cumsum` at 50 and 100 topics.
    It requests full precision, because a GPU may round the factors to ten bits.
    """
    ones = np.triu(np.ones((weights.shape[1],) * 2, np.float32))
    return jnp.matmul(weights, ones, precision=jax.lax.Precision.HIGHEST)


def _uniform(random_bits: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """Numbers in (0, 1), of 32 random bits each."""
    halves = (random_bits >> np.uint32(9)).astype(jnp.float32) + np.float32(0.5)
    return halves * np.float32(2.0**-23)


def _tokens(indptr: ArrayLike, words: ArrayLike, counts: ArrayLike) -> tuple[Integers, Integers]:
    """The concatenated tokens of all documents, the start of each document, and the end of the last."""
    bounds, words, counts = (np.asarray(a, dtype=np.int64) for a in (indptr, words, counts))
    words, counts = words[bounds[0] : bounds[-1]], counts[bounds[0] : bounds[-1]]
    return np.repeat(words, counts), np.concatenate([[0], np.cumsum(counts)])[bounds - bounds[0]]


def _parts(ends: Integers, size: int) -> list[slice]:
    """Successive documents that together have at most so many numbers; a longer one is a part of its own.

    A token has one number per topic, the mixture of a document those of the proposals of its Gamma variables.
    """
    parts, start, num_documents = [], 0, ends.size - 1
    numbers = ends + 2 * (_PROPOSALS + 1) * np.arange(ends.size)
    while start < num_documents:
        stop = max(start + 1, int(np.searchsorted(numbers, numbers[start] + size, side="right")) - 1)
        if ends[stop] > ends[start]:
            parts.append(slice(start, stop))
        start = stop
    return parts


def _padded(x: NDArray, size: int) -> NDArray:
    """The array with rows of zeros at its end, `size` rows in all."""
    padded = np.zeros((size, *x.shape[1:]), x.dtype)
    padded[: len(x)] = x
    return padded
