"""Which words of which keys a step asks for.

`jax.debug_key_reuse` does not see the Threefry that the library writes in line: here every word that is asked
for is noted where it is made, by the library or by JAX.
"""

import functools
import math
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import quick_jit
from fokker._core import count as _count
from fokker._core import random as _random


class Words:
    """How often each word was made: (key, counter), a counter of Threefry being two words itself."""

    def __init__(self, patch):
        self.seen = Counter()
        inline, outer = quick_jit(_random.threefry), self

        def threefry(key, first, second):
            outer.note(*key, first, second)
            return inline(key, first, second)

        for module in (_random, _count):
            patch.setattr(module, "threefry", threefry)
        for name, counters in JAX.items():
            patch.setattr(jax.random, name, outer.noting(getattr(jax.random, name), counters))

    def note(self, *words):
        jax.debug.callback(self.count, *words)

    def count(self, *words):
        self.seen.update(zip(*(w.ravel().tolist() for w in np.broadcast_arrays(*words)), strict=True))

    def noting(self, function, counters):
        @functools.wraps(function)
        def noted(key, *arguments, **options):
            data = jax.random.key_data(key)
            numbers = jnp.asarray(counters(*arguments, **options), jnp.uint32)
            self.note(data[..., 0], data[..., 1], jnp.zeros_like(numbers), numbers)
            # A function of JAX that calls others uses their words, which are not noted a second time.
            with pytest.MonkeyPatch.context() as patch:
                for name, own in ORIGINALS.items():
                    patch.setattr(jax.random, name, own)
                return function(key, *arguments, **options)

        return noted

    def repeated(self):
        jax.effects_barrier()
        assert self.seen
        return {word: times for word, times in self.seen.items() if times > 1}


def _of_shape(shape=(), *_, **__):
    return np.arange(math.prod(shape))


# Which counters of its key a function of JAX uses.
JAX = {
    "bits": _of_shape,
    "exponential": _of_shape,
    "fold_in": lambda number: number,
    "normal": _of_shape,
    "permutation": lambda *_, **__: np.arange(2),
    "randint": lambda *_, **__: np.arange(2),
    "split": lambda number=2: np.arange(math.prod(np.atleast_1d(number))),
    "uniform": _of_shape,
}
ORIGINALS = {name: getattr(jax.random, name) for name in JAX}
