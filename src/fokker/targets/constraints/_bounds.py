"""Numbers by themselves: real, with one bound, or between two."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from fokker.targets.constraints._constraint import Constraint, is_known, log_smallest, refuse


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
        if is_known(x):
            refuse(x, np.isfinite(x), name, "real: give finite numbers")


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
        if is_known(x):
            values = np.asarray(x)
            refuse(values, (values > 0) & np.isfinite(values), name, "positive: give finite numbers above 0")


def _as_array(x: ArrayLike) -> Array | np.ndarray:
    """As it is, in double precision if its values are known: that of theta may be known only in a run."""
    return np.asarray(x, np.float64) if is_known(x) else jnp.asarray(x, float)


@final
class _Bound(Constraint):
    """x = bound ± exp(y), log|dx/dy| = y."""

    bound: ArrayLike = eqx.field(converter=_as_array)
    is_lower: bool = eqx.field(static=True)

    def __check_init__(self) -> None:
        if is_known(self.bound) and not np.all(np.isfinite(self.bound)):
            name = "lower" if self.is_lower else "upper"
            raise ValueError(
                f"fk.constraints.{name} needs a finite bound; {self.bound} was given. Leave out numbers "
                "without a bound: what is not constrained is real."
            )

    @property
    def _sign(self) -> int:
        return 1 if self.is_lower else -1

    def constrain(self, y: Array) -> Array:
        bound = _like(self.bound, y)
        return bound + self._sign * _exp(y, bound)

    def unconstrain(self, x: Array) -> Array:
        return jnp.log(self._sign * (x - _like(self.bound, x)))

    def log_jacobian(self, y: Array) -> Array:
        return jnp.sum(y)

    def check(self, x: Array, name: str) -> None:
        _refuse_misfit(self.bound, x, name, "its bound has", "a number, or a bound")
        if is_known(x):
            values, bound = np.asarray(x), np.asarray(_like(self.bound, x))
            allowed = np.isfinite(values) & (self._sign * (values - bound) > 0)
            side = f"{'above' if self.is_lower else 'below'} {self.bound}"
            refuse(values, allowed, name, f"{side}: give finite numbers {side}")


@final
class _Interval(Constraint):
    """x = low + (high - low) s(y), log|dx/dy| = log(high - low) + log s(y) + log s(-y), s the logistic."""

    low: ArrayLike = eqx.field(converter=_as_array)
    high: ArrayLike = eqx.field(converter=_as_array)

    def __check_init__(self) -> None:
        low, high = self.low, self.high
        known = is_known(low) and is_known(high)
        if known and not np.all(np.isfinite(low) & np.isfinite(high) & (np.asarray(low) < high)):
            raise ValueError(
                f"an interval needs finite ends with low < high; low={low} and high={high} were given. For "
                'numbers above 0 use "positive", for another bound alone fk.constraints.lower(low) or '
                "fk.constraints.upper(high)."
            )

    def _ends(self, like: Array) -> tuple[Array, Array]:
        return _like(self.low, like), _like(self.high, like)

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
            _refuse_misfit(end, x, name, "the ends of its interval have", "numbers, or ends")
        if is_known(x):
            low, high = (np.asarray(end) for end in self._ends(x))
            requirement = f"inside the interval ({self.low}, {self.high}): give numbers between its ends"
            refuse(x, (low < x) & (np.asarray(x) < high), name, requirement)


def real() -> Constraint:
    """Any number: x = y.

    Returns a constraint, for `fk.constrain`. It has no arguments.

    ```python
    constrained = fk.constrain(target, {"mean": fk.constraints.real()})
    ```
    """
    return _Real()


def positive() -> Constraint:
    """Numbers above 0: x = exp(y).

    Returns a constraint, for `fk.constrain`. It has no arguments.

    ```python
    constrained = fk.constrain(target, {"scale": fk.constraints.positive()})
    ```
    """
    return _Positive()


def lower(bound: ArrayLike) -> Constraint:
    """Numbers above a bound: x = bound + exp(y).

    Arguments:

    - `bound`: a finite number for all entries, or an array whose shape is that of x or broadcasts to it.

    Returns a constraint, for `fk.constrain`.

    ```python
    constrained = fk.constrain(target, {"degrees": fk.constraints.lower(2.0)})
    ```
    """
    return _Bound(bound, is_lower=True)


def upper(bound: ArrayLike) -> Constraint:
    """Numbers below a bound: x = bound - exp(y).

    Arguments:

    - `bound`: as for `lower`.

    Returns a constraint, for `fk.constrain`.

    ```python
    constrained = fk.constrain(target, {"slopes": fk.constraints.upper(jnp.array([0.0, 1.0]))})
    ```
    """
    return _Bound(bound, is_lower=False)


def interval(low: ArrayLike, high: ArrayLike) -> Constraint:
    """Numbers between two ends: x = low + (high - low) s(y), s the logistic function.

    Arguments:

    - `low`, `high`: the ends, finite, with low < high. Each is a number for all entries, or an array
      whose shape is that of x or broadcasts to it.

    Returns a constraint, for `fk.constrain`.

    ```python
    constrained = fk.constrain(target, {"correlation": fk.constraints.interval(-1.0, 1.0)})
    ```
    """
    return _Interval(low, high)


def _like(bound: ArrayLike, x: Array) -> Array:
    """A bound for every entry of x, in its precision."""
    return jnp.broadcast_to(bound, x.shape).astype(x.dtype)


def _spacing(bound: Array) -> Array:
    """A distance from a bound that is not lost to rounding."""
    eps = float(jnp.finfo(bound.dtype).eps)
    return jnp.maximum(eps * jnp.abs(bound), math.exp(log_smallest(bound.dtype)))


def _exp(y: Array, bound: Array) -> Array:
    """exp(y), finite and large enough to be seen when it is added to the bound."""
    largest = math.log(float(jnp.finfo(y.dtype).max)) - 1
    return jnp.exp(jnp.clip(y, jnp.log(_spacing(bound)), largest))


def _refuse_misfit(bound: ArrayLike, x: Array, name: str, has: str, wanted: str) -> None:
    """Raise unless there is a bound for every entry of x."""
    try:
        fits = np.broadcast_shapes(jnp.shape(bound), x.shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} has the shape {x.shape}, but {has} {jnp.shape(bound)}: give {wanted} of the same shape."
        )
