r"""The stationary Fokker–Planck residual R(z), divided by the density.

    R = -∇·f + f·∇H + Σ_ij [∂_i∂_j D_ij - 2 ∂_iD_ij ∂_jH + D_ij(∂_iH ∂_jH - ∂_i∂_jH)]
      = L[f - S],    L[c] = -∇·c + c·∇H,    S = ∇·D - D∇H

R = 0 everywhere if and only if exp(-H) is stationary. This module does not rely on the
declared structure of a field: it uses only the product of D with a vector.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.quick import compile_once
from fokker.dynamics.problem import Problem, Vector

# Memory for one batch of points.
_BATCH_BYTES = 2**28
# Above this many coordinates the terms of Q are not computed.
_LARGEST_WITH_Q = 64
# Below this size, evaluating a point costs less than compiling a fast program.
_SMALL = 2**19


def matrix_and_derivatives(product: Callable[[Vector, Vector], Vector], x: Vector) -> tuple[Array, Array]:
    """A_ij and ∂A_ij/∂x_j in row j and column i, from products with vectors."""
    basis = jnp.eye(x.size, dtype=x.dtype)
    return jax.vmap(lambda e: jax.jvp(lambda y: product(y, e), (x,), (e,)))(basis)


def matrices_and_derivatives(problem: Problem, x: Vector) -> tuple[Array, Array]:
    """The same of D and, if it is known, of Q, along a second axis: their terms may cancel in the drift."""
    Q_mv = problem.Q_mv
    if Q_mv is None or x.size > _LARGEST_WITH_Q:
        columns, derivatives = matrix_and_derivatives(problem.D_mv, x)
        return columns[:, None], derivatives[:, None]
    basis = jnp.eye(x.size, dtype=x.dtype)
    both = lambda y, e: jnp.stack([problem.D_mv(y, e), Q_mv(y, e)])  # noqa: E731
    return jax.vmap(lambda e: jax.jvp(lambda y: both(y, e), (x,), (e,)))(basis)


def divergence_of_matrix(product: Callable[[Vector, Vector], Vector], x: Vector) -> Vector:
    """Σ_j ∂A_ij/∂x_j, column by column."""
    return jnp.sum(matrix_and_derivatives(product, x)[1], axis=0)


def required_without_curl(problem: Problem, x: Vector) -> Vector:
    """S = ∇·D - D∇H: the drift that the recipe requires with Q = 0."""
    return divergence_of_matrix(problem.D_mv, x) - problem.D_mv(x, jax.grad(problem.hamiltonian)(x))


def stationarity_terms(c: Callable[[Vector], Vector], gradient: Vector, x: Vector) -> tuple[Array, Array]:
    """L[c] = -∇·c + c·∇H at x, and the sum of the absolute values of its terms."""
    derivatives = jnp.diagonal(jax.jacfwd(c)(x))
    along = c(x) * gradient
    return jnp.sum(along - derivatives), jnp.sum(jnp.abs(along) + jnp.abs(derivatives))


@dataclass(frozen=True)
class Residuals:
    """R at each point, its standard error (0 if exact), and the size of its terms."""

    values: np.ndarray
    errors: np.ndarray
    scales: np.ndarray
    probes: int

    def select(self, rows: np.ndarray) -> "Residuals":
        """Those of some points."""
        return Residuals(self.values[rows], self.errors[rows], self.scales[rows], self.probes)

    @property
    def typical_scale(self) -> float:
        """The median of the scales, which points far out in the tails do not affect."""
        return typical(self.scales)

    @property
    def relative(self) -> np.ndarray:
        """|R| over the size of its terms at the point, or over the typical size if that is larger."""
        floor = np.maximum(self.scales, self.typical_scale)
        return np.abs(self.values) / np.where(floor > 0, floor, 1.0)


def typical(scales: np.ndarray) -> float:
    """The median, or the root mean square if most scales are zero."""
    if not scales.size:
        return 0.0
    return float(np.median(scales)) or float(np.sqrt(np.mean(scales**2)))


def map_points(function: Callable[[Vector], Any], points: Array | np.ndarray, bytes_per_point: int) -> Any:
    """`function` over the points, as many at a time as memory allows."""
    batch = int(np.clip(_BATCH_BYTES // max(bytes_per_point, 1), 1, points.shape[0]))
    compile_it = compile_once if bytes_per_point < _SMALL else jax.jit
    return compile_it(lambda xs: jax.lax.map(function, xs, batch_size=batch))(points)


def exact_residuals(problem: Problem, points: Array | np.ndarray, rounding: float = 1e-10) -> Residuals:
    r"""R with all derivatives exact.

    If f_i and S_i agree to `rounding`, the coordinate adds nothing, and the scale is that of f - S. So an
    error in a slow coordinate is not hidden by the large terms of a stiff one, nor a wrong friction by a
    strong curl. Rounding is measured by the terms of S, not by their sum: for D = 1/p they cancel; and by
    those of Q, where it is known: ∇·Q and Q∇H may cancel in f.
    """
    parts = map_points(lambda x: _terms(problem, x), points, 8 * 6 * problem.dimension**3)
    f, S, size, derivatives_f, derivatives_S, derivatives_size, gradient = (np.asarray(v) for v in parts)
    along = difference(f, S, size, rounding) * gradient
    derivatives = difference(derivatives_f, derivatives_S, derivatives_size, rounding)
    # Non-finite entries stay in the values; the caller counts them.
    values = np.sum(along - derivatives, axis=1)
    # The differences set to zero may have balanced the remaining terms.
    dropped = np.sum(
        np.abs((f - S) * gradient - along) + np.abs(derivatives_f - derivatives_S - derivatives), axis=1
    )
    # The remaining terms may be small differences of large ones.
    sizes = np.where(along != 0, size * np.abs(gradient), 0.0) + np.where(
        derivatives != 0, derivatives_size, 0.0
    )
    rest = dropped + 1e-3 * rounding * np.sum(sizes, axis=1)
    values = np.sign(values) * np.maximum(np.abs(values) - rest, 0.0)
    return Residuals(values, np.zeros(len(points)), np.sum(np.abs(along) + np.abs(derivatives), axis=1), 0)


def _terms(problem: Problem, x: Vector) -> tuple[Array, ...]:
    """f and S, the sum of the absolute values of their terms; the same of ∂f_i/∂x_i and ∂S_i/∂x_i; ∇H."""
    columns, of_entries = matrices_and_derivatives(problem, x)
    of_columns, of_derivatives = (
        jnp.einsum("jmii->jmi", jacobian)
        for jacobian in jax.jacfwd(lambda y: matrices_and_derivatives(problem, y))(x)
    )
    gradient = jax.grad(problem.hamiltonian)(x)
    hessian = jax.hessian(problem.hamiltonian)(x)
    f, derivatives_f = problem.drift(x), jnp.diagonal(jax.jacfwd(problem.drift)(x))
    S, size = sum_and_size(of_entries, -times(columns, gradient[:, None, None]))
    derivatives = (
        of_derivatives,
        -times(of_columns, gradient[:, None, None]),
        -times(columns, hessian[:, None]),
    )
    derivatives_S, derivatives_size = sum_and_size(*derivatives)
    return (
        *(f, S, size + jnp.abs(f)),
        *(derivatives_f, derivatives_S, derivatives_size + jnp.abs(derivatives_f)),
        gradient,
    )


def times(entries: Array, factors: Array) -> Array:
    """The product, zero where an entry is zero: a variable without noise may have any curvature."""
    return jnp.where(entries == 0, 0.0, entries * factors)


def sum_and_size(*terms: Array) -> tuple[Array, Array]:
    """Σ_j of all terms of D, and of the absolute values of those of D and Q."""
    total = sum(jnp.sum(t[:, 0], axis=0) for t in terms)
    return total, sum(jnp.sum(jnp.abs(t), axis=(0, 1)) for t in terms)  # type: ignore[return-value]


def difference(a: np.ndarray, b: np.ndarray, size: np.ndarray, rounding: float) -> np.ndarray:
    """a - b, set to zero where it is rounding error of terms of this size, or of their typical size."""
    finite = np.where(np.isfinite(size), size, np.nan)
    usable = np.any(np.isfinite(finite), axis=0)
    typical_size = np.zeros((1, size.shape[1]))
    typical_size[0, usable] = np.nanmedian(finite[:, usable], axis=0)
    return np.where(np.abs(a - b) <= rounding * (size + typical_size), 0.0, a - b)


def estimated_residuals(
    problem: Problem, points: np.ndarray, probes: int, generator: np.random.Generator
) -> Residuals:
    r"""R with traces and divergences estimated by averages over random signs u, v, or exact if cheaper.

    E[vᵀ(∂f)v] = ∇·f, E[∂_v ∇HᵀDv] = Σ∂_iD_ij∂_jH, E[(Dv)·∇²H v] = tr(D∇²H), E[∂_u∂_v uᵀDv] = Σ∂_i∂_jD_ij. If
    there are at most as many dimensions as probes, v runs over the unit vectors, and the first three are
    exact. The last is then estimated from a few u; it is exactly zero if D is constant.
    """
    d = problem.dimension
    by_basis = d <= probes
    repeats = max(24, probes // d)

    def at(x_and_signs: tuple[Vector, Array]) -> tuple[Array, Array, Array]:
        x, signs = x_and_signs
        gradient_of = jax.grad(problem.hamiltonian)
        gradient = gradient_of(x)
        f = problem.drift(x)
        D_gradient = problem.D_mv(x, gradient)

        def along(function: Callable[[Vector], Array], direction: Vector) -> Callable[[Vector], Array]:
            return lambda y: jax.jvp(function, (y,), (direction,))[1]

        def first_order(v: Vector) -> Array:
            divergence = v @ along(problem.drift, v)(x)
            mixed = along(lambda y: gradient @ problem.D_mv(y, v), v)(x)
            curvature = problem.D_mv(x, v) @ along(gradient_of, v)(x)
            return jnp.stack([-divergence, -2 * mixed, -curvature])

        def second_order(u: Vector, v: Vector) -> Array:
            return along(along(lambda y: u @ problem.D_mv(y, v), v), u)(x)

        if by_basis:
            basis = jnp.eye(d, dtype=x.dtype)
            first = jnp.sum(jax.lax.map(first_order, basis, batch_size=16), axis=0)[None]
            second = jax.lax.map(
                lambda u: jnp.sum(jax.lax.map(lambda v: second_order(u, v), basis, batch_size=16)),
                signs.astype(x.dtype),
            )
        else:
            u, v = signs.astype(x.dtype)
            first = jax.lax.map(first_order, v, batch_size=16)
            second = jax.lax.map(lambda uv: second_order(*uv), (u, v), batch_size=16)
        sums = jnp.sum(first, axis=1) + second
        value = jnp.mean(sums) + f @ gradient + gradient @ D_gradient
        # The factor is the variance of Student's t, (m-1)/(m-3), so that the χ² statistic has the right mean.
        m = sums.size
        error = jnp.std(sums, ddof=1) / math.sqrt(m) * math.sqrt((m - 1) / (m - 3))
        size = jnp.sum(jnp.abs(jnp.mean(first, axis=0))) + jnp.abs(jnp.mean(second))
        # The part of the drift that Q = 0 does not explain, so that a strong curl alone does not set the
        # scale.
        size += jnp.sum(jnp.abs((f + D_gradient) * gradient))
        return value, error, size

    shape = (repeats, d) if by_basis else (2, probes, d)
    signs = generator.choice(np.array([-1, 1], np.int8), (len(points), *shape))
    values, errors, scales = jax.jit(lambda *xs: jax.lax.map(at, xs))(points, signs)
    return Residuals(np.asarray(values), np.asarray(errors), np.asarray(scales), probes)
