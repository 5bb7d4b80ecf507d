"""What a run has found: its topics with credible bounds, and whether to believe them."""

import csv
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fokker.corpora import Documents, Vocabulary
from fokker.models.lda.evaluate import coherence, mixtures, perplexity, split_tokens
from fokker.models.lda.model import Model, top_words
from fokker.models.lda.run import Evaluation, Run

# Words of a topic in the table, in the text, and in its coherence.
_LISTED, _NAMED, _COHERENT = 25, 10, 10
_BOUNDS = (5, 95)
# Draws below which neither bounds nor effective draws can be told.
_FEWEST_DRAWS, _FEW_EFFECTIVE = 4, 5.0
# A fall of the perplexity from one quarter of the run to the next that is worth going on for.
_WORTH_GOING_ON, _FAR_FROM_SETTLED = 0.005, 0.02


@dataclass(frozen=True)
class Topic:
    """A topic: its likeliest words, each with E[β_kw] and 5 % and 95 % bounds over the draws.

    `prevalence`: its share of the words of the held-out documents. `coherence`: NPMI of its first ten words
    in those. `effective`: effective draws of the probability of those ten words together, NaN if unknown.
    """

    number: int
    words: tuple[str, ...]
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    prevalence: float
    coherence: float
    effective: float


@dataclass(frozen=True)
class Findings:
    """All that the report tells.

    `perplexity`: of the held-out documents under the average of the draws; `unigram`: under the words'
    frequencies alone. `worries`: what speaks against the result; `notes`: what is good to know.
    """

    topics: tuple[Topic, ...]
    distances: np.ndarray
    draws: int
    perplexity: float
    unigram: float
    curve: tuple[Evaluation, ...]
    worries: tuple[str, ...]
    notes: tuple[str, ...]


def find(run: Run) -> tuple[Model, Findings]:
    """The model of a run so far, and what can be said of it."""
    assert run.held_out is not None
    kept = run.draws.draws or [run.chain.beta()]
    model = Model(np.stack(kept), run.chain.gamma, run.corpus.vocabulary, run.settings, run.reading.pattern)
    documents, settings = run.held_out.documents, run.settings
    with np.errstate(divide="ignore"):  # a word that no topic has makes it infinite, and so it is told
        reached = perplexity(documents, kept, model.gamma, settings.seed, settings.processors)
    unigram = unigram_perplexity(documents, run.word_counts, settings.seed)
    mean = model.mean
    topics = _topics(model, mean, documents)
    effective = np.array([topic.effective for topic in topics])
    worries, notes = verdict(reached, unigram, run.curve, len(kept), effective)
    findings = Findings(
        topics, hellinger(mean), len(kept), reached, unigram, tuple(run.curve), worries, notes
    )
    return model, findings


def _topics(model: Model, mean: np.ndarray, documents: Documents) -> tuple[Topic, ...]:
    listed = top_words(mean, _LISTED)
    settings = model.settings
    pi = mixtures(documents, mean, model.gamma, settings.seed, threads=settings.processors)
    prevalence = documents.lengths @ pi / documents.tokens
    coherences = coherence(documents, listed[:, :_COHERENT])
    found = []
    for k, words in enumerate(listed):
        draws = model.beta[:, words, k]
        low, high = np.percentile(draws, _BOUNDS, axis=0)
        found.append(
            Topic(
                k,
                tuple(model.vocabulary.words[w] for w in words),
                mean[words, k],
                low,
                high,
                float(prevalence[k]),
                float(coherences[k]),
                effective_draws(draws[:, :_COHERENT].sum(1, dtype=np.float64)),
            )
        )
    return tuple(found)


def effective_draws(series: np.ndarray) -> float:
    """Of one chain, by ArviZ, and no more than there are; NaN of too few draws or draws all the same."""
    if len(series) < _FEWEST_DRAWS or np.ptp(series) == 0:
        return float("nan")
    import arviz

    with warnings.catch_warnings():  # of a single chain, which is no mistake
        warnings.simplefilter("ignore", UserWarning)
        return min(float(arviz.ess(series[None])), float(len(series)))


def hellinger(beta: np.ndarray) -> np.ndarray:
    """Hellinger's distance of each two topics (K, K): √(1 - Σ_w √(β_jw β_kw)), from 0 to 1."""
    roots = np.sqrt(beta, dtype=np.float64)
    shared = roots.T @ roots
    scale = np.sqrt(np.diag(shared))  # 1, but for rounding
    return np.asarray(np.sqrt(np.clip(1 - shared / np.outer(scale, scale), 0, 1)))


def plane(distances: np.ndarray) -> np.ndarray:
    """Points in the plane (K, 2) whose distances are near these: classical scaling (Torgerson 1952)."""
    K = len(distances)
    centre = np.eye(K) - 1 / K
    values, vectors = np.linalg.eigh(-centre @ distances**2 @ centre / 2)
    points = np.zeros((K, 2))
    most = min(2, K)
    points[:, :most] = (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1][:, :most]
    return points


def unigram_perplexity(documents: Documents, word_counts: np.ndarray, seed: int) -> float:
    """Of the same hidden halves, if every document were drawn from the words' frequencies in the others.

    A word that they do not have counts as half of one that they have once.
    """
    _, hidden = split_tokens(documents, seed)
    weights = word_counts + 0.5
    log_p = np.log(weights / weights.sum())[hidden.words]
    return float(np.exp(-np.sum(hidden.counts * log_p) / hidden.counts.sum()))


