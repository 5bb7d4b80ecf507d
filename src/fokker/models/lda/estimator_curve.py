"""The perplexity during the fit of an estimator, and whether to trust its topics."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fokker.corpora import Documents
from fokker.models.lda.chain import TopicChain
from fokker.models.lda.curve import Evaluation, curve_from_array, curve_to_array
from fokker.models.lda.evaluate import HeldOut
from fokker.models.lda.model import top_words
from fokker.models.lda.results import (
    NOT_EXACT,
    effective_sample_size,
    judge_draws,
    judged_part,
    relative_decrease,
    unigram_perplexity,
)

# At most so many documents are evaluated. With this many training documents for each of them between two
# evaluations, these are a tenth of the work.
_MAX_DOCUMENTS, _DOCUMENTS_PER_EVALUATED = 200, 5
_TOP_WORDS = 10
_NOTE_DECREASE, _PROBLEM_DECREASE = 0.005, 0.02


@dataclass(frozen=True)
class Verdict:
    """Reasons not to trust the topics, and further notes; `ok` if there are no such reasons."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def __str__(self) -> str:
        return "\n".join([*self.problems, *self.notes])


class Curve:
    """Evaluations of a chain on some documents, at steps that depend on their number alone.

    `is_held_out`: whether the chain never uses these documents.
    """

    def __init__(self) -> None:
        self.points: list[Evaluation] = []
        self.held_out: HeldOut | None = None
        self.is_held_out = False
        self._documents: Documents | None = None

    def start(self, documents: Documents, seed: int, threads: int) -> None:
        """Evaluate on the first of these documents that have two words, if there are any."""
        chosen = documents.select(np.flatnonzero(documents.lengths >= 2)[:_MAX_DOCUMENTS])
        if chosen.size:
            self._documents, self.held_out = chosen, HeldOut(chosen, seed, threads)

    def offer(self, chain: TopicChain, documents: int, seconds: float, batch_size: int) -> None:
        """Evaluate the chain after this many documents, if it is time."""
        if self.held_out is None or self._documents is None:
            return
        interval = -(-_DOCUMENTS_PER_EVALUATED * self._documents.size // batch_size)
        step = chain.number
        if not (step % interval == 0 or (step < interval and step.bit_count() == 1)):
            return
        self.evaluate(chain, documents, seconds)

    def evaluate(self, chain: TopicChain, documents: int, seconds: float, is_exact: bool = False) -> None:
        """Evaluate the chain after this many documents."""
        if self.held_out is None:
            return
        if len(self.points).bit_count() == 1:
            # Their number has doubled: the average forgets the draws before.
            self.held_out.reset()
        with np.errstate(divide="ignore"):  # a word of probability zero gives an infinite perplexity
            of_draw = self.held_out.add(chain.beta(), chain.gamma)
            self.points.append(Evaluation(documents, seconds, of_draw, self.held_out.perplexity, is_exact))

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What `restored` needs: values for JSON, and arrays."""
        arrays = {"points": curve_to_array(self.points)}
        if self.held_out is not None and self._documents is not None:
            arrays |= {**self._documents.arrays(), **self.held_out.state()}
        return {"is_held_out": self.is_held_out}, arrays

    @classmethod
    def restored(cls, values: dict[str, Any], arrays: dict[str, np.ndarray], seed: int, threads: int) -> Self:
        """The curve of a `state`."""
        curve = cls()
        curve.is_held_out = values["is_held_out"]
        curve.points = curve_from_array(arrays["points"])
        if "indptr" in arrays:
            documents = Documents.from_arrays(arrays["indptr"], arrays["words"], arrays["counts"])
            curve.start(documents, seed, threads)
            assert curve.held_out is not None
            curve.held_out.restore({name: arrays[name] for name in ("sum", "draws")})
        return curve


def verdict(
    curve: Curve,
    draws: list[np.ndarray],
    num_exact_passes: int,
    gamma: np.ndarray,
    word_counts: np.ndarray,
    seed: int,
    threads: int,
    is_stream: bool,
) -> Verdict:
    """What speaks against the topics, in terms of the estimator's parameters.

    `num_exact_passes`: the number of exact passes that the draws come from. `is_stream`: whether
    `partial_fit` came last.
    """
    advice = "Give more documents to partial_fit." if is_stream else "Increase passes."
    problems: list[str] = []
    notes: list[str] = []
    if curve._documents is None:
        problems.append("No document has two words: there is nothing to predict.")
    else:
        evaluated = HeldOut(curve._documents, seed, threads)
        with np.errstate(divide="ignore"):
            for beta in draws:
                evaluated.add(beta, gamma)
            of_topics = evaluated.perplexity
        unigram = unigram_perplexity(curve._documents, word_counts, seed)
        which = "held-out documents" if curve.is_held_out else "training documents"
        sentence = f"The perplexity of {curve._documents.size} {which} is {of_topics:,.0f}; "
        if of_topics < unigram:
            notes.append(f"{sentence}with word frequencies alone it is {unigram:,.0f}.")
        else:
            problems.append(
                f"{sentence}that is not below the {unigram:,.0f} of the word frequencies alone, so that "
                "these topics explain nothing. Increase passes (a small X needs many), or change step_size."
            )
        if not curve.is_held_out:
            how = "call perplexity with other documents" if is_stream else "set validation_fraction"
            notes.append(f"No documents were held out: {how} to judge predictions.")
    decrease = relative_decrease(curve.points)
    if np.isnan(decrease):
        times = "once" if len(curve.points) == 1 else f"{len(curve.points)} times"
        problems.append(
            f"The perplexity was evaluated {times} in all: too few to say whether it still falls. {advice}"
        )
    elif decrease > _NOTE_DECREASE:
        (problems if decrease > _PROBLEM_DECREASE else notes).append(
            f"The perplexity is still falling: by {decrease:.1%} from the third to the last quarter of "
            f"{judged_part(curve.points)}. {advice}"
        )
    else:
        notes.append(
            f"From the third to the last quarter of {judged_part(curve.points)} the perplexity has not "
            "fallen by more than its noise."
        )
    beta = np.stack(draws)
    top = top_words(beta.mean(0), _TOP_WORDS)
    effective = effective_sample_size(
        np.stack([beta[:, words, k].sum(1, dtype=np.float64) for k, words in enumerate(top)], 1)
    )
    more_problems, more_notes = judge_draws(len(draws), effective, advice)
    if not num_exact_passes:
        more_notes += (f"{NOT_EXACT} Those of fit with passes=2 or more are.",)
    return Verdict(tuple(problems) + more_problems, tuple(notes) + more_notes)
