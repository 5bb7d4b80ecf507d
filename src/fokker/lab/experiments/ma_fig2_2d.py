r"""Ma, Chen, Fox (2015), Figure 2 (right; arXiv: Figure 3, left): how fast a bent valley is explored.

U = θ₁⁴/10 + (4(θ₂ + 1.2) - θ₁²)²/2 by SGLD, SGHMC and gSGRHMC with G⁻¹ = 1.5√(U + 0.5): KL(sampled‖exact) of
one chain's histogram against the number of its steps, each method at its best step size of a grid. Ma et al.
print Euler steps for all three; SGHMC as it was published, and the library's, takes symplectic Euler steps.
The claim depends on which it is, so both are tried, each for both methods that have a momentum.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._synthetic_figures import STYLES
from fokker.lab.experiments._valley import (
    CELLS,
    GRIDS,
    INTEGRATORS,
    PATH_THIN,
    START,
    ValleySetting,
    chain,
    exact_density,
    measure,
)
from fokker.report.plots import TRUTH, density_contours, new_figure, tidy

# Steps, steps of the variants, chains per seed.
QUICK, FULL = (72_900, 72_900, 4), (1_968_300, 218_700, 6)
FIGURE = "ma-fig2-2d.png"
METHODS = ("SGLD", "SGHMC", "gSGRHMC")
LEVELS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
# The level at whose best step sizes the paths are drawn.
DRAWN_LEVEL = 0.1
AS_CLAIMED = "as claimed"
CLAIMED: dict[str, dict[str, float]] = {AS_CLAIMED: {}}
VARIANTS: dict[str, dict[str, float]] = {
    "exact gradient": {"noise": 0.0},
    "gradient noise of variance 4": {"noise": 4.0},
    "friction 0.3 in SGHMC": {"friction": 0.3},
    "friction 3 in SGHMC": {"friction": 3.0},
}


def steps_to(row: Mapping[str, Any], level: float, lenient: bool = False) -> float:
    """Steps after which the distance is at most `level`, interpolated linearly in the logarithms.

    Infinite where it is never, or, unless `lenient`, where the chains blow up later.
    """
    distance, steps = np.asarray(row["KL"]), np.asarray(row["steps"])
    reached = np.flatnonzero(distance <= level)
    if reached.size == 0 or (not lenient and distance[-1] > 2 * distance.min()):
        return np.inf
    last = reached[0]
    if last == 0:
        return float(steps[0])
    part = np.log(distance[last - 1] / level) / np.log(distance[last - 1] / distance[last])
    return float(steps[last - 1] * (steps[last] / steps[last - 1]) ** part)


def competing(rows: Sequence[Mapping[str, Any]], integrator: str, variant: str) -> list[dict[str, Any]]:
    """The rows that a variant compares, all cut to the shortest of them.

    SGLD's steps are always Euler's; where a variant is SGHMC's alone the others are as claimed.
    """
    has = {row["method"] for row in rows if row["variant"] == variant}
    chosen = [
        dict(row)
        for row in rows
        if row["variant"] == (variant if row["method"] in has else AS_CLAIMED)
        and row["integrator"] == ("Euler" if row["method"] == "SGLD" else integrator)
    ]
    length = min(len(row["KL"]) for row in chosen)
    return [row | {"KL": row["KL"][:length], "steps": row["steps"][:length]} for row in chosen]


def best(rows: Sequence[Mapping[str, Any]], level: float, lenient: bool = False) -> dict[str, Any]:
    """For every method the row that reaches `level` in the fewest steps."""

    def order(row: Mapping[str, Any]) -> tuple[float, float]:
        return steps_to(row, level, lenient), row["KL"][-1]

    return {method: min((row for row in rows if row["method"] == method), key=order) for method in METHODS}


def winners(rows: Sequence[Mapping[str, Any]], lenient: bool = False) -> dict[float, str]:
    """The fastest method to every level that one of them reaches."""
    fastest = {}
    for level in LEVELS:
        steps = {m: steps_to(row, level, lenient) for m, row in best(rows, level, lenient).items()}
        if min(steps.values()) < np.inf:
            fastest[level] = min(steps, key=lambda method: steps[method])
    return fastest


def _listed(first: Mapping[float, str]) -> str:
    return ", ".join(f"{level:g}: {name}" for level, name in first.items())


def claims(rows: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """One claim for each integrator: gSGRHMC is first to every level that is reached at all."""
    results = []
    for integrator in INTEGRATORS:
        claimed = competing(rows, integrator, AS_CLAIMED)
        first = winners(claimed)
        numbers: dict[str, Any] = {}
        for level in first:
            row_of = best(claimed, level)
            steps = {method: steps_to(row, level) for method, row in row_of.items()}
            numbers[f"steps to KL {level:g}"] = {
                m: round(n) if n < np.inf else None for m, n in steps.items()
            }
            numbers[f"best step size to KL {level:g}"] = {
                m: round(row_of[m]["step size"], 4) for m, n in steps.items() if n < np.inf
            }
        for variant in dict.fromkeys(row["variant"] for row in rows):
            numbers[f"first, {variant}"] = _listed(winners(competing(rows, integrator, variant)))
        numbers["first, if steps that blow up later counted"] = _listed(winners(claimed, lenient=True))
        statement = "gSGRHMC reaches a given KL in the fewest steps, each method at its best step size"
        how = "by Euler steps, as printed" if integrator == "Euler" else f"by {integrator} steps"
        results.append(
            Claim(f"{statement}; {how}", bool(first) and set(first.values()) == {"gSGRHMC"}, numbers)
        )
    return results


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The first ten points of each method over the density, and the distance against steps."""
    figure = new_figure(13.0, 3.9)
    panels = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1.5))
    x, y, density, _ = exact_density(200)
    shown = best(competing(rows, list(INTEGRATORS)[-1], AS_CLAIMED), DRAWN_LEVEL)
    for panel, (method, row) in zip(panels, shown.items(), strict=False):
        density_contours(panel, x, y, density)
        points = jax.jit(
            lambda key, m=method, r=row: chain(
                m, r["integrator"], ValleySetting(r["step size"]), key, 500, path=True
            )
        )(jax.random.key(0))
        path_points = np.vstack([START, np.asarray(points)[:10]])
        panel.plot(*path_points.T, ".-", color=STYLES[method]["color"], linewidth=1.2, markersize=7)
        panel.plot(*START, "o", color=TRUTH, markersize=5)
        panel.set(xlim=(-3.2, 3.2), ylim=(-2.1, 0.7))
        tidy(panel, f"{method}, step {row['step size']:.3g}", "θ₁", "θ₂" if method == METHODS[0] else "")
    last = panels[3]
    for integrator, style in zip(reversed(INTEGRATORS), ("-", ":"), strict=False):
        for method, row in best(competing(rows, integrator, AS_CLAIMED), DRAWN_LEVEL).items():
            if method == "SGLD" and style == ":":
                continue
            label = method if method == "SGLD" else f"{method}, {integrator}"
            place = np.log(row["steps"] / 100) / np.log(3) + 1
            last.plot(place, row["KL"], label=label, color=STYLES[method]["color"], linestyle=style)
            if len(row["KL by seed"]) > 1:
                band = row["KL by seed"].min(axis=0), row["KL by seed"].max(axis=0)
                last.fill_between(place, *band, color=STYLES[method]["color"], alpha=0.15, linewidth=0)
    last.set_yscale("log")
    last.set_xlim(0, None)
    last.legend(frameon=False, fontsize=8)
    tidy(
        last, f"Each at its best step size for KL {DRAWN_LEVEL:g}", "log₃(steps/100) + 1", "KL(sampled‖exact)"
    )
    figure.savefig(path, dpi=130)


