"""The report of a run: the verdict, every parameter with the worst first, and figures of each."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
from markupsafe import Markup

from fokker._core.files import write_text
from fokker.report.page import data_part, figures_part, html, page, pairs, table, verdict_part
from fokker.report.parameters import Shown, parameters_data
from fokker.report.steps import constant_statistics, energy_figure, step_figures

if TYPE_CHECKING:
    from fokker.diagnostics import Summary
    from fokker.run.trace import Trace

# Names of settings that do not say what they are.
_SETTING_NAMES = {"taken": "steps taken", "warm_up": "warm-up steps", "burn_in": "burn-in steps"}
# Settings that a reader needs only to run again, or that the verdict has.
_NOT_SHOWN = ("key", "chosen")


def write_report(trace: "Trace", path: Path, title: str, extra: Sequence[str], summary: "Summary") -> None:
    """Write the page of a run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page(title, *trace_parts(trace, summary, extra)))


def trace_parts(trace: "Trace", summary: "Summary", extra: Sequence[str] = (), **bounds: int) -> list[str]:
    """The parts of the page, in HTML; `bounds`: those of `parameters_data`."""
    flagged = named_in_findings(summary)
    order = worst_first(summary, flagged)
    shown = shown_series(trace, summary, order)
    stats = dict(trace.sample_stats)
    divergent = stats.get("is_divergent")
    notes = [f"Note: {note}." for note in summary.notes]
    parts: list[str] = [verdict_part(summary.grade, summary.warnings, notes, summary.checked)]
    if summary.checks:
        parts.append(pairs(summary.measured, "What was measured"))
    parts += [*extra, "<h2>Parameters</h2>", *_tables(summary, order, flagged)]
    if shown.names:
        parts += [
            "<h2>One by one</h2>",
            data_part("parameters", parameters_data(shown, divergent, trace.chains, **bounds)),
        ]
    energy = stats.pop("energy", None)
    # BFMI is about a momentum that is drawn again before each trajectory.
    has_momentum = "num_integration_steps" in stats and energy is not None and energy.shape[1] > 1
    figures = [energy_figure(np.asarray(energy))] if has_momentum else []
    figures += step_figures(stats, float(trace.settings.get("temperature") or 1.0))
    same = constant_statistics(stats)
    if figures or same:
        parts += ["<h2>Steps</h2>", figures_part(figures), html("<p>{{ text }}</p>", text=same)]
    return [*parts, "<h2>The run</h2>", pairs(_settings(trace), "Settings of the run", ("setting", "value"))]


def _tables(summary: "Summary", order: Sequence[int], flagged: set[str]) -> list[Markup]:
    """The tables of the summary, sorted, with all rows."""
    parts = []
    if summary.leaves:
        leaves = sorted(summary.leaves, key=lambda leaf: -severity(leaf.r_hat, leaf.effective, np.nan))
        columns = ["leaf", "shape", "means", "sds", "R-hat", "ESS"]
        parts.append(table(columns, [leaf.cells for leaf in leaves], "Leaves of theta", sortable=True))
    rows = summary.rows()
    if rows:
        shown = [rows[i] for i in order if i < len(rows)]
        text = (
            "The worst first: those that the verdict names, then by R-hat or effective draws, whichever is "
            "worse against its usual limit (1.01, 400)."
        )
        parts.append(html('<p class="soft order">{{ text }}</p>', text=text))
        columns = ["parameter", *summary.columns[1:]]
        parts.append(table(columns, shown, "Parameters", sortable=True, of_parameters=True, flagged=flagged))
    return parts


def named_in_findings(summary: "Summary") -> set[str]:
    """The quantities that a finding names."""
    texts = "\n".join(finding.text for finding in summary.findings)

    def pattern(name: str) -> str:
        if len(name) == 1:  # which may be a word of the sentence
            return rf"\bof {re.escape(name)}(?: is|[,:;])"
        # Not within another name: mu is not named by mu[3], nor b[1] by ab[1].
        return rf"(?<![\w\[.]){re.escape(name)}(?![\w\[])"

    return {name for name in summary.names if re.search(pattern(name), texts)}


def severity(r_hat: float, effective: float, tail: float) -> float:
    """How bad a row is: 1 at the usual limits, R-hat 1.01 and 400 effective draws; NaN counts as nothing."""
    fewest = np.nanmin([effective, tail, np.inf])
    return float(np.nanmax([0.0, (r_hat - 1) / 0.01, 400 / max(fewest, 1.0)]))


def worst_first(summary: "Summary", flagged: set[str]) -> list[int]:
    """The places of all quantities: those named in findings, then by severity; constants last."""
    statistics = zip(summary.r_hat, summary.effective, summary.tail, strict=True)
    keys = []
    for i, values in enumerate(statistics):
        is_constant = summary.deviation[i] == 0
        keys.append((summary.names[i] not in flagged, is_constant, -severity(*map(float, values)), i))
    return [key[3] for key in sorted(keys)]


def shown_series(trace: "Trace", summary: "Summary", order: Sequence[int]) -> Shown:
    """The series that are drawn, in the order of the table; none where only moments were kept."""
    if trace.draws is None:
        return Shown([], [])
    known: Mapping[str, np.ndarray] = summary.series
    if not summary.leaves:
        flat = trace.flat()
        known = {**known, **{name: flat.values[:, :, i] for i, name in enumerate(flat.names)}}
    moving = [summary.names[i] for i in order if summary.deviation[i] != 0 and summary.names[i] in known]
    names = moving or [summary.names[i] for i in order if summary.names[i] in known]
    return Shown(names, [known[name] for name in names])


def _settings(trace: "Trace") -> dict[str, str]:
    return {
        _SETTING_NAMES.get(name, name.replace("_", " ")): _setting_text(value)
        for name, value in trace.settings.items()
        if value is not None and name not in _NOT_SHOWN and (name, value) != ("keep", "draws")
    }


def _setting_text(value: object) -> str:
    """A setting as short text; a step size may be an array or a schedule."""
    if callable(value):
        return "by a schedule"
    if isinstance(value, jax.Array | np.ndarray | np.generic) and np.ndim(value) == 0:
        value = np.asarray(value).item()
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
