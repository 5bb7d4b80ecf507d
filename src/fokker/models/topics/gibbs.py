r"""The E-step: Gibbs sweeps over the topics of each document's words, given the topics' word probabilities.

    p(z_j = k | rest) ∝ (γ_k + n_dk^{\j}) β_{k, x_j}

with the mixture of the document integrated out (Griffiths and Steyvers 2004; Patterson and Teh 2013, who
print θ for β). Every draw is from its exact full conditional; there are no proposals.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

import numba
import numpy as np

from fokker.corpora import Documents
from fokker.models.topics._expected import MIN_PROBABILITY
from fokker.models.topics._uniform import streams, uniform
from fokker.models.topics._vector_draw import LANES, draw, next_ticket

# Documents that a thread processes in turn: while one waits for its last draw to be stored, another
# continues.
_INTERLEAVED = 3
_CACHE_LINE = 64
Task = TypeVar("Task")


def padded_width(topics: int) -> int:
    """The number of topics, rounded up to complete vectors."""
    return -(-topics // LANES) * LANES


@numba.njit(nogil=True, cache=True)
def aligned_array(size: int) -> Any:
    """Memory for float32 numbers, aligned to a cache line so that no vector crosses two lines."""
    buffer = np.empty(size + _CACHE_LINE // 4, np.float32)
    first = (-buffer.ctypes.data % _CACHE_LINE) // 4
    return buffer[first : first + size]


@numba.njit(nogil=True, cache=True, inline="always")
def _redraw(
    blocks: int,
    n: np.ndarray,
    offset: int,
    beta: np.ndarray,
    tokens: np.ndarray,
    z: np.ndarray,
    n_kw: np.ndarray,
    scratch: np.ndarray,
    state: np.uint64,
    j: int,
    is_counted: int,
) -> Any:
    """Redraw the topic of token j, count it if the sweep is after burn-in, return the random state."""
    state, u = uniform(state)
    old = np.int64(z[j])
    row = np.int64(tokens[j])
    new = draw(n, offset, beta, row, scratch, blocks, old, u)
    if beta[row + new] == 0:
        # Rounding at the end of the sum can give an index beyond the last topic.
        new = 0
    n[offset + old] -= 1
    n[offset + new] += 1
    z[j] = new
    n_kw[row + new] += is_counted
    return state


@lru_cache
def compiled_sweep(blocks: int) -> Any:
    """The sweeps, compiled for topics in this many vectors: a constant lets the compiler unroll the loops."""
    K = blocks * LANES
    # A row of n has one extra vector: a token without a topic yet is subtracted from its first entry.
    stride = K + LANES

    @numba.njit(nogil=True, cache=True)
    def _sweep(
        ticket: np.ndarray,
        order: np.ndarray,
        indptr: np.ndarray,
        words: np.ndarray,
        counts: np.ndarray,
        beta: np.ndarray,
        gamma: np.ndarray,
        states: np.ndarray,
        sweeps: int,
        burn_in: int,
        is_sample: bool,
        total: np.ndarray,
        mixtures: np.ndarray,
        first_token: np.ndarray,
        assignments: np.ndarray,
    ) -> None:
        """Process documents until none is left; add the counts after burn-in to `total` and `mixtures`.

        With `is_sample`, `total` counts the topics of the last sweep only. `assignments`, unless it is empty,
        receives these topics, those of document d from index `first_token[d]`.
        """
        max_words, max_tokens = 0, 0
        for d in range(len(indptr) - 1):
            num_tokens = 0
            for i in range(indptr[d], indptr[d + 1]):
                num_tokens += counts[i]
            max_words = max(max_words, indptr[d + 1] - indptr[d])
            max_tokens = max(max_tokens, num_tokens)
        weights, n_kw = (
            aligned_array(_INTERLEAVED * max_words * K),
            np.empty(_INTERLEAVED * max_words * K, np.int32),
        )
        tokens = np.empty(_INTERLEAVED * max_tokens, np.int64)
        z = np.empty(_INTERLEAVED * max_tokens, np.int32)
        n, scratch = aligned_array(_INTERLEAVED * stride), aligned_array(_INTERLEAVED * stride)
        state, is_counted = np.empty(_INTERLEAVED, np.uint64), np.zeros(_INTERLEAVED, np.int32)
        position, end = np.zeros(_INTERLEAVED, np.int64), np.zeros(_INTERLEAVED, np.int64)
        sweep, document = np.full(_INTERLEAVED, sweeps), np.full(_INTERLEAVED, -1)
        while True:
            num_active = 0
            for m in range(_INTERLEAVED):
                if position[m] == end[m]:
                    sweep[m] += 1
                    position[m] = m * max_tokens
                    if sweep[m] >= sweeps:
                        d = document[m]
                        if d >= 0:
                            for i in range(indptr[d + 1] - indptr[d]):
                                w, first = words[indptr[d] + i], (m * max_words + i) * K
                                for k in range(K):
                                    total[w, k] += 0 if is_sample else n_kw[first + k]
                                    mixtures[d, k] += n_kw[first + k]
                            if is_sample:
                                for j in range(m * max_tokens, end[m]):
                                    i = tokens[j] // K - m * max_words
                                    total[words[indptr[d] + i], z[j]] += 1
                            if len(assignments):
                                for j in range(m * max_tokens, end[m]):
                                    assignments[first_token[d] + j - m * max_tokens] = z[j]
                        order_index = next_ticket(ticket)
                        if order_index >= len(order):
                            document[m] = -1
                            end[m] = position[m]
                            continue
                        d = order[order_index]
                        document[m], sweep[m] = d, 0
                        last = m * max_tokens
                        for i in range(indptr[d + 1] - indptr[d]):
                            first = (m * max_words + i) * K
                            for k in range(K):
                                weights[first + k] = beta[words[indptr[d] + i], k]
                                n_kw[first + k] = 0
                            for _ in range(counts[indptr[d] + i]):
                                tokens[last] = first
                                z[last] = K
                                last += 1
                        n[m * stride : m * stride + K] = gamma
                        n[m * stride + K : (m + 1) * stride] = 0
                        end[m] = last
                        state[m] = states[d]
                    is_counted[m] = 1 if sweep[m] >= burn_in else 0
                num_active += 1
            if num_active == 0:
                return
            if num_active == _INTERLEAVED:
                num_steps = end[0] - position[0]
                for m in range(1, _INTERLEAVED):
                    num_steps = min(num_steps, end[m] - position[m])
                # Unrolled for the three documents: the processor overlaps their independent draws.
                s0, s1, s2 = state[0], state[1], state[2]
                p0, p1, p2 = position[0], position[1], position[2]
                k0, k1, k2 = is_counted[0], is_counted[1], is_counted[2]
                for j in range(num_steps):
                    s0 = _redraw(blocks, n, 0, weights, tokens, z, n_kw, scratch, s0, p0 + j, k0)
                    s1 = _redraw(blocks, n, stride, weights, tokens, z, n_kw, scratch, s1, p1 + j, k1)
                    s2 = _redraw(blocks, n, 2 * stride, weights, tokens, z, n_kw, scratch, s2, p2 + j, k2)
                state[0], state[1], state[2] = s0, s1, s2
                position[0], position[1], position[2] = p0 + num_steps, p1 + num_steps, p2 + num_steps
            else:
                for m in range(_INTERLEAVED):
                    s = state[m]
                    for j in range(position[m], end[m]):
                        s = _redraw(
                            blocks, n, m * stride, weights, tokens, z, n_kw, scratch, s, j, is_counted[m]
                        )
                    state[m], position[m] = s, end[m]

    return _sweep


@lru_cache(maxsize=4)
def thread_pool(threads: int) -> ThreadPoolExecutor:
    """Threads for compiled code that releases Python's lock; idle threads sleep instead of spinning."""
    return ThreadPoolExecutor(threads, thread_name_prefix="fokker")


