"""Randomness is used once: what `key_words` notes, and that it would find a key that is used twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fokker._core import random as _random
from key_words import Words

pytestmark = pytest.mark.dependencies


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


@pytest.mark.timeout(100)  # where the two are compiled into one kernel, that takes hours
@pytest.mark.parametrize(("count", "size"), [(3, 1), (4, 1), (8, 2)])
def test_what_many_keys_draw_compiles_and_is_that_of_jax(count, size, optimised):
    def draw(random, *dtype):
        return jax.jit(
            jax.vmap(
                lambda key: jax.vmap(lambda k: random.normal(k, (size,), *dtype))(random.split(key, count))
            )
        )

    keys = jax.random.split(jax.random.key(0), 64)
    assert np.allclose(draw(_random, jnp.float32)(keys), draw(jax.random)(keys), rtol=1e-6)
