"""Whole numbers that a likelihood computes with: JAX rounds them where it makes floating-point numbers."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr
from jaxtyping import Array, PyTree

from fokker.rows import Source, is_source, leaves, some_rows
from fokker.rows.precision import check_rounding

# What leaves values as they are, or multiplies them. A difference of whole numbers is exact: it is not
# followed.
_FOLLOWED = {
    *("reshape", "squeeze", "broadcast_in_dim", "expand_dims", "transpose", "slice", "dynamic_slice"),
    *("gather", "concatenate", "copy", "select_n", "rev", "mul", "neg", "abs"),
}
# The largest number up to which single precision has every whole number.
_EXACT = 2**24


def check_integers(
    function: Callable[..., Any], theta: PyTree[Array], datum: PyTree[Array], data: PyTree[Any]
) -> None:
    """Raise where `function(theta, datum)` makes floating-point numbers of whole ones that this rounds.

    `data`: the leaves that `datum` is a row of.
    """
    row_leaves = jax.tree.leaves(datum)
    if jnp.result_type(float) == np.float64 or not any(is_integer(x) for x in row_leaves):
        return
    traced = jax.make_jaxpr(function)(theta, datum).jaxpr
    inputs = traced.invars[len(traced.invars) - len(row_leaves) :]
    named = jax.tree_util.tree_leaves_with_path(datum)
    for variable, (path, _), leaf in zip(inputs, named, leaves(data), strict=True):
        if not is_integer(leaf) or not _becomes_float(traced, [variable]):
            continue
        values = some_rows(leaf) if is_source(leaf) else np.asarray(leaf)
        if values.size and max(abs(int(values.min())), abs(int(values.max()))) > _EXACT:
            check_rounding(f"data{jax.tree_util.keystr(path)}", values, len(leaf), np.dtype(np.float32))


def inner_programs(equation: Any) -> list[Any]:
    """The programs that an equation calls, such as the branches of a condition."""
    inner = jax.tree.leaves(list(equation.params.values()), is_leaf=is_program)
    return [program for x in inner if hasattr(program := getattr(x, "jaxpr", x), "eqns")]


def is_program(x: object) -> bool:
    """Whether a parameter of an equation is a program, with its constants or without."""
    return hasattr(x, "jaxpr") or hasattr(x, "eqns")


def is_integer(x: Array | np.ndarray | Source) -> bool:
    """Whether a column has whole numbers."""
    return np.dtype(x.dtype).kind in "iu"


def _becomes_float(program: Jaxpr, variables: Iterable[Any]) -> bool:
    """Whether a program converts one of its variables, which are whole numbers, to floating-point numbers."""
    followed = set(variables)
    for equation in program.eqns:
        which = [i for i, x in enumerate(equation.invars) if not hasattr(x, "val") and x in followed]
        if not which:
            continue
        name = equation.primitive.name
        if name == "convert_element_type" and jnp.issubdtype(equation.params["new_dtype"], jnp.inexact):
            return True
        if name in _FOLLOWED or name == "convert_element_type":
            followed.update(equation.outvars)
        for program_inside in inner_programs(equation):
            # The inputs of an inner program are the last of the call's: a condition's index comes before.
            shift = len(equation.invars) - len(program_inside.invars)
            if _becomes_float(
                program_inside, [program_inside.invars[i - shift] for i in which if i >= shift]
            ):
                return True
    return False
