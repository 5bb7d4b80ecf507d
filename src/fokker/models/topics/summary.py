"""The findings of a run for programs: numbers as JSON, and the score of each held-out document."""

import csv
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fokker._core.files import read_json
from fokker.models.topics.evaluate import DocumentScores
from fokker.models.topics.files import SUMMARY, csv_text
from fokker.models.topics.predictions import Predictions
from fokker.models.topics.results import Findings, Topic

if TYPE_CHECKING:
    from fokker.models.topics.run import TopicRun

SCORES = "held-out.csv"
_COLUMNS = ("document", "hidden words", "log probability")


@dataclass(frozen=True)
class RunSummary:
    """The numbers of a run. Coherences are means over the topics; `seconds` include those before a resume.

    `standard_error`: of the perplexity, over the held-out documents. `npmi_error`: of NPMI, over the topics.
    `unigram_error`: of log(`unigram_perplexity`/`perplexity`), document by document.

    `passes`: as asked for, None for no limit. `is_complete`: whether all of them were made.
    """

    topics: int
    perplexity: float
    standard_error: float
    unigram_perplexity: float
    npmi: float
    npmi_error: float
    c_v: float
    u_mass: float
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    passes: int | None
    documents: int
    seconds: float
    is_complete: bool
    unigram_error: float = float("nan")  # that older files have not

    @property
    def is_useful(self) -> bool:
        """Whether the topics predict better than the word frequencies, by more than their error."""
        return Predictions(self.perplexity, self.unigram_perplexity, self.unigram_error).is_better

    @staticmethod
    def of(run: "TopicRun", findings: Findings) -> "RunSummary":
        """The summary of a run."""

        def mean(measure: Callable[[Topic], float]) -> float:
            # NaN for topics with a word that is in none of the documents.
            values = np.array([measure(topic) for topic in findings.topics])
            return float(np.nanmean(values)) if np.any(np.isfinite(values)) else float("nan")

        coherences = np.array([topic.coherence for topic in findings.topics])
        number = len(coherences)

        return RunSummary(
            run.settings.topics,
            findings.predictions.perplexity,
            findings.scores.standard_error,
            findings.predictions.unigram,
            mean(lambda topic: topic.coherence),
            float(np.std(coherences, ddof=1) / np.sqrt(number)) if number > 1 else float("nan"),
            mean(lambda topic: topic.c_v),
            mean(lambda topic: topic.u_mass),
            findings.verdict.problems,
            findings.verdict.notes,
            run.plan.passes,
            run.training.documents,
            run.seconds,
            run.plan.is_complete or (run.corpus.source.single_pass and not run.interrupted),
            findings.predictions.error,
        )

    def to_json(self) -> str:
        """As text; a number that is not known is null."""
        values = {
            name: None if isinstance(x, float) and np.isnan(x) else x for name, x in asdict(self).items()
        }
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"

    @staticmethod
    def read(folder: Path) -> "RunSummary | None":
        """The summary of the run in a folder; None if there is none, or it cannot be read."""
        try:
            values = read_json(folder / SUMMARY)
            for name in ("standard_error", "npmi", "npmi_error", "c_v", "u_mass", "unigram_error"):
                values[name] = float("nan") if values.get(name) is None else values[name]
            return RunSummary(
                **values | {"problems": tuple(values["problems"]), "notes": tuple(values["notes"])}
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None


def scores_csv(scores: DocumentScores) -> str:
    """One row per held-out document: how many of its words were hidden, and Σ log p(w) of these."""
    rows = ((name, int(number), f"{log_p:.6f}") for name, log_p, number in zip(*scores, strict=True))
    return csv_text(_COLUMNS, rows)


def read_scores(folder: Path) -> DocumentScores:
    """The scores of the run in a folder."""
    with (folder / SCORES).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names, numbers, log_p = ([row[column] for row in rows] for column in _COLUMNS)
    return DocumentScores(tuple(names), np.array(log_p, float), np.array(numbers, float))
