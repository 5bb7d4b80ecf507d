"""A target given by its log density."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
from jaxtyping import Array, PyTree

from fokker._core.labels import Labels, shapes_of
from fokker.targets.target import Target, check_number, checked_function


class Density(Target):
    r"""The target p(theta) ∝ exp(log_density(theta)), where theta is any pytree.

    ```python
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    target = fk.Density(
        lambda theta: -jnp.sum(theta["a"] ** 2) / 2, dims={"a": ["city"]}, coords={"city": ["Köln", "Bonn"]}
    )
    ```

    Arguments:

    - `log_density`: a function of theta that returns one number, log p up to a constant. It may read
      numbers outside of itself: each run uses what they are when it starts, and compiles again if they
      changed. Two limits are JAX's: an array must be replaced, not changed in place, and a function that
      is under `jax.jit` itself keeps what it read first.
    - `dims`: names of the axes of parameters, by the parameter's name ("theta" where theta is one array;
      "a.b" for theta["a"]["b"]).
    - `coords`: the entries along these axes: tables then show a[Köln] in place of a[0], and
      `trace.to_arviz()` has them.
    """

    log_density: Callable[[PyTree[Array]], Array]
    _labels: Labels = eqx.field(static=True)

    def __init__(
        self,
        log_density: Callable[[PyTree[Array]], Array],
        *,
        dims: Mapping[str, Any] | None = None,
        coords: Mapping[str, Any] | None = None,
    ) -> None:
        self.log_density = checked_function(
            log_density, "log_density", "lambda theta: -jnp.sum(theta**2) / 2"
        )
        self._labels = Labels.checked(dims, coords)

    def labels(self) -> Labels:
        """Names of the axes of parameters, and of the entries along them."""
        return self._labels

    def potential(self, theta: PyTree[Array]) -> Array:
        """U = -log p, up to a constant."""
        return -self.log_density(theta)

    def validate(self, theta: PyTree[Array]) -> None:
        """Raise unless the log density is one finite number at theta, and `dims` are names of its axes."""
        check_number(self.log_density, theta, "log_density")
        self._labels.check(shapes_of(theta))
