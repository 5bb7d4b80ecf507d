r"""Exact draws of the topics given the topics of all words of a pass.

With β fixed during a pass over the corpus, the sweeps draw the topics z of the words of each document, and

    θ_kw | z ~ Gamma(α + n_kw, 1),   n_kw: how many times word w has topic k,

independently for all words and topics. Both steps are exact full conditionals of the posterior of (β, z): a
Gibbs sampler with one cycle per pass (Tanner and Wong 1987). Every document counts once, so there is no noise
of minibatches, no step size, and no error near zero. Before each draw of θ, sweeps with β integrated out
(`fokker.models.topics.collapsed`) redraw z: otherwise rare words would change their topics too seldom.
"""

import numba
import numpy as np

from fokker.corpora import Documents
from fokker.models.topics._uniform import stream, stream_of_topic
from fokker.models.topics.assignments import Assignments
from fokker.models.topics.cir import draw_gamma
from fokker.models.topics.collapsed import MAX_COUNT
from fokker.models.topics.document_prior import counts_above
from fokker.models.topics.gibbs import in_threads
from fokker.models.topics.share import Share
from fokker.models.topics.word_prior import WordPrior

# The words that a thread processes at a time.
_WORDS_PER_PART = 256
# The sweeps with β integrated out of one round, and fewer where they would redraw more than so many tokens.
_MAX_SWEEPS, _MIN_SWEEPS, _TOKENS_PER_ROUND = 20, 2, 10_000_000
# The rounds of an exact pass. After the noise of the steps, and after a short start, topics need some 400
# sweeps until their first words have the probability that they keep.
ROUNDS = 20


def sweeps_per_round(tokens: int) -> int:
    """The sweeps of each round of a pass with so many tokens."""
    return int(np.clip(_TOKENS_PER_ROUND // max(1, tokens), _MIN_SWEEPS, _MAX_SWEEPS))


class PassCounts:
    """n_kw of the documents of a pass so far, (V, K), and the number of these documents.

    With a `share`, of its own topics. `assignments`: the documents with the topics of their tokens; None
    where they are too large for memory. Those of several processes are with the first.
    """

    def __init__(self, words: int, share: Share) -> None:
        self.counts = np.zeros((words, share.own.stop - share.own.start), np.int32)
        self.documents = 0
        self.assignments: Assignments | None = Assignments(share.topics, share.is_first)
        self.num_rounds = 0
        # Whether a word has changed its topic in the rounds since somebody asked.
        self.has_moved = False
        self._share = share

    def add(self, words: np.ndarray, counts: np.ndarray, documents: int) -> None:
        """Add the counts (U, K) of the distinct words of a minibatch of so many documents."""
        self.counts[words] += counts.astype(np.int32)
        self.documents += documents

    def keep(self, documents: Documents, z: np.ndarray | None) -> None:
        """Store these documents with the topics of their tokens, unless the pass is too large for memory."""
        if self.assignments is not None:
            self.assignments.add(documents, z)
            if self.assignments.is_too_large:
                self.assignments = None

    def redraw(self, prior: WordPrior, gamma: np.ndarray, seed: np.uint64, threads: int = 1) -> None:
        """One more round of sweeps; `threads` changes only the time."""
        before = self.counts.copy()
        if self.assignments is not None:
            # The first process redraws all tokens, and has the counts of all topics.
            counts = self._share.for_first(self.counts)
            if counts is not None and counts.sum(1).max(initial=0) < MAX_COUNT:
                num_sweeps = sweeps_per_round(int(counts.sum(dtype=np.int64)))
                self.assignments.sweep(counts, prior, gamma, seed, num_sweeps, threads)
            shape = len(self.counts), self._share.topics
            self.counts = self._share.of_first(counts, shape, self.counts.dtype)
        self.num_rounds += 1
        self.has_moved |= self._share.any(not np.array_equal(before, self.counts))[0]

    def counts_above(self) -> np.ndarray | None:
        """`document_prior.counts_above` of the topics as they are now, in all processes; None if unknown."""
        if self.assignments is None:
            return None
        own = [counts_above(self.assignments.by_document())] if self._share.is_first else None
        return self._share.from_first(own)[0]

    def draw(
        self,
        alpha: float,
        data_weight: float,
        seed: np.uint64,
        threads: int = 1,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """θ (V, K): Gamma(α + w n_kw, 1), zero where it is below the smallest θ; w is `data_weight`.

        A draw depends only on `seed` and the numbers of its word and topic, not on the threads.
        """
        theta = np.empty(self.counts.shape, np.float32) if out is None else out
        parts = range(0, len(theta), _WORDS_PER_PART)
        first_topic = self._share.own.start

        def work(first: int) -> None:
            last = min(first + _WORDS_PER_PART, len(theta))
            _draw_rows(theta, self.counts, alpha, data_weight, seed, first_topic, first, last)

        in_threads(threads, work, parts)
        return theta


@numba.njit(nogil=True, cache=True)
def _draw_rows(
    theta: np.ndarray,
    counts: np.ndarray,
    alpha: float,
    data_weight: float,
    seed: np.uint64,
    first_topic: int,
    first: int,
    last: int,
) -> None:
    """θ of the words from `first` to `last - 1`."""
    for w in range(first, last):
        word_state = stream(seed, w)
        for k in range(theta.shape[1]):
            state = stream_of_topic(word_state, first_topic + k)
            _, theta[w, k] = draw_gamma(state, alpha + data_weight * counts[w, k])
