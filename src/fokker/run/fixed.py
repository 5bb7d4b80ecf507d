"""Entries of theta that are constant by construction, such as the diagonal of a correlation matrix."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fokker._core.labels import named_leaves
from fokker.targets.target import Target

# Where they are looked for: near 0, and far out on both sides, as a bound that is large hides small changes.
_SCALES = (1.0, 1.0, 30.0, -30.0)
# Of a larger theta they are not looked for.
_MOST_SCALARS = 2**18


def fixed_entries(target: Target | None, theta: PyTree[Any]) -> dict[str, np.ndarray]:
    """Where they are in each leaf of theta that has some, by the name of the leaf: those that no y changes.

    `theta`: a tree of its shapes. They are the entries that are the same at some random y.
    """
    if not isinstance(target, Target) or not target.is_constrained:
        return {}
    if sum(leaf.size for leaf in jax.tree.leaves(theta)) > _MOST_SCALARS:
        return {}
    like = jax.eval_shape(target.unconstrain, theta)
    first, *others = (_at_random(target, like, seed, scale) for seed, scale in enumerate(_SCALES))
    masks = {
        name: np.logical_and.reduce([np.asarray(x == other[name]) for other in others])
        for name, x in first.items()
    }
    return {name: mask for name, mask in masks.items() if mask.any()}


def _at_random(target: Target, like: PyTree[Any], seed: int, scale: float) -> dict[str, Array]:
    leaves, structure = jax.tree.flatten(like)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    y = [scale * jax.random.normal(key, x.shape, x.dtype) for key, x in zip(keys, leaves, strict=True)]
    y = y if abs(scale) == 1 else [jnp.copysign(x, scale) for x in y]
    # Of its values alone: the data of the target are no part of the program.
    theta = jax.jit(lambda y: target.constrain(y))(jax.tree.unflatten(structure, y))
    return {name: jnp.asarray(x) for name, x in named_leaves(theta).items()}
