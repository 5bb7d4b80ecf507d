"""Vectors whose entries depend on each other: simplices, increasing numbers, sums of zero, unit vectors."""

import math
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fokker._core.random import normal
from fokker.targets.constraints._constraint import (
    TOLERANCE,
    Constraint,
    along_last,
    is_known,
    refuse,
    refuse_short,
)


def _sum_zero(y: Array) -> Array:
    """V y, V the K × (K - 1) Helmert basis, along the last axis: K numbers whose sum is 0.

    VᵀV = 1 and Vᵀ1 = 0. V is never stored: column j is (1, …, 1, -j, 0, …, 0)/√(j(j + 1)).
    """
    j = jnp.arange(1, y.shape[-1] + 1, dtype=y.dtype)
    scaled = y / along_last(jnp.sqrt(j * (j + 1)), y)
    zero = jnp.zeros_like(y[..., :1])
    after = jnp.flip(jnp.cumsum(jnp.flip(scaled, -1), -1), -1)
    return jnp.concatenate([after, zero], -1) - jnp.concatenate([zero, scaled * along_last(j, y)], -1)


def _in_basis(x: Array) -> Array:
    """Vᵀ x along the last axis."""
    j = along_last(jnp.arange(1, x.shape[-1], dtype=x.dtype), x)
    return (jnp.cumsum(x, -1)[..., :-1] - j * x[..., 1:]) / jnp.sqrt(j * (j + 1))


@final
class _Simplex(Constraint):
    """x = softmax(V y), V the K x (K - 1) Helmert basis; log|dx/dy| = Σ_k log x_k + log(K)/2.

    The isometric log-ratio: y = Vᵀ log x, and all entries are treated alike up to the choice of coordinates.
    """

    def _log(self, y: Array) -> Array:
        """log x."""
        return jax.nn.log_softmax(_sum_zero(y))

    def constrain(self, y: Array) -> Array:
        return jnp.exp(self._log(y))

    def unconstrain(self, x: Array) -> Array:
        return _in_basis(jnp.log(x))

    def log_jacobian(self, y: Array) -> Array:
        logs = self._log(y)
        rows = logs.size // logs.shape[-1]
        return jnp.sum(logs) + rows * math.log(logs.shape[-1]) / 2

    def check(self, x: Array, name: str) -> None:
        refuse_short(x, name, "a simplex")
        if not is_known(x):
            return
        values = np.asarray(x)
        requirement = "in a simplex: give numbers above 0 whose sum over the last axis is 1"
        refuse(values, values > 0, name, requirement)
        sums = values.sum(axis=-1)
        wrong = np.abs(sums - 1) > TOLERANCE
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
        refuse_short(x, name, "ordered")
        if is_known(x):
            values = np.asarray(x)
            rises = np.ones(values.shape, bool)
            rises[..., 1:] = values[..., 1:] > values[..., :-1]
            requirement = "ordered: give numbers that increase along the last axis, as in jnp.sort(x)"
            refuse(values, rises & np.isfinite(values), name, requirement)


@final
class _ZeroSum(Constraint):
    """x = V y along each of the axes, V the Helmert basis, orthonormal: log|dx/dy| = 0."""

    axes: tuple[int, ...] = eqx.field(static=True)

    def constrain(self, y: Array) -> Array:
        for axis in self.axes:
            y = jnp.moveaxis(_sum_zero(jnp.moveaxis(y, axis, -1)), -1, axis)
        return y

    def unconstrain(self, x: Array) -> Array:
        for axis in self.axes:
            x = jnp.moveaxis(_in_basis(jnp.moveaxis(x, axis, -1)), -1, axis)
        return x

    def log_jacobian(self, y: Array) -> Array:
        return jnp.zeros((), y.dtype)

    def check(self, x: Array, name: str) -> None:
        for axis in self.axes:
            if not -x.ndim <= axis < x.ndim or x.shape[axis] < 2:
                raise ValueError(
                    f"{name} must sum to 0 over axis {axis}, but has the shape {x.shape}: give at least two "
                    "numbers along that axis, or zero_sum another axis."
                )
        if len({axis % x.ndim for axis in self.axes}) < len(self.axes):
            raise ValueError(
                f"fk.constraints.zero_sum was given the axes {self.axes}, of which two are the same for "
                f"{name} with the shape {x.shape}: give each axis once."
            )
        if not is_known(x):
            return
        values = np.asarray(x)
        refuse(values, np.isfinite(values), name, "finite, with a sum of 0: give finite numbers")
        for axis in self.axes:
            sums = values.sum(axis=axis)
            wrong = np.abs(sums) > TOLERANCE * np.abs(values).sum(axis=axis)
            if np.any(wrong):
                raise ValueError(
                    f"{name} must sum to 0 over axis {axis}, but sums to {sums[wrong][0]:.6g}: give such "
                    f"numbers, as in x - x.mean(axis={axis}, keepdims=True)."
                )


# The exponent of |y| in the density of y. Where |y| is small, a density that is narrow in x is narrower in
# y: a funnel towards 0. Of 8000 steps of NUTS for von Mises' density with κ = 300, 561 diverge with the
# exponent 0, 17 with 4 and 1 with 8. A larger one makes a thin shell, on which steps are short.
_REPULSION = 8


