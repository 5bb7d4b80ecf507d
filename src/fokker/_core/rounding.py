r"""Theta in half precision: what a step computes is in single precision, what it leaves is rounded at random.

bfloat16 has 8 bits and float16 has 11: a step below 2⁻⁹ (2⁻¹²) of theta is lost when it is rounded to the
nearest, and the chain stands still. Rounded up with probability p = (x - ⌊x⌋)/u, u the distance between the
numbers beside x, it is right on average, E[round(x)] = x, at the price of noise of variance u²p(1 - p): u²/6
where p is uniform.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt16

from fokker._core.random import bits, split

_HALF = (jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float16))

# The random bits of every leaf in half precision, in the order of the leaves.
Rounding = tuple[UInt16[Array, "..."], ...]


def is_half(leaf: Any) -> bool:
    """Whether an array is of bfloat16 or float16."""
    return getattr(leaf, "dtype", None) in _HALF


def raised(tree: PyTree[Any]) -> PyTree[Any]:
    """The tree with its leaves of half precision in single precision, all others as they are."""
    return jax.tree.map(lambda x: x.astype(jnp.float32) if is_half(x) else x, tree)


def lowered(tree: PyTree[Array], like: PyTree[Any]) -> PyTree[Array]:
    """The inverse of `raised`: rounded to the nearest where it is not exact."""
    return jax.tree.map(lambda x, y: x.astype(y.dtype) if is_half(y) else x, tree, like)


def draw_rounding(key: Key[Array, ""] | None, like: PyTree[Any]) -> Rounding:
    """Random bits to round a tree like this one with; none, and no key, where nothing is to be rounded."""
    halves = [x for x in jax.tree.leaves(like) if is_half(x)]
    if not halves:
        return ()
    assert key is not None
    keys = [key] if len(halves) == 1 else list(split(key, len(halves)))
    drawn = (bits(k, x.shape) >> np.uint32(16) for k, x in zip(keys, halves, strict=True))
    return tuple(x.astype(jnp.uint16) for x in drawn)


def rounded(tree: PyTree[Array], like: PyTree[Any], rounding: Rounding) -> PyTree[Array]:
    """The tree in the types of `like`, half precision by the random bits."""
    left = iter(rounding)
    return jax.tree.map(
        lambda x, y: stochastic_round(x, next(left), y.dtype) if is_half(y) else x, tree, like
    )


def stochastic_round(x: Array, random_bits: Array, dtype: Any) -> Array:
    """x of float32 as one of the two numbers beside it; exact in expectation over the 2¹⁶ values of the bits.

    What is too large for the type becomes infinite, for the step to be found not finite.
    """
    drop = jnp.finfo(jnp.float32).nmant - jnp.finfo(dtype).nmant
    tiny = np.float32(jnp.finfo(dtype).tiny)
    size = jnp.abs(x)
    # Below its least normal number a type has even spacing, that of the numbers from there up to twice it.
    small = size < tiny
    words = jax.lax.bitcast_convert_type(jnp.where(small, size + tiny, size), jnp.uint32)
    words = words + (random_bits >> np.uint16(16 - drop)).astype(jnp.uint32)
    size = jax.lax.bitcast_convert_type(words & np.uint32(2**32 - 2**drop), jnp.float32)
    size = jnp.where(small, size - tiny, size)
    return jnp.where(jnp.isfinite(x), jnp.copysign(size, x), x).astype(dtype)
