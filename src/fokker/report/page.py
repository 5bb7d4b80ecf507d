"""The report of a run as one self-contained HTML page."""

import base64
import html
import io
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
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


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table of text cells."""
    return f"<table>{_row('th', columns)}{''.join(_row('td', row) for row in rows)}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def image(figure: Figure, alternative: str) -> str:
    """A figure as an <img> element with embedded data."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110)
    return image_of_bytes(buffer.getvalue(), alternative)


def image_of_bytes(png: bytes, alternative: str) -> str:
    """A PNG as an <img> element with embedded data."""
    data = base64.b64encode(png).decode()
    return f'<img alt="{html.escape(alternative)}" src="data:image/png;base64,{data}">'


def page(title: str, *parts: str) -> str:
    """A complete HTML page with these parts."""
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n<h1>{html.escape(title)}</h1>\n" + "\n".join(parts) + "\n</html>\n"
    )


def write_report(trace: "Trace", path: Path, title: str, extra: Sequence[str], summary: "Summary") -> None:
    """Write the summary with its verdict, the settings, and figures of a few series."""
    items = "".join(f"<li>{html.escape(warning)}</li>" for warning in summary.warnings)
    items += "".join(f"<li>Note: {html.escape(note)}.</li>" for note in summary.notes)
    verdict = f'<p class="{_CLASSES[summary.grade]}">{html.escape(summary.verdict)}</p><ul>{items}</ul>'
    settings = ", ".join(
        f"{_SETTING_NAMES.get(name, name.replace('_', ' '))}: {_setting_text(value)}"
        for name, value in trace.settings.items()
        if value is not None
    )
    checks = [[name, f"{value:.3g}"] for name, value in summary.checks.items()]
    parts = [
        verdict,
        *([table(["", ""], checks)] if checks else []),
        *extra,
        "<h2>Posterior</h2>",
        *(table(columns, rows[:_ROWS]) for columns, rows in summary.tables),
        f"<p>{html.escape(settings)}</p>",
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
