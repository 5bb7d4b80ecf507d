"""The report of a run as one self-contained HTML page."""

import base64
import io
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jinja2
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from fokker._core.files import write_text
from fokker.diagnostics import Grade
from fokker.report.plots import ACCENT, RIGHT, TRUTH, new_figure, tidy

if TYPE_CHECKING:
    from fokker.diagnostics import Summary
    from fokker.run.trace import Trace

# The most rows of a table.
_ROWS = 200
# Colours of chains, by Okabe and Ito, which are distinguishable with any common colour vision.
_COLOURS = (RIGHT, "#E69F00", ACCENT, "#CC79A7")
_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
pre{background:#f4f4f4;padding:1rem;overflow-x:auto;white-space:pre-wrap}img{max-width:100%}
td,th{padding:.2rem 1rem .2rem 0;text-align:left}
.bad{color:#b03a00;font-weight:600}.care{color:#8a5a00;font-weight:600}.good{color:#005a8c}"""
_CLASSES = {Grade.GOOD: "good", Grade.CARE: "care", Grade.BAD: "bad"}


_environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{ title }}</title>
<style>{{ style }}</style>
<h1>{{ title }}</h1>
{% for part in parts %}
{{ part }}
{% endfor %}
</html>
"""
_TABLE = """<table><tr>{% for name in columns %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table>"""
_VERDICT = """<p class="{{ kind }}">{{ verdict }}</p><ul>
{% for item in items %}
<li>{{ item }}</li>
{% endfor %}
</ul>"""


def html(template: str, **values: object) -> Markup:
    """A piece of a page by a template of Jinja; values that are not such pieces themselves are escaped."""
    return Markup(_environment.from_string(template).render(values))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table of text cells."""
    return html(_TABLE, columns=columns, rows=rows)


def image(figure: Figure, alternative: str) -> Markup:
    """A figure as an <img> element with embedded data."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110)
    return image_of_bytes(buffer.getvalue(), alternative)


def image_of_bytes(png: bytes, alternative: str) -> Markup:
    """A PNG as an <img> element with embedded data."""
    data = base64.b64encode(png).decode()
    return html('<img alt="{{ text }}" src="data:image/png;base64,{{ data }}">', text=alternative, data=data)


def page(title: str, *parts: str) -> str:
    """A complete page with these parts, which are HTML."""
    return str(html(_PAGE, title=title, style=Markup(_STYLE), parts=map(Markup, parts)))


def verdict_part(grade: Grade, sentence: str, items: Sequence[str]) -> Markup:
    """A verdict in the colour of its grade, and what it rests on."""
    return html(_VERDICT, kind=_CLASSES[grade], verdict=sentence, items=items)


def write_report(trace: "Trace", path: Path, title: str, extra: Sequence[str], summary: "Summary") -> None:
    """Write the summary with its verdict, the settings, and figures of a few series."""
    items = [*summary.warnings, *(f"Note: {note}." for note in summary.notes)]
    settings = ", ".join(
        f"{_SETTING_NAMES.get(name, name.replace('_', ' '))}: {_setting_text(value)}"
        for name, value in trace.settings.items()
        if value is not None
    )
    checks = [[name, f"{value:.3g}"] for name, value in summary.checks.items()]
    parts = [
        verdict_part(summary.grade, summary.verdict, items),
        *([table(["", ""], checks)] if checks else []),
        *extra,
        "<h2>Posterior</h2>",
        *(table(columns, rows[:_ROWS]) for columns, rows in summary.tables),
        html("<p>{{ settings }}</p>", settings=settings),
    ]
    if summary.series:
        parts += ["<h2>Chains</h2>", image(_chains(summary.series), "traces and marginal densities")]
    if trace.sample_stats:
        parts += ["<h2>Steps</h2>", image(_statistics(trace), "statistics of the steps, as a running mean")]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page(title, *parts))


# Names of settings that do not say what they are.
_SETTING_NAMES = {"taken": "steps taken"}


def _setting_text(value: object) -> str:
    """A setting as short text; a step size may be an array or a schedule."""
    if callable(value):
        return "by a schedule"
    return f"{float(value):.4g}" if isinstance(value, jax.Array) else str(value)


def _chains(series: Mapping[str, np.ndarray]) -> Figure:
    figure = new_figure(9.0, 1.5 * len(series))
    panels = figure.subplots(len(series), 2, squeeze=False, width_ratios=(3, 1))
    for i, (name, values) in enumerate(series.items()):
        step = max(1, values.shape[1] // 1000)
        for chain, colour in zip(values, itertools.cycle(_COLOURS)):
            places = np.arange(0, len(chain), step)
            panels[i, 0].plot(places, chain[::step], color=colour, linewidth=0.5, alpha=0.7)
            counts, edges = np.histogram(chain, 40, density=True)
            panels[i, 1].stairs(counts, edges, color=colour, linewidth=1)
        # Matplotlib takes what is between two signs of a dollar for a formula.
        tidy(panels[i, 0], name.replace("$", r"\$"))
        tidy(panels[i, 1])
        panels[i, 1].set_yticks([])
        panels[i, 1].locator_params(axis="x", nbins=3)
    return figure


def _statistics(trace: "Trace") -> Figure:
    figure = new_figure(9.0, 2.2 * len(trace.sample_stats))
    panels = figure.subplots(len(trace.sample_stats), 1, squeeze=False)[:, 0]
    for panel, (name, values) in zip(panels, trace.sample_stats.items(), strict=True):
        running = np.cumsum(values.mean(axis=0)) / np.arange(1, values.shape[1] + 1)
        panel.plot(values.mean(axis=0), color=ACCENT, linewidth=0.4, alpha=0.5)
        panel.plot(running, color=RIGHT, linewidth=1.5, label="running mean")
        if name == "kinetic_temperature":
            panel.axhline(trace.settings.get("temperature", 1.0), color=TRUTH, linewidth=1, linestyle="--")
        tidy(panel, name.replace("_", " "), "draw")
        panel.legend(frameon=False, fontsize=8)
    return figure
