"""Entries of theta that are constant by construction, such as the diagonal of a correlation matrix."""

from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

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
    y = jax.tree.map(lambda *x: np.stack(x), *(_at_random(like, seed, x) for seed, x in enumerate(_SCALES)))
    # Of its values alone: the data of the target are no part of the program.
    some = named_leaves(jax.jit(jax.vmap(lambda y: target.constrain(y)))(y))
    masks = {name: np.all(np.asarray(x) == np.asarray(x)[0], axis=0) for name, x in some.items()}
    return {name: mask for name, mask in masks.items() if mask.any()}


def _at_random(like: PyTree[Any], seed: int, scale: float) -> PyTree[np.ndarray]:
    """A y of these shapes, in the host's memory."""
    rng = np.random.default_rng(seed)

    def leaf(x: jax.ShapeDtypeStruct) -> np.ndarray:
        y = scale * rng.standard_normal(x.shape)
        return (y if abs(scale) == 1 else np.copysign(y, scale)).astype(x.dtype)

    return jax.tree.map(leaf, like)
