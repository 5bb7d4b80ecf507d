"""Operations written as loops over slices, for kernels that cannot call the libraries which compute them.

Sums into places of an array (the gradient of `x[index]`), Cholesky factors, triangular systems and products
of matrices. For small arrays alone: a library computes large ones in blocks, which is faster.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jax.lax import GatherScatterMode
from jaxtyping import Array

# Operations that are others inside, by the name of what they have inside.
INLINED = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
}

# Numbers of single precision in a vector of the processor.
_VECTOR = 8


def inner(equation: Any) -> list[Any]:
    """The traced functions that an operation has inside."""
    name, parameters = equation.primitive.name, equation.params
    if name in INLINED:
        traced = [parameters[INLINED[name]]]
    elif name == "while":
        traced = [parameters["cond_jaxpr"], parameters["body_jaxpr"]]
    else:
        traced = {"scan": lambda: [parameters["jaxpr"]], "cond": lambda: list(parameters["branches"])}.get(
            name, list
        )()
    return [getattr(jaxpr, "jaxpr", jaxpr) for jaxpr in traced]


def work_of_loop(equation: Any) -> int | None:
    """About how many numbers a loop of this module computes for an operation; None where there is none."""
    rule = _LOOPS.get(equation.primitive.name)
    # Sums of small integers overflow in the operation, not in a loop; and no loop is written for no entries.
    kinds = [x.aval for x in (*equation.invars, *equation.outvars)]
    if rule is None or not jnp.issubdtype(kinds[-1].dtype, jnp.floating) or any(0 in k.shape for k in kinds):
        return None
    return rule[0](equation)


def has_loops(jaxpr: Any) -> bool:
    """Whether an operation of a traced function, or one inside those, is to be a loop."""
    return any(
        equation.primitive.name in _LOOPS or any(has_loops(part) for part in inner(equation))
        for equation in jaxpr.eqns
    )


def evaluate(jaxpr: Any, consts: Sequence[Any], *arguments: Array) -> list[Array]:
    """A traced function, with loops in place of operations."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))
    for equation in jaxpr.eqns:
        operands = [x.val if isinstance(x, Literal) else values[x] for x in equation.invars]
        values.update(zip(equation.outvars, _applied(equation, operands), strict=True))
    return [x.val if isinstance(x, Literal) else values[x] for x in jaxpr.outvars]


def _applied(equation: Any, operands: list[Any]) -> Sequence[Any]:
    name, parameters = equation.primitive.name, equation.params
    if name in _LOOPS:
        return [_LOOPS[name][1](equation, *operands)]
    parts = inner(equation)
    if not any(has_loops(part) for part in parts):
        results = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(parameters))
        return results if equation.primitive.multiple_results else [results]
    functions = [_function(jaxpr, part) for jaxpr, part in zip(_closed(equation), parts, strict=True)]
    if name == "while":
        of_test, of_body = parameters["cond_nconsts"], parameters["body_nconsts"]
        tested, shared = operands[:of_test], operands[of_test : of_test + of_body]
        return jax.lax.while_loop(
            lambda carry: functions[0](*tested, *carry)[0],
            lambda carry: functions[1](*shared, *carry),
            operands[of_test + of_body :],
        )
    if name == "scan":
        return _scanned(parameters, functions[0], operands)
    if name == "cond":
        return jax.lax.switch(operands[0], functions, *operands[1:])
    return functions[0](*operands)


def _closed(equation: Any) -> list[Any]:
    """As `inner`, with the constants of each."""
    parameters = equation.params
    names = {"while": ["cond_jaxpr", "body_jaxpr"], "scan": ["jaxpr"]}.get(equation.primitive.name)
    if equation.primitive.name == "cond":
        return list(parameters["branches"])
    return [parameters[name] for name in names or [INLINED[equation.primitive.name]]]


def _function(closed: Any, jaxpr: Any) -> Callable[..., list[Array]]:
    return lambda *operands: evaluate(jaxpr, getattr(closed, "consts", ()), *operands)


