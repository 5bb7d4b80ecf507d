"""Batches for files that are read in large pieces, and for streams."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from fokker._core.checks import check_whole
from fokker._core.count import Count
from fokker._core.random import fold_in
from fokker.batches._permutation import permuted
from fokker.batches._scheme import Batch, Scheme, check_batch_size
from fokker.batches._uniform import Batches
from fokker.rows import is_source, leaves, size_of, take

# Bytes of a window of a file that has no pieces of its own, and the most bytes of a pool of windows.
_WINDOW_BYTES, _POOL_BYTES = 2**22, 2**25


class BlockBatches(Scheme):
    r"""Batches for files that are read in large pieces: rows of a few windows of the file, shuffled together.

    An epoch takes windows of `window` consecutive rows in a random order. The rows of every `pool` windows in
    this order are shuffled together, and batches are consecutive rows of the result. Every row comes exactly
    once per epoch; the windows that are left over, and the rows after the last whole window, come last. So a
    file is read in pieces of `window` rows, each once per epoch, which compressed files and disks need.

    The noise of such batches is not white, as with "reshuffle": it cancels over an epoch. And while a pool is
    used, batches are of its rows alone. If neighbouring rows of the file are alike, as in a sorted file, the
    gradient is off in one direction for as long as the pool lasts, and its noise, estimated within a batch,
    comes out too small. Shuffle such a file once, or take more windows per pool.

    Arguments:

    - `size`: N, the number of data.
    - `batch_size`: n, rows per batch.
    - `window`: consecutive rows that are read together.
    - `pool`: windows whose rows are shuffled together.

    ```python
    scheme = fk.batches.BlockBatches(1000, 10, window=50)
    ```
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    window: int = eqx.field(static=True)
    pool: int = eqx.field(static=True, default=8)

    def __check_init__(self) -> None:
        check_batch_size(self.batch_size, self.size)
        for name in ("window", "pool"):
            check_whole(name, getattr(self, name))
        if self.window > self.size:
            raise ValueError(f"window={self.window} is more than the {self.size} data: give fewer rows.")

    @classmethod
    def of(cls, data: PyTree[Array], batch_size: int) -> "BlockBatches":
        """With windows as the files are made of, or of 4 MiB, and pools of at most 32 MiB in 8 windows."""
        sources = [x for x in leaves(data) if is_source(x)]
        row_bytes = max(1, sum(x.row_bytes for x in sources) or sum(_row_bytes(x) for x in leaves(data)))
        window = max((x.reader.window for x in sources), default=1)
        if window == 1:
            window = max(1, _WINDOW_BYTES // row_bytes)
        window = min(window, size_of(data))
        return cls(size_of(data), batch_size, window, max(1, min(8, _POOL_BYTES // (window * row_bytes))))

    def place(self, step: int) -> tuple[int, int]:
        """Epoch and position in the epoch at which the batch of a step starts."""
        return Batches(self.size, self.batch_size).place(step)

    def places_after(self, place: tuple[Count, Array], steps: Array) -> tuple[Count, Array]:
        """The places `steps` steps after a place; steps · batch_size must be below 2³¹."""
        return Batches(self.size, self.batch_size).places_after(place, steps)

    def rows(
        self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Count | Array, position: Array
    ) -> Int[Array, " n"]:
        """The rows of one step's batch, from the run's key and the place."""
        place = position + jnp.arange(self.batch_size, dtype=jnp.uint32)
        this_epoch, next_epoch = (self._order(fold_in(run_key, epoch + k), place % self.size) for k in (0, 1))
        return jnp.where(place < self.size, this_epoch, next_epoch)

    def _order(self, key: Key[Array, ""], places: Array) -> Int[Array, " n"]:
        """Entries `places` of the order of one epoch."""
        windows = self.size // self.window
        in_pool = self.pool * self.window
        pools = windows // self.pool
        left = windows % self.pool * self.window  # rows of the windows that make no whole pool
        last = self.size - pools * in_pool
        if pools:
            pool, place = jnp.minimum(places // in_pool, pools - 1), places % in_pool
            shuffled = permuted(fold_in(key, 1), place, in_pool, pool)
            window, offset = pool * self.pool + shuffled // self.window, shuffled % self.window
        if last:
            shuffled = permuted(fold_in(key, 0), jnp.maximum(places, pools * in_pool) - pools * in_pool, last)
            is_last = places >= pools * in_pool
            last_window = jnp.minimum(pools * self.pool + shuffled // self.window, max(1, windows) - 1)
            window = jnp.where(is_last, last_window, window) if pools else last_window
            offset = jnp.where(is_last, shuffled % self.window, offset) if pools else shuffled % self.window
        rows = offset if windows <= 1 else permuted(key, window, windows) * self.window + offset
        if last > left:
            rows = jnp.where(is_last & (shuffled >= left), windows * self.window + shuffled - left, rows)
        return rows.astype(jnp.int32)

    def batch(self, data: PyTree[Array], rows: Int[Array, " n"]) -> Batch:
        """These rows of the data."""
        return Batch(take(data, rows), rows, None, 1.0 - self.batch_size / self.size)


def _row_bytes(leaf: Array) -> int:
    return int(np.prod(leaf.shape[1:], dtype=np.int64)) * leaf.dtype.itemsize


class StreamBatches(Scheme):
    """The batches of a stream, each used as it comes: every chain takes its own next one at each step.

    Arguments:

    - `size`: N, the number of data that the stream stands for.
    - `batch_size`: n, rows per batch.

    ```python
    scheme = fk.batches.StreamBatches(1000, 10)
    ```
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    def rows(
        self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Count | Array, position: Array
    ) -> None:
        """None: rows of a stream have no numbers."""

    def batch(self, data: PyTree[Array], rows: Int[Array, " n"] | None) -> Batch:
        """The batch that was read, or the first one of the stream."""
        return Batch(take(data, np.arange(self.batch_size)))
