r"""Does probability flow out to infinity? The residual is zero for f = -z + c exp(z²/2), which explodes.

For a stationary density, the flux J = v p, v = f - S, through the surface H = h vanishes as h grows. It is
sufficient that J decays faster than the surface grows (Bogachev, Krylov, Röckner and
Shaposhnikov 2015, chapter 5: |v|/(1 + |z|) integrable). Along rays, at growing heights h = min H + L,

    F(L) = |v·n| exp(-L) s^{d-1},   n = ∇H/|∇H|,   s the distance,

decreases like exp(-L) for every v that grows like a power; if it does not decrease, v grows like exp(H).
"""

from collections.abc import Callable

import numpy as np

from fokker.checker._evaluate import Evaluator
from fokker.dynamics.problem import Problem

_RAYS = 64
_LEVELS = np.array([40.0, 80.0, 160.0, 320.0])
_ROUNDS, _BEST, _HALVINGS = 15, 8, 24


def find_escape(
    problem: Problem,
    evaluate: Evaluator,
    points: np.ndarray,
    energies: np.ndarray,
    rounding: float,
    generator: np.random.Generator,
) -> str | None:
    """A message if the flux does not decay along some ray; None if it decays along all."""
    d = problem.dimension
    center, spread = np.median(points, axis=0), np.std(points, axis=0) + 1e-12
    lowest = float(np.min(energies[np.isfinite(energies)], initial=np.inf))
    if not np.isfinite(lowest):
        return None
    axes = np.eye(d)[:_RAYS]
    outward = (points[:_RAYS] - center) / spread
    rays = np.concatenate([axes, -axes, generator.normal(size=(_RAYS, d)), outward])
    rays /= np.maximum(np.linalg.norm(rays, axis=1, keepdims=True), 1e-300)

    def log_flux(rays: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log F and log s for each ray (rows) and level; NaN if a level is not reached."""
        rows, columns = len(rays), len(levels)
        directions = np.repeat(rays * spread, columns, axis=0)
        heights = lowest + np.tile(levels, rows)
        low, high = np.full(rows * columns, np.log(0.1)), np.full(rows * columns, np.log(1e40))
        with np.errstate(all="ignore"):
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                above = evaluate.energy(center + np.exp(middle)[:, None] * directions) >= heights
                low, high = np.where(above, low, middle), np.where(above, middle, high)
            values = evaluate.fields(center + np.exp(low)[:, None] * directions)
            f, S = values["f"], values["S"]
            v = np.where(np.abs(f - S) <= rounding * (np.abs(f) + np.abs(S)), 0.0, f - S) / spread
            gradient = values["gradient"] * spread
            outward_flux = np.abs(np.sum(v * gradient, axis=1))
            # A flux along the surface has v·n = 0 up to rounding errors of its terms.
            terms = np.sum(values["size"] / spread * np.abs(gradient), axis=1)
            outward_flux = np.where(outward_flux <= rounding * terms, 0.0, outward_flux)
            result = (
                np.log(outward_flux / np.linalg.norm(gradient, axis=1))
                - (values["H"] - lowest)
                + (d - 1) * low
            )
        # A level is reached if H is near it. It is not reached at an edge, or if H is bounded along the ray.
        reached = np.abs(values["H"] - heights) < 1.0
        result = np.where(reached & ~np.isnan(result), result, np.nan)
        return result.reshape(rows, columns), low.reshape(rows, columns)

    if d <= 12:
        rays = _climb(lambda r: log_flux(r, _LEVELS[:1])[0][:, 0], rays, generator)
    flux, distance = log_flux(rays, _LEVELS)
    with np.errstate(invalid="ignore"):
        # With heavy tails a flux decreases like a power of the distance; a constant flux is lost.
        steps = np.diff(flux, axis=1) > -0.05 * np.maximum(np.diff(distance, axis=1), 1e-3)
    steps &= np.isfinite(flux[:, 1:]) & np.isfinite(flux[:, :-1])
    is_lost = np.sum(steps, axis=1) >= 2
    if not np.any(is_lost):
        return None
    worst = rays[int(np.argmax(np.where(is_lost, np.nanmax(flux, axis=1), -np.inf)))]
    name = problem.coordinate_names()[int(np.argmax(np.abs(worst)))]
    return (
        f"probability flows out to infinity: as {name} grows, the drift grows like exp(H), so that the flux "
        "f p - ∇·(Dp) does not vanish far out. The residual is zero at every point, but exp(-H) is not "
        "stationary"
    )


def _climb(
    value: Callable[[np.ndarray], np.ndarray], rays: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """The rays, and new ones from hill climbing on the sphere from the best of them."""
    heights = value(rays)
    order = np.argsort(-np.where(np.isfinite(heights), heights, -np.inf))[:_BEST]
    best, best_heights = rays[order], np.where(np.isfinite(heights[order]), heights[order], -np.inf)
    if not np.any(np.isfinite(best_heights)):
        return rays
    width = 0.5
    for _ in range(_ROUNDS):
        trials = np.repeat(best, 8, axis=0)
        trials = trials + width * generator.normal(size=trials.shape) / np.sqrt(trials.shape[1])
        trials /= np.linalg.norm(trials, axis=1, keepdims=True)
        trial_heights = value(trials)
        trial_heights = np.where(np.isnan(trial_heights), -np.inf, trial_heights).reshape(len(best), 8)
        highest = np.argmax(trial_heights, axis=1)
        better = np.max(trial_heights, axis=1) > best_heights
        best_trials = trials.reshape(len(best), 8, -1)[np.arange(len(best)), highest]
        best = np.where(better[:, None], best_trials, best)
        best_heights = np.maximum(best_heights, np.max(trial_heights, axis=1))
        width *= 0.75
    return np.concatenate([rays, best])
