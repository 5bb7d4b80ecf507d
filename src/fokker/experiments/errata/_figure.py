"""The residual of every formula in one picture."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fokker.experiments.errata._entry import THRESHOLD, Finding

# Two colours that those who do not tell red from green can tell apart (Okabe and Ito), and two shapes.
_COLOUR = {"right": "#0072B2", "wrong": "#D55E00"}
_MARKER = {"right": "o", "wrong": "X"}
# Residuals that are exactly zero, or that do not exist because the library refuses the formula, have no place
# on a logarithmic axis: they are drawn at its two ends.
_LEAST, _REFUSED = 1e-18, 300.0


def draw(findings: Sequence[Finding], path: Path) -> None:
    """Write the figure to `path`."""
    figure = Figure(figsize=(9.5, 0.2 * len(findings) + 1.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for row, finding in enumerate(findings):
        refused = finding.residual is None
        value = _REFUSED if refused else max(finding.residual or 0.0, _LEAST)
        colour = _COLOUR[finding.found]
        axes.plot([_LEAST, value], [row, row], color=colour, linewidth=0.8, alpha=0.35)
        axes.plot(
            value,
            row,
            _MARKER[finding.found],
            color=colour,
            markersize=5.5,
            markerfacecolor="white" if refused else colour,
        )
        if not finding.agrees:
            axes.annotate("not as expected", (value, row), textcoords="offset points", xytext=(8, -3))
    axes.axvline(THRESHOLD, color="0.3", linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(_LEAST / 2, 1000)
    axes.set_ylim(len(findings) - 0.3, -0.7)
    axes.set_yticks(range(len(findings)), [finding.key for finding in findings], fontsize=7)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("residual, relative to the size of its terms")
    axes.set_title("Formulas as printed and as corrected, by the checker", fontsize=11, loc="left")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    handles = [
        Line2D([], [], color=_COLOUR[name], marker=_MARKER[name], linestyle="", label=f"found {name}")
        for name in ("right", "wrong")
    ]
    handles.append(
        Line2D(
            [], [], color=_COLOUR["wrong"], marker="X", markerfacecolor="white", linestyle="", label="refused"
        )
    )
    handles.append(Line2D([], [], color="0.3", linestyle="--", linewidth=1, label=f"threshold {THRESHOLD:g}"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