def _scanned(parameters: Any, body: Callable[..., list[Array]], operands: list[Any]) -> list[Array]:
    shared, carried = parameters["num_consts"], parameters["num_carry"]
    consts, carry = operands[:shared], operands[shared : shared + carried]

    def step(carry: list[Array], row: list[Array]) -> tuple[list[Array], list[Array]]:
        out = body(*consts, *carry, *row)
        return out[:carried], out[carried:]

    end, rows = jax.lax.scan(
        step,
        list(carry),
        operands[shared + carried :],
        length=parameters["length"],
        reverse=parameters["reverse"],
        unroll=parameters["unroll"],
    )
    return [*end, *rows]


# The loops ------------------------------------------------------------------------------------------------


def _scatter_add(equation: Any, operand: Array, indices: Array, updates: Array) -> Array:
    """operand[index] += update for one index after the other."""
    dimensions = equation.params["dimension_numbers"]
    windows, single = dimensions.update_window_dims, dimensions.inserted_window_dims
    moved = [axis for axis in range(updates.ndim) if axis not in windows]
    window = [updates.shape[axis] for axis in windows]
    for axis in sorted(single):
        window.insert(axis, 1)
    count = math.prod(indices.shape[:-1])
    indices = indices.reshape(count, indices.shape[-1])
    updates = updates.transpose(*moved, *windows).reshape(count, *window)
    highest = jnp.asarray([n - w for n, w in zip(operand.shape, window, strict=True)], indices.dtype)
    drops = equation.params["mode"] == GatherScatterMode.FILL_OR_DROP

    def add(i: Array, out: Array) -> Array:
        index = jax.lax.dynamic_index_in_dim(indices, i, keepdims=False)
        start = [jnp.zeros((), indices.dtype)] * operand.ndim
        for k, axis in enumerate(dimensions.scatter_dims_to_operand_dims):
            start[axis] = index[k]
        update = jax.lax.dynamic_index_in_dim(updates, i, keepdims=False)
        if drops:
            place = jnp.stack(start)
            update = jnp.where(jnp.all((place >= 0) & (place <= highest)), update, 0)
        return jax.lax.dynamic_update_slice(
            out, jax.lax.dynamic_slice(out, start, window) + update.astype(out.dtype), start
        )

    return jax.lax.fori_loop(0, count, add, operand)


def _work_of_scatter(equation: Any) -> int | None:
    # What is clipped would wrap around in a loop.
    is_clipped = equation.params["mode"] == GatherScatterMode.CLIP
    is_batched = equation.params["dimension_numbers"].operand_batching_dims
    return None if is_clipped or is_batched else _size(equation.invars[2])


def _cholesky(equation: Any, a: Array) -> Array:
    """L with LLᵀ = a, column by column; all NaN where there is none, as of LAPACK's."""
    n = a.shape[0]
    # The rows of Lᵀ, so that a column is a sum of rows: no vector unit adds up what stands in one vector.
    columns = _widened(a.T)

    def column(j: Array, L: Array) -> Array:
        rest = _row(columns, j) - jax.lax.dynamic_index_in_dim(L, j, 1, keepdims=False) @ L
        values = jnp.where(jnp.arange(rest.size) >= j, rest / jnp.sqrt(_row(rest, j)), 0)
        return jax.lax.dynamic_update_index_in_dim(L, values, j, 0)

    L = jax.lax.fori_loop(0, n, column, jnp.zeros_like(columns)).T[:n]
    return jnp.where(jnp.all(jnp.diagonal(L) > 0), L, jnp.nan)


