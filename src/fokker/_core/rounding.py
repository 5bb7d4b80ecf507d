r"""Theta in half precision: a step is computed in single precision, and its result is rounded at random.

bfloat16 has 8 bits and float16 has 11. Rounding to nearest loses every step below 2⁻⁹ (2⁻¹²) of theta, so
that the chain stops moving. We round up with probability p = (x - ⌊x⌋)/u, where u is the distance between the
two neighbours of x. Then E[round(x)] = x, with added noise of variance u²p(1 - p), which is u²/6 for uniform
p.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Key, PyTree, UInt16

from fokker._core.random import bits, split

_HALF = (jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float16))

# The random bits of every leaf in half precision, in the order of the leaves.
Rounding = tuple[UInt16[Array, "..."], ...]


def is_half(leaf: object) -> bool:
    """Whether an array is in bfloat16 or float16."""
    return getattr(leaf, "dtype", None) in _HALF


def raised(tree: PyTree[Any]) -> PyTree[Any]:
    """The tree with its half-precision leaves in single precision and all others unchanged."""
    return jax.tree.map(lambda x: x.astype(jnp.float32) if is_half(x) else x, tree)


def lowered(tree: PyTree[Array], like: PyTree[Any]) -> PyTree[Array]:
    """The inverse of `raised`, with rounding to nearest."""
    return jax.tree.map(lambda x, y: x.astype(y.dtype) if is_half(y) else x, tree, like)


def draw_rounding(key: Key[Array, ""] | None, like: PyTree[Any]) -> Rounding:
    """Random bits for rounding a tree like this one; without half-precision leaves, no bits and no key."""
    halves = [x for x in jax.tree.leaves(like) if is_half(x)]
    if not halves:
        return ()
    assert key is not None
    keys = [key] if len(halves) == 1 else list(split(key, len(halves)))
    words = (bits(k, x.shape) >> np.uint32(16) for k, x in zip(keys, halves, strict=True))
    return tuple(x.astype(jnp.uint16) for x in words)


def rounded(tree: PyTree[Array], like: PyTree[Any], rounding: Rounding) -> PyTree[Array]:
    """The tree in the types of `like`; half-precision leaves are rounded by the random bits."""
    random_bits = iter(rounding)
    return jax.tree.map(
        lambda x, y: stochastic_round(x, next(random_bits), y.dtype) if is_half(y) else x, tree, like
    )


def stochastic_round(x: Array, random_bits: Array, dtype: DTypeLike) -> Array:
    """A float32 x rounded to one of its two neighbours; exact in expectation over the 2¹⁶ values of the bits.

    Values too large for the type become infinite; the step is then counted as not finite.
    """
    drop = jnp.finfo(jnp.float32).nmant - jnp.finfo(dtype).nmant
    tiny = np.float32(jnp.finfo(dtype).tiny)
    size = jnp.abs(x)
    # Below its smallest normal number `tiny`, a type has the same even spacing as between tiny and 2 tiny.
    small = size < tiny
    words = jax.lax.bitcast_convert_type(jnp.where(small, size + tiny, size), jnp.uint32)
    words = words + (random_bits >> np.uint16(16 - drop)).astype(jnp.uint32)
    size = jax.lax.bitcast_convert_type(words & np.uint32(2**32 - 2**drop), jnp.float32)
    size = jnp.where(small, size - tiny, size)
    return jnp.where(jnp.isfinite(x), jnp.copysign(size, x), x).astype(dtype)
