"""Batches of rows that are drawn one by one: independent, distinct, or each once per epoch."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from fokker._core.count import Count
from fokker._core.names import nearest
from fokker._core.random import fold_in, randint
from fokker.batches._permutation import permuted
from fokker.batches._scheme import Batch, Scheme, check_batch_size
from fokker.rows import take

KINDS = ("replacement", "no replacement", "reshuffle")
NAMES = (*KINDS, "window", "blocks")


class Batches(Scheme):
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

    Arguments:

    - `size`: N, the number of data.
    - `batch_size`: n, rows per batch.
    - `kind`: "replacement", "no replacement" or "reshuffle".

    ```python
    scheme = fk.batches.Batches(100, 10, "replacement")
    key = jax.random.key(0)
    rows = scheme.rows(key, key, *scheme.place(0))
    ```
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    kind: str = eqx.field(static=True, default="reshuffle")

    def __check_init__(self) -> None:
        check_batch_size(self.batch_size, self.size)
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
