r"""Ding et al. (2014), section 3 and Figure 1: a thermostat finds the friction that unknown noise needs.

U = (θ+4)(θ+1)(θ-1)(θ-3)/14 + 0.5 with h∇Ũ = h∇U + N(0, 2Bh), that is gradient noise of variance 2B/h, and
no noise injected (A = 0). With a fixed friction ξ the stationary temperature is B/ξ: right for ξ = B alone,
where this is Langevin dynamics. The thermostat moves ξ until the mean kinetic energy is ½.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from fokker import samplers
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
from fokker.lab.experiments._synthetic_figures import draw_thermostat
from fokker.samplers import SamplerState

STEP_SIZE, NOISE = 0.01, 1.0
# The bottoms of the wells, where chains start in turn, and the top of the barrier between them.
WELLS, BARRIER = (-2.935, 2.224), -0.038
FRICTIONS = {"ξ = 1": 1.0, "ξ = 10": 10.0, "ξ = 0.1": 0.1}
THERMOSTAT = "SGNHT"
CELLS, THIN, BURN_IN = 30, 10, 0.1
# Mean kinetic energy and ξ are right within this part of ½ and of B.
TOLERANCE = 0.05
# Steps and chains.
QUICK, FULL = (200_000, 32), (1_000_000, 32)
FIGURE = "ding-fig1.png"


def potential(theta: Array) -> Array:
    """The double well, summed over the one coordinate."""
    return jnp.sum(energy(theta))


def energy(theta: Any) -> Any:
    """U of numbers or arrays."""
    return (theta + 4) * (theta + 1) * (theta - 1) * (theta - 3) / 14 + 0.5


def histogram() -> Histogram:
    """Cells and exact shares."""
    return Histogram.of(energy, -6.0, 5.0, CELLS)


def chain(
    make: Callable[[Any], samplers.Recipe], friction: ArrayLike, start: ArrayLike, key: Array, steps: int
) -> Any:
    """Position, kinetic energy and friction along one chain."""

    def record(state: SamplerState) -> dict[str, Array]:
        xi = state.z.get("xi", jnp.asarray(friction))
        return {"theta": state.position[0], "kinetic": state.z["r"][0] ** 2 / 2, "xi": xi}

    placed = make(friction).on(NoisyGradient(potential))
    return simulate(
        placed, jnp.reshape(start, (1,)), key, steps, gaussian(2 * NOISE / STEP_SIZE, 1), record, THIN
    )


def fixed(friction: ArrayLike) -> samplers.Recipe:
    """Friction ξ and nothing injected: SGHMC that takes all of its noise 2ξh for the gradient's, B̂ = 2ξ/h."""
    return samplers.sghmc(STEP_SIZE, friction, noise_estimate=2 * friction / STEP_SIZE)


def thermostat(friction: ArrayLike) -> samplers.Recipe:
    """SGNHT with A = 0, which has its friction in its state."""
    return samplers.sgnht(STEP_SIZE, friction=0.0, thermostat_mass=1.0)


def measure(steps: int, chains: int, seeds: int) -> dict[str, dict[str, Any]]:
    """Of every friction and of the thermostat: (seed, chain, time) of position, kinetic energy and ξ."""
    starts = jnp.asarray(WELLS)[jnp.arange(chains) % 2]
    keys = [jax.random.split(jax.random.key(seed), chains) for seed in range(seeds)]

    def compiled(make: Callable[[Any], samplers.Recipe]) -> Callable[..., Any]:
        over_chains = jax.vmap(lambda f, s, k: chain(make, f, s, k, steps), (None, 0, 0))
        return jax.jit(jax.vmap(over_chains, (0, None, None)))

    frictions = jnp.asarray(list(FRICTIONS.values()))
    lanes = [
        (compiled(fixed), frictions, list(FRICTIONS)),
        (compiled(thermostat), jnp.zeros(1), [THERMOSTAT]),
    ]
    results: dict[str, dict[str, Any]] = {}
    for run, values, names in lanes:
        stage(f"sampling {', '.join(names)}")
        by_seed = [jax.tree.map(np.asarray, run(values, starts, key)) for key in keys]
        for i, name in enumerate(names):
            results[name] = {part: np.stack([seed[part][i] for seed in by_seed]) for part in by_seed[0]}
    return {name: results[name] | _summary(results[name]) for name in results}


