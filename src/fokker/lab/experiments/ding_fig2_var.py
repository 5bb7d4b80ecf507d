r"""Ding et al. (2014), section 5.1, Figure 2 (fourth): accuracy against autocorrelation, mean and precision.

N = 100 draws of N(0, 1), likelihood N(x|μ, 1/γ), prior μ|γ ~ N(0, 1/γ), γ ~ Gamma(1, 1), minibatches of 10.
The posterior is Normal-Gamma, its marginals a Student t for μ and a gamma density for γ. γ is positive: the
chain moves in (μ, log γ), whose density has the Jacobian γ. Now the gradient noise depends on the state.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker import samplers
from fokker._core.statistics import effective_sample_size
from fokker.lab.experiments._ding import SGNHT, StepAndNoise
from fokker.lab.experiments._normal_gamma import CELLS, SIZE, errors, exact_marginals, posterior
from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._stages import stage
from fokker.lab.experiments._synthetic import minibatch, simulate
from fokker.lab.experiments._synthetic_figures import draw_variance

BATCH = 10
STEP_SIZES, NOISES = (0.001, 0.002, 0.005, 0.01, 0.02), (1.0, 3.0, 10.0, 20.0, 40.0)
THIN, BURN_IN, LEVELS = 5, 0.1, 6
# Steps and chains.
QUICK, FULL = (100_000, 4), (500_000, 4)
FIGURE = "ding-fig2-var.png"


SETTINGS = tuple(StepAndNoise(h, A) for h in STEP_SIZES for A in NOISES)
Maker = Callable[[Any, Any], samplers.Recipe]
SAMPLERS: dict[str, Maker] = {"SGNHT": SGNHT, "SGHMC": samplers.sghmc}


def autocorrelation_time(observable: np.ndarray) -> float:
    """Steps to an independent draw of (chains, draws), by ArviZ; infinite where a chain blew up."""
    if not np.all(np.isfinite(observable)):
        return np.inf
    return float(THIN * observable.size / float(effective_sample_size(observable, method="mean")))


def measure(steps: int, chains: int, seeds: int) -> list[dict[str, Any]]:
    """Error and autocorrelation time of μ + γ for every sampler and setting, one of each per seed."""
    target = posterior()
    marginals = exact_marginals(np.asarray(target.data, float))
    settings = StepAndNoise(*map(jnp.asarray, zip(*SETTINGS, strict=True)))

    def chain(make: Maker, setting: StepAndNoise, key: Array) -> Array:
        placed = make(setting.h, setting.A).on(target)
        return simulate(placed, jnp.zeros(2), key, steps, minibatch(target.data, BATCH), thin=THIN)

    rows = []
    for name, make in SAMPLERS.items():
        stage(f"sampling by {name}")
        over_chains = jax.vmap(lambda s, k, make=make: chain(make, s, k), (None, 0))
        run = jax.jit(jax.vmap(over_chains, (0, None)))
        measured: list[list[list[float]]] = [[] for _ in SETTINGS]
        for seed in range(seeds):
            drawn = np.asarray(run(settings, jax.random.split(jax.random.key(seed), chains)))
            after_burn_in = drawn[:, :, int(BURN_IN * drawn.shape[2]) :]
            for i, lane in enumerate(after_burn_in):
                with np.errstate(over="ignore"):  # where a chain blew up
                    mu, gamma = lane[..., 0], np.exp(lane[..., 1])
                measured[i].append([*errors((mu, gamma), marginals), autocorrelation_time(mu + gamma)])
        for setting, values in zip(SETTINGS, measured, strict=True):
            of_mu, of_gamma, times = np.array(values).T
            rows.append(
                {
                    "sampler": name,
                    "h": setting.h,
                    "A": setting.A,
                    "RMSE": np.sqrt((of_mu**2 + of_gamma**2) / 2),
                    "RMSE of μ": of_mu,
                    "RMSE of γ": of_gamma,
                    "time": times,
                }
            )
    return rows


def compare(rows: Sequence[Mapping[str, Any]], measure_of: str) -> list[dict[str, float]]:
    """At levels of error the least autocorrelation time of either sampler among settings that keep to it.

    The levels run over the accuracies at which both have a best setting: from the error that both can reach
    to the error of the faster of their two fastest settings; beyond that, one of them would be left out.
    """
    points = {
        name: [
            (float(row[measure_of].mean()), float(row["time"].mean()))
            for row in rows
            if row["sampler"] == name
        ]
        for name in SAMPLERS
    }
    finest = max(min(error for error, _ in of) for of in points.values())
    coarsest = min(min(of, key=lambda point: point[1])[0] for of in points.values())
    levels = np.geomspace(finest, max(coarsest, finest), LEVELS) * (1 + 1e-9)
    return [
        {"RMSE": float(level)} | {name: min(t for e, t in of if e <= level) for name, of in points.items()}
        for level in levels
    ]


def claims(rows: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """SGNHT decorrelates in fewer steps at every level of error."""
    table = compare(rows, "RMSE")
    numbers: dict[str, Any] = {}
    for line in table:
        numbers[f"steps at RMSE {line['RMSE']:.3g}"] = {name: round(line[name], 1) for name in SAMPLERS}
    for measure_of in ("RMSE", "RMSE of μ", "RMSE of γ"):
        ratios = [line["SGHMC"] / line["SGNHT"] for line in compare(rows, measure_of)]
        numbers[f"least ratio SGHMC / SGNHT, {measure_of}"] = min(ratios)
        numbers[f"largest ratio SGHMC / SGNHT, {measure_of}"] = max(ratios)
    for name in SAMPLERS:
        failed = [
            f"h = {r['h']:g}, A = {r['A']:g}"
            for r in rows
            if r["sampler"] == name and np.isinf(r["time"]).any()
        ]
        numbers[f"settings at which {name} blew up"] = "; ".join(failed) or "none"
    lower = all(line["SGNHT"] < line["SGHMC"] for line in table)
    return [Claim("SGNHT has a lower autocorrelation time of μ + γ at equal accuracy", lower, numbers)]


def run(out: Path, quick: bool, seeds: int) -> Result:
    """Sample, judge, draw."""
    steps, chains = QUICK if quick else FULL
    rows = measure(steps, chains, seeds)
    draw_variance(rows, out / FIGURE)
    settings = {
        "quick": quick,
        "N": SIZE,
        "minibatch": BATCH,
        "minibatches (chosen)": "drawn with replacement",
        "coordinates": "(μ, log γ) with the Jacobian γ in the density, so that γ stays positive",
        "step sizes h (chosen)": STEP_SIZES,
        "A (chosen)": NOISES,
        "samples per chain (chosen)": steps,
        "chains (chosen)": chains,
        "start (chosen)": "μ = 0, γ = 1",
        "part dropped at the start (chosen)": BURN_IN,
        "noise estimate of SGHMC": 0,
        "inertia of the thermostat": 1,
        "RMSE (chosen)": f"of the densities of μ and γ in {CELLS} cells each, times their deviations",
        "equal accuracy (chosen)": "each at the fastest of its settings whose RMSE is at most a level",
    }
    entries = [dict(row) for row in rows]
    return Result("ding-fig2-var", claims(rows), settings, tuple(range(seeds)), (FIGURE,), entries)
