"""Functions of a user: as JAX knows them, and errors for those that it cannot trace or that are not real."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

# Raised where a function asks for the value of a number that is not known before the program runs.
TRACING_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def untraceable(what: str, error: Exception) -> TypeError:
    """The error for a function that was written for plain numbers."""
    return TypeError(
        f"{what} could not be traced: write it with jax.numpy instead of numpy, jnp.where instead of if, and "
        f"without float(…). JAX says: {str(error).splitlines()[0]}"
    )


def not_real(what: str, returned: str) -> ValueError:
    """The error for a function of complex numbers."""
    return ValueError(
        f"{what} must return real numbers, not {returned}: take jnp.real(…), or look for the root or "
        "logarithm of a negative number."
    )


def check_real(what: str, shapes: PyTree[Any]) -> None:
    """Raise where complex numbers are returned."""
    for leaf in jax.tree.leaves(shapes):
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            raise not_real(what, f"numbers of type {leaf.dtype}")


def hashable(function: Any) -> Callable[..., Any]:
    """A function by which JAX knows its programs."""
    try:
        hash(function)
    except TypeError:
        # As of a dataclass that is not frozen: its method is known by the object itself. Of what is a tree of
        # arrays JAX knows the parts.
        return function.__call__ if jax.tree_util.all_leaves([function]) else function
    return function
