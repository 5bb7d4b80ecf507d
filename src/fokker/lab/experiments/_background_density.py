r"""Densities that move: Langevin dynamics relaxing to exp(-U), and the Fokker–Planck equation beside them.

For dx = -U'(x) dt + √2 dW the density obeys ∂p/∂t = -∂J/∂x with the flux J = -U'p - ∂p/∂x: the continuity
equation. On a grid, with the flux between neighbours k and k+1 written as -e^{-Ū} Δ(p e^{U})/Δx (Scharfetter
and Gummel), mass is kept exactly and exp(-U) is stationary exactly.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from scipy.linalg import expm

from fokker import samplers
from fokker.lab.animation import Stage, write_animations
from fokker.lab.experiments._background_paths import animation_figure
from fokker.lab.experiments._histogram import RIGHT_WITHIN, divergence
from fokker.lab.experiments._result import Claim
from fokker.report.plots import RIGHT, TRUTH, WRONG, new_figure, tidy
from fokker.run.api import sample
from fokker.targets import Density

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOW, HIGH, CELLS, FINER = -2.3, 2.3, 40, 8
FROM, DEVIATION = -1.4, 0.15
STEP_SIZE, TIME, SHOWN = 0.002, 8.0, 40


def energy(x: Any) -> Any:
    """U = (x² - 1)²: two wells."""
    return (x**2 - 1) ** 2


def exact_shares() -> np.ndarray:
    """exp(-U) in the cells of the histogram."""
    fine = (np.arange(CELLS * 200) + 0.5) * (HIGH - LOW) / (CELLS * 200) + LOW
    weight = np.exp(-energy(fine)).reshape(CELLS, -1).sum(axis=1)
    return weight / weight.sum()


def centres(cells: int) -> np.ndarray:
    """The centres of the cells."""
    return LOW + (np.arange(cells) + 0.5) * (HIGH - LOW) / cells


def generator(cells: int) -> np.ndarray:
    """A with dp/dt = Ap for the masses in the cells: columns sum to zero, no mass leaves."""
    width = (HIGH - LOW) / cells
    U = energy(centres(cells))
    # The rate from k to k+1 and back: their ratio is exp(U_k - U_{k+1}), which keeps exp(-U).
    forth = np.exp((U[:-1] - U[1:]) / 2) / width**2
    back = np.exp((U[1:] - U[:-1]) / 2) / width**2
    A = np.diag(forth, -1) + np.diag(back, 1)
    return A - np.diag(A.sum(axis=0))


def solve(times: np.ndarray) -> np.ndarray:
    """Masses in the finer cells, one row per time: exp(At) of the first, exact in time."""
    cells = CELLS * FINER
    x = centres(cells)
    p = np.exp(-((x - FROM) ** 2) / (2 * DEVIATION**2))
    p /= p.sum()
    through = expm(generator(cells) * (times[1] - times[0]))
    rows = [p]
    for _ in times[1:]:
        p = through @ p
        rows.append(p)
    return np.array(rows)


def coarse(fine: np.ndarray) -> np.ndarray:
    """The masses of fine cells summed into the cells of the histogram."""
    return fine.reshape(len(fine), CELLS, FINER).sum(axis=2)


def particles(seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Times, and at each the positions of particles that follow SGLD, that is Euler–Maruyama."""
    between = round(TIME / STEP_SIZE / SHOWN)
    starts = FROM + DEVIATION * np.random.default_rng(seed).standard_normal(number, dtype=np.float32)
    # One vector of particles is one state: their potentials add up, and no particle acts on another.
    trace = sample(
        Density(lambda theta: -jnp.sum(energy(theta))),
        samplers.sgld(STEP_SIZE),
        init=jnp.asarray(starts),
        steps=SHOWN * between,
        chains=1,
        thin=between,
        seed=seed,
        progress=False,
    )
    times = np.linspace(0, SHOWN * between * STEP_SIZE, SHOWN + 1)
    return times, np.concatenate([starts[None], trace.samples[0]])


def shares(positions: np.ndarray) -> np.ndarray:
    """The shares of the particles in the cells at each time."""
    edges = np.linspace(LOW, HIGH, CELLS + 1)
    return np.array([np.histogram(row, edges)[0] / row.size for row in positions])


