r"""The stationary Fokker–Planck residual R(z), divided by the density.

    R = -∇·f + f·∇H + Σ_ij [∂_i∂_j D_ij - 2 ∂_iD_ij ∂_jH + D_ij(∂_iH ∂_jH - ∂_i∂_jH)]
      = L[f - S],    L[c] = -∇·c + c·∇H,    S = ∇·D - D∇H

R = 0 everywhere if and only if exp(-H) is stationary. Nothing here uses what a field promises of its own
structure: D is known by its product with a vector alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker._problem import Problem, Vector

# Memory that a batch of points may take.
_BATCH_BYTES = 2**28
# Below this a point costs less to evaluate than a fast program costs to compile.
_SMALL = 2**19


def divergence_of_matrix(product: Callable[[Vector, Vector], Vector], x: Vector) -> Vector:
    """Σ_j ∂A_ij/∂x_j, column by column, from the product alone."""
    basis = jnp.eye(x.size, dtype=x.dtype)
    terms = jax.vmap(lambda e: jax.jvp(lambda y: product(y, e), (x,), (e,))[1])(basis)
    return jnp.sum(terms, axis=0)


def required_without_curl(problem: Problem, x: Vector) -> Vector:
    """S = ∇·D - D∇H: the drift that the recipe requires with Q = 0."""
    return divergence_of_matrix(problem.D_mv, x) - problem.D_mv(x, jax.grad(problem.hamiltonian)(x))


def stationarity_terms(c: Callable[[Vector], Vector], gradient: Vector, x: Vector) -> tuple[Array, Array]:
    """L[c] = -∇·c + c·∇H at x, and the sum of the absolute values of its terms."""
    slopes = jnp.diagonal(jax.jacfwd(c)(x))
    along = c(x) * gradient
    return jnp.sum(along - slopes), jnp.sum(jnp.abs(along) + jnp.abs(slopes))


@dataclass(frozen=True)
class Residuals:
    """R at each point, the standard error of it (0 where exact), and the size of the terms it is made of."""

    values: np.ndarray
    errors: np.ndarray
    scales: np.ndarray
    probes: int

    @property
    def typical_scale(self) -> float:
        """The median of the scales: points far out in the tails do not set it."""
        return typical(self.scales)

    @property
    def relative(self) -> np.ndarray:
        """|R| over the size of its terms there, and never over less than the typical size."""
        floor = np.maximum(self.scales, self.typical_scale)
        return np.abs(self.values) / np.where(floor > 0, floor, 1.0)


def typical(scales: np.ndarray) -> float:
    """The median, or the root mean square where most are zero."""
    if not scales.size:
        return 0.0
    return float(np.median(scales)) or float(np.sqrt(np.mean(scales**2)))


def compile_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` for a program that runs once: the compiler is told not to spend time on making it fast."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def map_points(function: Callable[[Vector], Any], points: Array, bytes_per_point: int) -> Any:
    """`function` over the points, as many at a time as memory allows."""
    batch = int(np.clip(_BATCH_BYTES // max(bytes_per_point, 1), 1, points.shape[0]))
    compile_it = compile_once if bytes_per_point < _SMALL else jax.jit
    return compile_it(lambda xs: jax.lax.map(function, xs, batch_size=batch))(points)


def exact_residuals(problem: Problem, points: Array) -> Residuals:
    """R with every derivative taken."""

    def at(x: Vector) -> tuple[Array, Array]:
        gradient = jax.grad(problem.hamiltonian)(x)
        of_drift, size_drift = stationarity_terms(problem.drift, gradient, x)
        of_S, size_S = stationarity_terms(lambda y: required_without_curl(problem, y), gradient, x)
        return of_drift - of_S, size_drift + size_S

    values, scales = map_points(at, points, 8 * 6 * problem.dimension**3)
    return Residuals(np.asarray(values), np.zeros(len(points)), np.asarray(scales), 0)


def estimated_residuals(problem: Problem, points: Array, probes: int, key: Key[Array, ""]) -> Residuals:
    r"""R with traces and divergences replaced by averages over random signs u, v.

    E[vᵀ(∂f)v] = ∇·f, E[∂_u∂_v uᵀDv] = Σ∂_i∂_jD_ij, E[∂_v ∇Hᵀ D v] = Σ∂_iD_ij∂_jH, E[(Dv)·∇²H v] = tr(D∇²H).
    """

    def at(x_and_key: tuple[Vector, Array]) -> tuple[Array, Array, Array]:
        x, point_key = x_and_key
        gradient_of = jax.grad(problem.hamiltonian)
        gradient = gradient_of(x)
        f = problem.drift(x)
        pulled = problem.D_mv(x, gradient)

        def probe(probe_key: Array) -> tuple[Array, Array]:
            u, v = jax.random.rademacher(probe_key, (2, x.size), x.dtype)

            def along(function: Callable[[Vector], Array], direction: Vector) -> Callable[[Vector], Array]:
                return lambda y: jax.jvp(function, (y,), (direction,))[1]

            spread = v @ along(problem.drift, v)(x)
            twice = along(along(lambda y: u @ problem.D_mv(y, v), v), u)(x)
            once = along(lambda y: gradient @ problem.D_mv(y, v), v)(x)
            curvature = problem.D_mv(x, v) @ along(gradient_of, v)(x)
            parts = jnp.stack([-spread, twice, -2 * once, -curvature])
            return jnp.sum(parts), parts

        sums, parts = jax.lax.map(probe, jax.random.split(point_key, probes), batch_size=16)
        value = jnp.mean(sums) + f @ gradient + gradient @ pulled
        error = jnp.std(sums, ddof=1) / math.sqrt(probes)
        size = jnp.sum(jnp.abs(jnp.mean(parts, axis=0)))
        size += jnp.sum(jnp.abs(f * gradient)) + jnp.sum(jnp.abs(gradient * pulled))
        return value, error, size

    keys = jax.random.split(key, points.shape[0])
    values, errors, scales = jax.jit(lambda xs: jax.lax.map(at, xs))((points, keys))
    return Residuals(np.asarray(values), np.asarray(errors), np.asarray(scales), probes)
