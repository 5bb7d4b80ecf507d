"""Dense and skew fields."""

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
    dimension,
    part,
    ravel,
    unravel,
)
from fokker._core.types import PartName
from fokker.fields._field import FROM_ARRAY, Field, functions_among, symmetric_root


def matrix_of(value: PyTree[Array], z: State, shape: tuple[int, int], kind: str) -> Array:
    """The value at a state, of a shape that its variables need."""
    matrix = jnp.asarray(call(value, z, f"the function of a {kind} field") if callable(value) else value)
    if matrix.shape != shape:
        raise ValueError(
            f"{kind} field: its matrix has shape {matrix.shape}, but its variables need {shape}."
        )
    return matrix


def constant_or_function(value: PyTree[Array]) -> Any:
    """A function as it is, and arrays of everything else."""
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

    Arguments:

    - `value`: A: a matrix, or a function that returns one.
    - `transposed`: whether it stands for Aᵀ; set by `.T`.

    ```python
    field = fk.fields.Dense(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
    matrix = field.as_matrix({"theta": jnp.ones(2)})
    ```
    """

    value: Array | Callable[..., Array] = eqx.field(converter=constant_or_function)
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

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """A(z) v."""
        like = part(z, row)
        shape = (dimension(like), dimension(v))
        matrix = matrix_of(self.value, z, shape[::-1] if self.transposed else shape, "Dense")
        return unravel((matrix.T if self.transposed else matrix) @ ravel(v), like)

    def transpose(self) -> Field:
        """The transposed matrix."""
        return Dense(self.value, not self.transposed)

    def sqrt_mv(self, z: State, w: PyTree[Array], row: PartName = None) -> PyTree[Array]:
        """L w with the symmetric root, which is computed in advance if A is constant."""
        if self.root is None:
            return super().sqrt_mv(z, w, row)
        return unravel(self.root @ ravel(w), part(z, row))


FROM_ARRAY[2] = Dense


class Skew(Field):
    r"""A(z) = T - Tᵀ with T the strictly lower triangle of the given matrix: skew by construction.

    The entries on and above the diagonal of the given matrix are not used.

    Arguments:

    - `value`: T: a matrix whose lower triangle is used, or a function that returns one.

    ```python
    field = fk.fields.Skew(jnp.array([[0.0, 0.0], [1.0, 0.0]]))
    matrix = field.as_matrix({"theta": jnp.ones(2)})
    ```
    """

    value: Array | Callable[..., Array] = eqx.field(converter=constant_or_function)

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The function, if the value is one."""
        return functions_among(self.value)

    @property
    def is_skew(self) -> bool:
        """Always true."""
        return True

    def mv(self, z: State, v: PyTree[Array], row: PartName = None, column: PartName = None) -> PyTree[Array]:
        """(T - Tᵀ) v."""
        size = dimension(v)
        lower = jnp.tril(matrix_of(self.value, z, (size, size), "Skew"), -1)
        flat = ravel(v)
        return unravel(lower @ flat - lower.T @ flat, part(z, row))

    def transpose(self) -> Field:
        """The negative."""
        return -self
