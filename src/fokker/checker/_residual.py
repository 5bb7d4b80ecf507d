r"""The stationary Fokker–Planck residual R(z), divided by the density.

    R = -∇·f + f·∇H + Σ_ij [∂_i∂_j D_ij - 2 ∂_iD_ij ∂_jH + D_ij(∂_iH ∂_jH - ∂_i∂_jH)]
      = L[f - S],    L[c] = -∇·c + c·∇H,    S = ∇·D - D∇H

R = 0 everywhere if and only if exp(-H) is stationary. Nothing here uses what a field promises of its own
structure: D is known by its product with a vector alone.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.dynamics.problem import Problem, Vector

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


# For programs that run a few times: compiling them fast matters more than running them fast.
_QUICK: tuple[dict[str, Any], ...] = (
    {
        "xla_backend_optimization_level": 0,
        "xla_cpu_use_fusion_emitters": False,
        "xla_llvm_disable_expensive_passes": True,
    },
    {"xla_backend_optimization_level": 0},
    {},
)


@functools.cache
def _quick_options() -> dict[str, Any]:
    """The first of the options that this version of XLA knows: they are no promise of its."""
    for options in _QUICK:
        try:
            jax.jit(lambda x: x, compiler_options=options)(np.zeros(()))
        except Exception:  # an unknown option is reported in various ways
            continue
        return options
    return {}


def compile_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` for a program that runs a few times: the compiler is not to spend time on making it fast."""
    return jax.jit(function, compiler_options=_quick_options())


def map_points(function: Callable[[Vector], Any], points: Array | np.ndarray, bytes_per_point: int) -> Any:
    """`function` over the points, as many at a time as memory allows."""
    batch = int(np.clip(_BATCH_BYTES // max(bytes_per_point, 1), 1, points.shape[0]))
    compile_it = compile_once if bytes_per_point < _SMALL else jax.jit
    return compile_it(lambda xs: jax.lax.map(function, xs, batch_size=batch))(points)


def exact_residuals(problem: Problem, points: Array | np.ndarray, rounding: float = 1e-10) -> Residuals:
    r"""R with every derivative taken.

    Where f_i and S_i agree to `rounding` the coordinate adds nothing, and the scale is that of what is left,
    f - S: a small term of a slow coordinate is then not lost beside the large ones of a stiff coordinate, nor
    a wrong friction beside a strong curl.
    """

    def at(x: Vector) -> tuple[Array, ...]:
        slopes_f = jnp.diagonal(jax.jacfwd(problem.drift)(x))
        slopes_S = jnp.diagonal(jax.jacfwd(lambda y: required_without_curl(problem, y))(x))
        gradient = jax.grad(problem.hamiltonian)(x)
        return problem.drift(x), required_without_curl(problem, x), slopes_f, slopes_S, gradient

    found = map_points(at, points, 8 * 6 * problem.dimension**3)
    f, S, slopes_f, slopes_S, gradient = (np.asarray(v) for v in found)
    along = difference(f, S, rounding) * gradient
    slopes = difference(slopes_f, slopes_S, rounding)
    # Non-finite entries stay visible in the values; they are counted by the caller.
    values = np.sum(along - slopes, axis=1)
    # What was put to zero may have been what balances the rest.
    dropped = np.sum(np.abs((f - S) * gradient - along) + np.abs(slopes_f - slopes_S - slopes), axis=1)
    values = np.sign(values) * np.maximum(np.abs(values) - dropped, 0.0)
    return Residuals(values, np.zeros(len(points)), np.sum(np.abs(along) + np.abs(slopes), axis=1), 0)


def difference(a: np.ndarray, b: np.ndarray, rounding: float) -> np.ndarray:
    """a - b, put to zero where it is rounding error of a and b, or of their typical size in that column."""
    size = np.abs(a) + np.abs(b)
    usual = np.nanmedian(np.where(np.isfinite(size), size, np.nan), axis=0, keepdims=True)
    return np.where(np.abs(a - b) <= rounding * (size + usual), 0.0, a - b)


def estimated_residuals(
    problem: Problem, points: np.ndarray, probes: int, generator: np.random.Generator
) -> Residuals:
    r"""R with traces and divergences by averages over random signs u, v, exact as far as that is cheaper.

    E[vᵀ(∂f)v] = ∇·f, E[∂_v ∇HᵀDv] = Σ∂_iD_ij∂_jH, E[(Dv)·∇²H v] = tr(D∇²H), E[∂_u∂_v uᵀDv] = Σ∂_i∂_jD_ij. Up
    to as many dimensions as there are probes, v runs over the unit vectors and the first three are exact;
    the last is then estimated from a few u, exactly zero where D is constant.
    """
    d = problem.dimension
    by_basis = d <= probes
    repeats = max(24, probes // d)

    def at(x_and_signs: tuple[Vector, Array]) -> tuple[Array, Array, Array]:
        x, signs = x_and_signs
        gradient_of = jax.grad(problem.hamiltonian)
        gradient = gradient_of(x)
        f = problem.drift(x)
        pulled = problem.D_mv(x, gradient)

        def along(function: Callable[[Vector], Array], direction: Vector) -> Callable[[Vector], Array]:
            return lambda y: jax.jvp(function, (y,), (direction,))[1]

        def first_order(v: Vector) -> Array:
            spread = v @ along(problem.drift, v)(x)
            once = along(lambda y: gradient @ problem.D_mv(y, v), v)(x)
            curvature = problem.D_mv(x, v) @ along(gradient_of, v)(x)
            return jnp.stack([-spread, -2 * once, -curvature])

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
        value = jnp.mean(sums) + f @ gradient + gradient @ pulled
        # Student's t has the variance (m-1)/(m-3): with it the sum of squares is as large as it is taken for.
        m = sums.size
        error = jnp.std(sums, ddof=1) / math.sqrt(m) * math.sqrt((m - 1) / (m - 3))
        size = jnp.sum(jnp.abs(jnp.mean(first, axis=0))) + jnp.abs(jnp.mean(second))
        # What the recipe with Q = 0 leaves of the drift, so that a strong curl does not set the scale alone.
        size += jnp.sum(jnp.abs((f + pulled) * gradient))
        return value, error, size

    shape = (repeats, d) if by_basis else (2, probes, d)
    signs = generator.choice(np.array([-1, 1], np.int8), (len(points), *shape))
    values, errors, scales = jax.jit(lambda *xs: jax.lax.map(at, xs))(points, signs)
    return Residuals(np.asarray(values), np.asarray(errors), np.asarray(scales), probes)
