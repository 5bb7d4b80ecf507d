r"""The E-step: Gibbs sweeps over the topics of each document's words, given the topics' word probabilities.

    p(z_j = k | rest) ∝ (γ_k + n_dk^{\j}) β_{k, x_j}

with the document's mixture integrated out (Griffiths and Steyvers 2004; Patterson and Teh 2013, who print θ
for β). Exact: every draw is from its full conditional, with no proposal to accept.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numba
import numpy as np

from fokker.corpora import Documents
from fokker.models.lda._expected import LEAST_PROBABILITY, Expected
from fokker.models.lda._uniform import stream, uniform
from fokker.models.lda._vector_draw import LANES, draw, take_ticket

# Documents that a thread has in hand at once: while one waits for its last draw to be stored, another goes
# on.
_IN_HAND = 3
_CACHE_LINE = 64


def padded(topics: int) -> int:
    """Topics as they lie in memory: whole vectors."""
    return -(-topics // LANES) * LANES


@numba.njit(nogil=True, cache=True)
def _aligned(size: int) -> Any:
    """Room for float32 numbers that begins with a cache line: a vector then never lies across two."""
    room = np.empty(size + _CACHE_LINE // 4, np.float32)
    first = (-room.ctypes.data % _CACHE_LINE) // 4
    return room[first : first + size]


@numba.njit(nogil=True, cache=True, inline="always")
def _redraw(
    blocks: Any,
    n: Any,
    at: Any,
    beta: Any,
    tokens: Any,
    z: Any,
    tally: Any,
    room: Any,
    state: Any,
    j: Any,
    kept: Any,
) -> Any:
    """Draw the topic of token j anew; count it where the sweep is kept; return the random stream."""
    state, u = uniform(state)
    old = np.int64(z[j])
    row = np.int64(tokens[j])
    new = draw(n, at, beta, row, room, blocks, old, u)  # type: ignore[call-arg, var-annotated]
    if beta[row + new] == 0:
        # Rounding at the very end of the sum can point past the last topic.
        new = 0
    n[at + old] -= 1
    n[at + new] += 1
    z[j] = new
    tally[row + new] += kept
    return state


@lru_cache
def sweep_of(blocks: int) -> Any:
    """The sweeps compiled for topics that lie in so many vectors: known, they are written out one by one."""
    K = blocks * LANES
    # A row of n has a vector to spare: a token that has no topic yet takes itself from the first place there.
    stride = K + LANES

    @numba.njit(nogil=True, cache=True)
    def _sweep(
        ticket: Any,
        order: Any,
        indptr: Any,
        words: Any,
        counts: Any,
        beta: Any,
        gamma: Any,
        seed: Any,
        sweeps: Any,
        burn_in: Any,
        total: Any,
        mixtures: Any,
    ) -> None:
        """Take documents off the pile until none is left; add what was kept to `total` and `mixtures`."""
        most_words, most_tokens = 0, 0
        for d in range(len(indptr) - 1):
            tokens_here = 0
            for i in range(indptr[d], indptr[d + 1]):
                tokens_here += counts[i]
            most_words = max(most_words, indptr[d + 1] - indptr[d])
            most_tokens = max(most_tokens, tokens_here)
        weights, tally = _aligned(_IN_HAND * most_words * K), np.empty(_IN_HAND * most_words * K, np.int32)
        tokens = np.empty(_IN_HAND * most_tokens, np.int64)
        z = np.empty(_IN_HAND * most_tokens, np.int32)
        n, room = _aligned(_IN_HAND * stride), _aligned(_IN_HAND * stride)
        state, kept = np.empty(_IN_HAND, np.uint64), np.zeros(_IN_HAND, np.int32)
        position, end = np.zeros(_IN_HAND, np.int64), np.zeros(_IN_HAND, np.int64)
        sweep, document = np.full(_IN_HAND, sweeps), np.full(_IN_HAND, -1)
        while True:
            busy = 0
            for m in range(_IN_HAND):
                if position[m] == end[m]:
                    sweep[m] += 1
                    position[m] = m * most_tokens
                    if sweep[m] >= sweeps:
                        d = document[m]
                        if d >= 0:
                            for i in range(indptr[d + 1] - indptr[d]):
                                w, first = words[indptr[d] + i], (m * most_words + i) * K
                                for k in range(K):
                                    total[w, k] += tally[first + k]
                                    mixtures[d, k] += tally[first + k]
                        place = take_ticket(ticket)  # type: ignore[call-arg, var-annotated]
                        if place >= len(order):
                            document[m] = -1
                            end[m] = position[m]
                            continue
                        d = order[place]
                        document[m], sweep[m] = d, 0
                        last = m * most_tokens
                        for i in range(indptr[d + 1] - indptr[d]):
                            first = (m * most_words + i) * K
                            for k in range(K):
                                weights[first + k] = beta[words[indptr[d] + i], k]
                                tally[first + k] = 0
                            for _ in range(counts[indptr[d] + i]):
                                tokens[last] = first
                                z[last] = K
                                last += 1
                        n[m * stride : m * stride + K] = gamma
                        n[m * stride + K : (m + 1) * stride] = 0
                        end[m] = last
                        state[m] = stream(seed, d)
                    kept[m] = 1 if sweep[m] >= burn_in else 0
                busy += 1
            if busy == 0:
                return
            if busy == _IN_HAND:
                run = end[0] - position[0]
                for m in range(1, _IN_HAND):
                    run = min(run, end[m] - position[m])
                # Written out for the three in hand: independent draws, which the processor overlaps.
                s0, s1, s2 = state[0], state[1], state[2]
                p0, p1, p2 = position[0], position[1], position[2]
                k0, k1, k2 = kept[0], kept[1], kept[2]
                for j in range(run):
                    s0 = _redraw(blocks, n, 0, weights, tokens, z, tally, room, s0, p0 + j, k0)
                    s1 = _redraw(blocks, n, stride, weights, tokens, z, tally, room, s1, p1 + j, k1)
                    s2 = _redraw(blocks, n, 2 * stride, weights, tokens, z, tally, room, s2, p2 + j, k2)
                state[0], state[1], state[2] = s0, s1, s2
                position[0], position[1], position[2] = p0 + run, p1 + run, p2 + run
            else:
                for m in range(_IN_HAND):
                    s = state[m]
                    for j in range(position[m], end[m]):
                        s = _redraw(blocks, n, m * stride, weights, tokens, z, tally, room, s, j, kept[m])
                    state[m], position[m] = s, end[m]

    return _sweep


@lru_cache(maxsize=4)
def thread_pool(threads: int) -> ThreadPoolExecutor:
    """Threads for compiled code that lets go of Python's lock: they sleep, not spin, while they wait."""
    return ThreadPoolExecutor(threads, thread_name_prefix="fokker")


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def expected_counts(
    documents: Documents,
    beta: np.ndarray,
    gamma: np.ndarray,
    seed: np.uint64,
    *,
    sweeps: int = 50,
    burn_in: int = 25,
    threads: int = 1,
) -> Expected:
    """E[n_kw] and E[n_dk] by Gibbs sweeps, of which the first `burn_in` are not counted.

    `documents` has its words numbered by the rows of `beta` (U, K): β_kw, up to a factor a word. The first
    sweep places each word given those placed before it. A document's draws depend on `seed` and its place in
    the minibatch alone. Longer documents are begun first, and each thread takes the next when it is free.
    """
    topics = beta.shape[1]
    width = padded(topics)
    laid_out = np.zeros((len(beta), width), np.float32)
    # A weight of nothing at all would leave a word that no topic has without a topic.
    np.maximum(beta, np.float32(LEAST_PROBABILITY), out=laid_out[:, :topics])
    prior = np.zeros(width, np.float32)
    prior[:topics] = gamma
    lengths = documents.lengths
    order = np.argsort(-lengths, kind="stable")
    ticket = np.zeros(1, np.int64)
    mixtures = np.zeros((documents.size, width), np.int32)
    threads = max(1, min(threads, documents.size))
    totals = [np.zeros((len(beta), width), np.int32) for _ in range(threads)]

    def work(total: np.ndarray) -> None:
        sweep_of(width // LANES)(
            ticket, order, documents.indptr, documents.words, documents.counts, laid_out, prior, seed,
            sweeps, burn_in, total, mixtures,
        )  # fmt: skip

    if threads == 1:
        work(totals[0])
    else:
        list(thread_pool(threads).map(work, totals))
    share = np.float32(1 / (sweeps - burn_in))
    counts = sum(totals[1:], totals[0])[:, :topics] * share
    return Expected(counts, mixtures[:, :topics] * share)
