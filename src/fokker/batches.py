"""Minibatches: the rows of the data that a step uses.

They are functions of a key and of the position in the stream of steps, so that a run can stop, resume and be
split into chunks without any change in its batches.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree, UInt32

from fokker._core.count import Count
from fokker._core.module import Module
from fokker._core.random import bits, fold_in, randint
from fokker._core.state import nearest
from fokker.rows import aligned, is_source, leaves, size_of, take

# With six rounds, pairs of rows are measurably uneven for N below 100; with eight they are not.
_ROUNDS = 8
# Up to this many rows the network's halves have too few bits to mix: use a stored permutation.
_STORED_PERMUTATION = 64
KINDS = ("replacement", "no replacement", "reshuffle")
NAMES = (*KINDS, "window", "blocks")
# Windows that the data must contain: their variance is then within about 5 % of that of random rows.
WINDOWS = 1000
# Rows that are copied together into the shuffled copy of data in the host's memory.
_COPIED = 2**16
# Bytes of a window of a file that has no pieces of its own, and the most bytes of a pool of windows.
_WINDOW_BYTES, _POOL_BYTES = 2**22, 2**25


class Batch(NamedTuple):
    """Rows of the data, with information for gradient estimators.

    `rows`: their indices in the data. `weights`: their weights in the sum over all the data, if different
    from N/n. `scatter`: the variance of their sum relative to that of independent rows; 1 - n/N for distinct
    rows.
    """

    data: PyTree[Array]
    rows: Int[Array, " n"] | None = None
    weights: Float[Array, " n"] | None = None
    scatter: Any = 1.0


class Batches(Module):
    r"""Batches of n rows out of N.

    | kind | rows of a batch |
    | --- | --- |
    | `replacement` | independent, uniform |
    | `no replacement` | distinct within the batch, batches independent |
    | `reshuffle` | every row exactly once per epoch, in a new random order for each epoch |

    The noise of reshuffled batches cancels over an epoch: it is not white. If theta moves slowly compared
    with an epoch, less noise remains. But a thermostat or a `noise_estimate` assumes that the noise in the
    momentum or in a batch is white; it then corrects for too much noise, and the distribution of theta is too
    narrow.

    The last two kinds use the first n entries, and consecutive entries, of a pseudorandom permutation. It is
    evaluated entry by entry (a Feistel network with cycle walking), and stored only for small N.
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    kind: str = eqx.field(static=True, default="reshuffle")

    def __check_init__(self) -> None:
        _check_batch_size(self.batch_size, self.size)
        if self.kind not in KINDS:
            raise ValueError(
                f"batches are one of {', '.join(NAMES)}, not {self.kind!r}.{nearest(self.kind, NAMES)}"
            )

    def place(self, step: int) -> tuple[int, int]:
        """Epoch and position in the epoch at which the batch of a step starts."""
        return divmod(step * self.batch_size, self.size)

    def places_after(self, place: tuple[Count, Array], steps: Array) -> tuple[Count, Array]:
        """The places `steps` steps after a place; steps · batch_size must be below 2³¹."""
        total = place[1] + steps * np.uint32(self.batch_size)
        return place[0] + total // np.uint32(self.size), total % np.uint32(self.size)

    def rows(
        self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Count | Array, position: Array
    ) -> Int[Array, " n"]:
        """The rows of one step's batch: from the step's own key, or from the run's key and the place."""
        if self.kind == "replacement":
            return randint(step_key, (self.batch_size,), self.size)
        steps = jnp.arange(self.batch_size, dtype=jnp.uint32)
        if self.kind == "no replacement":
            return permuted(step_key, steps, self.size)
        place = position + steps
        # A batch may end in the next epoch, which has another permutation.
        this_epoch, next_epoch = (fold_in(run_key, epoch + k) for k in (0, 1))
        return jnp.where(
            place < self.size,
            permuted(this_epoch, place % self.size, self.size),
            permuted(next_epoch, place % self.size, self.size),
        )

    def batch(self, data: PyTree[Array], rows: Int[Array, " n"]) -> Batch:
        """These rows of the data."""
        scatter = 1.0 if self.kind == "replacement" else 1.0 - self.batch_size / self.size
        return Batch(take(data, rows), rows, None, scatter)

    def numbers(self, rows: Int[Array, " n"]) -> Int[Array, " n"]:
        """The numbers of the rows in the data."""
        return rows


