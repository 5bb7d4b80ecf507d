"""Pseudorandom permutations that are evaluated entry by entry."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from fokker._core.random import bits

# With six rounds, pairs of rows are measurably uneven for N below 100; with eight they are not.
_ROUNDS = 8
# Up to this many rows the network's halves have too few bits to mix: use a stored permutation.
_STORED_PERMUTATION = 64


def permuted(key: Key[Array, ""], places: Array, size: int, number: Array | None = None) -> Int[Array, " n"]:
    """Entries `places` of the pseudorandom permutation of 0 … size - 1 that belongs to the key.

    With `number`, one for each place, the key has many permutations, of which these are the numbers.

    Arguments:

    - `key`: of the permutation.
    - `places`: entries that are wanted.
    - `size`: how many numbers are permuted.
    - `number`: of the permutation, one for each place; None for the first.

    Returns the numbers at these places.

    ```python
    first = fk.batches.permuted(jax.random.key(0), jnp.arange(10), 1000)
    ```
    """
    tweak = jnp.uint32(0) if number is None else _mix(number.astype(jnp.uint32) + jnp.uint32(1))
    if size <= _STORED_PERMUTATION:
        turned = (places.astype(jnp.uint32) + tweak % jnp.uint32(size)) % jnp.uint32(size)
        return jax.random.permutation(key, size)[turned].astype(jnp.int32)
    round_keys = bits(key, (_ROUNDS,))
    half = ((size - 1).bit_length() + 1) // 2
    mask = jnp.uint32((1 << half) - 1)

    def scramble(x: Array) -> Array:
        left, right = x >> half, x & mask
        for k in range(_ROUNDS):
            left, right = right, left ^ (_mix(right ^ round_keys[k] ^ tweak) & mask)
        return (left << half) | right

    # The network permutes a power of four: entries that are too large are permuted again until they fit.
    def scramble_if_outside(x: Array) -> Array:
        return jnp.where(x >= size, scramble(x), x)

    first = scramble(places.astype(jnp.uint32))
    inside = jax.lax.while_loop(lambda x: jnp.any(x >= size), scramble_if_outside, first)
    return inside.astype(jnp.int32)


def _mix(x: Array) -> Array:
    """A 32-bit integer hash (multiply and shift); each output bit depends on every input bit."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
