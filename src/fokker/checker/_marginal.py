r"""Is theta's marginal the target? That needs ∫ exp(-g(theta, auxiliaries)) to be the same for every theta.

Ma et al. (2015), Eq. 1; Ding et al. (2014), the condition beside their Eq. 9.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker.checker._residual import compile_once
from fokker.dynamics.problem import Problem, Vector

# Quadrature has nodes^dimension nodes: three auxiliary coordinates are a million.
_LARGEST = 3
_NODES = 97
_THETAS = 8
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Marginal:
    """`holds` is None where it could not be decided; `spread` is that of log ∫exp(-g) over theta."""

    holds: bool | None
    spread: float | None
    how: str


def check_marginal(problem: Problem, points: np.ndarray) -> Marginal:
    """Decide the condition, by the derivative of g where it vanishes and by quadrature where it does not."""
    position = problem.variables.get(problem.position)
    if len(problem.variables) < 2:
        return Marginal(True, 0.0, "there are no auxiliary variables")
    if position is None:
        return Marginal(None, None, "not checked: which of the variables is the target's is not known")
    g = problem.auxiliary
    if g is None:
        return Marginal(
            None,
            None,
            "not checked: the Hamiltonian is one function, so what belongs to the target is not known; write "
            "it as fk.Hamiltonian(potential=U, auxiliary=g) to have it checked",
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
        # That it is constant is plain; that it is finite shows in a fall by e⁻⁶ at forty widths.
        _, error = _log_integral_spread(g, points[:1], others, edge=-6.0)
        if error is None:
            return Marginal(None, None, "not established: ∫ exp(-g) was not seen to converge")
        return Marginal(True, 0.0, f"g does not depend on {problem.position}, and exp(-g) is integrable")
    if others.size > _LARGEST:
        return _gaussian(g, points[:_THETAS], others)
    spread, error = _log_integral_spread(g, points[:_THETAS], others)
    how = f"quadrature over {others.size} auxiliary coordinates at {len(points[:_THETAS])} values of theta"
    if error is None:
        return Marginal(None, None, f"not established: ∫ exp(-g) was not seen to converge ({how})")
    if _TOLERANCE < spread <= 10 * error:
        return Marginal(None, spread, f"not established: the quadrature is not accurate enough ({how})")
    return Marginal(spread <= _TOLERANCE, spread, how)


def _gaussian(g: Callable[[Vector], Array], points: np.ndarray, others: np.ndarray) -> Marginal:
    """In any dimension, where g is quadratic in the auxiliaries: log ∫exp(-g) = -min g - ½ log det ∇²g."""

    def at(x: Vector) -> tuple[Array, Array]:
        def energy(a: Array) -> Array:
            return g(x.at[others].set(a))

        a = x[others]
        curvature, elsewhere = jax.hessian(energy)(a), jax.hessian(energy)(2 * a + 1)
        step = jnp.linalg.solve(curvature, jax.grad(energy)(a))
        log_integral = -energy(a - step) - jnp.linalg.slogdet(curvature)[1] / 2
        bent = jnp.max(jnp.abs(curvature - elsewhere)) / jnp.max(jnp.abs(curvature))
        definite = jnp.linalg.eigvalsh(curvature)[0] > 0
        return log_integral, jnp.where(definite, bent, jnp.inf)

    logs, bent = (np.asarray(v) for v in compile_once(jax.vmap(at))(points))
    if not np.all(bent < 1e-8):
        words = f"not checked: quadrature over {others.size} auxiliary coordinates is out of reach"
        return Marginal(None, None, words)
    spread = float(np.max(logs) - np.min(logs))
    return Marginal(spread <= _TOLERANCE, spread, f"g being quadratic in {others.size} auxiliary coordinates")


def _log_integral_spread(
    g: Callable[[Vector], Array], points: np.ndarray, others: np.ndarray, edge: float = -25.0
) -> tuple[float, float | None]:
    """Largest less smallest log ∫exp(-g), and its error; None where exp(-g) did not vanish at the edge."""
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

        # A few damped Newton steps to the mode; on what is not convex they stay where they are.
        start = jax.lax.fori_loop(0, 8, newton, x[others])
        values, vectors = jnp.linalg.eigh(jax.hessian(energy)(start))
        # A vanishing or negative curvature (a quartic, a double well) is no scale: unit length then.
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
