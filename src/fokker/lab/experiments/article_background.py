"""The article's background in pictures: stochastic differential equations, densities that move, and steps.

Each picture comes with what it shows as a claim that could fail.
"""

from pathlib import Path
from typing import Any

import jax

from fokker.lab.experiments import _background_density as density
from fokker.lab.experiments import _background_paths as paths
from fokker.lab.experiments import _background_steps as steps
from fokker.lab.experiments._result import Claim, Result
from fokker.lab.experiments._stages import stage

# Paths, particles, Gibbs chains × sweeps, trees.
QUICK: dict[str, Any] = {"paths": 4000, "particles": 8000, "gibbs": (400, 400), "trees": 150, "frames": 40}
FULL: dict[str, Any] = {
    "paths": 40_000,
    "particles": 80_000,
    "gibbs": (2000, 1000),
    "trees": 1000,
    "frames": 90,
}
FINE, TIME = 1024, 3.0


def measure(out: Path, size: dict[str, Any], seed: int, drawn: bool) -> tuple[list[Claim], list[str]]:
    """All parts with one seed, with their pictures where `drawn`."""
    keys = jax.random.split(jax.random.key(seed), 3)
    stage(f"simulating, seed {seed}")
    dW = paths.increments(keys[0], size["paths"], FINE)
    X = paths.ornstein_uhlenbeck(paths.increments(keys[1], size["paths"], 200, TIME), TIME)
    errors = paths.errors(dW)
    times, positions = density.particles(seed, size["particles"])
    solved = density.solve(times)
    halves = steps.gibbs(seed, *size["gibbs"])
    trees, tree_stats, chain = steps.tree_chain(keys[2], size["trees"])
    claims = [
        *paths.ode_and_sde(X, TIME),
        *paths.brownian(dW),
        *paths.ito_and_stratonovich(errors),
        *density.claims(density.shares(positions), solved, size["particles"]),
        *steps.gibbs_claims(halves),
        *steps.tree_claims(tree_stats),
    ]
    files: list[str] = []
    if drawn:
        stage("drawing")
        files += paths.draw_paths(dW, X, TIME, errors, out)
        files += density.draw(times, positions, solved, out)
        files += steps.draw(halves, trees, chain, size["frames"], out)
    return claims, files


def run(out: Path, quick: bool, seeds: int) -> Result:
    """Simulate, judge, draw; with several seeds a claim holds if it holds with each."""
    size = QUICK if quick else FULL
    by_seed = [measure(out, size, seed, seed == 0) for seed in range(seeds)]
    claims = []
    for same in zip(*(of_seed for of_seed, _ in by_seed), strict=True):
        numbers = dict(same[0].numbers)
        if seeds > 1:
            numbers["holds with each seed"] = [claim.holds for claim in same]
        claims.append(Claim(same[0].claim, all(claim.holds for claim in same), numbers))
    settings = {
        "quick": quick,
        "size": size,
        "ODE against SDE": f"dx = -x dt + √2 dW from {paths.START}, to t = {TIME:g} (chosen)",
        "geometric Brownian motion (chosen)": {"μ": paths.MU, "σ": paths.SIGMA, "finest grid": FINE},
        "double well (chosen)": f"U = (x² - 1)², from N({density.FROM}, {density.DEVIATION}²)",
        "step of the particles": density.STEP_SIZE,
        "cells of the Fokker–Planck grid": density.CELLS * density.FINER,
        "averages": f"right within {paths.ERRORS:g} standard errors",
        "orders": f"right within {paths.ORDER_WITHIN:g}",
    }
    return Result("article-background", claims, settings, tuple(range(seeds)), tuple(by_seed[0][1]))
