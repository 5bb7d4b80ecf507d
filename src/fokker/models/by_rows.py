"""A function of draws and rows for many of both, with bounded memory."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

# The most rows of a compiled call, and the most numbers that it returns.
_ROWS, _NUMBERS = 1024, 2**22


@eqx.filter_jit
def _outputs(function: Callable[[PyTree[Array], Array], Any], draws: PyTree[Array], rows: Array) -> Any:
    return jax.lax.map(lambda draw: jax.vmap(lambda x: function(draw, x))(rows), draws)


def by_rows(
    function: Callable[[PyTree[Array], Array], Any], draws: PyTree[Array], X: np.ndarray
) -> Iterator[tuple[slice, Any]]:
    """`function(draw, x)` for all draws, along the first axis, and a slice of the rows, along the second.

    Every slice but the last has the same number of rows, and the last is filled up: one program is compiled.
    """
    number = jax.tree.leaves(draws)[0].shape[0]
    outputs = sum(x.size for x in jax.tree.leaves(_shape(function, draws, X)))
    rows = max(1, min(_ROWS, _NUMBERS // max(1, number * outputs), len(X)))
    for first in range(0, len(X), rows):
        part = X[first : first + rows]
        filled = np.concatenate([part, np.broadcast_to(part[:1], (rows - len(part), *part.shape[1:]))])
        values = _outputs(function, draws, jnp.asarray(filled))
        count = len(part)
        yield slice(first, first + count), jax.tree.map(lambda x, n=count: np.asarray(x)[:, :n], values)


def _shape(function: Callable[[PyTree[Array], Array], Any], draws: PyTree[Array], X: np.ndarray) -> Any:
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), draws)
    return eqx.filter_eval_shape(function, one, jax.ShapeDtypeStruct(X.shape[1:], X.dtype))
