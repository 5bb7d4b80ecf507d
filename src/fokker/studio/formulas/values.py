"""The value of a formula, with NumPy or with JAX: one walk over the tree for both."""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from fokker.studio.formulas.tree import CONSTANTS, Apply, Binary, Name, Negative, Node, Number, whole_exponent


def value(node: Node, variables: Mapping[str, Any], numbers: ModuleType = np) -> Any:
    """The value where the variables have these values; `numbers` is numpy or jax.numpy.

    Every operation is the one that `write.python` prints, on Python's numbers and on arrays alike, so that
    a printed program computes the same bits.
    """
    match node:
        case Number(number):
            return number
        case Name(name):
            return variables[name] if name in variables else CONSTANTS[name]
        case Negative(operand):
            return -value(operand, variables, numbers)
        case Apply(function, arguments):
            return getattr(numbers, function)(*(value(a, variables, numbers) for a in arguments))
        case Binary(operation, left, right):
            a = value(left, variables, numbers)
            if operation == "^":
                whole = whole_exponent(right)
                return a ** (whole if whole is not None else value(right, variables, numbers))
            b = value(right, variables, numbers)
            if operation == "+":
                return a + b
            if operation == "-":
                return a - b
            if operation == "*":
                return a * b
            return a / b
    raise TypeError(f"{node!r} is not a formula.")  # pragma: no cover


def function(node: Node, order: Sequence[str]) -> Callable[..., Any]:
    """The formula as a function of these variables, in JAX."""
    import jax.numpy as jnp

    def call(*arguments: Any) -> Any:
        return value(node, dict(zip(order, arguments, strict=True)), jnp)

    return call
