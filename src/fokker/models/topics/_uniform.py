"""Random numbers inside compiled loops: SplitMix64 streams, seeded from a JAX key.

The state of a stream is 64 bits; each function takes it and returns the next one. Streams of different (seed,
index) are independent, so the draws of a document or a word do not depend on the threads or their order.
"""

import math
from typing import Any

import jax
import numba
import numpy as np
from jaxtyping import Array, Key

from fokker._core.count import Count
from fokker._core.random import bits, fold_in

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_TO_UNIT = np.float32(2.0**-24)
_TO_UNIT_DOUBLE = 2.0**-53

compiled = numba.njit(nogil=True, cache=True, inline="always")


@jax.jit
def _words(key: Key[Array, ""], high: Array, low: Array) -> Array:
    return bits(fold_in(key, Count(high, low)), (2,))


def seed_at(key: Key[Array, ""], number: int) -> np.uint64:
    """64 bits that depend on (key, number) alone."""
    # Numbers of NumPy: to make arrays of JAX first takes as long as many draws.
    halves = np.uint32(number >> 32), np.uint32(number & (2**32 - 1))
    high, low = np.asarray(_words(key, *halves)).astype(np.uint64)
    return np.uint64(high << np.uint64(32) | low)


@compiled
def mix(x: np.uint64) -> Any:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@compiled
def stream(seed: np.uint64, index: int) -> Any:
    """The initial state of the stream of one document or word."""
    return mix(seed ^ mix((np.uint64(index) + np.uint64(1)) * _GOLDEN))


@compiled
def stream_of_topic(word_state: np.uint64, topic: int) -> Any:
    """The initial state of the stream of a word and a topic, given that of the word."""
    return mix(word_state + np.uint64(topic + 1) * _GOLDEN)


def streams(seed: np.uint64, indices: np.ndarray) -> np.ndarray:
    """`stream` for many indices (uint64) at once."""
    numbers = (indices.astype(np.uint64) + np.uint64(1)) * _GOLDEN
    return np.asarray(mix.py_func(seed ^ mix.py_func(numbers)))


@compiled
def uniform(state: np.uint64) -> Any:
    """The next state, and a number in [0, 1) on a grid of 2⁻²⁴."""
    state = state + _GOLDEN
    return state, np.float32(np.int64(mix(state) >> np.uint64(40))) * _TO_UNIT


@compiled
def uniform_double(state: np.uint64) -> Any:
    """The next state, and a number in (0, 1) of 53 bits, whose logarithm is finite."""
    state = state + _GOLDEN
    return state, (np.float64(np.int64(mix(state) >> np.uint64(11))) + 0.5) * _TO_UNIT_DOUBLE


@compiled
def normal(state: np.uint64) -> Any:
    """The state after two steps, and a standard normal (Box and Muller 1958)."""
    state, u = uniform_double(state)
    state, v = uniform_double(state)
    return state, math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
