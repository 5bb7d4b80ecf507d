"""Indices from columns of the data, beyond the end of an array: JAX takes another entry in their place."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from jax.extend.core import Jaxpr, jaxpr_as_fun
from jax.lax import GatherScatterMode
from jaxtyping import Array, PyTree

from fokker._core.labels import shapes_of
from fokker.rows import is_source, leaves, span
from fokker.targets._integers import inner_programs, is_integer, is_program

_READS = {"gather", "dynamic_slice"}
# What checkify raises of programs that it does not know, such as `jax.checkpoint` in JAX 0.10: the likelihood
# itself has been computed before.
_UNKNOWN = (ValueError, NotImplementedError)


def check_indices(
    function: Callable[..., Any], theta: PyTree[Array], datum: PyTree[Array], data: PyTree[Any]
) -> None:
    """Raise where `function(theta, datum)` reads beyond the end of an array by an integer of the data.

    It looks at the rows with the smallest and the largest number of each column of integers in memory, and
    at no likelihood with a part that checkify does not know. A read that says what it takes beyond the end
    is allowed, as far as the program shows it.
    """
    columns = [x for x in leaves(data) if not is_source(x) and is_integer(x) and x.size]
    if not columns or not _reads(jax.make_jaxpr(function)(theta, datum).jaxpr):
        return
    extremes = {int(place) * len(x) // x.size for x in columns for place in (x.argmin(), x.argmax())}
    for row in sorted(extremes):
        try:
            error = _error(function, theta, jax.tree.map(lambda x: x[0], span(data, row, 1)))
        except _UNKNOWN:
            return
        if message := error.get():
            found = message.splitlines()[0].strip().rstrip(".")
            raise ValueError(
                f"log_likelihood reads beyond the end of an array in row {row:,} of the data: {found}. theta "
                f"has {shapes_of(theta)}, and JAX would take another entry without a word. Indices begin at "
                "0: subtract 1 from a column that begins at 1, give a parameter one entry for each category, "
                "or limit an index that is not used, as in jnp.minimum(i, 2). Where such a read is meant, "
                "use theta.at[i].get(mode='fill', fill_value=0.0), or jnp.take(theta, i, mode='clip')."
            )


@eqx.filter_jit
def _error(function: Callable[..., Any], theta: PyTree[Array], datum: PyTree[Array]) -> checkify.Error:
    checked = jaxpr_as_fun(_with_reads_inside(jax.make_jaxpr(function)(theta, datum)))
    return checkify.checkify(checked, errors=checkify.index_checks)(*jax.tree.leaves((theta, datum)))[0]


def _with_reads_inside(program: Any) -> Any:
    """The program with the indices of deliberate reads limited, as checkify refuses these too."""
    if getattr(program, "jaxpr", program) is not program:
        return program.replace(jaxpr=_with_reads_inside(program.jaxpr))
    return program.replace(eqns=[_with_read_inside(equation) for equation in program.eqns])


def _with_read_inside(equation: Any) -> Any:
    params = equation.params
    if equation.primitive.name == "gather" and _is_deliberate(equation):
        dimensions, sizes = params["dimension_numbers"], np.array(params["slice_sizes"])

        def read(x: Array, indices: Array) -> Array:
            last = (np.array(x.shape) - sizes)[list(dimensions.start_index_map)]
            last = np.broadcast_to(last, indices.shape).astype(indices.dtype)
            entries = equation.primitive.bind(x, jnp.clip(indices, 0, last), **params)
            if params["mode"] == GatherScatterMode.CLIP:
                return entries
            # As it is: the value may be an index of the next read.
            is_inside = jnp.all((indices >= 0) & (indices <= last), -1)
            shown = jnp.broadcast_to(jnp.expand_dims(is_inside, dimensions.offset_dims), entries.shape)
            return jnp.where(shown, entries, jnp.asarray(params["fill_value"], x.dtype))

        inside: Any = jax.make_jaxpr(jax.jit(read))(*(x.aval for x in equation.invars)).eqns[0]
        return inside.replace(invars=equation.invars, outvars=equation.outvars)
    if not inner_programs(equation):
        return equation
    inner = jax.tree.map(
        lambda x: _with_reads_inside(x) if is_program(x) else x, dict(params), is_leaf=is_program
    )
    return equation.replace(params=inner)


def _is_deliberate(equation: Any) -> bool:
    """Whether a read says what it takes beyond the end, by `mode` or `fill_value`.

    theta[i] under `vmap` clips too, but its slices keep their axes. What JAX fills in where no value is given
    is NaN, or an integer at the end of its range.
    """
    mode, fill = equation.params["mode"], equation.params["fill_value"]
    if mode == GatherScatterMode.CLIP:
        return bool(equation.params["dimension_numbers"].collapsed_slice_dims)
    if mode != GatherScatterMode.FILL_OR_DROP or fill is None:
        return False
    dtype = equation.invars[0].aval.dtype
    if jnp.issubdtype(dtype, jax.dtypes.extended):  # keys
        return False
    if dtype.kind in "iu":
        return fill not in (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return dtype.kind != "b" and not np.isnan(fill)


def _reads(program: Jaxpr) -> bool:
    """Whether a program reads entries of arrays by numbers that it computes."""
    return any(
        equation.primitive.name in _READS or any(_reads(inner) for inner in inner_programs(equation))
        for equation in program.eqns
    )
