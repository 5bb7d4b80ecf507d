"""Formulas as trees: numbers, names, functions and the five operations, and nothing else."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# Precedence of what a node prints as; a power binds tighter than a sign, as in -x^2.
SUM, PRODUCT, SIGN, POWER, ATOM = 1, 2, 3, 4, 5


@dataclass(frozen=True)
class Number:
    """A number that is not negative: the sign is a node of its own."""

    value: float


@dataclass(frozen=True)
class Name:
    """A variable, or a name that the caller defines, such as U."""

    name: str


@dataclass(frozen=True)
class Negative:
    """-a."""

    operand: "Node"


@dataclass(frozen=True)
class Binary:
    """a + b, a - b, a * b, a / b or a ^ b."""

    operation: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True)
class Apply:
    """A function of one argument, or `max` and `min` of two."""

    function: str
    arguments: tuple["Node", ...]


Node = Number | Name | Negative | Binary | Apply

PRECEDENCE: Final = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "^": POWER}
# The functions, with the number of their arguments; each is the function of jax.numpy with this name.
FUNCTIONS: Final = {
    "abs": 1,
    "arctan": 1,
    "cos": 1,
    "cosh": 1,
    "exp": 1,
    "log": 1,
    "log1p": 1,
    "logaddexp": 2,
    "maximum": 2,
    "minimum": 2,
    "sin": 1,
    "sinh": 1,
    "sqrt": 1,
    "tan": 1,
    "tanh": 1,
}
CONSTANTS: Final = {"pi": math.pi}


def precedence(node: Node) -> int:
    """How tightly the outermost operation binds."""
    match node:
        case Binary(operation):
            return PRECEDENCE[operation]
        case Negative():
            return SIGN
        case _:
            return ATOM


def children(node: Node) -> tuple[Node, ...]:
    """The operands or arguments."""
    match node:
        case Negative(operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Apply(_, arguments):
            return arguments
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """A node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def names(node: Node) -> frozenset[str]:
    """The names in a formula, without the constants."""
    found = {part.name for part in walk(node) if isinstance(part, Name)}
    return frozenset(found - set(CONSTANTS))


def whole_exponent(node: Node) -> int | None:
    """The exponent if it is a whole number written out, so that x^2 is a product and not exp(2 log x)."""
    sign = 1
    if isinstance(node, Negative):
        sign, node = -1, node.operand
    if isinstance(node, Number) and node.value == int(node.value):
        return sign * int(node.value)
    return None


def is_zero(node: Node) -> bool:
    """Whether it is the number 0, written out."""
    return isinstance(node, Number) and node.value == 0
