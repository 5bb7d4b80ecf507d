r"""Which density the sampler keeps in place of exp(-H): another temperature, a change of time or of variable.

With H' for H the residual is R' = ∂∂D - ∇·f + (f - 2∇·D)·∇H' + ∇H'ᵀD∇H' - D:∇²H', so that any H' is tested by
its derivatives at the points.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.checker._candidates import number
from fokker.checker._residual import divergence_of_matrix, map_points, required_without_curl, typical
from fokker.dynamics.problem import Problem, Vector

# All sets of coordinates are tried up to this many.
_LARGEST_POWER_SET = 6


class Expansion(NamedTuple):
    """The residual as a function of the derivatives of H, at each point."""

    zeroth: np.ndarray
    first: np.ndarray
    D: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    points: np.ndarray

    def is_zero(self, gradient: np.ndarray, hessian: np.ndarray, tolerance: float) -> bool:
        """Whether exp(-H') is stationary for an H' with these derivatives."""
        terms = [
            self.zeroth[:, None],
            self.first * gradient,
            (self.D * gradient[:, :, None] * gradient[:, None, :]).reshape(len(gradient), -1),
            -(self.D * hessian).reshape(len(gradient), -1),
        ]
        whole = np.concatenate(terms, axis=1)
        if not np.all(np.isfinite(whole)):
            return False
        scale = np.sum(np.abs(whole), axis=1)
        remainder = np.abs(np.sum(whole, axis=1))
        return bool(np.all(remainder <= 100 * tolerance * np.maximum(scale, typical(scale))))


def expand(problem: Problem, points: np.ndarray) -> Expansion:
    """The coefficients at the points."""

    def at(x: Vector) -> tuple[Array, ...]:
        divergence = divergence_of_matrix(problem.D_mv, x)
        twice = jnp.trace(jax.jacfwd(lambda y: divergence_of_matrix(problem.D_mv, y))(x))
        zeroth = twice - jnp.trace(jax.jacfwd(problem.drift)(x))
        first = problem.drift(x) - 2 * divergence
        gradient, hessian = jax.grad(problem.hamiltonian)(x), jax.hessian(problem.hamiltonian)(x)
        return zeroth, first, problem.D_matrix(x), gradient, hessian

    parts = map_points(at, points, 8 * 12 * problem.dimension**3)
    zeroth, first, D, gradient, hessian = (np.asarray(part) for part in parts)
    return Expansion(zeroth, first, D, gradient, hessian, points)


def other_temperature(expansion: Expansion, tolerance: float, positive: bool) -> str | None:
    r"""A message if exp(-βH) is stationary for another β: R(β) is quadratic in β at every point."""
    gradient, hessian, D = expansion.gradient, expansion.hessian, expansion.D
    first = np.sum(expansion.first * gradient, axis=1) - np.sum(D * hessian, axis=(1, 2))
    second = np.einsum("ni,nij,nj->n", gradient, D, gradient)
    best = int(np.argmax(np.abs(expansion.zeroth) + np.abs(first) + np.abs(second)))
    for root in np.roots([second[best], first[best], expansion.zeroth[best]]):
        beta = float(np.real(root))
        if (
            abs(np.imag(root)) > 1e-6
            or abs(beta - 1) < 1e-6
            or (beta > 0) is not positive
            or not 1e-3 < abs(beta) < 1e3
        ):
            continue
        if expansion.is_zero(beta * gradient, beta * hessian, tolerance):
            if beta < 0:
                return f"exp({number(-beta)} H) is stationary: the sign of H is wrong"
            return (
                f"exp(-{number(beta)} H) is stationary, not exp(-H): the temperature is {number(1 / beta)} "
                "times the required one"
            )
    return None


def change_of_time(problem: Problem, expansion: Expansion, tolerance: float) -> str | None:
    """A message if exp(-H)/a is stationary, for an a(z) that multiplies D or a velocity."""
    speeds = dict(_speeds(problem))

    def at(x: Vector) -> tuple[Array, Array]:
        logs = lambda y: jnp.stack([jnp.log(jnp.abs(a(y))) for a in speeds.values()])  # noqa: E731
        return jax.jacfwd(logs)(x), jax.jacfwd(jax.jacfwd(logs))(x)

    gradients, curvatures = (
        np.asarray(v) for v in map_points(at, expansion.points, 8 * 12 * problem.dimension**3)
    )
    for k, name in enumerate(speeds):
        if not np.all(np.isfinite(gradients[:, k])) or np.max(np.abs(gradients[:, k])) < 1e-9:
            continue
        gradient, hessian = expansion.gradient + gradients[:, k], expansion.hessian + curvatures[:, k]
        if expansion.is_zero(gradient, hessian, tolerance):
            return (
                f"exp(-H)/a is stationary, not exp(-H), with a = {name}: the dynamics were made a(z) times "
                "as fast, and the drift lacks the gradient of a: aD and aQ for D and Q need (D + Q)∇a more"
            )
    return None


def another_density(
    problem: Problem, points: np.ndarray, tolerance: float
) -> tuple[str, Callable[[Vector], Vector]] | None:
    r"""The message and the correction if f = -D∇(H + ψ) + ∇·D for some ψ, which may have any form.

    Then ∇ψ = D⁻¹(S - f) with S = ∇·D - D∇H; a vector field is a gradient if its Jacobian is symmetric.
    """

    def missing(x: Vector) -> Vector:
        return required_without_curl(problem, x) - problem.drift(x)

    def at(x: Vector) -> Array:
        return jax.jacfwd(lambda y: jnp.linalg.solve(problem.D_matrix(y), missing(y)))(x)

    jacobians = np.asarray(map_points(at, points, 8 * 12 * problem.dimension**3))
    if not np.all(np.isfinite(jacobians)):
        return None
    asymmetry = np.max(np.abs(jacobians - jacobians.transpose(0, 2, 1)))
    if asymmetry > 100 * tolerance * np.max(np.abs(jacobians)):
        return None
    message = (
        "the drift keeps another density, exp(-H - ψ): it is -D∇(H + ψ) + ∇·D with ∇ψ = D⁻¹(-D∇H + ∇·D - f). "
        "Is a factor missing in H or in the drift: a prior, a Jacobian, the speed a(z) of a change of time "
        "(ψ = log a)?"
    )
    return message, missing


def _speeds(problem: Problem) -> Iterator[tuple[str, Callable[[Vector], Array]]]:
    """Functions that a change of time may have multiplied the dynamics by."""
    yield "the trace of D", lambda x: jnp.trace(problem.D_matrix(x))
    gradient_of = jax.grad(problem.hamiltonian)
    for a, rows in problem.variables.items():
        for b, source in problem.variables.items():
            if a == b or rows.stop - rows.start != source.stop - source.start:
                continue

            def ratio(x: Vector, rows: slice = rows, source: slice = source) -> Array:
                gradient = gradient_of(x)[source]
                return problem.drift(x)[rows] @ gradient / (gradient @ gradient)

            yield f"the drift of {a} over ∂H/∂{b}", ratio


class Transform(NamedTuple):
    """A change of variable θ = g(z): log|dθ/dz| in words, and its first two derivatives."""

    formula: str
    log_jacobian: str
    slope: Callable[[np.ndarray], np.ndarray]
    curvature: Callable[[np.ndarray], np.ndarray]


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(z / 2))


_TRANSFORMS = (
    Transform("exp(z)", "z", np.ones_like, np.zeros_like),
    Transform(
        "1/(1 + exp(-z))",
        "log θ(1 - θ)",
        lambda z: -np.tanh(z / 2),
        lambda z: -2 * _sigmoid(z) * _sigmoid(-z),
    ),
    Transform(
        "log(1 + exp(z))",
        "-log(1 + exp(-z))",
        lambda z: _sigmoid(-z),
        lambda z: -_sigmoid(z) * _sigmoid(-z),
    ),
    Transform("tanh(z)", "log(1 - θ²)", lambda z: -2 * np.tanh(z), lambda z: -2 / np.cosh(z) ** 2),
    Transform("z²", "log|2z|", lambda z: 1 / z, lambda z: -1 / z**2),
)


def forgotten_jacobian(problem: Problem, expansion: Expansion, tolerance: float) -> str | None:
    """A message if exp(-H)·|dθ/dz|^±1 is stationary, for a common change of some coordinates."""
    names = problem.coordinate_names()
    d = problem.dimension
    rows = problem.variables.get(problem.position, slice(0, d))
    for transform in _TRANSFORMS:
        for subset in _subsets(range(rows.start, rows.stop)):
            mask = np.zeros(d)
            mask[list(subset)] = 1.0
            with np.errstate(all="ignore"):
                slope = mask * transform.slope(expansion.points)
                curvature = mask * transform.curvature(expansion.points)
            for sign in (1, -1):
                hessian = expansion.hessian - sign * curvature[:, :, None] * np.eye(d)
                if expansion.is_zero(expansion.gradient - sign * slope, hessian, tolerance):
                    return _jacobian_words(transform, [names[i] for i in subset], sign)
    return None


def _subsets(coordinates: range) -> Iterator[tuple[int, ...]]:
    """All coordinates first; then the other sets of them, or single ones where there are many."""
    sizes = (
        range(len(coordinates), 0, -1) if len(coordinates) <= _LARGEST_POWER_SET else (len(coordinates), 1)
    )
    for size in sizes:
        yield from combinations(coordinates, size)


def _jacobian_words(transform: Transform, names: list[str], sign: int) -> str:
    z = ", ".join(names)
    if sign > 0:
        return (
            f"exp(-H)·|dθ/dz| is stationary, not exp(-H), for θ = {transform.formula} with z = {z}: the "
            f"drift counts the Jacobian, and H lacks -log|dθ/dz|, with log|dθ/dz| = {transform.log_jacobian}"
        )
    return (
        f"exp(-H)/|dθ/dz| is stationary, not exp(-H), for θ = {transform.formula} with z = {z}: H counts the "
        f"Jacobian, and the drift lacks the gradient of log|dθ/dz| = {transform.log_jacobian}"
    )
