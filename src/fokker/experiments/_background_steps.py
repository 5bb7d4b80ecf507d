r"""How a step is made: Gibbs sampling along the axes, and the tree of NUTS doubling by doubling."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fokker.animation import Backdrop, Trajectory, Walk, animate, write_films
from fokker.experiments._gallery_targets import CORRELATION, TARGETS
from fokker.experiments._result import Claim

ERRORS = 4.0
LEAPS, DEEPEST = 0.8, 6


def backdrop(name: str) -> Backdrop:
    """A target of the gallery."""
    target = TARGETS[name]
    return Backdrop(
        target.title, target.box, target.grid(), tuple((m.x, m.density) for m in target.marginals)
    )


def gibbs(key: Any, chains: int, sweeps: int) -> np.ndarray:
    """Half-steps (chain, half-step, coordinate) on the correlated normal: x given y, then y given x."""
    noise = np.asarray(jax.random.normal(key, (chains * sweeps * 2,)), float).reshape(sweeps, 2, chains)
    deviation = np.sqrt(1 - CORRELATION**2)
    x, y = (np.full(chains, place) for place in TARGETS["correlated"].start)
    told = []
    for given in noise:
        x = CORRELATION * y + deviation * given[0]
        told.append((x, y))
        y = CORRELATION * x + deviation * given[1]
        told.append((x, y))
    return np.array(told).transpose(2, 0, 1)


def gibbs_claims(halves: np.ndarray) -> list[Claim]:
    """Along the axes, a chain on a correlated normal forgets by ρ² a sweep."""
    x = halves[:, halves.shape[1] // 2 :: 2, 0]
    # What is left of a sweep when the part that is remembered is taken off hangs together with nothing: its
    # error is far smaller than that of an autocovariance.
    left = np.mean((x[:, 1:] - CORRELATION**2 * x[:, :-1]) * x[:, :-1], axis=1)
    variance = np.mean(x**2, axis=1)
    error = [float(v.std(ddof=1) / np.sqrt(len(v))) for v in (left, variance)]
    off = abs(left.mean()), abs(variance.mean() - 1)
    return [
        Claim(
            "Gibbs sampling of a correlated normal keeps it, and forgets by a factor ρ² a sweep",
            bool(off[0] < ERRORS * error[0] and off[1] < ERRORS * error[1]),
            {
                "autocorrelation over one sweep": CORRELATION**2 + float(left.mean() / variance.mean()),
                "ρ²": CORRELATION**2,
                "variance": float(variance.mean()),
                "standard errors": error,
            },
        )
    ]


def grow_tree(
    gradient: Callable[[np.ndarray], np.ndarray],
    energy: Callable[[np.ndarray], float],
    position: np.ndarray,
    step_size: float,
    random: np.random.Generator,
) -> tuple[Trajectory, dict[str, Any]]:
    """One transition of NUTS, told in the order in which its points are visited.

    It doubles the path forwards or backwards at random until the ends of the path, or of a half, a quarter, …
    of it approach each other. The next state is drawn among the points by exp(-H); a last doubling that turns
    within itself is not drawn from.
    """
    r = random.normal(size=position.shape)
    points, momenta, depth, direction = [position], [r], [0], [1]
    order = [0]
    level, turned, drawable = 0, False, 1
    while not turned and level < DEEPEST:
        level += 1
        way = 1 if random.random() < 0.5 else -1
        end = order[-1] if way > 0 else order[0]
        theta, p = points[end], momenta[end]
        fresh: list[int] = []
        for _ in range(2 ** (level - 1)):
            p = p - way * step_size / 2 * gradient(theta)
            theta = theta + way * step_size * p
            p = p - way * step_size / 2 * gradient(theta)
            points.append(theta)
            momenta.append(p)
            depth.append(level)
            direction.append(way)
            fresh.append(len(points) - 1)
        half = fresh if way > 0 else fresh[::-1]
        within = _turns(half, points, momenta)
        order = order + half if way > 0 else half + order
        turned = within or _turned(order, points, momenta)
        drawable = drawable if within else len(points)
    heights = np.array([energy(x) + r @ r / 2 for x, r in zip(points, momenta, strict=True)])
    weight = np.exp(heights.min() - heights[:drawable])
    chosen = int(random.choice(drawable, p=weight / weight.sum()))
    told = {"depth": level, "points": len(points), "turned": turned, "energy error": float(np.ptp(heights))}
    return Trajectory(np.array(points), chosen, True, np.array(depth), np.array(direction)), told


def _turned(order: list[int], points: list[np.ndarray], momenta: list[np.ndarray]) -> bool:
    """Whether the ends of a path come closer when time goes on at either of them."""
    across = points[order[-1]] - points[order[0]]
    return bool(across @ momenta[order[0]] < 0 or across @ momenta[order[-1]] < 0)


def _turns(order: list[int], points: list[np.ndarray], momenta: list[np.ndarray]) -> bool:
    """Whether a path or one of its halves has turned."""
    if len(order) < 2:
        return False
    middle = len(order) // 2
    halves = order[:middle], order[middle:]
    return _turned(order, points, momenta) or any(_turns(half, points, momenta) for half in halves)


def tree_chain(key: Any, steps: int) -> tuple[list[Trajectory], list[dict[str, Any]], np.ndarray]:
    """NUTS on the banana, by a step of the scale of its width."""
    log_density = TARGETS["banana"].log_density
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)))

    def gradient(z: np.ndarray) -> np.ndarray:
        across = z[1] - 0.03 * (z[0] ** 2 - 100)
        return np.array([z[0] / 100 - 0.06 * z[0] * across, across])

    position = np.array(TARGETS["banana"].start)
    trees, told, chain = [], [], []
    for _ in range(steps):
        tree, numbers = grow_tree(gradient, lambda z: float(-log_density(z)), position, LEAPS, random)
        position = tree.points[tree.chosen]
        trees.append(tree)
        told.append(numbers)
        chain.append(position)
    return trees, told, np.array(chain)


def tree_claims(told: list[dict[str, Any]]) -> list[Claim]:
    """A tree of depth k has 2ᵏ points, stops where it turns, and its leaps keep the energy."""
    whole = all(numbers["points"] == 2 ** numbers["depth"] for numbers in told)
    turned = float(np.mean([numbers["turned"] or numbers["depth"] == DEEPEST for numbers in told]))
    error = float(np.median([numbers["energy error"] for numbers in told]))
    return [
        Claim(
            "NUTS doubles its path until it turns back: 2ᵏ points at depth k, and leapfrog keeps the energy",
            whole and turned == 1.0 and error < 0.5,
            {
                "trees": len(told),
                "mean depth": float(np.mean([numbers["depth"] for numbers in told])),
                "turned or as deep as allowed": turned,
                "median error of the energy": error,
            },
        )
    ]


def draw(halves: np.ndarray, trees: list[Trajectory], chain: np.ndarray, frames: int, out: Path) -> list[str]:
    """A film of each."""
    line = "coordinate by coordinate × exact conditionals × none needed"
    walk = Walk("Gibbs", line, halves[0])
    written = write_films(animate(backdrop("correlated"), walk, frames), out / "gibbs", 120)
    # The trees that have the most to show first.
    shown = sorted(trees[:12], key=lambda tree: -len(tree.points))[:2]
    walk = Walk("NUTS", "Hamiltonian × leapfrog × tree", chain, trajectories=tuple(shown))
    film = animate(backdrop("banana"), walk, frames, share=0.7)
    return written + write_films(film, out / "nuts-tree", 160)
