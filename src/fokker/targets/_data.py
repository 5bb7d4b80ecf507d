"""Checks of the data of a posterior, each with one sentence that says where they are wrong and what to do."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import KeyPath
from jaxtyping import ArrayLike, PyTree

from fokker._core.precision import is_double
from fokker.rows import Source, is_source, leaves, opened, some_rows
from fokker.rows.column import is_number
from fokker.rows.precision import DOUBLE, check_differences, check_distinct, check_rounding, is_exact
from fokker.rows.readers import ArrayReader
from fokker.rows.values import check_values, place

# In-memory data of at least this many bytes stay where they are: the device gets what a run uses of them.
_LARGE = 2**26
# Numbers of rows are whole numbers of 32 bits, with a sign.
_MOST_ROWS = 2**31 - 1
# Bytes of the widest real and complex numbers of JAX; NumPy has wider ones.
_WIDEST = {"f": 8, "c": 16}


def checked_data(data: PyTree[Any], are_new: bool = False) -> PyTree[Any]:
    """The data as arrays; raise unless they are finite numbers, and every leaf has as many rows.

    Files are opened, as sources. Their values are checked when they are read. `are_new`: rows to predict, of
    which only the values must stay distinct in single precision.
    """
    data = opened(data)
    named = jax.tree_util.tree_leaves_with_path(data, is_leaf=is_source)
    if not named:
        raise ValueError("the data are empty: give at least one array.")
    arrays, lengths = [], {}
    for path, leaf in named:
        name = f"data{jax.tree_util.keystr(path)}"
        if np.ndim(leaf) == 0:
            _refuse_single(name, leaf, path, named)
        # Inside jax.jit or jax.vmap it has no values.
        is_known = not isinstance(leaf, jax.core.Tracer) and not is_source(leaf)
        arrays.append(_checked_values(name, leaf) if is_known else leaf)
        lengths[name] = np.shape(leaf)[0]
    if len(set(lengths.values())) > 1:
        described = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(
            f"the leaves of the data differ in length: {described}. Each needs one row per datum."
        )
    length = next(iter(lengths.values()))
    if not length:
        raise ValueError("the data are empty: their first axis has length 0.")
    if length > _MOST_ROWS:
        raise ValueError(
            f"the data have {length:,} rows, but are counted in 31 bits: give at most {_MOST_ROWS:,}, or "
            "a stream of batches, fk.Posterior(…, batches, size=N)."
        )
    named_arrays = list(zip(lengths, arrays, strict=True))
    if are_new:
        for name, values in _rounded_leaves(named_arrays):
            check_distinct(name, values)
    else:
        check_precision(named_arrays, length)
    return jax.tree.unflatten(jax.tree.structure(data, is_leaf=is_source), arrays)


def check_precision(named: list[tuple[str, Any]], rows: int) -> None:
    """Raise where single precision would round the leaves, or the difference of two of them, noticeably.

    Of a file some rows are looked at, spread over it; of a stream the first batch.
    """
    columns = list(_rounded_leaves(named))
    for name, values in columns:
        check_rounding(name, values, rows, double=DOUBLE)
    check_differences(columns, rows, double=DOUBLE)


def _rounded_leaves(named: list[tuple[str, Any]]) -> Iterator[tuple[str, np.ndarray]]:
    """The leaves whose numbers JAX rounds, or a model may: whole numbers are stored as they are."""
    for name, leaf in named:
        is_traced = isinstance(leaf.token if is_source(leaf) else leaf, jax.core.Tracer)
        if is_traced or isinstance(leaf, jax.Array):  # stored already
            continue
        dtype = leaf.reader.dtype if is_source(leaf) else leaf.dtype
        if dtype.kind in "iufc" and not is_double() and not (dtype.kind in "fc" and is_exact(dtype)):
            yield name, some_rows(leaf) if is_source(leaf) else leaf


def checked_stream(data: PyTree[Any]) -> PyTree[Any]:
    """The sources of a stream; raise where single precision would round its first batch noticeably."""
    sources = leaves(data)
    check_precision([(leaf.form.name, leaf) for leaf in sources], sources[0].shape[0])
    return data


def placed(data: PyTree[Any]) -> PyTree[Any]:
    """Checked data on the device; large arrays of NumPy stay in the host's memory, as sources."""
    is_large = sum(x.nbytes for x in leaves(data) if isinstance(x, np.ndarray)) >= _LARGE

    def put(path: KeyPath, leaf: ArrayLike | Source) -> Any:
        if is_source(leaf):
            return leaf
        if is_large and isinstance(leaf, np.ndarray):
            return Source(ArrayReader(leaf), f"data{jax.tree_util.keystr(path)}")
        return jnp.asarray(leaf)

    return jax.tree_util.tree_map_with_path(put, data, is_leaf=is_source)


