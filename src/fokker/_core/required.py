"""What numbers have to meet, looked at once the program that computes them has run."""

import functools
from collections.abc import Callable
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
    leaves, structure = jax.tree.flatten((function, arguments))
    if any(isinstance(x, jax.core.Tracer) for x in leaves):
        function(*arguments)
        return
    is_array = [isinstance(x, jax.Array | np.ndarray | np.generic) for x in leaves]
    arrays = [x if traced else None for x, traced in zip(leaves, is_array, strict=True)]
    # With their types, as 1 and 1.0 are equal.
    others = tuple((type(x), None if traced else x) for x, traced in zip(leaves, is_array, strict=True))
    for required in _program()(arrays, others, structure):
        if not bool(required.holds):
            raise required.error(*required.numbers)


@functools.cache
def _program() -> Callable[..., list[_Requirement]]:
    return jax.jit(_requirements, static_argnums=(1, 2), compiler_options=quick_options())


def _requirements(arrays: list[Any], others: tuple[Any, ...], structure: Any) -> list[_Requirement]:
    leaves = [other if x is None else x for x, (_, other) in zip(arrays, others, strict=True)]
    function, arguments = jax.tree.unflatten(structure, leaves)
    gathered: list[_Requirement] = []
    token = _GATHERED.set(gathered)
    try:
        function(*arguments)
    finally:
        _GATHERED.reset(token)
    return gathered
