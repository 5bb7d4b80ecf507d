r"""Do paths reach infinity in finite time by the noise alone? Feller's test along rays.

On the line, dz = (D' - DH') dt + √(2D) dW with p = exp(-H) has speed p and scale 1/(pD). The mass of p is
finite, so that infinity is reached in finite time if and only if

    ∫^∞ ds / (p D) < ∞        (Feller 1952; Karatzas and Shreve 1991, Theorem 5.5.29).

Cauchy's p with D = (1 + z²)² is an example: z = tan φ with a Brownian φ. In d dimensions the reversible
diffusion is lost to infinity if and only if a unit flow out to infinity has finite energy ∫ JᵀD⁻¹J/p
(Thomson's principle). Flows along rays w through m coordinates decrease like s^{1-m}, so that

    ∫^∞ wᵀD⁻¹w / (p s^{m-1}) ds < ∞

for the rays of a region shows an explosion. What is lost along curves only is not found.
"""

from dataclasses import dataclass

import numpy as np

from fokker.checker._evaluate import Evaluator, Values
from fokker.checker._rays import LARGEST_ROTATED, Rays, make_rays
from fokker.dynamics.problem import Problem

# Distances in spreads: up to 1e40, four in each decade, for a D that grows like an exponential.
_RADII = 10.0 ** np.linspace(0, 40, 161)
_COARSE = _RADII[[4, 12, 160]]
# D that grows more slowly than this power of the distance does not explode: E[D/s²] is finite.
_HARMLESS = 1.5
# The most rays along one coordinate that are looked at closely.
_CLOSELY = 32
# A power of s below the first is convergence; between it and the second it is undecided. A rotated ray is
# shorter, and its power not as accurate.
_CONVERGES, _ZERO, _ZERO_ROTATED = -0.05, -1e-6, -5e-3


@dataclass(frozen=True)
class Explosion:
    """A message, and whether it is certain that paths explode."""

    message: str
    is_certain: bool


def find_explosion(
    problem: Problem,
    evaluate: Evaluator,
    points: np.ndarray,
    values: Values,
    rounding: float,
    generator: np.random.Generator,
) -> Explosion | None:
    """Search for rays along which paths reach infinity; None if there are none.

    `values` are the fields at the points. If the flux v p, v = f - S, is not zero, it may carry paths away
    from these rays or along them, and nothing is certain.
    """
    d = problem.dimension
    number = 32 if d <= 12 else 8
    rays = make_rays(problem, evaluate, points, generator, np.zeros(d, bool), number, by="D")
    rays = rays.select(_growing(evaluate, rays))
    if not rays.names:
        return None
    slopes = _slopes(evaluate, rays)
    row = rays.simplest(slopes < _CONVERGES)
    is_decided = row is not None
    row = (
        row
        if is_decided
        else rays.simplest(slopes < np.where(rays.farthest < _RADII[-1], _ZERO_ROTATED, _ZERO))
    )
    if row is None:
        return None
    name = rays.names[row]
    if not is_decided:
        return Explosion(
            f"whether paths reach infinity in finite time could not be decided: as {name} grows, D grows at "
            "the limit of what exp(-H) allows (Feller's test, ∫ ds / (s^(d-1) p D) far out)",
            False,
        )
    words = (
        f"as {name} grows, D grows so fast that ∫ ds / (s^(d-1) p D) is finite far out (Feller's test): "
        "paths reach infinity in finite time, by the noise alone. Choose a D that grows no faster than |z|²"
    )
    f, S = values["f"], values["S"]
    is_reversible = np.all(np.abs(f - S) <= rounding * (np.abs(f) + np.abs(S) + np.max(np.abs(S))))
    if is_reversible and d <= LARGEST_ROTATED:
        return Explosion(f"{words}. The residual is zero at every point, but exp(-H) is not stationary", True)
    return Explosion(f"without the flux of Q {words}. Whether that flux prevents it was not decided", False)


