"""The stationary probability flux F = f p - ∇·(D p), the input of a completion."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.state import State
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.hamiltonian import hamiltonian_gradient
from fokker.dynamics.problem import Problem, Vector

# Below this fraction of its terms, F is rounding error.
NEGLIGIBLE_FLUX = 1e-10
REVERSIBLE = "F = f p - ∇·(D p) is zero: the drift is reversible, -D∇H + ∇·D, and Q = 0."


def flux_velocity(dynamics: Dynamics | SDE, temperature: Array | float) -> Callable[[State], State]:
    """F/p = f - ∇·D + D∇H as a function of the state, in its precision."""

    def velocity(z: State) -> State:
        f, dH = dynamics.drift(z), hamiltonian_gradient(dynamics.hamiltonian, z)
        if isinstance(dynamics, Dynamics):
            T, D = dynamics.temperature, dynamics.D
            return jax.tree.map(
                lambda a, g, h: a - T.astype(a.dtype) * g + h, f, D.divergence(z), D.mv(z, dH)
            )
        D = dynamics.D_field(z)
        return jax.tree.map(lambda a, g, h: a - g + h / temperature, f, D.divergence(z), D.mv(z, dH))

    return velocity


def flat_flux(problem: Problem) -> Callable[[Vector], tuple[Array, Vector, Vector, Vector]]:
    """x ↦ (H, f, F/p, sum of the sizes of the terms of F/p), by automatic differentiation."""

    def local(x: Vector) -> tuple[Array, Vector, Vector, Vector]:
        H, dH = jax.value_and_grad(problem.hamiltonian)(x)
        f = problem.drift(x)

        def column_derivative(e: Vector) -> Vector:
            return jax.jvp(lambda y: problem.D_mv(y, e), (x,), (e,))[1]

        divergence = jnp.sum(jax.vmap(column_derivative)(jnp.eye(x.size, dtype=x.dtype)), axis=0)
        D_dH = problem.D_mv(x, dH)
        return H, f, f - divergence + D_dH, jnp.abs(f) + jnp.abs(divergence) + jnp.abs(D_dH)

    return local


def require_finite(values: np.ndarray, what: str, points: np.ndarray, names: list[str]) -> None:
    """Raise if `values` (first axis: points) contains a NaN or an infinity; name one such point."""
    bad = ~np.isfinite(values).reshape(len(points), -1).all(axis=1)
    if bad.any():
        where = ", ".join(f"{n} = {x:.4g}" for n, x in zip(names, points[int(np.argmax(bad))], strict=True))
        raise ValueError(
            f"{what} is not finite at {int(bad.sum())} of {len(points)} points, for example at {where}. A "
            "completion needs it in the whole box: give box=… inside the domain, or change variables so "
            "that every coordinate runs over the real line."
        )
