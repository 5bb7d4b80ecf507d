"""Whether to trust topics: one judgement for `fokker lda` and for `fk.models.LDA`."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fokker._core import statistics
from fokker._core.digits import percent
from fokker.corpora import Documents
from fokker.diagnostics import Finding, Grade, Verdict
from fokker.models.topics.coherence import npmi, partnered
from fokker.models.topics.curve import CurvePoint
from fokker.models.topics.evaluate import HeldOut
from fokker.models.topics.learned_prior import LearnedPrior
from fokker.models.topics.model import top_words
from fokker.models.topics.predictions import Predictions, compare_predictions
from fokker.models.topics.wording import NOT_EXACT, Wording, number_of_documents

# The words of a topic whose seed words are looked for, that are named, and that are measured.
TABLE_WORDS, TEXT_WORDS, COHERENCE_WORDS = 25, 10, 10
# Training documents in which words are measured, besides those held out.
SAMPLE_DOCUMENTS = 2_000
# The fewest draws for bounds and effective draws, and the fewest effective draws without a warning.
_MIN_DRAWS, _MIN_EFFECTIVE_DRAWS = 4, 5.0
# The fewest evaluations in the second half of the run that can show whether the perplexity has converged.
_MIN_LATE_EVALUATIONS = 4
# Two topics that share at least this many of their ten words are the same topic twice: in good fits to AP and
# NIPS the most is 4. One that has fewer in the second half of the draws than in the first has changed: there
# it is 5 to 10. Bad topics are a problem if they are more than this share of all, and a note otherwise.
_MIN_SHARED_WORDS, _MAX_BAD_SHARE = 6, 0.1
# An incoherent topic is several subjects in one where at least this share of its words belong with others of
# it: with 2 to 5 topics for 20 subjects it is 0.6 to 0.9, with 20 to 40 for 1 to 3 it is below 0.4.
_PARTNERED = 0.5
# Relative decreases of the perplexity from one quarter of the run to the next: for a note, and for a problem.
_NOTE_DECREASE, _PROBLEM_DECREASE = 0.005, 0.02


class TopicWords(NamedTuple):
    """What is judged of a topic: its most probable words, and NPMI of the first ten.

    `partnered`: the share of these that clearly belong with another of them.
    """

    number: int
    words: tuple[str, ...]
    coherence: float
    partnered: float = 0.0
    name: str = ""


@dataclass(frozen=True)
class Fit:
    """All that a judgement looks at.

    `draws`: of β (n, V, K); `num_assignments`: how often the topics of all words were drawn for them.
    `evaluated`: documents whose words were predicted, None where none has two words, and `are_held_out`,
    whether the chain never used them. `reference`: those in which words are measured.
    """

    draws: np.ndarray | Sequence[np.ndarray]
    num_exact_passes: int
    num_assignments: int
    prior: LearnedPrior
    vocabulary: Sequence[str]
    seed_words: Mapping[str, Sequence[str]]
    topic_names: Sequence[str]
    curve: Sequence[CurvePoint]
    evaluated: HeldOut | None
    are_held_out: bool
    reference: Documents
    word_counts: np.ndarray

    @functools.cached_property
    def predictions(self) -> Predictions:
        """The perplexity of the documents that were evaluated, with that under the word frequencies."""
        assert self.evaluated is not None
        return Predictions.of(self.evaluated, self.word_counts)

    @functools.cached_property
    def top(self) -> np.ndarray:
        """The most probable words of each topic (K, 25)."""
        return top_words(np.mean(self.draws, 0), TABLE_WORDS)

    @functools.cached_property
    def effective_draws(self) -> np.ndarray:
        """Of the total probability of the first words of each topic (K,)."""
        first_words = [
            [
                float(beta[words[:COHERENCE_WORDS], k].sum(dtype=np.float64))
                for k, words in enumerate(self.top)
            ]
            for beta in self.draws
        ]
        return effective_sample_size(np.array(first_words))

    @functools.cached_property
    def steady_words(self) -> np.ndarray:
        """How many of the first words of each topic (K,) are the same in both halves of the draws."""
        half = len(self.draws) // 2
        if not half:
            return np.full(len(self.top), COHERENCE_WORDS)
        early, late = (
            top_words(np.mean(part, 0), COHERENCE_WORDS) for part in (self.draws[:half], self.draws[half:])
        )
        # Of a vocabulary of fewer than ten words those that are lacking count as the same.
        return np.array([COHERENCE_WORDS - len(set(a) - set(b)) for a, b in zip(early, late, strict=True)])

    @functools.cached_property
    def topics(self) -> list[TopicWords]:
        """The topics with how well their first words belong together."""
        first = self.top[:, :COHERENCE_WORDS]
        coherence, with_partners = (measure(self.reference, first) for measure in (npmi, partnered))
        return [
            TopicWords(
                k,
                tuple(self.vocabulary[w] for w in words),
                float(coherence[k]),
                float(with_partners[k]),
                self.topic_names[k],
            )
            for k, words in enumerate(self.top)
        ]


def judge(fit: Fit, wording: Wording) -> Verdict:
    """The problems with the topics, and further notes."""
    # Topics that nothing uses are draws of the prior: no judgement of them.
    is_used = fit.prior.is_used
    effective_draws = np.where(is_used, fit.effective_draws, np.nan)
    # A single topic has all words: there is nothing to draw.
    num_assignments = fit.num_assignments if len(is_used) > 1 else len(fit.draws)
    parts = [
        judge_predictions(fit, wording),
        judge_curve(fit.curve, wording),
        judge_draws(len(fit.draws), num_assignments, effective_draws, wording),
        judge_steadiness(np.where(is_used, fit.steady_words, COHERENCE_WORDS), wording),
        judge_topics([t for t in fit.topics if is_used[t.number]], wording, fit.prior.prior.learned == "hdp"),
        judge_seeds(fit.topics, fit.seed_words, wording),
        Verdict(notes=fit.prior.sentences()),
    ]
    if not fit.num_exact_passes:
        parts.append(Verdict(notes=(f"{NOT_EXACT} {wording.exact}",)))
    return Verdict.joined(parts)


def judge_predictions(fit: Fit, wording: Wording) -> Verdict:
    """Whether the topics predict words better than the frequencies of words do."""
    if fit.evaluated is None:
        return Verdict.of_problem("No document has two words: there is nothing to predict.")
    if len(fit.topics) == 1:
        wording = wording._replace(unsuitable=f"One topic is those frequencies: try more ({wording.topics}).")
    return compare_predictions(
        fit.predictions,
        number_of_documents(fit.evaluated.documents.size, "held-out" if fit.are_held_out else "training"),
        [e.of_draw for e in fit.curve if 4 * e.documents > 3 * fit.curve[-1].documents],
        wording,
    )


def judge_curve(curve: Sequence[CurvePoint], wording: Wording) -> Verdict:
    """Whether the perplexity still falls."""
    decrease, part = relative_decrease(curve), judged_part(curve)
    if np.isnan(decrease):
        times = "once" if len(curve) == 1 else f"{len(curve)} times"
        problem = (
            f"The perplexity was evaluated {times} in all: too few to say whether it still falls. "
            f"{wording.longer}"
        )
        return Verdict.of_problem(problem)
    if decrease > _NOTE_DECREASE:
        sentence = (
            f"The perplexity is still falling: by {percent(decrease, 1)} from the third to the last quarter "
            f"of {part}. {wording.longer}"
        )
        return Verdict.of_problem(sentence) if decrease > _PROBLEM_DECREASE else Verdict(notes=(sentence,))
    if decrease > 0:
        amount = percent(decrease, 2)
        note = f"The perplexity fell by only {amount} from the third to the last quarter of {part}."
    else:
        note = f"In the second half of {part} the perplexity did not fall by more than its noise."
    return Verdict(notes=(note,))


def effective_sample_size(series: np.ndarray) -> np.ndarray:
    """ArviZ's for each series of one chain (n, ...), at most n; NaN for too few or constant draws."""
    if len(series) < _MIN_DRAWS:
        return np.full(series.shape[1:], np.nan)
    effective_draws = np.minimum(statistics.effective_sample_size(series[None]), len(series))
    return np.where(np.ptp(series, axis=0) == 0, np.nan, effective_draws)


