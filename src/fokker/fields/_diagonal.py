"""Diagonal fields: zero, a multiple of the identity, and a general diagonal."""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.state import (
    State,
    as_arrays,
    call,
    describe_shapes,
    part,
    replace_part,
    same_shapes,
    zeros_like,
)
from fokker._core.types import PartName
from fokker.fields._field import FROM_ARRAY, Field, functions_among


class DiagonalField(Field):
    """A field whose matrix is always diagonal: `diagonal` gives its entries."""

    @abc.abstractmethod
    def diagonal(self, z: State, row: PartName = None) -> PyTree[Array]:
        """The diagonal in the structure of the row variable."""

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """a(z) ⊙ v."""
        return jax.tree.map(jnp.multiply, self.diagonal(z, row), v)

    def transpose(self) -> Field:
        """The field itself."""
        return self


class Zero(DiagonalField):
    """A(z) = 0: no motion, no noise, no cost.

    It has no arguments.

    ```python
    field = fk.fields.Zero()
    matrix = field.as_matrix({"theta": jnp.ones(2)})
    ```
    """

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """No functions."""
        return ()

    @property
    def is_skew(self) -> bool:
        """Zero is skew as well as symmetric."""
        return True

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """Zeros in the structure of the row variable."""
        return zeros_like(part(z, row))

    def diagonal(self, z: State, row: PartName = None) -> PyTree[Array]:
        """Zeros."""
        return zeros_like(part(z, row))

    def sqrt_mv(self, z: State, w: PyTree[Array], row: PartName = None) -> PyTree[Array]:
        """Zeros; `w` is None."""
        return zeros_like(part(z, row))

    def noise_like(self, z: State, row: PartName = None) -> None:
        """No noise."""
        return


class Scalar(DiagonalField):
    r"""A(z) = a(z)·I for a number or a function `a`; Γ = ∇a, one reverse pass.

    Arguments:

    - `value`: a: a number, or a function of named variables or of the whole state.

    ```python
    field = fk.fields.Scalar(lambda theta: 1 + jnp.sum(theta**2))
    matrix = field.as_matrix({"theta": jnp.ones(2)})
    ```
    """

    value: Array | Callable[..., Array] = eqx.field(converter=lambda a: a if callable(a) else as_arrays(a))

    def __check_init__(self) -> None:
        if not callable(self.value) and jnp.shape(self.value) != ():
            raise ValueError(
                f"Scalar takes one number or a function, not an array of shape {jnp.shape(self.value)}. "
                "For one number per coordinate use Diagonal, for a matrix use Dense."
            )

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The function, if the value is one."""
        return functions_among(self.value)

    def _entry(self, z: State) -> Array:
        if not callable(self.value):
            return self.value
        a = as_arrays(call(self.value, z, "the function of a Scalar field"))
        if jnp.shape(a) != ():
            raise ValueError(
                f"the function of a Scalar field must return one number, not {describe_shapes(a)}. "
                "For one number per coordinate use Elementwise or Diagonal."
            )
        return a

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """a(z) v."""
        a = self._entry(z)
        return jax.tree.map(lambda x: a.astype(x.dtype) * x, v)

    def divergence(
        self, z: State, row: PartName = None, column: PartName = None, probe: State | None = None
    ) -> PyTree[Array]:
        """∇a with respect to the column variable."""
        if not self.varies_with(z, column):
            return zeros_like(part(z, row))
        return jax.grad(lambda value: self._entry(replace_part(z, column, value)))(part(z, column))

    def diagonal(self, z: State, row: PartName = None) -> PyTree[Array]:
        """a(z) for every coordinate."""
        a = self._entry(z)
        return jax.tree.map(lambda x: jnp.broadcast_to(a.astype(x.dtype), x.shape), part(z, row))


FROM_ARRAY[0] = Scalar


def _entries_like(value: PyTree[Array], z: State, row: PartName, kind: str) -> PyTree[Array]:
    entries = call(value, z, f"the function of a {kind} field") if callable(value) else value
    like = part(z, row)
    if isinstance(like, Mapping) and len(like) == 1 and not isinstance(entries, Mapping):
        # For a state with a single variable, the entries may be given without its name.
        entries = dict.fromkeys(like, entries)
    if not same_shapes(as_arrays(entries), like):
        name = "the state" if row is None else f"the variable {row!r}"
        raise ValueError(
            f"{kind} field: its entries have shapes {describe_shapes(entries)}, but {name} has "
            f"{describe_shapes(like)}. Give one number per coordinate, in the structure of the variable."
        )
    return jax.tree.map(lambda a, x: jnp.asarray(a, x.dtype), entries, like)


class Diagonal(DiagonalField):
    r"""A(z) = diag(a(z)) for a tree or a function `a` in the structure of the variable.

    a_i may depend on all of z. Γ_i = ∂a_i/∂z_i takes one Jacobian-vector product per coordinate, or a single
    one with a probe. If a_i depends only on its own coordinate, `Elementwise` computes the exact Γ with a
    single one.

    Arguments:

    - `value`: a: a tree like the variable, or a function that returns one.

    ```python
    field = fk.fields.Diagonal({"theta": jnp.array([1.0, 2.0])})
    matrix = field.as_matrix({"theta": jnp.ones(2)})
    ```
    """

    value: PyTree[Array] | Callable[..., PyTree[Array]] = eqx.field(
        converter=lambda a: a if callable(a) else as_arrays(a)
    )

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The function, if the value is one."""
        return functions_among(self.value)

    def diagonal(self, z: State, row: PartName = None) -> PyTree[Array]:
        """a(z)."""
        return _entries_like(self.value, z, row, "Diagonal")


class Elementwise(DiagonalField):
    r"""A(z) = diag(a(z)) where a_i depends only on the i-th coordinate of the column variable.

    It may depend on other variables in any way. Γ is then one Jacobian-vector product with a vector of ones.
    The user must ensure this; `fokker.check` finds violations.

    Arguments:

    - `value`: a function of one variable that acts on each of its entries.

    ```python
    field = fk.fields.Elementwise(lambda theta: 1 / (1 + theta**2))
    matrix = field.as_matrix({"theta": jnp.ones(2)})
    ```
    """

    value: Callable[..., PyTree[Array]]

    def __check_init__(self) -> None:
        if not callable(self.value):
            raise TypeError(
                f"Elementwise takes a function, not {type(self.value).__name__}; for constants use Diagonal."
            )

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The function."""
        return (self.value,)

    def divergence(
        self, z: State, row: PartName = None, column: PartName = None, probe: State | None = None
    ) -> PyTree[Array]:
        """∂a_i/∂z_i for all i at once."""
        if not self.varies_with(z, column):
            return zeros_like(part(z, row))
        z_column = part(z, column)
        ones = jax.tree.map(jnp.ones_like, z_column)
        return jax.jvp(lambda c: self.diagonal(replace_part(z, column, c), row), (z_column,), (ones,))[1]

    def diagonal(self, z: State, row: PartName = None) -> PyTree[Array]:
        """a(z)."""
        return _entries_like(self.value, z, row, "Elementwise")
