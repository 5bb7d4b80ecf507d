"""Single and double precision: which is on, and running something in double."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

DOUBLE = "double"
_P = ParamSpec("_P")
_T = TypeVar("_T")


def is_double() -> bool:
    """Whether JAX computes in double precision, in this thread."""
    return jnp.result_type(float) == np.float64


def computing_in(precision: str | None) -> contextlib.AbstractContextManager[Any]:
    """A context in which JAX computes in double precision; with None, as it does."""
    if precision not in (None, DOUBLE):
        raise ValueError(f"precision is {DOUBLE!r}, or None for that of JAX; {precision!r} was given.")
    return contextlib.nullcontext() if precision is None else jax.enable_x64(True)


def in_this_precision(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The function in the precision of this thread, for another one: JAX's setting is of a thread."""
    double = is_double()

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with jax.enable_x64(double):
            return function(*args, **kwargs)

    return called


def as_double(tree: PyTree[Any]) -> PyTree[Any]:
    """The tree with its arrays of single precision in double; other leaves as they are."""

    def widened(leaf: PyTree[Array]) -> Any:
        is_single = isinstance(leaf, np.ndarray | jax.Array) and leaf.dtype == np.float32
        return leaf.astype(np.float64) if is_single else leaf

    return jax.tree.map(widened, tree)
