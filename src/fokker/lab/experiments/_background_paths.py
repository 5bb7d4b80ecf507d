r"""Paths of stochastic differential equations: ODE against SDE, Brownian motion, Itô against Stratonovich."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Key

from fokker.lab.animation import DPI, HEIGHT, WIDTH, Frame, Stage, write_animations
from fokker.lab.experiments._result import Claim
from fokker.report.plots import ACCENT, RIGHT, TRUTH, WRONG, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Standard errors that an average may be off by; one in 16,000 is.
ERRORS = 4.0
# Geometric Brownian motion dX = μX dt + σX dW from X₀ = 1 over unit time.
MU, SIGMA = 0.5, 0.8
LEVELS = (16, 32, 64, 128, 256, 512)
# A strong order is right within this.
ORDER_WITHIN = 0.12
START = 2.5


def increments(key: Key[Array, ""], paths: int, steps: int, time: float = 1.0) -> np.ndarray:
    """dW of so many paths (rows) over equal steps."""
    drawn = jax.random.normal(key, (paths * steps,)).reshape(paths, steps)
    return np.asarray(drawn, float) * np.sqrt(time / steps)


def brownian(dW: np.ndarray) -> list[Claim]:
    """Var W_t = t, and increments are independent."""
    paths, steps = dW.shape
    W = np.cumsum(dW, axis=1)
    numbers = {
        f"variance at t = {part:g} over t": float(W[:, int(part * steps) - 1].var() / part) for part in _TIMES
    }
    half = steps // 2
    tied = float(np.corrcoef(W[:, half - 1], W[:, -1] - W[:, half - 1])[0, 1])
    error = np.sqrt(2 / paths)
    numbers |= {"standard error": float(error), "correlation of the two halves": tied}
    right = all(abs(numbers[f"variance at t = {part:g} over t"] - 1) < ERRORS * error for part in _TIMES)
    return [
        Claim(
            "the variance of Brownian motion is t, and its increments are independent",
            right and abs(tied) < ERRORS / np.sqrt(paths),
            numbers,
        )
    ]


_TIMES = (0.25, 0.5, 1.0)


def ornstein_uhlenbeck(dW: np.ndarray, time: float) -> np.ndarray:
    """dX = -X dt + √2 dW from START, by its exact transitions, without a discretisation error."""
    paths, steps = dW.shape
    h = time / steps
    X = np.empty((paths, steps + 1))
    X[:, 0] = START
    kick = np.sqrt(-np.expm1(-2 * h) / h)
    for n in range(steps):
        X[:, n + 1] = np.exp(-h) * X[:, n] + kick * dW[:, n]
    return X


def ode_and_sde(X: np.ndarray, time: float) -> list[Claim]:
    """The mean of a linear SDE is the ODE's solution; its variance is the noise's."""
    t = np.linspace(0, time, X.shape[1])[1:]
    variance = -np.expm1(-2 * t)
    mean_off = np.abs(X[:, 1:].mean(axis=0) - START * np.exp(-t)) / np.sqrt(variance / len(X))
    variance_off = np.abs(X[:, 1:].var(axis=0) / variance - 1) / np.sqrt(2 / len(X))
    return [
        Claim(
            "with a linear drift the mean of the SDE follows the ODE, and the variance 1 - exp(-2t)",
            bool(max(mean_off.max(), variance_off.max()) < ERRORS + 0.5),
            {
                "mean, most standard errors off": float(mean_off.max()),
                "variance, most standard errors off": float(variance_off.max()),
            },
        )
    ]


def geometric(dW: np.ndarray, steps: int, drift: float, scheme: str) -> np.ndarray:
    """X after each step: Euler and Maruyama's tend to Itô's solution, Heun's to Stratonovich's."""
    dW = dW.reshape(len(dW), steps, -1).sum(axis=2)
    h = 1.0 / steps
    X = np.ones((len(dW), steps + 1))
    for n in range(steps):
        x, w = X[:, n], dW[:, n]
        slope = drift * h + SIGMA * w
        # Heun: the slope at the start and the slope at a first guess of the end, averaged.
        X[:, n + 1] = x * (1 + slope) if scheme == "Itô" else x + (x + x * (1 + slope)) * slope / 2
    return X


def exact(W: np.ndarray, t: Any, kind: str) -> np.ndarray:
    """exp((μ - σ²/2)t + σW) by Itô, exp(μt + σW) by Stratonovich."""
    correction = SIGMA**2 / 2 if kind == "Itô" else 0.0
    return np.exp((MU - correction) * t + SIGMA * W)


def errors(dW: np.ndarray) -> dict[str, np.ndarray]:
    """E|X - exact| at the end for each number of steps: of both schemes against both solutions."""
    W = dW.sum(axis=1)
    table: dict[str, list[float]] = {}
    for steps in LEVELS:
        ends = {kind: geometric(dW, steps, MU, kind)[:, -1] for kind in _KINDS}
        ends["corrected"] = geometric(dW, steps, MU - SIGMA**2 / 2, "Stratonovich")[:, -1]
        for kind in _KINDS:
            for scheme, end in ends.items():
                table.setdefault(f"{scheme} to {kind}", []).append(
                    float(np.mean(np.abs(end - exact(W, 1.0, kind))))
                )
    return {name: np.array(values) for name, values in table.items()}


_KINDS = ("Itô", "Stratonovich")


def ito_and_stratonovich(strong_errors: dict[str, np.ndarray]) -> list[Claim]:
    """Orders of convergence, and that the two limits differ."""

    def order(name: str) -> float:
        return float(-np.polyfit(np.log(LEVELS), np.log(strong_errors[name]), 1)[0])

    ito, stratonovich = order("Itô to Itô"), order("Stratonovich to Stratonovich")
    apart = min(strong_errors["Itô to Stratonovich"][-1], strong_errors["Stratonovich to Itô"][-1])
    own = max(strong_errors["Itô to Itô"][-1], strong_errors["Stratonovich to Stratonovich"][-1])
    corrected = order("corrected to Itô")
    return [
        Claim(
            "on one noise, Euler–Maruyama converges to Itô's solution with order ½, Heun to "
            "Stratonovich's with order 1",
            abs(ito - 0.5) < ORDER_WITHIN and abs(stratonovich - 1) < ORDER_WITHIN,
            {"order, Euler–Maruyama": ito, "order, Heun": stratonovich, "steps": list(LEVELS)},
        ),
        Claim(
            "the two limits differ, and -σ²/2 in the drift turns one into the other",
            bool(apart > 5 * own and abs(corrected - 1) < ORDER_WITHIN),
            {
                "error against the other's solution, finest steps": float(apart),
                "error against its own": float(own),
                "order, Heun with drift μ - σ²/2 to Itô's solution": corrected,
            },
        ),
    ]


def draw_paths(
    dW: np.ndarray, X: np.ndarray, time: float, strong_errors: dict[str, np.ndarray], out: Path
) -> list[str]:
    """One picture of the three, and an animation of each."""
    figure = new_figure(13.0, 3.8)
    panels = figure.subplots(1, 4)
    t = np.linspace(0, time, X.shape[1])
    _ode_panel(panels[0], t)
    panels[0].plot(t, X[:6].T, color=RIGHT, linewidth=0.8, alpha=0.7)
    W = np.concatenate([np.zeros((len(dW), 1)), np.cumsum(dW, axis=1)], axis=1)
    s = np.linspace(0, 1, W.shape[1])
    _brownian_panel(panels[1], s)
    panels[1].plot(s, W[:12].T, color=RIGHT, linewidth=0.7, alpha=0.7)
    _geometric_panel(panels[2], s, W[0])
    for kind, colour in _COLOURS.items():
        panels[2].plot(
            np.linspace(0, 1, 33), geometric(dW[:1], 32, MU, kind)[0], ".-", color=colour, lw=1, ms=4
        )
    for name, (label, style, colour) in _CURVES.items():
        panels[3].loglog(LEVELS, strong_errors[name], style, color=colour, label=label, markersize=5)
    panels[3].set_xticks(LEVELS, [str(steps) for steps in LEVELS])
    panels[3].minorticks_off()
    panels[3].set_ylim(bottom=5e-5)
    panels[3].legend(frameon=False, fontsize=7.5, loc="lower left")
    tidy(panels[3], "Strong error against steps", "steps", "E|X − exact|")
    figure.savefig(out / "paths.png", dpi=130)
    return ["paths.png", *_animations(t, X, s, W, dW, out)]


_COLOURS = {"Itô": RIGHT, "Stratonovich": WRONG}
_CURVES = {
    "Itô to Stratonovich": ("Euler–Maruyama → Stratonovich", "x:", RIGHT),
    "Stratonovich to Itô": ("Heun → Itô", "+:", WRONG),
    "Itô to Itô": ("Euler–Maruyama → Itô", "o-", RIGHT),
    "Stratonovich to Stratonovich": ("Heun → Stratonovich", "s-", WRONG),
    "corrected to Itô": ("Heun with μ − σ²/2 → Itô", "^--", ACCENT),
}


def _ode_panel(axes: "Axes", t: np.ndarray) -> None:
    mean, deviation = START * np.exp(-t), np.sqrt(-np.expm1(-2 * t))
    axes.fill_between(t, mean - 2 * deviation, mean + 2 * deviation, color="0.9", label="mean ± 2 deviations")
    axes.plot(t, mean, color=TRUTH, linewidth=2, label="ODE: dx = −x dt")
    axes.plot([], [], color=RIGHT, label="SDE: dx = −x dt + √2 dW")
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    axes.set(xlim=(0, t[-1]), ylim=(-3.2, 4.4))
    tidy(axes, "ODE against SDE", "t", "x")


def _brownian_panel(axes: "Axes", t: np.ndarray) -> None:
    for factor, shade in ((2, "0.93"), (1, "0.86")):
        axes.fill_between(t, -factor * np.sqrt(t), factor * np.sqrt(t), color=shade, label=f"± {factor} √t")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    axes.set(xlim=(0, 1), ylim=(-3, 3))
    tidy(axes, "Brownian motion", "t", "W")


def _geometric_panel(axes: "Axes", t: np.ndarray, W: np.ndarray) -> None:
    for kind, dashes in (("Itô", "-"), ("Stratonovich", "--")):
        axes.plot(t, exact(W, t, kind), dashes, color=_COLOURS[kind], alpha=0.45, label=f"{kind}, exact")
    axes.plot([], [], ".-", color=RIGHT, label="Euler–Maruyama, 32 steps")
    axes.plot([], [], ".-", color=WRONG, label="Heun, 32 steps")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    top = 1.6 * float(exact(W, t, "Stratonovich").max())
    axes.set(xlim=(0, 1), ylim=(0, top))
    tidy(axes, "dX = μX dt + σX dW, read in two ways", "t", "X")


def growing(
    figure: "Figure", lines: Sequence[tuple[Any, np.ndarray, np.ndarray]], frames: int
) -> list[Frame]:
    """Frames in which lines grow from left to right, all up to the same time."""
    stage = Stage(figure, [line for line, _, _ in lines])
    end = max(t[-1] for _, t, _ in lines)
    pictures = []
    for now in np.linspace(end / frames, end, frames):
        for line, t, x in lines:
            seen = int(np.searchsorted(t, now + 1e-9, side="right"))
            line.set_data(t[:seen], x[:seen])
        pictures.append(stage.frame())
    return pictures


def animation_figure() -> Any:
    """A figure of the animations' size."""
    figure = new_figure(WIDTH / DPI, HEIGHT / DPI)
    figure.set_dpi(DPI)
    return figure


