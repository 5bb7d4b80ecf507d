r"""Parts of a drift that do not belong to a skew Q: a force that is not skew, a forgotten ∇·Q."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.checker._candidates import Candidate
from fokker.checker._residual import divergence_of_matrix, map_points, required_without_curl
from fokker.dynamics.problem import Problem, Vector

Correction = Callable[[Vector], Vector]


def unbalanced_parts(problem: Problem) -> list[Candidate]:
    """By variable, and for the whole state: what is symmetric beyond D in the drift as a function of ∇H."""
    every = dict(problem.variables) if len(problem.variables) > 1 else {}
    auxiliaries_first = sorted(every.items(), key=lambda item: item[0] == problem.position)
    candidates = [
        Candidate(f"symmetric {name}", _symmetric_excess(problem, rows), _force_words(name), (1.0,))
        for name, rows in auxiliaries_first
    ]
    whole = slice(0, problem.dimension)
    return [*candidates, Candidate("symmetric", _symmetric_excess(problem, whole), _whole_words, (1.0,))]


def _symmetric_excess(problem: Problem, rows: slice) -> Correction:
    r"""[(G + Gᵀ)/2 - D]∇H for the G that the drift implies, G = -(∂f/∂z)(∂²H/∂z²)⁻¹ in these rows.

    If f = -G∇H with a G that does not depend on these rows, its derivative gives G = D + Q.
    """

    def field(x: Vector) -> Array:
        jacobian = jax.jacfwd(problem.drift)(x)[rows, rows]
        curvature = jax.hessian(problem.hamiltonian)(x)[rows, rows]
        G = -jnp.linalg.solve(curvature.T, jacobian.T).T
        excess = (G + G.T) / 2 - problem.D_matrix(x)[rows, rows]
        return jnp.zeros_like(x).at[rows].set(excess @ jax.grad(problem.hamiltonian)(x)[rows])

    return field


def _force_words(name: str) -> Callable[[float], str]:
    return lambda _: (
        f"the force on {name} that is linear in ∂H/∂{name}, such as a magnetic force, is not skew: what is "
        f"symmetric in its matrix is friction that no noise balances. Take a skew matrix times ∂H/∂{name} "
        f"(which is not {name} itself if the mass is not 1)"
    )


def _whole_words(_: float) -> str:
    return (
        "the drift is -G∇H with a G whose symmetric part is not D: what is symmetric in G is friction and "
        "needs its noise, the rest must be skew"
    )


def forgotten_curl(problem: Problem, points: np.ndarray, tolerance: float) -> tuple[str, Correction] | None:
    r"""The message and the correction if the drift lacks ∇·Q, or all of Γ, for any skew Q(z).

    A v with v·∇H = 0 everywhere is -Q∇H for Q = (∇H vᵀ - v∇Hᵀ)/|∇H|², among others, and -Q∇H + ∇·Q keeps
    exp(-H) for every skew Q. So v is the drift without its part by D, and lacks ∇·Q.
    """
    gradient_of = jax.grad(problem.hamiltonian)

    def without_D(x: Vector) -> Vector:
        return problem.drift(x) + problem.D_mv(x, gradient_of(x))

    def beside_required(x: Vector) -> Vector:
        return problem.drift(x) - required_without_curl(problem, x)

    def products(x: Vector) -> Array:
        return jnp.stack([v(x) * gradient_of(x) for v in (beside_required, without_D)])

    along = np.asarray(map_points(products, points, 8 * 6 * problem.dimension**2))
    sizes = np.sum(np.abs(along), axis=2)
    # Where nothing is beside the part by D there is no curl.
    is_perpendicular = np.abs(np.sum(along, axis=2)) <= 100 * tolerance * np.maximum(
        sizes, 1e-3 * np.median(sizes, axis=0, keepdims=True)
    )
    holds = np.all(is_perpendicular, axis=0) & (np.median(sizes, axis=0) > 0)

    def divergence_of_curl(v: Correction) -> Correction:
        def product(x: Vector, w: Vector) -> Vector:
            gradient, velocity = gradient_of(x), v(x)
            return (gradient * (velocity @ w) - velocity * (gradient @ w)) / (gradient @ gradient)

        return lambda x: divergence_of_matrix(product, x)

    if holds[0]:
        return (
            "Γ is incomplete: ∇·Q is missing. Beside -D∇H + ∇·D the drift is perpendicular to ∇H, so that it "
            "is -Q∇H with a skew Q(z), which needs its divergence",
            divergence_of_curl(beside_required),
        )
    if holds[1]:
        of_Q = divergence_of_curl(without_D)
        return (
            "Γ is missing: the drift is -(D + Q)∇H with a skew Q(z), and lacks ∇·D + ∇·Q",
            lambda x: of_Q(x) + divergence_of_matrix(problem.D_mv, x),
        )
    return None
