r"""Where the topics start: a short collapsed Gibbs chain over a sample of the documents.

    p(z_j = k | rest) ∝ (γ_k + n_dk^{\j}) (α + n_kw^{\j}) / (Vα + n_k·^{\j}),   w = x_j

(Griffiths and Steyvers 2004). A chain of minibatches that starts from random θ decides in its first steps
which topics there are: some subjects share a topic, other topics stay empty, and later steps do not repair
this. Here three things do:

- α decreases to its own value during the first sweeps: while topics are smooth, tokens move freely;
- then topics are merged and split, where that increases p(x, z): a topic that holds two subjects is split
  into the place of one that has none, or that has the same subject as another;
- the best of several chains is used.

A learned γ is drawn given the topics of all words after every few sweeps (`document_prior`). Words with
pseudo-counts (`word_prior`) begin in the topics that have them.

The result is only a start, so the moves need not keep a distribution; the chain of minibatches makes none.
"""

from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from fokker.corpora import Documents
from fokker.models.topics.collapsed import sweep, topics_of_documents
from fokker.models.topics.document_prior import DocumentPrior, counts_above
from fokker.models.topics.gibbs import thread_pool
from fokker.models.topics.share import Share
from fokker.models.topics.word_prior import WordPrior
from fokker.run.interruption import Stopped

# α of the first sweep; it decreases geometrically during the first half of the sweeps before the moves.
_SMOOTH_ALPHA = 1.0
# Sweeps before the moves, rounds of moves, the sweeps after each, and those over a topic that is to be split.
_FIRST_SWEEPS, _ROUNDS, _SWEEPS, _SPLIT_SWEEPS = 60, 3, 40, 10
# Sweeps between two draws of a learned γ, and how often each is repeated.
_SWEEPS_PER_GAMMA, _GAMMA_REPEATS = 10, 5
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


