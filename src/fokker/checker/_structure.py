"""Is D symmetric and positive semidefinite, Q skew, and the noise of covariance 2D, at many points?"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker._problem import Problem, Vector
from fokker.checker._residual import map_points

# Above this many coordinates the matrices are not written out.
WRITTEN_OUT = 512
_DIRECTIONS = 64
# Matrices may come from single precision constants; what is wrong is wrong by more than this.
_TOLERANCE = 1e-6

Found = Callable[[Vector], dict[str, Array]]


@dataclass(frozen=True)
class Structure:
    """What was found of D and Q; `failures` says in words what is wrong, `notes` how it was looked at."""

    asymmetry: float
    least_eigenvalue: float
    skew_error: float | None
    noise_error: float | None
    worst: Vector | None
    failures: tuple[str, ...]
    notes: tuple[str, ...]
    has_noise: bool


def check_structure(problem: Problem, points: Array, key: Key[Array, ""]) -> Structure:
    """Look at D, Q and the noise at the points."""
    d = problem.dimension
    if d <= WRITTEN_OUT:
        at, notes = _written_out(problem), tuple[str, ...]()
        some = points[: max(4, min(len(points), 2**20 // d**2))]
        found = map_points(at, some, 8 * 6 * d * d)
    else:
        at = _along_directions(problem, key)
        some = points[:16]
        found = map_points(at, some, 8 * 8 * d * _DIRECTIONS)
        notes = (
            f"D and Q are too large to write out ({d} coordinates): symmetry, definiteness and skewness were "
            f"tested along {_DIRECTIONS} random directions at {len(some)} points, which can miss a narrow "
            "negative direction",
        )
    values = {name: np.asarray(value) for name, value in found.items()}
    asymmetry = float(np.max(values["asymmetry"]))
    least = float(np.min(values["least"]))
    failures, worst = [], None
    if not np.all(np.isfinite(values["size"])):
        failures.append("D is not finite at some of the points")
        worst = some[int(np.argmin(np.isfinite(values["size"])))]
    if not asymmetry <= _TOLERANCE:
        failures.append(f"D is not symmetric: |D - Dᵀ| reaches {asymmetry:.2g} of its size")
        worst = some[int(np.argmax(values["asymmetry"]))]
    if not least >= -_TOLERANCE:
        failures.append(
            f"D is not positive semidefinite: its least eigenvalue reaches {least:.2g} of its size. No noise "
            "has such a covariance"
        )
        worst = some[int(np.argmin(values["least"]))]
    skew_error = noise_error = None
    if "skew" in values:
        skew_error = float(np.max(values["skew"]))
        if not skew_error <= _TOLERANCE:
            failures.append(
                f"Q is not skew: |Q + Qᵀ| reaches {skew_error:.2g} of its size. What is symmetric in it is "
                "friction and belongs to D, with its noise"
            )
            worst = some[int(np.argmax(values["skew"]))]
    if "noise" in values:
        noise_error = float(np.max(values["noise"]))
        if not noise_error <= 1e-4:
            failures.append(
                f"the noise does not have covariance 2D: it is off by {noise_error:.2g} of its size"
            )
            worst = some[int(np.argmax(values["noise"]))]
    has_noise = bool(np.max(values["size"]) > 0)
    return Structure(
        asymmetry, least, skew_error, noise_error, worst, tuple(failures), tuple(notes), has_noise
    )


def _written_out(problem: Problem) -> Found:
    def at(x: Vector) -> dict[str, Array]:
        D = problem.D_matrix(x)
        size = jnp.max(jnp.abs(D))
        # Each coordinate in its own units: a small negative entry is not lost beside a large positive one.
        unit = jnp.sqrt(jnp.maximum(jnp.abs(jnp.diagonal(D)), 1e-14 * size))
        unit = jnp.where(unit > 0, unit, 1.0)
        units = jnp.outer(unit, unit)
        scaled = D / units
        found = {
            "size": size,
            "asymmetry": jnp.max(jnp.abs(scaled - scaled.T)),
            "least": jnp.linalg.eigvalsh((scaled + scaled.T) / 2)[0],
        }
        if problem.Q_mv is not None:
            Q = problem.Q_matrix(x)
            largest = jnp.max(jnp.abs(Q))
            found["skew"] = jnp.max(jnp.abs(Q + Q.T)) / jnp.where(largest > 0, largest, 1.0)
        if problem.noise_covariance is not None:
            found["noise"] = jnp.max(jnp.abs(problem.noise_covariance(x) - 2 * D) / units)
        return found

    return at


def _along_directions(problem: Problem, key: Key[Array, ""]) -> Found:
    u, v = jax.random.normal(key, (2, _DIRECTIONS, problem.dimension)) / np.sqrt(problem.dimension)

    def at(x: Vector) -> dict[str, Array]:
        Du, Dv = (jax.vmap(lambda w: problem.D_mv(x, w))(w) for w in (u, v))
        quadratic = jnp.sum(u * Du, axis=1)
        entries = jax.lax.map(lambda i: problem.D_mv(x, _unit(i, x))[i], jnp.arange(x.size), batch_size=64)
        size = jnp.sqrt(jnp.max(jnp.sum(Du**2, axis=1)))
        scale = jnp.where(size > 0, size, 1.0)
        negative = jnp.min(entries / jnp.where(entries != 0, jnp.abs(entries), 1.0))
        found = {
            "size": size,
            "asymmetry": jnp.max(jnp.abs(jnp.sum(v * Du - u * Dv, axis=1))) / scale,
            "least": jnp.minimum(jnp.min(quadratic) / scale, negative),
        }
        if problem.Q_mv is not None:
            product = problem.Q_mv
            Qu = jax.vmap(lambda w: product(x, w))(u)
            largest = jnp.sqrt(jnp.max(jnp.sum(Qu**2, axis=1)))
            found["skew"] = jnp.max(jnp.abs(jnp.sum(u * Qu, axis=1))) / jnp.where(largest > 0, largest, 1.0)
        return found

    return at


def _unit(i: Array, x: Vector) -> Vector:
    return jnp.zeros_like(x).at[i].set(1)
