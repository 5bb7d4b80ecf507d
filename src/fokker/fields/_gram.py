"""Fields L Lᵀ + diag(a): a factor times its transpose, and a diagonal."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fokker._core.state import (
    State,
    call,
    depends_on,
    dimension,
    is_leaf,
    part,
    ravel,
    replace_part,
    unravel,
    zeros_like,
)
from fokker._core.types import PartName
from fokker.fields._dense import constant_or_function
from fokker.fields._diagonal import Diagonal, Elementwise, Scalar
from fokker.fields._field import Field, functions_among


class Gram(Field):
    r"""A(z) = L(z) L(z)ᵀ + diag(a(z)): positive semidefinite by construction, low rank if L is narrow.

    `factor` is a d×k matrix or a function that returns one; `diagonal_part` is absent, a number, a tree in
    the structure of the variable, or a function that returns one. The noise is L w₁ + √a ⊙ w₂,
    without a decomposition or a d×d array.

    Arguments:

    - `factor`: L: a matrix with one row per coordinate, or a function that returns one.
    - `diagonal_part`: a: numbers above zero, or a function; None for none.
    - `elementwise`: whether a is a function that acts on each entry.

    ```python
    field = fk.fields.Gram(jnp.array([[1.0], [2.0]]))
    matrix = field.as_matrix({"theta": jnp.ones(2)})
    ```
    """

    factor: Array | Callable[..., Array] = eqx.field(converter=constant_or_function)
    diagonal_part: Field | None

    def __init__(
        self,
        factor: Array | Callable[..., Array],
        diagonal_part: PyTree[Array] = None,
        *,
        elementwise: bool = False,
    ) -> None:
        self.factor = factor
        if diagonal_part is None or isinstance(diagonal_part, Field):
            self.diagonal_part = diagonal_part
        elif callable(diagonal_part):
            self.diagonal_part = (Elementwise if elementwise else Diagonal)(diagonal_part)
        else:
            is_number = is_leaf(diagonal_part) and not jnp.ndim(diagonal_part)
            self.diagonal_part = (Scalar if is_number else Diagonal)(diagonal_part)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions of both parts."""
        return functions_among(self.factor) + (
            () if self.diagonal_part is None else self.diagonal_part.functions()
        )

    def _factor(self, z: State, like: PyTree[Array]) -> Array:
        size, dtype = dimension(like), jnp.result_type(*jax.tree.leaves(like))
        L = jnp.asarray(
            call(self.factor, z, "the factor of a Gram field") if callable(self.factor) else self.factor
        )
        if L.ndim != 2 or L.shape[0] != size:
            raise ValueError(f"Gram field: its factor has shape {L.shape}, but needs ({size}, k).")
        return L.astype(dtype)

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """L(Lᵀv) + a ⊙ v."""
        L = self._factor(z, v)
        product = unravel(L @ (L.T @ ravel(v)), part(z, row))
        if self.diagonal_part is None:
            return product
        return jax.tree.map(jnp.add, product, self.diagonal_part.mv(z, v, row, column))

    def transpose(self) -> Field:
        """The field itself."""
        return self

    def divergence(
        self, z: State, row: PartName = None, column: PartName = None, probe: State | None = None
    ) -> PyTree[Array]:
        r"""Γ = Σ_a [(∇·ℓ_a) ℓ_a + (ℓ_a·∇) ℓ_a] over the columns ℓ_a of L, plus that of the diagonal.

        The second part takes one Jacobian-vector product per column of L; the divergences of the ℓ_a take one
        per coordinate (or a single one with a probe), with a d×k array in memory and no d×d array.
        """
        total = zeros_like(part(z, row))
        if callable(self.factor) and depends_on(self.factor, column, z):
            total = self._factor_divergence(z, row, column, probe)
        if self.diagonal_part is not None and not self.diagonal_part.is_constant:
            total = jax.tree.map(jnp.add, total, self.diagonal_part.divergence(z, row, column, probe))
        return total

    def _factor_divergence(
        self, z: State, row: PartName, column: PartName, probe: State | None
    ) -> PyTree[Array]:
        z_column = part(z, column)
        flat = ravel(z_column)

        def factor_at(x: Array) -> Array:
            return self._factor(replace_part(z, column, unravel(x, z_column)), z_column)

        L = factor_at(flat)
        if probe is not None:
            v = ravel(part(probe, column))
            product = jax.jvp(lambda x: factor_at(x) @ (factor_at(x).T @ v), (flat,), (v,))[1]
            return unravel(product, part(z, row))

        def along_column(total: Array, a: Array) -> tuple[Array, None]:
            derivative = jax.jvp(factor_at, (flat,), (L[:, a],))[1]
            return total + derivative[:, a], None

        def own_divergence(total: Array, i: Array) -> tuple[Array, None]:
            e_i = jnp.zeros_like(flat).at[i].set(1)
            return total + jax.jvp(factor_at, (flat,), (e_i,))[1][i], None

        carried = jax.lax.scan(along_column, jnp.zeros_like(flat), jnp.arange(L.shape[1]))[0]
        divergences = jax.lax.scan(own_divergence, jnp.zeros(L.shape[1], L.dtype), jnp.arange(flat.size))[0]
        return unravel(carried + L @ divergences, part(z, row))

    def sqrt_mv(self, z: State, w: PyTree[Array], row: PartName = None) -> PyTree[Array]:
        """L w₁ + √a ⊙ w₂."""
        like = part(z, row)
        noise = unravel(self._factor(z, like) @ w["factor"], like)
        if self.diagonal_part is None:
            return noise
        return jax.tree.map(jnp.add, noise, self.diagonal_part.sqrt_mv(z, w["diagonal"], row))

    def solve(self, z: State, v: PyTree[Array], row: PartName = None) -> PyTree[Array]:
        """With a diagonal part, by Woodbury's identity, without a d×d array."""
        parts = self._woodbury(z, row)
        if parts is None:
            return super().solve(z, v, row)
        L, a, factor = parts
        flat = ravel(v) / a
        return unravel(flat - L @ jax.scipy.linalg.cho_solve((factor, True), L.T @ flat) / a, part(z, row))

    def log_determinant(self, z: State, row: PartName = None) -> Array:
        """log det diag(a) + log det(I + Lᵀ diag(a)⁻¹ L), if there is a diagonal part."""
        parts = self._woodbury(z, row)
        if parts is None:
            return super().log_determinant(z, row)
        _, a, factor = parts
        return jnp.sum(jnp.log(a)) + 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))

    def _woodbury(self, z: State, row: PartName) -> tuple[Array, Array, Array] | None:
        """L, a and the Cholesky factor of I + Lᵀ diag(a)⁻¹ L; None if there is no diagonal part."""
        entries = None if self.diagonal_part is None else self.diagonal_part.diagonal(z, row)
        if entries is None:
            return None
        L, a = self._factor(z, part(z, row)), ravel(entries)
        small = jnp.eye(L.shape[1], dtype=L.dtype) + L.T @ (L / a[:, None])
        return L, a, jnp.linalg.cholesky(small)

    def noise_like(self, z: State, row: PartName = None) -> PyTree[Any]:
        """One number per column of L, and one per coordinate if there is a diagonal part."""
        factor = jax.eval_shape(lambda: self._factor(z, part(z, row)))
        shapes = {"factor": jax.ShapeDtypeStruct((factor.shape[1],), factor.dtype)}
        if self.diagonal_part is None:
            return shapes
        return shapes | {"diagonal": self.diagonal_part.noise_like(z, row)}
