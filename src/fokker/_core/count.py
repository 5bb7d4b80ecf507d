"""Counters of steps: integers up to 2⁶⁴, which JAX has only if double precision is enabled.

A run takes 2³² steps within hours. A counter that wraps around there gives schedules a wrong time, and the
same random numbers a second time.
"""

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Key, PyTree, UInt32

from fokker._core.module import Module
from fokker._core.threefry import halves, is_threefry, threefry

_WORD = 2**32
# What counts are made of, added to and compared with.
Countable: TypeAlias = "Count | float | np.ndarray | Array"


def _by_value(operation: Callable[[Any, Any], Any], swapped: bool = False) -> Callable[[Any, Any], Any]:
    """The method of an operator, computed in floating point."""

    def method(self: "Count", other: Countable) -> Any:
        other = other.value if isinstance(other, Count) else other
        return operation(other, self.value) if swapped else operation(self.value, other)

    return method


class Count(Module):
    """An integer high·2³² + low, or an array of integers.

    Sums, comparisons, quotients `//` and remainders `%` with integers are exact; all other operations are
    done in floating point. `int(count)` and `np.asarray(count)` give the exact integer.
    """

    high: UInt32[Array, "..."]
    low: UInt32[Array, "..."]

    __array_ufunc__ = None  # for a NumPy number on the left, use the methods here

    @classmethod
    def of(cls, number: Countable) -> "Count":
        """The count of a non-negative integer or an array of them."""
        if isinstance(number, Count):
            return cls(number.high, number.low)
        if isinstance(number, jax.Array):
            wide = number.dtype.itemsize > 4
            low = number.astype(jnp.uint32)
            return cls((number >> 32).astype(jnp.uint32) if wide else jnp.zeros_like(low), low)
        return jax.tree.map(jnp.asarray, cls.on_host(number))

    @classmethod
    def on_host(cls, number: Any) -> "Count":
        """The same in arrays of NumPy: as an argument of a program, they reach the device with its call."""
        words = np.asarray(number, np.uint64)
        halves = (words >> np.uint64(32), words & np.uint64(_WORD - 1))
        words_of_32: Any = (np.asarray(half, np.uint32) for half in halves)
        return cls(*words_of_32)

    @property
    def value(self) -> Array:
        """The floating-point value: exact below 2²⁴, in double precision below 2⁵³."""
        return self.astype(jnp.result_type(float))

    def astype(self, dtype: DTypeLike) -> Array:
        """The value rounded to floating point; as an integer it is at most 2³¹ - 1."""
        if not jnp.issubdtype(dtype, jnp.floating):
            large = (self.high > 0) | (self.low >= np.uint32(_WORD // 2))
            return jnp.where(large, np.uint32(_WORD // 2 - 1), self.low).astype(dtype)
        wide = jnp.promote_types(dtype, jnp.float32)  # 2³² overflows in half precision
        return (self.high.astype(wide) * float(_WORD) + self.low.astype(wide)).astype(dtype)

    def fold_into(self, key: Key[Array, ""]) -> Key[Array, ""]:
        """`jax.random.fold_in(key, count)`, using all 64 bits."""
        if not is_threefry(key):
            low = jax.random.fold_in(key, self.low)
            return jnp.where(self.high == 0, low, jax.random.fold_in(low, self.high))
        words = threefry(halves(key), self.high, self.low)
        return jax.random.wrap_key_data(jnp.stack(words, axis=-1), impl="threefry2x32")

    def __add__(self, other: Countable) -> Any:
        if not _is_exact_integer(other):
            return self.value + other
        other = Count.of(other)
        low = self.low + other.low
        return type(self)(self.high + other.high + (low < other.low).astype(jnp.uint32), low)

    __radd__ = __add__

    def __divmod__(self, divisor: float | Array) -> tuple[Any, Array]:
        """Quotient and remainder, exact for integers from 1 to 2³¹ - 1."""
        bits = 1
        if not isinstance(divisor, jax.Array):
            if divisor != int(divisor):
                return self.value // divisor, self.value % divisor
            divisor = int(divisor)
            if not 0 < divisor < _WORD // 2:
                raise ValueError(f"steps can be divided by integers from 1 to 2³¹ - 1, not by {divisor}.")
            bits = 32 - divisor.bit_length()
        m = jnp.asarray(divisor).astype(jnp.uint32)
        # Long division: each round appends as many bits of the low word to the remainder as fit into a word.
        first = self.high // m
        rest, quotient = self.high - first * m, jnp.zeros_like(self.low)
        for remaining in range(32, 0, -bits):
            n = min(bits, remaining)
            digits = (self.low >> np.uint32(remaining - n)) & np.uint32((1 << n) - 1)
            rest = (rest << np.uint32(n)) | digits
            digit = (rest >= m).astype(jnp.uint32) if n == 1 else rest // m
            quotient, rest = (quotient << np.uint32(n)) | digit, rest - digit * m
        return type(self)(first, quotient), rest.astype(jnp.int32)

    def __floordiv__(self, divisor: float | Array) -> Any:
        return divmod(self, divisor)[0]

    def __mod__(self, divisor: float | Array) -> Array:
        return divmod(self, divisor)[1]

    __sub__, __rsub__ = _by_value(operator.sub), _by_value(operator.sub, swapped=True)
    __mul__ = __rmul__ = _by_value(operator.mul)
    __truediv__, __rtruediv__ = _by_value(operator.truediv), _by_value(operator.truediv, swapped=True)
    __pow__, __rpow__ = _by_value(operator.pow), _by_value(operator.pow, swapped=True)

    def __neg__(self) -> Array:
        return -self.value

    def __lt__(self, other: Countable) -> Any:
        if not _is_exact_integer(other):
            return self.value < other
        other = Count.of(other)
        return (self.high < other.high) | ((self.high == other.high) & (self.low < other.low))

    def __gt__(self, other: Countable) -> Any:
        # Of its own type: Python asks a subclass on the right first, which would ask back.
        return type(self).of(other) < self if _is_exact_integer(other) else self.value > other

    def __ge__(self, other: Countable) -> Any:
        return ~(self < other)

    def __le__(self, other: Countable) -> Any:
        return ~(self > other)

    def __eq__(self, other: Any) -> Any:
        if not _is_exact_integer(other):
            return self.value == other
        other = Count.of(other)
        return (self.high == other.high) & (self.low == other.low)

    def __ne__(self, other: Any) -> Any:
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, () for one integer."""
        return self.low.shape

    @property
    def ndim(self) -> int:
        """The number of axes, 0 for one integer."""
        return self.low.ndim

    def __getitem__(self, index: PyTree[Array]) -> "Count":
        return type(self)(self.high[index], self.low[index])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        high, low = (np.asarray(word).astype(np.uint64) for word in (self.high, self.low))
        return np.asarray(high << np.uint64(32) | low, dtype)

    def tolist(self) -> Any:
        """The count as Python integers."""
        return np.asarray(self).tolist()

    def __int__(self) -> int:
        return int(np.asarray(self))

    __index__ = __int__

    def __float__(self) -> float:
        return float(int(self))

    def __repr__(self) -> str:
        if isinstance(self.low, jax.core.Tracer) or not isinstance(self.low, jax.Array | np.ndarray):
            return f"Count({self.high}, {self.low})"  # inside a transformation there is no value
        return str(np.asarray(self))

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else repr(self)

    def __jax_array__(self) -> Array:
        raise TypeError(
            "a step count has 64 bits, in two words, and is not a JAX array: use state.step.fold_into(key) "
            "for jax.random.fold_in(key, state.step), state.step.astype(float) for floating point, and "
            "int(state.step) outside of compiled code."
        )


class StepNumber(Count):
    """The step count that schedules receive: JAX functions use its floating-point value."""

    def __jax_array__(self) -> Array:
        return self.value


def _is_exact_integer(other: Countable) -> bool:
    """Whether operations with `other` are exact; arrays of signed integers might be negative."""
    if isinstance(other, int | np.integer):
        return bool(other >= 0)
    if isinstance(other, jax.Array | np.ndarray):
        return bool(jnp.issubdtype(other.dtype, jnp.unsignedinteger))
    return isinstance(other, Count)


def no_steps() -> Count:
    """A count of zero."""
    return Count(jnp.zeros((), jnp.uint32), jnp.zeros((), jnp.uint32))
