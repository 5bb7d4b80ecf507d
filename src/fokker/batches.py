"""Minibatches: which rows of the data a step sees.

All are functions of a key and a place in the stream of steps, so that a run can stop, resume and be cut into
chunks without changing what it sees.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from fokker._module import Module
from fokker._state import nearest

# Six rounds leave pairs of rows measurably uneven where N is below 100; eight do not.
_ROUNDS = 8
# Up to this many rows the network's halves have too few bits to mix: the permutation is written out.
_WRITTEN_OUT = 64
KINDS = ("replacement", "no replacement", "reshuffle")


class Batches(Module):
    r"""Batches of n rows out of N.

    | kind | rows of a batch |
    | --- | --- |
    | `replacement` | independent, uniform |
    | `no replacement` | distinct within the batch, batches independent |
    | `reshuffle` | every row exactly once an epoch, in an order drawn anew for each epoch |

    The last two are the first n entries, and consecutive entries, of a pseudorandom permutation that is
    evaluated where it is needed (a Feistel network with cycle walking) and, but for a few rows, never written
    down.
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    kind: str = eqx.field(static=True, default="reshuffle")

    def __check_init__(self) -> None:
        if not isinstance(self.batch_size, int | np.integer):
            raise TypeError(f"the batch size must be a whole number; {self.batch_size!r} was given.")
        if not 1 <= self.batch_size <= self.size:
            raise ValueError(
                f"the batch size must be between 1 and the number of data, {self.size}; {self.batch_size} "
                "was given."
            )
        if self.kind not in KINDS:
            raise ValueError(
                f"batches are one of {', '.join(KINDS)}, not {self.kind!r}.{nearest(self.kind, KINDS)}"
            )

    def places(self, first: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Epoch and position in it at which the batches of steps first, first + 1, … begin."""
        starts = (first + np.arange(number, dtype=np.int64)) * self.batch_size
        return (starts // self.size).astype(np.uint32), (starts % self.size).astype(np.uint32)

    def rows(
        self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Array, position: Array
    ) -> Int[Array, " n"]:
        """The rows of one step's batch: from the step's own key, or from the run's key and the place."""
        if self.kind == "replacement":
            return jax.random.randint(step_key, (self.batch_size,), 0, self.size)
        steps = jnp.arange(self.batch_size, dtype=jnp.uint32)
        if self.kind == "no replacement":
            return permuted(step_key, steps, self.size)
        place = position + steps
        # A batch may end in the next epoch, which has a permutation of its own.
        now, later = (jax.random.fold_in(run_key, epoch + k) for k in (0, 1))
        return jnp.where(
            place < self.size,
            permuted(now, place % self.size, self.size),
            permuted(later, place % self.size, self.size),
        )


def permuted(key: Key[Array, ""], places: Array, size: int) -> Int[Array, " n"]:
    """Entries `places` of the pseudorandom permutation of 0 … size - 1 that the key names."""
    if size <= _WRITTEN_OUT:
        return jax.random.permutation(key, size)[places].astype(jnp.int32)
    round_keys = jax.random.bits(key, (_ROUNDS,), jnp.uint32)
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
