"""Chains over topics, followed along a stream of documents: perplexity, and what a step costs."""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fokker.corpora import Documents
from fokker.lab.experiments._stages import stage
from fokker.models.topics._checks import NotFiniteError
from fokker.models.topics._expected import ExpectedCounts, averaged
from fokker.models.topics.chain import TopicChain
from fokker.models.topics.evaluate import HeldOut
from fokker.models.topics.gibbs import cores, topic_counts
from fokker.models.topics.step_size import decaying

# Minibatches between two evaluations of the topics.
INTERVAL = 5


@dataclass(frozen=True)
class DocumentStream:
    """Documents to learn from, in order, and others to predict."""

    documents: Documents
    held_out: Documents
    words: tuple[str, ...]
    topics: int
    batch: int

    def batches(self) -> Iterator[Documents]:
        """One pass."""
        for first in range(0, self.documents.size - self.batch + 1, self.batch):
            yield self.documents.select(slice(first, first + self.batch))

    def steps(self, *chains: TopicChain) -> Iterator[int]:
        """One pass of every chain, which take turns: the number of the chain after each of its steps."""
        # A loop of its own: topics are arrays of the host, and what a single step takes is measured here.
        for documents in self.batches():
            for number, chain in enumerate(chains):
                chain.step(documents, self.documents.size)
                yield number

    def unigram_perplexity(self) -> float:
        """Perplexity of the held-out words by the shares of words in the stream, each count plus one."""
        shares = 1.0 + np.bincount(
            self.documents.words, weights=self.documents.counts, minlength=len(self.words)
        )
        log_shares = np.log(shares / shares.sum())
        seen = self.held_out
        return float(np.exp(-np.sum(seen.counts * log_shares[seen.words]) / seen.counts.sum()))


@dataclass(frozen=True)
class TopicSetting:
    """A sampler with its priors (θ_kw ~ Gamma(α, 1), mixtures ~ Dirichlet(γ)) and its steps.

    ε_t = step (1 + t/b)^{-c}, and a friction: None takes those that suit the size of the
    stream. `start` is the shape of the Gamma distribution that θ starts from.
    """

    sampler: str
    alpha: float
    gamma: float
    step: float | None = None
    b: float = 1000.0
    c: float = 0.0
    friction: float | None = None
    start: float = 0.1

    def chain(self, stream: DocumentStream, seed: int, threads: int) -> TopicChain:
        """A new chain with these settings."""
        return TopicChain(
            len(stream.words),
            stream.topics,
            sampler=self.sampler,
            alpha=self.alpha,
            gamma=self.gamma,
            step_size=None if self.step is None else decaying(self.step, self.b, self.c),
            start=self.start,
            friction=self.friction,
            threads=threads,
            seed=seed,
        )


@dataclass(frozen=True)
class Curve:
    """Held-out perplexity after so many documents.

    `averaged`: of p(w) averaged over the evaluations in the second half of the stream so far; `single`: of
    the topics at that point. `beta` (V, K): the mean over the last half.
    """

    documents: np.ndarray
    averaged: np.ndarray
    single: np.ndarray
    beta: np.ndarray

    @property
    def last(self) -> float:
        """The averaged perplexity at the end."""
        return float(self.averaged[-1])