def run(out: Path, quick: bool, seeds: int) -> Result:
    """Sample, judge, draw. The variants are followed as far as the quick run goes."""
    steps, short, repeats = QUICK if quick else FULL
    if steps == short:
        rows = measure(steps, seeds, repeats, CLAIMED | VARIANTS)
    else:
        rows = measure(steps, seeds, repeats, CLAIMED) + measure(short, seeds, repeats, VARIANTS)
    draw(rows, out / FIGURE)
    settings = {
        "quick": quick,
        "steps": steps,
        "steps of the variants": short,
        "chains per seed (their distances are averaged)": repeats,
        "start (chosen)": START,
        "states dropped at the start": 0,
        "variance of the gradient noise (chosen)": ValleySetting(0.0).noise,
        "friction of SGHMC (chosen)": ValleySetting(0.0).friction,
        "metric": "G⁻¹ = 1.5√(U + 0.5) of the exact U",
        "step sizes": {f"{method}, {integrator}": grid for (method, integrator), grid in GRIDS.items()},
        "a step size is left out": "where the distance ends at more than twice its least: the chains blow up",
        "cells of the histogram": [CELLS, CELLS],
        "points drawn": f"the first ten of one in {PATH_THIN} states (chosen)",
    }
    entries = [{key: row[key] for key in row if key != "KL by seed"} for row in rows]
    return Result("ma-fig2-2d", claims(rows), settings, tuple(range(seeds)), (FIGURE,), entries)
