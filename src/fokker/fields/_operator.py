"""A single column, and linear maps that are known by their product with a vector."""

from collections.abc import Callable
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
    dimension,
    inner,
    part,
    ravel,
    replace_part,
    same_shapes,
    same_structure,
    unravel,
)
from fokker._core.types import PartName
from fokker.fields._dense import constant_or_function
from fokker.fields._field import Field, functions_among


class Column(Field):
    r"""A(z) = a(z), a single column: from a scalar variable to any variable. Its transpose is a single row.

    The block [r/d] of a thermostat, `Column(lambda r: r / d, elementwise=True)`, maps the scalar ξ to the
    momentum; its transpose maps the momentum to ξ, with Γ = Σ_j ∂a_j/∂r_j. `elementwise` asserts that a_j
    depends only on its own coordinate: Γ is then a single Jacobian-vector product, not one per coordinate.

    Arguments:

    - `value`: the entries: a tree like the row variable, or a function that returns one.
    - `elementwise`: whether it is a function that acts on each entry.
    - `transposed`: whether it is a row; set by `.T`.

    ```python
    field = fk.fields.Column(lambda r: r)
    blocks = fk.fields.skew({("r", "xi"): field})
    ```
    """

    value: PyTree[Array] | Callable[..., PyTree[Array]] = eqx.field(converter=constant_or_function)
    elementwise: bool = eqx.field(static=True, default=False)
    transposed: bool = eqx.field(static=True, default=False)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The function, if the value is one."""
        return functions_among(self.value)

    def _column(self, z: State, like: PyTree[Array]) -> PyTree[Array]:
        entries = (
            call(self.value, z, "the function of a Column field") if callable(self.value) else self.value
        )
        if not same_shapes(as_arrays(entries), like):
            raise ValueError(
                f"Column field: its entries have shapes {describe_shapes(entries)}, but their variable "
                f"has {describe_shapes(like)}."
            )
        return jax.tree.map(lambda a, x: jnp.asarray(a, x.dtype), entries, like)

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """a v for a scalar v; aᵀv as a row."""
        scalar = part(z, row) if self.transposed else v
        if dimension(scalar) != 1:
            raise ValueError(
                "a Column field is a block between a variable and a scalar variable (one number), "
                f"but the scalar has shapes {describe_shapes(scalar)}."
            )
        if self.transposed:
            return unravel(jnp.reshape(inner(self._column(z, v), v), (1,)), scalar)
        number = ravel(v)[0]
        return jax.tree.map(lambda a: a * number, self._column(z, part(z, row)))

    def transpose(self) -> Field:
        """The row of a column, or the column of a row."""
        return Column(self.value, self.elementwise, not self.transposed)

    def divergence(
        self, z: State, row: PartName = None, column: PartName = None, probe: State | None = None
    ) -> PyTree[Array]:
        """Σ_j ∂a_j/∂z_j for a row; ∂a/∂ξ for a column."""
        if not (self.transposed and self.elementwise) or not self.varies_with(z, column):
            # A column's exact divergence is a single product, so that it needs no probe.
            return super().divergence(z, row, column, probe if self.transposed else None)
        z_column = part(z, column)
        ones = jax.tree.map(jnp.ones_like, z_column)
        derivatives = jax.jvp(
            lambda c: self._column(replace_part(z, column, c), z_column), (z_column,), (ones,)
        )[1]
        return unravel(jnp.reshape(inner(derivatives, ones), (1,)), part(z, row))


def _with_dtypes_of(value: PyTree[Array], like: PyTree[Array]) -> PyTree[Array]:
    """`value` in the dtypes of `like` if both have the same structure; the caller checks the structure."""
    if not same_structure(value, like):
        return value
    return jax.tree.map(lambda a, x: jnp.asarray(a, x.dtype), value, like)


class Operator(Field):
    r"""A(z) defined by `product(z, v)` = A(z) v, which must be linear in v; the transpose is derived from it.

    For blocks with a special structure, such as v ↦ v r for a matrix variable v. `gamma(z)` is the
    divergence, if known; otherwise it takes one Jacobian-vector product per column, or a single one with a
    probe.

    Arguments:

    - `product`: a function (z, v) ↦ A(z)v.
    - `gamma`: a function of the state that returns the divergence; None where it is not known.
    - `transposed`: whether it stands for Aᵀ; set by `.T`.

    ```python
    field = fk.fields.Operator(lambda z, v: v)
    ```
    """

    product: Callable[[State, PyTree[Array]], PyTree[Array]]
    gamma: Callable[[State], PyTree[Array]] | None = None
    transposed: bool = eqx.field(static=True, default=False)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """A function of the whole state: it is not known on which variables the product depends."""
        return (lambda *z: self.product,)

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """product(z, v), or its transpose."""
        if not self.transposed:
            return _with_dtypes_of(self.product(z, v), part(z, row))
        (result,) = jax.linear_transpose(lambda x: _with_dtypes_of(self.product(z, x), v), part(z, row))(v)
        return result

    def transpose(self) -> Field:
        """The transpose; `gamma` is not its divergence."""
        return Operator(self.product, None, not self.transposed)

    def divergence(
        self, z: State, row: PartName = None, column: PartName = None, probe: State | None = None
    ) -> PyTree[Array]:
        """`gamma(z)` if known, else computed from the product."""
        if self.gamma is not None:
            return self.gamma(z)
        return super().divergence(z, row, column, probe)
