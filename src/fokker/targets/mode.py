"""Finding the mode of a target."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.optimize import minimize
from jaxtyping import Array, PyTree

from fokker._core.state import ravel, unravel
from fokker.rows import reading, resident
from fokker.targets.target import Target, TargetWithData, check_is_target


def find_mode(target: Target, init: PyTree[Any], iterations: int = 100) -> PyTree[Array]:
    """A minimum of U, found by BFGS on all the data.

    ```python
    mode = fk.find_mode(target, jnp.zeros(50))
    trace = fk.sample(target, "sgld", init=mode, steps=10_000, batch_size=100,
                      gradient=fk.gradients.control_variates(mode))
    ```

    Arguments:

    - `target`: a `fk.Density`, a `fk.Posterior` or another target.
    - `init`: the theta to start from, an array or a tree of arrays.
    - `iterations`: the most iterations of BFGS.

    Returns a tree like `init`. With constraints both are θ, but the mode is that of the density of the
    unconstrained y. What is found may be a local minimum. Raises where the optimisation leaves the finite
    numbers.
    """
    check_is_target(target)
    if not jax.tree.leaves(init):
        raise ValueError(f"init must be theta, an array or a tree of arrays; it is {init!r}.")
    target = resident(target)
    start = target.unconstrain(init)
    target.validate(start)
    size = target.size if isinstance(target, TargetWithData) else 1

    def objective(x: Array) -> Array:
        return target.potential(unravel(x, start)) / size

    with reading():
        minimum = jax.jit(lambda x: minimize(objective, x, method="BFGS", options={"maxiter": iterations}).x)(
            ravel(start)
        )
        is_finite = bool(jnp.all(jnp.isfinite(minimum)))
    if not is_finite:
        raise ValueError(
            "no mode was found: the optimisation reached values that are not finite. Start elsewhere."
        )
    return target.constrain(unravel(minimum, start))
