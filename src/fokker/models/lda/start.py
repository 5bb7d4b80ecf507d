r"""Where the topics start: a short collapsed Gibbs chain over a sample of the documents.

    p(z_j = k | rest) ∝ (γ_k + n_dk^{\j}) (α + n_kw^{\j}) / (Vα + n_k·^{\j}),   w = x_j

(Griffiths and Steyvers 2004). A chain of minibatches that starts from random θ decides in its first steps
which topics there are: some subjects share a topic, other topics stay empty, and later steps do not repair
this. Here three things do:

- α decreases to its own value during the first sweeps: while topics are smooth, tokens move freely;
- then topics are merged and split, where that increases p(x, z): a topic that holds two subjects is split
  into the place of one that has none, or that has the same subject as another;
- the best of several chains is used.

The result is only a start, so the moves need not keep a distribution; the chain of minibatches makes none.
"""

from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from scipy.special import gammaln

from fokker.corpora import Documents
from fokker.models.lda._uniform import stream, uniform
from fokker.models.lda.gibbs import thread_pool
from fokker.models.lda.share import Alone, Share
from fokker.run.interruption import Stopped

# α of the first sweep; it decreases geometrically during the first half of the sweeps before the moves.
_SMOOTH_ALPHA = 1.0
# Sweeps before the moves, rounds of moves, the sweeps after each, and those over a topic that is to be split.
_FIRST_SWEEPS, _ROUNDS, _SWEEPS, _SPLIT_SWEEPS = 60, 3, 20, 20
# Chains from different random topics; the one with the largest p(x, z) is used.
CHAINS = 2
# A sample is complete with this many tokens per document that it may have: the time is limited for long
# documents too.
_TOKENS_PER_DOCUMENT = 200
_SECONDS_BETWEEN_REPORTS = 0.2


def is_enough(lengths: np.ndarray, wanted: int) -> np.ndarray:
    """Whether the first documents of these lengths, for each number of them, are a sample of `wanted`."""
    numbers = np.arange(1, len(lengths) + 1)
    return (numbers >= wanted) | (np.cumsum(lengths) >= _TOKENS_PER_DOCUMENT * wanted)


@numba.njit(nogil=True, cache=True)
def _sweep(
    indptr: Any,
    words: Any,
    counts: Any,
    alphas: Any,
    gamma: Any,
    seed: Any,
    z: Any,
    by_word: Any,
    by_document: Any,
    control: Any,
) -> None:
    """One sweep with each of `alphas`, starting from `z`; the counts, initially zero, become those of z.

    `control`: the number of sweeps so far, and whether to stop, as another thread sees and sets them.
    """
    V, K = by_word.shape
    by_topic = np.zeros(K, np.float32)
    j = 0
    for d in range(len(indptr) - 1):
        for i in range(indptr[d], indptr[d + 1]):
            for _ in range(counts[i]):
                by_word[words[i], z[j]] += 1
                by_document[d, z[j]] += 1
                by_topic[z[j]] += 1
                j += 1
    cumulative, scale = np.empty(K, np.float32), np.empty(K, np.float32)
    state = stream(seed, 0)
    for alpha in alphas:
        if control[1]:
            return
        for k in range(K):
            scale[k] = 1 / (by_topic[k] + V * alpha)
        j = 0
        for d in range(len(indptr) - 1):
            document = by_document[d]
            for i in range(indptr[d], indptr[d + 1]):
                word = by_word[words[i]]
                for _ in range(counts[i]):
                    k = z[j]
                    document[k] -= 1
                    word[k] -= 1
                    by_topic[k] -= 1
                    scale[k] = 1 / (by_topic[k] + V * alpha)
                    total = np.float32(0)
                    for k in range(K):
                        total += (document[k] + gamma[k]) * (word[k] + alpha) * scale[k]
                        cumulative[k] = total
                    state, u = uniform(state)
                    u *= total
                    k = 0
                    while k < K - 1 and cumulative[k] <= u:
                        k += 1
                    z[j] = k
                    document[k] += 1
                    word[k] += 1
                    by_topic[k] += 1
                    scale[k] = 1 / (by_topic[k] + V * alpha)
                    j += 1
        control[0] += 1


