"""Keys of JAX from what a user gives: a seed, or a key of the old or the new kind."""

import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key


def checked_seed(seed: Any, name: str = "seed") -> int:
    """A seed as a number of Python; raise unless it is a whole number that JAX tells from all others.

    JAX takes the lowest 32 bits of a seed, 64 in double precision: seeds that differ in higher bits alone
    would give the same draws. A negative seed would give those of a positive one, -1 those of 2³² - 1.
    """
    bits = 64 if jax.config.values["jax_enable_x64"] else 32
    most = 2**63 - 1 if bits == 64 else 2**32 - 1
    try:
        number = operator.index(seed) if not isinstance(seed, bool | np.bool_) else None
    except TypeError:
        number = None
    if number is None or not 0 <= number <= most:
        raise ValueError(
            f"{name} must be a whole number of {bits} bits, from 0 to {most}, as in {name}=0; "
            f"{seed!r} was given."
        )
    return number


def key_of_seed(seed: object) -> Key[Array, ""]:
    """The key of a seed; raise as `checked_seed` does."""
    return jax.random.key(checked_seed(seed, "seed"))


def checked_key(key: Any) -> Key[Array, ""] | None:
    """A key of the new kind, made of one of the old kind; None stays."""
    is_array = isinstance(key, jax.Array | np.ndarray)
    if key is None or (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)):
        if key is not None and key.shape != ():
            raise ValueError(
                f"key must be one key of JAX, not keys of the shape {key.shape}: give one of them."
            )
        return key
    if is_array and key.dtype == jnp.uint32 and key.ndim == 1:
        wanted = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0))).shape
        if key.shape != wanted:
            raise ValueError(
                f"key has {key.shape[0]} numbers, but a key of JAX has {wanted[0]}: give jax.random.key(0)."
            )
        return jax.random.wrap_key_data(jnp.asarray(key))
    raise TypeError(f"key must be a JAX key, such as jax.random.key(0), not {key!r}; for a number give seed.")
