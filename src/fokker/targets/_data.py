"""Checks of the data of a posterior, each with one sentence that says where they are wrong and what to do."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


def checked_data(data: PyTree[Any]) -> PyTree[Any]:
    """The data as arrays; raise unless they are finite numbers, and every leaf has as many rows."""
    leaves = jax.tree.leaves_with_path(data)
    if not leaves:
        raise ValueError("the data are empty: give at least one array.")
    arrays, lengths = [], {}
    for path, leaf in leaves:
        name = f"data{jax.tree_util.keystr(path)}"
        if np.ndim(leaf) == 0:
            _refuse_single(name, leaf, path, leaves)
        # Inside jax.jit or jax.vmap it has no values.
        arrays.append(leaf if isinstance(leaf, jax.core.Tracer) else _checked_values(name, leaf))
        lengths[name] = np.shape(leaf)[0]
    if len(set(lengths.values())) > 1:
        described = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(
            f"the leaves of the data differ in length: {described}. Each needs one row per datum."
        )
    if not next(iter(lengths.values())):
        raise ValueError("the data are empty: their first axis has length 0.")
    return jax.tree.unflatten(jax.tree.structure(data), arrays)


def _refuse_single(name: str, leaf: Any, path: Any, leaves: list[tuple[Any, Any]]) -> None:
    # A list is a tree, whose leaves are its numbers.
    parent = _outermost_list(path)
    beside = [x for other, x in leaves if other[: len(parent)] == parent]
    if len(parent) < len(path) and not any(np.ndim(x) for x in beside):
        where = f"data{jax.tree_util.keystr(parent)}"
        raise ValueError(f"{where} is a list or tuple of single values: give an array, np.array(…).")
    is_number = isinstance(leaf, int | float | np.number | np.ndarray | jax.Array)
    kind = "single number" if is_number else f"single value, {leaf!r}"
    raise ValueError(f"{name} is a {kind}; the first axis of every leaf must run over the data.")


def _outermost_list(path: Any) -> Any:
    """The path without the places in nested lists at its end."""
    end = len(path)
    while end and isinstance(path[end - 1], jax.tree_util.SequenceKey):
        end -= 1
    return path[:end]


def _checked_values(name: str, leaf: Any) -> Any:
    if np.ma.isMaskedArray(leaf) and np.ma.is_masked(leaf):
        where = _place(np.ma.getmaskarray(leaf))
        raise ValueError(
            f"{name} has masked values, first in {where}: fill them, leaf.filled(0), and give the mask as "
            "another leaf that log_likelihood uses."
        )
    values = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "biufcV":
        _refuse_type(name, values)
    if not jnp.issubdtype(values.dtype, jnp.number) and values.dtype != bool:
        raise TypeError(f"{name} has the type {values.dtype}: give numbers.")
    _check_range(name, values)
    return values


def _refuse_type(name: str, values: np.ndarray) -> None:
    """Raise for text, dates and Python objects, with the first value that is no number."""
    cells = values.ravel().tolist()
    wrong = np.array([not _is_number(cell) for cell in cells], bool).reshape(values.shape)
    if cells and not wrong.any():
        raise TypeError(f"{name} holds numbers as {values.dtype}: convert them by .astype(float).")
    example = f" holds {cells[int(np.argmax(wrong))]!r} in {_place(wrong)}," if cells else ""
    if wrong.all():
        raise TypeError(
            f"{name}{example} has the type {values.dtype}: give numbers, for categories their codes, as in "
            "np.unique(column, return_inverse=True)[1]."
        )
    raise TypeError(
        f"{name}{example} which is not a number: give numbers only, and remove rows that lack a value."
    )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _check_range(name: str, values: Any) -> None:
    """Raise for values that are not finite, or that JAX would store with fewer bits than they need."""
    stored = jax.dtypes.canonicalize_dtype(values.dtype)
    if jnp.issubdtype(values.dtype, jnp.integer):
        if stored != values.dtype and values.size:
            limits = jnp.iinfo(stored)
            beyond = (values < limits.min) | (values > limits.max)
            if beyond.any():
                raise ValueError(
                    f"{name} has a whole number that does not fit into 32 bits, first in {_place(beyond)}: "
                    "subtract a constant, or enable 64 bits by jax.config.update('jax_enable_x64', True)."
                )
        return
    if not jnp.issubdtype(values.dtype, jnp.inexact):
        return
    with np.errstate(over="ignore"):
        kept = np.asarray(values).astype(stored)
    finite = np.isfinite(kept)
    if not finite.all():
        value = np.asarray(values)[tuple(np.argwhere(~finite)[0])]
        which = f"not finite in {stored}, {value}," if np.isfinite(value) else f"not finite, {value},"
        raise ValueError(
            f"{name} has a value that is {which} first in {_place(~finite)}: remove or replace it; for a "
            "missing value give a number and, as another leaf, a mask that log_likelihood uses."
        )


def _place(wrong: np.ndarray) -> str:
    """The first place that is true, as a row and, in a table, a column."""
    row, *rest = (int(i) for i in np.argwhere(wrong)[0])
    column = "" if not rest else f", column {rest[0] if len(rest) == 1 else tuple(rest)}"
    return f"row {row}{column}"
