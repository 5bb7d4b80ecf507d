"""Whether values are finite, and fit into the numbers that JAX stores them as."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike
from numpy.typing import DTypeLike

# Numbers that are checked together, so that a check takes no memory to speak of.
_NUMBERS = 2**22
_DOUBLE = "compute in double precision (docs/data.md)"


def stored_dtype(dtype: DTypeLike) -> np.dtype:
    """The type that JAX stores values of this type as: in 32 bits unless 64 are enabled."""
    dtype = np.dtype(dtype)
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype.newbyteorder("=")))


def check_values(name: str, values: ArrayLike, numbers: np.ndarray | None = None) -> None:
    """Raise for values that are not finite, or that JAX would store with fewer bits than they need.

    `numbers` are the numbers of the rows, if they are not 0, 1, 2, ….
    """
    values = np.asarray(values)
    stored = stored_dtype(values.dtype)
    per_row = int(np.prod(values.shape[1:], dtype=np.int64))
    rows = max(1, _NUMBERS // max(1, per_row))
    for first in range(0, len(values), rows):
        part = values[first : first + rows]
        if not _are_usable(part):
            here = np.arange(first, first + len(part)) if numbers is None else numbers[first : first + rows]
            _refuse(name, part, here)
        check_underflow(name, part, stored, None if numbers is None else numbers[first : first + rows], first)


def check_underflow(
    name: str, values: np.ndarray, stored: np.dtype, numbers: np.ndarray | None = None, first: int = 0
) -> None:
    """Raise where the stored type has no number like one that is not 0: JAX computes with 0 in its place.

    `numbers` are the numbers of the rows, if they are not `first`, `first` + 1, ….
    """
    if not jnp.issubdtype(values.dtype, jnp.inexact) or not jnp.issubdtype(stored, jnp.inexact):
        return
    least = float(jnp.finfo(stored).tiny)
    parts = (values.real, values.imag) if values.dtype.kind == "c" else (values,)
    for part in parts:
        size = np.abs(part)
        lost = (size < least) & (size > 0)
        if lost.any():
            here = np.arange(first, first + len(values)) if numbers is None else numbers
            raise ValueError(
                f"{name} has a value, {part[tuple(np.argwhere(lost)[0])]}, that is 0 in {stored}, whose "
                f"numbers begin at {least:.2g}, first in {place(lost, here)}: multiply the data by a "
                f"constant, give 0 where 0 is meant, or {_DOUBLE}."
            )


def _are_usable(values: np.ndarray) -> bool:
    stored = stored_dtype(values.dtype)
    if not values.size or values.dtype.kind == "b":
        return True
    if jnp.issubdtype(values.dtype, jnp.integer):
        if stored == values.dtype:
            return True
        limits = jnp.iinfo(stored)
        return not bool((values < limits.min).any() or (values > limits.max).any())
    if not jnp.issubdtype(values.dtype, jnp.inexact):
        return True
    with np.errstate(all="ignore"):
        # If a sum is finite then every term is; it is several times faster than looking at each.
        if np.isfinite(values.astype(stored, copy=False).sum()):
            return True
        return bool(np.isfinite(values.astype(stored, copy=False)).all())


def _refuse(name: str, values: np.ndarray, numbers: np.ndarray) -> None:
    stored = stored_dtype(values.dtype)
    if jnp.issubdtype(values.dtype, jnp.integer):
        limits = jnp.iinfo(stored)
        beyond = (values < limits.min) | (values > limits.max)
        raise ValueError(
            f"{name} has a whole number that does not fit into 32 bits, first in {place(beyond, numbers)}: "
            "subtract a constant, or enable 64 bits by jax.config.update('jax_enable_x64', True)."
        )
    with np.errstate(over="ignore"):
        finite = np.isfinite(values.astype(stored))
    value = values[tuple(np.argwhere(~finite)[0])]
    which = f"not finite in {stored}, {value}," if np.isfinite(value) else f"not finite, {value},"
    raise ValueError(
        f"{name} has a value that is {which} first in {place(~finite, numbers)}: remove or replace it; for a "
        "missing value give a number and, as another leaf, a mask that log_likelihood uses."
    )


def place(wrong: np.ndarray, numbers: np.ndarray | None = None) -> str:
    """The first place that is true, as a row and, in a table, a column."""
    row, *rest = (int(i) for i in np.argwhere(wrong)[0])
    column = "" if not rest else f", column {rest[0] if len(rest) == 1 else tuple(rest)}"
    return f"row {row if numbers is None else int(numbers[row])}{column}"
