"""The results of a run: topics with credible bounds, and whether to trust them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fokker._core.digits import percent
from fokker.corpora import Vocabulary
from fokker.diagnostics import Verdict
from fokker.models.topics.coherence import c_v, u_mass
from fokker.models.topics.curve import CurvePoint
from fokker.models.topics.draws import attainable_probability, credible_bounds
from fokker.models.topics.evaluate import DocumentScores, mixtures
from fokker.models.topics.files import csv_text
from fokker.models.topics.judgement import (
    COHERENCE_WORDS,
    TEXT_WORDS,
    Fit,
    changed_topics,
    judge,
)
from fokker.models.topics.model import TopicModel
from fokker.models.topics.predictions import Predictions
from fokker.models.topics.run import TopicRun
from fokker.models.topics.watcher import Show
from fokker.models.topics.wording import Wording

# The probability of the bounds of words, where there are draws enough.
_PROBABILITY = 0.9


@dataclass(frozen=True)
class Topic:
    """A topic: its most probable words, each with E[β_kw] and bounds over the draws.

    `prevalence`: its share of the words of all documents. `coherence`, `c_v`, `u_mass`: of its
    first ten words in the held-out and the first training documents; the first is NPMI. `effective_draws`:
    of the total probability of these ten words, NaN if unknown. `steady_words`: how many are those of both
    halves of the draws, 10 where it is not used. `name`: that of its seed words.
    """

    number: int
    words: tuple[str, ...]
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    prevalence: float
    coherence: float
    c_v: float
    u_mass: float
    effective_draws: float
    steady_words: int = COHERENCE_WORDS
    name: str = ""

    @property
    def label(self) -> str:
        """Its name, or its number."""
        return self.name or str(self.number)


@dataclass(frozen=True)
class Findings:
    """The contents of the report.

    `predictions`: the perplexity of the held-out documents under the average of the draws, and under the word
    frequencies alone. `verdict`: the reasons not to trust the result, and notes. `scores`:
    those of the held-out documents, which the perplexity summarises. `probability`: that of the bounds of
    words, 0.9 or what so few draws can have.
    """

    topics: tuple[Topic, ...]
    distances: np.ndarray
    draws: int
    predictions: Predictions
    curve: tuple[CurvePoint, ...]
    verdict: Verdict
    scores: DocumentScores
    probability: float = _PROBABILITY


def analyse(
    run: TopicRun, wording: Wording, show: Show = lambda *progress: None
) -> tuple[TopicModel, Findings]:
    """The model of a run so far, and its findings, in the words of an interface."""
    draws, gamma = run.all_draws(), run.training.chain.document_prior.mean
    reading, vocabulary = run.reading, run.corpus.vocabulary
    model = TopicModel(np.stack(draws), gamma, vocabulary, run.settings, reading.pattern, reading.bigrams)
    fit = run.training.judged(
        model.beta,
        vocabulary.words,
        lambda number: show("evaluating the draws", number, len(draws), "draws"),
    )
    show("measuring the topics", 0, run.settings.topics, "topics")
    held_out = fit.evaluated
    assert held_out is not None
    verdict = judge(fit, wording)
    probability = min(_PROBABILITY, attainable_probability(len(draws)))
    findings = Findings(
        _topics(model, fit, _prevalence(model, run), probability),
        hellinger(model.mean),
        len(draws),
        fit.predictions,
        tuple(run.training.curve.points),
        verdict,
        held_out.scores(),
        probability,
    )
    return model, findings


def _prevalence(model: TopicModel, run: TopicRun) -> np.ndarray:
    """The share of each topic (K,) in the words of all documents, those held out included."""
    held_out, settings = run.training.curve.documents, model.settings
    pi = mixtures(held_out, model.mean, model.gamma, settings.seed, threads=settings.num_threads)
    tokens = held_out.lengths @ pi + run.topic_tokens.counts
    return np.asarray(tokens / tokens.sum())


def _topics(model: TopicModel, fit: Fit, prevalence: np.ndarray, probability: float) -> tuple[Topic, ...]:
    mean = model.mean
    by_c_v, by_u_mass = (measure(fit.reference, fit.top[:, :COHERENCE_WORDS]) for measure in (c_v, u_mass))
    topics = []
    for k, (topic, words) in enumerate(zip(fit.topics, fit.top, strict=True)):
        low, high = credible_bounds(model.beta[:, words, k], probability)
        topics.append(
            Topic(
                k,
                topic.words,
                mean[words, k],
                low,
                high,
                float(prevalence[k]),
                topic.coherence,
                float(by_c_v[k]),
                float(by_u_mass[k]),
                float(fit.effective_draws[k]),
                int(fit.steady_words[k]) if fit.prior.is_used[k] else COHERENCE_WORDS,
                topic.name,
            )
        )
    return tuple(topics)


def hellinger(beta: np.ndarray) -> np.ndarray:
    """The Hellinger distances between topics (K, K): √(1 - Σ_w √(β_jw β_kw)), from 0 to 1."""
    roots = np.sqrt(beta, dtype=np.float64)
    shared = roots.T @ roots
    scale = np.sqrt(np.diag(shared))  # 1, except for rounding
    return np.asarray(np.sqrt(np.clip(1 - shared / np.outer(scale, scale), 0, 1)))


def embed_in_plane(distances: np.ndarray) -> np.ndarray:
    """Points in the plane (K, 2) that approximate these distances: classical scaling (Torgerson 1952)."""
    K = len(distances)
    centre = np.eye(K) - 1 / K
    values, vectors = np.linalg.eigh(-centre @ distances**2 @ centre / 2)
    points = np.zeros((K, 2))
    num_axes = min(2, K)
    points[:, :num_axes] = (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1][:, :num_axes]
    return points


def tables(model: TopicModel, findings: Findings) -> dict[str, str]:
    """The contents of the text files, by file name."""
    return {
        "topics.csv": topics_csv(findings.topics, findings.probability),
        "topics.txt": topics_text(findings),
        "perplexity.csv": csv_text(
            ("documents", "seconds", "perplexity of the draw", "perplexity of the average"),
            [(n, f"{t:.2f}", f"{draw:.3f}", f"{average:.3f}") for n, t, draw, average, _ in findings.curve],
        ),
        "vocabulary.txt": vocabulary_text(model.vocabulary),
    }


def vocabulary_text(vocabulary: Vocabulary) -> str:
    """One word per line."""
    return "".join(f"{word}\n" for word in vocabulary.words)


def bound_names(probability: float) -> tuple[str, str]:
    """The names of the lower and the upper bound, as in 5 % and 95 %."""
    return f"{50 * (1 - probability):.3g} %", f"{50 * (1 + probability):.3g} %"


def topics_csv(topics: Sequence[Topic], probability: float = _PROBABILITY) -> str:
    """One row for each of the most probable words of each topic."""
    rows = [
        (topic.label, rank + 1, word, *(f"{float(x):.6g}" for x in numbers))
        for topic in topics
        for rank, (word, *numbers) in enumerate(
            zip(topic.words, topic.mean, topic.low, topic.high, strict=True)
        )
    ]
    return csv_text(("topic", "rank", "word", "mean", *bound_names(probability)), rows)


def headline(findings: Findings) -> str:
    """The grade, with the exceptions where there are no problems."""
    if not findings.verdict.ok:
        return findings.verdict.headline
    changed = changed_topics(np.array([topic.steady_words for topic in findings.topics]))
    return "No problems found." if changed is None else f"No problems found, except that {changed}."


def topics_text(findings: Findings) -> str:
    """One line per topic, the most prevalent first, and the verdict."""
    lines = [topic_line(topic) for topic in by_prevalence(findings.topics)]
    return (
        "\n".join([*lines, "", headline(findings), *findings.verdict.problems, *findings.verdict.notes])
        + "\n"
    )


def topic_line(topic: Topic) -> str:
    """The name or number, the prevalence, the coherence and the words of a topic."""
    return (
        f"topic {topic.label:>3}  {percent(topic.prevalence, 1):>7}  NPMI {topic.coherence:+.2f}  "
        f"c_v {topic.c_v:.2f}  u_mass {topic.u_mass:5.1f}  {' '.join(topic.words[:TEXT_WORDS])}"
    )


def by_prevalence(topics: Sequence[Topic]) -> list[Topic]:
    """The topics, the most prevalent first."""
    return sorted(topics, key=lambda topic: -topic.prevalence)
