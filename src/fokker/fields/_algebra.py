"""Fields made of others, of numbers and of matrices: sums, multiples and conversion."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.state import State, as_arrays, is_leaf
from fokker.fields._dense import Dense
from fokker.fields._diagonal import Scalar
from fokker.fields._field import Field
from fokker.fields._types import FieldLike


def _add(a: PyTree[Array], b: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(jnp.add, a, b)


class Sum(Field):
    """A(z) = Σ_k A_k(z). As a diffusion, every term must be one, and their noises are independent."""

    terms: tuple[Field, ...]

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions of all terms."""
        return tuple(function for term in self.terms for function in term.functions())

    @property
    def is_skew(self) -> bool:
        """Whether every term is skew."""
        return all(term.is_skew for term in self.terms)

    def mv(
        self, z: State, v: PyTree[Array], row: str | None = None, column: str | None = None
    ) -> PyTree[Array]:
        """Σ_k A_k v."""
        return reduce(_add, [term.mv(z, v, row, column) for term in self.terms])

    def transpose(self) -> Field:
        """The sum of the transposes."""
        return Sum(tuple(term.transpose() for term in self.terms))

    def divergence(
        self, z: State, row: str | None = None, column: str | None = None, probe: State | None = None
    ) -> PyTree[Array]:
        """The sum of the divergences."""
        return reduce(_add, [term.divergence(z, row, column, probe) for term in self.terms])

    def diagonal(self, z: State, row: str | None = None) -> PyTree[Array] | None:
        """The sum of the diagonals if every term is diagonal, else None."""
        diagonals = [term.diagonal(z, row) for term in self.terms]
        return None if any(d is None for d in diagonals) else reduce(_add, diagonals)

    def sqrt_mv(self, z: State, w: PyTree[Array], row: str | None = None) -> PyTree[Array]:
        """Σ_k L_k w_k with independent w_k; for a diagonal sum, its square root times w."""
        if self.diagonal(z, row) is not None:
            return super().sqrt_mv(z, w, row)
        return reduce(_add, [term.sqrt_mv(z, x, row) for term, x in zip(self.terms, w, strict=True)])

    def noise_like(self, z: State, row: str | None = None) -> PyTree[Any]:
        """The noises of the terms, in order."""
        if jax.eval_shape(lambda: self.diagonal(z, row)) is not None:
            return super().noise_like(z, row)
        return tuple(term.noise_like(z, row) for term in self.terms)


class Scaled(Field):
    """A(z) = c·A₁(z) with a constant c; as a diffusion it needs c ≥ 0."""

    scale: Array = eqx.field(converter=as_arrays)
    field: Field

    def __check_init__(self) -> None:
        if jnp.shape(self.scale) != ():
            raise ValueError(
                f"a field is multiplied by one number, not by an array of shape {jnp.shape(self.scale)}."
            )

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions of the scaled field."""
        return self.field.functions()

    @property
    def is_skew(self) -> bool:
        """Whether the field is skew."""
        return self.field.is_skew

    def _times(self, tree: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda x: self.scale.astype(x.dtype) * x, tree)

    def mv(
        self, z: State, v: PyTree[Array], row: str | None = None, column: str | None = None
    ) -> PyTree[Array]:
        """c A₁ v."""
        return self._times(self.field.mv(z, v, row, column))

    def transpose(self) -> Field:
        """c times the transpose."""
        return Scaled(self.scale, self.field.transpose())

    def divergence(
        self, z: State, row: str | None = None, column: str | None = None, probe: State | None = None
    ) -> PyTree[Array]:
        """c times the divergence."""
        return self._times(self.field.divergence(z, row, column, probe))

    def diagonal(self, z: State, row: str | None = None) -> PyTree[Array] | None:
        """c times the diagonal, or None."""
        entries = self.field.diagonal(z, row)
        return None if entries is None else self._times(entries)

    def sqrt_mv(self, z: State, w: PyTree[Array], row: str | None = None) -> PyTree[Array]:
        """√c L w: NaN for negative c."""
        root = jnp.sqrt(self.scale)
        return jax.tree.map(lambda x: root.astype(x.dtype) * x, self.field.sqrt_mv(z, w, row))

    def noise_like(self, z: State, row: str | None = None) -> PyTree[Any]:
        """The noise shapes of the field."""
        return self.field.noise_like(z, row)


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
