"""The base of everything in the library that is both an object and a tree of arrays."""

from typing import TYPE_CHECKING

import equinox as eqx


class Module(eqx.Module):
    """An Equinox module whose methods are plain Python methods.

    Equinox makes a bound method a tree of arrays, which cannot be hashed, and so `jax.jit(sampler.step)` and
    `jax.jit(dynamics.drift)` would fail. Nothing here passes a method as an argument of a jitted function.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__
