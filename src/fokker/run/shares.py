"""Targets and batches of which every device of a mesh has a share: what a compiled program sees of them.

The P devices along the axis `data` divide the rows of each batch, or of all the data, evenly among
themselves. Everything else they compute alike, and so a chain is the same on all of them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from fokker._core.count import Count
from fokker._core.module import Module
from fokker._core.parts import DATA, sum_of_parts
from fokker.batches import Batch, BatchScheme, StreamBatches, WindowBatches
from fokker.rows import is_source, span, take
from fokker.samplers.contract import Sampler
from fokker.targets.target import Target, TargetWithData

# Makes an array of which every device of the axis `data` has one block: its shape, type, and block number p.
Deal = Callable[[tuple[int, ...], Any, Callable[[int], np.ndarray]], Array]


class Shards(Module):
    """Arrays of which each device has a block of consecutive rows: a program sees its own block."""

    arrays: PyTree[Any]


class Read(NamedTuple):
    """What was read for the steps of a block: what `batches.rows` says for each, and the rows themselves.

    Their axes are step and chain, and those of the values then row of the batch.
    """

    rows: Any
    values: PyTree[Array]


class SharedTarget(TargetWithData):
    r"""A target whose sums over the data are sums over P devices that have parts of them.

    Ũ is the mean of the estimates Ũ_p that each device makes of its own rows of a batch, equally many each.
    U is Σ_p [U_p + log p(θ)] - log p(θ), where U_p is that of block p of the data alone. `rest`: the last
    N mod P rows, which all devices have. `shards` is None where the program needs no pass over the data.
    """

    target: Any
    shards: Shards | None
    rest: PyTree[Array] | None
    parts: int = eqx.field(static=True)

    @property
    def inner(self) -> Any:
        """The target; in the place of its data are zeros, of their size, which nothing reads."""
        return jax.tree.map(
            lambda x: jnp.zeros(x.shape, x.dtype) if _is_missing(x) else x, self.target, is_leaf=_is_missing
        )

    @property
    def data(self) -> PyTree[Array]:
        """Zeros of the size of the data."""
        return self.inner.data

    def potential(self, theta: PyTree[Array]) -> Array:
        """U, of which every device computes the part of its own rows."""
        assert self.shards is not None
        own = _with_data(self.target, self.shards.arrays)
        if self.parts == 1:
            return own.potential(theta)
        total = sum_of_parts(theta, _LikelihoodOfRows(own))
        if self.rest is None:
            return total - self.inner.log_prior(theta)
        return total + _with_data(self.target, self.rest).potential(theta)

    def minibatch_potential(self, theta: PyTree[Array], batch: PyTree[Array]) -> Array:
        """Ũ, by the rows of a batch that each device has."""
        if self.parts == 1:
            return self.inner.minibatch_potential(theta, batch)
        own = Batch(batch.data, batch.rows, batch.weights, None)
        return sum_of_parts(theta, _PotentialOfBatch(self, own))

    def weighted(self, batch: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        """This device's rows of a batch, and their weights in the sum over all data."""
        rows, weights = self.inner.weighted(batch)
        return rows, weights / self.parts

    def all_rows(self, by_row: PyTree[Array]) -> PyTree[Array]:
        """What each device has for its own rows of a batch, for all rows of the batch."""
        if self.parts == 1:
            return by_row
        return jax.tree.map(lambda x: jax.lax.all_gather(x, DATA, tiled=True), by_row)

    def log_prior(self, theta: PyTree[Array]) -> Array:
        """log p(θ)."""
        return self.inner.log_prior(theta)

    def log_likelihood(self, theta: PyTree[Array], datum: PyTree[Array]) -> Array:
        """log p(datum|θ)."""
        return self.inner.log_likelihood(theta, datum)

    def constrain(self, y: PyTree[Array]) -> PyTree[Array]:
        """Theta, from the coordinates y that are sampled."""
        return self.inner.constrain(y)


class _LikelihoodOfRows(Module):
    """-Σ log p(x|θ) over the data of a target."""

    target: Any

    def __call__(self, theta: PyTree[Array]) -> Array:
        return self.target.potential(theta) + self.target.log_prior(theta)


class _PotentialOfBatch(Module):
    """A device's part of Ũ."""

    shared: SharedTarget
    batch: Any

    def __call__(self, theta: PyTree[Array]) -> Array:
        return self.shared.inner.minibatch_potential(theta, self.batch) / self.shared.parts


