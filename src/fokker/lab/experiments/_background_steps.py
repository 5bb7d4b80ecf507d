r"""Single steps: Gibbs sampling along the axes, and the tree of NUTS doubling by doubling."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker import samplers
from fokker._core.random import fold_in
from fokker.lab.animation import Backdrop, ChainView, Trajectory, animate, write_animations
from fokker.lab.experiments._gallery_targets import CORRELATION, TARGETS
from fokker.lab.experiments._result import Claim
from fokker.run.api import sample
from fokker.targets import Density

ERRORS = 4.0
STEP_SIZE, DEEPEST = 0.5, 8
# The mean of min(1, e^{-ΔH}) over the points of trees; warm-up aims at 0.8.
LEAST_ACCEPTANCE = 0.8


def backdrop(name: str) -> Backdrop:
    """A target of the gallery."""
    target = TARGETS[name]
    return Backdrop(
        target.title, target.box, target.grid(), tuple((m.x, m.density) for m in target.marginals)
    )


def gibbs(seed: int, chains: int, sweeps: int) -> np.ndarray:
    """Half-steps (chain, half-step, coordinate) on the correlated normal: x given y, then y given x."""
    target = TARGETS["correlated"]
    covariance = np.array([[1.0, CORRELATION], [CORRELATION, 1.0]])
    trace = sample(
        Density(target.log_density),
        samplers.gibbs_normal(np.zeros(2), covariance, scan="cyclic"),
        init=jnp.asarray(target.start),
        steps=2 * sweeps,
        chains=chains,
        seed=seed,
        progress=False,
    )
    return trace.samples.astype(float)


def gibbs_claims(halves: np.ndarray) -> list[Claim]:
    """On a correlated normal the autocorrelation of Gibbs sampling falls by ρ² per sweep."""
    x = halves[:, halves.shape[1] // 2 :: 2, 0]
    # The residual of the regression on the sweep before is independent of it: the error of this mean is far
    # smaller than that of an autocovariance.
    left = np.mean((x[:, 1:] - CORRELATION**2 * x[:, :-1]) * x[:, :-1], axis=1)
    variance = np.mean(x**2, axis=1)
    error = [float(v.std(ddof=1) / np.sqrt(len(v))) for v in (left, variance)]
    off = abs(left.mean()), abs(variance.mean() - 1)
    return [
        Claim(
            "Gibbs sampling leaves a correlated normal invariant; its autocorrelation falls by ρ² per sweep",
            bool(off[0] < ERRORS * error[0] and off[1] < ERRORS * error[1]),
            {
                "autocorrelation over one sweep": CORRELATION**2 + float(left.mean() / variance.mean()),
                "ρ²": CORRELATION**2,
                "variance": float(variance.mean()),
                "standard errors": error,
            },
        )
    ]


def tree_chain(key: Key[Array, ""], steps: int) -> tuple[list[Trajectory], list[dict[str, Any]], np.ndarray]:
    """NUTS on the banana with a step of the scale of its width: its trees, their statistics and its draws."""
    target = TARGETS["banana"]
    sampler = samplers.nuts(STEP_SIZE, "identity", max_depth=DEEPEST).on(Density(target.log_density))
    state = sampler.init(jnp.asarray(target.start), key=key)
    trees, stats, chain = [], [], []
    for i in range(steps):
        trajectory = sampler.trajectory(fold_in(key, i), state)
        trees.append(Trajectory.of(trajectory))
        state = trajectory.state
        numbers = {name: float(value) for name, value in trajectory.info.stats.items()}
        stats.append(
            numbers | {"points": len(trajectory.points), "deepest": int(np.max(np.asarray(trajectory.depth)))}
        )
        chain.append(np.asarray(state.position, float))
    return trees, stats, np.array(chain)


def tree_claims(stats: list[dict[str, Any]]) -> list[Claim]:
    """A path of k doublings has 2ᵏ points, unless its last doubling turns or diverges within itself."""
    whole = [
        2 ** numbers["tree_depth"] <= numbers["points"] <= 2 ** numbers["deepest"]
        and numbers["points"] == numbers["num_integration_steps"] + 1
        for numbers in stats
    ]
    stopped = [numbers["tree_depth"] < DEEPEST for numbers in stats]
    rate = float(np.mean([numbers["acceptance_rate"] for numbers in stats]))
    return [
        Claim(
            "NUTS doubles its path until it turns back: 2ᵏ points after k doublings, and leapfrog nearly "
            "keeps the energy",
            all(whole) and any(stopped) and rate > LEAST_ACCEPTANCE,
            {
                "trees": len(stats),
                "mean depth": float(np.mean([numbers["tree_depth"] for numbers in stats])),
                "share that turned before the deepest": float(np.mean(stopped)),
                "mean acceptance of their points": rate,
            },
        )
    ]


def draw(halves: np.ndarray, trees: list[Trajectory], chain: np.ndarray, frames: int, out: Path) -> list[str]:
    """An animation of each."""
    line = "coordinate by coordinate × exact conditionals × none needed"
    chain_view = ChainView("Gibbs", line, halves[0])
    written = write_animations(animate(backdrop("correlated"), chain_view, frames), out / "gibbs", 120)
    # The trees with the most points first.
    shown = sorted(trees[:12], key=lambda tree: -len(tree.points))[:2]
    chain_view = ChainView("NUTS", "Hamiltonian × leapfrog × tree", chain, trajectories=tuple(shown))
    animation = animate(backdrop("banana"), chain_view, frames, share=0.7)
    return written + write_animations(animation, out / "nuts-tree", 160)
