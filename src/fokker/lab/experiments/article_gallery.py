r"""The gallery: every sampler on every target of the article, each pair with an animation and a verdict.

For each pair many chains run from one point; their draws are compared with the exact marginals by Kolmogorov
and Smirnov's distance, which for a right sampler falls to the Monte Carlo floor of as many independent draws.
Where it does not, the same is run with half the step, which tells a bias of the step from other causes.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker.lab.animation import Backdrop, ChainView, Job, Renderers, Series, Trajectory, ffmpeg
from fokker.lab.experiments._gallery_page import draw_overview, word, write_page
from fokker.lab.experiments._gallery_runs import (
    BURN_IN,
    FLOOR,
    LEAST_EFFECTIVE,
    OTHER,
    SLOW,
    WITHIN,
    Budget,
    MarginalVerdict,
    compiled,
    explained,
    judge,
    trajectories,
)
from fokker.lab.experiments._gallery_samplers import ROWS, Row
from fokker.lab.experiments._gallery_targets import TARGETS, GalleryTarget
from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._stages import stage

QUICK, FULL = Budget(128, 12_000, 200), Budget(128, 240_000, 400)
QUICK_FRAMES, FULL_FRAMES = 24, 90
# Processes that render animations while this one samples.
RENDERERS = 2
OVERVIEW, PAGE = "overview.png", "index.html"
# The most steps that an animation shows: later frames would look the same.
_STEPS_SHOWN = 20_000
# How many times longer the run without a sampler's known flaw is.
_LONGER = 8
# A control with this many effective draws has to be detected.
_CONTROL_EFFECTIVE = 10_000


def backdrop(target: GalleryTarget) -> Backdrop:
    """A target as the animations show it."""
    return Backdrop(
        target.title, target.box, target.grid(), tuple((m.x, m.density) for m in target.marginals)
    )


def series(row: Row, target: GalleryTarget, first: Mapping[str, np.ndarray]) -> tuple[Series, ...]:
    """The panels of a row, from the record of the first chain."""
    panels = []
    for name in row.panels:
        if name not in first:
            continue
        values = np.asarray(first[name], float).reshape(len(first[name]), -1)[:, 0]
        so_far = np.cumsum(values) / np.arange(1, len(values) + 1)
        panels.append(
            {
                "xi": Series("thermostat ξ (dashed: A)", values, 1 / target.length),
                "kinetic_temperature": Series(
                    "kinetic temperature, mean so far (dashed: T)", so_far, 1.0, limits=(0.0, 2.0)
                ),
                "num_integration_steps": Series("gradients of a step, mean so far", so_far),
                "is_accepted": Series("accepted so far", so_far, limits=(0.0, 1.6)),
                "exchange_rate": Series("exchanges made, of those tried", values, limits=(0.0, 1.6)),
            }[name]
        )
    return tuple(panels)


def chain_view(
    row: Row, target: GalleryTarget, first: Mapping[str, np.ndarray], paths: Sequence[Any]
) -> ChainView:
    """The first chain as the animations show it; `paths` are its first steps, where they are shown."""
    shown = {name: np.asarray(values)[:_STEPS_SHOWN] for name, values in first.items()}
    # One pixel is a five-hundredth of the box: half precision would show, single does not.
    return ChainView(
        row.title,
        row.line,
        shown["position"],
        shown.get("proposal") if "is_accepted" in row.panels else None,
        shown.get("is_accepted"),
        series(row, target, shown),
        tuple(Trajectory.of(path) for path in paths),
    )


class Pair(NamedTuple):
    """A sampler and its target, `group[which]`, with `run(step_size, key)`."""

    row: Row
    group: Sequence[GalleryTarget]
    which: int
    run: Callable[[float, Any], tuple[np.ndarray, dict[str, np.ndarray]]]

    @property
    def target(self) -> GalleryTarget:
        """The target of the pair."""
        return self.group[self.which]


def program(row: Row, group: Sequence[GalleryTarget], budget: Budget) -> Any:
    """The chains of a row, compiled."""
    like = jnp.asarray(0), jnp.asarray(0.1), jax.random.key(0)
    return compiled(row, group, budget).lower(*like).compile()  # type: ignore[attr-defined]


def pairs(rows: Sequence[Row], targets: Sequence[GalleryTarget], budget: Budget) -> Iterator[Pair]:
    """All pairs, the next program compiled while one runs."""
    dimensions = sorted({target.dimension for target in targets})
    groups = [
        (row, [t for t in targets if t.dimension == d and row.fits(t)]) for row in rows for d in dimensions
    ]
    with ThreadPoolExecutor(1) as ahead:
        waiting = [(row, group, ahead.submit(program, row, group, budget)) for row, group in groups if group]
        for row, group, future in waiting:
            for which in range(len(group)):
                yield Pair(row, group, which, partial(_run, future.result(), which))


def _run(
    ready: Any, which: int, step_size: float, key: Key[Array, ""]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    draws, first = ready(jnp.asarray(which), jnp.asarray(step_size), key)
    return np.asarray(draws, float), jax.tree.map(np.asarray, first)


def verdict_on(pair: Pair, draws: np.ndarray, key: Key[Array, ""], budget: Budget) -> MarginalVerdict:
    """Judge a pair's draws; where they are off, explain it by other runs with the same key."""
    row, target = pair.row, pair.target
    verdict = judge(draws, target.marginals)
    if verdict.reached:
        return verdict
    step_size = row.step_size(target)
    # Where a chain is too slow, half the step adds nothing.
    half = verdict if verdict.reason == SLOW else judge(pair.run(step_size / 2, key)[0], target.marginals)
    cured = None
    if verdict.reason == OTHER and row.cure is not None:
        # It may be slower: a longer run leaves no doubt that time was enough.
        longer = dataclasses.replace(budget, gradients=_LONGER * budget.gradients)
        ready = program(dataclasses.replace(row, make=row.cure), pair.group, longer)
        cured = judge(_run(ready, pair.which, step_size, key)[0], target.marginals)
    return explained(verdict, half, row, target, cured)


