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
    size = max(float(np.max(values["size"])), 1e-300)
    asymmetry = float(np.max(values["asymmetry"])) / size
    least = float(np.min(values["least"])) / size
    failures, worst = [], None
    if not np.all(np.isfinite(values["size"])):
        failures.append("D is not finite at some of the points")
        worst = some[int(np.argmin(np.isfinite(values["size"])))]
    if asymmetry > _TOLERANCE:
        failures.append(f"D is not symmetric: |D - Dᵀ| reaches {asymmetry:.2g} of its size")
        worst = some[int(np.argmax(values["asymmetry"]))]
    if least < -_TOLERANCE:
        failures.append(
            f"D is not positive semidefinite: its least eigenvalue reaches {least:.2g} of its size. No noise "
            "has such a covariance"
        )
        worst = some[int(np.argmin(values["least"]))]
    skew_error = noise_error = None
    if "skew" in values:
        skew_error = float(np.max(values["skew"])) / max(float(np.max(values["Q_size"])), 1e-300)
        if skew_error > _TOLERANCE:
            failures.append(
                f"Q is not skew: |Q + Qᵀ| reaches {skew_error:.2g} of its size. What is symmetric in it is "
                "friction and belongs to D, with its noise"
            )
            worst = some[int(np.argmax(values["skew"]))]
    if "noise" in values:
        noise_error = float(np.max(values["noise"])) / size
        if noise_error > 1e-4:
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
        found = {
            "size": jnp.max(jnp.abs(D)),
            "asymmetry": jnp.max(jnp.abs(D - D.T)),
            "least": jnp.linalg.eigvalsh((D + D.T) / 2)[0],
        }
        if problem.Q_mv is not None:
            Q = problem.Q_matrix(x)
            found |= {"skew": jnp.max(jnp.abs(Q + Q.T)), "Q_size": jnp.max(jnp.abs(Q))}
        if problem.noise_covariance is not None:
            found["noise"] = jnp.max(jnp.abs(problem.noise_covariance(x) - 2 * D))
        return found

    return at


def _along_directions(problem: Problem, key: Key[Array, ""]) -> Found:
    u, v = jax.random.normal(key, (2, _DIRECTIONS, problem.dimension)) / np.sqrt(problem.dimension)

    def at(x: Vector) -> dict[str, Array]:
        Du, Dv = (jax.vmap(lambda w: problem.D_mv(x, w))(w) for w in (u, v))
        quadratic = jnp.sum(u * Du, axis=1)
        found = {
            "size": jnp.sqrt(jnp.max(jnp.sum(Du**2, axis=1))),
            "asymmetry": jnp.max(jnp.abs(jnp.sum(v * Du - u * Dv, axis=1))),
            "least": jnp.min(quadratic),
        }
        if problem.Q_mv is not None:
            product = problem.Q_mv
            Qu = jax.vmap(lambda w: product(x, w))(u)
            found |= {
                "skew": jnp.max(jnp.abs(jnp.sum(u * Qu, axis=1))),
                "Q_size": jnp.sqrt(jnp.max(jnp.sum(Qu**2, axis=1))),
            }
        return found

    return at
