"""Pictures, in one visual language: the target in greys, right in blue, wrong in vermilion."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from fokker.completion import Completion

# Okabe and Ito's colours, told apart by every common kind of colour vision.
RIGHT, WRONG, TRUTH, ACCENT = "#0072B2", "#D55E00", "#333333", "#009E73"
GREYS = "Greys"


def new_figure(width: float, height: float) -> Figure:
    """A figure that belongs to no global state and needs no screen."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def tidy(axes: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Titles left, no box, small ticks."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def density_contours(axes: Axes, x: np.ndarray, y: np.ndarray, density: np.ndarray) -> None:
    """The target's density p(x, y), `density[i, j]` at (x[i], y[j])."""
    axes.contourf(x, y, density.T, levels=12, cmap=GREYS, alpha=0.75)
    axes.contour(x, y, density.T, levels=6, colors="white", linewidths=0.4)


def save_completion(found: "Completion", out: Path) -> list[Path]:
    """A completion's grid as completion.npz (completion.txt without one), and in 2-D a picture of Q."""
    out.mkdir(parents=True, exist_ok=True)
    if found.axes is None:
        # The axial gauge is evaluated where it is asked for: there is no grid to write, only what was found.
        path = out / "completion.txt"
        path.write_text(str(found) + "\n", encoding="utf-8")
        return [path]
    axes: list[Any] = [np.asarray(axis) for axis in found.axes]
    Q, density, trusted = (np.asarray(a) for a in (found.Q_on_grid, found.density, found.trusted))
    paths = [out / "completion.npz"]
    named = {f"axis_{i}": axis for i, axis in enumerate(axes)}
    np.savez_compressed(paths[0], Q=Q, density=density, trusted=trusted, **named)
    if len(axes) == 2:
        figure = new_figure(6.0, 4.6)
        panel = figure.subplots()
        shown = np.ma.masked_where(~trusted, Q[0, 1])
        span = float(np.max(np.abs(shown))) or 1.0
        image = panel.pcolormesh(*axes, shown.T, cmap="RdBu_r", vmin=-span, vmax=span, shading="nearest")
        panel.contour(*axes, density.T, levels=6, colors=TRUTH, linewidths=0.6)
        inside = np.argwhere(trusted)
        limits = [
            (axis[column.min()], axis[column.max()]) for axis, column in zip(axes, inside.T, strict=True)
        ]
        panel.set(xlim=limits[0], ylim=limits[1])
        figure.colorbar(image, ax=panel, label=f"Q[{found.names[0]}, {found.names[1]}]")
        tidy(panel, "The curl behind the drift, where it can be trusted", *found.names)
        paths.append(out / "completion.png")
        figure.savefig(paths[1], dpi=130)
    return paths
