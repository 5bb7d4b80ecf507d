"""The plain minibatch gradient, and what every estimator of ∇U shares with it."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.count import Count
from fokker._core.module import Module


class Estimator(Module):
    r"""∇Ũ(θ), unbiased for ∇U(θ); by itself the plain minibatch gradient.

    Every estimator here is of the form

        ∇Ũ(θ) = Σ_{i in batch} w_i [g_i(θ) - b_i] + Σ_{all i} b_i - ∇log p(θ),   g_i = -∇log p(x_i|θ),

    with w_i = N/n or the weight of the row: unbiased whatever the baselines b_i, and the calmer the nearer
    they are to g_i(θ). Plain minibatches have none; control variates and SVRG take those of a fixed point,
    SAGA those that the row had when it was last seen. What has to be remembered is the estimator's state.
    """

    def on(self, target: Any) -> "Estimator":
        """Made ready for a target."""
        return self

    def init(self, target: Any, theta: PyTree[Array]) -> PyTree[Array]:
        """The state to start from."""
        return ()

    def excess(self, target: Any, state: PyTree[Array], batch: Any) -> PyTree[Array] | None:
        """Σ_{batch} w_i b_i - Σ_{all} b_i, of mean zero; None where there are no baselines."""
        return None

    def baselines(self, target: Any, state: PyTree[Array], batch: Any) -> PyTree[Array] | None:
        """b_i of every row of the batch."""
        return None

    def update(
        self, target: Any, state: PyTree[Array], theta: PyTree[Array], batch: Any, number: Count
    ) -> PyTree[Array]:
        """The state for the step after step `number`, which saw `batch` at `theta`."""
        return state

    def gradient(self, target: Any, state: PyTree[Array], theta: PyTree[Array], batch: Any) -> PyTree[Array]:
        """∇Ũ(θ)."""
        plain = jax.grad(target.minibatch_potential)(theta, batch)
        excess = self.excess(target, state, batch)
        return plain if excess is None else jax.tree.map(jnp.subtract, plain, excess)

    def contributions(
        self, target: Any, state: PyTree[Array], theta: PyTree[Array], batch: Any
    ) -> PyTree[Array]:
        """w_i [g_i(θ) - b_i], along a first axis: what the minibatch part of ∇Ũ is the sum of."""
        rows, weights = target.weighted(batch)
        each = target.datum_gradients(theta, rows)
        baselines = self.baselines(target, state, batch)
        if baselines is not None:
            each = jax.tree.map(jnp.subtract, each, baselines)
        if jnp.ndim(weights) == 0:
            return jax.tree.map(lambda g: weights * g, each)
        return jax.tree.map(lambda g: weights.reshape(-1, *[1] * (g.ndim - 1)) * g, each)


def minibatch() -> Estimator:
    """∇Ũ(θ) = -(N/n) Σ_{batch} ∇log p(x|θ) - ∇log p(θ): what samplers use unless told otherwise."""
    return Estimator()
