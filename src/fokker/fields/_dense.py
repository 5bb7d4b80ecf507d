"""Fields with entries off the diagonal: dense, skew, a factor times its transpose, a column, an operator."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.state import (
    State,
    as_arrays,
    call,
    depends_on,
    describe_shapes,
    dimension,
    inner,
    is_leaf,
    part,
    ravel,
    replace_part,
    same_shapes,
    same_structure,
    unravel,
    zeros_like,
)
from fokker.fields._field import Field, functions_among, symmetric_root


def _matrix(value: Any, z: State, shape: tuple[int, int], kind: str) -> Array:
    matrix = jnp.asarray(call(value, z, f"the function of a {kind} field") if callable(value) else value)
    if matrix.shape != shape:
        raise ValueError(
            f"{kind} field: its matrix has shape {matrix.shape}, but its variables need {shape}."
        )
    return matrix


def _constant_or_function(value: Any) -> Any:
    return value if callable(value) else as_arrays(value)


def is_its_transpose(matrix: Array, sign: int = 1) -> bool:
    """Whether a known matrix is symmetric or, for `sign` -1, skew, up to rounding."""
    entries = np.asarray(matrix)  # with NumPy: jnp would be traced if a field is made inside jit
    if entries.shape[0] != entries.shape[1]:
        return False
    largest = np.max(np.abs(entries), initial=0)
    return bool(np.all(np.abs(entries - sign * entries.T) <= 1e-5 * largest))


class Dense(Field):
    r"""A(z) given as a matrix or as a function that returns one; rectangular between two variables.

    Γ = Σ_k ∂/∂z_k [A(z) e_k] takes one Jacobian-vector product per column and memory of a few d².
    As a diffusion that depends on the state, it needs an eigendecomposition per step for its square root;
    `Gram` is cheaper if a factor is known.

    ```python
    fk.fields.Dense(jnp.array([[2.0, 0.5], [0.5, 1.0]]))
    ```
    """

    value: Array | Callable[..., Array] = eqx.field(converter=_constant_or_function)
    root: Array | None
    transposed: bool = eqx.field(static=True)

    def __init__(self, value: Array | Callable[..., Array], transposed: bool = False) -> None:
        self.value = value
        self.transposed = transposed
        self.root = None
        if not callable(value):
            matrix = as_arrays(value)
            if matrix.ndim != 2:
                raise ValueError(f"Dense takes a matrix or a function, not an array of shape {matrix.shape}.")
            # A constant diffusion is factored once here, not in every step.
            if not isinstance(matrix, jax.core.Tracer) and is_its_transpose(matrix):
                self.root = symmetric_root(matrix)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The function, if the value is one."""
        return functions_among(self.value)

    def mv(
        self, z: State, v: PyTree[Array], row: str | None = None, column: str | None = None
    ) -> PyTree[Array]:
        """A(z) v."""
        like = part(z, row)
        shape = (dimension(like), dimension(v))
        matrix = _matrix(self.value, z, shape[::-1] if self.transposed else shape, "Dense")
        return unravel((matrix.T if self.transposed else matrix) @ ravel(v), like)

    def transpose(self) -> Field:
        """The transposed matrix."""
        return Dense(self.value, not self.transposed)

    def sqrt_mv(self, z: State, w: PyTree[Array], row: str | None = None) -> PyTree[Array]:
        """L w with the symmetric root, which is computed in advance if A is constant."""
        if self.root is None:
            return super().sqrt_mv(z, w, row)
        return unravel(self.root @ ravel(w), part(z, row))