@final
class _UnitVector(Constraint):
    """x = y/|y|; given x, |y| has the density of a χ with d + 8 degrees of freedom.

    The density of y is p(x) |y|⁸ exp(-|y|²/2)/Z, with p by the area of the sphere and
    Z = ∫ r^(d + 7) exp(-r²/2) dr. A map from d - 1 numbers would leave out a point of the sphere, around
    which chains could not move.
    """

    is_one_to_one: ClassVar[bool] = False

    def _split(self, y: Array) -> tuple[Array, Array]:
        """x, and |y| with a last axis of length 1: without overflow, and finite at y = 0."""
        tiny = float(jnp.finfo(y.dtype).tiny)
        largest = jax.lax.stop_gradient(jnp.max(jnp.abs(y), axis=-1, keepdims=True))
        is_zero = largest < tiny
        unit = jnp.where(is_zero, 1, largest)
        first = jnp.zeros_like(y).at[..., 0].set(1)
        scaled = jnp.where(is_zero, first, y / unit)
        length = jnp.sqrt(jnp.sum(scaled**2, axis=-1, keepdims=True))
        return scaled / length, jnp.where(is_zero, tiny, unit) * length

    def constrain(self, y: Array) -> Array:
        return self._split(y)[0]

    def unconstrain(self, x: Array) -> Array:
        return math.sqrt(_degrees(x)) * self._split(x)[0]

    def log_jacobian(self, y: Array) -> Array:
        half = _degrees(y) / 2
        log_integral = (half - 1) * math.log(2) + math.lgamma(half)
        length = self._split(y)[1]
        return jnp.sum(_REPULSION * jnp.log(length) - length**2 / 2 - log_integral)

    def check(self, x: Array, name: str) -> None:
        refuse_short(x, name, "a unit vector")
        if not is_known(x):
            return
        values = np.asarray(x)
        refuse(values, np.isfinite(values), name, "a unit vector: give finite numbers")
        lengths = np.linalg.norm(values, axis=-1)
        wrong = np.abs(lengths - 1) > TOLERANCE
        if np.any(wrong):
            raise ValueError(
                f"{name} must be a unit vector, but has the length {lengths[wrong][0]:.6g} along its last "
                "axis: give x / jnp.linalg.norm(x, axis=-1, keepdims=True)."
            )

    def redraw(self, y: Array, key: Key[Array, ""]) -> Array:
        normals = normal(key, (*y.shape[:-1], _degrees(y)), y.dtype)
        return self._split(y)[0] * jnp.linalg.norm(normals, axis=-1, keepdims=True)


def _degrees(x: Array) -> int:
    """The degrees of freedom of |y|."""
    return x.shape[-1] + _REPULSION


def simplex() -> Constraint:
    """Positive numbers whose sum over the last axis is 1: K of them from K - 1, by the isometric log-ratio.

    Densities on it are with respect to Lebesgue measure on all entries but the last, as Dirichlet's is.

    Returns a constraint, for `fk.constrain`. It has no arguments.

    ```python
    constrained = fk.constrain(target, {"weights": fk.constraints.simplex()})
    ```
    """
    return _Simplex()


def ordered() -> Constraint:
    """Numbers that increase along the last axis: the first, then increments exp(y).

    Returns a constraint, for `fk.constrain`. It has no arguments.

    ```python
    constrained = fk.constrain(target, {"cutpoints": fk.constraints.ordered()})
    ```
    """
    return _Ordered()


def zero_sum(axis: int | tuple[int, ...] = -1) -> Constraint:
    """Numbers whose sum over an axis is 0: K of them from K - 1.

    x = V y with orthonormal columns V. Densities are with respect to Lebesgue measure on the plane of such x,
    so that the prior -Σx²/(2σ²) is that of K - 1 independent normals y, and every x_k has the variance
    σ²(1 - 1/K): independent normals given that their sum is 0.

    Arguments:

    - `axis`: the axis, the last by default, or a tuple of axes: the sum over each of them is then 0.

    Returns a constraint, for `fk.constrain`.

    ```python
    constrained = fk.constrain(target, {"effects": fk.constraints.zero_sum((0, 1))})
    ```
    """
    axes: Any = axis if isinstance(axis, tuple | list) else (axis,)
    if not axes or not all(isinstance(a, int | np.integer) and not isinstance(a, bool) for a in axes):
        raise TypeError(f"axis must be an integer or a tuple of them, as in zero_sum((0, 1)), not {axis!r}.")
    return _ZeroSum(tuple(int(a) for a in axes))


def unit_vector() -> Constraint:
    """Vectors of length 1 along the last axis: d numbers x = y/|y| from d.

    Densities are with respect to the area of the sphere: 0 as a log density is the uniform distribution, and
    κ μ·x that of von Mises and Fisher. |y|, which x does not depend on, is independent of it and has the
    density of a χ with d + 8 degrees of freedom.

    Returns a constraint, for `fk.constrain`. It has no arguments.

    ```python
    constrained = fk.constrain(target, {"direction": fk.constraints.unit_vector()})
    ```
    """
    return _UnitVector()
