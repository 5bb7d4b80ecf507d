"""Means and variances of a run, without its draws."""

from collections.abc import Mapping
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.count import Count, no_steps
from fokker._core.module import Module
from fokker.run.losses import Loss, left_of


class Moments(Module):
    """Streaming mean and sum of squared deviations (Welford) of a tree, for draws too large to store.

    `lost`: what rounding took from both, added again with the next value (Kahan 1965): in single precision a
    sum of 2²⁴ squares would otherwise stop growing, and the variance fall to zero.
    """

    count: Count
    mean: PyTree[Array]
    squares: PyTree[Array]
    lost: tuple[PyTree[Array], PyTree[Array]]

    @classmethod
    def of(cls, tree: PyTree[Array]) -> "Moments":
        """No values yet."""
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.promote_types(x.dtype, jnp.float32)), tree)
        return cls(no_steps(), zeros, zeros, (zeros, zeros))

    def add(self, tree: PyTree[Array]) -> "Moments":
        """With one more value."""
        n = self.count + 1
        steps = jax.tree.map(lambda m, x: (x - m) / n.astype(m.dtype), self.mean, tree)
        mean, lost_mean = _plus(self.mean, self.lost[0], steps)
        products = jax.tree.map(lambda m, new, x: (x - m) * (x - new), self.mean, mean, tree)
        squares, lost_squares = _plus(self.squares, self.lost[1], products)
        return Moments(n, mean, squares, (lost_mean, lost_squares))


def _plus(
    total: PyTree[Array], lost: PyTree[Array], terms: PyTree[Array]
) -> tuple[PyTree[Array], PyTree[Array]]:
    """total + terms + lost, and the new loss by rounding."""
    terms = jax.tree.map(jnp.add, terms, lost)
    new = jax.tree.map(jnp.add, total, terms)
    return new, jax.tree.map(lambda t, s, x: x - (s - t), total, new, terms)


def moments_of(
    moments: Moments | None, losses: Mapping[int, Loss] = MappingProxyType({})
) -> dict[str, PyTree[np.ndarray]] | None:
    """The mean and the variance that streaming moments estimate; None before the first draw."""
    if moments is None or not np.any(np.asarray(moments.count)):
        return None
    chains = left_of(np.asarray(moments.count).shape[0], losses)
    count = np.maximum(np.asarray(moments.count)[chains], 2)
    mean, squares = (
        jax.tree.map(lambda x: np.asarray(x)[chains], tree) for tree in (moments.mean, moments.squares)
    )
    variance = jax.tree.map(lambda s: s / (count - 1).reshape(-1, *[1] * (s.ndim - 1)), squares)
    return {"mean": mean, "variance": variance}