def _refuse_single(name: str, leaf: object, path: KeyPath, leaves: list[tuple[Any, Any]]) -> None:
    # A list is a tree, whose leaves are its numbers.
    parent = _outermost_list(path)
    beside = [x for other, x in leaves if other[: len(parent)] == parent]
    if len(parent) < len(path) and not any(np.ndim(x) for x in beside):
        where = f"data{jax.tree_util.keystr(parent)}"
        raise ValueError(f"{where} is a list or tuple of single values: give an array, np.array(…).")
    is_number = isinstance(leaf, int | float | np.number | np.ndarray | jax.Array)
    kind = "single number" if is_number else f"single value, {leaf!r}"
    raise ValueError(f"{name} is a {kind}; the first axis of every leaf must run over the data.")


def _outermost_list(path: KeyPath) -> Any:
    """The path without the places in nested lists at its end."""
    end = len(path)
    while end and isinstance(path[end - 1], jax.tree_util.SequenceKey):
        end -= 1
    return path[:end]


def _checked_values(name: str, leaf: ArrayLike) -> Any:
    if np.ma.isMaskedArray(leaf) and np.ma.is_masked(leaf):
        where = place(np.ma.getmaskarray(leaf))
        raise ValueError(
            f"{name} has masked values, first in {where}: fill them, leaf.filled(0), and give the mask as "
            "another leaf that log_likelihood uses."
        )
    values = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    if isinstance(values, np.ndarray) and values.dtype.itemsize > _WIDEST.get(values.dtype.kind, math.inf):
        wanted = "complex" if values.dtype.kind == "c" else "float"
        raise TypeError(
            f"{name} has the type {values.dtype}, which JAX does not have: give double-precision numbers, "
            f"by .astype({wanted})."
        )
    if isinstance(values, np.ndarray) and values.dtype.kind not in "biufcV":
        _refuse_type(name, values)
    if not jnp.issubdtype(values.dtype, jnp.number) and values.dtype != bool:
        raise TypeError(f"{name} has the type {values.dtype}: give numbers.")
    check_values(name, values)
    # JAX takes no other order of bytes than that of the machine.
    return (
        values if isinstance(values, jax.Array) else values.astype(values.dtype.newbyteorder("="), copy=False)
    )


def _refuse_type(name: str, values: np.ndarray) -> None:
    """Raise for text, dates and Python objects, with the first value that is no number."""
    # NumPy turns dates and times of nanoseconds into whole numbers.
    readable = values.astype(str) if values.dtype.kind in "mM" else values
    cells = readable.ravel().tolist()
    wrong = np.array([not is_number(cell) for cell in cells], bool).reshape(values.shape)
    if cells and not wrong.any():
        raise TypeError(f"{name} holds numbers as {values.dtype}: convert them by .astype(float).")
    example = f" holds {cells[int(np.argmax(wrong))]!r} in {place(wrong)}," if cells else ""
    if wrong.all():
        both = f"{example} and" if cells else ""
        raise TypeError(
            f"{name}{both} has the type {values.dtype}: give numbers, for categories their codes, as in "
            "np.unique(column, return_inverse=True)[1]."
        )
    raise TypeError(
        f"{name}{example} which is not a number: give numbers only, and remove rows that lack a value."
    )
