"""Constraints on theta, each a smooth one-to-one map x(y) of all real numbers y onto the allowed values x."""

import math
from abc import abstractmethod
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fokker._core.module import Module
from fokker._core.state import nearest

__all__ = ["Constraint", "as_constraint", "interval", "ordered", "positive", "real", "simplex"]

# Tolerance for the sum of a simplex: a start may be typed by hand, or in single precision.
_SUM_TOLERANCE = 1e-4


class Constraint(Module):
    """The interface of a constraint, for `fk.constrain`."""

    @abstractmethod
    def constrain(self, y: Array) -> Array:
        """x(y)."""

    @abstractmethod
    def unconstrain(self, x: Array) -> Array:
        """y(x), for an x that passes `check`."""

    @abstractmethod
    def log_jacobian(self, y: Array) -> Array:
        """log |det dx/dy|: one number for the array."""

    @abstractmethod
    def check(self, x: Array, name: str) -> None:
        """Raise if x, called `name`, is not allowed; a traced value is not checked."""


@final
class _Real(Constraint):
    """x = y."""

    def constrain(self, y: Array) -> Array:
        return y

    def unconstrain(self, x: Array) -> Array:
        return x

    def log_jacobian(self, y: Array) -> Array:
        return jnp.zeros((), y.dtype)

    def check(self, x: Array, name: str) -> None:
        if not isinstance(x, jax.core.Tracer):
            _refuse(x, np.isfinite(x), name, "real: give finite numbers")


@final
class _Positive(Constraint):
    """x = exp(y), log|dx/dy| = y."""

    def constrain(self, y: Array) -> Array:
        return jnp.exp(y)

    def unconstrain(self, x: Array) -> Array:
        return jnp.log(x)

    def log_jacobian(self, y: Array) -> Array:
        return jnp.sum(y)

    def check(self, x: Array, name: str) -> None:
        if not isinstance(x, jax.core.Tracer):
            values = np.asarray(x)
            _refuse(values, (values > 0) & np.isfinite(values), name, "positive: give finite numbers above 0")


def _as_array(x: Any) -> Array:
    return jnp.asarray(x, float)


@final
class _Interval(Constraint):
    """x = low + (high - low) s(y), log|dx/dy| = log(high - low) + log s(y) + log s(-y), s the logistic."""

    low: Array = eqx.field(converter=_as_array)
    high: Array = eqx.field(converter=_as_array)

    def __check_init__(self) -> None:
        low, high = self.low, self.high
        known = not isinstance(low, jax.core.Tracer) and not isinstance(high, jax.core.Tracer)
        if known and not np.all(np.isfinite(low) & np.isfinite(high) & (np.asarray(low) < high)):
            raise ValueError(
                f"an interval needs finite ends with low < high; low={low} and high={high} were given. For "
                'numbers above 0 use "positive".'
            )

    def _ends(self, like: Array) -> tuple[Array, Array]:
        low, high = (jnp.broadcast_to(end, like.shape).astype(like.dtype) for end in (self.low, self.high))
        return low, high

    def constrain(self, y: Array) -> Array:
        low, high = self._ends(y)
        return low + (high - low) * jax.nn.sigmoid(y)

    def unconstrain(self, x: Array) -> Array:
        low, high = self._ends(x)
        return jnp.log(x - low) - jnp.log(high - x)

    def log_jacobian(self, y: Array) -> Array:
        low, high = self._ends(y)
        return jnp.sum(jnp.log(high - low) + jax.nn.log_sigmoid(y) + jax.nn.log_sigmoid(-y))

    def check(self, x: Array, name: str) -> None:
        for end in (self.low, self.high):
            if not _fits(end.shape, x.shape):
                raise ValueError(
                    f"{name} has the shape {x.shape}, but the ends of its interval have {end.shape}: give "
                    "numbers, or ends of the same shape."
                )
        if not isinstance(x, jax.core.Tracer):
            low, high = (np.asarray(end) for end in self._ends(x))
            requirement = f"inside the interval ({self.low}, {self.high}): give numbers between its ends"
            _refuse(x, (low < x) & (np.asarray(x) < high), name, requirement)


