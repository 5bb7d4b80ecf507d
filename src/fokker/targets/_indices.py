"""Indices from columns of the data, beyond the end of an array: JAX takes another entry in their place."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.experimental import checkify
from jax.extend.core import Jaxpr
from jaxtyping import Array, PyTree

from fokker._core.labels import shapes_of
from fokker.rows import is_source, leaves, span
from fokker.targets._integers import inner_programs, is_integer

_READS = {"gather", "dynamic_slice"}
# What checkify raises of programs that it does not know, such as `jax.checkpoint` in JAX 0.10: the likelihood
# itself has been computed before.
_UNKNOWN = (ValueError, NotImplementedError)


def check_indices(
    function: Callable[..., Any], theta: PyTree[Array], datum: PyTree[Array], data: PyTree[Any]
) -> None:
    """Raise where `function(theta, datum)` reads beyond the end of an array by an integer of the data.

    It looks at the rows with the smallest and the largest number of each column of integers in memory, and
    at no likelihood with a part that checkify does not know.
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
                "or limit an index that is not used, as in jnp.minimum(i, 2)."
            )


@eqx.filter_jit
def _error(function: Callable[..., Any], theta: PyTree[Array], datum: PyTree[Array]) -> checkify.Error:
    return checkify.checkify(function, errors=checkify.index_checks)(theta, datum)[0]


def _reads(program: Jaxpr) -> bool:
    """Whether a program reads entries of arrays by numbers that it computes."""
    return any(
        equation.primitive.name in _READS or any(_reads(inner) for inner in inner_programs(equation))
        for equation in program.eqns
    )
