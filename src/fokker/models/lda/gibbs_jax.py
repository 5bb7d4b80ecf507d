r"""The topics of many documents at once by Gibbs sampling in JAX, for a GPU.

p(z_j = k | z_{\j}, x) ∝ (γ_k + n_dk^{\j}) β_{k, x_j}

Tokens of a document are taken in turn, documents side by side: a position is one step of a few kernels over
(documents, topics). Every draw is a function of the key, the document's number, the sweep and the position
alone, so that neither padding nor grouping changes it (but where the device sums in another order for another
shape: then one draw in millions).
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from numpy.typing import ArrayLike, NDArray

from fokker._core import random as _random
from fokker.models.lda._expected import LEAST_PROBABILITY, Expected

Whole = NDArray[np.int64]


def pad(
    indptr: ArrayLike, words: ArrayLike, counts: ArrayLike, multiple: int = 8
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Tokens (D, T) and lengths (D,) of documents that are rows of a sparse matrix.

    Document d has `counts[i]` tokens of `words[i]`, for i from `indptr[d]` to `indptr[d + 1] - 1`. T is a
    power of two times `multiple`, so that few lengths are ever compiled for.
    """
    tokens, ends = _tokens(indptr, words, counts)
    lengths = np.diff(ends)
    T = _rounded_up(int(lengths.max(initial=0)), multiple)
    return _padded(tokens, ends[:-1], lengths, T), lengths.astype(np.int32)


def expected_counts_padded(
    key: Key[Array, ""],
    words: ArrayLike,
    lengths: ArrayLike,
    beta: ArrayLike,
    gamma: ArrayLike,
    sweeps: int,
    burn_in: int,
    documents: int | ArrayLike = 0,
) -> Expected:
    """E[n_kw] and E[n_dk] as averages over sweeps `burn_in` to `sweeps - 1`; compiled for each shape.

    Sweep 0 places the tokens, each given those before it. `documents` are the documents' numbers, or the
    first of them where they follow each other.
    """
    _check_sweeps(sweeps, burn_in)
    if np.ndim(documents) == 0:
        documents = np.asarray(documents) + np.arange(np.shape(words)[0])
    counts, mixtures = _totals(
        key,
        jnp.asarray(words, jnp.int32),
        jnp.asarray(lengths, jnp.int32),
        jnp.asarray(beta, jnp.float32),
        jnp.asarray(gamma, jnp.float32),
        jnp.asarray(documents, jnp.int32),
        sweeps=sweeps,
        burn_in=burn_in,
    )
    kept = np.float32(sweeps - burn_in)
    return Expected(counts.astype(jnp.float32) / kept, mixtures.astype(jnp.float32) / kept)


def expected_counts(
    key: Key[Array, ""],
    indptr: ArrayLike,
    words: ArrayLike,
    counts: ArrayLike,
    beta: ArrayLike,
    gamma: ArrayLike,
    sweeps: int,
    burn_in: int,
    first: int = 0,
    multiple: int = 8,
) -> Expected:
    """The same for rows of a sparse matrix (see `pad`), as NumPy arrays.

    Documents are grouped by padded length, so that short ones do not wait for long ones. `first` is the
    number of the first document. Groups and words are padded in number, too: a stream of minibatches, each
    with other words and lengths, is compiled for a few shapes only.
    """
    _check_sweeps(sweeps, burn_in)
    beta = np.asarray(beta, np.float32)
    U, K = beta.shape
    tokens, ends = _tokens(indptr, words, counts)
    if tokens.size and (tokens.min() < 0 or tokens.max() >= U):
        raise ValueError(f"words run from {tokens.min()} to {tokens.max()}; beta has {U} rows.")
    rows = np.zeros((_rounded_up(U, 256), K), np.float32)
    rows[:U] = beta
    device_rows, device_gamma = jnp.asarray(rows), jnp.asarray(gamma, jnp.float32)
    lengths = np.diff(ends)
    below, T, pending = 0, multiple, []
    while below < lengths.max(initial=0):
        group = np.flatnonzero((lengths > below) & (lengths <= T))
        if group.size:
            # Documents of no tokens fill the group up.
            filled = np.zeros((3, _rounded_up(group.size, 16)), np.int64)
            filled[:, : group.size] = ends[group], lengths[group], first + group
            starts, own_lengths, numbers = filled
            totals = _totals(
                key,
                jnp.asarray(_padded(tokens, starts, own_lengths, T)),
                jnp.asarray(own_lengths, jnp.int32),
                device_rows,
                device_gamma,
                jnp.asarray(numbers, jnp.int32),
                sweeps=sweeps,
                burn_in=burn_in,
            )
            pending.append((group, totals))
        below, T = T, 2 * T
    # Whole numbers until all groups are in: sums of quotients would depend on the grouping. They are fetched
    # last, for a GPU to have the next group before it is done with this one.
    all_counts, mixtures = np.zeros((U, K), np.int64), np.zeros((lengths.size, K), np.int64)
    for group, (group_counts, group_mixtures) in pending:
        all_counts += np.asarray(group_counts)[:U]
        mixtures[group] = np.asarray(group_mixtures)[: group.size]
    kept = np.float32(sweeps - burn_in)
    return Expected(all_counts.astype(np.float32) / kept, mixtures.astype(np.float32) / kept)