def in_threads(threads: int, work: Callable[[Task], None], tasks: Sequence[Task]) -> None:
    """Do each task; a single thread is this one."""
    if threads == 1:
        for task in tasks:
            work(task)
    else:
        list(thread_pool(threads).map(work, tasks))


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def topic_counts(
    documents: Documents,
    beta: np.ndarray,
    gamma: np.ndarray,
    seed: np.uint64,
    *,
    sweeps: int = 50,
    burn_in: int = 25,
    threads: int = 1,
    sample: bool = False,
    identities: np.ndarray | None = None,
    assignments: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """n_kw (U, K) and n_dk (D, K), summed over the sweeps after the first `burn_in`.

    With `sample`, n_kw of the last sweep alone, one draw of the topics. `assignments` (int32, one per token)
    receives the topics of the last sweep. The word ids of `documents` are rows of `beta` (U, K): β_kw, up to
    a factor per word. The first sweep draws the topic of each word given those drawn before it. The draws of
    a document depend only on `seed` and its identity (uint64), by default its index in the minibatch. Longer
    documents start first, and each thread takes the next one when it is free.
    """
    topics = beta.shape[1]
    width = padded_width(topics)
    padded_beta = np.zeros((len(beta), width), np.float32)
    # With weights of zero, a word that no topic contains could not be assigned.
    np.maximum(beta, np.float32(MIN_PROBABILITY), out=padded_beta[:, :topics])
    padded_gamma = np.zeros(width, np.float32)
    padded_gamma[:topics] = gamma
    lengths = documents.lengths
    order = np.argsort(-lengths, kind="stable")
    initial_states = streams(seed, np.arange(documents.size) if identities is None else identities)
    next_document = np.zeros(1, np.int64)
    mixtures = np.zeros((documents.size, width), np.int32)
    threads = max(1, min(threads, documents.size))
    totals = [np.zeros((len(beta), width), np.int32) for _ in range(threads)]
    first_token = np.cumsum(lengths) - lengths
    if assignments is None:
        assignments = np.empty(0, np.int32)

    def work(total: np.ndarray) -> None:
        compiled_sweep(width // LANES)(
            next_document, order, documents.indptr, documents.words, documents.counts, padded_beta,
            padded_gamma, initial_states, sweeps, burn_in, sample, total, mixtures, first_token,
            assignments,
        )  # fmt: skip

    in_threads(threads, work, totals)
    return sum(totals[1:], totals[0])[:, :topics], mixtures[:, :topics]
