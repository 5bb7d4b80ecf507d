r"""The bent valley of Ma, Chen, Fox (2015) and the chains that explore it, for `ma_fig2_2d`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker import samplers
from fokker.fields import Scalar
from fokker.integrators import EulerMaruyama, SymplecticEuler
from fokker.lab.experiments._histogram import divergence
from fokker.lab.experiments._stages import stage
from fokker.lab.experiments._synthetic import NoisyGradient, gaussian, position_of, simulate

CELLS, LOW, HIGH = 40, np.array([-3.6, -2.4]), np.array([3.6, 2.4])
START = (0.0, -1.2)
PATH_THIN = 10
INTEGRATORS: dict[str, Any] = {"Euler": EulerMaruyama(), "symplectic Euler": SymplecticEuler()}
# Of the grid 0.2·2^{-k/2} the part about the best step: SGLD has the same steps by either integrator.
GRIDS: dict[tuple[str, str], tuple[float, ...]] = {
    pair: tuple(0.2 * 2 ** (-k / 2) for k in range(first, first + 8))
    for pair, first in {
        ("SGLD", "Euler"): 4,
        ("SGHMC", "Euler"): 5,
        ("SGHMC", "symplectic Euler"): 0,
        ("gSGRHMC", "Euler"): 5,
        ("gSGRHMC", "symplectic Euler"): 1,
    }.items()
}


class ValleySetting(NamedTuple):
    """Numbers that chains are vectorised over; friction is SGHMC's, noise the gradient's variance."""

    step_size: Any
    friction: Any = 1.0
    noise: Any = 1.0


def potential(theta: Any) -> Any:
    """U, of numbers or of arrays."""
    return theta[0] ** 4 / 10 + (4 * (theta[1] + 1.2) - theta[0] ** 2) ** 2 / 2


def metric(theta: Array) -> Array:
    """G⁻¹ = D√(U + C) with D = 1.5 and C = 0.5 of the paper; U is never negative here."""
    return 1.5 * jnp.sqrt(potential(theta) + 0.5)


def chain(
    method: str, integrator: str, setting: ValleySetting, key: Array, steps: int, path: bool = False
) -> Array:
    """The cell of every state of one chain from the mode, or every tenth state itself."""
    sampler = {
        "SGLD": lambda h: samplers.sgld(h),
        "SGHMC": lambda h: samplers.sghmc(h, setting.friction, integrator=INTEGRATORS[integrator]),
        "gSGRHMC": lambda h: samplers.gsgrhmc(
            h,
            Scalar(metric),
            Scalar(lambda theta: jnp.sqrt(metric(theta))),
            integrator=INTEGRATORS[integrator],
        ),
    }[method](setting.step_size)

    placed = sampler.on(NoisyGradient(potential))
    record, thin = (position_of, PATH_THIN) if path else (lambda state: cell_of(state.position), 1)
    return simulate(placed, jnp.asarray(START), key, steps, gaussian(setting.noise, 2), record, thin)


def cell_of(theta: Array) -> Array:
    """The number of the cell of the histogram, the last one for everything outside."""
    place = jnp.floor((theta - LOW) / ((HIGH - LOW) / CELLS))
    inside = jnp.all((place >= 0) & (place < CELLS))
    return jnp.where(inside, place[0] * CELLS + place[1], CELLS**2).astype(jnp.uint16)


def exact_density(points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Coordinates, the density summed to one over `points`² of them in the box, and the share outside it."""
    x, y = (
        low + (np.arange(points) + 0.5) * (high - low) / points for low, high in zip(LOW, HIGH, strict=True)
    )
    wide_y = np.concatenate([y - (HIGH - LOW)[1], y, y + (HIGH - LOW)[1]])
    weight = np.exp(-potential(np.meshgrid(x, wide_y, indexing="ij")))
    inside = weight[:, points : 2 * points]
    return x, y, inside / inside.sum(), float(1 - inside.sum() / weight.sum())


def exact_shares() -> np.ndarray:
    """The exact shares of the cells, by 20² points in each, and the share outside."""
    *_, density, outside = exact_density(20 * CELLS)
    cells = density.reshape(CELLS, 20, CELLS, 20).sum(axis=(1, 3)).ravel()
    return np.maximum(np.append(cells * (1 - outside), outside), 1e-12)


def checkpoints(steps: int) -> np.ndarray:
    """Steps at which log₃(steps/100) + 1 is 0, ½, 1, …."""
    every = 100 * 3.0 ** (np.arange(0, 21) / 2 - 1)
    return np.floor(every[every < 1.001 * steps] + 1e-6).astype(int)


def measure(
    steps: int, seeds: int, repeats: int, variants: Mapping[str, Mapping[str, float]]
) -> list[dict[str, Any]]:
    """The distance at every checkpoint, the mean over chains and seeds, of every method, step and variant."""
    exact, stops = exact_shares(), checkpoints(steps)
    rows = []
    for (method, integrator), grid in GRIDS.items():
        stage(f"sampling by {method}, {integrator}")
        cases = [
            (name, ValleySetting(h, **changed))
            for name, changed in variants.items()
            for h in grid
            if method == "SGHMC" or "friction" not in changed  # the others have no friction
        ]
        settings = ValleySetting(*map(jnp.asarray, zip(*(setting for _, setting in cases), strict=True)))
        run = jax.jit(
            jax.vmap(
                jax.vmap(lambda s, k, m=method, i=integrator: chain(m, i, s, k, stops[-1] + 500), (None, 0)),
                (0, None),
            )
        )
        distances = []
        for seed in range(seeds):
            cells = np.asarray(run(settings, jax.random.split(jax.random.key(seed), repeats)))
            distances.append(np.mean([[_curve(c, stops, exact) for c in lane] for lane in cells], axis=1))
        for i, (name, setting) in enumerate(cases):
            curves = np.array([d[i] for d in distances])
            rows.append(
                {
                    "method": method,
                    "integrator": integrator,
                    "variant": name,
                    "step size": float(setting.step_size),
                    "steps": stops,
                    "KL": curves.mean(axis=0),
                    "KL by seed": curves,
                }
            )
    return rows


def _curve(cells: np.ndarray, stops: np.ndarray, exact: np.ndarray) -> list[float]:
    counts, done, curve = np.zeros(exact.size), 0, []
    for stop in stops:
        counts += np.bincount(cells[done:stop], minlength=exact.size)
        done = stop
        curve.append(divergence(counts / stop, exact))
    return curve
