"""Is D symmetric positive semidefinite, is Q skew, and is the covariance of the noise 2D, at many points?"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.checker._compact import Lifted
from fokker.checker._evaluate import LARGEST_FULL_MATRIX, Evaluator, Values
from fokker.checker._residual import map_points
from fokker.dynamics.problem import Problem, Vector

_DIRECTIONS = 64
# Matrices may come from single-precision constants; real errors are larger than this.
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Structure:
    """The results for D and Q; `failures` are errors in words, `notes` say how the test was done."""

    asymmetry: float
    least_eigenvalue: float
    skew_error: float | None
    noise_error: float | None
    worst: np.ndarray | None
    failures: tuple[str, ...]
    notes: tuple[str, ...]
    has_noise: bool
    is_not_finite: bool = False


def check_structure(
    problem: Problem, evaluate: Evaluator, points: np.ndarray, generator: np.random.Generator
) -> Structure:
    """Test D, Q and the noise at the points."""
    tested, values, notes = _tested(problem, evaluate, points, generator)
    for name, size in (("D", "size"), ("Q", "Q size")):
        finite = np.isfinite(values[size]) if size in values else np.ones(len(tested), bool)
        if not np.all(finite):
            # Nothing else can be said of a matrix that is not finite.
            failure = f"{name} is not finite at {np.sum(~finite)} of the {len(tested)} points tested"
            worst = tested[int(np.argmin(finite))]
            return Structure(math.nan, math.nan, None, None, worst, (failure,), notes, True, True)
    asymmetry = float(np.max(values["asymmetry"]))
    least = float(np.min(values["least"]))
    failures, worst = [], None
    if not asymmetry <= _TOLERANCE:
        failures.append(f"D is not symmetric: |D - Dᵀ| reaches {asymmetry:.2g} of its size")
        worst = tested[int(np.argmax(values["asymmetry"]))]
    if not least >= -_TOLERANCE:
        failures.append(
            f"D is not positive semidefinite: its least eigenvalue reaches {least:.2g} of its size. No noise "
            "has such a covariance"
        )
        worst = tested[int(np.argmin(values["least"]))]
    skew_error = noise_error = None
    if "skew" in values:
        skew_error = float(np.max(values["skew"]))
        if not skew_error <= _TOLERANCE:
            failures.append(
                f"Q is not skew: |Q + Qᵀ| reaches {skew_error:.2g} of its size. What is symmetric in it is "
                "friction and belongs to D, with its noise"
            )
            worst = tested[int(np.argmax(values["skew"]))]
    if "noise" in values and least >= -_TOLERANCE:
        # A D that is singular has eigenvalues below zero by rounding, and then may have no root.
        is_rounding = np.isnan(values["noise"]) & (values["least"] < 0)
        noise_error = float(np.max(np.where(is_rounding, 0.0, values["noise"])))
        if np.any(is_rounding):
            notes += (
                f"D is singular, and by rounding not quite positive, at {np.sum(is_rounding)} of the "
                f"{len(tested)} points tested: the noise was not compared with 2D there",
            )
        if not noise_error <= 1e-4:
            failures.append(
                f"the noise does not have covariance 2D: the error is {noise_error:.2g} of its size"
            )
            worst = tested[int(np.argmax(values["noise"]))]
    has_noise = bool(np.max(values["size"]) > 0)
    return Structure(
        asymmetry, least, skew_error, noise_error, worst, tuple(failures), tuple(notes), has_noise
    )


def _tested(
    problem: Problem, evaluate: Evaluator, points: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, Values, tuple[str, ...]]:
    """The points at which the matrices are tested, what is found there, and notes on it."""
    d = problem.dimension
    if d <= LARGEST_FULL_MATRIX:
        constant = problem.number_of_radii if isinstance(problem, Lifted) else 0
        tested = points[: max(4, min(len(points), 2**20 // d**2))]
        with np.errstate(invalid="ignore"):  # differences of entries that are not finite
            return tested, _from_matrices(evaluate.matrices(tested), constant), ()
    tested = points[:16]
    note = (
        f"D and Q are too large for full matrices ({d} coordinates): symmetry, definiteness and skewness "
        f"were tested along {_DIRECTIONS} random directions at {len(tested)} points, which can miss a "
        "narrow negative direction"
    )
    return tested, _along_directions(problem, tested, generator), (note,)


def _largest(matrices: np.ndarray) -> np.ndarray:
    return np.max(np.abs(matrices), axis=(1, 2))


def _from_matrices(values: Values, constant: int) -> Values:
    """Of D, Q and the noise; `constant` eigenvalues of D are zero by construction and are left out."""
    D = values["D"]
    size = _largest(D)
    # Scale each coordinate, so that a small negative entry is not hidden by a large positive one.
    diagonal = np.abs(np.diagonal(D, axis1=1, axis2=2))
    unit = np.sqrt(np.maximum(diagonal, 1e-14 * size[:, None]))
    unit = np.where(unit > 0, unit, 1.0)
    units = unit[:, :, None] * unit[:, None, :]
    scaled = D / units
    symmetric = (scaled + scaled.transpose(0, 2, 1)) / 2
    finite = np.isfinite(size)
    least = np.full(len(D), np.nan)
    eigenvalues = np.linalg.eigvalsh(symmetric[finite])
    by_size = np.take_along_axis(eigenvalues, np.argsort(np.abs(eigenvalues), axis=1), axis=1)
    least[finite] = np.min(by_size[:, constant:], axis=1)
    results = {"size": size, "asymmetry": _largest(scaled - scaled.transpose(0, 2, 1)), "least": least}
    if "Q" in values:
        Q = values["Q"]
        largest = _largest(Q)
        results["Q size"] = largest
        results["skew"] = _largest(Q + Q.transpose(0, 2, 1)) / np.where(largest > 0, largest, 1.0)
    if "noise" in values:
        results["noise"] = _largest((values["noise"] - 2 * D) / units)
    return results


def _along_directions(problem: Problem, points: np.ndarray, generator: np.random.Generator) -> Values:
    d = problem.dimension
    u, v = generator.normal(size=(2, _DIRECTIONS, d)) / np.sqrt(d)

    def at(x: Vector) -> dict[str, Array]:
        Du, Dv = (jax.vmap(lambda w: problem.D_mv(x, w))(w) for w in (u, v))
        quadratic = jnp.sum(u * Du, axis=1)
        entries = jax.lax.map(lambda i: problem.D_mv(x, _unit(i, x))[i], jnp.arange(d), batch_size=64)
        size = jnp.sqrt(jnp.max(jnp.sum(Du**2, axis=1)))
        scale = jnp.where(size > 0, size, 1.0)
        negative = jnp.min(entries / jnp.where(entries != 0, jnp.abs(entries), 1.0))
        results = {
            "size": size,
            "asymmetry": jnp.max(jnp.abs(jnp.sum(v * Du - u * Dv, axis=1))) / scale,
            "least": jnp.minimum(jnp.min(quadratic) / scale, negative),
        }
        if problem.Q_mv is not None:
            product = problem.Q_mv
            Qu = jax.vmap(lambda w: product(x, w))(u)
            largest = jnp.sqrt(jnp.max(jnp.sum(Qu**2, axis=1)))
            results["Q size"] = largest
            results["skew"] = jnp.max(jnp.abs(jnp.sum(u * Qu, axis=1))) / jnp.where(largest > 0, largest, 1.0)
        return results

    results = map_points(at, points, 8 * 8 * d * _DIRECTIONS)
    return {name: np.asarray(value) for name, value in results.items()}


def _unit(i: Array, x: Vector) -> Vector:
    return jnp.zeros_like(x).at[i].set(1)
