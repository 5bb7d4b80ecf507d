"""The covariance of the minibatch gradient, estimated while sampling."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.count import Count
from fokker._core.module import Module
from fokker._core.names import nearest
from fokker._core.state import dimension, ravel
from fokker._core.types import Number
from fokker.fields import Dense, Diagonal, Field, Scalar

KINDS = ("scalar", "diagonal", "dense")
# Batches in the running average: V changes as the chain moves.
_WINDOW = 1000
# Batches that the initial V = 0 counts for. An estimate that is too large stops a run; one that is too small
# only heats it for a short time.
_PRIOR_BATCHES = 20


class OnlineNoise(Module):
    r"""V ≈ Cov(∇Ũ), from the spread of the per-datum contributions c_i in each batch:

        V̂ = s n/(n - 1) Σ_i (c_i - c̄)(c_i - c̄)ᵀ,    V ← V + κ_t (V̂ - V),   κ_t = max(1/(t + 20), 1/1000)

    V̂ is unbiased for any batch of two rows or more, and V starts from zero; s = 1 - n/N if the rows are
    distinct (Ahn et al. 2012, for SGFS). `kind` is the part of V that is stored: "scalar" (the mean
    variance), "diagonal" or "dense".

    Arguments:

    - `kind`: "scalar", "diagonal" or "dense": what is estimated of the covariance.

    ```python
    noise = fk.gradients.OnlineNoise("diagonal")
    ```
    """

    kind: str = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(
                f"noise_estimate is a field, a number, a matrix, or one of {', '.join(KINDS)}, not "
                f"{self.kind!r}.{nearest(self.kind, KINDS)}"
            )

    def init(self, theta: PyTree[Array]) -> PyTree[Array]:
        """The initial V = 0."""
        if self.kind == "diagonal":
            return jax.tree.map(jnp.zeros_like, theta)
        d, dtype = dimension(theta), jnp.result_type(*jax.tree.leaves(theta))
        return jnp.zeros((d, d) if self.kind == "dense" else (), dtype)

    def estimate(self, contributions: PyTree[Array], scatter: Number) -> PyTree[Array]:
        """V̂ of one batch."""
        n = jax.tree.leaves(contributions)[0].shape[0]
        if n < 2:
            raise ValueError(
                "the noise of a gradient cannot be estimated from batches of one row: use at least two rows."
            )
        centred = jax.tree.map(lambda c: c - jnp.mean(c, axis=0, keepdims=True), contributions)
        unbiasing = scatter * n / (n - 1)
        if self.kind == "diagonal":
            return jax.tree.map(lambda c: unbiasing * jnp.sum(c**2, axis=0), centred)
        if self.kind == "scalar":
            total = jax.tree.reduce(jnp.add, jax.tree.map(lambda c: jnp.sum(c**2), centred))
            return unbiasing * total / (dimension(contributions) / n)
        flat = jax.vmap(ravel)(centred)
        return unbiasing * flat.T @ flat

    def update(
        self, V: PyTree[Array], contributions: PyTree[Array], scatter: Number, number: Count
    ) -> PyTree[Array]:
        """V after one more batch."""
        estimate = self.estimate(contributions, scatter)
        kappa = jnp.maximum(1 / (number + _PRIOR_BATCHES), 1 / _WINDOW)
        return jax.tree.map(lambda v, new: v + (kappa * (new - v)).astype(v.dtype), V, estimate)

    def field(self, V: PyTree[Array]) -> Field:
        """V as a matrix over theta."""
        return {"scalar": Scalar, "diagonal": Diagonal, "dense": Dense}[self.kind](V)
