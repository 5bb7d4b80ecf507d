"""Checks of states, temperatures and fields before a run."""

import math
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.required import is_trusted, require
from fokker._core.state import State, describe_shapes, dimension, inner, same_shapes
from fokker._core.tracing import TRACING_ERRORS, check_real, not_real, untraceable
from fokker._core.types import PartName
from fokker.fields import Blocks, Field

# Above this many coordinates, D and Q are tested on random vectors before a run, not as full matrices.
_LARGEST_FULL_MATRIX = 512


def check_temperature(temperature: Array) -> None:
    """Raise unless the temperature is one finite non-negative number."""
    if temperature is None or isinstance(temperature, str | bytes):
        raise TypeError(f"the temperature must be a number, as in temperature=1.0, not {temperature!r}.")
    if jnp.shape(temperature) != ():
        raise ValueError(
            f"the temperature must be one number, not an array of shape {jnp.shape(temperature)}; to run at "
            "several temperatures, use jax.vmap."
        )
    if not isinstance(temperature, jax.core.Tracer) and not 0 <= float(temperature) < math.inf:
        raise ValueError(f"the temperature must be finite and not negative; {temperature} was given.")


def validate_state(z: State) -> None:
    """Raise unless all entries of `z` are finite floating-point numbers."""
    leaves = jax.tree.leaves(z)
    if not leaves:
        raise ValueError("the state is empty: give at least one variable.")
    for path, leaf in jax.tree.leaves_with_path(z):
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            raise ValueError(
                f"the state{jax.tree_util.keystr(path)} is of type {jnp.result_type(leaf)}; samplers need "
                "real numbers: give floating-point values, as in 0.0 or jnp.zeros(3)."
            )
        place = f"the state{jax.tree_util.keystr(path)}"
        require(
            jnp.all(jnp.isfinite(leaf)),
            lambda x, place=place: ValueError(f"{place} is not finite: {x}."),
            leaf,
        )


def check_field(field: Field, z: State, name: str) -> None:
    """Raise if a field does not fit the state: an unknown variable, or shapes that do not match."""
    if isinstance(field, Blocks):
        field.check_names(z)
        for key, block in field.blocks.items():
            _try_product(block, z, f"{name}[{key[0]}, {key[1]}]", *key)
    else:
        _try_product(field, z, name, None, None)


def _try_product(field: Field, z: State, name: str, row: PartName, column: PartName) -> None:
    source, target = (z if column is None else z[column]), (z if row is None else z[row])
    try:
        with warnings.catch_warnings():
            # Raised where entries are cast to the type of the state.
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            result = jax.eval_shape(lambda state, v: field.mv(state, v, row, column), z, source)
    except np.exceptions.ComplexWarning as error:
        raise not_real(name, "complex numbers") from error
    except TRACING_ERRORS as error:
        raise untraceable(name, error) from error
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{name} does not fit the state {describe_shapes(z)}: {error}") from error
    check_real(name, result)
    if not same_shapes(result, target):
        raise ValueError(
            f"{name} maps {describe_shapes(source)} to {describe_shapes(result)}, but its row variable has "
            f"{describe_shapes(target)}. Between variables of different shapes use Dense, Column or Operator."
        )


def _matrix_and_tolerance(field: Field, z: State) -> tuple[Array, Array]:
    """A(z) and a bound on its rounding error; for a large A, VᵀA(z)V with two random unit vectors."""
    eps = jnp.finfo(jnp.result_type(*jax.tree.leaves(z))).eps
    if dimension(z) <= _LARGEST_FULL_MATRIX:
        matrix = field.as_matrix(z)
        return matrix, 100 * eps * matrix.shape[0] * jnp.max(jnp.abs(matrix))
    probed = [[_probed(field, z, jnp.uint32(i), jnp.uint32(j)) for j in range(2)] for i in range(2)]
    matrix = jnp.stack([jnp.stack([value for value, _ in row]) for row in probed])
    return matrix, 100 * eps * jnp.max(jnp.stack([size for _, size in probed[0]]))


