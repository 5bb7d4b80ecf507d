"""Functions of theta at every draw of a run, in compiled batches of bounded memory."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

# The most numbers of theta per batch, and the most draws.
_NUMBERS, _MOST = 2**24, 4096


def shape_of_draws(draws: PyTree[Any]) -> tuple[int, int]:
    """The numbers of chains and of draws per chain."""
    chains, number = jax.tree.leaves(draws)[0].shape[:2]
    return chains, number


def scalars_per_draw(draws: PyTree[Any]) -> int:
    """The number of scalars of one draw."""
    return sum(math.prod(leaf.shape[2:]) for leaf in jax.tree.leaves(draws))


def with_draw_keys(draws: PyTree[Any], key: Key[Array, ""]) -> tuple[PyTree[Any], np.ndarray]:
    """The draws, and data of a key for each."""
    chains, number = shape_of_draws(draws)
    keys = jax.random.key_data(jax.random.split(key, chains * number))
    return draws, np.asarray(keys).reshape(chains, number, -1)


def draws_per_batch(draws: PyTree[Any]) -> int:
    """How many draws fit into a batch, or fewer if there are fewer."""
    chains, number = shape_of_draws(draws)
    return max(1, min(_MOST, _NUMBERS // max(1, scalars_per_draw(draws)), chains * number))


def batches_of_draws(
    draws: PyTree[Any], batch: int, places: np.ndarray | None = None
) -> Iterator[tuple[slice, PyTree[np.ndarray]]]:
    """Batches of draws without the axis of chains, each with its place among all (chain by chain).

    All have the same size, so that one program serves them: the last one repeats its last draw. `places` are
    the draws to take of each chain; all of them by default.
    """
    chains, number = shape_of_draws(draws)
    places = np.arange(number) if places is None else places
    total = chains * len(places)
    for first in range(0, total, batch):
        index = np.minimum(np.arange(first, first + batch), total - 1)
        chain, draw = index // len(places), places[index % len(places)]
        rows = jax.tree.map(lambda x, c=chain, n=draw: np.asarray(x)[c, n], draws)
        yield slice(first, min(first + batch, total)), rows


def at_draws(
    function: Callable[..., PyTree[Array]], draws: PyTree[Any], *arguments: PyTree[Array]
) -> PyTree[np.ndarray]:
    """`function(theta, *arguments)` at every draw, one after the other; leading axes chain and draw."""
    chains, number = shape_of_draws(draws)
    parts = []
    for place, rows in batches_of_draws(draws, draws_per_batch(draws)):
        values = _one_by_one(function, rows, arguments)
        parts.append(jax.tree.map(lambda x, p=place: np.asarray(x)[: p.stop - p.start], values))
    return jax.tree.map(lambda *xs: np.concatenate(xs).reshape(chains, number, *xs[0].shape[1:]), *parts)


@eqx.filter_jit
def _one_by_one(
    function: Callable[..., PyTree[Array]], rows: PyTree[Array], arguments: tuple[Any, ...]
) -> PyTree[Array]:
    return jax.lax.map(lambda theta: function(theta, *arguments), rows)
