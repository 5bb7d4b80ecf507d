"""Minibatch gradients with control variates at a fixed point."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.rounding import raised
from fokker._core.state import as_arrays
from fokker.gradients.minibatch import Estimator
from fokker.targets.target import TargetWithData


class ControlVariates(Estimator):
    r"""∇Ũ(θ) - ∇Ũ(θ*) + ∇U(θ*), with the same batch in both terms; made by `control_variates`.

    Arguments:

    - `center`: θ*, an array or a tree of arrays.
    - `full`: ∇U(θ*), where it is known. None leaves it to `on`.

    ```python
    estimator = fk.gradients.ControlVariates(jnp.zeros(2)).on(posterior)
    ```
    """

    center: PyTree[Array]
    full: PyTree[Array] | None = None

    def on(self, target: TargetWithData) -> "ControlVariates":
        """The estimator with ∇U(θ*), which takes one pass over all the data."""
        center = target.unconstrain(raised(self.center))
        target.validate(center)
        return ControlVariates(center, jax.jit(jax.grad(target.potential))(center))

    def excess(self, target: TargetWithData, state: PyTree[Array], batch: PyTree[Array]) -> PyTree[Array]:
        """∇Ũ(θ*) - ∇U(θ*)."""
        noisy = jax.grad(target.minibatch_potential)(self.center, batch)
        return jax.tree.map(jnp.subtract, noisy, self.full)

    def baselines(self, target: TargetWithData, state: PyTree[Array], batch: PyTree[Array]) -> PyTree[Array]:
        """g_i(θ*)."""
        return target.datum_gradients(self.center, target.weighted(batch)[0])


def control_variates(center: PyTree[Any]) -> ControlVariates:
    r"""b_i = g_i(θ*): the variance decreases with |θ - θ*|²; without b_i it is N²/n times that of one datum.

    Near the mode of a well-determined posterior it is smaller by orders of magnitude (Baker et al. 2019). A
    step costs twice as much, and there is one pass over the data before the first step.

    Arguments:

    - `center`: a theta near the mode, as `fk.find_mode` finds it.

    Returns an estimator, for the argument `gradient` of `fk.sample`.

    ```python
    trace = fk.sample(posterior, fk.samplers.sgld(1e-3), init=jnp.zeros(2), steps=1000, batch_size=2,
                      gradient=fk.gradients.control_variates(jnp.zeros(2)))
    ```
    """
    return ControlVariates(as_arrays(center))
