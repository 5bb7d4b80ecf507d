"""The report of a run: the verdict, the topics with their bounds, the perplexity, and a map."""

import html
from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from fokker.models.topics.curve import curve_to_array
from fokker.models.topics.judgement import NOT_EXACT, few_effective_draws
from fokker.models.topics.results import Findings, bound_names, by_prevalence
from fokker.models.topics.run import Run
from fokker.models.topics.topic_map import map_figure
from fokker.models.topics.watcher import Show
from fokker.report.page import image, page, table, verdict_part
from fokker.report.plots import ACCENT, RIGHT, TRUTH, WRONG, new_figure, tidy

# The most topics plotted, the words of each, and the panels per row.
_MAX_TOPICS, _WORDS, _COLUMNS = 40, 8, 4


def report(run: Run, findings: Findings, show: Show = lambda *progress: None) -> str:
    """The report of a run, in HTML."""
    verdict = findings.verdict
    topics = by_prevalence(findings.topics)
    rows = [
        [
            t.label,
            " ".join(t.words[:10]),
            f"{t.prevalence:.1%}",
            f"{t.coherence:+.2f}",
            f"{t.c_v:.2f}",
            f"{t.u_mass:.1f}",
            "–" if np.isnan(t.effective_draws) else f"{t.effective_draws:.0f}",
        ]
        for t in topics
    ]
    skipped = run.tally.sentence()
    plotted_note = (
        f" The {_MAX_TOPICS} most prevalent of {len(topics)} are plotted."
        if len(topics) > _MAX_TOPICS
        else ""
    )
    figures = []
    for number, (draw, alternative) in enumerate(_FIGURES):
        show("drawing the report", number, len(_FIGURES), "figures")
        figures.append(image(draw(findings), alternative))
    words_figure, curve, topic_map = figures
    parts = [
        verdict_part(verdict.grade, _headline(findings), verdict.problems),
        f"<p>{html.escape(' '.join(verdict.notes))}</p>",
        "<h2>Topics</h2>",
        table(["topic", "words", "prevalence", "NPMI", "c_v", "u_mass", "effective draws"], rows),
        "<p>Prevalence is the share of a topic in the words of all documents. NPMI, c_v and u_mass measure "
        "the coherence of its ten most probable words in the held-out and the first "
        f"{run.training.sample.size:,} training documents. NPMI is 1 if they always occur together, 0 if by "
        "chance, -1 if never; c_v is mostly between 0 and 1, the higher the more coherent; u_mass is at most "
        "0.</p>",
        "<h2>Their words</h2>",
        f"<p>E[β<sub>kw</sub>], with {' and '.join(bound_names(findings.probability))} bounds over "
        f"{findings.draws} draws. "
        f"{_source_of_draws(run)}{plotted_note}</p>",
        words_figure,
        "<h2>Held-out perplexity</h2>",
        curve,
        "<h2>Map of the topics</h2>",
        "<p>Topics that share words are near each other (Hellinger distance, scaled to the plane); the "
        "area of a circle is the prevalence. A number that is moved aside has a line to its circle.</p>",
        topic_map,
        "<h2>The run</h2>",
        f"<p>{run.training.documents:,} documents and {run.tokens:,} words of "
        f"{html.escape(run.corpus.source.label)}, "
        f"{run.training.chain.number:,} steps, {run.reading.held_out:,} documents held out, a vocabulary of "
        f"{len(run.corpus.vocabulary):,} words; |S| = {run.total():,.0f}; {run.seconds:,.0f} s.</p>",
        f"<p>{html.escape(skipped) if skipped else 'No document was left out.'}</p>",
        table(["setting", ""], [[name, str(value)] for name, value in _settings(run).items()]),
    ]
    return page("Topics", *parts)


def _headline(findings: Findings) -> str:
    """The grade, with the exceptions where there are no problems."""
    if not findings.verdict.ok:
        return findings.verdict.headline
    few = few_effective_draws(np.array([topic.effective_draws for topic in findings.topics]))
    return "No problems found." if few is None else f"No problems found, except that {few}."


def _source_of_draws(run: Run) -> str:
    """Where the draws come from, and what that means for the bounds."""
    if (number := run.training.draws.num_exact_passes) == 1:
        return "They come from 1 exact pass, without the noise of minibatches."
    if number:
        return f"They come from {number} exact passes, without the noise of minibatches."
    return NOT_EXACT


def _settings(run: Run) -> dict[str, object]:
    reading = {name: getattr(run.reading, name) for name in ("format", "key", "pattern", "minimum_tokens")}
    passes = "unlimited" if run.plan.passes is None else run.plan.passes
    return run.settings.to_json() | reading | {"passes": passes}


def topics_figure(findings: Findings) -> Figure:
    """Bars of the most probable words of each topic, with their bounds."""
    topics = by_prevalence(findings.topics)[:_MAX_TOPICS]
    rows = -(-len(topics) // _COLUMNS)
    figure = new_figure(11.0, 1.9 * rows)
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for panel, topic in zip(panels, topics, strict=False):
        words = topic.words[:_WORDS]
        places = np.arange(len(words))
        mean, low, high = (x[: len(words)] for x in (topic.mean, topic.low, topic.high))
        panel.barh(places, mean, color=RIGHT, alpha=0.35)
        panel.hlines(places, low, high, color=RIGHT, linewidth=1.5)
        panel.set_yticks(places, words)
        panel.invert_yaxis()
        panel.locator_params(axis="x", nbins=3)
        tidy(panel, f"topic {topic.label}  ({topic.prevalence:.1%})")
        panel.tick_params(labelsize=7)
    for panel in panels[len(topics) :]:
        panel.set_axis_off()
    return figure


def curve_figure(findings: Findings) -> Figure:
    """The perplexity against the number of documents."""
    figure = new_figure(9.0, 3.6)
    panel = figure.subplots()
    documents, _, of_draw, of_average, _ = curve_to_array(findings.curve).T
    panel.plot(documents, of_draw, color=ACCENT, linewidth=0.8, marker=".", label="current draw")
    panel.plot(documents, of_average, color=RIGHT, linewidth=1.8, label="running average")
    panel.axhline(findings.unigram, color=WRONG, linewidth=1, linestyle="--", label="word frequencies alone")
    panel.axhline(findings.perplexity, color=TRUTH, linewidth=1, linestyle=":", label="stored draws")
    finite_values = [
        x for x in (*of_draw, *of_average, findings.unigram, findings.perplexity) if np.isfinite(x)
    ]
    if len(documents) and documents[-1] > 20 * documents[0]:
        panel.set_xscale("log")
    if finite_values and max(finite_values) > 5 * min(finite_values):
        panel.set_yscale("log")
    tidy(panel, "", "documents", "perplexity")
    panel.legend(frameon=False, fontsize=8)
    return figure


# The figures of the report, each with its description for those who cannot see it.
_FIGURES: tuple[tuple[Callable[[Findings], Figure], str], ...] = (
    (topics_figure, "the most probable words of each topic with credible bounds"),
    (curve_figure, "perplexity of held-out documents against documents read"),
    (
        lambda findings: map_figure(findings.topics, findings.distances),
        "map of the topics by their distances",
    ),
)