@partial(jax.jit, static_argnames=("sweeps", "burn_in"))
def _totals(
    key: Key[Array, ""],
    words: Int[Array, "D T"],
    lengths: Int[Array, " D"],
    beta: Float[Array, "U K"],
    gamma: Float[Array, "..."],
    documents: Int[Array, " D"],
    *,
    sweeps: int,
    burn_in: int,
) -> tuple[Int[Array, "U K"], Int[Array, "D K"]]:
    """n_kw and n_dk summed over the sweeps kept."""
    (D, T), K = words.shape, beta.shape[1]
    beta = jnp.maximum(beta, LEAST_PROBABILITY)
    gamma = jnp.broadcast_to(gamma, (1, K))
    # Positions first: a step then reads and writes one contiguous row.
    words = words.T
    # On a GPU a position is a handful of kernels too short to keep it busy: several at a time are 1.4 times
    # as fast. A CPU would only compile for longer.
    unroll = 1 if jax.default_backend() == "cpu" else 4
    positions = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32)[:, None], (T, D))
    present = positions < lengths[None, :]

    def place(n: Array, token: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        word, there, u, old = token
        cumulative = _cumulative(_weights(n, old, gamma, beta[word]))
        new = jnp.sum(cumulative <= u[:, None] * cumulative[:, -1:], axis=1, dtype=jnp.int32)
        new = jnp.where(there, new, K)
        return n - _one_hot(old, K) + _one_hot(new, K), new

    def sweep(number: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        z, n, counts, mixtures = state
        u = _uniforms(_random.fold_in(key, number), documents[None, :], positions)
        n, z = jax.lax.scan(place, n, (words, present, u, z), unroll=unroll)
        kept = (number >= burn_in).astype(jnp.int32)
        counts = counts.at[words, z].add(kept, mode="drop")
        return z, n, counts, mixtures + kept * n.astype(jnp.int32)

    # Topic K is none: what is not yet placed, or not there. It takes nothing from n and adds to no count.
    state = (
        jnp.full((T, D), K, jnp.int32),
        jnp.zeros((D, K), jnp.float32),
        jnp.zeros(beta.shape, jnp.int32),
        jnp.zeros((D, K), jnp.int32),
    )
    _, _, counts, mixtures = jax.lax.fori_loop(0, sweeps, sweep, state)
    return counts, mixtures


def _weights(n: Array, old: Array, gamma: Array, beta: Array) -> Array:
    r"""(γ_k + n_dk^{\j}) β_{k, x_j}, of one token a document.

    n are whole numbers, to which γ is added anew each time: γ + n carried along would lose a small γ to
    rounding. Patterson and Teh print θ for β; see `fokker.models.lda.reference.dense_gibbs`.
    """
    return (gamma + (n - _one_hot(old, gamma.shape[1]))) * beta


def _cumulative(weights: Array) -> Array:
    """Sums along a row up to each place, as a product with a triangle of ones.

    One kernel on a GPU, and on a CPU two to three times the speed of `jnp.cumsum` at 50 and 100 topics. Full
    precision is asked for, since a GPU may round what it multiplies to ten bits.
    """
    ones = np.triu(np.ones((weights.shape[1],) * 2, np.float32))
    return jnp.matmul(weights, ones, precision=jax.lax.Precision.HIGHEST)


def _one_hot(z: Array, K: int) -> Array:
    return (z[:, None] == jnp.arange(K, dtype=z.dtype)[None, :]).astype(jnp.float32)


def _uniforms(key: Key[Array, ""], documents: Array, positions: Array) -> Array:
    """Numbers in [0, 1) from counters that are the document and the position: one Threefry each."""
    words = _random.bits(key, (2,))
    first = jnp.broadcast_to(documents, positions.shape).astype(jnp.uint32)
    made, _ = _random.threefry((words[0], words[1]), first, positions.astype(jnp.uint32))
    return (made >> np.uint32(8)).astype(jnp.float32) * np.float32(2.0**-24)


def _tokens(indptr: ArrayLike, words: ArrayLike, counts: ArrayLike) -> tuple[Whole, Whole]:
    """The tokens of all documents in a row, and where each document begins and the last one ends."""
    places, words, counts = (np.asarray(a, dtype=np.int64) for a in (indptr, words, counts))
    words, counts = words[places[0] : places[-1]], counts[places[0] : places[-1]]
    return np.repeat(words, counts), np.concatenate([[0], np.cumsum(counts)])[places - places[0]]


def _padded(tokens: Whole, starts: Whole, lengths: Whole, T: int) -> NDArray[np.int32]:
    """Documents of at most T tokens as rows, with zeros behind the tokens."""
    places = np.arange(T)
    padded = np.zeros((starts.size, T), np.int32)
    present = places < lengths[:, None]
    padded[present] = tokens[(starts[:, None] + places)[present]]
    return padded


def _check_sweeps(sweeps: int, burn_in: int) -> None:
    if not 0 <= burn_in < sweeps:
        raise ValueError(f"of {sweeps} sweeps, {burn_in} are burn-in: at least one must be left.")


def _rounded_up(number: int, multiple: int) -> int:
    """The least power of two times `multiple` that is not below."""
    size = multiple
    while size < number:
        size *= 2
    return size
