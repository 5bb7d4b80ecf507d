"""The figure and the table of the experiment with a neural network."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fokker._core.files import write_text
from fokker.lab.experiments._topic_figures import markdown_table
from fokker.report.plots import new_figure, tidy

if TYPE_CHECKING:
    from fokker.lab.experiments._ding import DingSetting
    from fokker.lab.experiments.ding_bnn import Chain

# One per η, the same for both methods; green for the largest, as in the paper.
_COLOURS = ("#56B4E9", "#E69F00", "#CC79A7", "#009E73")
_LINES = {"SGHMC": "--", "SGNHT": "-"}


def draw_test_errors(by_setting: "Mapping[DingSetting, Sequence[Chain]]", burn_in: int, path: Path) -> None:
    """Test error over iterations, mean and range over seeds: one panel per a, one colour per η."""
    amounts = sorted({setting.a for setting in by_setting})
    steps = sorted({setting.eta for setting in by_setting})
    figure = new_figure(4.6 * len(amounts) + 1.6, 4.4)
    all_axes = figure.subplots(1, len(amounts), sharey=True, squeeze=False)[0]
    for axes, a in zip(all_axes, amounts, strict=True):
        for setting, chains in by_setting.items():
            if setting.a != a:
                continue
            colour = _COLOURS[steps.index(setting.eta) % len(_COLOURS)]
            # A chain that left the finite numbers ends early.
            length = min(len(chain.errors) for chain in chains)
            errors = np.array([chain.errors[:length] for chain in chains])
            iterations = chains[0].iterations[:length]
            axes.plot(
                iterations,
                errors.mean(0),
                color=colour,
                linestyle=_LINES[setting.method],
                linewidth=1.4,
                label=f"{setting.method}, η = {setting.eta:g}",
            )
            if len(chains) > 1:
                axes.fill_between(
                    iterations, errors.min(0), errors.max(0), color=colour, alpha=0.2, linewidth=0
                )
        axes.axvline(burn_in, color="0.7", linewidth=0.8)
        axes.set_yscale("log")
        axes.set_yticks([1, 2, 3, 5, 10, 20, 50, 100], labels=["1", "2", "3", "5", "10", "20", "50", "100"])
        axes.minorticks_off()
        tidy(axes, f"a = {a:g}", "iterations", "test error, %" if axes is all_axes[0] else "")
    all_axes[0].annotate(
        "after burn-in: mean of the draws",
        (burn_in, 1.0),
        xycoords=("data", "axes fraction"),
        fontsize=7,
        color="0.4",
        va="top",
        ha="left",
        xytext=(3, 0),
        textcoords="offset points",
    )
    figure.legend(
        *all_axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8
    )
    figure.savefig(path, dpi=130)


def _in_the_paper(setting: "DingSetting", by_setting: "Mapping[DingSetting, Sequence[Chain]]") -> str:
    """What the text of section 5.2.1 says; it gives no numbers."""
    if setting.method == "SGNHT":
        return "more stable than SGHMC for larger η"
    if setting.a > min(other.a for other in by_setting):
        return "worse as η grows"
    if setting.eta < max(other.eta for other in by_setting):
        return "worse and worse as η grows"
    return "diverges, far beyond the range of the figure"


def write_table(by_setting: "Mapping[DingSetting, Sequence[Chain]]", path: Path) -> None:
    """The last test error of every setting beside what the paper says."""
    rows = []
    for setting, chains in by_setting.items():
        errors = ", ".join(f"{chain.last:.2f}{' (diverged)' if chain.diverged else ''}" for chain in chains)
        energy, friction = np.mean([[chain.kinetic, chain.friction] for chain in chains], axis=0)
        rows.append(
            [
                setting.method,
                f"{setting.a:g}",
                f"{setting.eta:g}",
                errors,
                f"{energy:.3f}",
                f"{friction:.2f}",
                _in_the_paper(setting, by_setting),
            ]
        )
    header = (
        "method",
        "a",
        "η",
        "test error by seed, %",
        "kinetic energy",
        "friction or mean ξ",
        "Ding et al. in words (no numbers in their text)",
    )
    write_text(path, markdown_table(header, rows) + "\n")
