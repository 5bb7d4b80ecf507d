r"""Does the noise reach every direction? If not, exp(-H) is stationary, but not the only stationary density.

Paths of dz = f dt + √(2D) dW go where dz/dt = v(z) + D(z)a(t) leads, over all controls a (Stroock and
Varadhan 1972; v = f - S differs from the drift of the Stratonovich form by a vector in the range of D, which
a control replaces). They fill a neighbourhood if and only if, for almost every control, the derivative of
the end with respect to the control has full rank (Sontag 1992), so that the Lie algebra of v and D's columns
need not be written down. A lower rank, as with noise along (1, 1) only or on spheres only, means that
something is conserved. Underdamped dynamics have full rank: their noise reaches theta through r.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.digits import percent
from fokker._core.quick import compile_once
from fokker.checker._compact import Lifted
from fokker.checker._evaluate import Evaluator
from fokker.checker._residual import required_without_curl
from fokker.dynamics.problem import Problem, Vector

# Above the first, only D and first brackets are looked at, at two points; above the second, nothing.
_LARGEST, _LARGEST_AT_ALL = 32, 128
_UNTESTED = "whether the noise reaches every direction was not decided: there are too many coordinates"
_POINTS = 16
# Points farther out than this many median absolute deviations are in a heavy tail.
_FARTHEST = 50.0
# Points without full rank among those tested; a single one may be rounding.
_FEWEST = 2
# From this share of the points on, the rank is taken to be low everywhere.
_EVERYWHERE = 0.9
# The control is constant in each piece; steps of the integrator in each.
_PIECES, _STEPS = 5, 12
# Singular values below this share of the largest are zero; those of weak couplings are larger.
_RANK = 1e-6
# The same with derivatives by differences, which only show that the rank is full.
_CLEARLY, _DIFFERENCE, _ROUNDING = 1e-3, 1e-5, 1e-6
# The stages of Runge and Kutta: where each is evaluated, and its weight.
_STAGES = np.array([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]])


@dataclass(frozen=True)
class Reach:
    """A doubt, or a note, in words; both empty if the noise reaches every direction."""

    doubt: str = ""
    note: str = ""


def check_reach(
    problem: Problem, evaluate: Evaluator, points: np.ndarray, generator: np.random.Generator
) -> Reach:
    """Test the rank of the motion at draws of the target."""
    d = problem.dimension
    if d > _LARGEST_AT_ALL:
        return Reach(note=_UNTESTED)
    points = points[without_far_tails(points)][: None if d <= _LARGEST else 2]
    spread = np.std(points, axis=0) + 1e-12
    # The radii of angles and unit vectors are constant by construction.
    full = d - (problem.number_of_radii if isinstance(problem, Lifted) else 0)
    D = evaluate.matrices(points)["D"] / np.outer(spread, spread)
    if not np.any(D) or not np.all(np.isfinite(D)):
        return Reach()
    ranks = _rank(D)
    rows, shares = _choose(ranks)
    tested = points[rows]
    if np.all(ranks >= full) or np.all(_rank(_brackets(evaluate, tested, spread)) >= full):
        return Reach()
    if d > _LARGEST:
        return Reach(note=_UNTESTED)
    matrices = _derivatives(problem, tested, spread, generator)
    finite = np.all(np.isfinite(matrices), axis=(1, 2))
    left, values, _ = np.linalg.svd(matrices[finite], full_matrices=False)
    unreached = values <= _RANK * np.maximum(values[:, :1], 1e-300)
    lacking = np.flatnonzero(np.sum(unreached, axis=1) > d - full)
    if lacking.size < min(_FEWEST, len(tested)):
        return Reach()
    kernels = [left[i][:, unreached[i]] for i in lacking]
    fields = evaluate.fields(tested[finite][lacking])
    is_carried = bool(np.any(np.abs(fields["f"] - fields["S"]) > _RANK * np.abs(fields["S"])))
    share = np.sum(shares[finite][lacking]) / np.sum(shares[finite])
    return _words(problem, kernels, spread, float(share), is_carried)


def without_far_tails(points: np.ndarray) -> np.ndarray:
    """The rows of the points that are not far out in heavy tails, where D may be singular by rounding."""
    center = np.median(points, axis=0)
    distance = np.abs(points - center) / (np.median(np.abs(points - center), axis=0) + 1e-12)
    farthest = np.max(distance, axis=1)
    return np.flatnonzero(farthest <= max(_FARTHEST, np.sort(farthest)[min(1, len(points) - 1)]))


def _choose(ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows to test and the share of the draws that each stands for: half of them where D has a lower rank."""
    is_low = ranks < np.max(ranks)
    low, rest = np.flatnonzero(is_low), np.flatnonzero(~is_low)
    groups = [low[: _POINTS // 2], rest[: _POINTS - min(low.size, _POINTS // 2)]]
    shares = [
        np.full(g.size, all_.size / max(g.size, 1)) for g, all_ in zip(groups, (low, rest), strict=True)
    ]
    return np.concatenate(groups), np.concatenate(shares) / ranks.size


def _rank(matrices: np.ndarray) -> np.ndarray:
    """The rank of each matrix, its columns scaled to length one; too low rather than too high."""
    if not np.all(np.isfinite(matrices)):
        return np.zeros(len(matrices), int)
    lengths = np.linalg.norm(matrices, axis=1, keepdims=True)
    values = np.linalg.svd(matrices / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
    return np.sum(values > _CLEARLY, axis=1)


def _brackets(evaluate: Evaluator, points: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """D and [v, D_j] = (∂_v D)e_j - (∂v)D e_j, by differences: enough for most hypoelliptic dynamics."""
    n, d = points.shape

    def terms(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = evaluate.fields(x)
        return values["f"] / spread, values["S"] / spread

    def v(x: np.ndarray) -> np.ndarray:
        f, S = terms(x)
        return f - S

    def D(x: np.ndarray) -> np.ndarray:
        return evaluate.matrices(x)["D"] / np.outer(spread, spread)

    with np.errstate(all="ignore"):
        steps = _DIFFERENCE * np.eye(d) * spread
        places = points[:, None] + steps
        forward, backward = (v(x.reshape(-1, d)).reshape(n, d, d) for x in (places, places - 2 * steps))
        jacobian = ((forward - backward) / (2 * _DIFFERENCE)).transpose(0, 2, 1)
        f, S = terms(points)
        at = f - S
        speed = np.maximum(np.linalg.norm(at, axis=1), 1e-300)
        move = _DIFFERENCE * at / speed[:, None] * spread
        along = (D(points + move) - D(points - move)) / (2 * _DIFFERENCE) * speed[:, None, None]
        here = D(points)
        brackets = along - jacobian @ here
        # Differences of rounding errors are no direction.
        rounding = _ROUNDING * np.max(np.abs(here), axis=(1, 2)) * np.max(np.abs(f) + np.abs(S), axis=1)
        brackets = np.where(np.abs(brackets) > rounding[:, None, None], brackets, 0.0)
        return np.concatenate([here, brackets], axis=2)


def _derivatives(
    problem: Problem, points: np.ndarray, spread: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """The derivative, in spreads, of where a random control leads from each point."""
    d = problem.dimension

    def flux(x: Vector) -> Vector:
        return problem.drift(x) - required_without_curl(problem, x)

    both = compile_once(jax.vmap(lambda x: (flux(x), jnp.diagonal(problem.D_matrix(x)))))(points)
    v, noise = (np.asarray(value) for value in both)
    # The time in which v moves by a spread, and controls that do so too.
    speed = np.quantile(np.max(np.abs(v / spread), axis=1), 0.75)
    time = 1 / speed if speed > 0 else 1.0
    mean = np.mean(noise, axis=0)
    size = np.where(mean > 0, spread / np.where(mean > 0, mean * time, 1.0), 0.0)
    h = 1 / (_PIECES * _STEPS)

    def end(x: Vector, controls: Array) -> Vector:
        def step(x: Vector, a: Vector) -> tuple[Vector, None]:
            def stage(
                carry: tuple[Vector, Vector], coefficients: Array
            ) -> tuple[tuple[Vector, Vector], None]:
                slope, total = carry
                y = x + h * coefficients[0] * slope
                slope = time * (flux(y) + problem.D_mv(y, jnp.asarray(size) * a))
                return (slope, total + coefficients[1] * slope), None

            # A scan: the four stages are compiled once.
            (_, total), _ = jax.lax.scan(stage, (jnp.zeros_like(x), jnp.zeros_like(x)), jnp.asarray(_STAGES))
            return x + h * total, None

        return jax.lax.scan(step, x, jnp.repeat(controls, _STEPS, axis=0))[0] / spread

    controls = 0.5 * generator.normal(size=(_PIECES, d))
    derivative = compile_once(jax.vmap(jax.jacfwd(end, argnums=1), in_axes=(0, None)))
    return np.asarray(derivative(points, controls)).reshape(len(points), d, -1)


def _words(
    problem: Problem, kernels: list[np.ndarray], spread: np.ndarray, share: float, is_carried: bool
) -> Reach:
    """What is conserved, in words: a doubt if it concerns the position, else a note.

    If there is noise at other points only, the flux may carry paths to them (`is_carried`): a note too.
    """
    position = problem.variables.get(problem.position)
    names = problem.coordinate_names()
    weights = np.sqrt(np.mean([np.sum(kernel**2, axis=1) for kernel in kernels], axis=0))
    what = ", ".join(names[i] for i in np.flatnonzero(weights > 1e-3)[:4])
    is_plain = position is not None and len(problem.variables) > 1 and not isinstance(problem, Lifted)
    if is_plain and np.max(weights[position]) < 1e-3:
        return Reach(note=f"a combination of {what} never changes: it stays as the sampler starts it")
    if share < _EVERYWHERE:
        words = f"the noise does not reach every direction of {what} at {percent(share)} of the points"
        if is_carried:
            return Reach(note=f"{words}; whether paths leave there was not decided")
        return Reach(f"{words}: exp(-H) is stationary, but is not reached from there")
    first = kernels[0]
    if first.shape[1] == 1 and all(abs(abs(k[:, 0] @ first[:, 0]) - 1) < 1e-6 for k in kernels):
        linear = first[:, 0] / spread
        # The first of the largest is one, so that equal weights do not change sign by rounding.
        linear /= linear[np.argmax(np.abs(linear) > 0.99 * np.max(np.abs(linear)))]
        terms = [f"{w:+.3g} {n}" for w, n in zip(linear, names, strict=True) if abs(w) > 1e-6][:4]
        conserved = " ".join(terms).removeprefix("+").removeprefix("1 ")
        return Reach(f"{conserved} never changes: exp(-H) is stationary, but is not reached")
    return Reach(
        f"the noise does not reach every direction of {what}: paths stay on a surface, something is "
        "conserved, and exp(-H) is stationary, but is not reached"
    )