def _animations(
    t: np.ndarray, X: np.ndarray, s: np.ndarray, W: np.ndarray, dW: np.ndarray, out: Path
) -> list[str]:
    written = []
    for name in ("ode-sde", "brownian", "ito-stratonovich"):
        figure = animation_figure()
        axes = figure.subplots()
        style = {"color": RIGHT, "linewidth": 1.1, "alpha": 0.8}
        if name == "ode-sde":
            _ode_panel(axes, t)
            lines = [(axes.plot([], [], **style)[0], t, path) for path in X[:6]]
        elif name == "brownian":
            _brownian_panel(axes, s)
            lines = [(axes.plot([], [], **style)[0], s, path) for path in W[1:12]]
            lines.append((axes.plot([], [], color=ACCENT, linewidth=2.2)[0], s, W[0]))
        else:
            _geometric_panel(axes, s, W[0])
            coarse = np.linspace(0, 1, 33)
            lines = [
                (
                    axes.plot([], [], ".-", color=colour, linewidth=1.4)[0],
                    coarse,
                    geometric(dW[:1], 32, MU, kind)[0],
                )
                for kind, colour in _COLOURS.items()
            ]
        # As many frames as the coarse paths have steps: equal frames would be merged.
        written += write_animations(growing(figure, lines, 32), out / name)
    return written
