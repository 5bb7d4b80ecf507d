"""A posterior: a prior, the likelihood of one datum, and the data."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.module import Module
from fokker.batches import Batch
from fokker.targets.density import check_number

# Rows of data whose likelihoods are evaluated at a time where all are wanted.
_ROWS = 65_536


class Posterior(Module):
    r"""U(θ) = -Σ_x log p(x|θ) - log p(θ), over data that may be too large for it to be evaluated every step.

    ```python
    target = fk.Posterior(
        log_prior=lambda theta: -jnp.sum(theta**2) / 2,
        log_likelihood=lambda theta, datum: -((datum["y"] - datum["x"] @ theta) ** 2) / 2,
        data={"x": x, "y": y},
    )
    ```

    `log_likelihood(theta, datum)` is for one datum, a tree of the data's leaves without their first axis; it
    is vectorised here. `minibatch_potential` is the unbiased estimate (Ma et al. 2015, Eq. 7)

        Ũ(θ) = -(N/n) Σ_{x in batch} log p(x|θ) - log p(θ),

    and the one place where N/n stands; rows drawn with unequal probabilities bring their own weights.
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
        _check_data(data)
        self.data = jax.tree.map(jnp.asarray, data)

    @property
    def size(self) -> int:
        """N, the number of data."""
        return jax.tree.leaves(self.data)[0].shape[0]

    def potential(self, theta: PyTree[Array]) -> Array:
        """U over all the data."""
        whole = self.size // _ROWS * _ROWS
        total = jnp.zeros(())
        if whole:
            blocks = jax.tree.map(lambda x: x[:whole].reshape(-1, _ROWS, *x.shape[1:]), self.data)
            total = jnp.sum(jax.lax.map(lambda rows: self._log_likelihoods(theta, rows), blocks))
        if whole < self.size:
            total += self._log_likelihoods(theta, jax.tree.map(lambda x: x[whole:], self.data))
        return -total - self.log_prior(theta)

    def minibatch_potential(self, theta: PyTree[Array], batch: PyTree[Array]) -> Array:
        """Ũ over a batch of n data: a tree of rows, or a `fokker.batches.Batch`."""
        rows, weights = self.weighted(batch)
        return -self._log_likelihoods(theta, rows, weights) - self.log_prior(theta)

    def weighted(self, batch: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """The rows of a batch, and what each counts for: N/n, or its own weight."""
        rows, weights = (batch.data, batch.weights) if isinstance(batch, Batch) else (batch, None)
        n = jax.tree.leaves(rows)[0].shape[0]
        return rows, self.size / n if weights is None else weights

    def datum_gradients(self, theta: PyTree[Array], rows: PyTree[Array]) -> PyTree[Array]:
        """-∇log p(x|θ) of every datum in `rows`, along a new first axis."""
        return jax.vmap(jax.grad(lambda t, datum: -self.log_likelihood(t, datum)), (None, 0))(theta, rows)

    def _log_likelihoods(self, theta: PyTree[Array], rows: PyTree[Array], weights: Any = 1.0) -> Array:
        each = jax.vmap(lambda datum: self.log_likelihood(theta, datum))(rows)
        return jnp.sum(weights * each) if jnp.ndim(weights) else weights * jnp.sum(each)

    def validate(self, theta: PyTree[Array]) -> None:
        """Raise unless prior and likelihood are one finite number each at theta."""
        check_number(self.log_prior, theta, "log_prior")
        datum = jax.tree.map(lambda x: x[0], self.data)
        check_number(self.log_likelihood, theta, "log_likelihood", datum)


def _check_data(data: PyTree[Any]) -> None:
    leaves = jax.tree.leaves_with_path(data)
    if not leaves:
        raise ValueError("the data are empty: give at least one array.")
    lengths = {}
    for path, leaf in leaves:
        name = f"data{jax.tree_util.keystr(path)}"
        if np.ndim(leaf) == 0:
            raise ValueError(f"{name} is a single number; the first axis of every leaf runs over the data.")
        lengths[name] = np.shape(leaf)[0]
        if isinstance(leaf, jax.core.Tracer):  # inside jax.jit or jax.vmap it has a shape and no values yet
            continue
        values = np.asarray(leaf)
        if jnp.issubdtype(values.dtype, jnp.floating) and not np.all(np.isfinite(values)):
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise ValueError(f"{name} has a value that is not finite, first in row {row}: drop or mend it.")
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"the leaves of the data differ in length: {told}. Each needs one row a datum.")
    if not next(iter(lengths.values())):
        raise ValueError("the data are empty: their first axis has length 0.")
