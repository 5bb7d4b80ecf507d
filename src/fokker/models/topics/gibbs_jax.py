r"""The topics of many documents at the same time by Gibbs sampling in JAX, for GPUs.

p(z_j = k | z_{\j}, x) ∝ (γ_k + n_dk^{\j}) β_{k, x_j}

The tokens of a document are processed in order, all documents in parallel: one position takes a few kernels
over (documents, topics). Every draw is a function of the key, the number of the document, the sweep and the
position only, so padding and grouping do not change it. The exception is a device that sums in another order
for another shape; it changes about one draw in millions.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from numpy.typing import ArrayLike, NDArray

from fokker._core.random import bits, fold_in
from fokker._core.threefry import threefry
from fokker.models.topics._expected import MIN_PROBABILITY

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
    multiple: int = 8,
    sample: bool = False,
    assignments: NDArray[np.int32] | None = None,
) -> tuple[Integers, Integers]:
    """n_kw (U, K) and n_dk (D, K), summed over the sweeps after burn-in.

    With `sample`, n_kw of the last sweep, one draw of the topics. `assignments`, one per token, receives the
    topics of the last sweep.

    Documents are grouped by padded length, so that short ones do not wait for long ones. `first` is the
    number of the first document, or the numbers of all. The number of documents in a group and the number of
    words are padded too: a stream of minibatches with different words and lengths needs compilation for a few
    shapes only.
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
    all_numbers = np.asarray(first) + (np.arange(lengths.size) if np.ndim(first) == 0 else 0)
    shorter, T, pending = 0, multiple, []
    while shorter < lengths.max(initial=0):
        group = np.flatnonzero((lengths > shorter) & (lengths <= T))
        if group.size:
            # Documents without tokens pad the group.
            padded_group = np.zeros((3, _rounded_up(group.size, 16)), np.int64)
            padded_group[:, : group.size] = ends[group], lengths[group], all_numbers[group]
            starts, own_lengths, numbers = padded_group
            totals = _totals(
                key,
                jnp.asarray(_padded(tokens, starts, own_lengths, T)),
                jnp.asarray(own_lengths, jnp.int32),
                device_rows,
                device_gamma,
                jnp.asarray(numbers, jnp.int32),
                sweeps=sweeps,
                burn_in=burn_in,
                sample=sample,
            )
            pending.append((group, totals))
        shorter, T = T, 2 * T
    # Sums stay integers until all groups are added: sums of quotients would depend on the grouping. Results
    # are fetched last, so that a GPU receives the next group before it has finished the current one.
    all_counts, mixtures = np.zeros((U, K), np.int64), np.zeros((lengths.size, K), np.int64)
    for group, (group_counts, group_mixtures, z) in pending:
        all_counts += np.asarray(group_counts)[:U]
        mixtures[group] = np.asarray(group_mixtures)[: group.size]
        if assignments is not None:
            positions = np.arange(z.shape[0])
            is_token = positions < lengths[group, None]
            assignments[(ends[group, None] + positions)[is_token]] = np.asarray(z).T[: group.size][is_token]
    return all_counts, mixtures


