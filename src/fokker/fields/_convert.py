"""Conversion to a field, from a field, a number, or a constant matrix."""

import jax.numpy as jnp

from fokker._core.state import is_leaf
from fokker.fields._dense import Dense
from fokker.fields._diagonal import Scalar
from fokker.fields._field import Field
from fokker.fields._types import FieldLike


def as_field(value: FieldLike) -> Field:
    """`value` as a field: a number is a multiple of the identity, a matrix is dense and constant.

    Arguments:

    - `value`: a field, a number, or a constant matrix.

    Returns a field.

    ```python
    field = fk.fields.as_field(2.0)
    matrix = field.as_matrix({"theta": jnp.ones(2)})
    ```
    """
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
