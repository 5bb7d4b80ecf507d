"""`fokker demo recipe`: the recipe at work on a built-in target."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from rich.console import Console

from fokker._core.files import write_text
from fokker.checker import Report, check
from fokker.demo._console import print_table
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import Scalar
from fokker.report.page import html, image_of_bytes, page, table
from fokker.report.plots import RIGHT, TRUTH, WRONG, density_contours, new_figure, tidy
from fokker.run.api import sample
from fokker.samplers import recipe
from fokker.targets import Density

STEP_SIZE = 0.005
CHAINS = 256
BURN_IN, STEPS, THIN = 4_000, 20_000, 20


def potential(theta: Array) -> Array:
    """U = θ₁⁴/10 + (4(θ₂ + 1.2) - θ₁²)²/2, the bent valley of Ma, Chen, Fox (2015), Figure 3."""
    return theta[0] ** 4 / 10 + (4 * (theta[1] + 1.2) - theta[0] ** 2) ** 2 / 2


def inverse_metric(theta: Array) -> Array:
    """G⁻¹ = 1/4 + θ₁²: faster in the arms of the valley than at its bottom."""
    return 0.25 + theta[0] ** 2


def root(theta: Array) -> Array:
    """G^{-1/2}."""
    return jnp.sqrt(inverse_metric(theta))


TARGET = Density(lambda theta: -potential(theta))
HAMILTONIAN = Hamiltonian(potential, auxiliary=lambda r: jnp.sum(r**2) / 2)

# The paper's gSGRHMC: the friction and the curl both follow the metric, and Γ is derived.
RIGHT_DYNAMICS = Dynamics(
    hamiltonian=HAMILTONIAN,
    D={("r", "r"): Scalar(inverse_metric)},
    Q={("r", "theta"): Scalar(root)},
)


def naive_drift(theta: Array, r: Array) -> dict[str, Array]:
    """The same without Γ, as one would write it by analogy with SGHMC (their Eq. 16)."""
    force = -root(theta) * jax.grad(potential)(theta) - inverse_metric(theta) * r
    return {"theta": root(theta) * r, "r": force}


NAIVE_DYNAMICS = SDE(naive_drift, RIGHT_DYNAMICS.D, HAMILTONIAN)


class Grid(NamedTuple):
    """The target by quadrature: its coordinates, its density on them, and the moments of theta."""

    x: np.ndarray
    y: np.ndarray
    density: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray


def exact_target() -> Grid:
    """The density on a fine grid, summed to one."""
    x, y = np.linspace(-5, 5, 401), np.linspace(-3, 6, 361)
    points = jnp.asarray(np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2))
    density = np.exp(-np.asarray(jax.vmap(potential)(points), float)).reshape(x.size, y.size)
    density /= density.sum()
    marginals = (density.sum(axis=1), density.sum(axis=0))
    mean = np.array([axis @ p for axis, p in zip((x, y), marginals, strict=True)])
    second = np.array([axis**2 @ p for axis, p in zip((x, y), marginals, strict=True)])
    return Grid(x, y, density, mean, np.sqrt(second - mean**2))


def draws_of(dynamics: Dynamics | SDE, seed: int) -> np.ndarray:
    """Draws of theta, chains first, from many chains of Euler–Maruyama steps."""
    trace = sample(
        TARGET,
        recipe(dynamics, STEP_SIZE),
        init={"theta": jnp.zeros(2), "r": jnp.zeros(2)},
        steps=STEPS,
        burn_in=BURN_IN,
        thin=THIN,
        chains=CHAINS,
        seed=seed,
    )
    return trace.samples


def run(out: Path, seed: int, console: Console) -> None:
    """Check a right and a wrong sampler, sample with both, print the results and write a report."""
    out.mkdir(parents=True, exist_ok=True)
    state = {"theta": jnp.zeros(2), "r": jnp.zeros(2)}
    console.print("[bold]Two samplers for one target[/bold], U = θ₁⁴/10 + (4(θ₂ + 1.2) - θ₁²)²/2\n")
    console.print("By the recipe: D = diag(0, G⁻¹) and Q = [[0, -G⁻½], [G⁻½, 0]]; Γ is derived.")
    right = check(RIGHT_DYNAMICS, state=state, seed=seed)
    console.print(str(right), "\n", markup=False, soft_wrap=True)
    console.print("The same written by hand, with Γ forgotten.")
    wrong = check(NAIVE_DYNAMICS, state=state, seed=seed)
    console.print(str(wrong), "\n", markup=False, soft_wrap=True)

    draws = {"recipe": draws_of(RIGHT_DYNAMICS, seed), "naive": draws_of(NAIVE_DYNAMICS, seed)}
    truth = exact_target()
    print_table(console, "Posterior mean ± standard deviation", _COLUMNS, _rows(draws, truth))
    picture = out / "recipe.png"
    _picture(draws, truth, picture)
    report = out / "report.html"
    write_text(report, _page(right, wrong, draws, truth, picture))
    console.print(f"\nwrote {picture} and {report}; open the report in a browser.", markup=False)


def _rows(draws: dict[str, np.ndarray], truth: Grid) -> list[list[str]]:
    rows = []
    for i, name in enumerate(("θ₁", "θ₂")):
        row = [name, f"{truth.mean[i]:.3f} ± {truth.deviation[i]:.3f}"]
        for x in draws.values():
            # Chains are independent: their spread gives the standard error of the mean.
            error = x[..., i].mean(axis=1).std(ddof=1) / np.sqrt(len(x))
            row.append(f"{x[..., i].mean():.3f} ± {x[..., i].std():.3f} (standard error {error:.3f})")
        rows.append(row)
    return rows


_COLUMNS = ("", "exact", "recipe", "Γ forgotten")


_LABELS = {"recipe": "by the recipe", "naive": "Γ forgotten"}


def _picture(draws: dict[str, np.ndarray], truth: Grid, path: Path) -> None:
    figure = new_figure(10.5, 3.6)
    panels = figure.subplots(1, 3)
    for panel, (name, x), colour, title in zip(
        panels,
        draws.items(),
        (RIGHT, WRONG),
        ("The recipe: Γ derived", "The same, Γ forgotten"),
        strict=False,
    ):
        density_contours(panel, truth.x, truth.y, truth.density)
        chain = x[2, :80]
        panel.plot(*chain.T, color=colour, linewidth=0.8, alpha=0.6)
        panel.scatter(*x[:, ::1000].reshape(-1, 2).T, s=5, color=colour, label=name)
        panel.set(xlim=(-3, 3), ylim=(-2.1, 1.1))
        tidy(panel, title, "θ₁", "θ₂")
    last = panels[2]
    edges = np.linspace(-3, 3, 61)
    for (name, x), colour in zip(draws.items(), (RIGHT, WRONG), strict=True):
        counts = np.histogram(x[..., 0], edges, density=True)
        last.stairs(*counts, color=colour, linewidth=1.5, label=_LABELS[name])
    last.plot(truth.x, truth.density.sum(axis=1) / (truth.x[1] - truth.x[0]), color=TRUTH, linewidth=1)
    tidy(last, "θ₁ against the exact density (black)", "θ₁", "density")
    last.set_xlim(-3, 3)
    last.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=130)


def _page(right: Report, wrong: Report, draws: dict[str, np.ndarray], truth: Grid, picture: Path) -> str:
    return page(
        "The recipe at work",
        "<p>One target, U = θ₁⁴/10 + (4(θ₂ + 1.2) − θ₁²)²/2; one metric, G⁻¹ = ¼ + θ₁²; two samplers. The "
        "first is written as a diffusion D and a curl Q, and Fokker derives the correction Γ. The second is "
        "the same drift written by hand without Γ.</p>",
        image_of_bytes(picture.read_bytes(), "paths and marginal densities of both samplers"),
        table(_COLUMNS, _rows(draws, truth)),
        f"<p>{CHAINS} chains of {STEPS:,} steps of {STEP_SIZE}, after {BURN_IN:,}.</p>",
        html("<h2>The checker's report on the first</h2><pre>{{ report }}</pre>", report=right),
        html("<h2>The checker's report on the second</h2><pre>{{ report }}</pre>", report=wrong),
    )
