"""A target given by its log density."""

from collections.abc import Callable

from jaxtyping import Array, PyTree

from fokker.targets.target import Target, check_number


class Density(Target):
    r"""The target p(theta) ∝ exp(log_density(theta)), where theta is any pytree.

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