def _annealed(alpha: float, sweeps: int) -> np.ndarray:
    """α of each sweep: it reaches its own value in the first half."""
    share = np.minimum(np.arange(sweeps) / max(1, sweeps // 2), 1)
    return np.asarray(max(_SMOOTH_ALPHA, alpha) ** (1 - share) * alpha**share, np.float32)


@dataclass
class Assignment:
    """The topics z of all tokens of some documents, n_kw (V, K) and n_dk (D, K)."""

    documents: Documents
    z: np.ndarray
    by_word: np.ndarray
    by_document: np.ndarray

    @staticmethod
    def random(documents: Documents, words: int, topics: int, generator: np.random.Generator) -> "Assignment":
        """Topics drawn uniformly; there are no counts before the first sweep."""
        # Not one after the other given those before: the first topic to have a word would get all of it.
        z = generator.integers(topics, size=documents.tokens, dtype=np.int32)
        return Assignment(documents, z, np.empty((words, topics)), np.empty((documents.size, topics)))

    def sweep(
        self,
        alphas: np.ndarray,
        gamma: np.ndarray,
        generator: np.random.Generator,
        control: np.ndarray | None = None,
    ) -> None:
        """One collapsed Gibbs sweep for each of `alphas`; `control` as for `_sweep`."""
        # float32 holds counts exactly up to 2²⁴.
        self.by_word = np.zeros(self.by_word.shape, np.float32)
        self.by_document = np.zeros(self.by_document.shape, np.float32)
        indptr, words, counts = self.documents[:3]
        seed = generator.integers(2**64, dtype=np.uint64)
        _sweep(
            indptr, words, counts, alphas, gamma.astype(np.float32), seed, self.z, self.by_word,
            self.by_document, np.zeros(2, np.int64) if control is None else control,
        )  # fmt: skip

    def log_joint(self, alpha: float, gamma: np.ndarray) -> float:
        """log p(x, z), up to a constant that depends on the documents only."""
        return sum(
            topic_score(self.by_word[:, k], self.by_document[:, k], alpha, gamma[k])
            for k in range(len(gamma))
        )

    def tokens_of(self, topic: int) -> Documents:
        """The same documents with the tokens of one topic."""
        indptr, words, counts, names = self.documents[:4]
        entry = np.repeat(np.arange(len(words)), counts)
        own = np.bincount(entry[self.z == topic], minlength=len(words)).astype(counts.dtype)
        offsets = np.concatenate([[0], np.cumsum(own > 0)])
        return Documents(offsets[indptr], words[own > 0], own[own > 0], names)


def topic_score(by_word: np.ndarray, by_document: np.ndarray, alpha: float, gamma: float) -> float:
    r"""The terms of log p(x, z) of one topic; zero for a topic without tokens.

    Σ_w log[Γ(α + n_kw)/Γ(α)] - log[Γ(Vα + n_k·)/Γ(Vα)] + Σ_d log[Γ(γ + n_dk)/Γ(γ)]
    """

    def log_rising(a: float, n: np.ndarray) -> float:
        return float(np.sum(gammaln(a + n[n > 0].astype(np.float64)) - gammaln(a)))

    total = np.array([by_word.sum(dtype=np.float64)])
    return (
        log_rising(alpha, by_word) - log_rising(len(by_word) * alpha, total) + log_rising(gamma, by_document)
    )


def merge_and_split(
    assignment: Assignment, alpha: float, gamma: np.ndarray, generator: np.random.Generator
) -> int:
    """Merge pairs of topics and split others into their places while p(x, z) increases; return how many.

    Each topic may be merged with the one of the most similar words, and split by sweeps over its tokens.
    """
    K = len(gamma)
    by_word, by_document = assignment.by_word, assignment.by_document

    def score(k: int, words: np.ndarray, documents: np.ndarray) -> float:
        return topic_score(words, documents, alpha, gamma[k])

    scores = [score(k, by_word[:, k], by_document[:, k]) for k in range(K)]
    norms = np.maximum(np.linalg.norm(by_word, axis=0), 1)
    similarity = (by_word.T @ by_word) / np.outer(norms, norms) - 2 * np.eye(K)
    merges = []
    for a, b in enumerate(similarity.argmax(1)):
        merged = score(b, by_word[:, a] + by_word[:, b], by_document[:, a] + by_document[:, b])
        merges.append((merged - scores[a] - scores[b], a, int(b)))
    splits = []
    for k in range(K):
        tokens = assignment.tokens_of(k)
        halves = Assignment.random(tokens, len(by_word), 2, generator)
        halves.sweep(_annealed(alpha, _SPLIT_SWEEPS), gamma[[k, k]], generator)
        splits.append((halves.log_joint(alpha, gamma[[k, k]]) - scores[k], k, halves))
    splits.sort(key=lambda split: -split[0])
    used: set[int] = set()
    moves = 0
    for loss, a, b in sorted(merges, key=lambda merge: -merge[0]):
        if {a, b} & used:
            continue
        candidates = [split for split in splits if split[1] not in used | {a, b}]
        if not candidates or candidates[0][0] + loss <= 0:
            continue
        _, k, halves = candidates[0]
        # The second half takes the place of topic a, with its prior.
        if halves.log_joint(alpha, gamma[[k, a]]) - scores[k] + loss <= 0:
            continue
        is_second = np.flatnonzero(assignment.z == k)[halves.z == 1]
        assignment.z[assignment.z == a] = b
        assignment.z[is_second] = a
        used |= {a, b, k}
        moves += 1
    return moves


def collapsed_gibbs(
    documents: Documents,
    words: int,
    alpha: float,
    gamma: np.ndarray,
    seed: int,
    control: np.ndarray | None = None,
) -> Assignment:
    """One chain over the documents: annealed sweeps, then rounds of moves and sweeps.

    `control`: the number of sweeps so far, and whether another thread asks to stop; the result is then of no
    use.
    """
    control = np.zeros(2, np.int64) if control is None else control
    generator = np.random.Generator(np.random.Philox(seed))
    assignment = Assignment.random(documents, words, len(gamma), generator)
    assignment.sweep(_annealed(alpha, _FIRST_SWEEPS), gamma, generator, control)
    for _ in range(_ROUNDS):
        if control[1]:
            break
        merge_and_split(assignment, alpha, gamma, generator)
        assignment.sweep(np.full(_SWEEPS, alpha, np.float32), gamma, generator, control)
    return assignment


def first_topics(
    documents: Documents,
    words: int,
    alpha: float,
    gamma: np.ndarray,
    seeds: list[int],
    threads: int = 1,
    share: Share | None = None,
    show: Callable[[int, int], None] = lambda completed, total: None,
) -> np.ndarray:
    """n_kw (V, K) of the best of several chains, one for each seed; `threads` changes only the time.

    With a `share`, each process runs some of the chains. `show` is called several times a second with the
    number of sweeps of this process so far and in all. If it raises `Stopped`, so do all processes.
    """
    share = share or Alone(len(gamma))
    own_seeds = [seeds[number] for number in share.tasks(len(seeds))]
    controls = np.zeros((len(own_seeds), 2), np.int64)
    pool = thread_pool(threads)
    futures = [
        pool.submit(collapsed_gibbs, documents, words, alpha, gamma, seed, control)
        for seed, control in zip(own_seeds, controls, strict=True)
    ]
    num_sweeps = len(own_seeds) * (_FIRST_SWEEPS + _ROUNDS * _SWEEPS)
    try:
        while _is_going_on(futures, share, lambda: show(int(controls[:, 0].sum()), num_sweeps)):
            pass
    except BaseException:
        controls[:, 1] = 1
        raise
    chains = [future.result() for future in futures]
    scores = [assignment.log_joint(alpha, gamma) for assignment in chains]
    (by_word,) = share.best([(assignment.by_word,) for assignment in chains], scores, len(seeds))
    return by_word


def _is_going_on(futures: list[Future[Assignment]], share: Share, show: Callable[[], None]) -> bool:
    """Whether a chain of any process is not done a moment later; raise `Stopped` if `show` of one does."""
    is_going_on, is_stopped = bool(wait(futures, _SECONDS_BETWEEN_REPORTS).not_done), False
    try:
        show()
    except Stopped:
        is_stopped = True
    is_going_on, is_stopped = share.any(is_going_on, is_stopped)
    if is_stopped:
        raise Stopped
    return is_going_on
