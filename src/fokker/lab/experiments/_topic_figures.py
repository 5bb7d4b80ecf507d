"""Figures and tables of the experiments with topics."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from fokker.lab.experiments._synthetic_figures import STYLES as COMMON
from fokker.lab.experiments._topic_runs import Curve
from fokker.report.plots import RIGHT, TRUTH, WRONG, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axis import Axis

STYLES: dict[str, dict[str, Any]] = {
    "SGLD": COMMON["SGLD"],
    "SGHMC": COMMON["SGHMC"],
    "SGRLD": {"color": "#E69F00", "linestyle": "-"},
    "SGRHMC": {"color": RIGHT, "linestyle": "-"},
    "SCIR": {"color": "#CC79A7", "linestyle": "-."},
    "online VB": {"color": TRUTH, "linestyle": ":"},
}


def _plain(axis: "Axis") -> None:
    """Whole numbers at the ticks of a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_minor_formatter(NullFormatter())


def draw_curves(panels: Mapping[str, Mapping[str, Sequence[Curve]]], unigram: float, path: Path) -> None:
    """Perplexity against documents, mean and range over seeds; a panel for each choice of priors."""
    figure = new_figure(5.2 * len(panels) + 1.0, 4.4)
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, curves) in zip(all_axes, panels.items(), strict=True):
        for name, repeats in curves.items():
            perplexities = np.array([curve.averaged for curve in repeats])
            style = STYLES[name]
            documents = repeats[0].documents
            axes.plot(documents, perplexities.mean(0), label=name, linewidth=1.6, **style)
            if len(perplexities) > 1:
                axes.fill_between(
                    documents,
                    perplexities.min(0),
                    perplexities.max(0),
                    color=style["color"],
                    alpha=0.2,
                    linewidth=0,
                )
        axes.axhline(unigram, color="0.6", linewidth=1.0, label="shares of words")
        axes.set_xscale("log")
        axes.set_yscale("log")
        _plain(axes.xaxis)
        _plain(axes.yaxis)
        tidy(axes, title, "documents", "held-out perplexity" if axes is all_axes[0] else "")
    # A sampler far above all others would leave no room for them.
    lowest = min(c.averaged.min() for curves in panels.values() for r in curves.values() for c in r)
    all_axes[0].set_ylim(0.95 * lowest, 2.5 * unigram)
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path, dpi=130)


def draw_over_steps(
    perplexities: Mapping[tuple[str, float, float], Sequence[float]], unigram: float, path: Path
) -> None:
    """Perplexity against η for each method and a, by (method, a, η): mean and range over seeds."""
    figure = new_figure(9.0, 3.9)
    amounts = sorted({a for _, a, _ in perplexities})
    all_axes = figure.subplots(1, len(amounts), sharey=True, squeeze=False)[0]
    finite = [x for values in perplexities.values() for x in values if np.isfinite(x)]
    top = 1.6 * max(unigram, min(finite, default=unigram))
    for axes, a in zip(all_axes, amounts, strict=True):
        for name, colour, line in (("SGHMC", WRONG, "--"), ("SGNHT", RIGHT, "-")):
            steps = sorted(eta for method, amount, eta in perplexities if (method, amount) == (name, a))
            values = np.array([perplexities[name, a, eta] for eta in steps])
            # What diverged is drawn at the upper edge, as an arrowhead.
            shown = np.where(np.isfinite(values), np.minimum(values, top), top)
            mean = shown.mean(1)
            spread = np.stack([mean - shown.min(1), shown.max(1) - mean])
            axes.errorbar(
                steps, mean, spread, color=colour, linestyle=line, marker="o", capsize=3, label=name
            )
            out = ~(values.mean(1) < top)
            if np.any(out):
                axes.plot(np.array(steps)[out], mean[out], "^", color=colour, markersize=11, clip_on=False)
        axes.axhline(unigram, color="0.6", linewidth=1.0, label="shares of words")
        axes.set_xscale("log")
        tidy(axes, f"a = {a:g}", "η", "test perplexity" if axes is all_axes[0] else "")
    all_axes[0].set_ylim(0.95 * min(finite, default=0.5 * top), top)
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path, dpi=130)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Rows as a table of Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