def is_falling(curve: Sequence[Evaluation]) -> float:
    """By which share the perplexity fell from the third to the last quarter of the run; 0 if within noise.

    By the slope of a line through its logarithm in the second half; what is off the line is noise.
    """
    end = curve[-1].documents if curve else 0
    late = np.array([(e.documents / end, np.log(e.of_draw)) for e in curve if 2 * e.documents > end])
    if len(late) < 3 or not np.all(np.isfinite(late)):
        return 0.0
    share, log_perplexity = late.T
    slope, level = np.polyfit(share, log_perplexity, 1)
    left = log_perplexity - (slope * share + level)
    error = np.sqrt(np.sum(left**2) / (len(late) - 2) / np.sum((share - share.mean()) ** 2))
    return float(-slope / 4) if -slope > 2 * error else 0.0


def verdict(
    reached: float, unigram: float, curve: Sequence[Evaluation], draws: int, effective: np.ndarray
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What speaks against the result, and what is good to know."""
    worries, notes = [], []
    if not reached < unigram:
        worries.append(
            f"The held-out perplexity, {reached:,.0f}, is not below the {unigram:,.0f} of the words' "
            "frequencies alone: these topics explain nothing. The step (--step) or the size of the corpus "
            "(--total) does not suit, or the run was too short: a small corpus needs more --passes."
        )
    else:
        notes.append(
            f"The held-out perplexity is {reached:,.0f}; by words' frequencies alone it is {unigram:,.0f}."
        )
    if (fall := is_falling(curve)) > _WORTH_GOING_ON:
        (worries if fall > _FAR_FROM_SETTLED else notes).append(
            f"The perplexity is still falling: by {fall:.1%} from the third to the last quarter of the run. "
            "More passes or more documents will make the topics better."
        )
    elif len(curve) < 2 * _FEWEST_DRAWS:
        looks = "once" if len(curve) == 1 else f"{len(curve)} times"
        notes.append(f"The perplexity was looked at {looks}: too few to say whether it has settled.")
    else:
        notes.append(
            "From the third to the last quarter of the run the perplexity has not fallen by more than "
            "its noise."
        )
    late = [e.of_draw for e in curve if 4 * e.documents > 3 * curve[-1].documents]
    if late and reached < unigram <= np.median(late):
        notes.append(
            f"One by one the draws do worse than that ({np.median(late):,.0f}): only their average "
            "is good. A shorter step (--step) or more documents a step (--batch) makes the draws less noisy."
        )
    known = effective[np.isfinite(effective)]
    if draws < _FEWEST_DRAWS:
        worries.append(
            f"There {'is 1 draw' if draws == 1 else f'are {draws} draws'} of the topics: too few for "
            "credible bounds. Run longer."
        )
    elif len(known) and np.median(known) < _FEW_EFFECTIVE:
        worries.append(
            f"The {draws} draws are worth {np.median(known):.1f} independent ones for the median topic: its "
            "bounds are too narrow and its means not settled. Run longer."
        )
    elif len(known):
        notes.append(
            f"The {draws} draws are worth {np.median(known):.0f} independent ones for the median topic "
            f"({known.min():.0f} for the worst): the bounds are those of one chain, and rough."
        )
    return tuple(worries), tuple(notes)


def tables(model: Model, findings: Findings) -> dict[str, str]:
    """The files for people and other programs, by name."""
    return {
        "topics.csv": topics_csv(findings.topics),
        "topics.txt": topics_text(findings),
        "perplexity.csv": _table(
            ("documents", "seconds", "perplexity of the draw", "perplexity of the average"),
            [(n, f"{t:.2f}", f"{draw:.3f}", f"{average:.3f}") for n, t, draw, average in findings.curve],
        ),
        "vocabulary.txt": vocabulary_text(model.vocabulary),
    }


def vocabulary_text(vocabulary: Vocabulary) -> str:
    """One word a line."""
    return "".join(f"{word}\n" for word in vocabulary.words)


def topics_csv(topics: Sequence[Topic]) -> str:
    """A row for each of the likeliest words of each topic."""
    rows = [
        (topic.number, rank + 1, word, *(f"{float(x):.6g}" for x in numbers))
        for topic in topics
        for rank, (word, *numbers) in enumerate(
            zip(topic.words, topic.mean, topic.low, topic.high, strict=True)
        )
    ]
    return _table(("topic", "rank", "word", "mean", "5 %", "95 %"), rows)


def topics_text(findings: Findings) -> str:
    """A line for each topic, the most prevalent first, and the verdict."""
    lines = [
        f"topic {t.number:>3}  {t.prevalence:6.1%}  NPMI {t.coherence:+.2f}  {' '.join(t.words[:_NAMED])}"
        for t in by_prevalence(findings.topics)
    ]
    return "\n".join([*lines, "", *findings.worries, *findings.notes]) + "\n"


def by_prevalence(topics: Sequence[Topic]) -> list[Topic]:
    """The most prevalent first."""
    return sorted(topics, key=lambda topic: -topic.prevalence)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
