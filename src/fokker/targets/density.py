"""A target known whole."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.module import Module
from fokker._core.state import describe_shapes


class Density(Module):
    r"""The target p(theta) ∝ exp(log_density(theta)), with theta any pytree.

    ```python
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    ```
    """

    log_density: Callable[[PyTree[Array]], Array]

    def potential(self, theta: PyTree[Array]) -> Array:
        """U = -log p, up to a constant."""
        return -self.log_density(theta)

    def validate(self, theta: PyTree[Array]) -> None:
        """Raise unless the log density is one finite number at theta."""
        check_number(self.log_density, theta, "log_density")


def check_number(function: Callable[..., Any], theta: PyTree[Array], name: str, *rest: Any) -> None:
    """Raise unless `function(theta, *rest)` is one number, and a finite one where that can be looked at."""
    try:
        shape = jax.eval_shape(function, theta, *rest)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise ValueError(
            f"{name} could not be evaluated at a position of shapes {describe_shapes(theta)}: "
            f"{str(error).splitlines()[0]}"
        ) from error
    if getattr(shape, "shape", None) != ():
        raise ValueError(
            f"{name} must return one number, not {describe_shapes(shape)}. Sum over what it returns; over "
            "the data the library sums."
        )
    value = function(theta, *rest)
    if not isinstance(value, jax.core.Tracer) and not bool(jnp.isfinite(value)):
        raise ValueError(
            f"{name} is {float(value)} at the initial position; start where the target has mass, inside its "
            "support: another init, or one drawn for each chain, as in "
            "init=lambda key: jax.random.normal(key, shape)."
        )
