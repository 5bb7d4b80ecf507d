"""Packing many small arrays into a few larger ones: in a loop, each changing array costs a kernel."""

from typing import Any

import jax
import jax.numpy as jnp
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
