"""Packing many small arrays into a few larger ones: in a loop, each changing array costs a kernel."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree


def pack(tree: PyTree[Array]) -> tuple[Array, ...]:
    """Leaves of the same shape and type, stacked; the groups are in order of first occurrence."""
    groups: dict[Any, list[Array]] = {}
    for leaf in jax.tree.leaves(tree):
        groups.setdefault((leaf.shape, leaf.dtype), []).append(leaf)
    return tuple(jnp.stack(leaves) if len(leaves) > 1 else leaves[0] for leaves in groups.values())


def unpack(packed: tuple[Array, ...], like: PyTree[Any]) -> PyTree[Array]:
    """The inverse of `pack`; `like` has the structure, shapes and types of the tree."""
    leaves, structure = jax.tree.flatten(like)
    kinds = [(leaf.shape, leaf.dtype) for leaf in leaves]
    groups = dict(zip(dict.fromkeys(kinds), packed, strict=True))
    rows = {kind: iter(groups[kind]) if kinds.count(kind) > 1 else iter([groups[kind]]) for kind in groups}
    return jax.tree.unflatten(structure, [next(rows[kind]) for kind in kinds])


# More numbers than this are not moved for the sake of one kernel.
_MOST_WORDS = 1024


def can_join(like: PyTree[Any]) -> bool:
    """Whether the leaves of a tree, whose first axis runs over chains, are few numbers of at most 32 bits."""
    leaves = jax.tree.leaves(like)
    few = sum(math.prod(x.shape[1:]) for x in leaves) <= _MOST_WORDS
    return few and all(x.dtype == bool or x.dtype in (jnp.float32, jnp.int32, jnp.uint32) for x in leaves)


def join_words(tree: PyTree[Array], axes: int) -> Array:
    """All leaves in one array: their first `axes` axes, and one of their words, as float32 bit by bit."""

    def words(x: Array) -> Array:
        x = x.astype(jnp.int32) if x.dtype == bool else x
        return jax.lax.bitcast_convert_type(x, jnp.float32).reshape(*x.shape[:axes], -1)

    return jnp.concatenate([words(x) for x in jax.tree.leaves(tree)], axis=axes)


def split_words(joined: Array, like: PyTree[Any], axes: int) -> PyTree[Array]:
    """The inverse of `join_words`; `like` has the shapes without the first axes, and the types."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([math.prod(x.shape) for x in leaves])[:-1]

    def leaf(x: Array, like: Any) -> Array:
        x = x.reshape(*joined.shape[:axes], *like.shape)
        if like.dtype == bool:
            return jax.lax.bitcast_convert_type(x, jnp.int32) != 0
        return jax.lax.bitcast_convert_type(x, like.dtype)

    parts = jnp.split(joined, ends, axis=axes)
    return jax.tree.unflatten(structure, [leaf(x, y) for x, y in zip(parts, leaves, strict=True)])
