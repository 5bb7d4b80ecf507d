"""A plot of the prevalence of topics over time or by group, and its table for a terminal."""

import numpy as np
from matplotlib.figure import Figure

from fokker._core.digits import percent
from fokker.models.topics.trends import Trends
from fokker.report.plots import RIGHT, TRUTH, new_figure, tidy

# The most topics that are plotted and printed, and the panels per row.
_MAX_PLOTTED, _MAX_PRINTED, _COLUMNS = 12, 12, 3
# The most groups of a printed table, and of labels below a panel.
_MAX_GROUPS, _MAX_TICKS = 6, 6
_CHARACTERS = 44


def trends_figure(trends: Trends) -> Figure:
    """The topics whose prevalence differs most between groups, one panel each.

    Groups that are numbers or dates are connected by a line with a band; others have bars of error.
    """
    chosen = trends.changing[:_MAX_PLOTTED]
    rows = -(-len(chosen) // _COLUMNS)
    figure = new_figure(11.0, 2.1 * rows + 0.4)
    panels = figure.subplots(rows, min(_COLUMNS, len(chosen)), squeeze=False, sharex=True).ravel()
    x = np.arange(len(trends.groups))
    ticks = np.unique(np.linspace(0, len(x) - 1, min(_MAX_TICKS, len(x))).round().astype(int))
    for place, (panel, k) in enumerate(zip(panels, chosen, strict=False)):
        mean, low, high = (100 * values[:, k] for values in (trends.mean, trends.low, trends.high))
        if trends.is_ordered:
            panel.fill_between(x, low, high, color=RIGHT, alpha=0.25, linewidth=0)
            panel.plot(x, mean, color=RIGHT, linewidth=1.5, marker="." if len(x) <= 30 else None)
        else:
            panel.vlines(x, low, high, color=RIGHT, linewidth=1.5)
            panel.plot(x, mean, color=TRUTH, marker="o", markersize=4, linestyle="none")
        panel.set_ylim(bottom=0)
        panel.set_xlim(-0.4, len(x) - 0.6)
        panel.set_xticks(ticks, [trends.groups[i] for i in ticks])
        panel.tick_params(axis="x", rotation=0 if sum(len(trends.groups[i]) for i in ticks) < 40 else 30)
        # The lowest panel of each column has the labels; the last row may not have all columns.
        panel.tick_params(axis="x", labelbottom=place + _COLUMNS >= len(chosen))
        title = trends.label(int(k))
        tidy(panel, title if len(title) <= _CHARACTERS else f"{title[: _CHARACTERS - 1]}…", "", "%")
        panel.tick_params(labelsize=7)
        panel.title.set_fontsize(8)
    for panel in panels[len(chosen) :]:
        panel.set_axis_off()
    intervals = f", {percent(trends.probability)} intervals" if trends.includes else ""
    clear = ""
    if trends.num_clear is not None:
        of_these = "" if "documents" in trends.includes else " in these documents"
        verb = "differs" if trends.num_clear == 1 else "differ"
        clear = f"; {trends.num_clear} of {len(trends.topics)} {verb} clearly{of_these}"
    figure.suptitle(
        f"Prevalence of topics by {trends.by}{intervals}: those that differ most come first{clear}",
        fontsize=10,
        x=0.01,
        ha="left",
    )
    return figure


def trends_table(trends: Trends) -> tuple[list[str], list[list[str]]]:
    """The heads of the columns and the rows of a table: topics that differ most, in some of the groups."""
    number = len(trends.groups)
    shown = np.unique(np.linspace(0, number - 1, min(_MAX_GROUPS, number)).round().astype(int))
    rows = []
    for k in trends.changing[:_MAX_PRINTED]:
        cells = [
            f"{100 * trends.mean[g, k]:.1f} "
            + (
                f"[{100 * trends.low[g, k]:.1f}, {100 * trends.high[g, k]:.1f}]"
                if trends.has_interval[g]
                else "[–]"
            )
            for g in shown
        ]
        rows.append([trends.label(int(k), 3), *cells])
    return [f"topic (% by {trends.by})", *(trends.groups[g] for g in shown)], rows
