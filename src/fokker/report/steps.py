"""Figures of what a sampler says of its steps: energy, temperatures, acceptance, trees."""

from collections.abc import Mapping

import numpy as np

from fokker.diagnostics._steps import bfmi
from fokker.report.figures import Axis, Figure, Mark, histogram, rule

# Points of a line: means over blocks of draws.
_POINTS = 600
_TITLES = {
    "kinetic_temperature": "Kinetic temperature",
    "acceptance_rate": "Acceptance",
    "num_integration_steps": "Integration steps per draw",
    "tree_depth": "Depth of the trees",
    "is_divergent": "Divergent draws",
    "energy": "Energy",
    "xi": "Thermostat ξ",
}


def energy_figure(energy: np.ndarray) -> Figure:
    """Marginal energies against the changes from draw to draw: BFMI compares their widths."""
    energy = np.asarray(energy, float)
    marginal = (energy - energy.mean(axis=1, keepdims=True)).ravel()
    change = np.diff(energy, axis=1).ravel()
    both = np.concatenate([marginal, change])
    both = both[np.isfinite(both)]
    ends = (float(both.min()), float(both.max())) if both.size else (0.0, 1.0)
    by_chain = ", ".join(f"{value:.2f}" for value in bfmi(energy)[:16])
    return Figure(
        "Energy",
        f"BFMI of each chain: {by_chain}. Below 0.3 the changes are too small to reach all energies of the "
        "target: its tails are explored slowly.",
        [
            histogram(marginal, "chain-0", "energy around its mean", 50, ends),
            histogram(change, "chain-1", "change from draw to draw", 50, ends),
        ],
        Axis("H/T"),
        Axis("density"),
    )


def step_figures(stats: Mapping[str, np.ndarray], temperature: float) -> list[Figure]:
    """A figure of each statistic of the steps, chain × draw, that is not the same in all of them."""
    return [
        _count_figure(name, values) if name in _COUNTED else _mean_figure(name, values, temperature)
        for name, values in stats.items()
        if values.ndim == 2 and values.size and np.any(values != values.flat[0])
    ]


def constant_statistics(stats: Mapping[str, np.ndarray]) -> str:
    """A sentence on the statistics that are the same in all steps; else empty."""
    same = [
        f"{_title(name).lower()} {'none' if name == 'is_divergent' else f'{float(x.flat[0]):.4g}'}"
        for name, x in stats.items()
        if x.ndim == 2
        and x.size
        and not np.any(x != x.flat[0])
        and not (name == "is_divergent" and x.flat[0])
    ]
    return f"The same in all steps: {', '.join(same)}." if same else ""


_COUNTED = ("tree_depth", "is_divergent")


def _title(name: str) -> str:
    return _TITLES.get(name, name.replace("_", " ").capitalize())


def _count_figure(name: str, values: np.ndarray) -> Figure:
    if name == "is_divergent":
        total = np.cumsum(values.sum(axis=0))
        some = np.linspace(0, len(total) - 1, min(_POINTS, len(total))).astype(int)
        return Figure(
            _title(name),
            f"{int(total[-1]):,} of {values.size:,} draws, in all chains together.",
            [Mark("line", "bad", None, some, total[some])],
            Axis("draw"),
            Axis("so far"),
        )
    counts = np.bincount(values.ravel().astype(int))
    return Figure(
        _title(name),
        f"How many trees had each depth; the deepest had {len(counts) - 1} doublings.",
        [Mark("bars", "chain-0", None, np.arange(len(counts) + 1) - 0.5, counts, opacity=0.6)],
        Axis("doublings"),
        Axis("draws"),
    )


def _mean_figure(name: str, values: np.ndarray, temperature: float) -> Figure:
    with np.errstate(all="ignore"):
        mean = np.asarray(values, float).mean(axis=0)
        running = np.cumsum(mean) / np.arange(1, len(mean) + 1)
    starts = np.linspace(0, len(mean), min(_POINTS, len(mean)) + 1).astype(int)[:-1]
    lengths = np.diff(np.append(starts, len(mean)))
    blocks = np.add.reduceat(mean, starts) / lengths
    marks = [
        Mark("line", "chain-2", "mean of all chains", starts, blocks, opacity=0.6, width=0.9),
        Mark("line", "chain-0", "running mean", starts, running[starts + lengths - 1], width=2),
    ]
    text = f"Its mean over the run is {f'{running[-1]:#.4g}'.rstrip('.')}."
    if name == "kinetic_temperature":
        marks.append(rule(temperature, "target T"))
        text += f" It should be {temperature:.4g}: noise heats the chains, and a wrong friction cools them."
    if lengths.max() > 1:
        text += f" The thin line has means over {int(lengths.max())} draws."
    return Figure(_title(name), text, marks, Axis("draw"), Axis())
