"""The covariance of the minibatch gradient, estimated while sampling."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.count import Count
from fokker._core.module import Module
from fokker._core.state import dimension, nearest, ravel
from fokker.fields import Dense, Diagonal, Field, Scalar

KINDS = ("scalar", "diagonal", "dense")
# Batches that the running average looks back on: V changes as the chain moves.
_WINDOW = 1000
# Batches that the zero which it starts from counts for: too much subtracted stops a run, too little heats it
# for a moment.
_CAUTION = 20


class OnlineNoise(Module):
    r"""V ≈ Cov(∇Ũ), from the scatter of the per-datum contributions c_i of each batch:

        V̂ = s n/(n - 1) Σ_i (c_i - c̄)(c_i - c̄)ᵀ,    V ← V + κ_t (V̂ - V),   κ_t = max(1/(t + 20), 1/1000)

    V̂ is unbiased for any batch of two rows or more, V starts from zero; s = 1 - n/N where the rows are
    distinct (Ahn et al. 2012, for SGFS). `kind` is what is kept of it: "scalar" (the mean variance),
    "diagonal" or "dense".
    """

    kind: str = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(
                f"noise_estimate is a field, a number, a matrix, or one of {', '.join(KINDS)}, not "
                f"{self.kind!r}.{nearest(self.kind, KINDS)}"
            )

    def init(self, theta: PyTree[Array]) -> PyTree[Array]:
        """Nothing known yet: zero."""
        if self.kind == "diagonal":
            return jax.tree.map(jnp.zeros_like, theta)
        d, dtype = dimension(theta), jnp.result_type(*jax.tree.leaves(theta))
        return jnp.zeros((d, d) if self.kind == "dense" else (), dtype)

    def estimate(self, contributions: PyTree[Array], scatter: Any) -> PyTree[Array]:
        """V̂ of one batch."""
        n = jax.tree.leaves(contributions)[0].shape[0]
        if n < 2:
            raise ValueError(
                "the noise of a gradient cannot be seen in batches of one row: take at least two."
            )
        centred = jax.tree.map(lambda c: c - jnp.mean(c, axis=0, keepdims=True), contributions)
        scale = scatter * n / (n - 1)
        if self.kind == "diagonal":
            return jax.tree.map(lambda c: scale * jnp.sum(c**2, axis=0), centred)
        if self.kind == "scalar":
            total = jax.tree.reduce(jnp.add, jax.tree.map(lambda c: jnp.sum(c**2), centred))
            return scale * total / (dimension(contributions) / n)
        flat = jax.vmap(ravel)(centred)
        return scale * flat.T @ flat

    def update(
        self, V: PyTree[Array], contributions: PyTree[Array], scatter: Any, number: Count
    ) -> PyTree[Array]:
        """V with one more batch."""
        found = self.estimate(contributions, scatter)
        kappa = jnp.maximum(1 / (number + _CAUTION), 1 / _WINDOW)
        return jax.tree.map(lambda v, f: v + (kappa * (f - v)).astype(v.dtype), V, found)

    def field(self, V: PyTree[Array]) -> Field:
        """V as a matrix over theta."""
        return {"scalar": Scalar, "diagonal": Diagonal, "dense": Dense}[self.kind](V)
