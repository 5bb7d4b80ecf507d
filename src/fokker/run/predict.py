"""Predictions: a function of theta and of rows of data, at every draw and every row."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.checks import check_whole
from fokker._core.draws import batches_of_draws, scalars_per_draw, shape_of_draws, with_draw_keys
from fokker._core.state import describe_shapes
from fokker._core.tracing import hashable
from fokker.rows import is_source, size_of
from fokker.run.changed import forget_changed_function
from fokker.run.progress import Progress
from fokker.targets._data import checked_data

# Rows per batch unless given, and draws per batch: at most so many, and so many numbers of theta.
_ROWS, _DRAWS, _NUMBERS = 1024, 64, 2**24
# Bytes of the predictions of all draws for one batch of rows, and of a result that is returned.
_BLOCK_BYTES, _MOST_BYTES = 2**28, 2**32

Reduce = str | Sequence[float] | None


def predict(
    function: Callable[..., PyTree[Array]],
    draws: PyTree[Any],
    data: PyTree[Any],
    arguments: tuple[Any, ...],
    batch_size: int | None,
    thin: int,
    reduce: Reduce,
    progress: bool,
    what: str = "function",
) -> PyTree[np.ndarray]:
    """`function(theta, rows, *arguments)` at every `thin`-th draw of every chain and at every row."""
    if reduce is not None and not isinstance(reduce, str):
        reduce = np.atleast_1d(np.asarray(reduce)).tolist()
    _check(thin, batch_size, reduce)
    function = hashable(function)
    data = checked_data(data, are_new=True)
    chains, number = shape_of_draws(draws)
    places = np.arange(0, number, thin)
    size, total = size_of(data), chains * len(places)
    outputs = _outputs(function, draws, data, arguments, what)
    forget_changed_function(function, _first(draws), _rows(data, 2), *arguments)
    per_row = total * sum(math.prod(x.shape[1:]) * x.dtype.itemsize for x in jax.tree.leaves(outputs))
    if reduce is None:
        check_memory(per_row * size, total, size)
    rows = max(1, min(size, batch_size or _ROWS, _BLOCK_BYTES // max(1, per_row)))
    batch = max(1, min(_DRAWS, total, _NUMBERS // max(1, scalars_per_draw(draws))))
    result, unit = None, "draws × rows"
    with Progress("predicting", total * size, unit=unit, compiles=True, enabled=progress) as bar:
        for first in range(0, size, rows):
            # The last batch overlaps the one before it, so that all have one size.
            first = min(first, size - rows)
            span = slice(first, first + rows)
            block = jax.tree.map(lambda x, s=span: jnp.asarray(x[s]), data, is_leaf=is_source)
            values: Any = None
            for place, thetas in batches_of_draws(draws, batch, places):
                part = _evaluate(function, thetas, block, arguments)
                values = _stored(values, part, place, 0, total)
                bar.update(first * total + place.stop * rows)
            reduced = jax.tree.map(lambda x: _reduced(x, reduce, chains), values)
            result = _stored(result, reduced, span, _axis(reduce), size)
    if reduce != "moments":
        return result
    return {name: jax.tree.map(lambda x, i=i: x[i], result) for i, name in enumerate(("mean", "variance"))}


def predict_with_keys(
    function: Callable[..., PyTree[Array]], draws: PyTree[Any], data: PyTree[Any], key: Key[Array, ""]
) -> tuple[Callable[..., PyTree[Array]], PyTree[Any], PyTree[Any]]:
    """The arguments of `predict` for a `function(theta, rows, keys)` with a key per draw and row.

    They follow from the numbers of the draw and the row alone, whatever the batches.
    """
    rows = checked_data(data, are_new=True)

    def with_keys(draw: tuple[PyTree[Array], Array], block: dict[str, PyTree[Array]]) -> PyTree[Array]:
        theta, own = draw
        keys = jax.vmap(lambda place: jax.random.fold_in(jax.random.wrap_key_data(own), place))(block["row"])
        return function(theta, block["data"], keys)

    return with_keys, with_draw_keys(draws, key), {"data": rows, "row": np.arange(size_of(rows))}


def _check(thin: int, batch_size: int | None, reduce: Reduce) -> None:
    check_whole("thin", thin)
    if batch_size is not None:
        check_whole("batch_size", batch_size)
    if reduce is None or (isinstance(reduce, str) and reduce in ("mean", "moments")):
        return
    if isinstance(reduce, str) or not reduce or not all(_is_probability(q) for q in reduce):
        raise ValueError(
            "reduce is None (all draws), 'mean', 'moments' (mean and variance), or probabilities of "
            f"quantiles, such as [0.05, 0.95]; {reduce!r} was given."
        )


def _is_probability(q: object) -> bool:
    return isinstance(q, int | float) and 0 <= q <= 1


def check_memory(size: int, draws: int, rows: int) -> None:
    """Raise if a result of so many bytes would be too large."""
    if size > _MOST_BYTES:
        raise MemoryError(
            f"the values at {draws:,} draws and {rows:,} rows take {size / 2**30:.1f} GiB, more than "
            f"{_MOST_BYTES / 2**30:.0f} GiB: take fewer draws (thin) or fewer rows, or reduce='mean'."
        )


def _first(draws: PyTree[Any]) -> PyTree[Array]:
    """The first draw of the first chain."""
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x[0, 0])), draws)


def _rows(data: PyTree[Any], number: int) -> PyTree[Array]:
    """The first rows of the data."""
    return jax.tree.map(lambda x: jnp.asarray(x[:number]), data, is_leaf=is_source)


def _outputs(
    function: Callable[..., PyTree[Array]],
    draws: PyTree[Any],
    data: PyTree[Any],
    arguments: tuple[Any, ...],
    what: str,
) -> PyTree[Any]:
    """Shapes of the values at one draw and a few rows; raise unless their first axis runs over the rows."""
    theta, outputs = _first(draws), None
    for number in (2, 3):  # a length that is the same for both is not that of the rows
        block = _rows(data, number)
        rows = len(jax.tree.leaves(block)[0])
        try:
            outputs = eqx.filter_eval_shape(function, theta, block, *arguments)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise ValueError(
                f"{what} could not be evaluated: {str(error).splitlines()[0].rstrip('.')}. It was given a "
                f"theta of shapes {describe_shapes(theta)} and rows of shapes {describe_shapes(block)}."
            ) from error
        for leaf in jax.tree.leaves(outputs):
            if not leaf.shape or leaf.shape[0] != rows:
                raise ValueError(
                    f"{what} returned the shapes {describe_shapes(outputs)} for {rows} rows: the first axis "
                    "of everything it returns must run over the rows. For a function of one row give "
                    "jax.vmap(function, (None, 0))."
                )
    return outputs


@eqx.filter_jit
def _evaluate(
    function: Callable[..., PyTree[Array]],
    thetas: PyTree[Array],
    block: PyTree[Array],
    arguments: tuple[Any, ...],
) -> PyTree[Array]:
    return jax.vmap(lambda theta: function(theta, block, *arguments))(thetas)


def _stored(
    store: PyTree[np.ndarray] | None, part: PyTree[Any], place: slice, axis: int, size: int
) -> PyTree[np.ndarray]:
    """`store` with `part` put at a place along an axis; made if it is None."""
    where = (*(slice(None),) * axis, place)

    def put(x: Array | np.ndarray, into: np.ndarray | None) -> np.ndarray:
        x = np.asarray(x)
        if into is None:
            into = np.empty((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
        into[where] = x[(*(slice(None),) * axis, slice(place.stop - place.start))]
        return into

    if store is None:
        return jax.tree.map(lambda x: put(x, None), part)
    return jax.tree.map(put, part, store)


def _axis(reduce: Reduce) -> int:
    """The place of the axis of rows in what `_reduced` returns."""
    return 2 if reduce is None else 0 if reduce == "mean" else 1


def _reduced(values: np.ndarray, reduce: Reduce, chains: int) -> np.ndarray:
    """Values, draw × row × …, by chain and draw, or their mean, moments or quantiles over all draws."""
    if reduce is None:
        return values.reshape(chains, -1, *values.shape[1:])
    dtype = np.result_type(values.dtype, np.float32)
    if reduce == "mean":
        return values.mean(axis=0, dtype=float).astype(dtype)
    if reduce == "moments":
        spread = values.astype(float).var(axis=0, ddof=min(1, len(values) - 1))
        return np.stack([values.mean(axis=0, dtype=float), spread]).astype(dtype)
    return np.quantile(values.astype(dtype, copy=False), np.asarray(reduce, float), axis=0).astype(dtype)
