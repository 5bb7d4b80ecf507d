"""Figures of the experiments on known densities: exact in grey, right in cool colours, wrong in warm ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fokker.lab.experiments._histogram import Histogram
from fokker.report.plots import ACCENT, RIGHT, TRUTH, WRONG, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A colour and a line style for each sampler, as not every reader can see the colours.
STYLES: dict[str, dict[str, Any]] = {
    "SGLD": {"color": "#56B4E9", "linestyle": "-"},
    "SGHMC": {"color": ACCENT, "linestyle": "--"},
    "gSGRHMC": {"color": RIGHT, "linestyle": "-"},
    "SGNHT": {"color": RIGHT, "linestyle": "-"},
    "naive gSGRHMC": {"color": WRONG, "linestyle": "-"},
    "naive SGHMC": {"color": "#E69F00", "linestyle": "-."},
}


def running_mean(values: np.ndarray) -> np.ndarray:
    """The mean of the values so far."""
    return np.cumsum(values) / np.arange(1, values.size + 1)


def _exact(panel: "Axes", histogram: Histogram) -> None:
    exact = histogram.density(histogram.exact)
    panel.fill_between(histogram.centres, exact, step="mid", color="0.85", label="exact")


def draw_distances(
    rows: Sequence[Mapping[str, Any]], histograms: Mapping[str, Histogram], path: Path
) -> None:
    """Densities over the exact ones, one panel per target, and the distances beside their floors."""
    figure = new_figure(13.0, 4.2)
    panels = figure.subplots(1, 3, width_ratios=(1, 1, 1.25))
    for panel, (target, histogram) in zip(panels, histograms.items(), strict=False):
        _exact(panel, histogram)
        for row in (row for row in rows if row["target"] == target):
            density = histogram.density(row["shares"])
            style = STYLES[row["sampler"]]
            panel.plot(histogram.centres, density, label=row["sampler"], linewidth=1.4, **style)
        tidy(panel, f"U = {target}", "θ", "density")
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    bars = panels[2]
    names, targets = list(dict.fromkeys(row["sampler"] for row in rows)), list(histograms)
    for row in rows:
        second = row["target"] == targets[1]
        place = names.index(row["sampler"]) + (0.2 if second else -0.2)
        error = np.std(row["KL"], ddof=1) if len(row["KL"]) > 1 else None
        colour = STYLES[row["sampler"]]["color"]
        style = {"color": colour, "hatch": "//" if second else "", "edgecolor": "white", "ecolor": TRUTH}
        bars.bar(place, np.mean(row["KL"]), 0.36, yerr=error, capsize=3, **style)
        bars.plot([place - 0.18, place + 0.18], [np.mean(row["floor"])] * 2, color=TRUTH, linewidth=2)
    bars.set_yscale("log")
    bars.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names], fontsize=8)
    tidy(bars, f"KL; plain {targets[0]}, hatched {targets[1]}; black: exact draws", "", "KL(sampled‖exact)")
    figure.savefig(path, dpi=130)


def draw_thermostat(
    results: Mapping[str, Mapping[str, Any]],
    right: Sequence[str],
    histogram: Histogram,
    thin: int,
    path: Path,
) -> None:
    """Above, densities over the exact one; below, the running mean of the kinetic energy, and of ξ."""
    figure = new_figure(12.5, 5.6)
    panels = figure.subplots(2, 4, sharey="row")
    for i, (name, x) in enumerate(results.items()):
        above, below = panels[:, i]
        colour = RIGHT if name in right else WRONG
        _exact(above, histogram)
        above.plot(histogram.centres, histogram.density(x["shares"]), color=colour, label="sampled")
        tidy(above, name, "θ", "" if i else "density")
        steps = thin * np.arange(1, x["kinetic"].shape[-1] + 1)
        below.plot(steps, running_mean(x["kinetic"][0, 0]), color=colour, label="kinetic energy")
        if np.ptp(x["xi"]) > 0:
            below.plot(steps, running_mean(x["xi"][0, 0]), color=TRUTH, linestyle=":", label="ξ")
        below.axhline(0.5, color="0.6", linewidth=0.8)
        below.set(xscale="log", yscale="log", ylim=(0.02, 20))
        tidy(below, "", "step", "" if i else "mean so far, one chain")
    panels[0, 0].legend(frameon=False, fontsize=8, loc="upper right")
    panels[1, -1].legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(path, dpi=130)


def draw_mean(
    results: Mapping[tuple[str, str], Mapping[str, Any]], histogram: Histogram, thin: int, path: Path
) -> None:
    """Densities by SGNHT and by SGHMC, and ξ of the former; `results` by sampler and label of the setting."""
    figure = new_figure(12.5, 3.9)
    panels = figure.subplots(1, 3)
    labels = list(dict.fromkeys(label for _, label in results))
    colours = (STYLES["SGLD"]["color"], RIGHT, WRONG, STYLES["naive SGHMC"]["color"])
    styles = dict(zip(labels, zip(("-", "--", "-.", ":"), colours, strict=True), strict=True))
    for panel, name in zip(panels, ("SGNHT", "SGHMC"), strict=False):
        _exact(panel, histogram)
        for label, (line, colour) in styles.items():
            density = histogram.density(results[name, label]["shares"])
            panel.plot(histogram.centres, density, line, color=colour, label=label)
        panel.set_ylim(0, 0.55)
        tidy(panel, name, "(μ - x̄)√N", "density")
    panels[1].legend(frameon=False, fontsize=8, loc="upper left")
    for label, (line, colour) in styles.items():
        row = results["SGNHT", label]
        thousands = thin * np.arange(1, row["xi so far"].size + 1) / 1000
        panels[2].plot(thousands, row["xi so far"], line, color=colour)
        panels[2].axhline(row["A + B"], color=TRUTH, linewidth=0.6, linestyle=":")
    panels[2].set(yscale="log", ylim=(0.5, None))
    tidy(panels[2], "ξ of SGNHT, mean so far; dotted: A + B", "thousand steps", "")
    figure.savefig(path, dpi=130)


def draw_variance(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Every setting as a point, and the least time to every error as a stair."""
    figure = new_figure(8.0, 4.8)
    panel = figure.subplots()
    step_sizes = sorted({row["h"] for row in rows})
    for name, marker in (("SGNHT", "o"), ("SGHMC", "X")):
        of = [row for row in rows if row["sampler"] == name and np.isfinite(row["time"]).all()]
        errors, times = (np.array([row[part].mean() for row in of]) for part in ("RMSE", "time"))
        sizes = [20 + 25 * step_sizes.index(row["h"]) for row in of]
        colour = STYLES[name]["color"]
        panel.scatter(errors, times, sizes, color=colour, marker=marker, alpha=0.75, label=name, linewidths=0)
        order = np.argsort(errors)
        stairs = np.minimum.accumulate(times[order])
        panel.plot(errors[order], stairs, drawstyle="steps-post", linewidth=1.2, **STYLES[name])
    panel.set(xscale="log", yscale="log")
    panel.legend(frameon=False, fontsize=9)
    title = "Mean and precision of a normal: one point per setting (larger: larger h), line: the best"
    tidy(panel, title, "RMSE of the marginal densities", "autocorrelation time of μ + γ, steps")
    figure.savefig(path, dpi=130)
