"""The report of a run: the verdict, the topics with their bounds, the perplexity, and a map."""

import html
from collections.abc import Sequence

import numpy as np

from fokker._core.digits import percent
from fokker.models.topics.curve import CurvePoint, curve_to_array
from fokker.models.topics.results import (
    Findings,
    Topic,
    bound_names,
    by_prevalence,
    embed_in_plane,
    headline,
)
from fokker.models.topics.run import TopicRun
from fokker.models.topics.watcher import Show
from fokker.models.topics.wording import NOT_EXACT, number_of_documents
from fokker.report.figures import Axis, Figure, Mark, rule
from fokker.report.page import choice_part, figure_part, page, pairs, table, verdict_part

# Words of a topic that are plotted.
_WORDS = 10
_COLUMNS = ("topic", "words", "prevalence", "NPMI", "c_v", "u_mass", "effective draws", "steady words")


def report(run: TopicRun, findings: Findings, show: Show = lambda *progress: None) -> str:
    """The report of a run, in HTML."""
    verdict = findings.verdict
    topics = by_prevalence(findings.topics)
    rows = [
        [
            t.label,
            " ".join(t.words[:10]),
            f"{percent(t.prevalence, 1)}",
            f"{t.coherence:+.2f}",
            f"{t.c_v:.2f}",
            f"{t.u_mass:.1f}",
            "–" if np.isnan(t.effective_draws) else f"{t.effective_draws:.0f}",
            str(t.steady_words),
        ]
        for t in topics
    ]
    skipped = run.tally.sentence()
    show("drawing the report", 0, 1, "pages")
    parts = [
        verdict_part(verdict.grade, verdict.problems, verdict.notes, word=headline(findings)),
        "<h2>Topics</h2>",
        table(_COLUMNS, rows, "Topics", sortable=True),
        "<p>Prevalence is the share of a topic in the words of all documents. NPMI, c_v and u_mass measure "
        "the coherence of its ten most probable words in the held-out and the first "
        f"{run.training.sample.size:,} training documents. NPMI is 1 if they always occur together, 0 if by "
        "chance, -1 if never; c_v is mostly between 0 and 1, the higher the more coherent; u_mass is at most "
        "0. Steady words are those of these ten that are the same in both halves of the draws.</p>",
        "<h2>Their words</h2>",
        f"<p>E[β<sub>kw</sub>], with {' and '.join(bound_names(findings.probability))} bounds over "
        f"{findings.draws} draws. "
        f"{_source_of_draws(run)}</p>",
        choice_part(word_figures(topics), "words"),
        "<h2>Held-out perplexity</h2>",
        figure_part(
            curve_figure(findings.curve, findings.predictions.unigram, findings.predictions.perplexity)
        ),
        "<h2>Map of the topics</h2>",
        figure_part(map_figure(findings.topics, findings.distances)),
        "<h2>The run</h2>",
        f"<p>{documents_used(run)} and {run.tokens:,} words in all, of "
        f"{html.escape(run.corpus.source.label)}, "
        f"{run.training.chain.number:,} steps, {number_of_documents(run.reading.held_out or 0)} held out, "
        f"a vocabulary of {len(run.corpus.vocabulary):,} words; |S| = {run.total():,.0f}; "
        f"{run.seconds:,.0f} s.</p>",
        f"<p>{html.escape(skipped) if skipped else 'No document was left out.'}</p>",
        pairs(_settings(run), "Settings", ("setting", "value")),
    ]
    return page("Topics", *parts)


def _source_of_draws(run: TopicRun) -> str:
    """Where the draws come from, and what that means for the bounds."""
    if (number := run.training.draws.num_exact_passes) == 1:
        return "They come from 1 exact pass, without the noise of minibatches."
    if number:
        return f"They come from {number} exact passes, without the noise of minibatches."
    return NOT_EXACT


def _settings(run: TopicRun) -> dict[str, str]:
    reading = {name: getattr(run.reading, name) for name in ("format", "key", "pattern", "minimum_tokens")}
    passes = "unlimited" if run.plan.passes is None else run.plan.passes
    known = run.settings.to_json() | reading | {"passes": passes}
    return {
        name.replace("_", " "): f"{value:,}" if type(value) is int else str(value)
        for name, value in known.items()
        if value is not None
    }