# Compiled, and with signs that are computed on the spot, so that it takes little memory: a state may take a
# third of that of a GPU.
@eqx.filter_jit
def _probed(field: Field, z: State, i: Array, j: Array) -> tuple[Array, Array]:
    """v_iᵀA(z)v_j, with vectors of random signs and norm 1, and the norm of A(z)v_j."""
    leaves, structure = jax.tree.flatten(z)
    v, w = (
        jax.tree.unflatten(structure, [_signs(x, 2 * n + k) for n, x in enumerate(leaves)]) for k in (i, j)
    )
    product = field.mv(z, w)
    size = float(dimension(z))
    return inner(v, product) / size, jnp.sqrt(inner(product, product) / size)


def _signs(like: Array, seed: Array) -> Array:
    """±1 for every entry."""
    return (1 - 2 * (_hashed(like, seed) >> 31).astype(like.dtype)).reshape(like.shape)


def _hashed(like: Any, seed: Array | int) -> Array:
    """A hash of the place of every entry (the finaliser of MurmurHash3)."""
    x = jnp.arange(math.prod(like.shape), dtype=jnp.uint32) + np.uint32(0x9E3779B9) * jnp.uint32(seed + 1)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> shift)) * np.uint32(factor)
    return x


def probe(number: int, like: PyTree[Any]) -> PyTree[Array]:
    """A point or a direction to test functions with: numbers of mean 0 and variance 1, in given shapes.

    By a hash: the rounds of random numbers proper take long to compile, for each leaf again.
    """
    leaves, structure = jax.tree.flatten(like)

    def drawn(x: Any, seed: int) -> Array:
        unit = (_hashed(x, seed) >> 8).astype(x.dtype) * 2.0**-24
        return (math.sqrt(12) * (unit - 0.5)).astype(x.dtype).reshape(x.shape)

    return jax.tree.unflatten(structure, [drawn(x, 1000 * number + n) for n, x in enumerate(leaves)])


def _has_finite_root(D: Field, z: State) -> Array:
    """Whether √D times ones is finite."""
    ones = jax.tree.map(lambda s: jnp.ones(s.shape, s.dtype), D.noise_like(z))
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(D.sqrt_mv(z, ones))]))


def check_semidefinite(D: Field, z: State, name: str) -> None:
    """Raise unless D is symmetric, positive semidefinite and has a square root at `z`, up to rounding.

    A field that is too large for a full matrix is tested on two random vectors.
    """
    matrix, tolerance = _matrix_and_tolerance(D, z)
    if is_trusted(matrix):
        return
    require(jnp.all(jnp.isfinite(matrix)), lambda: ValueError(f"{name} is not finite at this state."))
    require(
        jnp.max(jnp.abs(matrix - matrix.T)) <= tolerance,
        lambda: ValueError(f"{name} must be symmetric; at this state {name} - {name}ᵀ is not zero."),
    )
    least = jnp.linalg.eigvalsh(matrix)[0]
    require(
        least >= -tolerance,
        lambda least: ValueError(
            f"{name} must be positive semidefinite; at this state its smallest eigenvalue is "
            f"{float(least):.3g}. fk.fields.Gram(L) gives L Lᵀ, which is always positive semidefinite."
        ),
        least,
    )
    # Compiled where it is large, for the same reason.
    has_finite_root = (
        eqx.filter_jit(_has_finite_root) if dimension(z) > _LARGEST_FULL_MATRIX else _has_finite_root
    )
    require(
        has_finite_root(D, z),
        lambda: ValueError(
            f"{name} is positive semidefinite, but one of its terms is not, and the noise is drawn term by "
            "term. Write it as one field, such as fk.fields.Dense or fk.fields.Diagonal."
        ),
    )


def check_skew(Q: Field, z: State, name: str) -> None:
    """Raise unless Q is skew at `z` up to rounding; a large Q is tested on two random vectors."""
    matrix, tolerance = _matrix_and_tolerance(Q, z)
    if is_trusted(matrix):
        return
    asymmetry = jnp.max(jnp.abs(matrix + matrix.T))
    require(
        asymmetry <= tolerance,
        lambda asymmetry: ValueError(
            f"{name} must be skew; at this state the largest entry of {name} + {name}ᵀ is "
            f"{float(asymmetry):.3g}. Declare one triangle, with a dictionary of blocks or "
            "fk.fields.Skew(…): the other follows."
        ),
        asymmetry,
    )