def _annealed(alpha: float, sweeps: int) -> np.ndarray:
    """α of each sweep: it reaches its own value in the first half."""
    share = np.minimum(np.arange(sweeps) / max(1, sweeps // 2), 1)
    return np.asarray(max(_SMOOTH_ALPHA, alpha) ** (1 - share) * alpha**share, np.float32)


@dataclass
class Assignment:
    """The topics z of all tokens of some documents, n_kw + δ_kw (V, K) and n_dk (D, K)."""

    documents: Documents
    z: np.ndarray
    by_word: np.ndarray
    by_document: np.ndarray
    prior: WordPrior

    @staticmethod
    def random(
        documents: Documents, words: int, prior: WordPrior, generator: np.random.Generator
    ) -> "Assignment":
        """Topics drawn uniformly; there are no counts before the first sweep."""
        topics = prior.pseudo_counts.shape[1]
        # Not one after the other given those before: the first topic to have a word would get all of it.
        z = generator.integers(topics, size=documents.tokens, dtype=np.int32)
        shapes = (words, topics), (documents.size, topics)
        by_word, by_document = (np.empty(shape, np.float32) for shape in shapes)
        return Assignment(documents, z, by_word, by_document, prior)

    def place_pinned_words(self, generator: np.random.Generator) -> None:
        """Give the words of pinned topics to these topics, in proportion to their pseudo-counts."""
        words = np.repeat(self.documents.words, self.documents.counts)
        pinned = list(self.prior.pinned)
        for w, pseudo_counts in zip(self.prior.words, self.prior.pseudo_counts[:, pinned], strict=True):
            if len(pinned) and (total := pseudo_counts.sum(dtype=np.float64)) > 0:
                own = np.flatnonzero(words == w)
                self.z[own] = generator.choice(pinned, len(own), p=pseudo_counts / total)

    def sweep(
        self,
        alphas: np.ndarray,
        gamma: np.ndarray,
        generator: np.random.Generator,
        control: np.ndarray | None = None,
    ) -> None:
        """One collapsed Gibbs sweep for each of `alphas`; `control` as for `collapsed.sweep`."""
        indptr, words, counts = self.documents[:3]
        shape = self.by_word.shape
        cells = np.repeat(words.astype(np.int64), counts) * shape[1] + self.z
        self.by_word = np.bincount(cells, minlength=self.by_word.size).reshape(shape).astype(np.float32)
        self.by_word[self.prior.words] += self.prior.pseudo_counts
        seed = generator.integers(2**64, dtype=np.uint64)
        sweep(indptr, words, counts, self.z, self.by_word, alphas, gamma, seed, control)
        self.by_document = topics_of_documents(self.documents, self.z, len(gamma))

    def log_joint(self, gamma: np.ndarray) -> float:
        """log p(x, z | γ), up to a constant that depends on the documents and the prior of words only."""
        lengths, c = self.documents.lengths.astype(np.float64), gamma.sum()
        return self.sum_of_scores(gamma) + float(np.sum(gammaln(c) - gammaln(c + lengths)))

    def sum_of_scores(self, gamma: np.ndarray) -> float:
        """The sum of `topic_score` over the topics."""
        return sum(
            topic_score(self.by_word[:, k], self.by_document[:, k], self.prior.alpha, gamma[k])
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
    r"""The terms of log p(x, z) of one topic; zero for a topic without tokens and pseudo-counts.

    Σ_w log[Γ(α + n_kw)/Γ(α)] - log[Γ(Vα + n_k·)/Γ(Vα)] + Σ_d log[Γ(γ + n_dk)/Γ(γ)]
    """

    def log_rising(a: float, n: np.ndarray) -> float:
        return float(np.sum(gammaln(a + n[n > 0].astype(np.float64)) - gammaln(a)))

    total = np.array([by_word.sum(dtype=np.float64)])
    return (
        log_rising(alpha, by_word) - log_rising(len(by_word) * alpha, total) + log_rising(gamma, by_document)
    )


def merge_and_split(assignment: Assignment, gamma: np.ndarray, generator: np.random.Generator) -> int:
    """Merge pairs of topics and split others into their places while p(x, z) increases; return how many.

    Each topic may be merged with the one of the most similar words, and split by sweeps over its tokens.
    Pinned topics stay as they are.
    """
    K, prior = len(gamma), assignment.prior
    alpha = prior.alpha
    by_word, by_document = assignment.by_word, assignment.by_document
    V, no_documents = len(by_word), np.zeros(0)

    def score(k: int, words: np.ndarray, documents: np.ndarray) -> float:
        return topic_score(words, documents, alpha, gamma[k])

    scores = [score(k, by_word[:, k], by_document[:, k]) for k in range(K)]
    # Topics without tokens: zero without pseudo-counts.
    empty = [score(k, prior.of_topic(k, V), no_documents) for k in range(K)]
    norms = np.maximum(np.linalg.norm(by_word, axis=0), 1)
    similarity = (by_word.T @ by_word) / np.outer(norms, norms) - 2 * np.eye(K)
    merges = []
    for a, b in enumerate(similarity.argmax(1)):
        words = by_word[:, a] + by_word[:, b] - prior.of_topic(a, V)
        merged = score(b, words, by_document[:, a] + by_document[:, b])
        merges.append((merged + empty[a] - scores[a] - scores[b], a, int(b)))
    used = set(prior.pinned)
    splits = []
    for k in range(K):
        if k in used:
            continue
        tokens = assignment.tokens_of(k)
        halves = Assignment.random(tokens, V, prior.columns([k, k]), generator)
        halves.sweep(_annealed(alpha, _SPLIT_SWEEPS), gamma[[k, k]], generator)
        splits.append((halves.sum_of_scores(gamma[[k, k]]) - empty[k] - scores[k], k, halves))
    splits.sort(key=lambda split: -split[0])
    moves = 0
    for loss, a, b in sorted(merges, key=lambda merge: -merge[0]):
        if {a, b} & used:
            continue
        candidates = [split for split in splits if split[1] not in used | {a, b}]
        if not candidates:
            continue
        _, k, halves = candidates[0]
        # The second half takes the place of topic a, with its prior.
        if halves.sum_of_scores(gamma[[k, a]]) - empty[a] - scores[k] + loss <= 0:
            continue
        is_second = np.flatnonzero(assignment.z == k)[halves.z == 1]
        assignment.z[assignment.z == a] = b
        assignment.z[is_second] = a
        used |= {a, b, k}
        moves += 1
    return moves


class Start(NamedTuple):
    """The topics of all words, and γ, which may have been learned."""

    assignment: Assignment
    document_prior: DocumentPrior

    def sweep(self, alphas: np.ndarray, generator: np.random.Generator, control: np.ndarray) -> "Start":
        """Sweeps with each of `alphas`; a learned γ is drawn after every few of them."""
        assignment, prior = self
        if prior.learned is None:
            assignment.sweep(alphas, prior.gamma, generator, control)
            return self
        # The first draw is given the topics before the sweeps.
        for last in range(0, len(alphas) + 1, _SWEEPS_PER_GAMMA):
            part = alphas[max(0, last - _SWEEPS_PER_GAMMA) : last]
            assignment.sweep(part, prior.gamma, generator, control)
            seed = generator.integers(2**64, dtype=np.uint64)
            prior = prior.given(counts_above(assignment.by_document), seed, _GAMMA_REPEATS)
        return Start(assignment, prior)


def collapsed_gibbs(
    documents: Documents,
    words: int,
    word_prior: WordPrior,
    document_prior: DocumentPrior,
    seed: int,
    control: np.ndarray | None = None,
) -> Start:
    """One chain over the documents: annealed sweeps, then rounds of moves and sweeps.

    `control`: the number of sweeps so far, and whether another thread asks to stop; the result is then of no
    use.
    """
    control = np.zeros(2, np.int64) if control is None else control
    generator = np.random.Generator(np.random.Philox(seed))
    assignment = Assignment.random(documents, words, word_prior, generator)
    assignment.place_pinned_words(generator)
    alphas = _annealed(word_prior.alpha, _FIRST_SWEEPS)
    if document_prior.learned is not None:
        # Smooth topics say nothing about γ.
        num_annealed = _FIRST_SWEEPS // 2
        assignment.sweep(alphas[:num_annealed], document_prior.gamma, generator, control)
        alphas = alphas[num_annealed:]
    start = Start(assignment, document_prior).sweep(alphas, generator, control)
    for _ in range(_ROUNDS):
        if control[1]:
            break
        gamma = start.document_prior.gamma
        # With γ as learned, a topic could not take the place of one that is small.
        is_learned = document_prior.learned is not None
        merge_and_split(assignment, np.full_like(gamma, gamma.mean()) if is_learned else gamma, generator)
        start = start.sweep(np.full(_SWEEPS, word_prior.alpha, np.float32), generator, control)
    return start


class FirstTopics(NamedTuple):
    """n_kw + δ_kw (V, K), n_dk (D, K), and γ, which may have been learned."""

    by_word: np.ndarray
    by_document: np.ndarray
    document_prior: DocumentPrior


def first_topics(
    documents: Documents,
    words: int,
    word_prior: WordPrior,
    document_prior: DocumentPrior,
    seeds: list[int],
    threads: int = 1,
    share: Share | None = None,
    show: Callable[[int, int], None] = lambda completed, total: None,
) -> FirstTopics:
    """The best of several chains, one for each seed; `threads` changes only the time.

    With a `share`, each process runs some of the chains. `show` is called several times a second with the
    number of sweeps of this process so far and in all. If it raises `Stopped`, so do all processes.
    """
    share = share or Share(len(document_prior.base))
    own_seeds = [seeds[number] for number in share.tasks(len(seeds))]
    controls = np.zeros((len(own_seeds), 2), np.int64)
    pool = thread_pool(threads)
    futures = [
        pool.submit(collapsed_gibbs, documents, words, word_prior, document_prior, seed, control)
        for seed, control in zip(own_seeds, controls, strict=True)
    ]
    num_sweeps = len(own_seeds) * (_FIRST_SWEEPS + _ROUNDS * _SWEEPS)
    try:
        while _is_going_on(futures, share, lambda: show(int(controls[:, 0].sum()), num_sweeps)):
            pass
    except BaseException:
        controls[:, 1] = 1
        raise
    starts = [future.result() for future in futures]
    scores = [start.assignment.log_joint(start.document_prior.gamma) for start in starts]
    names = tuple(document_prior.state())
    results = [
        (start.assignment.by_word, start.assignment.by_document, *start.document_prior.state().values())
        for start in starts
    ]
    by_word, by_document, *state = share.best(results, scores, len(seeds))
    return FirstTopics(by_word, by_document, document_prior.restored(dict(zip(names, state, strict=True))))


def _is_going_on(futures: list[Future[Start]], share: Share, show: Callable[[], None]) -> bool:
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