def documents_used(run: TopicRun) -> str:
    """How many documents the steps have used: after whole passes how many there are, else over all passes."""
    number, plan = run.training.documents, run.plan
    if plan.passes == 1:
        return number_of_documents(number)
    # A stream that continues without a skip may end with other documents than those of its passes.
    if plan.passes and plan.is_complete and number % plan.passes == 0:
        return f"{number_of_documents(number // plan.passes)}, {plan.passes} passes,"
    return f"{number_of_documents(number)}, each counted in every pass,"


def word_figures(topics: Sequence[Topic]) -> dict[str, Figure]:
    """Bars of the most probable words of each topic, with their bounds, by the name of the topic."""
    figures = {}
    for topic in topics:
        words = topic.words[:_WORDS]
        places = -np.arange(len(words))
        mean, low, high = (x[: len(words)] for x in (topic.mean, topic.low, topic.high))
        title = f"topic {topic.label} ({percent(topic.prevalence, 1)})"
        figures[f"{title}: {' '.join(words[:3])}"] = Figure(
            title,
            f"Its {len(words)} most probable words: {', '.join(words)}.",
            [
                Mark("lengths", "chain-0", "mean", mean, places, opacity=0.4),
                Mark("intervals", "truth", "bounds", y=places, low=low, high=high, along="x", width=2),
            ],
            Axis("probability"),
            Axis(names=words),
        )
    return figures


def curve_figure(curve: Sequence[CurvePoint], unigram: float | None, perplexity: float | None) -> Figure:
    """The perplexity against the number of documents, with those of word frequencies and of stored draws."""
    documents, _, of_draw, of_average, _ = curve_to_array(curve).T
    marks = [
        Mark("line", "chain-2", "current draw", documents, of_draw, width=1),
        Mark("line", "chain-0", "running average", documents, of_average, width=2),
    ]
    if unigram is not None:
        marks.append(rule(unigram, "word frequencies alone", colour="bad"))
    if perplexity is not None:
        marks.append(rule(perplexity, "stored draws"))
    finite = [x for x in (*of_draw, *of_average, *(m.at for m in marks if m.at)) if np.isfinite(x)]
    is_long = len(documents) > 1 and documents[-1] > 20 * max(documents[0], 1)
    return Figure(
        "Held-out perplexity",
        _curve_text(curve, perplexity),
        marks,
        Axis("documents, counted in every pass", log=bool(is_long)),
        Axis("perplexity", log=bool(finite) and max(finite) > 5 * min(finite)),
    )


def _curve_text(curve: Sequence[CurvePoint], perplexity: float | None) -> str:
    """The last perplexities, and what each is of."""
    if not curve:
        return "There is no evaluation yet."
    last = curve[-1]
    text = (
        f"The running average is {last.of_average:,.0f} after {number_of_documents(last.documents)}: the "
        "lower the better."
    )
    if perplexity is not None:
        text += (
            " It is that of the draws of at least the second half of the evaluations, averaged; "
            f"{perplexity:,.0f}, in the verdict, is that of the stored draws alone."
        )
    if sum(point.documents == last.documents for point in curve) > 1:
        text += (
            " The vertical line at the right end shows draws made after the last document: they all have the "
            "same number of documents."
        )
    return text


def map_figure(topics: Sequence[Topic], distances: np.ndarray) -> Figure:
    """The topics in the plane, by the distances between them (K, K); the area of a circle is prevalence."""
    x, y = embed_in_plane(distances).T
    largest = max(topic.prevalence for topic in topics)
    return Figure(
        "Map of the topics",
        "Topics that share words are near each other (Hellinger distance, scaled to the plane); the area of "
        "a circle is the prevalence. Zoom in to see the hidden names.",
        [
            Mark(
                "points",
                "chain-0",
                x=x,
                y=y,
                size=[topic.prevalence / largest for topic in topics],
                text=[f"{topic.label}: {' '.join(topic.words[:3])}" for topic in topics],
                opacity=0.25,
            )
        ],
        is_map=True,
    )
