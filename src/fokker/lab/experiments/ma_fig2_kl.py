r"""Ma, Chen, Fox (2015), Figure 2 (left) and Figure S.2: which samplers have the right density in 1-D.

U = θ²/2 and U = θ⁴ - 2θ², both of the form aθ⁴ + bθ², by SGLD, SGHMC, gSGRHMC with G⁻¹ = D√(U + C), the same
with Γ forgotten (Eq. 16), and naive SGHMC (Eq. 11), all with a gradient to which N(0, V) is added. C = 0.5
of the paper makes the metric vanish inside both wells of θ⁴ - 2θ², where Γ is unbounded; C > 1 there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker import samplers
from fokker.fields import Scalar
from fokker.lab.experiments._histogram import (
    HIGHEST_FLOOR,
    RIGHT_WITHIN,
    WRONG_BEYOND,
    Histogram,
    mean_and_error,
)
from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._stages import stage
from fokker.lab.experiments._synthetic import NoisyGradient, gaussian, simulate
from fokker.lab.experiments._synthetic_figures import draw_distances

METRIC_SCALE, NOISE_VARIANCE, FRICTION = 1.5, 4.0, 1.0
STEP_SIZES = (0.01, 0.005, 0.0025)
CELLS, THIN, BURN_IN = 30, 10, 0.1
RIGHT_ONES = ("SGLD", "SGHMC", "gSGRHMC")
# Steps and chains.
QUICK, FULL = (100_000, 64), (250_000, 64)
FIGURE = "ma-fig2-kl.png"


@dataclass(frozen=True)
class Well:
    """U = aθ⁴ + bθ², the range of its histogram, and the constants C to try, the first for the claims."""

    name: str
    a: float
    b: float
    half_width: float
    offsets: tuple[float, ...]

    @property
    def histogram(self) -> Histogram:
        """Cells and exact shares."""
        return Histogram.of(lambda x: self.a * x**4 + self.b * x**2, -self.half_width, self.half_width, CELLS)


TARGETS = (Well("θ²/2", 0.0, 0.5, 4.5, (0.5, 2.0)), Well("θ⁴ - 2θ²", 1.0, -2.0, 2.3, (1.5, 1.1, 3.0)))


class WellSetting(NamedTuple):
    """The settings of one group of chains; numbers only, so that groups are vectorised."""

    a: Any
    b: Any
    offset: Any
    step_size: Any


Maker = Callable[[Any, Scalar, Scalar], samplers.Recipe]
SAMPLERS: dict[str, Maker] = {
    "SGLD": lambda h, metric, root: samplers.sgld(h),
    "SGHMC": lambda h, metric, root: samplers.sghmc(h, FRICTION),
    "naive gSGRHMC": samplers.naive_sgrhmc,
    "gSGRHMC": samplers.gsgrhmc,
    "naive SGHMC": lambda h, metric, root: samplers.naive_sghmc(h),
}


def chain(make: Maker, setting: WellSetting, key: Array, steps: int) -> Array:
    """The positions of one chain that starts at a draw of N(0, 1)."""

    def potential(theta: Array) -> Array:
        return jnp.sum(setting.a * theta**4 + setting.b * theta**2)

    def metric(theta: Array) -> Array:
        return METRIC_SCALE * jnp.sqrt(potential(theta) + setting.offset)

    sampler = make(setting.step_size, Scalar(metric), Scalar(lambda theta: jnp.sqrt(metric(theta))))
    placed = sampler.on(NoisyGradient(potential))
    start_key, run_key = jax.random.split(key)
    return simulate(
        placed, jax.random.normal(start_key, (1,)), run_key, steps, gaussian(NOISE_VARIANCE, 1), thin=THIN
    )[:, 0]


def measure(steps: int, chains: int, seeds: int) -> list[dict[str, Any]]:
    """Distance and floor, one for each seed, and the mean shares, of every sampler in every setting."""
    rows = []
    for name, make in SAMPLERS.items():
        stage(f"sampling by {name}")
        offsets = [(t, C) for t in TARGETS for C in (t.offsets if "gSGRHMC" in name else t.offsets[:1])]
        # The constant is varied at the smallest step alone.
        cases = [
            (t, C, h) for t, C in offsets for h in STEP_SIZES if t.offsets[0] == C or h == STEP_SIZES[-1]
        ]
        settings = WellSetting(*map(jnp.asarray, zip(*((t.a, t.b, C, h) for t, C, h in cases), strict=True)))
        over_chains = jax.vmap(lambda s, k, make=make: chain(make, s, k, steps), (None, 0))
        run = jax.jit(jax.vmap(over_chains, (0, None)))
        drawn = [np.asarray(run(settings, jax.random.split(jax.random.key(s), chains))) for s in range(seeds)]
        for i, (target, offset, step_size) in enumerate(cases):
            histogram = target.histogram
            draws = [x[i, :, int(BURN_IN * x.shape[2]) :] for x in drawn]
            rows.append(
                {
                    "sampler": name,
                    "target": target.name,
                    "C": offset,
                    "step size": step_size,
                    "claimed": offset == target.offsets[0] and step_size == STEP_SIZES[-1],
                    "KL": [histogram.distance(x) for x in draws],
                    "floor": [histogram.floor(histogram.effective_size(x)) for x in draws],
                    "shares": np.mean([histogram.shares(x) for x in draws], axis=0),
                }
            )
    return rows


def claims(rows: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Right is near the floor, wrong is far above it."""
    named = {(row["sampler"], row["target"]): row for row in rows if row["claimed"]}

    def ratio(sampler: str, target: Well) -> float:
        row = named[sampler, target.name]
        return float(np.mean(row["KL"]) / np.mean(row["floor"]))

    def is_right(sampler: str, target: Well) -> bool:
        enough = float(np.mean(named[sampler, target.name]["floor"])) <= HIGHEST_FLOOR
        return enough and ratio(sampler, target) <= RIGHT_WITHIN

    def numbers(*names: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in names:
            for target in TARGETS:
                row = named[name, target.name]
                values |= mean_and_error(f"KL of {name} on {target.name}", row["KL"])
                values[f"KL / floor of {name} on {target.name}"] = ratio(name, target)
        return values

    def others(name: str) -> dict[str, Any]:
        """How the ratio moves with the step size and with C."""
        return {
            f"KL / floor at step {row['step size']:g}, C = {row['C']:g}, {row['target']}": float(
                np.mean(row["KL"]) / np.mean(row["floor"])
            )
            for row in rows
            if row["sampler"] == name and not row["claimed"]
        }

    def worst(step_size: float) -> float:
        """The largest ratio of a right sampler at another step size: the discretisation shows."""
        of = [row for row in rows if row["sampler"] in RIGHT_ONES and row["step size"] == step_size]
        return max(float(np.mean(row["KL"]) / np.mean(row["floor"])) for row in of)

    naive = ("naive gSGRHMC", "naive SGHMC")
    wrong = {name: all(ratio(name, t) >= WRONG_BEYOND for t in TARGETS) for name in naive}
    return [
        Claim(
            "naive gSGRHMC (Eq. 16) is wrong on both", wrong[naive[0]], numbers(naive[0]) | others(naive[0])
        ),
        Claim(
            "SGLD, SGHMC and gSGRHMC are right on both",
            all(is_right(name, target) for name in RIGHT_ONES for target in TARGETS),
            numbers(*RIGHT_ONES) | {f"largest KL / floor at step {h:g}": worst(h) for h in STEP_SIZES[:-1]},
        ),
        Claim("naive SGHMC (Eq. 11), the fifth bar, is wrong on both", wrong[naive[1]], numbers(naive[1])),
    ]


def run(out: Path, quick: bool, seeds: int) -> Result:
    """Sample, judge, draw."""
    steps, chains = QUICK if quick else FULL
    rows = measure(steps, chains, seeds)
    claimed = [row for row in rows if row["claimed"]]
    draw_distances(claimed, {target.name: target.histogram for target in TARGETS}, out / FIGURE)
    settings = {
        "quick": quick,
        "chains": chains,
        "steps per chain": steps,
        "start (chosen)": "N(0, 1)",
        "part dropped at the start": BURN_IN,
        "step size (chosen; larger ones are in the entries)": STEP_SIZES[-1],
        "variance of the gradient noise (chosen)": NOISE_VARIANCE,
        "friction of SGHMC (chosen)": FRICTION,
        "metric": "G⁻¹ = 1.5√(U + C) of the exact U, not of a noisy one",
        "C": {target.name: target.offsets[0] for target in TARGETS},
        "why C > 1 on θ⁴ - 2θ²": "with C = 0.5 the metric vanishes where U = -0.5 and Γ is unbounded there",
        "noise estimate B̂": 0,
        "cells of the histogram": CELLS,
        "right": f"KL at most {RIGHT_WITHIN:g} floors, the floor at most {HIGHEST_FLOOR:g}",
        "wrong": f"KL at least {WRONG_BEYOND:g} floors",
    }
    entries = [{key: value for key, value in row.items() if key != "shares"} for row in rows]
    return Result("ma-fig2-kl", claims(rows), settings, tuple(range(seeds)), (FIGURE,), entries)
