"""A target whose sum over all data takes a few rows at a time."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker.rows import span
from fokker.targets.target import Target, TargetWithData


class InBlocks(TargetWithData):
    """The same U as that of `target`, with the likelihoods of at most `rows` data in memory.

    A run by minibatches may have no memory for more: it checks its start with this.
    """

    target: TargetWithData
    rows: int = eqx.field(static=True)

    @property
    def data(self) -> PyTree[Array]:
        """The data."""
        return self.target.data

    def log_prior(self, theta: PyTree[Array]) -> Array:
        """log p(θ)."""
        return self.target.log_prior(theta)

    def log_likelihood(self, theta: PyTree[Array], datum: PyTree[Array]) -> Array:
        """log p(datum|θ)."""
        return self.target.log_likelihood(theta, datum)

    def minibatch_potential(self, theta: PyTree[Array], batch: PyTree[Array]) -> Array:
        """That of the target."""
        return self.target.minibatch_potential(theta, batch)

    def weighted(self, batch: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """That of the target."""
        return self.target.weighted(batch)

    def validate(self, theta: PyTree[Array]) -> None:
        """That of the target."""
        self.target.validate(theta)

    def on_first_rows(self) -> Target:
        """Itself, or, of data in a file or a stream, with the first rows alone."""
        first = self.target.on_first_rows()
        if first is self.target or not isinstance(first, TargetWithData):
            return self if first is self.target else first
        return type(self)(first, self.rows)

    def potential(self, theta: PyTree[Array]) -> Array:
        """U, by a pass over all the data."""
        return -sum_over_rows(self.target, theta, self.rows) - self.log_prior(theta)


def sum_over_rows(target: TargetWithData, theta: PyTree[Array], rows: int) -> Array:
    """Σ_x log p(x|θ) over all the data, with the likelihoods of at most `rows` of them in memory."""
    in_blocks = target.size // rows * rows
    total = _sum_over_blocks(target, theta, rows) if in_blocks else jnp.zeros(())
    if in_blocks < target.size:
        total += _sum(target, theta, in_blocks, target.size - in_blocks)
    return total


def _sum(target: TargetWithData, theta: PyTree[Array], first: int | Array, number: int) -> Array:
    rows = span(target.data, first, number)
    return jnp.sum(jax.vmap(lambda datum: target.log_likelihood(theta, datum))(rows))


# Compiled once for a target: outside of a compiled program JAX would compile the loop at each call.
@eqx.filter_jit
def _sum_over_blocks(target: TargetWithData, theta: PyTree[Array], rows: int) -> Array:
    # Nothing is stored for the gradient: the rows are read again, which is faster than copies of all of them.
    @jax.checkpoint
    def of_block(theta: PyTree[Array], block: Array) -> Array:
        return _sum(target, theta, block * rows, rows)

    return jnp.sum(jax.lax.map(lambda block: of_block(theta, block), jnp.arange(target.size // rows)))
