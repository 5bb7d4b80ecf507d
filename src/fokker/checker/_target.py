"""Is there a target? Global properties of H and of the motion, which the residual cannot detect."""

from dataclasses import dataclass

import jax
import numpy as np

from fokker.checker._barriers import find_barrier
from fokker.checker._evaluate import Evaluator, Values
from fokker.checker._normalisable import check_integral
from fokker.checker._reducible import Reach, check_reach
from fokker.checker._residual import map_points
from fokker.dynamics.problem import Problem, Vector

_RAYS = 64
_TESTS = 32
# Standard errors; one of 32 normal means exceeds this once in ten million checks.
_ALARM = 6.5


@dataclass(frozen=True)
class TargetFindings:
    """The results: `wrong` says why there is no target, `doubts` what could not be tested.

    `notes` say what else to know; `flow` is the largest |t| of the weak form, in standard errors.
    """

    wrong: tuple[str, ...]
    doubts: tuple[str, ...]
    notes: tuple[str, ...] = ()
    flow: float = 0.0

    @property
    def flows(self) -> str | None:
        """A message if averages over the draws contradict a residual of zero."""
        if self.flow <= _ALARM or self.wrong:
            return None
        return (
            f"averages over draws from the target show a flow of probability ({self.flow:.0f} standard "
            "errors), although the residual at single points is zero: out of the tails, through an edge, or "
            "at a jump; or the draws are poor"
        )


def check_target(
    problem: Problem, evaluate: Evaluator, points: np.ndarray, values: Values, generator: np.random.Generator
) -> TargetFindings:
    """Test that H rises to infinity without an edge, and that all coordinates move.

    `values` are the fields at the points.
    """
    names = problem.coordinate_names()
    doubts = []
    falling = _falls_without_bound(evaluate, points, values["H"], generator)
    if falling is not None:
        reason = (
            f"H falls without bound (as {names[falling]} grows), so exp(-H) is not a density: was log p "
            "given instead of -log p?"
        )
        return TargetFindings((reason,), ())
    flat = np.zeros(problem.dimension, bool)
    for name, rows in problem.variables.items():
        if np.all(values["gradient"][:, rows] == 0):
            flat[rows] = True
            doubts.append(
                f"H does not depend on {name}, so exp(-H) has no integral, unless {name} is an angle or a "
                f'direction: then pass periodic={{"{name}": 2π}}, or sphere="{name}" for a unit vector. '
                "Or is it misspelt?"
            )
    # A generator of its own: what the other tests draw does not depend on the rays.
    integral = check_integral(problem, evaluate, points, flat, generator.spawn(1)[0])
    doubts += integral.doubts
    displaced = points + np.std(points, axis=0) * generator.normal(size=points.shape)
    if not np.all(np.isfinite(evaluate.energy(displaced))):
        doubts.append(
            "H is not finite next to points of the target: it has an edge, and flow through an edge cannot "
            "be detected. Reflect there, or transform to a variable without an edge"
        )
    weak, noise = _weak_form(problem, points, values, generator)
    constant = np.flatnonzero(np.all((values["f"] == 0) & (noise == 0), axis=0))
    if constant.size:
        which = ", ".join(names[i] for i in constant[:4]) + (", …" if constant.size > 4 else "")
        verb = "moves" if constant.size == 1 else "move"
        doubts.append(f"{which} never {verb}: exp(-H) is stationary, but is not reached")
    reach = Reach() if constant.size else check_reach(problem, evaluate, points, generator.spawn(1)[0])
    barrier = "" if reach.doubt or constant.size else find_barrier(problem, evaluate, points)
    doubts += [doubt for doubt in (reach.doubt, barrier) if doubt]
    notes = (reach.note,) if reach.note else ()
    return TargetFindings(integral.wrong, tuple(doubts), notes, _largest_t(weak))


def _weak_form(
    problem: Problem, points: np.ndarray, values: Values, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """f·∇φ + D:∇²φ for φ = tanh(w·(z - c)) at the points, for random c in the bulk of them; and D·1."""
    d = problem.dimension
    tests = generator.normal(size=(_TESTS, d)) / np.sqrt(d)
    coordinates = min(d, _TESTS // 2)
    tests[:coordinates] = np.eye(d)[:coordinates]
    tests /= np.std(points, axis=0) + 1e-12
    # Beyond an outer center there are too few points to balance those on its other side, if D grows.
    bulk = points[np.argsort(values["H"])[: max(1, len(points) // 2)]]
    centers = bulk[generator.integers(0, len(bulk), _TESTS)]
    ones = np.ones((1, d))

    def products(x: Vector) -> tuple[jax.Array, jax.Array]:
        products_with_D = jax.vmap(lambda w: problem.D_mv(x, w))(np.concatenate([tests, ones]))
        return jax.numpy.sum(products_with_D[:-1] * tests, axis=1), products_with_D[-1]

    quadratic, noise = map_points(products, points, 8 * d * _TESTS)
    t = np.tanh(points @ tests.T - np.sum(tests * centers, axis=1))
    return (1 - t**2) * (values["f"] @ tests.T - 2 * t * np.asarray(quadratic)), np.asarray(noise)


def _falls_without_bound(
    evaluate: Evaluator, points: np.ndarray, energies: np.ndarray, generator: np.random.Generator
) -> int | None:
    """The coordinate that grows most along a ray on which H falls below all its values and keeps falling."""
    d = points.shape[1]
    axes = np.eye(d)[:_RAYS]
    rays = np.concatenate([generator.normal(size=(_RAYS, d)), axes, -axes]) * (np.std(points, axis=0) + 1e-3)
    center = np.median(points, axis=0)
    with np.errstate(all="ignore"):
        near, far = (evaluate.energy(center + s * rays) for s in (1e3, 1e4))
        falls = (far == -np.inf) | ((far < near) & (near < np.nanmin(energies)))
    return int(np.argmax(np.abs(rays[int(np.argmax(falls))]))) if np.any(falls) else None


def _largest_t(values: np.ndarray) -> float:
    r"""The largest |t| of E[f·∇φ + D:∇²φ] = 0 over the test functions φ.

    It holds for every stationary density, and fails if probability is lost at infinity or at a jump.
    """
    errors = np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
    usable = np.isfinite(errors) & (errors > 0)
    return float(np.max(np.abs(values.mean(axis=0)[usable]) / errors[usable])) if np.any(usable) else 0.0
