r"""Is theta's marginal the target? Then ∫ exp(-g(theta, auxiliaries)) must be the same for every theta.

Ma et al. (2015), Eq. 1; Ding et al. (2014), the condition next to their Eq. 9.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.quick import compile_once
from fokker.dynamics.problem import Problem, Vector

# Quadrature takes nodes^dimension points: about a million for three auxiliary coordinates.
_LARGEST = 3
_NODES = 97
_THETAS = 8
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Marginal:
    """`holds` is None if undecided; `spread` is the range of log ∫exp(-g) over theta."""

    holds: bool | None
    spread: float | None
    how: str


def check_marginal(problem: Problem, points: np.ndarray) -> Marginal:
    """Test the condition: by ∂g/∂theta if that is zero, else by quadrature."""
    position = problem.variables.get(problem.position)
    if len(problem.variables) < 2:
        return Marginal(True, 0.0, "there are no auxiliary variables")
    if position is None:
        return Marginal(None, None, "not checked: it is not known which variable is the target's")
    g = problem.auxiliary
    if g is None:
        return Marginal(
            None,
            None,
            "not checked: the Hamiltonian is one function, so that the target's part is not known; write it "
            "as fk.Hamiltonian(potential=U, auxiliary=g) to have it checked",
        )
    inside = np.zeros(problem.dimension, bool)
    inside[position] = True
    others = np.flatnonzero(~inside)
    gradients = np.asarray(compile_once(jax.vmap(jax.grad(g)))(points))
    pull = float(np.max(np.abs(gradients[:, inside])))
    typical = max(float(np.sqrt(np.mean(gradients[:, ~inside] ** 2))), 1e-300)
    if pull <= 1e-12 * typical:
        if others.size > _LARGEST:
            return Marginal(True, 0.0, f"g does not depend on {problem.position}")
        # The integral is constant; it is finite if exp(-g) has decreased by e⁻⁶ at forty widths.
        _, error = _log_integral_spread(g, points[:1], others, edge=-6.0)
        if error is None:
            return Marginal(None, None, "not established: ∫ exp(-g) did not converge")
        return Marginal(True, 0.0, f"g does not depend on {problem.position}, and exp(-g) is integrable")
    if others.size > _LARGEST:
        return _gaussian(g, points[:_THETAS], others)
    spread, error = _log_integral_spread(g, points[:_THETAS], others)
    how = f"quadrature over {others.size} auxiliary coordinates at {len(points[:_THETAS])} values of theta"
    if error is None:
        return Marginal(None, None, f"not established: ∫ exp(-g) did not converge ({how})")
    if _TOLERANCE < spread <= 10 * error:
        return Marginal(None, spread, f"not established: the quadrature is not accurate enough ({how})")
    return Marginal(spread <= _TOLERANCE, spread, how)


def _gaussian(g: Callable[[Vector], Array], points: np.ndarray, others: np.ndarray) -> Marginal:
    """In any dimension, if g is quadratic in the auxiliaries: log ∫exp(-g) = -min g - ½ log det ∇²g."""

    def at(x: Vector) -> tuple[Array, Array]:
        def energy(a: Array) -> Array:
            return g(x.at[others].set(a))

        a = x[others]
        curvature, other_curvature = jax.hessian(energy)(a), jax.hessian(energy)(2 * a + 1)
        step = jnp.linalg.solve(curvature, jax.grad(energy)(a))
        log_integral = -energy(a - step) - jnp.linalg.slogdet(curvature)[1] / 2
        variation = jnp.max(jnp.abs(curvature - other_curvature)) / jnp.max(jnp.abs(curvature))
        definite = jnp.linalg.eigvalsh(curvature)[0] > 0
        return log_integral, jnp.where(definite, variation, jnp.inf)

    logs, variation = (np.asarray(v) for v in compile_once(jax.vmap(at))(points))
    if not np.all(variation < 1e-8):
        reason = f"not checked: quadrature over {others.size} auxiliary coordinates is too expensive"
        return Marginal(None, None, reason)
    spread = float(np.max(logs) - np.min(logs))
    return Marginal(spread <= _TOLERANCE, spread, f"g being quadratic in {others.size} auxiliary coordinates")


def _log_integral_spread(
    g: Callable[[Vector], Array], points: np.ndarray, others: np.ndarray, edge: float = -25.0
) -> tuple[float, float | None]:
    """The range of log ∫exp(-g), and its error, which is None if exp(-g) did not vanish at the edge."""
    k = others.size
    nodes = np.linspace(-1.0, 1.0, _NODES)
    grid = np.stack(np.meshgrid(*[nodes] * k, indexing="ij"), axis=-1).reshape(-1, k)
    on_edge = np.max(np.abs(grid), axis=1) == 1.0
    index = np.stack(np.meshgrid(*[np.arange(_NODES)] * k, indexing="ij"), axis=-1).reshape(-1, k)
    coarse = np.all(index % 2 == 0, axis=1)

    def log_integral(x: Vector, reach: Array) -> tuple[Array, Array, Array]:
        def energy(a: Array) -> Array:
            return g(x.at[others].set(a))

        def newton(_: int, a: Array) -> Array:
            values, vectors = jnp.linalg.eigh(jax.hessian(energy)(a))
            step = vectors @ ((vectors.T @ jax.grad(energy)(a)) / jnp.maximum(jnp.abs(values), 1e-8))
            return jnp.where(energy(a - step) < energy(a), a - step, a)

        # A few damped Newton steps to the mode; a step that does not decrease the energy is not taken.
        start = jax.lax.fori_loop(0, 8, newton, x[others])
        values, vectors = jnp.linalg.eigh(jax.hessian(energy)(start))
        # A zero or negative curvature (a quartic, a double well) gives no scale: use unit length.
        widths = jnp.where(values > 1e-3, 1 / jnp.sqrt(jnp.maximum(values, 1e-3)), 1.0)
        steps = reach * (vectors * widths[None, :])
        log_density = -jax.lax.map(lambda u: energy(start + steps @ u), grid, batch_size=4096)
        volume = jnp.sum(jnp.log(reach * widths)) + k * jnp.log(2.0 / (_NODES - 1))
        total = jax.scipy.special.logsumexp(log_density)
        at_edge = jnp.max(jnp.where(on_edge, log_density, -jnp.inf)) - jnp.max(log_density)
        halved = jax.scipy.special.logsumexp(jnp.where(coarse, log_density, -jnp.inf)) + k * jnp.log(2.0)
        return total + volume, at_edge, jnp.abs(total - halved)

    compiled = compile_once(jax.vmap(log_integral, in_axes=(0, None)))
    for reach in (9.0, 18.0, 40.0):
        logs, edges, errors = (np.asarray(x) for x in compiled(points, np.asarray(reach)))
        if np.all(edges < edge):
            return float(np.max(logs) - np.min(logs)), float(np.max(errors))
    return float("inf"), None
