"""Conversion to a field, from a field, a number, or a constant matrix."""

from typing import Any

import jax.numpy as jnp

from fokker._core.state import is_leaf
from fokker.fields._dense import Dense
from fokker.fields._diagonal import Scalar
from fokker.fields._field import Field


def as_field(value: Any) -> Field:
    """`value` as a field: a number is a multiple of the identity, a matrix is dense and constant."""
    if isinstance(value, Field):
        return value
    if isinstance(value, list):
        value = jnp.asarray(value)
    if callable(value):
        raise TypeError(
            "a function does not show what kind of matrix it is. Wrap it: fk.fields.Scalar(f) for a(z)·I, "
            "Elementwise(f) for a diagonal whose entries depend on their own coordinate, Diagonal(f) for any "
            "diagonal, Dense(f) for a matrix, Gram(f) for f fᵀ, Skew(f) for a lower triangle."
        )
    if is_leaf(value) and not isinstance(value, str):
        if jnp.ndim(value) == 0:
            return Scalar(value)
        if jnp.ndim(value) == 2:
            return Dense(value)
    raise TypeError(
        f"{type(value).__name__} is not a matrix field: give a number, a matrix, or one of fk.fields. "
        "For a constant diagonal use fk.fields.Diagonal."
    )