def _log_resistance(evaluate: Evaluator, rays: Rays, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log wᵀD⁻¹w at each radius on each ray, and the largest entry of D."""
    shape, places = (len(rays.names), radii.size), rays.at(radii)
    with np.errstate(all="ignore"):
        if places.shape[1] > LARGEST_ROTATED:
            # (Dc)_j / c_j with the c of `Evaluator.fields`: the entry of a diagonal D.
            c = np.cos(1 + np.arange(places.shape[1]))
            entries = (evaluate.fields(places)["D"] / c).reshape(*shape, -1)
            along = np.sum(entries * rays.directions[:, None] ** 2, axis=2)
            return -np.log(np.where(np.isfinite(along), along, np.nan)), np.max(np.abs(entries), axis=2)
        D = evaluate.matrices(places)["D"]
        directions = np.repeat(rays.directions, radii.size, axis=0)
        size = np.max(np.abs(D), axis=(1, 2))
        result = np.full(len(D), np.nan)
        fine = np.isfinite(size)
        result[fine] = _log_inverse(D[fine], directions[fine])
    return result.reshape(shape), size.reshape(shape)


def _log_inverse(D: np.ndarray, w: np.ndarray) -> np.ndarray:
    """log wᵀD⁻¹w, infinite if w is not in the range of D; D may have entries of very different sizes."""
    unit = np.sqrt(np.abs(np.diagonal(D, axis1=1, axis2=2)))
    moves = unit > 0
    safe = np.where(moves, unit, 1.0)
    values, vectors = np.linalg.eigh(D / (safe[:, :, None] * safe[:, None, :]))
    scaled = w / safe
    largest = np.max(np.abs(scaled), axis=1, keepdims=True)
    along = np.einsum("nij,ni->nj", vectors, scaled / np.where(largest > 0, largest, 1.0)) ** 2
    is_null = values <= 1e-12 * values[:, -1:]
    inverse = np.sum(np.where(is_null, 0.0, along / np.where(is_null, 1.0, values)), axis=1)
    is_outside = np.any(~moves & (w != 0), axis=1) | np.any(is_null & (along > 1e-20), axis=1)
    return np.where(is_outside, np.inf, np.log(inverse) + 2 * np.log(largest[:, 0]))


def _growing(evaluate: Evaluator, rays: Rays) -> np.ndarray:
    """The rows of the rays on which D grows fast enough to be looked at closely: the fastest of them."""
    size = _log_resistance(evaluate, rays, np.concatenate([[1.0], _COARSE]))[1]
    with np.errstate(all="ignore"):
        growth = np.log(size[:, 1:] / size[:, :1]) / np.log(_COARSE)
    growth = np.where(size[:, 1:] == 0, -np.inf, np.where(np.isnan(growth), np.inf, growth))
    largest = np.max(growth, axis=1)
    order = np.argsort(-largest, kind="stable")
    fast = order[largest[order] >= _HARMLESS]
    # Along several coordinates a D that grows no faster may explode: there is more room.
    is_alone = rays.coordinates[fast] == 1
    return np.sort(np.concatenate([fast[is_alone][:_CLOSELY], fast[~is_alone]]))


def _slopes(evaluate: Evaluator, rays: Rays) -> np.ndarray:
    """The power of s in s wᵀD⁻¹w / (p s^{m-1}) far out on each ray; NaN if it could not be evaluated."""
    resistance, _ = _log_resistance(evaluate, rays, _RADII)
    with np.errstate(all="ignore"):
        H = evaluate.energy(rays.at(_RADII)).reshape(resistance.shape)
    log_s = np.log(_RADII)
    G = resistance + H + (2 - rays.coordinates[:, None]) * log_s
    slopes = np.full(len(G), np.nan)
    for row, values in enumerate(G):
        # Up to where D overflows; an infinite H or a singular D lets nothing through.
        is_over = np.isnan(resistance[row]) | (rays.farthest[row] < _RADII)
        end = int(np.argmax(is_over)) if np.any(is_over) else values.size
        first, middle, last = end - end // 2, end - end // 4 - 1, end - 1
        if end >= 6 and np.all(np.isfinite(values[first:end])):
            slopes[row] = max(
                (values[middle] - values[first]) / (log_s[middle] - log_s[first]),
                (values[last] - values[middle]) / (log_s[last] - log_s[middle]),
            )
    return slopes