def claims(observed: np.ndarray, solved: np.ndarray, number: int) -> list[Claim]:
    """`observed` by particles, `solved` on the finer grid, at the same times."""
    predicted = coarse(solved)
    # Shares that are zero in the solution would be divided by.
    against = [divergence(f, np.maximum(p, 1e-12)) for f, p in zip(observed, predicted, strict=True)]
    floor = (CELLS - 1) / (2 * number)
    truth = exact_shares()
    relaxed = [divergence(f, truth) for f in observed]
    A = generator(CELLS * FINER)
    p = np.exp(-energy(centres(CELLS * FINER)))
    still = float(np.abs(A @ p).max() / np.abs(A).max())
    mass = float(np.abs(solved.sum(axis=1) - 1).max())
    return [
        Claim(
            "the Fokker–Planck equation keeps mass and positivity, and exp(-U) is its stationary solution",
            mass < 1e-9 and still < 1e-12 and float(solved.min()) > -1e-12,
            {"largest change of mass": mass, "residual of exp(-U)": still, "least mass": float(solved.min())},
        ),
        Claim(
            "at every time the particles' histogram is the Fokker–Planck density, within Monte Carlo error",
            max(against) < RIGHT_WITHIN * floor,
            {"largest KL": max(against), "KL of as many exact draws": floor, "times": len(observed)},
        ),
        Claim(
            "Langevin dynamics relax to exp(-U)",
            relaxed[-1] < RIGHT_WITHIN * floor and relaxed[0] > 100 * floor,
            {"KL at first": relaxed[0], "KL at last": relaxed[-1], "KL of as many exact draws": floor},
        ),
    ]


def draw(times: np.ndarray, positions: np.ndarray, solved: np.ndarray, out: Path) -> list[str]:
    """The density at four times, and an animation of the equation beside its particles."""
    figure = new_figure(13.0, 3.4)
    observed = shares(positions)
    for axes, k in zip(figure.subplots(1, 4, sharey=True), (0, 3, 10, SHOWN), strict=True):
        bars, line = _panel(axes)
        _set(bars, line, observed[k], solved[k])
        tidy(axes, f"t = {times[k]:.2g}", "x", "density" if k == 0 else "")
        if k == 0:
            axes.legend(frameon=False, fontsize=8, loc="upper right")
    figure.savefig(out / "fokker-planck.png", dpi=130)
    return ["fokker-planck.png", *_animation(times, positions, solved, out)]


def _panel(axes: "Axes") -> tuple[Any, Any]:
    x = centres(CELLS * FINER)
    truth = np.exp(-energy(x))
    axes.fill_between(x, truth / (truth.sum() * (x[1] - x[0])), color="0.88", label="exp(−U)")
    (bars,) = axes.step(centres(CELLS), np.zeros(CELLS), where="mid", color=RIGHT, lw=1.3, label="particles")
    (line,) = axes.plot(x, 0 * x, color=WRONG, linewidth=1.6, linestyle="--", label="Fokker–Planck")
    axes.set(xlim=(LOW, HIGH), ylim=(0, 1.6), yticks=[])
    return bars, line


def _set(bars: Any, line: Any, observed: np.ndarray, solved: np.ndarray) -> None:
    bars.set_ydata(observed * CELLS / (HIGH - LOW))
    line.set_ydata(solved * CELLS * FINER / (HIGH - LOW))


def _animation(times: np.ndarray, positions: np.ndarray, solved: np.ndarray, out: Path) -> list[str]:
    figure = animation_figure()
    axes, below = figure.subplots(2, 1, height_ratios=(4, 1), sharex=True)
    bars, line = _panel(axes)
    tidy(axes, "Langevin dynamics, and the Fokker–Planck equation of their density")
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    clock = axes.text(0.02, 0.95, "", transform=axes.transAxes, va="top", fontsize=10)
    # A few particles, each at its own height, so that the eye can follow them.
    few = min(120, positions.shape[1])
    heights = (np.arange(few) * 0.618) % 1
    (dots,) = below.plot([], [], "o", color=RIGHT, markersize=2.5, alpha=0.6, markeredgewidth=0)
    below.set(ylim=(-0.05, 1.05), yticks=[])
    tidy(below, "", "x")
    below.axvline(0, color=TRUTH, linewidth=0.6, linestyle=":")
    stage = Stage(figure, [bars, line, clock, dots])
    observed, frames = shares(positions), []
    for k, t in enumerate(times):
        _set(bars, line, observed[k], solved[k])
        clock.set_text(f"t = {t:.1f}")
        dots.set_data(positions[k, :few], heights)
        frames.append(stage.frame())
    return write_animations(frames, out / "fokker-planck")
