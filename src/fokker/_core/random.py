"""The same random numbers as JAX, bit by bit, from code that compiles thirty times faster on a CPU.

On a CPU JAX lowers Threefry to loops over arrays, which take XLA seconds to compile and pass over memory many
times. Written without loops it is one kernel. Keys of other kinds than JAX's default go to `jax.random`.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Key

from fokker._core.count import Count, Countable
from fokker._core.parts import number_of_shares
from fokker._core.threefry import halves, is_threefry, threefry


def fold_in(key: Key[Array, ""], number: Countable) -> Key[Array, ""]:
    """`jax.random.fold_in`, also for numbers from 2³² on, which JAX would reduce modulo 2³²."""
    return Count.of(number).fold_into(key)


def fold_in_step(key: Key[Array, ""], number: Countable, reserved: int) -> Key[Array, ""]:
    """`fold_in` for steps, where `fold_in(key, reserved)` is the key of another stream.

    The step with number `reserved` uses 2⁶⁴ - 1 instead, which no run reaches.
    """
    count = Count.of(number)
    last = np.uint32(2**32 - 1)
    words = (jnp.where(count == reserved, last, word) for word in (count.high, count.low))
    return fold_in(key, Count(*words))


def split(key: Key[Array, ""], count: int = 2) -> Key[Array, " count"]:
    """`jax.random.split`."""
    if not is_threefry(key):
        return jax.random.split(key, count)
    numbers = jnp.arange(count, dtype=jnp.uint32)
    words = jnp.stack(threefry(halves(key), jnp.zeros_like(numbers), numbers), axis=-1)
    if count > 2:
        # XLA of JAX 0.11 and later fuses these words into what is drawn from them, in another layout. It then
        # writes each of the rounds out twice, and twice again what that one reads: 2⁴⁰ instructions.
        words = jax.lax.optimization_barrier(words)
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def bits(key: Key[Array, ""], shape: tuple[int, ...]) -> Array:
    """`jax.random.bits`, 32 bits per entry."""
    count = math.prod(shape)
    if not is_threefry(key) or count >= 2**32:
        return jax.random.bits(key, shape, jnp.uint32)
    numbers = _places(shape)
    first, second = threefry(halves(key), jnp.zeros_like(numbers), numbers)
    return first ^ second


def _places(shape: tuple[int, ...]) -> Array:
    """0, 1, … in the order of memory."""
    if number_of_shares() == 1:
        return jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    # A device makes those of its own part of the array, along whichever axis that is divided.
    strides = [np.uint32(math.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    places = (jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * s for axis, s in enumerate(strides))
    return sum(places, jnp.zeros(shape, jnp.uint32))


def uniform(
    key: Key[Array, ""], shape: tuple[int, ...], dtype: DTypeLike, low: float = 0.0, high: float = 1.0
) -> Array:
    """`jax.random.uniform`."""
    dtype = jnp.dtype(dtype)
    if dtype not in (jnp.float32, jnp.float64) or not is_threefry(key) or math.prod(shape) >= 2**32:
        return jax.random.uniform(key, shape, dtype, low, high)
    lowest, highest = dtype.type(low), dtype.type(high)
    if dtype == jnp.float32:
        mantissas = (bits(key, shape) >> np.uint32(9)) | np.uint32(0x3F800000)
    else:
        numbers = _places(shape)
        words = (x.astype(jnp.uint64) for x in threefry(halves(key), jnp.zeros_like(numbers), numbers))
        mantissas = (next(words) << np.uint64(32)) | next(words)
        mantissas = (mantissas >> np.uint64(12)) | np.uint64(0x3FF0000000000000)
    values = jax.lax.bitcast_convert_type(mantissas, dtype) - dtype.type(1)
    return jnp.maximum(lowest, values * (highest - lowest) + lowest)


def normal(key: Key[Array, ""], shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """`jax.random.normal`."""
    dtype = jnp.dtype(dtype)
    if dtype not in (jnp.float32, jnp.float64) or not is_threefry(key):
        return jax.random.normal(key, shape, dtype)
    lowest = float(np.nextafter(dtype.type(-1), dtype.type(0)))
    # As one vector: a CPU computes rows of ten numbers five times slower. One that is divided among devices
    # along any axis but the first would be computed on all of them.
    vector = shape if number_of_shares() > 1 else (math.prod(shape),)
    values = uniform(key, vector, dtype, lowest, 1.0)
    return (dtype.type(math.sqrt(2)) * jax.lax.erf_inv(values)).reshape(shape)


def randint(key: Key[Array, ""], shape: tuple[int, ...], size: int) -> Array:
    """`jax.random.randint` of 0 … size - 1."""
    if not is_threefry(key) or size >= 2**31:
        return jax.random.randint(key, shape, 0, size)
    high_key, low_key = split(key)
    span = np.uint32(size)
    # 2³² modulo the size as JAX computes it, whose square wraps around.
    remainder = np.uint32((2**16 % size) ** 2 % 2**32 % size)
    offset = (bits(high_key, shape) % span) * remainder + bits(low_key, shape) % span
    return (offset % span).astype(jnp.int32)


def uniforms_at(words: Array, counter: Array, dtype: DTypeLike) -> tuple[Array, Array]:
    """Two uniform numbers in [0, 1) for a counter, from the two words of a key."""
    number = counter.astype(jnp.uint32)
    random_words = threefry((words[0], words[1]), jnp.zeros_like(number), number)
    first, second = (
        (word >> np.uint32(8)).astype(dtype) * jnp.asarray(2.0**-24, dtype) for word in random_words
    )
    return first, second