@partial(jax.jit, static_argnames=("sweeps", "burn_in", "sample"))
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
    sample: bool = False,
) -> tuple[Int[Array, "U K"], Int[Array, "D K"], Int[Array, "T D"]]:
    """n_kw and n_dk, summed over the sweeps after burn-in, and z of the last sweep.

    With `sample`, n_kw is that of the last sweep.
    """
    (D, T), K = words.shape, beta.shape[1]
    beta = jnp.maximum(beta, MIN_PROBABILITY)
    gamma = jnp.broadcast_to(gamma, (1, K))
    # Positions on the first axis: a step then reads and writes one contiguous row.
    words = words.T
    # On a GPU the kernels of one position are too short to use it fully: unrolling is 1.4 times as fast. On a
    # CPU it would only increase the compilation time.
    unroll = 1 if jax.default_backend() == "cpu" else 4
    positions = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32)[:, None], (T, D))
    present = positions < lengths[None, :]

    def draw_topic(n: Array, token: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        word, is_present, u, old = token
        cumulative = _cumulative(_weights(n, old, gamma, beta[word]))
        new = jnp.sum(cumulative <= u[:, None] * cumulative[:, -1:], axis=1, dtype=jnp.int32)
        new = jnp.where(is_present, new, K)
        return n - _one_hot(old, K) + _one_hot(new, K), new

    def sweep(number: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        z, n, counts, mixtures = state
        u = _uniforms(fold_in(key, number), documents[None, :], positions)
        n, z = jax.lax.scan(draw_topic, n, (words, present, u, z), unroll=unroll)
        is_counted = (number >= burn_in).astype(jnp.int32)
        is_counted_by_word = (number == sweeps - 1).astype(jnp.int32) if sample else is_counted
        counts = counts.at[words, z].add(is_counted_by_word, mode="drop")
        return z, n, counts, mixtures + is_counted * n.astype(jnp.int32)

    # Topic K means no topic: tokens not yet drawn, and padding. It changes neither n nor the counts.
    state = (
        jnp.full((T, D), K, jnp.int32),
        jnp.zeros((D, K), jnp.float32),
        jnp.zeros(beta.shape, jnp.int32),
        jnp.zeros((D, K), jnp.int32),
    )
    z, _, counts, mixtures = jax.lax.fori_loop(0, sweeps, sweep, state)
    return counts, mixtures, z


def _weights(n: Array, old: Array, gamma: Array, beta: Array) -> Array:
    r"""(γ_k + n_dk^{\j}) β_{k, x_j}, for one token per document.

    n are integers, and γ is added each time: a running γ + n would lose a small γ to rounding. Patterson and
    Teh print θ for β, which would favour topics of a large θ_k·, of which the words are independent.
    """
    return (gamma + (n - _one_hot(old, gamma.shape[1]))) * beta


def _cumulative(weights: Array) -> Array:
    """Cumulative sums along each row, as a product with a triangular matrix of ones.

    It is one kernel on a GPU; on a CPU it is two to three times as fast as `jnp.cumsum` at 50 and 100 topics.
    It requests full precision, because a GPU may round the factors to ten bits.
    """
    ones = np.triu(np.ones((weights.shape[1],) * 2, np.float32))
    return jnp.matmul(weights, ones, precision=jax.lax.Precision.HIGHEST)


def _one_hot(z: Array, K: int) -> Array:
    return (z[:, None] == jnp.arange(K, dtype=z.dtype)[None, :]).astype(jnp.float32)


def _uniforms(key: Key[Array, ""], documents: Array, positions: Array) -> Array:
    """Numbers in [0, 1), one Threefry call each; the counters are the document and the position."""
    words = bits(key, (2,))
    first = jnp.broadcast_to(documents, positions.shape).astype(jnp.uint32)
    random_bits, _ = threefry((words[0], words[1]), first, positions.astype(jnp.uint32))
    return (random_bits >> np.uint32(8)).astype(jnp.float32) * np.float32(2.0**-24)


def _tokens(indptr: ArrayLike, words: ArrayLike, counts: ArrayLike) -> tuple[Integers, Integers]:
    """The concatenated tokens of all documents, the start of each document, and the end of the last."""
    bounds, words, counts = (np.asarray(a, dtype=np.int64) for a in (indptr, words, counts))
    words, counts = words[bounds[0] : bounds[-1]], counts[bounds[0] : bounds[-1]]
    return np.repeat(words, counts), np.concatenate([[0], np.cumsum(counts)])[bounds - bounds[0]]


def _padded(tokens: Integers, starts: Integers, lengths: Integers, T: int) -> NDArray[np.int32]:
    """Documents of at most T tokens as rows, padded with zeros."""
    positions = np.arange(T)
    padded = np.zeros((starts.size, T), np.int32)
    present = positions < lengths[:, None]
    padded[present] = tokens[(starts[:, None] + positions)[present]]
    return padded


def _check_sweeps(sweeps: int, burn_in: int) -> None:
    if not 0 <= burn_in < sweeps:
        raise ValueError(f"of {sweeps} sweeps, {burn_in} are burn-in: at least one must be left.")


def _rounded_up(number: int, multiple: int) -> int:
    """The smallest power of two times `multiple` that is at least `number`."""
    size = multiple
    while size < number:
        size *= 2
    return size
