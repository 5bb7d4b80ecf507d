"""Minibatch gradients with their noise taken out around a point."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.optimize import minimize
from jaxtyping import Array, PyTree

from fokker._module import Module
from fokker._state import as_arrays, inner, ravel, unravel
from fokker.targets.posterior import Posterior


class ControlVariates(Module):
    r"""A posterior whose minibatch gradient is ∇Ũ(θ) - ∇Ũ(θ*) + ∇U(θ*), with the same batch in both.

    Unbiased as before, and its variance falls with |θ - θ*|² instead of staying at N²/n times that of one
    datum: around a mode of a well-determined posterior, by orders of magnitude (Baker et al. 2019). Twice the
    work a step. It stands wherever a `fk.Posterior` does.

    ```python
    target = fk.Posterior(…)
    calm = fk.ControlVariates(target, center=fk.find_mode(target, jnp.zeros(20)))
    ```
    """

    target: Posterior
    center: PyTree[Array]
    gradient: PyTree[Array]

    def __init__(self, target: Posterior, center: PyTree[Any]) -> None:
        self.target = target
        self.center = as_arrays(center)
        target.validate(self.center)
        self.gradient = jax.jit(jax.grad(target.potential))(self.center)

    @property
    def data(self) -> PyTree[Array]:
        """That of the posterior."""
        return self.target.data

    @property
    def size(self) -> int:
        """N."""
        return self.target.size

    def potential(self, theta: PyTree[Array]) -> Array:
        """U, unchanged."""
        return self.target.potential(theta)

    def minibatch_potential(self, theta: PyTree[Array], batch: PyTree[Array]) -> Array:
        """Ũ less a linear function of mean zero, so that its gradient is the one above."""
        noisy = jax.grad(self.target.minibatch_potential)(self.center, batch)
        tilt = jax.tree.map(jnp.subtract, noisy, self.gradient)
        return self.target.minibatch_potential(theta, batch) - inner(tilt, theta)

    def validate(self, theta: PyTree[Array]) -> None:
        """As for the posterior."""
        self.target.validate(theta)


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
