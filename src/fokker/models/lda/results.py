"""The results of a run: topics with credible bounds, and whether to trust them."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fokker._core import statistics
from fokker.corpora import Documents, Vocabulary
from fokker.models.lda.coherence import c_v, npmi, u_mass
from fokker.models.lda.curve import Evaluation
from fokker.models.lda.draws import credible_bounds
from fokker.models.lda.evaluate import DocumentScores, HeldOut, mixtures, split_tokens
from fokker.models.lda.model import Model, top_words
from fokker.models.lda.run import Run, Show

# The numbers of words of a topic in the table, in the text, and in its coherence.
_TABLE_WORDS, _TEXT_WORDS, _COHERENCE_WORDS = 25, 10, 10
_PROBABILITY = 0.9
# The fewest draws for bounds and effective draws, and the fewest effective draws without a warning.
_MIN_DRAWS, _MIN_EFFECTIVE_DRAWS = 4, 5.0
# The fewest evaluations in the second half of the run that can show whether the perplexity has converged.
_MIN_LATE_EVALUATIONS = 4
# Two topics that share at least this many of their ten words are the same topic twice: in good fits to AP and
# NIPS the most is 4. Bad topics are a problem if they are more than this share of all, and a note otherwise.
_MIN_SHARED_WORDS, _MAX_BAD_SHARE = 6, 0.1
# Relative decreases of the perplexity from one quarter of the run to the next: for a note, and for a problem.
_NOTE_DECREASE, _PROBLEM_DECREASE = 0.005, 0.02


@dataclass(frozen=True)
class Topic:
    """A topic: its most probable words, each with E[β_kw] and 5 % and 95 % bounds over the draws.

    `prevalence`: its share of the words of the held-out documents. `coherence`, `c_v`, `u_mass`: of its
    first ten words in the held-out and the first training documents; the first is NPMI. `effective_draws`:
    of the total probability of these ten words, NaN if unknown. `name`: that of its seed words.
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
    name: str = ""

    @property
    def label(self) -> str:
        """Its name, or its number."""
        return self.name or str(self.number)


