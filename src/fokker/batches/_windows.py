"""Batches of consecutive rows of a shuffled copy of the data."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from fokker._core.count import Count
from fokker._core.random import randint
from fokker.batches._scheme import Batch, Scheme, check_batch_size
from fokker.rows import Source, aligned, is_source, leaves, size_of, take

# Windows that the data must contain: their variance is then within about 5 % of that of random rows.
WINDOWS = 1000
# Rows that are copied together into the shuffled copy of data in the host's memory.
_COPIED = 2**16


class WindowBatches(Scheme):
    r"""Batches of n consecutive rows, at a random position, of a copy of the data that is shuffled once.

    Memory is read in order, which is several times faster than gathering rows from all over a large data set,
    but needs the copy. The copy is cyclic, so that every row is in n of the N windows and the estimate is
    exactly unbiased. The batches are independent. The variance of the gradient is that of distinct rows up to
    a relative error of √(2n/N), which depends on the one shuffle: at least a thousand batches are required.

    Of data in a file there is no copy: `data` is None, and the same rows are read one by one.

    Arguments:

    - `data`: a tree of arrays or sources.
    - `batch_size`: n, rows per batch.
    - `key`: of the one shuffle.

    ```python
    scheme = fk.batches.WindowBatches(jnp.zeros((2000, 1)), 2, jax.random.key(0))
    ```
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    order: Int[Array, " N+n-1"]
    data: PyTree[Array] | None

    def __init__(self, data: PyTree[Array], batch_size: int, key: Key[Array, ""]) -> None:
        self.size = size_of(data)
        check_batch_size(batch_size, self.size)
        if self.size < WINDOWS * batch_size:
            raise ValueError(
                f"windows of {batch_size} rows need at least {WINDOWS * batch_size:,} data, so that their "
                f"noise is typical; there are {self.size:,}: use batches='replacement'."
            )
        self.batch_size = batch_size
        # Sorted on the host, which is many times faster than jax.random.permutation; 64 bits have no ties.
        high, low = np.asarray(jax.random.bits(key, (2, self.size))).astype(np.uint64)
        order = jnp.asarray(np.argsort(high << np.uint64(32) | low).astype(np.int32))
        self.order = jnp.concatenate([order, order[: batch_size - 1]])
        is_in_file = any(is_source(x) and not x.reader.is_in_memory for x in leaves(data))
        copy = (
            None if is_in_file else jax.tree.map(lambda x: _reordered(x, self.order), data, is_leaf=is_source)
        )
        self.data = copy

    def rows(
        self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Count | Array, position: Array
    ) -> Int[Array, ""]:
        """Where the window of one step begins, from the step's own key."""
        return randint(step_key, (), self.size)

    def batch(self, data: PyTree[Array], start: Int[Array, ""]) -> Batch:
        """The rows of that window."""

        def window(x: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(x, start, self.batch_size)

        scatter = 1.0 - self.batch_size / self.size
        rows = window(self.order)
        values = take(data, rows) if self.data is None else jax.tree.map(window, self.data)
        return Batch(values, rows, None, scatter)

    def numbers(self, start: Int[Array, ""]) -> Int[Array, " n"]:
        """The numbers of the rows in the data."""
        return jax.lax.dynamic_slice_in_dim(self.order, start, self.batch_size)


def _reordered(leaf: Array | Source, order: Int[Array, " m"]) -> Array:
    if not isinstance(leaf, Source):
        return leaf[order]
    # On the host, in memory that the device uses as it is where it can.
    values = aligned((len(order), *leaf.shape[1:]), leaf.dtype)
    numbers = np.asarray(order)
    for first in range(0, len(numbers), _COPIED):
        leaf.read(numbers[first : first + _COPIED], values[first : first + _COPIED])
    return jax.device_put(values)
