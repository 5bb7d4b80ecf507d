"""Checks of single settings, each with one sentence."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def check_whole(name: str, value: object, least: int = 1) -> None:
    """Raise unless a setting is a whole number of at least that much."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; {value!r} was given.")


def hashable(function: Any) -> Callable[..., Any]:
    """A function by which JAX knows its programs."""
    try:
        hash(function)
    except TypeError:
        # As of a dataclass that is not frozen: its method is known by the object itself. Of what is a tree of
        # arrays JAX knows the parts.
        return function.__call__ if jax.tree_util.all_leaves([function]) else function
    return function
