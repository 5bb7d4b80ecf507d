"""Threefry, the generator behind JAX's default keys, as one kernel without loops."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


@jax.jit  # its hundred operations are traced once for each shape, not at each call
def threefry(key: tuple[Array, Array], first: Array, second: Array) -> tuple[Array, Array]:
    """Two random words for two counters (Salmon et al. 2011, Threefry-2x32 with 20 rounds)."""
    keys = (*key, key[0] ^ key[1] ^ _PARITY)
    a, b = first + keys[0], second + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            a = a + b
            b = (b << np.uint32(rotation)) | (b >> np.uint32(32 - rotation))
            b = a ^ b
        a = a + keys[(group + 1) % 3]
        b = b + keys[(group + 2) % 3] + np.uint32(group + 1)
    return a, b


def is_threefry(key: Key[Array, "..."]) -> bool:
    """Whether a key is of JAX's default kind."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    partitionable = getattr(
        jax.config, "jax_threefry_partitionable", True
    )  # else JAX orders its counters differently
    return bool(typed and partitionable and str(jax.random.key_impl(key)) == "threefry2x32")


def halves(key: Key[Array, ""]) -> tuple[Array, Array]:
    """The two words of a key."""
    data = jax.random.key_data(key)
    return data[..., 0], data[..., 1]