@dataclass(frozen=True)
class Findings:
    """The contents of the report.

    `perplexity`: of the held-out documents under the average of the draws; `unigram`: under the word
    frequencies alone. `problems`: reasons not to trust the result; `notes`: further information. `scores`:
    those of the held-out documents, which the perplexity summarises.
    """

    topics: tuple[Topic, ...]
    distances: np.ndarray
    draws: int
    perplexity: float
    unigram: float
    curve: tuple[Evaluation, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    scores: DocumentScores


def analyse(run: Run, show: Show = lambda *progress: None) -> tuple[Model, Findings]:
    """The model of a run so far, and its findings."""
    draws, prior = run.all_draws(), run.chain.document_prior
    reading, vocabulary = run.reading, run.corpus.vocabulary
    model = Model(np.stack(draws), prior.mean, vocabulary, run.settings, reading.pattern, reading.bigrams)
    settings = run.settings
    held_out = HeldOut(run.evaluations.documents, settings.seed, settings.num_threads)
    for number, beta in enumerate(draws):
        show("evaluating the draws", number, len(draws), "draws")
        held_out.add(beta, model.gamma)
    documents, scores = held_out.documents, held_out.scores()
    model_perplexity = scores.perplexity
    show("measuring the topics", 0, settings.topics, "topics")
    unigram = unigram_perplexity(documents, run.word_counts, settings.seed)
    mean = model.mean
    # In the held-out documents alone even good topics have words that never occur together.
    topics = _topics(model, mean, documents, Documents.concatenate([documents, run.sample]))
    # Topics that nothing uses are draws of the prior: no judgement of them.
    effective_draws = np.where(prior.is_used, [topic.effective_draws for topic in topics], np.nan)
    problems, notes = verdict(model_perplexity, unigram, run.evaluations.points, len(draws), effective_draws)
    more_problems, more_notes = judge_topics(
        [topic for topic in topics if prior.is_used[topic.number]], prior.prior.learned == "hdp"
    )
    problems += more_problems + judge_seeds(topics, settings.seed_words or {})
    notes += more_notes + prior.sentences()
    if not run.draws.num_exact_passes:
        notes += (f"{NOT_EXACT} Use --passes 2 or more for bounds of the posterior.",)
    findings = Findings(
        topics,
        hellinger(mean),
        len(draws),
        model_perplexity,
        unigram,
        tuple(run.evaluations.points),
        problems,
        notes,
        scores,
    )
    return model, findings


def _topics(model: Model, mean: np.ndarray, documents: Documents, reference: Documents) -> tuple[Topic, ...]:
    top = top_words(mean, _TABLE_WORDS)
    settings = model.settings
    pi = mixtures(documents, mean, model.gamma, settings.seed, threads=settings.num_threads)
    prevalence = documents.lengths @ pi / documents.tokens
    coherences, by_c_v, by_u_mass = (
        measure(reference, top[:, :_COHERENCE_WORDS]) for measure in (npmi, c_v, u_mass)
    )
    # The probability of the first words of each topic in each draw (n, K).
    of_first_words = np.stack(
        [model.beta[:, words[:_COHERENCE_WORDS], k].sum(1, dtype=np.float64) for k, words in enumerate(top)],
        1,
    )
    effective_draws = effective_sample_size(of_first_words)
    topics = []
    for k, words in enumerate(top):
        draws = model.beta[:, words, k]
        low, high = credible_bounds(draws, _PROBABILITY)
        topics.append(
            Topic(
                k,
                tuple(model.vocabulary.words[w] for w in words),
                mean[words, k],
                low,
                high,
                float(prevalence[k]),
                float(coherences[k]),
                float(by_c_v[k]),
                float(by_u_mass[k]),
                float(effective_draws[k]),
                settings.topic_names[k],
            )
        )
    return tuple(topics)


def effective_sample_size(series: np.ndarray) -> np.ndarray:
    """ArviZ's for each series of one chain (n, ...), at most n; NaN for too few or constant draws."""
    if len(series) < _MIN_DRAWS:
        return np.full(series.shape[1:], np.nan)
    effective_draws = np.minimum(statistics.effective_sample_size(series[None]), len(series))
    return np.where(np.ptp(series, axis=0) == 0, np.nan, effective_draws)


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


def unigram_perplexity(documents: Documents, word_counts: np.ndarray, seed: int) -> float:
    """The perplexity of the same hidden halves under the word frequencies of the training documents.

    Each word has half a count more than in these documents, so that unseen words have a positive probability.
    """
    _, hidden = split_tokens(documents, seed)
    weights = word_counts + 0.5
    log_p = np.log(weights / weights.sum())[hidden.words]
    return float(np.exp(-np.sum(hidden.counts * log_p) / hidden.counts.sum()))


def _has_enough_exact(curve: Sequence[Evaluation]) -> bool:
    return sum(e.is_exact and 2 * e.documents > curve[-1].documents for e in curve) >= _MIN_LATE_EVALUATIONS


def judged_part(curve: Sequence[Evaluation]) -> str:
    """The part of the run in which `relative_decrease` looks, in words."""
    is_before = any(e.is_exact for e in curve) and not _has_enough_exact(curve)
    return "the passes before the exact ones" if is_before else "the run"


def relative_decrease(curve: Sequence[Evaluation]) -> float:
    """The relative decrease of the perplexity from the third to the last quarter of the run.

    It comes from the slope of a line fitted to the logarithm in the second half. It is 0 if the slope is
    within the noise, which is given by the residuals, and NaN if there are too few evaluations to say. With
    fewer exact passes than that, it is the decrease in the passes before them.
    """
    judged = curve if _has_enough_exact(curve) else [e for e in curve if not e.is_exact]
    end = judged[-1].documents if judged else 0
    # Draws of exact passes, which have no noise of minibatches, are compared only with each other.
    late = [e for e in judged if 2 * e.documents > end and e.is_exact == judged[-1].is_exact]
    second_half = np.array([(e.documents / end, np.log(e.of_draw)) for e in late])
    if len(second_half) < _MIN_LATE_EVALUATIONS or not np.all(np.isfinite(second_half)):
        return float("nan")
    share, log_perplexity = second_half.T
    slope, intercept = np.polyfit(share, log_perplexity, 1)
    residuals = log_perplexity - (slope * share + intercept)
    error = np.sqrt(np.sum(residuals**2) / (len(second_half) - 2) / np.sum((share - share.mean()) ** 2))
    return float(-slope / 4) if -slope > 2 * error else 0.0


def verdict(
    model_perplexity: float,
    unigram: float,
    curve: Sequence[Evaluation],
    draws: int,
    effective_draws: np.ndarray,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The problems with the result, and further notes."""
    problems, notes = [], []
    if not model_perplexity < unigram:
        problems.append(
            f"The held-out perplexity, {model_perplexity:,.0f}, is not below the {unigram:,.0f} of the word "
            "frequencies alone: these topics explain nothing. The step (--step) or the size of the corpus "
            "(--total) is unsuitable, or the run was too short: a small corpus needs more --passes."
        )
    else:
        notes.append(
            f"The held-out perplexity is {model_perplexity:,.0f}; with word frequencies alone it is "
            f"{unigram:,.0f}."
        )
    decrease = relative_decrease(curve)
    if np.isnan(decrease):
        times = "once" if len(curve) == 1 else f"{len(curve)} times"
        problems.append(
            f"The perplexity was evaluated {times} in all: too few to say whether it still falls. Run "
            "longer, with more --passes or documents."
        )
    elif decrease > _NOTE_DECREASE:
        (problems if decrease > _PROBLEM_DECREASE else notes).append(
            f"The perplexity is still falling: by {decrease:.1%} from the third to the last quarter of "
            f"{judged_part(curve)}. More passes or more documents will improve the topics."
        )
    else:
        notes.append(
            f"From the third to the last quarter of {judged_part(curve)} the perplexity has not fallen by "
            "more than its noise."
        )
    late = [e.of_draw for e in curve if 4 * e.documents > 3 * curve[-1].documents]
    if late and model_perplexity < unigram <= np.median(late):
        notes.append(
            f"Single draws do worse than the word frequencies ({np.median(late):,.0f}): only their average "
            "is good. A smaller step (--step) or more documents per step (--batch) makes the draws less "
            "noisy."
        )
    more_problems, more_notes = judge_draws(draws, effective_draws, "Run longer.")
    return tuple(problems) + more_problems, tuple(notes) + more_notes


# What is said beside the bounds of draws that come from steps.
NOT_EXACT = (
    "The draws come from steps with minibatches: their bounds have the noise of minibatches, are not those "
    "of the posterior, and may contain the truth much less often."
)


def few_effective_draws(effective_draws: np.ndarray) -> str | None:
    """A sentence on topics with few effective draws, without its full stop; None if none has."""
    with np.errstate(invalid="ignore"):
        topics = np.flatnonzero(effective_draws < _MIN_EFFECTIVE_DRAWS)
    if not len(topics):
        return None
    shown = ", ".join(map(str, topics[:_TEXT_WORDS])) + (", …" if len(topics) > _TEXT_WORDS else "")
    return (
        f"{len(topics)} of {len(effective_draws)} topics {'has' if len(topics) == 1 else 'have'} fewer than "
        f"{_MIN_EFFECTIVE_DRAWS:.0f} effective draws, and bounds that are too narrow: {shown}"
    )


def judge_draws(
    draws: int, effective_draws: np.ndarray, advice: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The problems with the number of draws, in all and for single topics, and further notes."""
    known = effective_draws[np.isfinite(effective_draws)]
    if draws < _MIN_DRAWS:
        number = "is 1 draw" if draws == 1 else f"are {draws} draws"
        return (f"There {number} of the topics: too few for credible bounds. {advice}",), ()
    if not len(known):
        return (), ()
    if np.median(known) < _MIN_EFFECTIVE_DRAWS:
        return (
            f"The {draws} draws are worth {np.median(known):.1f} independent ones for the median topic: its "
            f"bounds are too narrow and its means have not converged. {advice}",
        ), ()
    note = (
        f"The {draws} draws are worth {np.median(known):.0f} independent ones for the median topic "
        f"({known.min():.0f} for the worst): the bounds come from one chain and are approximate."
    )
    few = few_effective_draws(effective_draws)
    if few is None:
        return (), (note,)
    # One topic alone is no problem: 20 independent draws seem to be fewer than 5 in 2 % of cases.
    if np.sum(known < _MIN_EFFECTIVE_DRAWS) > max(1, _MAX_BAD_SHARE * len(effective_draws)):
        return (f"{few}. {advice}",), (note,)
    return (), (f"{few}.", note)


def judge_topics(
    topics: Sequence[Topic], is_number_learned: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The problems with single topics, and further notes: words that do not belong together, and repeats.

    Where the number of topics is learned, there are small ones of a few words each, which are no problem.
    """
    incoherent = [topic.number for topic in topics if topic.coherence < 0]
    words = [set(topic.words[:_COHERENCE_WORDS]) for topic in topics]
    repeated = [
        topics[j].number
        for j in range(len(topics))
        if any(len(words[i] & words[j]) >= _MIN_SHARED_WORDS for i in range(j))
    ]
    problems: list[str] = []
    notes: list[str] = []
    for numbers, what in (
        (incoherent, "{have} words that occur together less often than by chance (NPMI below 0)"),
        (repeated, f"{{share}} {_MIN_SHARED_WORDS} or more of {{their}} ten words with another"),
    ):
        if numbers:
            shown = ", ".join(map(str, numbers[:_TEXT_WORDS])) + (", …" if len(numbers) > _TEXT_WORDS else "")
            is_one = len(numbers) == 1
            what = what.format(
                have="has" if is_one else "have",
                share="shares" if is_one else "share",
                their="its" if is_one else "their",
            )
            many = len(numbers) > _MAX_BAD_SHARE * len(topics) and not is_number_learned
            advice = " Use fewer topics (--topics), or more documents." if many else ""
            (problems if many else notes).append(
                f"{len(numbers)} of {len(topics)} topics {what}: {shown}.{advice}"
            )
    if not incoherent and not repeated:
        notes.append("All topics have words that occur together, and no two are alike.")
    return tuple(problems), tuple(notes)


def judge_seeds(topics: Sequence[Topic], seed_words: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The problems with named topics: those with none of their seed words among their most probable words."""
    lost = [
        topic.name for topic in topics if not set(topic.words) & set(seed_words.get(topic.name, topic.words))
    ]
    if not lost:
        return ()
    return (
        f"No seed word is among the {_TABLE_WORDS} most probable words of {', '.join(lost)}: the documents "
        "have too few of these words for a topic. Give more frequent ones, or a larger --seed-weight.",
    )


def tables(model: Model, findings: Findings) -> dict[str, str]:
    """The contents of the text files, by file name."""
    return {
        "topics.csv": topics_csv(findings.topics),
        "topics.txt": topics_text(findings),
        "perplexity.csv": _table(
            ("documents", "seconds", "perplexity of the draw", "perplexity of the average"),
            [(n, f"{t:.2f}", f"{draw:.3f}", f"{average:.3f}") for n, t, draw, average, _ in findings.curve],
        ),
        "vocabulary.txt": vocabulary_text(model.vocabulary),
    }


def vocabulary_text(vocabulary: Vocabulary) -> str:
    """One word per line."""
    return "".join(f"{word}\n" for word in vocabulary.words)


def topics_csv(topics: Sequence[Topic]) -> str:
    """One row for each of the most probable words of each topic."""
    rows = [
        (topic.label, rank + 1, word, *(f"{float(x):.6g}" for x in numbers))
        for topic in topics
        for rank, (word, *numbers) in enumerate(
            zip(topic.words, topic.mean, topic.low, topic.high, strict=True)
        )
    ]
    return _table(("topic", "rank", "word", "mean", "5 %", "95 %"), rows)


def topics_text(findings: Findings) -> str:
    """One line per topic, the most prevalent first, and the verdict."""
    lines = [topic_line(topic) for topic in by_prevalence(findings.topics)]
    return "\n".join([*lines, "", *findings.problems, *findings.notes]) + "\n"


def topic_line(topic: Topic) -> str:
    """The name or number, the prevalence, the coherence and the words of a topic."""
    return (
        f"topic {topic.label:>3}  {topic.prevalence:6.1%}  NPMI {topic.coherence:+.2f}  "
        f"c_v {topic.c_v:.2f}  u_mass {topic.u_mass:5.1f}  {' '.join(topic.words[:_TEXT_WORDS])}"
    )


def by_prevalence(topics: Sequence[Topic]) -> list[Topic]:
    """The topics, the most prevalent first."""
    return sorted(topics, key=lambda topic: -topic.prevalence)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
