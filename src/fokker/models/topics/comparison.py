"""Runs with several numbers of topics side by side: a table, a plot, and which number predicts best."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fokker._core.digits import percent
from fokker._core.files import write_atomically, write_text
from fokker.models.topics.evaluate import DocumentScores
from fokker.models.topics.files import csv_text, folder_of
from fokker.models.topics.summary import RunSummary, read_scores
from fokker.report.figures import Axis, Mark
from fokker.report.figures import Figure as Drawn
from fokker.report.page import figures_part, page, table
from fokker.report.plots import ACCENT, RIGHT, new_figure, tidy

# A difference of this many of its standard errors is called clear. Not two: the best of several numbers is
# compared with all others, and the errors do not include the randomness of the chains.
_CLEAR = 3.0
_TABLE, _PLOT, _PAGE = "sweep.csv", "sweep.png", "sweep.html"


@dataclass(frozen=True)
class TopicComparison:
    """The runs that are done, as text; `is_useful`: whether one is better than the word frequencies."""

    text: str
    is_useful: bool
    file_names: tuple[str, ...] = (_TABLE, _PLOT, _PAGE)


def compare(folder: Path, topics: Sequence[int]) -> TopicComparison | None:
    """Compare the runs of a sweep that have results, and write the files; None if there is none."""
    found = [(k, RunSummary.read(folder_of(folder, k))) for k in sorted(topics)]
    summaries = [summary for _, summary in found if summary is not None]
    if not summaries:
        return None
    complete = [summary for summary in summaries if summary.is_complete]
    scores = [read_scores(folder_of(folder, summary.topics)) for summary in complete]
    preferred = preference(complete, scores)
    columns = ("topics", "perplexity", "NPMI", "c_v", "u_mass", "seconds", "verdict")
    rows = [_row(summary) for summary in summaries]
    figure = comparison_figure(summaries)
    write_text(folder / _TABLE, _csv(summaries))
    write_atomically(folder / _PLOT, lambda file: figure.savefig(file, format="png", dpi=130))
    links = "".join(
        f'<li><a href="{folder_of(Path(), s.topics)}/report.html">{s.topics} topics</a>'
        f"{''.join(f'<br>{html.escape(problem)}' for problem in s.problems)}</li>"
        for s in summaries
    )
    contents = page(
        "Numbers of topics",
        f"<p>{html.escape(preferred)}</p><h2>Side by side</h2>",
        table(columns, rows, "Runs", sortable=True),
        "<p>Perplexity of the held-out documents, with its standard error over these documents. Coherences "
        "are means over the topics, NPMI with its standard error over these.</p>",
        figures_part(_figures(summaries)),
        f"<h2>Runs</h2><ul>{links}</ul>",
    )
    write_text(folder / _PAGE, contents)
    is_useful = any(s.is_useful for s in summaries)
    return TopicComparison(f"{aligned([columns, *rows])}\n{preferred}", is_useful)


def preference(summaries: Sequence[RunSummary], scores: Sequence[DocumentScores]) -> str:
    """Which number of topics predicts the held-out documents best, and how clearly.

    Two runs are compared by the standard error over documents of the difference of log p: it says how certain
    the difference is for these two models, and nothing of chains with other seeds.
    """
    if len(summaries) < 2:
        return "There are no two complete runs to compare yet."
    best = int(np.argmin([s.perplexity for s in summaries]))
    number, lowest = summaries[best].topics, summaries[best]
    if not any(s.is_useful for s in summaries):
        return (
            "No number of topics predicts the held-out documents better than the word frequencies alone "
            f"({lowest.unigram_perplexity:,.0f})."
        )
    clear: list[str] = []
    unclear: list[str] = []
    for summary, own_scores in zip(summaries, scores, strict=True):
        if summary is lowest:
            continue
        try:
            log_ratio, error = own_scores.log_ratio(scores[best])
        except ValueError as problem:
            return f"The perplexities cannot be compared: {problem}"
        change, spread = percent(np.expm1(log_ratio), 1, "+"), percent(np.exp(log_ratio) * error, 1)
        ratio = f"{summary.topics} ({change} ± {spread})"
        # Also where the error is not known, with one document.
        (clear if log_ratio > _CLEAR * error else unclear).append(ratio)
    sentences = [f"The held-out perplexity is lowest with {number} topics."]
    if clear:
        sentences.append(f"It is clearly higher with {', '.join(clear)}.")
    if unclear:
        sentences.append(f"It is not clearly higher with {', '.join(unclear)}: the documents do not decide.")
    if summaries[best] is summaries[-1]:
        sentences.append("That is the largest number tried: more topics may predict better still.")
    elif summaries[best] is summaries[0]:
        sentences.append("That is the smallest number tried: fewer topics may predict better still.")
    sentences.append(
        f"(Clear: more than {_CLEAR:.0f} standard errors of the difference over "
        f"{len(scores[best].num_words):,} documents, for one chain each; other seeds may differ.)"
    )
    return " ".join([*sentences, _coherence_preference(summaries)])


def _coherence_preference(summaries: Sequence[RunSummary]) -> str:
    """Which number of topics has the most coherent ones, and how clearly, by the spread over topics."""
    most = max(summaries, key=lambda s: s.npmi)
    ties = [
        str(s.topics)
        for s in summaries
        if s is not most and not most.npmi - s.npmi > _CLEAR * np.hypot(most.npmi_error, s.npmi_error)
    ]
    but = f", but not clearly higher than with {', '.join(ties)}" if ties else ""
    return f"The mean NPMI is highest with {most.topics} topics ({most.npmi:+.3f}){but}."


def comparison_figure(summaries: Sequence[RunSummary]) -> Figure:
    """Perplexity with its standard error, and the coherences, against the number of topics."""
    topics = [s.topics for s in summaries]
    figure = new_figure(9.0, 3.6)
    left, right = figure.subplots(1, 2)
    left.errorbar(
        topics,
        [s.perplexity for s in summaries],
        [s.standard_error for s in summaries],
        color=RIGHT,
        marker="o",
        capsize=3,
    )
    tidy(left, "held-out perplexity, ± standard error", "topics")
    right.plot(topics, [s.npmi for s in summaries], color=RIGHT, marker="o", label="NPMI")
    right.plot(topics, [s.c_v for s in summaries], color=ACCENT, marker="s", label="c_v")
    tidy(right, "mean coherence of the topics", "topics")
    right.legend(frameon=False, fontsize=8)
    for panel in (left, right):
        panel.set_xscale("log")
        panel.set_xticks(topics, [str(k) for k in topics])
        panel.minorticks_off()
    return figure


def _figures(summaries: Sequence[RunSummary]) -> list[Drawn]:
    """The same for the page, which draws them itself."""
    topics = np.array([s.topics for s in summaries], float)
    perplexity, error = (
        np.array([getattr(s, name) for s in summaries]) for name in ("perplexity", "standard_error")
    )
    x = Axis("topics", log=len(topics) > 1)
    ends = {"low": perplexity - error, "high": perplexity + error}
    of_perplexity = [
        Mark("line", "chain-0", None, topics, perplexity),
        Mark("intervals", "chain-0", "± standard error", topics, along="y", **ends, width=2),
    ]
    of_coherence = [
        Mark("line", colour, name, topics, [getattr(s, field) for s in summaries])
        for name, field, colour in (("NPMI", "npmi", "chain-0"), ("c_v", "c_v", "chain-2"))
    ]
    return [
        Drawn("Held-out perplexity", "The lower the better.", of_perplexity, x, Axis("perplexity")),
        Drawn("Mean coherence of the topics", "The higher the better.", of_coherence, x, Axis()),
    ]


def _row(summary: RunSummary) -> tuple[str, ...]:
    number = len(summary.problems)
    verdict = "no problems found" if not number else "1 problem" if number == 1 else f"{number} problems"
    if not summary.is_complete:
        verdict = f"not complete; {verdict}"
    return (
        str(summary.topics),
        f"{summary.perplexity:,.0f} ± {summary.standard_error:,.0f}",
        f"{summary.npmi:+.3f} ± {summary.npmi_error:.3f}",
        f"{summary.c_v:.3f}",
        f"{summary.u_mass:.2f}",
        f"{summary.seconds:,.0f}",
        verdict,
    )


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Lines with columns of equal width: numbers to the right, the last column to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)), row[-1]])
        for row in rows
    ]
    return "\n".join(lines)


def _csv(summaries: Sequence[RunSummary]) -> str:
    names = (
        "topics", "perplexity", "standard_error", "unigram_perplexity", "npmi", "npmi_error", "c_v", "u_mass",
        "seconds",
    )  # fmt: skip
    rows = (
        [*(f"{getattr(s, name):.6g}" for name in names), s.is_complete, " ".join(s.problems)]
        for s in summaries
    )
    return csv_text([*names, "is_complete", "problems"], rows)