class Evaluations:
    """Perplexity of a run's topics, single and averaged."""

    def __init__(self, stream: DocumentStream, gamma: float, seed: int) -> None:
        self._held_out = HeldOut(stream.held_out, seed, cores())
        self._gamma = np.full(stream.topics, gamma)
        # For each evaluation: the documents before it, the predicted probabilities, and β.
        self._evaluations: list[tuple[int, np.ndarray, np.ndarray]] = []

    def add(self, documents: int, beta: np.ndarray) -> None:
        """Evaluate β (V, K) after so many documents."""
        beta = np.asarray(beta, np.float32)
        self._evaluations.append((documents, self._held_out.probabilities(beta, self._gamma), beta))

    def curve(self) -> Curve:
        """The perplexities of all evaluations so far."""
        documents, predicted, betas = zip(*self._evaluations, strict=True)
        averaged = [self._perplexity(predicted[n // 2 : n]) for n in range(1, len(predicted) + 1)]
        single = [self._perplexity([p]) for p in predicted]
        beta = np.mean(betas[len(betas) // 2 :], axis=0)
        return Curve(np.array(documents), np.array(averaged), np.array(single), beta)

    def _perplexity(self, predicted: Sequence[np.ndarray]) -> float:
        self._held_out.restore({"sum": np.sum(predicted, axis=0), "draws": np.asarray(len(predicted))})
        return self._held_out.perplexity


def expected_counts(
    documents: Documents,
    beta: np.ndarray,
    gamma: np.ndarray,
    seed: np.uint64,
    *,
    sweeps: int,
    burn_in: int,
    threads: int = 1,
) -> ExpectedCounts:
    """E[n_kw] and E[n_dk] by Gibbs sweeps: `topic_counts` divided by the number of sweeps counted."""
    counts = topic_counts(documents, beta, gamma, seed, sweeps=sweeps, burn_in=burn_in, threads=threads)
    return averaged(*counts, sweeps - burn_in)


def follow(stream: DocumentStream, setting: TopicSetting, seed: int) -> Curve | None:
    """A chain over the stream in one pass; None where it left the finite numbers."""
    stage(f"sampling by {setting.sampler}, α = {setting.alpha:g}, seed {seed}")
    chain, evaluations = setting.chain(stream, seed, cores()), Evaluations(stream, setting.gamma, seed)
    try:
        for number, _ in enumerate(stream.steps(chain), start=1):
            if number % INTERVAL == 0:
                evaluations.add(number * stream.batch, chain.beta())
    except NotFiniteError:
        return None
    return evaluations.curve()


def search(
    stream: DocumentStream, grid: Sequence[TopicSetting], seed: int
) -> list[tuple[TopicSetting, float]]:
    """The perplexity at the end with every setting, the lowest first; a single setting is not run."""
    if len(grid) == 1:
        return [(grid[0], np.nan)]
    curves = [(setting, follow(stream, setting, seed)) for setting in grid]
    results = [(setting, np.inf if curve is None else curve.last) for setting, curve in curves]
    return sorted(results, key=lambda pair: pair[1])


def seconds_per_hundred(
    stream: DocumentStream, settings: Mapping[str, TopicSetting], rounds: int
) -> dict[str, dict[str, float]]:
    """Seconds per hundred documents of a step on one thread: medians, the samplers taking turns."""
    names = list(settings)
    steps = stream.steps(*(setting.chain(stream, 0, 1) for setting in settings.values()))
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    wall, processor = time.perf_counter(), time.process_time()
    for number in itertools.islice(steps, 2 * rounds * len(names)):
        taken[names[number]].append((time.perf_counter() - wall, time.process_time() - processor))
        wall, processor = time.perf_counter(), time.process_time()
    # In the first half of the steps functions are compiled.
    scale = 100 / stream.batch
    medians = {name: scale * np.median(times[len(times) // 2 :], axis=0) for name, times in taken.items()}
    return {name: {"wall": float(m[0]), "processor": float(m[1])} for name, m in medians.items()}


def top_words(beta: np.ndarray, words: Sequence[str], number: int) -> list[list[str]]:
    """The most probable words of each topic of β (V, K)."""
    return [[words[w] for w in np.argsort(-column)[:number]] for column in beta.T]


def draw_from_topics(
    generator: np.random.Generator, documents: int, words: int, topics: int, length: float
) -> Documents:
    """Documents of an LDA whose topics have a few frequent words and many rare ones.

    A topic's words follow Zipf's law in an order of its own; a document's length is Poisson.
    """
    shares = 1 / np.arange(1.0, words + 1)
    beta = np.stack([generator.permutation(shares / shares.sum()) for _ in range(topics)])
    rows = []
    for number in range(documents):
        mixture = generator.dirichlet(np.full(topics, 0.1))
        by_topic = generator.multinomial(2 + generator.poisson(length), mixture)
        drawn = [generator.choice(words, size=n, p=beta[k]) for k, n in enumerate(by_topic) if n]
        ids, counts = np.unique(np.concatenate(drawn), return_counts=True)
        rows.append((str(number), ids.astype(np.int32), counts.astype(np.int32)))
    return Documents.from_rows(rows)
