"""The interface of a matrix field A(z), with default methods that use only its product with a vector.

And what can be made of any fields, of numbers and of matrices: sums, multiples and conversion.
"""

import abc
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.module import Module
from fokker._core.state import (
    State,
    as_arrays,
    depends_on,
    dimension,
    is_leaf,
    part,
    ravel,
    replace_part,
    unravel,
    zeros_like,
)
from fokker._core.types import Number, PartName


class Field(Module):
    r"""A matrix A(z) that may depend on the state z, defined by its product with a vector.

    A field maps the column variable to the row variable. `row` and `column` name them if the field is a block
    over a named state; None, the default, means the whole state. In an Itô equation dz = f dt + √(2D) dW with
    stationary density exp(-H), a field is used through these methods:

    | method | result | used for |
    | --- | --- | --- |
    | `mv(z, v)` | A(z) v | -(D + Q)∇H |
    | `divergence(z)` | Γ_i = Σ_j ∂A_ij/∂z_j | the correction Γ |
    | `sqrt_mv(z, w)` | L(z) w with L Lᵀ = A | the noise |
    | `solve(z, v)`, `log_determinant(z)` | A(z)⁻¹ v, log det A(z) | the density of a step, for Metropolis |
    | `transpose()` | Aᵀ | the other triangle of Q |

    Only `mv`, `transpose` and `functions` must be defined. No method needs a d×d array for a diagonal field,
    or a rank-3 tensor for a dense one.
    """

    @abc.abstractmethod
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions of the state that A is computed from; none for a constant field."""

    @property
    def is_constant(self) -> bool:
        """Whether A does not depend on z, known before tracing: Γ is 0 and costs nothing."""
        return not self.functions()

    @abc.abstractmethod
    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """A(z) v, in the structure of the row variable; `v` is in that of the column variable."""

    @abc.abstractmethod
    def transpose(self) -> "Field":
        """Aᵀ, with row and column variables exchanged."""

    @property
    def is_skew(self) -> bool:
        """Whether A is skew by construction."""
        return False

    def divergence(
        self, z: State, row: PartName = None, column: PartName = None, probe: State | None = None
    ) -> PyTree[Array]:
        r"""Γ_i = Σ_j ∂A_ij/∂z_j over the column variable, in the structure of the row variable.

        By default exact: Σ_k ∂/∂z_k [A(z) e_k], one Jacobian-vector product per column, with one column in
        memory at a time. With `probe`, a state v of independent entries of mean 0 and variance 1: the
        unbiased estimate d/dt A(z + tv) v at t = 0, a single Jacobian-vector product. Fields with a cheap
        exact divergence ignore the probe.
        """
        if not self.varies_with(z, column):
            return zeros_like(part(z, row))
        z_column = part(z, column)

        def product(value: PyTree[Array], v: PyTree[Array]) -> PyTree[Array]:
            return self.mv(replace_part(z, column, value), v, row, column)

        if probe is not None:
            v = part(probe, column)
            return jax.jvp(lambda value: product(value, v), (z_column,), (v,))[1]
        flat = ravel(z_column)

        def add_column(total: PyTree[Array], k: Array) -> tuple[PyTree[Array], None]:
            e_k = unravel(jnp.zeros_like(flat).at[k].set(1), z_column)
            term = jax.jvp(lambda value: product(value, e_k), (z_column,), (e_k,))[1]
            return jax.tree.map(lambda t, x: t + x.astype(t.dtype), total, term), None

        return jax.lax.scan(add_column, zeros_like(part(z, row)), jnp.arange(flat.size))[0]

    def varies_with(self, z: State, name: str | None) -> bool:
        """Whether A may depend on the variable `name`; False only if the signatures exclude it."""
        return any(depends_on(function, name, z) for function in self.functions())

    def diagonal(self, z: State, row: PartName = None) -> PyTree[Array] | None:
        """The diagonal of A in the structure of the row variable if A is always diagonal, else None."""
        return None

    def sqrt_mv(self, z: State, w: PyTree[Array], row: PartName = None) -> PyTree[Array]:
        """L(z) w with L Lᵀ = A(z); `w` has the structure of `noise_like`. A may be singular.

        An eigenvalue below zero by more than rounding error gives NaN: a matrix without a square root must
        not be replaced by another silently.
        """
        entries = self.diagonal(z, row)
        if entries is not None:
            return jax.tree.map(lambda a, x: jnp.sqrt(a) * x, entries, w)
        root = symmetric_root(self.as_matrix(z, row, row))
        return unravel(root @ ravel(w), part(z, row))

    def solve(self, z: State, v: PyTree[Array], row: PartName = None) -> PyTree[Array]:
        """A(z)⁻¹ v for a symmetric positive definite A(z); not finite if A(z) is singular."""
        entries = self.diagonal(z, row)
        if entries is not None:
            return jax.tree.map(jnp.divide, v, entries)
        factor = jnp.linalg.cholesky(self.as_matrix(z, row, row))
        return unravel(jax.scipy.linalg.cho_solve((factor, True), ravel(v)), part(z, row))

    def log_determinant(self, z: State, row: PartName = None) -> Array:
        """log det A(z) for a symmetric positive definite A(z); not finite if A(z) is singular."""
        entries = self.diagonal(z, row)
        if entries is not None:
            return jnp.sum(jnp.log(ravel(entries)))
        return 2 * jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(self.as_matrix(z, row, row)))))

    def noise_like(self, z: State, row: PartName = None) -> PyTree[Any]:
        """Shapes of the independent unit noise that `sqrt_mv` takes; None if there is no noise."""
        return jax.eval_shape(lambda: part(z, row))

    def as_matrix(self, z: State, row: PartName = None, column: PartName = None) -> Array:
        """A(z) as a matrix, rows and columns in the order of `fokker._core.state.variable_names`."""
        z_column = part(z, column)
        basis = jnp.eye(dimension(z_column), dtype=ravel(z_column).dtype)
        columns = jax.vmap(lambda e: ravel(self.mv(z, unravel(e, z_column), row, column)))(basis)
        return columns.T

    def __add__(self, other: object) -> "Field":
        return Sum((self, as_field(other)))

    def __neg__(self) -> "Field":
        return self * -1.0

    def __mul__(self, scale: Number) -> "Field":
        return Scaled(scale, self)  # type: ignore[arg-type]  # which it converts

    __rmul__ = __mul__

    @property
    def T(self) -> "Field":
        """The transpose."""
        return self.transpose()


# What users give for a field: one; a number, a diagonal, a matrix or a dictionary of blocks; or a function of
# the state.
FieldLike: TypeAlias = Field | PyTree[Array] | Callable[..., PyTree[Array]]
# The fields that a number and a matrix are, by their dimensions: their modules import this one, and say so.
FROM_ARRAY: dict[int, Callable[[Any], Field]] = {}


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

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """Σ_k A_k v."""
        return reduce(_add, [term.mv(z, v, row, column) for term in self.terms])

    def transpose(self) -> Field:
        """The sum of the transposes."""
        return Sum(tuple(term.transpose() for term in self.terms))

    def divergence(
        self, z: State, row: PartName = None, column: PartName = None, probe: State | None = None
    ) -> PyTree[Array]:
        """The sum of the divergences."""
        return reduce(_add, [term.divergence(z, row, column, probe) for term in self.terms])

    def diagonal(self, z: State, row: PartName = None) -> PyTree[Array] | None:
        """The sum of the diagonals if every term is diagonal, else None."""
        diagonals = [term.diagonal(z, row) for term in self.terms]
        return None if any(d is None for d in diagonals) else reduce(_add, diagonals)

    def sqrt_mv(self, z: State, w: PyTree[Array], row: PartName = None) -> PyTree[Array]:
        """Σ_k L_k w_k with independent w_k; for a diagonal sum, its square root times w."""
        if self.diagonal(z, row) is not None:
            return super().sqrt_mv(z, w, row)
        return reduce(_add, [term.sqrt_mv(z, x, row) for term, x in zip(self.terms, w, strict=True)])

    def noise_like(self, z: State, row: PartName = None) -> PyTree[Any]:
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

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """c A₁ v."""
        return self._times(self.field.mv(z, v, row, column))

    def transpose(self) -> Field:
        """c times the transpose."""
        return Scaled(self.scale, self.field.transpose())

    def divergence(
        self, z: State, row: PartName = None, column: PartName = None, probe: State | None = None
    ) -> PyTree[Array]:
        """c times the divergence."""
        return self._times(self.field.divergence(z, row, column, probe))

    def diagonal(self, z: State, row: PartName = None) -> PyTree[Array] | None:
        """c times the diagonal, or None."""
        entries = self.field.diagonal(z, row)
        return None if entries is None else self._times(entries)

    def sqrt_mv(self, z: State, w: PyTree[Array], row: PartName = None) -> PyTree[Array]:
        """√c L w: NaN for negative c."""
        root = jnp.sqrt(self.scale)
        return jax.tree.map(lambda x: root.astype(x.dtype) * x, self.field.sqrt_mv(z, w, row))

    def noise_like(self, z: State, row: PartName = None) -> PyTree[Any]:
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
    if is_leaf(value) and not isinstance(value, str) and jnp.ndim(value) in FROM_ARRAY:
        return FROM_ARRAY[jnp.ndim(value)](value)
    raise TypeError(
        f"{type(value).__name__} is not a matrix field: give a number, a matrix, or one of fk.fields. "
        "For a constant diagonal use fk.fields.Diagonal."
    )


def symmetric_root(matrix: Array) -> Array:
    """The symmetric L with L L = `matrix`; NaN if an eigenvalue is negative beyond rounding error.

    Arguments:

    - `matrix`: symmetric and positive semidefinite.

    Returns S = Sᵀ with SS = matrix.

    ```python
    root = fk.fields.symmetric_root(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
    ```
    """
    values, vectors = jnp.linalg.eigh(matrix)
    tolerance = matrix.shape[0] * jnp.finfo(matrix.dtype).eps * jnp.max(jnp.abs(values))
    root = jnp.sqrt(jnp.where(values < -tolerance, jnp.nan, jnp.maximum(values, 0)))
    return (vectors * root[None, :]) @ vectors.T


def functions_among(*values: object) -> tuple[Callable[..., Any], ...]:
    """The functions among `values`."""
    return tuple(value for value in values if callable(value))
