"""The residual of every formula in one picture."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.lines import Line2D

from fokker.lab.experiments.errata._entry import THRESHOLD, Finding
from fokker.report.plots import RIGHT, WRONG, new_figure

_COLOUR = {"right": RIGHT, "wrong": WRONG}
_MARKER = {"right": "o", "wrong": "X"}
# A residual that is exactly zero has no place on a logarithmic axis: it is drawn at its end.
_LEAST = 1e-18


def draw(findings: Sequence[Finding], path: Path) -> None:
    """Write the figure to `path`."""
    figure = new_figure(9.5, 0.2 * len(findings) + 1.6)
    axes = figure.add_subplot()
    for row, finding in enumerate(findings):
        value = max(finding.residual, _LEAST)
        colour = _COLOUR[finding.verdict]
        axes.plot([_LEAST, value], [row, row], color=colour, linewidth=0.8, alpha=0.35)
        axes.plot(value, row, _MARKER[finding.verdict], color=colour, markersize=5.5)
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
    handles.append(Line2D([], [], color="0.3", linestyle="--", linewidth=1, label=f"threshold {THRESHOLD:g}"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