def _has_enough_exact(curve: Sequence[CurvePoint]) -> bool:
    return sum(e.is_exact and 2 * e.documents > curve[-1].documents for e in curve) >= _MIN_LATE_EVALUATIONS


def judged_part(curve: Sequence[CurvePoint]) -> str:
    """The part of the run in which `relative_decrease` looks, in words."""
    is_before = any(e.is_exact for e in curve) and not _has_enough_exact(curve)
    return "the passes before the exact ones" if is_before else "the run"


def relative_decrease(curve: Sequence[CurvePoint]) -> float:
    """The relative decrease of the perplexity from the third to the last quarter of the run.

    It comes from the slope of a line fitted to the logarithm in the second half. It is 0 if the slope is
    within the noise, which is given by the residuals, and NaN if there are too few evaluations to say. With
    fewer exact passes than that, it is the decrease in the passes before them.
    """
    judged = curve if _has_enough_exact(curve) else [e for e in curve if not e.is_exact]
    end = judged[-1].documents if judged else 0
    # Draws of exact passes, which have no noise of minibatches, are compared only with each other.
    late = [e for e in judged if 2 * e.documents > end and e.is_exact == judged[-1].is_exact]
    # Those of one exact pass follow each other after equal numbers of sweeps, but after the same documents.
    is_exact = bool(late) and late[-1].is_exact
    shares = np.linspace(0.5, 1, len(late)) if is_exact else np.array([e.documents / end for e in late])
    second_half = np.stack([shares, np.log([e.of_draw for e in late])], 1)
    if len(second_half) < _MIN_LATE_EVALUATIONS or not np.all(np.isfinite(second_half)):
        return float("nan")
    share, log_perplexity = second_half.T
    slope, intercept = np.polyfit(share, log_perplexity, 1)
    residuals = log_perplexity - (slope * share + intercept)
    error = np.sqrt(np.sum(residuals**2) / (len(second_half) - 2) / np.sum((share - share.mean()) ** 2))
    return float(-slope / 4) if -slope > 2 * error else 0.0


