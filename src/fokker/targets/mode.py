"""The mode of a target."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.optimize import minimize
from jaxtyping import Array, PyTree

from fokker._core.state import ravel, unravel
from fokker.targets.constrained import unconstrained


def find_mode(target: Any, init: PyTree[Any], iterations: int = 100) -> PyTree[Array]:
    """A minimum of U by BFGS on all the data, from `init`.

    With constraints, both are θ, but the mode is that of the density of the unconstrained y.
    """
    start = unconstrained(target, init)
    target.validate(start)
    scale = getattr(target, "size", 1)

    def objective(x: Array) -> Array:
        return target.potential(unravel(x, start)) / scale

    found = jax.jit(lambda x: minimize(objective, x, method="BFGS", options={"maxiter": iterations}).x)(
        ravel(start)
    )
    if not bool(jnp.all(jnp.isfinite(found))):
        raise ValueError("no mode was found: the optimisation left the finite numbers. Start elsewhere.")
    mode = unravel(found, start)
    return target.constrain(mode) if hasattr(target, "constrain") else mode
