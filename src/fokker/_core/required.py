"""What numbers have to meet, looked at once the program that computes them has run."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.quick import quick_options


class _Requirement(eqx.Module):
    holds: Array
    numbers: tuple[Any, ...]
    error: Callable[..., Exception] = eqx.field(static=True)


_GATHERED: ContextVar[list[_Requirement] | None] = ContextVar("_GATHERED", default=None)


# Whether starts were checked before, and only their states are wanted.
_CHECKED: ContextVar[bool] = ContextVar("_CHECKED", default=False)


@contextlib.contextmanager
def checked_before() -> Iterator[None]:
    """What is traced within was checked: it is not traced what nothing would be required of."""
    token = _CHECKED.set(True)
    try:
        yield
    finally:
        _CHECKED.reset(token)


def is_checked() -> bool:
    """Whether it was, as `checked_before` says."""
    return _CHECKED.get()


def is_trusted(value: Any) -> bool:
    """Whether nothing is required of a value: it is traced, and not by `check_compiled`."""
    return isinstance(value, jax.core.Tracer) and _GATHERED.get() is None


def require(holds: Any, error: Callable[..., Exception], *numbers: Any) -> None:
    """Raise `error(*numbers)` unless it holds; what is trusted holds."""
    if is_trusted(holds):
        return
    gathered = _GATHERED.get()
    if gathered is not None and isinstance(holds, jax.core.Tracer):
        gathered.append(_Requirement(holds, jax.tree.map(jnp.asarray, numbers), error))
    elif not bool(holds):
        raise error(*numbers)


def check_compiled(function: Callable[..., Any], *arguments: Any) -> None:
    """Raise what `function(*arguments)` requires in vain; its result is not computed.

    One program for all of it: operation by operation each would be compiled, in a first run hundreds.
    """
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((function, arguments))):
        function(*arguments)
        return
    for required in run_quickly(_requirements, function, *arguments):
        if not bool(required.holds):
            raise required.error(*required.numbers)


def run_quickly(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)` by a program that is compiled with little optimisation, for a few calls."""
    leaves, structure = jax.tree.flatten((function, arguments))
    is_array = [isinstance(x, jax.Array | np.ndarray | np.generic) for x in leaves]
    arrays = [x if traced else None for x, traced in zip(leaves, is_array, strict=True)]
    # With their types, as 1 and 1.0 are equal.
    others = tuple((type(x), None if traced else x) for x, traced in zip(leaves, is_array, strict=True))
    return _program()(arrays, others, structure)


@functools.cache
def _program() -> Callable[..., Any]:
    return jax.jit(_called, static_argnums=(1, 2), compiler_options=quick_options())


def _called(arrays: list[Any], others: tuple[Any, ...], structure: Any) -> Any:
    leaves = [other if x is None else x for x, (_, other) in zip(arrays, others, strict=True)]
    function, arguments = jax.tree.unflatten(structure, leaves)
    return function(*arguments)


def _requirements(function: Callable[..., Any], *arguments: Any) -> list[_Requirement]:
    gathered: list[_Requirement] = []
    token = _GATHERED.set(gathered)
    try:
        function(*arguments)
    finally:
        _GATHERED.reset(token)
    return gathered