def _summary(recorded: Mapping[str, np.ndarray]) -> dict[str, Any]:
    cells = histogram()
    after_burn_in = {name: x[..., int(BURN_IN * x.shape[-1]) :] for name, x in recorded.items()}
    theta = after_burn_in["theta"]
    right_well = theta > BARRIER
    return {
        "KL": [cells.distance(x) for x in theta],
        "floor": [cells.floor(cells.effective_size(x)) for x in theta],
        "shares": np.mean([cells.shares(x) for x in theta], axis=0),
        "mean kinetic energy": after_burn_in["kinetic"].mean(axis=(1, 2)),
        "mean ξ": after_burn_in["xi"].mean(axis=(1, 2)),
        "spread": theta.std(axis=(1, 2)),
        "crossings per chain": np.mean(np.sum(right_well[..., 1:] != right_well[..., :-1], axis=-1), axis=1),
        "share of the right well by start": [float(right_well[:, i::2].mean()) for i in (0, 1)],
    }


def claims(results: Mapping[str, Mapping[str, Any]]) -> list[Claim]:
    """What section 3 says of the four."""
    ratio = {name: float(np.mean(x["KL"]) / np.mean(x["floor"])) for name, x in results.items()}
    kinetic = {name: float(np.mean(x["mean kinetic energy"])) for name, x in results.items()}
    equal, high, low = FRICTIONS
    good = (THERMOSTAT, equal)
    matched = all(ratio[n] <= RIGHT_WITHIN and np.mean(results[n]["floor"]) <= HIGHEST_FLOOR for n in good)
    density: dict[str, Any] = {}
    for name in good:
        density |= mean_and_error(f"KL of {name}", results[name]["KL"])
        density[f"KL / floor of {name}"] = ratio[name]
        density[f"share of the right well, by start, {name}"] = _rounded(results[name])
    xi = float(np.mean(results[THERMOSTAT]["mean ξ"]))
    stuck = float(np.mean(results[high]["crossings per chain"])) == 0 and ratio[high] >= WRONG_BEYOND
    spread = {name: float(np.mean(results[name]["spread"])) for name in (low, equal)}
    crossings = {name: float(np.mean(results[name]["crossings per chain"])) for name in (low, equal)}
    return [
        Claim("the thermostat's density is right, as that of ξ = B is", matched, density),
        Claim(
            "the mean kinetic energy is 0.5 with the thermostat and with ξ = B",
            all(abs(kinetic[name] - 0.5) <= TOLERANCE * 0.5 for name in good),
            {name: kinetic[name] for name in good},
        ),
        Claim(
            "ξ of the thermostat converges to B",
            abs(xi - NOISE) <= TOLERANCE * NOISE,
            mean_and_error("mean ξ", results[THERMOSTAT]["mean ξ"]) | {"B": NOISE},
        ),
        Claim(
            "ξ = 10 > B: the kinetic energy is low and the chain is stuck in one minimum",
            kinetic[high] <= 0.25 and stuck,
            {
                "mean kinetic energy": kinetic[high],
                "B/2ξ": NOISE / (2 * FRICTIONS[high]),
                "KL / floor": ratio[high],
                "crossings per chain": float(np.mean(results[high]["crossings per chain"])),
                "share of the right well, by start": _rounded(results[high]),
            },
        ),
        Claim(
            "ξ = 0.1 < B: the kinetic energy is high and the chain wanders as a random walk",
            kinetic[low] >= 1.0 and ratio[low] >= WRONG_BEYOND and crossings[low] > 2 * crossings[equal],
            {
                "mean kinetic energy": kinetic[low],
                "B/2ξ": NOISE / (2 * FRICTIONS[low]),
                "KL / floor": ratio[low],
                "standard deviation of θ, ξ = 0.1": spread[low],
                "standard deviation of θ, ξ = 1": spread[equal],
                "crossings per chain, ξ = 0.1": crossings[low],
                "crossings per chain, ξ = 1": crossings[equal],
            },
        ),
    ]


def _rounded(result: Mapping[str, Any]) -> list[float]:
    return [round(share, 4) for share in result["share of the right well by start"]]


def run(out: Path, quick: bool, seeds: int) -> Result:
    """Sample, judge, draw."""
    steps, chains = QUICK if quick else FULL
    results = measure(steps, chains, seeds)
    draw_thermostat(results, (THERMOSTAT, "ξ = 1"), histogram(), THIN, out / FIGURE)
    settings = {
        "quick": quick,
        "step size h": STEP_SIZE,
        "B": NOISE,
        "A": 0,
        "variance of the gradient noise, 2B/h": 2 * NOISE / STEP_SIZE,
        "samples per chain": steps,
        "chains (chosen)": chains,
        "starts (chosen), in turn": WELLS,
        "part dropped at the start (chosen)": BURN_IN,
        "fixed ξ": "SGHMC with friction ξ and noise estimate 2ξ/h, which leaves nothing to inject",
        "right": f"KL at most {RIGHT_WITHIN:g} floors, the floor at most {HIGHEST_FLOOR:g}",
        "wrong": f"KL at least {WRONG_BEYOND:g} floors",
        "tolerance of kinetic energy and ξ": TOLERANCE,
    }
    return Result("ding-fig1", claims(results), settings, tuple(range(seeds)), (FIGURE,))
