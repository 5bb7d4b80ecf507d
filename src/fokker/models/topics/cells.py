r"""Collapsed Gibbs sweeps over the topics z of all words by threads: their number changes no bit.

With the prior a_kw = α + δ_kw of words, the sweeps of `fokker.models.topics.collapsed` draw from

    p(x, z) ∝ Π_d Γ-terms of the documents · Π_k ∫ Dir(β_k; a_k) Π_w β_kw^{n_kw} dβ_k,

one token after the other, because every token changes the n_k· of the next one. Divide the vocabulary into
blocks b. A Dirichlet distribution is that of its block masses, m_k = (Σ_{w ∈ b} β_kw)_b ~ Dir(a_kb) with
a_kb = Σ_{w ∈ b} a_kw, and independent distributions within the blocks, φ_kb ~ Dir((a_kw)_{w ∈ b}). So with
β_kw = m_kb φ_kw, and with φ integrated out but not m,

    p(x, z, m) ∝ Π_d … · Π_k Dir(m_k; a_k) Π_b m_kb^{n_kb} Π_b ∫ Dir(φ_kb; a_kb) Π_{w ∈ b} φ_kw^{n_kw} dφ_kb,

whose marginal is p(x, z), and whose conditionals are

    m_k | z ~ Dirichlet((a_kb + n_kb)_b),                   n_kb = Σ_{w ∈ b} n_kw,
    p(z_j = k | m, all other z) ∝ (γ_k + n_dk^{\j}) m_kb (a_kw + n_kw^{\j}) / (a_kb + n_kb^{\j})

for a word w of block b. The second depends on the counts of its own document and its own block alone. With as
many groups of documents as blocks, tokens of two cells (g, b) and (g', b') with g ≠ g' and b ≠ b' have
nothing to do with each other given the rest and m, and can be drawn at the same time. A sweep draws m, and
then in B rounds the tokens of the cells (g, g + r mod B), g = 0, …, B - 1, of round r. All of these are exact
conditionals of p(z, m | x). Every cell has random numbers of its own.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numba
import numpy as np

from fokker.corpora import Documents
from fokker.corpora._documents import offsets
from fokker.models.topics._uniform import streams, uniform_double
from fokker.models.topics._vector_draw import LANES, next_ticket
from fokker.models.topics.cir import draw_gamma
from fokker.models.topics.collapsed import padded, redraw_word
from fokker.models.topics.gibbs import aligned_array, in_threads
from fokker.models.topics.share import dealt

# The tokens of an average cell, which take more than 0.1 ms: to start the threads of a round takes 0.02 ms,
# and all of them wait for the last cell.
_TOKENS_PER_CELL = 5_000
# With fewer blocks threads have no work, and with more a document has few words in each of them, whose counts
# take longer than they do.
_MIN_BLOCKS, _MAX_BLOCKS, _TOKENS_PER_VISIT = 8, 32, 8


def num_blocks(tokens: int, documents: int) -> int:
    """The blocks of a corpus, whatever the threads; one where a sweep takes less than some 10 ms anyway."""
    number = math.isqrt(tokens // _TOKENS_PER_CELL)
    if number < _MIN_BLOCKS:
        return 1
    return max(_MIN_BLOCKS, min(number, _MAX_BLOCKS, tokens // documents // _TOKENS_PER_VISIT))


class Cells(NamedTuple):
    """Documents in groups, and their words in blocks.

    `order` are the documents, those of group g from `first_document[g]` on. Words of document d that are of
    block b are the entries from `first_entry[d B + b]` to the next number of this array, and their tokens
    begin at `first_token[d B + b]`. `queues[r]` are the groups of round r, the cells with most tokens first.
    `block` is that of each word.
    """

    order: np.ndarray
    first_document: np.ndarray
    first_entry: np.ndarray
    first_token: np.ndarray
    queues: np.ndarray
    block: np.ndarray


def divided(
    documents: Documents, z: np.ndarray, num_words: int, blocks: int
) -> tuple[Cells, np.ndarray, np.ndarray, np.ndarray]:
    """The cells, and words, counts and z with the words of each document in the order of their blocks.

    Groups and blocks have about as many tokens each.
    """
    words, counts = documents.words, documents.counts
    group = dealt(documents.lengths, blocks)
    block = dealt(np.bincount(words, counts, num_words), blocks)
    cell = np.repeat(np.arange(documents.size), np.diff(documents.indptr)) * blocks + block[words]
    order, num_cells = np.argsort(cell, kind="stable"), documents.size * blocks
    num_tokens = np.bincount(cell, counts, num_cells)
    in_cell = np.zeros((blocks, blocks))
    np.add.at(in_cell, group, num_tokens.reshape(-1, blocks))
    numbers = np.arange(blocks)
    in_round = in_cell[numbers, (numbers + numbers[:, None]) % blocks]
    cells = Cells(
        np.argsort(group, kind="stable"),
        offsets(np.bincount(group, minlength=blocks)),
        offsets(np.bincount(cell, minlength=num_cells)),
        offsets(num_tokens.astype(np.int64)),
        np.argsort(-in_round, axis=1, kind="stable"),
        block,
    )
    return cells, words[order], counts[order], z[np.argsort(np.repeat(cell, counts), kind="stable")]


# A block without words has the prior 0, and the mass 0.
@numba.njit(nogil=True, cache=True, error_model="numpy")
def _draw_masses(n_kb: np.ndarray, priors: np.ndarray, states: np.ndarray, masses: np.ndarray) -> None:
    """m (B, K) given n_kb + δ_kb (B, K) and the sums of α over the words of each block."""
    logs = np.empty(len(n_kb))
    for k in range(len(states)):
        state = states[k]
        for b in range(len(n_kb)):
            # Gamma(a) is Gamma(a + 1) U^{1/a}. For a small a it may underflow in all blocks.
            a = n_kb[b, k] + priors[b]
            state, x = draw_gamma(state, a + 1.0)
            state, u = uniform_double(state)
            logs[b] = math.log(x) + math.log(u) / a
        states[k] = state
        drawn = np.exp(logs - logs.max())
        masses[:, k] = drawn / drawn.sum()


@lru_cache
def _compiled_round(vectors: int) -> Any:
    """One round, compiled for topics in this many vectors, as the sweeps of `gibbs`."""
    width = vectors * LANES

    @numba.njit(nogil=True, cache=True, error_model="numpy")
    def _round(
        ticket: np.ndarray,
        number: int,
        cells: Cells,
        words: np.ndarray,
        counts: np.ndarray,
        z: np.ndarray,
        by_word: np.ndarray,
        by_document: np.ndarray,
        n_kb: np.ndarray,
        masses: np.ndarray,
        priors: np.ndarray,
        topics: int,
        alpha: np.float32,
        gamma: np.ndarray,
        states: np.ndarray,
    ) -> None:
        """Redraw the tokens of cells of round `number` until none is left; all counts follow."""
        n_dk, scale, scratch = aligned_array(width), aligned_array(width), aligned_array(width)
        blocks = len(priors)
        while True:
            place = next_ticket(ticket)
            if place >= blocks:
                return
            g = cells.queues[number, place]
            b = (g + number) % blocks
            # Own copies: other threads write numbers beside them.
            n_k, mass, prior, state = n_kb[b].copy(), masses[b].copy(), priors[b], states[g, b]
            for k in range(width):
                scale[k] = mass[k] / np.float32(n_k[k] + prior)
            for i in range(cells.first_document[g], cells.first_document[g + 1]):
                d = cells.order[i]
                own = d * blocks + b
                first, last = cells.first_entry[own], cells.first_entry[own + 1]
                if first == last:
                    continue
                n_d = by_document[d]
                for k in range(width):
                    n_dk[k] = gamma[k] + n_d[k]
                j = cells.first_token[own]
                for entry in range(first, last):
                    row = np.int64(words[entry]) * width
                    state = redraw_word(
                        vectors, topics, n_dk, by_word, row, n_k, prior, mass, scale, scratch, alpha,
                        z, j, counts[entry], state,
                    )  # fmt: skip
                    j += counts[entry]
                # Whole numbers again: a γ that is small beside a count would be lost by rounding.
                for k in range(width):
                    n_d[k] = np.rint(n_dk[k] - gamma[k])
            n_kb[b], states[g, b] = n_k, state

    return _round


def sweep_cells(
    cells: Cells,
    words: np.ndarray,
    counts: np.ndarray,
    z: np.ndarray,
    by_word: np.ndarray,
    by_document: np.ndarray,
    alpha: float,
    gamma: np.ndarray,
    seed: np.uint64,
    sweeps: int,
    threads: int,
) -> None:
    """Redraw the topic of every token so many times; the arguments are as for `collapsed.sweep`.

    `words`, `counts` and `z` are those of `divided`, and `by_document` are their n_dk (D, K) before.
    """
    topics, blocks = by_word.shape[1], len(cells.queues)
    rows, rows_of_documents, padded_gamma = padded(by_word), padded(by_document), padded(gamma[None])[0]
    states = streams(seed, np.arange(blocks * blocks + topics))
    of_cells, of_topics = states[: blocks * blocks].reshape(blocks, blocks), states[blocks * blocks :]
    n_kb = np.stack([rows[cells.block == b].sum(0, dtype=np.float64) for b in range(blocks)])
    priors = np.float64(np.float32(alpha)) * np.bincount(cells.block, minlength=blocks)
    masses = np.zeros(n_kb.shape, np.float32)
    for _ in range(sweeps):
        _draw_masses(n_kb, priors, of_topics, masses)
        for number in range(blocks):
            ticket = np.zeros(1, np.int64)

            def work(_: int, number: int = number, ticket: np.ndarray = ticket) -> None:
                _compiled_round(rows.shape[1] // LANES)(
                    ticket, number, cells, words, counts, z, rows.reshape(-1), rows_of_documents, n_kb,
                    masses, priors, topics, np.float32(alpha), padded_gamma, of_cells,
                )  # fmt: skip

            in_threads(threads, work, range(threads))
    by_word[:] = rows[:, :topics]
