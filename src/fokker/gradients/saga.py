"""Minibatch gradients with one stored baseline per row."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.count import Count
from fokker._core.state import dimension
from fokker.batches import Batch
from fokker.gradients.minibatch import Estimator
from fokker.rows import take
from fokker.targets.target import TargetWithData

# A larger table per chain is taken for a mistake: 4 GiB in single precision.
_LARGEST_TABLE = 2**30
_ROWS = 4096


class _Table(NamedTuple):
    each: PyTree[Array]
    total: PyTree[Array]


class SAGA(Estimator):
    """b_i is the gradient of row i at the position where the chain last used that row."""

    remembers_rows = True

    def init(self, target: TargetWithData, theta: PyTree[Array]) -> _Table:
        """The gradients of all rows at the first position."""
        numbers = target.size * dimension(theta)
        if numbers > _LARGEST_TABLE:
            raise ValueError(
                f"saga stores one gradient per datum, here {numbers:,} numbers per chain: use "
                "fk.gradients.control_variates or svrg, which store one gradient in total."
            )
        each = jax.lax.map(
            lambda row: target.datum_gradients(theta, take(target.data, row[None])),
            jnp.arange(target.size),
            batch_size=_ROWS,
        )
        each = jax.tree.map(lambda g: g[:, 0], each)
        return _Table(each, jax.tree.map(lambda g: jnp.sum(g, axis=0), each))

    def _rows(self, batch: PyTree[Array]) -> Array:
        if not isinstance(batch, Batch) or batch.rows is None:
            raise TypeError(
                "saga needs the row numbers of a batch: give fokker.batches.Batch(data, rows) to step."
            )
        return batch.rows

    def baselines(self, target: TargetWithData, state: _Table, batch: PyTree[Array]) -> PyTree[Array]:
        """The stored gradients of the batch's rows."""
        rows = self._rows(batch)
        return jax.tree.map(lambda g: g[rows], state.each)

    def excess(self, target: TargetWithData, state: _Table, batch: PyTree[Array]) -> PyTree[Array]:
        """Σ_{batch} w_i b_i minus the sum of the table."""
        _, weights = target.weighted(batch)
        rows = target.all_rows(self._rows(batch))
        weights = target.all_rows(weights) if jnp.ndim(weights) else weights

        def weighted_sum(table: Array) -> Array:
            return jnp.tensordot(
                jnp.broadcast_to(weights, rows.shape).astype(table.dtype), table[rows], axes=1
            )

        sums = jax.tree.map(weighted_sum, state.each)
        return jax.tree.map(jnp.subtract, sums, state.total)

    def update(
        self, target: TargetWithData, state: _Table, theta: PyTree[Array], batch: PyTree[Array], number: Count
    ) -> _Table:
        """The table and its sum, with the gradients of the batch's rows replaced."""
        rows = target.all_rows(self._rows(batch))
        new = target.all_rows(target.datum_gradients(theta, batch.data))
        # A row that is in the batch twice must change the sum once.
        order = jnp.argsort(rows)
        repeated = jnp.concatenate([jnp.zeros(1, bool), jnp.diff(rows[order]) == 0])
        first = jnp.zeros(rows.shape, bool).at[order].set(~repeated)

        def change(g: Array, table: Array, total: Array) -> Array:
            return total + jnp.tensordot(first.astype(g.dtype), g - table[rows], axes=1)

        total = jax.tree.map(change, new, state.each, state.total)
        return _Table(jax.tree.map(lambda table, g: table.at[rows].set(g), state.each, new), total)


def saga() -> SAGA:
    r"""b_i = g_i at the position where row i was last used (Defazio et al. 2014; Dubey et al. 2016).

    It needs one pass over the data at the start, and N gradients in memory.

    Returns an estimator, for the argument `gradient` of `fk.sample`. It has no arguments.

    ```python
    trace = fk.sample(posterior, fk.samplers.sgld(1e-3), init=jnp.zeros(2), steps=1000, batch_size=2,
                      gradient=fk.gradients.saga())
    ```
    """
    return SAGA()