def _triangular_solve(equation: Any, a: Array, b: Array) -> Array:
    """x with a x = b, row by row; systems from the right and of transposes are transposed."""
    parameters = equation.params
    is_lower, is_left = parameters["lower"], parameters["left_side"]
    if parameters["transpose_a"] == is_left:
        a, is_lower = a.T, not is_lower
    b = b if is_left else b.T
    (n, m), of_rows = b.shape, jnp.arange(a.shape[0])
    first, second = of_rows[:, None], of_rows[None, :]
    # The other triangle may hold anything.
    known = jnp.where(first > second if is_lower else first < second, a, 0)
    b, pivots = _widened(b), jnp.diagonal(a)

    def row(k: Array, x: Array) -> Array:
        i = k if is_lower else n - 1 - k
        rest = _row(b, i) - _row(known, i) @ x
        if not parameters["unit_diagonal"]:
            rest = rest / _row(pivots, i)
        return jax.lax.dynamic_update_index_in_dim(x, rest, i, 0)

    x = jax.lax.fori_loop(0, n, row, jnp.zeros_like(b))[:, :m]
    return x if is_left else x.T


def _row(x: Array, i: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(x, i, keepdims=False)


def _widened(x: Array) -> Array:
    """A matrix of a loop with columns of zeros up to whole vectors of the processor.

    XLA computes what is left over of a row number by number: of 15 columns that is most of the time.
    """
    n, m = x.shape
    return jnp.pad(x, ((0, 0), (0, -m % _VECTOR))) if n >= _VECTOR else x


def _product(equation: Any, a: Array, b: Array) -> Array:
    """A product of matrices row by row, of many as a sum of products; of a matrix and a vector as it is."""
    (of_a, of_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    if _is_of_vector(equation):
        return equation.primitive.bind(a, b, **equation.params)
    free_a = [axis for axis in range(a.ndim) if axis not in (*of_a, *batch_a)]
    free_b = [axis for axis in range(b.ndim) if axis not in (*of_b, *batch_b)]
    shape = [a.shape[axis] for axis in (*batch_a, *free_a)] + [b.shape[axis] for axis in free_b]
    batch, shared = math.prod(a.shape[axis] for axis in batch_a), math.prod(a.shape[axis] for axis in of_a)
    wide = equation.outvars[0].aval.dtype
    a = a.transpose(*batch_a, *free_a, *of_a).reshape(batch, -1, shared).astype(wide)
    b = b.transpose(*batch_b, *free_b, *of_b).reshape(batch, -1, shared).astype(wide)
    if batch == 1:
        return _product_of_two(a[0], b[0]).reshape(shape)
    return jnp.sum(a[:, :, None] * b[:, None], axis=-1).reshape(shape)


def _product_of_two(a: Array, b: Array) -> Array:
    """a bᵀ by a pass for each row of the smaller.

    As a sum of products it is up to six times as slow, and of sizes of whole vectors XLA does not write it.
    """
    if len(a) > len(b):
        return _product_of_two(b, a).T
    n, m = len(a), len(b)
    if n < _VECTOR:  # as they are stored: few passes do not repay a copy
        return jnp.stack([b @ row for row in a])
    b = _widened(b.T)

    def row(i: Array, out: Array) -> Array:
        return jax.lax.dynamic_update_index_in_dim(out, _row(a, i) @ b, i, 0)

    return jax.lax.fori_loop(0, n, row, jnp.zeros((n, b.shape[1]), a.dtype))[:, :m]


def _is_of_vector(equation: Any) -> bool:
    (contracted, _), (batched, _) = equation.params["dimension_numbers"]
    shared = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
    return not batched and min(_size(x) for x in equation.invars) <= shared


def _work_of_product(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    return _size(equation.outvars[0]) * math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)


def _size(x: Any) -> int:
    return math.prod(x.aval.shape)


def _cube(equation: Any) -> int | None:
    """That of one matrix of n² entries, and of as many right-hand sides; many at once are not written."""
    a, *b = (x.aval.shape for x in equation.invars)
    return None if len(a) != 2 else a[0] ** 2 * max([a[0], *(math.prod(s) // a[0] for s in b)])


_LOOPS: dict[str, tuple[Callable[..., int | None], Callable[..., Array]]] = {
    "scatter-add": (_work_of_scatter, _scatter_add),
    "cholesky": (_cube, _cholesky),
    "triangular_solve": (_cube, _triangular_solve),
    "dot_general": (_work_of_product, _product),
}