@final
class _Simplex(Constraint):
    """x = softmax(V y), V the K x (K - 1) Helmert basis; log|dx/dy| = Σ_k log x_k + log(K)/2.

    The isometric log-ratio: VᵀV = 1 and Vᵀ1 = 0, so that y = Vᵀ log x, and all entries are treated alike up
    to the choice of coordinates. V is never stored: column j is (1, …, 1, -j, 0, …, 0)/√(j(j + 1)).
    """

    def _log(self, y: Array) -> Array:
        """log x."""
        j = jnp.arange(1, y.shape[-1] + 1, dtype=y.dtype)
        scaled = y / _along_last(jnp.sqrt(j * (j + 1)), y)
        zero = jnp.zeros_like(y[..., :1])
        after = jnp.flip(jnp.cumsum(jnp.flip(scaled, -1), -1), -1)
        return jax.nn.log_softmax(
            jnp.concatenate([after, zero], -1) - jnp.concatenate([zero, scaled * _along_last(j, y)], -1)
        )

    def constrain(self, y: Array) -> Array:
        return jnp.exp(self._log(y))

    def unconstrain(self, x: Array) -> Array:
        logs = jnp.log(x)
        j = _along_last(jnp.arange(1, x.shape[-1], dtype=x.dtype), x)
        return (jnp.cumsum(logs, -1)[..., :-1] - j * logs[..., 1:]) / jnp.sqrt(j * (j + 1))

    def log_jacobian(self, y: Array) -> Array:
        logs = self._log(y)
        rows = logs.size // logs.shape[-1]
        return jnp.sum(logs) + rows * math.log(logs.shape[-1]) / 2

    def check(self, x: Array, name: str) -> None:
        _refuse_short(x, name, "a simplex")
        if isinstance(x, jax.core.Tracer):
            return
        values = np.asarray(x)
        requirement = "in a simplex: give numbers above 0 whose sum over the last axis is 1"
        _refuse(values, values > 0, name, requirement)
        sums = values.sum(axis=-1)
        wrong = np.abs(sums - 1) > _SUM_TOLERANCE
        if np.any(wrong):
            raise ValueError(
                f"{name} must be in a simplex, but sums over its last axis to {sums[wrong][0]:.6g}: give "
                "numbers above 0 that sum to 1, as in x / x.sum(axis=-1, keepdims=True)."
            )


@final
class _Ordered(Constraint):
    """x_1 = y_1, x_k = x_{k-1} + exp(y_k); log|dx/dy| = Σ_{k>1} y_k."""

    def constrain(self, y: Array) -> Array:
        return jnp.cumsum(jnp.concatenate([y[..., :1], jnp.exp(y[..., 1:])], axis=-1), axis=-1)

    def unconstrain(self, x: Array) -> Array:
        return jnp.concatenate([x[..., :1], jnp.log(jnp.diff(x, axis=-1))], axis=-1)

    def log_jacobian(self, y: Array) -> Array:
        return jnp.sum(y[..., 1:])

    def check(self, x: Array, name: str) -> None:
        _refuse_short(x, name, "ordered")
        if not isinstance(x, jax.core.Tracer):
            values = np.asarray(x)
            rises = np.ones(values.shape, bool)
            rises[..., 1:] = values[..., 1:] > values[..., :-1]
            requirement = "ordered: give numbers that increase along the last axis, as in jnp.sort(x)"
            _refuse(values, rises & np.isfinite(values), name, requirement)


def real() -> Constraint:
    """Any number: x = y."""
    return _Real()


def positive() -> Constraint:
    """Numbers above 0: x = exp(y)."""
    return _Positive()


def interval(low: Any, high: Any) -> Constraint:
    """Numbers between `low` and `high`, by the logistic function; the ends are numbers or arrays."""
    return _Interval(low, high)


def simplex() -> Constraint:
    """Positive numbers whose sum over the last axis is 1: K of them from K - 1, by the isometric log-ratio.

    Densities on it are with respect to Lebesgue measure on all entries but the last, as Dirichlet's is.
    """
    return _Simplex()


def ordered() -> Constraint:
    """Numbers that increase along the last axis: the first, then increments exp(y)."""
    return _Ordered()


_NAMED = {
    "real": real,
    "positive": positive,
    "simplex": simplex,
    "ordered": ordered,
    "unit": lambda: interval(0.0, 1.0),
}


def as_constraint(constraint: Any) -> Constraint:
    """A constraint, from its name or from a constraint."""
    if isinstance(constraint, Constraint):
        return constraint
    names = ", ".join(_NAMED)
    if not isinstance(constraint, str):
        raise TypeError(
            f"a constraint is one of {names}, or one of fk.constraints such as "
            f"fk.constraints.interval(0, 2), not {constraint!r}."
        )
    if constraint not in _NAMED:
        raise ValueError(
            f"there is no constraint {constraint!r}; there are {names} and "
            f"fk.constraints.interval(low, high).{nearest(constraint, list(_NAMED))}"
        )
    return _NAMED[constraint]()


def _along_last(x: Array, like: Array) -> Array:
    return x.reshape((1,) * (like.ndim - 1) + x.shape)


def _fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, into) == into
    except ValueError:
        return False


def _refuse(x: Any, allowed: Any, name: str, requirement: str) -> None:
    x, allowed = np.asarray(x), np.asarray(allowed)
    if np.all(allowed):
        return
    place = tuple(int(i) for i in np.argwhere(~allowed)[0])
    where = f" at {list(place)}" if place else ""
    raise ValueError(f"{name} is {x[place]:.6g}{where}, but must be {requirement}.")


def _refuse_short(x: Array, name: str, what: str) -> None:
    if x.ndim == 0 or x.shape[-1] < 2:
        raise ValueError(
            f"{name} must be {what}, but has the shape {x.shape}: give at least two numbers along the last "
            "axis."
        )
