r"""Ding et al. (2014), section 5.2, Figure 3 (second row): Bayesian matrix factorisation of MovieLens.

SGHMC and SGNHT with one thermostat for all, every parameter moved at every step; 10 factors, minibatches of
400 ratings, 100,000 iterations of which 20,000 are burn-in: test RMSE of the mean prediction over η = ε² and
a = Aε. The paper used ml-1m, which may not be passed on: ml-latest-small stands in for it. Priors and the
precision of the noise are not given ("the BPMF model" of Salakhutdinov and Mnih 2008); here they are drawn,
with Normal–Wishart priors, after every pass. The values in the paper's figure are in no text: its claims are
those of section 5.2.1.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fokker._core.files import write_text
from fokker.datasets.folder import find_file
from fokker.datasets.ratings import Ratings, read_ratings
from fokker.lab.experiments._ding import SAMPLERS, DingSetting
from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._stages import stage
from fokker.models.factorisation.chain import FactorChain
from fokker.models.factorisation.minibatches import MinibatchPass
from fokker.report.plots import RIGHT, WRONG, new_figure, tidy

FIGURE, CURVES, TABLE = "ding-bpmf.png", "ding-bpmf-curves.png", "ding-bpmf.md"
RATINGS = "movielens-latest-small"
RATINGS_FROM = "MovieLens ml-latest-small of GroupLens, in place of the paper's ml-1m"
FACTORS, BATCH, TEST_SHARE = 10, 400, 0.2
AMOUNTS, STEPS = (0.01, 0.1), (2e-7, 4e-7, 6e-7, 8e-7)
# What counts as no difference between two test errors.
TIE = 0.01


@dataclass(frozen=True)
class Length:
    """Iterations of a chain, and how many of them are burn-in."""

    iterations: int
    burn_in: int


QUICK, FULL = Length(1_200, 400), Length(100_000, 20_000)


@dataclass(frozen=True)
class ChainResult:
    """Test RMSE of the mean prediction, infinite where the chain diverged; and how it got there.

    `curve`: iterations and the test RMSE of the running mean. `kinetic`: the mean kinetic energy of a
    coordinate, 1/2 if the temperature is right. `friction`: the mean ξ, or the friction given.
    """

    rmse: float
    kinetic: float
    friction: float
    curve: tuple[tuple[int, float], ...] = ()


def follow(train: Ratings, test: Ratings, setting: DingSetting, seed: int, length: Length) -> ChainResult:
    """One chain."""
    stage(f"sampling by {setting}, seed {seed}")
    # Noise of three matching moments: enough for these steps of order 1, and several times cheaper.
    sampler = setting.sampler(noise="binomial")
    chain = FactorChain(train, FACTORS, prior="normal-wishart", seed=seed, noise_by_user=False)
    move = MinibatchPass(chain, sampler, BATCH)
    total, count = np.zeros(len(test)), 0
    curve: list[tuple[int, float]] = []
    kinetic, friction = [], []
    passes = math.ceil(length.iterations / move.interval)
    for number in chain.passes(move, passes):
        taken = number * move.interval
        prediction = chain.draw().expected(test.users, test.items)
        mean = prediction
        if taken > length.burn_in:
            total, count = total + prediction, count + 1
            mean = total / count
            z: dict[str, Any] = move.state.z
            kinetic.append(float(np.mean([np.mean(np.asarray(r) ** 2) for r in z["r"].values()]) / 2))
            friction.append(float(z["xi"]) if "xi" in z else setting.a / setting.eta**0.5)
        curve.append((taken, float(np.sqrt(np.mean((mean - test.values) ** 2)))))
    if len(curve) < passes:
        return ChainResult(np.inf, np.inf, np.nan, tuple(curve))
    return ChainResult(curve[-1][1], float(np.mean(kinetic)), float(np.mean(friction)), tuple(curve))


def mean_rmse(rows: Sequence[ChainResult]) -> float:
    """The mean over the seeds."""
    return float(np.mean([row.rmse for row in rows]))


def claims(by_setting: Mapping[DingSetting, Sequence[ChainResult]]) -> list[Claim]:
    """What section 5.2.1 says of Figure 3."""
    mean = {(s.method, s.a, s.eta): mean_rmse(rows) for s, rows in by_setting.items()}
    amounts = sorted({setting.a for setting in by_setting})
    steps = sorted({setting.eta for setting in by_setting})

    def growth(method: str, a: float) -> float:
        return mean[method, a, steps[-1]] / min(mean[method, a, eta] for eta in steps)

    ratios = {
        f"SGNHT / SGHMC at a = {a:g}, η = {eta:g}": mean["SGNHT", a, eta] / mean["SGHMC", a, eta]
        for a in amounts
        for eta in steps
    }
    energies = {
        method: np.concatenate(
            [[row.kinetic for row in rows] for s, rows in by_setting.items() if s.method == method]
        )
        for method in SAMPLERS
    }
    results = [
        Claim(
            "SGNHT is at least as good as SGHMC for every η and a",
            all(ratio <= 1 + TIE for ratio in ratios.values()),
            {name: round(ratio, 4) for name, ratio in ratios.items()},
        ),
        Claim(
            "the kinetic energy of SGNHT stays around 0.5, that of SGHMC is higher",
            bool(np.all(np.abs(energies["SGNHT"] - 0.5) < 0.05) and np.all(energies["SGHMC"] > 0.55)),
            {method: [round(float(x), 3) for x in values] for method, values in energies.items()},
        ),
    ]
    if len(steps) > 1:
        grown = {m: {f"a = {a:g}": round(growth(m, a), 4) for a in amounts} for m in SAMPLERS}
        results += [
            Claim(
                "SGHMC gets worse as η grows, at the smaller a",
                bool(growth("SGHMC", amounts[0]) > 1 + TIE),
                {"RMSE at the largest η / at the best": grown["SGHMC"]},
            ),
            Claim(
                "SGNHT is stable: at the largest η within a twentieth of its best",
                all(growth("SGNHT", a) <= 1.05 for a in amounts),
                {"RMSE at the largest η / at the best": grown["SGNHT"]},
            ),
        ]
    if len(amounts) > 1:
        results.append(
            Claim(
                "the larger a slows convergence: its RMSE is higher, for SGNHT at the smallest η",
                bool(mean["SGNHT", amounts[-1], steps[0]] > mean["SGNHT", amounts[0], steps[0]]),
                {f"a = {a:g}": round(mean["SGNHT", a, steps[0]], 4) for a in amounts},
            )
        )
    return results


def run(out: Path, quick: bool, seeds: int, data: Path | None = None) -> Result:
    """On MovieLens ml-latest-small."""
    ratings = read_ratings(find_file(RATINGS, "ratings.csv", data))
    steps = STEPS[-1:] if quick else STEPS
    amounts = AMOUNTS[:1] if quick else AMOUNTS
    settings = [DingSetting(*each) for each in itertools.product(SAMPLERS, amounts, steps)]
    result = study(ratings, out, settings, seeds, QUICK if quick else FULL)
    return dataclasses.replace(result, settings={"quick": quick, **result.settings})


def study(ratings: Ratings, out: Path, settings: Sequence[DingSetting], seeds: int, length: Length) -> Result:
    """Sample, judge, draw."""
    train, test = ratings.split(TEST_SHARE, seed=0)
    by_setting = {
        setting: [follow(train, test, setting, seed, length) for seed in range(seeds)] for setting in settings
    }
    _draw(by_setting, out / FIGURE)
    _draw_curves(by_setting, length, out / CURVES)
    write_text(out / TABLE, _table(by_setting))
    chosen: dict[str, Any] = {
        "ratings": len(train),
        "test ratings": len(test),
        "users, items": [ratings.num_users, ratings.num_items],
        "factors": FACTORS,
        "minibatch": BATCH,
        "iterations (the paper: 100,000)": length.iterations,
        "burn-in (the paper: 20,000)": length.burn_in,
        "hyperparameters (chosen)": "Normal–Wishart and Gamma priors, drawn exactly after every pass",
        "ratings are standardised (chosen)": True,
        "noise (chosen)": "binomial, of the first three moments of a Gaussian",
        "as good (chosen)": f"within {TIE:.0%}",
        "data": RATINGS_FROM,
    }
    entries = [
        {
            "method": s.method,
            "a": s.a,
            "η": s.eta,
            "test RMSE": [row.rmse for row in rows],
            "kinetic energy": [row.kinetic for row in rows],
            "friction": [row.friction for row in rows],
        }
        for s, rows in by_setting.items()
    ]
    figures = (FIGURE, CURVES, TABLE)
    return Result("ding-bpmf", claims(by_setting), chosen, tuple(range(seeds)), figures, entries)


def _table(by_setting: Mapping[DingSetting, Sequence[ChainResult]]) -> str:
    lines = [
        "The values in the paper's Figure 3 are not known to us; its text says that SGHMC gets worse as η",
        "grows and diverges at the largest η with the smaller a, and that SGNHT is stable.",
        "",
        "| method | a | η | test RMSE | kinetic energy | friction |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for s, rows in by_setting.items():
        energy, friction = np.mean([[row.kinetic, row.friction] for row in rows], axis=0)
        numbers = f"{mean_rmse(rows):.4f} | {energy:.3f} | {friction:.1f}"
        lines.append(f"| {s.method} | {s.a:g} | {s.eta:g} | {numbers} |")
    return "\n".join(lines) + "\n"


_COLOURS = {"SGHMC": WRONG, "SGNHT": RIGHT}


def _draw(by_setting: Mapping[DingSetting, Sequence[ChainResult]], path: Path) -> None:
    """Test RMSE over η, a panel for each a."""
    amounts = sorted({setting.a for setting in by_setting})
    figure = new_figure(4.2 * len(amounts) + 0.6, 3.6)
    panels = figure.subplots(1, len(amounts), squeeze=False, sharey=True)[0]
    for panel, a in zip(panels, amounts, strict=True):
        for method, colour in _COLOURS.items():
            points = [
                (s.eta, mean_rmse(rows)) for s, rows in by_setting.items() if (s.method, s.a) == (method, a)
            ]
            finite = np.array([p for p in sorted(points) if np.isfinite(p[1])]).reshape(-1, 2)
            panel.plot(*finite.T, "o-", color=colour, label=method)
        tidy(panel, f"a = {a:g}", "η", "test RMSE" if panel is panels[0] else "")
    panels[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def _draw_curves(by_setting: Mapping[DingSetting, Sequence[ChainResult]], length: Length, path: Path) -> None:
    """Test RMSE of the running mean over iterations, the first seed."""
    figure = new_figure(7.2, 3.8)
    panel = figure.subplots()
    steps = sorted({setting.eta for setting in by_setting})
    amounts = sorted({setting.a for setting in by_setting})
    for setting, rows in by_setting.items():
        if rows[0].curve:
            x, y = np.array(rows[0].curve).T
            strength = 0.4 + 0.6 * (steps.index(setting.eta) + 1) / len(steps)
            style = "-" if setting.a == amounts[0] else "--"
            colour = _COLOURS[setting.method]
            panel.plot(x, y, style, color=colour, alpha=strength, linewidth=1.1, label=str(setting))
    panel.axvline(length.burn_in, color="0.6", linewidth=0.8)
    lowest = min(row.rmse for rows in by_setting.values() for row in rows)
    if np.isfinite(lowest):
        panel.set_ylim(0.97 * lowest, 1.35 * lowest)
    tidy(panel, "Test RMSE; of the running mean after burn-in", "iterations")
    figure.legend(loc="outside right center", frameon=False, fontsize=7)
    figure.savefig(path, dpi=130)