class Skew(Field):
    r"""A(z) = T - Tᵀ with T the strictly lower triangle of the given matrix: skew by construction.

    The entries on and above the diagonal of the given matrix are not used.

    ```python
    fk.fields.Skew(lambda theta: jnp.outer(theta, theta**2))
    ```
    """

    value: Array | Callable[..., Array] = eqx.field(converter=_constant_or_function)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The function, if the value is one."""
        return functions_among(self.value)

    @property
    def is_skew(self) -> bool:
        """Always true."""
        return True

    def mv(
        self, z: State, v: PyTree[Array], row: str | None = None, column: str | None = None
    ) -> PyTree[Array]:
        """(T - Tᵀ) v."""
        size = dimension(v)
        lower = jnp.tril(_matrix(self.value, z, (size, size), "Skew"), -1)
        flat = ravel(v)
        return unravel(lower @ flat - lower.T @ flat, part(z, row))

    def transpose(self) -> Field:
        """The negative."""
        return -self


class Gram(Field):
    r"""A(z) = L(z) L(z)ᵀ + diag(a(z)): positive semidefinite by construction, low rank if L is narrow.

    `factor` is a d×k matrix or a function that returns one; `diagonal_part` is absent, a number, a tree in
    the structure of the variable, or a function that returns one. The noise is L w₁ + √a ⊙ w₂,
    without a decomposition or a d×d array.

    ```python
    fk.fields.Gram(lambda theta: jnp.stack([theta, theta**2], axis=1), diagonal_part=0.1)
    ```
    """

    factor: Array | Callable[..., Array] = eqx.field(converter=_constant_or_function)
    diagonal_part: Field | None

    def __init__(
        self, factor: Array | Callable[..., Array], diagonal_part: Any = None, *, elementwise: bool = False
    ) -> None:
        from fokker.fields._diagonal import Diagonal, Elementwise, Scalar

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

    def mv(
        self, z: State, v: PyTree[Array], row: str | None = None, column: str | None = None
    ) -> PyTree[Array]:
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
        self, z: State, row: str | None = None, column: str | None = None, probe: State | None = None
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
        self, z: State, row: str | None, column: str | None, probe: State | None
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

    def sqrt_mv(self, z: State, w: PyTree[Array], row: str | None = None) -> PyTree[Array]:
        """L w₁ + √a ⊙ w₂."""
        like = part(z, row)
        noise = unravel(self._factor(z, like) @ w["factor"], like)
        if self.diagonal_part is None:
            return noise
        return jax.tree.map(jnp.add, noise, self.diagonal_part.sqrt_mv(z, w["diagonal"], row))

    def solve(self, z: State, v: PyTree[Array], row: str | None = None) -> PyTree[Array]:
        """With a diagonal part, by Woodbury's identity, without a d×d array."""
        parts = self._woodbury(z, row)
        if parts is None:
            return super().solve(z, v, row)
        L, a, factor = parts
        flat = ravel(v) / a
        return unravel(flat - L @ jax.scipy.linalg.cho_solve((factor, True), L.T @ flat) / a, part(z, row))

    def log_determinant(self, z: State, row: str | None = None) -> Array:
        """log det diag(a) + log det(I + Lᵀ diag(a)⁻¹ L), if there is a diagonal part."""
        parts = self._woodbury(z, row)
        if parts is None:
            return super().log_determinant(z, row)
        _, a, factor = parts
        return jnp.sum(jnp.log(a)) + 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))

    def _woodbury(self, z: State, row: str | None) -> tuple[Array, Array, Array] | None:
        """L, a and the Cholesky factor of I + Lᵀ diag(a)⁻¹ L; None if there is no diagonal part."""
        entries = None if self.diagonal_part is None else self.diagonal_part.diagonal(z, row)
        if entries is None:
            return None
        L, a = self._factor(z, part(z, row)), ravel(entries)
        small = jnp.eye(L.shape[1], dtype=L.dtype) + L.T @ (L / a[:, None])
        return L, a, jnp.linalg.cholesky(small)

    def noise_like(self, z: State, row: str | None = None) -> PyTree[Any]:
        """One number per column of L, and one per coordinate if there is a diagonal part."""
        factor = jax.eval_shape(lambda: self._factor(z, part(z, row)))
        shapes = {"factor": jax.ShapeDtypeStruct((factor.shape[1],), factor.dtype)}
        if self.diagonal_part is None:
            return shapes
        return shapes | {"diagonal": self.diagonal_part.noise_like(z, row)}


class Column(Field):
    r"""A(z) = a(z), a single column: from a scalar variable to any variable. Its transpose is a single row.

    The block [r/d] of a thermostat, `Column(lambda r: r / d, elementwise=True)`, maps the scalar ξ to the
    momentum; its transpose maps the momentum to ξ, with Γ = Σ_j ∂a_j/∂r_j. `elementwise` asserts that a_j
    depends only on its own coordinate: Γ is then a single Jacobian-vector product, not one per coordinate.
    """

    value: PyTree[Array] | Callable[..., PyTree[Array]] = eqx.field(converter=_constant_or_function)
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

    def mv(
        self, z: State, v: PyTree[Array], row: str | None = None, column: str | None = None
    ) -> PyTree[Array]:
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
        self, z: State, row: str | None = None, column: str | None = None, probe: State | None = None
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
    """

    product: Callable[[State, PyTree[Array]], PyTree[Array]]
    gamma: Callable[[State], PyTree[Array]] | None = None
    transposed: bool = eqx.field(static=True, default=False)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """A function of the whole state: it is not known on which variables the product depends."""
        return (lambda *z: self.product,)

    def mv(
        self, z: State, v: PyTree[Array], row: str | None = None, column: str | None = None
    ) -> PyTree[Array]:
        """product(z, v), or its transpose."""
        if not self.transposed:
            return _with_dtypes_of(self.product(z, v), part(z, row))
        (result,) = jax.linear_transpose(lambda x: _with_dtypes_of(self.product(z, x), v), part(z, row))(v)
        return result

    def transpose(self) -> Field:
        """The transpose; `gamma` is not its divergence."""
        return Operator(self.product, None, not self.transposed)

    def divergence(
        self, z: State, row: str | None = None, column: str | None = None, probe: State | None = None
    ) -> PyTree[Array]:
        """`gamma(z)` if known, else computed from the product."""
        if self.gamma is not None:
            return self.gamma(z)
        return super().divergence(z, row, column, probe)