def entry_of(
    pair: Pair, verdict: MarginalVerdict, seed: int, first: Mapping[str, np.ndarray], mp4: bool
) -> dict[str, Any]:
    """The entry of a pair in `result.json`."""
    row, target = pair.row, pair.target
    counted = first.get("num_integration_steps", np.full(len(first["position"]), row.cost))
    return {
        "sampler": row.name,
        "target": target.name,
        "seed": seed,
        "right": row.right,
        "step size": row.step_size(target),
        "gradients per chain": float(np.sum(counted)),
        "distance": verdict.distance,
        "floor": verdict.floor,
        "reached": verdict.reached,
        "reason": verdict.reason,
        "effective draws": verdict.effective,
        "R-hat": verdict.r_hat,
        "curve": verdict.curve,
        "animation": f"{row.name}-{target.name}",
        "mp4": mp4,
    }


def claims(entries: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """What the article claims of its samplers, and that the comparison could have failed."""
    right = [entry for entry in entries if entry["right"]]
    missed = [entry for entry in right if not entry["reached"]]
    numbers: dict[str, Any] = {"pairs": len(right), "at the floor": len(right) - len(missed)}
    numbers |= {f"{entry['sampler']} on {entry['target']}": entry["reason"] for entry in missed}
    other = {
        f"{entry['sampler']} on {entry['target']}": entry["reason"]
        for entry in missed
        if word(entry["reason"]) == "wrong"
    }
    fall = [e["curve"]["distance"][0] / max(e["curve"]["distance"][-1], 1e-12) for e in right if e["reached"]]
    wrong = [e for e in entries if not e["right"] and e["effective draws"] >= _CONTROL_EFFECTIVE]
    caught = {f"floors, {e['sampler']} on {e['target']}": e["distance"] / e["floor"] for e in wrong}
    return [
        Claim("each correct sampler converges on each target", not missed, numbers),
        Claim(
            "where one does not, it is too slow for the run, unstable, biased by its step or by a known "
            "flaw: none has another density",
            not other,
            {"at the floor or explained": len(right) - len(other), **other},
        ),
        Claim(
            "the distance falls with the number of draws, on every target that is reached",
            bool(fall) and min(fall) > 1,
            {"least fall": min(fall, default=0.0), "median fall": float(np.median(fall)) if fall else 0.0},
        ),
        Claim(
            "a sampler that is wrong on purpose is detected wherever it mixes",
            bool(wrong) and not any(entry["reached"] for entry in wrong),
            caught,
        ),
    ]


def run(out: Path, quick: bool, seeds: int) -> Result:
    """Sample and judge, while other processes render the animations."""
    budget, frames = (QUICK, QUICK_FRAMES) if quick else (FULL, FULL_FRAMES)
    rows, targets = list(ROWS), list(TARGETS.values())
    drawn = {target.name: backdrop(target) for target in targets}
    entries: list[dict[str, Any]] = []
    mp4 = not quick and ffmpeg() is not None
    with Renderers(RENDERERS) as renderers:
        for pair in pairs(rows, targets, budget):
            row, target = pair.row, pair.target
            stage(f"sampling {target.name} by {row.name}")
            step_size = row.step_size(target)
            for seed in range(seeds):
                key = jax.random.key(seed)
                draws, first = pair.run(step_size, key)
                if seed == 0:
                    shown = chain_view(
                        row, target, first, trajectories(row, pair.group, pair.which, budget, key)
                    )
                    stem = out / f"{row.name}-{target.name}"
                    renderers.submit(Job(drawn[target.name], shown, frames, stem, mp4))
                verdict = verdict_on(pair, draws, key, budget)
                entries.append(entry_of(pair, verdict, seed, first, mp4))
    first_seed = [entry for entry in entries if entry["seed"] == 0]
    draw_overview(rows, targets, first_seed, out / OVERVIEW)
    write_page(rows, targets, first_seed, OVERVIEW, out / PAGE)
    settings = {
        "quick": quick,
        "chains, from one point (chosen)": budget.chains,
        "gradients per chain, about (chosen; each entry has its own)": budget.gradients,
        "draws stored per chain": budget.draws,
        "part dropped at the start (chosen)": BURN_IN,
        "targets": {target.name: target.setting for target in targets},
        "samplers": {row.name: row.line for row in rows},
        "distance": "Kolmogorov–Smirnov, of the coordinate that is the most floors off",
        "floor": f"{FLOOR:g}/√n of n effective draws (ArviZ)",
        "reached": f"at most {WITHIN:g} floors, {LEAST_EFFECTIVE} effective draws or more",
        "frames": frames,
    }
    files = (OVERVIEW, PAGE, *sorted(renderers.written))
    return Result("article-gallery", claims(entries), settings, tuple(range(seeds)), files, entries)
