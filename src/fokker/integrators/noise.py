r"""Unit noise for an integrator: mean 0, variance 1, and as many further moments of a Gaussian as it needs.

| kind | values | moments matched | weak order kept |
| --- | --- | --- | --- |
| `gaussian` | ℝ | all | any |
| `three-point` | ±√3 with probability 1/6 each, else 0 | 5 | 2 |
| `two-point` | ±1 | 3 | 1 |
| `binomial` | a count of 32 random bits, centred and scaled | 3, and a kurtosis of 3 - 2/32 | 1, nearly 2 |

A weak integrator of order 1 needs three moments, one of order 2 needs five: cheaper noise then leaves the
order of the bias as it is, not its size. Drawing Gaussians is most of the cost of a step in high dimensions.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Key, PyTree

from fokker._core.names import nearest
from fokker._core.random import bits as random_bits
from fokker._core.random import normal, split


def _gaussian(key: Key[Array, ""], shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    return normal(key, shape, dtype)


def _words(key: Key[Array, ""], count: int) -> Array:
    """Random words, computed once and not again at each use."""
    return jax.lax.optimization_barrier(random_bits(key, (count, 1)))


def _two_point(key: Key[Array, ""], shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    # One bit per value: `jax.random.rademacher` uses 32.
    count = math.prod(shape)
    bits = _words(key, -(-count // 32)) >> jnp.arange(32, dtype=jnp.uint32)[None, :] & 1
    return (2 * bits.reshape(-1)[:count].astype(jnp.int8) - 1).astype(dtype).reshape(shape)


def _three_point(key: Key[Array, ""], shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    # The first eight digits of a random word as a fraction in base six: 0 is up, 1 is down. A digit is made
    # of the top 16 bits of word·6ᵏ; 65536/6 is not whole: the size of the jump corrects the variance.
    count = math.prod(shape)
    powers = jnp.asarray([6**k for k in range(8)], jnp.uint32)
    digits = (_words(key, -(-count // 8)) * powers[None, :] >> 16) * 6 >> 16
    jump = math.sqrt(65536 / (2 * 10923))
    values = jnp.where(digits == 0, jump, jnp.where(digits == 1, -jump, 0.0))
    return values.reshape(-1)[:count].astype(dtype).reshape(shape)


def _binomial(key: Key[Array, ""], shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    ones = jax.lax.population_count(random_bits(key, shape))
    return ((ones.astype(jnp.int32) - 16) / math.sqrt(8)).astype(dtype)


NOISES: dict[str, Callable[..., Array]] = {
    "binomial": _binomial,
    "gaussian": _gaussian,
    "three-point": _three_point,
    "two-point": _two_point,
}


def check_noise(kind: str) -> None:
    """Raise unless `kind` is one of the noises."""
    if kind not in NOISES:
        raise ValueError(f"noise is one of {', '.join(NOISES)}, not {kind!r}.{nearest(kind, list(NOISES))}")


def draw_like(kind: str, key: Key[Array, ""], like: PyTree[Any]) -> PyTree[Array]:
    """Independent unit noise in the structure and shapes of `like`."""
    shapes, structure = jax.tree.flatten(like)
    keys = [key] if len(shapes) == 1 else list(split(key, len(shapes)))
    drawn = [NOISES[kind](k, s.shape, s.dtype) for k, s in zip(keys, shapes, strict=False)]
    return jax.tree.unflatten(structure, drawn)
