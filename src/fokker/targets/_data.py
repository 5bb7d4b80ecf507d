"""Checks of the data of a posterior, each with one sentence that says where they are wrong and what to do."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


def checked_data(data: PyTree[Any]) -> PyTree[Any]:
    """The data as arrays; raise unless they are finite numbers, with the same number of rows in every leaf."""
    leaves = jax.tree.leaves_with_path(data)
    if not leaves:
        raise ValueError("the data are empty: give at least one array.")
    arrays, lengths = [], {}
    for path, leaf in leaves:
        name = f"data{jax.tree_util.keystr(path)}"
        _check_axis(name, leaf, path)
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


def _check_axis(name: str, leaf: Any, path: Any) -> None:
    if np.ndim(leaf):
        return
    # A list is a tree, whose leaves are its numbers.
    if path and isinstance(path[-1], jax.tree_util.SequenceKey):
        parent = f"data{jax.tree_util.keystr(_outermost_list(path))}"
        raise ValueError(f"{parent} is a list or tuple of single values: give an array, np.array(…).")
    kind = "single number" if isinstance(leaf, int | float | np.number) else f"single value, {leaf!r}"
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
    """Raise for text, dates and Python objects."""
    if values.dtype.kind == "O":
        wrong = np.array([not isinstance(x, int | float | np.number) for x in values.ravel()], bool)
        if not wrong.any():
            raise TypeError(f"{name} is an array of Python objects: convert it by .astype(float).")
        place = int(np.argmax(wrong))
        raise TypeError(
            f"{name} holds {values.ravel()[place]!r} in {_place(wrong.reshape(values.shape))}, which is not a "
            "number: give numbers only, and remove rows that lack a value."
        )
    what = "text" if values.dtype.kind in "US" else f"of type {values.dtype}"
    example = f", as {str(values.flat[0])!r} in row 0" if values.size else ""
    raise TypeError(
        f"{name} is {what}{example}: give numbers, for categories their codes, as in "
        "np.unique(column, return_inverse=True)[1]."
    )


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
        place = tuple(np.argwhere(~finite)[0])
        raise ValueError(
            f"{name} has a value that is not finite, {np.asarray(values)[place]}, first in {_place(~finite)}: "
            "remove or replace it; for a missing value replace it by a number, and give a mask as another "
            "leaf that log_likelihood uses."
        )


def _place(wrong: np.ndarray) -> str:
    """The first place that is true, as a row and, in a table, a column."""
    row, *rest = (int(i) for i in np.argwhere(wrong)[0])
    column = "" if not rest else f", column {rest[0] if len(rest) == 1 else tuple(rest)}"
    return f"row {row}{column}"
