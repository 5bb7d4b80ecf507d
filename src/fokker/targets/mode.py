"""The mode of a target."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.optimize import minimize
from jaxtyping import Array, PyTree

from fokker._state import as_arrays, ravel, unravel


def find_mode(target: Any, init: PyTree[Any], iterations: int = 100) -> PyTree[Array]:
    """A minimum of U by BFGS on all the data, from `init`."""
    start = as_arrays(init)
    target.validate(start)
    scale = getattr(target, "size", 1)

    def objective(x: Array) -> Array:
        return target.potential(unravel(x, start)) / scale

    found = jax.jit(lambda x: minimize(objective, x, method="BFGS", options={"maxiter": iterations}).x)(
        ravel(start)
    )
    if not bool(jnp.all(jnp.isfinite(found))):
        raise ValueError("no mode was found: the optimisation left the finite numbers. Start elsewhere.")
    return unravel(found, start)
