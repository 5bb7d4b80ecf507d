"""Figures in a common style: the target in grey, correct results in blue, wrong ones in vermilion."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fokker._core.files import write_atomically, write_text

if TYPE_CHECKING:
    from fokker.completion import Completion

# Okabe and Ito's colours, which are distinguishable with any common colour vision.
RIGHT, WRONG, TRUTH, ACCENT = "#0072B2", "#D55E00", "#333333", "#009E73"
GREYS = "Greys"


def new_figure(width: float, height: float) -> Figure:
    """A figure without global state that needs no display."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def tidy(axes: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Set left-aligned titles, no frame and small ticks."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def density_contours(axes: Axes, x: np.ndarray, y: np.ndarray, density: np.ndarray) -> None:
    """Draw the target's density p(x, y), with `density[i, j]` at (x[i], y[j])."""
    axes.contourf(x, y, density.T, levels=12, cmap=GREYS, alpha=0.75)
    axes.contour(x, y, density.T, levels=6, colors="white", linewidths=0.4)


def save_completion(completion: "Completion", out: Path) -> list[Path]:
    """Save a completion's grid as completion.npz (or completion.txt), and in 2-D a figure of Q."""
    out.mkdir(parents=True, exist_ok=True)
    if completion.axes is None:
        # The axial gauge has no grid to save, only the report.
        path = out / "completion.txt"
        write_text(path, str(completion) + "\n")
        return [path]
    axes: list[Any] = [np.asarray(axis) for axis in completion.axes]
    Q, density, trusted = (
        np.asarray(a) for a in (completion.Q_on_grid, completion.density, completion.trusted)
    )
    paths = [out / "completion.npz"]
    named = {f"axis_{i}": axis for i, axis in enumerate(axes)}
    parts = {"Q": Q, "density": density, "trusted": trusted, **named}
    write_atomically(paths[0], lambda file: np.savez_compressed(file, **parts))
    if len(axes) == 2:
        figure = new_figure(6.0, 4.6)
        panel = figure.subplots()
        masked = np.ma.masked_where(~trusted, Q[0, 1])
        span = float(np.max(np.abs(masked))) or 1.0
        image = panel.pcolormesh(*axes, masked.T, cmap="RdBu_r", vmin=-span, vmax=span, shading="nearest")
        panel.contour(*axes, density.T, levels=6, colors=TRUTH, linewidths=0.6)
        inside = np.argwhere(trusted)
        limits = [
            (axis[column.min()], axis[column.max()]) for axis, column in zip(axes, inside.T, strict=True)
        ]
        panel.set(xlim=limits[0], ylim=limits[1])
        figure.colorbar(image, ax=panel, label=f"Q[{completion.names[0]}, {completion.names[1]}]")
        tidy(panel, "The curl Q of the drift, where it is reliable", *completion.names)
        paths.append(out / "completion.png")
        write_atomically(paths[1], lambda file: figure.savefig(file, format="png", dpi=130))
    return paths
