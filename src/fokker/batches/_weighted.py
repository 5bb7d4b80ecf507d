"""Batches of rows that are drawn with probabilities of their own."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree, UInt32
from numpy.typing import ArrayLike

from fokker._core.count import Count
from fokker._core.random import bits
from fokker.batches._scheme import Batch, Scheme, check_batch_size
from fokker.rows import take


class WeightedBatches(Scheme):
    r"""Batches of n rows, drawn independently with probabilities p_i and weighted by 1/(n p_i).

    The estimate is unbiased for any p_i > 0; its variance is smallest if they are proportional to the norm of
    each datum's gradient (`fk.gradients.norms`). The probabilities are multiples of 2⁻³², and rows are drawn
    by bisection, so that the weights are exactly the inverse of the probabilities at any N.

    Arguments:

    - `scores`: one positive number per datum, to which its probability is proportional.
    - `size`: N, the number of data.
    - `batch_size`: n, rows per batch.

    ```python
    scheme = fk.batches.WeightedBatches(jnp.arange(1.0, 101.0), 100, 10)
    ```
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    last: UInt32[Array, " N"]
    weights: Float[Array, " N"]

    def __init__(self, scores: ArrayLike, size: int, batch_size: int) -> None:
        check_batch_size(batch_size, size)
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

    def rows(
        self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Count | Array, position: Array
    ) -> Int[Array, " n"]:
        """The rows of one step's batch, from the step's own key."""
        return jnp.searchsorted(self.last, bits(step_key, (self.batch_size,)))

    def batch(self, data: PyTree[Array], rows: Int[Array, " n"]) -> Batch:
        """These rows of the data, with their weights."""
        return Batch(take(data, rows), rows, self.weights[rows])