def changed_topics(steady_words: np.ndarray) -> str | None:
    """A sentence on topics that changed during the draws, without its full stop; None if none has."""
    topics = np.flatnonzero(steady_words < _MIN_SHARED_WORDS)
    if not len(topics):
        return None
    same = f"fewer than {_MIN_SHARED_WORDS} of {{their}} ten words are the same in both halves"
    return _sentence(topics.tolist(), len(steady_words), f"changed during the draws ({same})")[:-1]


def judge_steadiness(steady_words: np.ndarray, wording: Wording) -> Verdict:
    """Whether topics have the same first words in both halves of the draws, given how many of ten."""
    changed = changed_topics(steady_words)
    if changed is None:
        return Verdict()
    if np.sum(steady_words < _MIN_SHARED_WORDS) > _MAX_BAD_SHARE * len(steady_words):
        return Verdict.of_problem(f"{changed}. {wording.longer}")
    return Verdict(notes=(f"{changed}.",))


def judge_draws(draws: int, num_assignments: int, effective_draws: np.ndarray, wording: Wording) -> Verdict:
    """The problems with the number of draws, and further notes.

    Single topics are not judged by their effective draws: bounds of those that seem to have few contain
    further draws of the same chain as often as those of others do (docs/lda.md).
    """
    known = effective_draws[np.isfinite(effective_draws)]
    if draws < _MIN_DRAWS:
        number = "is 1 draw" if draws == 1 else f"are {draws} draws"
        return Verdict.of_problem(
            f"There {number} of the topics: too few for credible bounds. {wording.longer}"
        )
    if num_assignments < _MIN_DRAWS:
        different = "once" if num_assignments == 1 else f"{num_assignments} times"
        return Verdict.of_problem(
            f"The topics of the words were drawn {different} for all {draws} draws: either they are certain, "
            f"as of subjects without common words, or the chain stands still, and its bounds are too narrow. "
            f"{wording.longer}"
        )
    if not len(known):
        return Verdict()
    if np.median(known) < _MIN_EFFECTIVE_DRAWS:
        problem = (
            f"The {draws} draws are worth {np.median(known):.1f} independent ones for the median topic: its "
            f"bounds are too narrow and its means have not converged. {wording.longer}"
        )
        return Verdict.of_problem(problem)
    note = (
        f"The {draws} draws are worth {np.median(known):.0f} independent ones for the median topic "
        f"({known.min():.0f} for the worst): the bounds come from one chain, near where it is, and are "
        "approximate."
    )
    return Verdict(notes=(note,))


