"""Randomness is used once: no two numbers of a step come from the same word of the same key.

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

import fokker as fk
from conftest import quick_jit
from every_sampler import EVERY, TARGET, THETA, placed, started
from fokker import samplers
from fokker._core import random as _random

pytestmark = pytest.mark.usefixtures("quickly")


class Words:
    """How often each word was made: (key, counter), a counter of Threefry being two words itself."""

    def __init__(self, patch):
        self.seen = Counter()
        inline, outer = quick_jit(_random.threefry), self

        def threefry(key, first, second):
            outer.note(*key, first, second)
            return inline(key, first, second)

        patch.setattr(_random, "threefry", threefry)
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


def half():
    return {**THETA, "a": THETA["a"].astype(jnp.bfloat16)}


# Those that draw within a step.
WITHIN = ("gibbs", "mchmc", "mclmc")


@pytest.mark.parametrize("name", [*EVERY, "sgld in half precision", "psgld in half precision"])
def test_two_steps_use_every_word_of_a_key_once(name, monkeypatch):
    name, _, precision = name.partition(" in ")
    sampler = placed(name)
    # What is drawn depends on the shapes of a state alone.
    shapes = jax.eval_shape(lambda: started(sampler, half() if precision else THETA))
    state = jax.tree.map(lambda x: jnp.ones(x.shape, x.dtype), shapes)
    words = Words(monkeypatch)
    for number in range(2):
        key = _random.fold_in(jax.random.key(5), number)
        draws = sampler.draw(key, state)
        if name in WITHIN:
            with jax.disable_jit():
                sampler.advance(draws, state)
        if name == "sghmc":  # a new momentum
            sampler.family.auxiliaries(draws.key, THETA, 1.0)
    assert not words.repeated()


def test_a_probe_of_gamma_has_words_of_its_own(monkeypatch):
    sampler = samplers.recipe(fk.dynamics.underdamped(TARGET.potential), 0.1, gamma="estimate")
    state = samplers.SamplerState({"theta": THETA, "r": THETA}, jnp.zeros((), jnp.int32))
    words = Words(monkeypatch)
    sampler.draw(jax.random.key(0), state)
    assert not words.repeated()


def test_the_notes_find_a_key_that_is_used_twice(monkeypatch):
    """The negative control: one key for noise and momentum, by the library and by JAX."""
    words = Words(monkeypatch)
    key = jax.random.key(0)
    _random.normal(key, (3,), jnp.float32)
    assert not words.repeated()
    _random.split(key)
    assert len(words.repeated()) == 2
    for draw in (jax.random.normal, jax.random.uniform):
        draw(jax.random.key(1), (2,))
    assert len(words.repeated()) == 4


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("size", [1, 3, 100, 2**16, 2**16 + 1, 2**31 - 1])
def test_whole_numbers_are_those_of_jax(size, kind):
    key = jax.random.key(3, impl=kind)
    for shape in ((), (40,)):
        assert np.array_equal(_random.randint(key, shape, size), jax.random.randint(key, shape, 0, size))
