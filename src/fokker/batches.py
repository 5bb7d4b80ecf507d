"""Minibatches: which rows of the data a step sees.

All are functions of a key and a place in the stream of steps, so that a run can stop, resume and be cut into
chunks without changing what it sees.
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

# Six rounds leave pairs of rows measurably uneven where N is below 100; eight do not.
_ROUNDS = 8
# Up to this many rows the network's halves have too few bits to mix: the permutation is written out.
_WRITTEN_OUT = 64
KINDS = ("replacement", "no replacement", "reshuffle")
# Windows that the data must hold: the variance over them is then within about 5 % of that of random rows.
WINDOWS = 1000


class Batch(NamedTuple):
    """Rows of the data and what a gradient estimator may want to know of them.

    `rows`: their places in the data. `weights`: what each counts for in the sum over all the data, where that
    is not N/n. `scatter`: the variance of their sum against that of independent rows, 1 - n/N where they are
    distinct.
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
    | `reshuffle` | every row exactly once an epoch, in an order drawn anew for each epoch |

    The noise of reshuffled batches cancels over an epoch: it is not white. Where theta moves slowly against
    an epoch that leaves less of it, but a thermostat or a `noise_estimate`, which take what they see in the
    momentum or in a batch for white noise, then make up for too much, and theta is too narrow.

    The last two are the first n entries, and consecutive entries, of a pseudorandom permutation that is
    evaluated where it is needed (a Feistel network with cycle walking) and, but for a few rows, never written
    down.
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
        """Epoch and position in it at which the batch of a step begins."""
        return divmod(step * self.batch_size, self.size)

    def places_after(self, place: tuple[Count, Array], steps: Array) -> tuple[Count, Array]:
        """The places so many steps after a place, while steps · batch_size stays below 2³¹."""
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
        # A batch may end in the next epoch, which has a permutation of its own.
        now, later = (fold_in(run_key, epoch + k) for k in (0, 1))
        return jnp.where(
            place < self.size,
            permuted(now, place % self.size, self.size),
            permuted(later, place % self.size, self.size),
        )

    def batch(self, data: PyTree[Array], rows: Int[Array, " n"]) -> Batch:
        """Those rows of the data."""
        scatter = 1.0 if self.kind == "replacement" else 1.0 - self.batch_size / self.size
        return Batch(jax.tree.map(lambda x: x[rows], data), rows, None, scatter)


class WindowBatches(Module):
    r"""Batches of n consecutive rows, from a random place, of a copy of the data that is shuffled once.

    Memory is read in order: several times faster than gathering rows from all over a large data set, at the
    price of the copy. The copy closes on itself, so that every row is in n of the N windows and the estimate
    is unbiased exactly. The batches are independent; the variance of the gradient is that of distinct rows up
    to a share of √(2n/N), by the luck of the one shuffle: at least a thousand batches of data are asked for.
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
                f"windows of {batch_size} rows need at least {WINDOWS * batch_size:,} data for their noise "
                f"to be typical; there are {self.size:,}: use batches='replacement'."
            )
        self.batch_size = batch_size
        order = jax.random.permutation(key, self.size).astype(jnp.int32)
        self.order = jnp.concatenate([order, order[: batch_size - 1]])
        self.data = jax.tree.map(lambda x: x[self.order], data)

    def place(self, step: int) -> tuple[int, int]:
        """Nothing depends on the place in the stream."""
        return 0, 0

    def places_after(self, place: tuple[Count, Array], steps: Array) -> tuple[Count, Array]:
        """Nothing depends on the place in the stream."""
        nothing = jnp.zeros_like(steps)
        return Count(nothing, nothing), nothing

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
    r"""Batches of n rows, drawn independently with probabilities p_i and counted 1/(n p_i) times each.

    The estimate stays unbiased whatever the p_i > 0; its variance is least where they are proportional to the
    size of each datum's gradient (`fk.gradients.norms`). The probabilities are whole numbers of 2⁻³², drawn
    from by bisection: exactly those that the weights are the inverse of, at any N.
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
                f"batches has the shape {scores.shape}; weighted batches need one score a datum, ({size},)."
            )
        if not (np.all(np.isfinite(scores)) and np.all(scores > 0)):
            raise ValueError(
                "the scores of weighted batches must be positive and finite: no row may be left out."
            )
        self.size, self.batch_size = size, batch_size
        # Each row has at least one of the 2³² tickets; the rest are shared out by score.
        shares = np.cumsum(scores)
        shares = np.minimum(shares / shares[-1], 1.0) * (2**32 - size)
        ends = np.floor(shares).astype(np.int64) + np.arange(1, size + 1)
        ends[-1] = 2**32
        tickets = np.diff(ends, prepend=0)
        self.last = jnp.asarray((ends - 1).astype(np.uint32))
        self.weights = jnp.asarray(2.0**32 / (tickets * batch_size), jnp.result_type(float))

    def place(self, step: int) -> tuple[int, int]:
        """Nothing depends on the place in the stream."""
        return 0, 0

    def places_after(self, place: tuple[Count, Array], steps: Array) -> tuple[Count, Array]:
        """Nothing depends on the place in the stream."""
        nothing = jnp.zeros_like(steps)
        return Count(nothing, nothing), nothing

    def rows(
        self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Count | Array, position: Array
    ) -> Int[Array, " n"]:
        """The rows of one step's batch, from the step's own key."""
        return jnp.searchsorted(self.last, bits(step_key, (self.batch_size,)))

    def batch(self, data: PyTree[Array], rows: Int[Array, " n"]) -> Batch:
        """Those rows of the data, with their weights."""
        return Batch(jax.tree.map(lambda x: x[rows], data), rows, self.weights[rows])


BatchScheme = Batches | WeightedBatches | WindowBatches


def _check_batch_size(batch_size: Any, size: int) -> None:
    if not isinstance(batch_size, int | np.integer):
        raise TypeError(f"the batch size must be a whole number; {batch_size!r} was given.")
    if not 1 <= batch_size <= size:
        raise ValueError(
            f"the batch size must be between 1 and the number of data, {size}; {batch_size} was given."
        )


def permuted(key: Key[Array, ""], places: Array, size: int) -> Int[Array, " n"]:
    """Entries `places` of the pseudorandom permutation of 0 … size - 1 that the key names."""
    if size <= _WRITTEN_OUT:
        return jax.random.permutation(key, size)[places].astype(jnp.int32)
    round_keys = bits(key, (_ROUNDS,))
    half = ((size - 1).bit_length() + 1) // 2
    mask = jnp.uint32((1 << half) - 1)

    def scramble(x: Array) -> Array:
        left, right = x >> half, x & mask
        for k in range(_ROUNDS):
            left, right = right, left ^ (_mix(right ^ round_keys[k]) & mask)
        return (left << half) | right

    # The network permutes a power of four: what falls outside is sent round again until it falls inside.
    def walk(x: Array) -> Array:
        return jnp.where(x >= size, scramble(x), x)

    walked = jax.lax.while_loop(lambda x: jnp.any(x >= size), walk, scramble(places.astype(jnp.uint32)))
    return walked.astype(jnp.int32)


def _mix(x: Array) -> Array:
    """A 32-bit integer hash (multiply and shift), each output bit depending on every input bit."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
