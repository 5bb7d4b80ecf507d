"""The plain minibatch gradient, and the base class of all estimators of ∇U."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.count import Count
from fokker._core.module import Module
from fokker._core.types import Arrays
from fokker.targets.target import TargetWithData


class Estimator(Module):
    r"""∇Ũ(θ), an unbiased estimate of ∇U(θ); this class is the plain minibatch gradient.

    Every estimator has the form

        ∇Ũ(θ) = Σ_{i in batch} w_i [g_i(θ) - b_i] + Σ_{all i} b_i - ∇log p(θ),   g_i = -∇log p(x_i|θ),

    with w_i = N/n or the weight of the row. It is unbiased for any baselines b_i, and its variance is small
    if they are close to g_i(θ). Plain minibatches have no baselines. Control variates and SVRG use the
    gradients at a fixed point, SAGA those from when the row was last used. The state holds what this needs.
    """

    # Whether `update` makes passes over all the data.
    reads_all_data: ClassVar[bool] = False
    # Whether baselines are of the rows of earlier batches, so that a batch must be independent of these.
    remembers_rows: ClassVar[bool] = False
    # Steps after which the centre of its baselines moves; None where they have no centre that moves.
    every: ClassVar[int | None] = None

    def on(self, target: TargetWithData) -> "Estimator":
        """The estimator prepared for a target."""
        return self

    def init(self, target: TargetWithData, theta: PyTree[Array]) -> PyTree[Array]:
        """The initial state."""
        return ()

    def excess(
        self, target: TargetWithData, state: PyTree[Array], batch: PyTree[Array]
    ) -> PyTree[Array] | None:
        """Σ_{batch} w_i b_i - Σ_{all} b_i, of mean zero; None if there are no baselines."""
        return None

    def baselines(
        self, target: TargetWithData, state: PyTree[Array], batch: PyTree[Array]
    ) -> PyTree[Array] | None:
        """b_i for each row of the batch, or None."""
        return None

    def update(
        self, target: TargetWithData, state: Arrays, theta: Arrays, batch: Arrays, number: Count
    ) -> PyTree[Array]:
        """The state after step `number`, which used `batch` at `theta`."""
        return state

    def gradient(
        self, target: TargetWithData, state: PyTree[Array], theta: PyTree[Array], batch: PyTree[Array]
    ) -> PyTree[Array]:
        """∇Ũ(θ)."""
        plain = jax.grad(target.minibatch_potential)(theta, batch)
        excess = self.excess(target, state, batch)
        return plain if excess is None else jax.tree.map(jnp.subtract, plain, excess)

    def contributions(
        self, target: TargetWithData, state: PyTree[Array], theta: PyTree[Array], batch: PyTree[Array]
    ) -> PyTree[Array]:
        """w_i [g_i(θ) - b_i], along a first axis: the terms of the minibatch part of ∇Ũ."""
        rows, weights = target.weighted(batch)
        each = target.datum_gradients(theta, rows)
        baselines = self.baselines(target, state, batch)
        if baselines is not None:
            each = jax.tree.map(jnp.subtract, each, baselines)
        if jnp.ndim(weights) == 0:
            return target.all_rows(jax.tree.map(lambda g: weights * g, each))
        scale = lambda g: weights.reshape(-1, *[1] * (g.ndim - 1)) * g  # noqa: E731
        return target.all_rows(jax.tree.map(scale, each))


def minibatch() -> Estimator:
    """∇Ũ(θ) = -(N/n) Σ_{batch} ∇log p(x|θ) - ∇log p(θ): the default of all samplers.

    Returns the estimator, for the argument `gradient` of `fk.sample`, where it is the default. It has no
    arguments.

    ```python
    trace = fk.sample(posterior, fk.samplers.sgld(1e-3), init=jnp.zeros(2), steps=1000, batch_size=2,
                      gradient=fk.gradients.minibatch())
    ```
    """
    return Estimator()
