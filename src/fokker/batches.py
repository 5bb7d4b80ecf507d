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

# With six rounds, pairs of rows are measurably uneven for N below 100; with eight they are not.
_ROUNDS = 8
# Up to this many rows the network's halves have too few bits to mix: use a stored permutation.
_STORED_PERMUTATION = 64
KINDS = ("replacement", "no replacement", "reshuffle")
# Windows that the data must contain: their variance is then within about 5 % of that of random rows.
WINDOWS = 1000


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
                f"batches are one of {', '.join((*KINDS, 'window'))}, not {self.kind!r}."
                f"{nearest(self.kind, (*KINDS, 'window'))}"
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
        return Batch(jax.tree.map(lambda x: x[rows], data), rows, None, scatter)


class WindowBatches(Module):
    r"""Batches of n consecutive rows, at a random position, of a copy of the data that is shuffled once.

    Memory is read in order, which is several times faster than gathering rows from all over a large data set,
    but needs the copy. The copy is cyclic, so that every row is in n of the N windows and the estimate is
    exactly unbiased. The batches are independent. The variance of the gradient is that of distinct rows up to
    a relative error of √(2n/N), which depends on the one shuffle: at least a thousand batches are required.
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    order: Int[Array, " N+n-1"]
    data: PyTree[Array]

    def __init__(self, data: PyTree[Array], batch_size: int, key: Key[Array, ""]) -> None:
        self.size = jax.tree.leaves(data)[0].shape[0]
        _check_batch_size(batch_size, self.size)
        if self.size < WINDOWS * batch_size:
            raise ValueError(
                f"windows of {batch_size} rows need at least {WINDOWS * batch_size:,} data, so that their "
                f"noise is typical; there are {self.size:,}: use batches='replacement'."
            )
        self.batch_size = batch_size
        order = jax.random.permutation(key, self.size).astype(jnp.int32)
        self.order = jnp.concatenate([order, order[: batch_size - 1]])
        self.data = jax.tree.map(lambda x: x[self.order], data)

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
        return Batch(jax.tree.map(window, self.data), window(self.order), None, scatter)


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
        return Batch(jax.tree.map(lambda x: x[rows], data), rows, self.weights[rows])


BatchScheme = Batches | WeightedBatches | WindowBatches


def _check_batch_size(batch_size: Any, size: int) -> None:
    if not isinstance(batch_size, int | np.integer):
        raise TypeError(f"the batch size must be an integer; {batch_size!r} was given.")
    if not 1 <= batch_size <= size:
        raise ValueError(
            f"the batch size must be between 1 and the number of data, {size}; {batch_size} was given."
        )


def permuted(key: Key[Array, ""], places: Array, size: int) -> Int[Array, " n"]:
    """Entries `places` of the pseudorandom permutation of 0 … size - 1 that belongs to the key."""
    if size <= _STORED_PERMUTATION:
        return jax.random.permutation(key, size)[places].astype(jnp.int32)
    round_keys = bits(key, (_ROUNDS,))
    half = ((size - 1).bit_length() + 1) // 2
    mask = jnp.uint32((1 << half) - 1)

    def scramble(x: Array) -> Array:
        left, right = x >> half, x & mask
        for k in range(_ROUNDS):
            left, right = right, left ^ (_mix(right ^ round_keys[k]) & mask)
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
