"""A posterior, from a prior, the likelihood of one datum, and the data."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker.batches import Batch
from fokker.targets._data import checked_data
from fokker.targets.target import TargetWithData, check_number

# Rows whose likelihoods are evaluated at the same time in a sum over all the data.
_ROWS = 65_536


class Posterior(TargetWithData):
    r"""U(θ) = -Σ_x log p(x|θ) - log p(θ), over data that may be too large for a pass in every step.

    ```python
    target = fk.Posterior(
        log_prior=lambda theta: -jnp.sum(theta**2) / 2,
        log_likelihood=lambda theta, datum: -((datum["y"] - datum["x"] @ theta) ** 2) / 2,
        data={"x": x, "y": y},
    )
    ```

    `log_likelihood(theta, datum)` takes one datum: a tree like the data without the first axis. It is
    vectorised here. `minibatch_potential` is the unbiased estimate (Ma et al. 2015, Eq. 7)

        Ũ(θ) = -(N/n) Σ_{x in batch} log p(x|θ) - log p(θ),

    and N/n is applied here only. Rows drawn with unequal probabilities have their own weights.
    """

    log_prior: Callable[[PyTree[Array]], Array]
    log_likelihood: Callable[[PyTree[Array], PyTree[Array]], Array]
    data: PyTree[Array]

    def __init__(
        self,
        log_prior: Callable[[PyTree[Array]], Array],
        log_likelihood: Callable[[PyTree[Array], PyTree[Array]], Array],
        data: PyTree[Any],
    ) -> None:
        self.log_prior = log_prior
        self.log_likelihood = log_likelihood
        self.data = jax.tree.map(jnp.asarray, checked_data(data))

    def potential(self, theta: PyTree[Array]) -> Array:
        """U, by a pass over all the data."""
        in_blocks = self.size // _ROWS * _ROWS
        total = jnp.zeros(())
        if in_blocks:
            blocks = jax.tree.map(lambda x: x[:in_blocks].reshape(-1, _ROWS, *x.shape[1:]), self.data)
            total = _sum_over_blocks(self, theta, blocks)
        if in_blocks < self.size:
            total += self._log_likelihoods(theta, jax.tree.map(lambda x: x[in_blocks:], self.data))
        return -total - self.log_prior(theta)

    def minibatch_potential(self, theta: PyTree[Array], batch: PyTree[Array]) -> Array:
        """Ũ from a batch of n rows: a tree of rows, or a `fokker.batches.Batch`."""
        rows, weights = self.weighted(batch)
        return -self._log_likelihoods(theta, rows, weights) - self.log_prior(theta)

    def weighted(self, batch: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """The rows of a batch and their weights: N/n, or those of the batch."""
        rows, weights = (batch.data, batch.weights) if isinstance(batch, Batch) else (batch, None)
        n = jax.tree.leaves(rows)[0].shape[0]
        return rows, self.size / n if weights is None else weights

    def _log_likelihoods(self, theta: PyTree[Array], rows: PyTree[Array], weights: Any = 1.0) -> Array:
        each = jax.vmap(lambda datum: self.log_likelihood(theta, datum))(rows)
        return jnp.sum(weights * each) if jnp.ndim(weights) else weights * jnp.sum(each)

    def validate(self, theta: PyTree[Array]) -> None:
        """Raise unless the prior and the likelihood are each one finite number at theta."""
        check_number(self.log_prior, theta, "log_prior")
        datum = jax.tree.map(lambda x: x[0], self.data)
        check_number(self.log_likelihood, theta, "log_likelihood", datum)


# Compiled once for a posterior: outside of a compiled program JAX would compile the loop at each call.
@eqx.filter_jit
def _sum_over_blocks(target: Posterior, theta: PyTree[Array], blocks: PyTree[Array]) -> Array:
    return jnp.sum(jax.lax.map(lambda rows: target._log_likelihoods(theta, rows), blocks))