def judge_topics(topics: Sequence[TopicWords], wording: Wording, is_number_learned: bool = False) -> Verdict:
    """The problems with single topics, and further notes: words that do not belong together, and repeats.

    An incoherent topic is several subjects in one where most of its words belong with some of the others:
    then there are too few topics. Otherwise its words may be those of no subject, and too many topics are one
    reason among others.

    Where the number of topics is learned, there are small ones of a few words each, which are no problem.
    """
    incoherent = [topic for topic in topics if topic.coherence < 0]
    words = [set(topic.words[:COHERENCE_WORDS]) for topic in topics]
    repeated = [
        topics[j]
        for j in range(len(topics))
        if any(len(words[i] & words[j]) >= _MIN_SHARED_WORDS for i in range(j))
    ]
    mixed = [topic for topic in incoherent if topic.partnered >= _PARTNERED]
    more, fewer = (f"Use {x} topics ({wording.topics})" for x in ("more", "fewer"))
    findings: list[Finding] = []
    notes: list[str] = []

    def is_problem(bad: Sequence[TopicWords]) -> bool:
        return len(bad) > _MAX_BAD_SHARE * len(topics) and not is_number_learned

    # Topics that mix subjects beside others that repeat one: their number is not what is wrong.
    is_unsettled = is_problem(mixed) and is_problem(repeated)
    for bad, what, advice in (
        (
            mixed,
            "{mix} several subjects: {their} words occur in groups, and less often together than by chance "
            "(NPMI below 0)",
            wording.longer if is_unsettled else f"{more}.",
        ),
        (
            [topic for topic in incoherent if topic not in mixed],
            "{have} words that occur together less often than by chance (NPMI below 0)",
            wording.longer
            if is_problem(mixed)
            else f"{wording.longer} If that does not help, {_lower(fewer)}, or more documents.",
        ),
        (
            repeated,
            f"{{share}} {_MIN_SHARED_WORDS} or more of {{their}} ten words with another",
            f"{wording.longer} Some topics mix subjects and some repeat one: their number may be right."
            if is_unsettled
            else f"{fewer}, or more documents.",
        ),
    ):
        if bad:
            sentence = _sentence([topic.number for topic in bad], len(topics), what)
            if is_problem(bad):
                findings.append(Finding(Grade.CARE, f"{sentence} {advice}"))
            else:
                notes.append(sentence)
    if not incoherent and not repeated and len(topics) > 1:
        shared = f"no two share {_MIN_SHARED_WORDS} or more of their ten words"
        notes.append(f"All topics have words that occur together, and {shared}.")
    return Verdict(tuple(findings), tuple(notes))


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _sentence(numbers: Sequence[int], total: int, what: str) -> str:
    """That some of the topics are so, with their numbers."""
    shown = ", ".join(map(str, numbers[:TEXT_WORDS])) + (", …" if len(numbers) > TEXT_WORDS else "")
    is_one = len(numbers) == 1
    verbs = {"mix": "mixes", "have": "has", "share": "shares", "their": "its"}
    filled = what.format(**{word: single if is_one else word for word, single in verbs.items()})
    return f"{len(numbers)} of {total} topics {filled}: {shown}."


def judge_seeds(
    topics: Sequence[TopicWords], seed_words: Mapping[str, Sequence[str]], wording: Wording
) -> Verdict:
    """The problems with named topics: those with none of their seed words among their most probable words."""
    lost = [
        topic.name for topic in topics if not set(topic.words) & set(seed_words.get(topic.name, topic.words))
    ]
    if not lost:
        return Verdict()
    problem = (
        f"No seed word is among the {TABLE_WORDS} most probable words of {', '.join(lost)}: the documents "
        "have too few of these words for a topic. Give more frequent ones, or a larger "
        f"{wording.seed_weight}."
    )
    return Verdict.of_problem(problem)