class SharedWindows(Module):
    """`WindowBatches` whose shuffled rows are divided: row j is with device j mod P.

    So every window of n rows has n/P with each device, and they are consecutive there.
    """

    size: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    parts: int = eqx.field(static=True)
    shards: Shards

    place = WindowBatches.place
    places_after = WindowBatches.places_after
    rows = WindowBatches.rows

    def batch(self, data: PyTree[Array], start: Int[Array, ""]) -> Batch:
        """This device's rows of the window."""
        part = jax.lax.axis_index(DATA) if self.parts > 1 else 0
        # The first row of the window that is here, start + (part - start) mod P, has this place.
        place = (start + (part - start) % self.parts) // self.parts

        def window(x: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(x, place, self.batch_size // self.parts)

        order, rows = self.shards.arrays
        return Batch(jax.tree.map(window, rows), window(order), None, 1.0 - self.batch_size / self.size)


class SharedRows(Module):
    """Batches whose rows are divided among the devices; each of them has all the data, or they are read."""

    scheme: BatchScheme
    parts: int = eqx.field(static=True)

    @property
    def batch_size(self) -> int:
        """Rows of a batch, of all devices together."""
        return self.scheme.batch_size

    def place(self, step: int) -> tuple[int, int]:
        """As of the scheme."""
        return self.scheme.place(step)

    def places_after(self, place: tuple[Count, Array], steps: Array) -> tuple[Count, Array]:
        """As of the scheme."""
        return self.scheme.places_after(place, steps)

    def rows(self, run_key: Key[Array, ""], step_key: Key[Array, ""], epoch: Count, position: Array) -> Any:
        """The rows of all devices."""
        return self.scheme.rows(run_key, step_key, epoch, position)

    def batch(self, data: PyTree[Array], rows: Any) -> Batch:
        """This device's rows. Their weights are those in the estimate that the device makes of them alone."""
        if isinstance(self.scheme, StreamBatches):  # whose rows have no numbers
            return self.scheme.batch(data, None)
        count = self.batch_size // self.parts
        numbers = self.scheme.numbers(rows)
        own = jax.lax.dynamic_slice_in_dim(numbers, jax.lax.axis_index(DATA) * count, count)
        if isinstance(self.scheme, WindowBatches):  # of a file, without a copy
            return Batch(take(data, own), own, None, 1.0 - self.batch_size / self.scheme.size)
        batch = self.scheme.batch(data, own)
        return batch if batch.weights is None else batch._replace(weights=self.parts * batch.weights)


def shared_sampler(
    sampler: Sampler, batches: BatchScheme | None, parts: int, deal: Deal, known: dict[Any, Any]
) -> Sampler:
    """The sampler on a target of which `parts` devices have a part each; `known`: those shared before."""
    if sampler.batches_undivided:
        if parts == 1:
            return sampler
        raise ValueError(
            f"{sampler.batches_undivided}, so that its batches cannot be divided: give mesh={{'chains': …}} "
            f"without the axis data, which has {parts} devices."
        )
    reads_all = batches is None or sampler.reads_all_data

    def share(target: object) -> object:
        if not isinstance(target, TargetWithData):
            if isinstance(target, Target) and parts > 1:
                raise ValueError(
                    f"the axis data of the mesh has {parts} devices, but the target, a "
                    f"{type(target).__name__}, has no data to divide: give mesh={{'chains': …}}."
                )
            return target
        before, shared = known.get((id(target), reads_all), (None, None))
        if before is not target:
            shared = _shared_target(target, reads_all, parts, deal)
            known[id(target), reads_all] = target, shared
        return shared

    return jax.tree.map(share, sampler, is_leaf=lambda x: isinstance(x, Target))


def _shared_target(target: TargetWithData, reads_all: bool, parts: int, deal: Deal) -> SharedTarget:
    block, left = divmod(target.size, parts)
    shards, rest = None, None
    if reads_all:
        shards = Shards(
            jax.tree.map(
                lambda x: deal(
                    (block * parts, *x.shape[1:]),
                    x.dtype,
                    lambda part: np.asarray(x[part * block : (part + 1) * block]),
                ),
                target.data,
                is_leaf=is_source,
            )
        )
        rest = span(target.data, block * parts, left) if left else None
    missing = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), target.data, is_leaf=is_source)
    return SharedTarget(_with_data(target, missing), shards, rest, parts)


def shared_batches(batches: BatchScheme | None, parts: int, deal: Deal) -> Any:
    """The batches of which each of `parts` devices has an equal part."""
    if batches is None:
        return None
    if isinstance(batches, WindowBatches) and batches.data is not None:
        length = -(-batches.order.shape[0] // parts)

        def shard(x: Array) -> Array:
            def block(part: int) -> np.ndarray:
                rows = np.asarray(x[part::parts])
                return np.concatenate([rows, rows[:1]]) if len(rows) < length else rows

            return deal((length * parts, *x.shape[1:]), x.dtype, block)

        arrays = jax.tree.map(shard, (batches.order, batches.data))
        return SharedWindows(batches.size, batches.batch_size, parts, Shards(arrays))
    return batches if parts == 1 else SharedRows(batches, parts)


def _is_missing(x: object) -> bool:
    return isinstance(x, jax.ShapeDtypeStruct)


def _with_data(target: TargetWithData, data: PyTree[Any]) -> Any:
    """The target with other arrays, or placeholders, in the place of its data."""
    is_leaf = lambda x: _is_missing(x) or is_source(x)  # noqa: E731
    before = jax.tree.leaves(target.data, is_leaf=is_leaf)
    new = dict(zip(map(id, before), jax.tree.leaves(data, is_leaf=is_leaf), strict=True))
    return jax.tree.map(lambda x: new.get(id(x), x), target, is_leaf=is_leaf)
