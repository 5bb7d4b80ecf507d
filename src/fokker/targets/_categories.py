"""Which axes of parameters a likelihood indexes by a column of categories, as in theta["a"][row["city"]]."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.labels import AXES, Labels, named_leaves
from fokker.rows import categories_of, span, stream_of

# Rows that are looked at, and the most derivatives that are computed.
_ROWS, _MOST = 4, 2**24
# Theta is moved inwards by up to this share, or from 0: where parameters are all 0, products of them have no
# derivative.
_MOVED = 0.01
# What tracing a likelihood at a theta that does not fit raises: the checks of the start say it in words.
_NOT_EVALUATED = (TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError)


def axes_of_categories(
    log_likelihood: Callable[..., Any], theta: PyTree[Array], data: PyTree[Any], labels: Labels
) -> Labels:
    """The labels of a posterior, with the categories along the axes that they index.

    An axis is indexed by a column if, for each category in turn, the likelihood of a row has a derivative
    along the entry of that number, and along no other. Axes that the user has named stay as they are.
    """
    categories = categories_of(data)
    if not categories or stream_of(data) is not None:
        return labels
    names = named_leaves(theta)
    dims, coords = dict(labels.dims), dict(labels.coords)
    for place, (column, texts) in categories.items():
        axis = column if column not in names and column not in AXES else f"{column}_level"
        if len(coords.get(axis, texts)) != len(texts) or not _is_small(theta, texts):
            continue
        for name, number in _indexed(log_likelihood, theta, data, place, texts):
            if name in labels.dims:
                continue
            axes = list(dims.get(name, (None,) * np.ndim(names[name])))
            axes[number] = axis
            dims[name] = tuple(axes)
            coords.setdefault(axis, np.array(texts))
    return labels if dims == labels.dims else Labels.checked(dims, coords)


def _is_small(theta: PyTree[Array], texts: Sequence[str]) -> bool:
    size = sum(np.size(x) for x in jax.tree.leaves(theta))
    return len(texts) > 1 and len(texts) * size * _ROWS <= _MOST


def _indexed(
    log_likelihood: Callable[..., Any],
    theta: PyTree[Array],
    data: PyTree[Any],
    place: int,
    texts: Sequence[str],
) -> Iterator[tuple[str, int]]:
    """The names of parameters, and the number of their axis that a column of categories indexes."""
    rows, structure = jax.tree.flatten(span(data, 0, _ROWS))
    levels = jnp.arange(len(texts), dtype=rows[place].dtype)

    def sizes(level: Array) -> PyTree[Array]:
        """The largest derivative of the rows along each scalar, with this category in all of them."""
        of_level = [jnp.full_like(x, level) if i == place else x for i, x in enumerate(rows)]

        def one(leaves: list[Array]) -> PyTree[Array]:
            return jax.grad(lambda t: log_likelihood(t, jax.tree.unflatten(structure, leaves)))(_moved(theta))

        return jax.tree.map(lambda x: jnp.max(jnp.abs(x), axis=0), jax.vmap(one)(of_level))

    try:
        derivatives = named_leaves(jax.jit(jax.vmap(sizes))(levels))
    except _NOT_EVALUATED:
        return
    for name, values in derivatives.items():
        axes = [i for i, n in enumerate(values.shape[1:]) if n == len(texts) and _is_diagonal(values, i)]
        if len(axes) == 1:
            yield name, axes[0]


def _is_diagonal(derivatives: Array, axis: int) -> bool:
    """Whether, of derivatives level × …, those of each level are along its own entry of an axis alone."""
    moved = np.moveaxis(np.asarray(derivatives, float), axis + 1, 1)
    sizes = moved.reshape(*moved.shape[:2], -1).max(axis=-1)
    own = np.diagonal(sizes)
    return bool(np.isfinite(sizes).all() and (own > 0).all() and np.count_nonzero(sizes) == len(own))


def _moved(theta: PyTree[Array]) -> PyTree[Array]:
    leaves, structure = jax.tree.flatten(theta)
    shares = [
        jax.random.uniform(jax.random.fold_in(jax.random.key(0), i), x.shape, x.dtype, _MOVED / 10, _MOVED)
        for i, x in enumerate(leaves)
    ]
    moved = [jnp.where(x == 0, u, x * (1 - u)) for x, u in zip(leaves, shares, strict=True)]
    return jax.tree.unflatten(structure, moved)