class WindowBatches(Module):
    r"""Batches of n consecutive rows, at a random position, of a copy of the data that is shuffled once.

    Memory is read in order, which is several times faster than gathering rows from all over a large data set,
    but needs the copy. The copy is cyclic, so that every row is in n of the N windows and the estimate is
    exactly unbiased. The batches are independent. The variance of the gradient is that of distinct rows up to
    a relative error of √(2n/N), which depends on the one shuffle: at least a thousand batches are required.

    Of data in a file there is no copy: `data` is None, and the same rows are read one by one.
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    order: Int[Array, " N+n-1"]
    data: PyTree[Array] | None

    def __init__(self, data: PyTree[Any], batch_size: int, key: Key[Array, ""]) -> None:
        self.size = size_of(data)
        _check_batch_size(batch_size, self.size)
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

    def place(self, step: int) -> tuple[int, int]:
        """(0, 0): these batches do not depend on the position in the stream."""
        return 0, 0

    def places_after(self, place: tuple[Count, Array], steps: Array) -> tuple[Count, Array]:
        """(0, 0): these batches do not depend on the position in the stream."""
        zeros = jnp.zeros_like(steps)
        return Count(zeros, zeros), zeros

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


def _reordered(leaf: Any, order: Int[Array, " m"]) -> Array:
    if not is_source(leaf):
        return leaf[order]
    # On the host, in memory that the device uses as it is where it can.
    values = aligned((len(order), *leaf.shape[1:]), leaf.dtype)
    numbers = np.asarray(order)
    for first in range(0, len(numbers), _COPIED):
        leaf.read(numbers[first : first + _COPIED], values[first : first + _COPIED])
    return jax.device_put(values)


class BlockBatches(Module):
    r"""Batches for files that are read in large pieces: rows of a few windows of the file, shuffled together.

    An epoch takes windows of `window` consecutive rows in a random order. The rows of every `pool` windows in
    this order are shuffled together, and batches are consecutive rows of the result. Every row comes exactly
    once per epoch; the windows that are left over, and the rows after the last whole window, come last. So a
    file is read in pieces of `window` rows, each once per epoch, which compressed files and disks need.

    The noise of such batches is not white, as with "reshuffle": it cancels over an epoch. And while a pool is
    used, batches are of its rows alone. If neighbouring rows of the file are alike, as in a sorted file, the
    gradient is off in one direction for as long as the pool lasts, and its noise, estimated within a batch,
    comes out too small. Shuffle such a file once, or take more windows per pool.
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    window: int = eqx.field(static=True)
    pool: int = eqx.field(static=True, default=8)

    def __check_init__(self) -> None:
        _check_batch_size(self.batch_size, self.size)
        for name in ("window", "pool"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1; {value!r} was given.")
        if self.window > self.size:
            raise ValueError(f"window={self.window} is more than the {self.size} data: give fewer rows.")

    @classmethod
    def of(cls, data: PyTree[Any], batch_size: int) -> "BlockBatches":
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

    def batch(self, data: PyTree[Any], rows: Int[Array, " n"]) -> Batch:
        """These rows of the data."""
        return Batch(take(data, rows), rows, None, 1.0 - self.batch_size / self.size)

    def numbers(self, rows: Int[Array, " n"]) -> Int[Array, " n"]:
        """The numbers of the rows in the data."""
        return rows


def _row_bytes(leaf: Any) -> int:
    return int(np.prod(leaf.shape[1:], dtype=np.int64)) * leaf.dtype.itemsize


class StreamBatches(Module):
    """The batches of a stream, each used as it comes: every chain takes its own next one at each step."""

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    def place(self, step: int) -> tuple[int, int]:
        """(0, 0): the stream itself knows where it is."""
        return 0, 0

    def places_after(self, place: tuple[Count, Array], steps: Array) -> tuple[Count, Array]:
        """(0, 0): the stream itself knows where it is."""
        zeros = jnp.zeros_like(steps)
        return Count(zeros, zeros), zeros

    def rows(
        self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Count | Array, position: Array
    ) -> None:
        """None: rows of a stream have no numbers."""

    def batch(self, data: PyTree[Any], rows: None) -> Batch:
        """The batch that was read, or the first one of the stream."""
        return Batch(take(data, np.arange(self.batch_size)))


class WeightedBatches(Module):
    r"""Batches of n rows, drawn independently with probabilities p_i and weighted by 1/(n p_i).

    The estimate is unbiased for any p_i > 0; its variance is smallest if they are proportional to the norm of
    each datum's gradient (`fk.gradients.norms`). The probabilities are multiples of 2⁻³², and rows are drawn
    by bisection, so that the weights are exactly the inverse of the probabilities at any N.
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    last: UInt32[Array, " N"]
    weights: Float[Array, " N"]

    def __init__(self, scores: Any, size: int, batch_size: int) -> None:
        _check_batch_size(batch_size, size)
        scores = np.asarray(scores, float)
        if scores.shape != (size,):
            raise ValueError(
                f"batches has the shape {scores.shape}; weighted batches need one score per datum, ({size},)."
            )
        if not (np.all(np.isfinite(scores)) and np.all(scores > 0)):
            raise ValueError(
                "the scores of weighted batches must be positive and finite: no row may be left out."
            )
        self.size, self.batch_size = size, batch_size
        # Each row gets at least one of the 2³² tickets; the rest are distributed by score.
        shares = np.cumsum(scores)
        shares = np.minimum(shares / shares[-1], 1.0) * (2**32 - size)
        ends = np.floor(shares).astype(np.int64) + np.arange(1, size + 1)
        ends[-1] = 2**32
        tickets = np.diff(ends, prepend=0)
        self.last = jnp.asarray((ends - 1).astype(np.uint32))
        self.weights = jnp.asarray(2.0**32 / (tickets * batch_size), jnp.result_type(float))

    def place(self, step: int) -> tuple[int, int]:
        """(0, 0): these batches do not depend on the position in the stream."""
        return 0, 0

    def places_after(self, place: tuple[Count, Array], steps: Array) -> tuple[Count, Array]:
        """(0, 0): these batches do not depend on the position in the stream."""
        zeros = jnp.zeros_like(steps)
        return Count(zeros, zeros), zeros

    def rows(
        self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Count | Array, position: Array
    ) -> Int[Array, " n"]:
        """The rows of one step's batch, from the step's own key."""
        return jnp.searchsorted(self.last, bits(step_key, (self.batch_size,)))

    def batch(self, data: PyTree[Array], rows: Int[Array, " n"]) -> Batch:
        """These rows of the data, with their weights."""
        return Batch(take(data, rows), rows, self.weights[rows])

    def numbers(self, rows: Int[Array, " n"]) -> Int[Array, " n"]:
        """The numbers of the rows in the data."""
        return rows


BatchScheme = Batches | BlockBatches | StreamBatches | WeightedBatches | WindowBatches


def _check_batch_size(batch_size: Any, size: int) -> None:
    if not isinstance(batch_size, int | np.integer):
        raise TypeError(f"the batch size must be an integer; {batch_size!r} was given.")
    if not 1 <= batch_size <= size:
        raise ValueError(
            f"the batch size must be between 1 and the number of data, {size}; {batch_size} was given."
        )


def permuted(key: Key[Array, ""], places: Array, size: int, number: Array | None = None) -> Int[Array, " n"]:
    """Entries `places` of the pseudorandom permutation of 0 … size - 1 that belongs to the key.

    With `number`, one for each place, the key has many permutations, of which these are the numbers.
    """
    tweak = jnp.uint32(0) if number is None else _mix(number.astype(jnp.uint32) + jnp.uint32(1))
    if size <= _STORED_PERMUTATION:
        turned = (places.astype(jnp.uint32) + tweak % jnp.uint32(size)) % jnp.uint32(size)
        return jax.random.permutation(key, size)[turned].astype(jnp.int32)
    round_keys = bits(key, (_ROUNDS,))
    half = ((size - 1).bit_length() + 1) // 2
    mask = jnp.uint32((1 << half) - 1)

    def scramble(x: Array) -> Array:
        left, right = x >> half, x & mask
        for k in range(_ROUNDS):
            left, right = right, left ^ (_mix(right ^ round_keys[k] ^ tweak) & mask)
        return (left << half) | right

    # The network permutes a power of four: entries that are too large are permuted again until they fit.
    def scramble_if_outside(x: Array) -> Array:
        return jnp.where(x >= size, scramble(x), x)

    first = scramble(places.astype(jnp.uint32))
    inside = jax.lax.while_loop(lambda x: jnp.any(x >= size), scramble_if_outside, first)
    return inside.astype(jnp.int32)


def _mix(x: Array) -> Array:
    """A 32-bit integer hash (multiply and shift); each output bit depends on every input bit."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
