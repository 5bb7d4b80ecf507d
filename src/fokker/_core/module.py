"""The base class of the objects in the library that are also trees of arrays."""

from typing import TYPE_CHECKING

import equinox as eqx


class Module(eqx.Module):
    """An Equinox module whose methods are plain Python methods.

    In Equinox a bound method is a tree of arrays, which cannot be hashed, so that `jax.jit(sampler.step)` and
    `jax.jit(dynamics.drift)` would fail. The library passes no method as an argument of a jitted function.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__
