"""Whether topics predict words better than the frequencies of words do."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fokker._core.digits import decimals, percent
from fokker.diagnostics import Grade, Verdict
from fokker.models.topics.evaluate import HeldOut
from fokker.models.topics.wording import Wording

# A difference of at most this many of its standard errors is within the noise of the documents.
_CLEAR = 2.0
# The most decimals of two perplexities that round alike.
_MOST_DECIMALS = 4


class Predictions(NamedTuple):
    """The perplexity of documents under topics, and under the word frequencies (`unigram`).

    `error`: the standard error of the logarithm of their ratio over the documents, which are compared one by
    one; NaN where it is not known, with one document.
    """

    perplexity: float
    unigram: float
    error: float

    @staticmethod
    def of(held_out: HeldOut, word_counts: np.ndarray) -> "Predictions":
        """Those of held-out documents, given the counts of the words of the training documents (V,)."""
        scores, unigram = held_out.scores(), held_out.unigram_scores(word_counts)
        return Predictions(held_out.perplexity, unigram.perplexity, unigram.log_ratio(scores)[1])

    @property
    def is_better(self) -> bool:
        """Whether the topics are better, by more than the noise of the documents."""
        error = 0.0 if np.isnan(self.error) else self.error
        return bool(self.perplexity < self.unigram * np.exp(-_CLEAR * error))

    def texts(self) -> tuple[str, str]:
        """Both perplexities, with decimals where they are alike without."""
        for places in range(_MOST_DECIMALS + 1):
            texts = tuple(f"{x:,.{places}f}" for x in (self.perplexity, self.unigram))
            if texts[0] != texts[1]:
                return texts[0], texts[1]
        return f"{self.perplexity:,.0f}", f"{self.unigram:,.0f}"


def compare_predictions(
    predictions: Predictions, documents: str, of_late_draws: Sequence[float], wording: Wording
) -> Verdict:
    """The perplexity of these documents against that of the word frequencies."""
    unigram = predictions.unigram
    of_topics_text, unigram_text = predictions.texts()
    sentence = f"The perplexity of {documents} is {of_topics_text}; "
    if not predictions.perplexity < unigram:
        problem = f"{sentence}that is not below the {unigram_text} of the word frequencies alone, so that "
        return Verdict.of_problem(f"{problem}these topics explain nothing. {wording.unsuitable}", Grade.BAD)
    sentence += f"with word frequencies alone it is {unigram_text}"
    if not predictions.is_better:
        places = max(0, decimals(100 * predictions.error))
        gain, error = (percent(x, places) for x in (unigram / predictions.perplexity - 1, predictions.error))
        problem = (
            f"{sentence}. The difference, {gain} ± {error}, is within the noise of so few documents: these "
            f"topics are not clearly better than the word frequencies. {wording.unsuitable}"
        )
        return Verdict.of_problem(problem, Grade.BAD)
    notes = [f"{sentence}."]
    if of_late_draws and unigram <= np.median(of_late_draws):
        notes.append(
            f"Single draws do worse than the word frequencies ({np.median(of_late_draws):,.0f}): only their "
            f"average is good. {wording.less_noise}"
        )
    return Verdict(notes=tuple(notes))
