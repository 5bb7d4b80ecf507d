"""What all schemes of minibatches share: which rows a step uses, by its key and its place in the run."""

import abc
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from fokker._core.count import Count
from fokker._core.module import Module


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


class Scheme(Module):
    """Batches of `batch_size` rows out of `size`, each by the keys of the run and of the step, and the place.

    By default they do not depend on the place, which is an epoch and a position in it.
    """

    def place(self, step: int) -> tuple[int, int]:
        """Epoch and position in it at which the batch of a step starts; (0, 0) where they are not used."""
        return 0, 0

    def places_after(self, place: tuple[Count, Array], steps: Array) -> tuple[Count, Array]:
        """The places `steps` steps after a place; steps · batch_size must be below 2³¹."""
        zeros = jnp.zeros_like(steps)
        return Count(zeros, zeros), zeros

    @abc.abstractmethod
    def rows(
        self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Count | Array, position: Array
    ) -> Int[Array, " n"] | None:
        """What names the rows of one step's batch: their numbers, or where they begin."""

    @abc.abstractmethod
    def batch(self, data: PyTree[Array], rows: Int[Array, " n"]) -> Batch:
        """The batch of the rows that `rows` named."""

    def numbers(self, rows: Int[Array, " n"]) -> Int[Array, " n"]:
        """The numbers of the rows in the data."""
        return rows


def check_batch_size(batch_size: object, size: int) -> None:
    """Raise unless a batch of so many rows can be drawn from `size`."""
    if not isinstance(batch_size, int | np.integer):
        raise TypeError(f"the batch size must be an integer; {batch_size!r} was given.")
    if not 1 <= batch_size <= size:
        raise ValueError(
            f"the batch size must be between 1 and the number of data, {size}; {batch_size} was given."
        )
