"""A run over topics as one page: the topics with their bounds, the perplexity, the map, the verdict."""

import html

import numpy as np
from matplotlib.figure import Figure

from fokker.models.lda.results import Findings, by_prevalence, plane
from fokker.models.lda.run import Run
from fokker.report.page import image, page, table
from fokker.report.plots import ACCENT, RIGHT, TRUTH, WRONG, new_figure, tidy

# Topics that are drawn, and words of each.
_SHOWN, _WORDS, _COLUMNS = 40, 8, 4


def report(run: Run, findings: Findings) -> str:
    """The report of a run, in HTML."""
    worries = "".join(f"<li>{html.escape(worry)}</li>" for worry in findings.worries)
    verdict = (
        f'<p class="bad">Do not trust these topics yet:</p><ul>{worries}</ul>'
        if findings.worries
        else '<p class="good">Nothing speaks against these topics.</p>'
    )
    topics = by_prevalence(findings.topics)
    rows = [
        [
            str(t.number),
            " ".join(t.words[:10]),
            f"{t.prevalence:.1%}",
            f"{t.coherence:+.2f}",
            "–" if np.isnan(t.effective) else f"{t.effective:.0f}",
        ]
        for t in topics
    ]
    left_out = run.tally.sentence()
    shown = f" The {_SHOWN} most prevalent of {len(topics)} are drawn." if len(topics) > _SHOWN else ""
    parts = [
        verdict,
        f"<p>{html.escape(' '.join(findings.notes))}</p>",
        "<h2>Topics</h2>",
        table(["topic", "words", "prevalence", "NPMI", "effective draws"], rows),
        "<p>Prevalence is a topic's share of the words of the held-out documents, NPMI the coherence of its "
        "ten likeliest words in those: 1 if they always come together, 0 if by chance, -1 if never.</p>",
        "<h2>Their words</h2>",
        f"<p>E[β<sub>kw</sub>], with 5 % and 95 % bounds over {findings.draws} draws, wider than the "
        f"posterior's by the noise of minibatches.{shown}</p>",
        image(topics_figure(findings), "the likeliest words of each topic with credible bounds"),
        "<h2>Held-out perplexity</h2>",
        image(curve_figure(findings), "perplexity of held-out documents against documents seen"),
        "<h2>Map of the topics</h2>",
        "<p>Topics that share words lie near each other (Hellinger's distance, scaled to the plane); the "
        "area is the prevalence.</p>",
        image(map_figure(findings), "topics in the plane by their distance"),
        "<h2>How it was made</h2>",
        f"<p>{run.trained:,} documents and {run.tokens:,} words of {html.escape(run.corpus.source.label)}, "
        f"{run.chain.number:,} steps, {run.reading.held_out:,} documents held out, a vocabulary of "
        f"{len(run.corpus.vocabulary):,} words; |S| = {run.total(1):,.0f}; {run.seconds:,.0f} s.</p>",
        f"<p>{html.escape(left_out) if left_out else 'No document was left out.'}</p>",
        table(["setting", ""], [[name, str(value)] for name, value in _settings(run).items()]),
    ]
    return page("Topics", *parts)


def _settings(run: Run) -> dict[str, object]:
    reading = {name: getattr(run.reading, name) for name in ("format", "key", "pattern", "minimum_tokens")}
    passes = "for ever" if run.passes is None else run.passes
    return run.settings.to_json() | reading | {"passes": passes}


def topics_figure(findings: Findings) -> Figure:
    """Bars of the likeliest words of each topic, with their bounds."""
    topics = by_prevalence(findings.topics)[:_SHOWN]
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
        tidy(panel, f"topic {topic.number}  ({topic.prevalence:.1%})")
        panel.tick_params(labelsize=7)
    for panel in panels[len(topics) :]:
        panel.set_axis_off()
    return figure


def curve_figure(findings: Findings) -> Figure:
    """Perplexity against documents."""
    figure = new_figure(9.0, 3.6)
    panel = figure.subplots()
    documents, _, of_draw, of_average = np.array(findings.curve, float).reshape(-1, 4).T
    panel.plot(documents, of_draw, color=ACCENT, linewidth=0.8, marker=".", label="of the draw")
    panel.plot(documents, of_average, color=RIGHT, linewidth=1.8, label="of the running average")
    panel.axhline(findings.unigram, color=WRONG, linewidth=1, linestyle="--", label="of frequencies alone")
    panel.axhline(findings.perplexity, color=TRUTH, linewidth=1, linestyle=":", label="of the draws kept")
    finite = [x for x in (*of_draw, *of_average, findings.unigram, findings.perplexity) if np.isfinite(x)]
    if len(documents) and documents[-1] > 20 * documents[0]:
        panel.set_xscale("log")
    if finite and max(finite) > 5 * min(finite):
        panel.set_yscale("log")
    tidy(panel, "", "documents", "perplexity")
    panel.legend(frameon=False, fontsize=8)
    return figure


def map_figure(findings: Findings) -> Figure:
    """Topics as circles in the plane."""
    figure = new_figure(9.0, 6.0)
    panel = figure.subplots()
    points = plane(findings.distances)
    prevalence = np.array([topic.prevalence for topic in findings.topics])
    panel.scatter(
        points[:, 0], points[:, 1], s=6_000 * prevalence + 4, color=RIGHT, alpha=0.3, edgecolor=RIGHT
    )
    named = {topic.number for topic in by_prevalence(findings.topics)[:_SHOWN]}
    for (x, y), topic in zip(points, findings.topics, strict=True):
        words = f"\n{', '.join(topic.words[:2])}" if topic.number in named else ""
        panel.annotate(f"{topic.number}{words}", (x, y), fontsize=6.5, ha="center", va="center")
    panel.margins(0.12)
    panel.set_aspect("equal", adjustable="datalim")
    panel.set_axis_off()  # only distances mean something
    return figure
