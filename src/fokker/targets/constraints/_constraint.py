"""The interface of a constraint, and what the constraints share."""

import math
from abc import abstractmethod
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Key

from fokker._core.module import Module

# Relative tolerance for sums and lengths: a start may be typed by hand, or in single precision.
TOLERANCE = 1e-4


class Constraint(Module):
    """The interface of a constraint, for `fk.constrain`: a smooth map x(y) of real numbers y.

    `is_one_to_one`: whether x determines y.
    """

    is_one_to_one: ClassVar[bool] = True

    @abstractmethod
    def constrain(self, y: Array) -> Array:
        """x(y)."""

    @abstractmethod
    def unconstrain(self, x: Array) -> Array:
        """y(x), for an x that passes `check`; one of them where there are several."""

    @abstractmethod
    def log_jacobian(self, y: Array) -> Array:
        """log |det dx/dy|: one number for the array.

        Where x does not determine y, the log density of y for a density of 1 of x.
        """

    @abstractmethod
    def check(self, x: Array, name: str) -> None:
        """Raise if x, called `name`, is not allowed; a traced value is not checked."""

    def redraw(self, y: Array, key: Key[Array, ""]) -> Array:
        """A y with the same x, from its density given x; y itself where x is one-to-one."""
        del key
        return y


def log_smallest(dtype: DTypeLike) -> float:
    """The logarithm of a number above the smallest one that is not rounded to 0."""
    return math.log(float(jnp.finfo(dtype).tiny)) + 1


def is_known(x: object) -> bool:
    """Whether the values of x can be looked at: those of a traced x cannot."""
    return not isinstance(x, jax.core.Tracer)


def along_last(x: Array, like: Array) -> Array:
    """A vector with the leading axes of another array, of length 1."""
    return x.reshape((1,) * (like.ndim - 1) + x.shape)


def refuse(x: ArrayLike, allowed: ArrayLike, name: str, requirement: str) -> None:
    """Raise if an entry of x, called `name`, is not allowed, and say where the first one is."""
    x, allowed = np.asarray(x), np.asarray(allowed)
    if np.all(allowed):
        return
    place = tuple(int(i) for i in np.argwhere(~allowed)[0])
    where = f" at {list(place)}" if place else ""
    raise ValueError(f"{name} is {x[place]:.6g}{where}, but must be {requirement}.")


def refuse_short(x: Array, name: str, what: str) -> None:
    """Raise unless x has at least two entries along its last axis."""
    if x.ndim == 0 or x.shape[-1] < 2:
        raise ValueError(
            f"{name} must be {what}, but has the shape {x.shape}: give at least two numbers along the last "
            "axis."
        )
