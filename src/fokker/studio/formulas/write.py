"""A formula as text that parses to the same tree, and as Python."""

from collections.abc import Mapping

from fokker.studio.formulas.tree import (
    ATOM,
    CONSTANTS,
    PRECEDENCE,
    SIGN,
    Apply,
    Binary,
    Name,
    Negative,
    Node,
    Number,
    precedence,
    whole_exponent,
)


def number_text(number: float) -> str:
    """A number as short as it can be read back."""
    return str(int(number)) if number == int(number) and number < 1e15 else repr(number)


def text(node: Node) -> str:
    """The formula as it can be typed."""
    match node:
        case Number(number):
            return number_text(number)
        case Name(name):
            return name
        case Negative(operand):
            return f"-{_within(operand, SIGN)}"
        case Apply(function, arguments):
            return f"{function}({', '.join(map(text, arguments))})"
        case Binary("^", left, right):
            return f"{_within(left, ATOM)}^{_within(right, SIGN)}"
        case Binary(operation, left, right):
            level = PRECEDENCE[operation]
            # The right operand of a - b and a / b needs parentheses at the same precedence.
            space = " " if operation in "+-" else ""
            return f"{_within(left, level)}{space}{operation}{space}{_within(right, level + 1)}"
    raise TypeError(f"{node!r} is not a formula.")  # pragma: no cover


def _within(node: Node, least: int) -> str:
    # A power may stand after a sign: x^-y^2 is x^(-(y^2)).
    return text(node) if precedence(node) >= least else f"({text(node)})"


def python(node: Node, renamed: Mapping[str, str] | None = None) -> str:
    """The formula as Python with jax.numpy, of the operations that `values.value` takes."""
    names = renamed or {}
    match node:
        case Number(number):
            return repr(number)
        case Name(name):
            return f"jnp.{name}" if name in CONSTANTS else names.get(name, name)
        case Negative(operand):
            return f"-{_python_within(operand, SIGN, names)}"
        case Apply(function, arguments):
            return f"jnp.{function}({', '.join(python(a, names) for a in arguments)})"
        case Binary("^", left, right):
            whole = whole_exponent(right)
            exponent = str(whole) if whole is not None else _python_within(right, SIGN, names)
            return f"{_python_within(left, ATOM, names)}**{exponent}"
        case Binary(operation, left, right):
            level = PRECEDENCE[operation]
            a, b = _python_within(left, level, names), _python_within(right, level + 1, names)
            return f"{a} {operation} {b}"
    raise TypeError(f"{node!r} is not a formula.")  # pragma: no cover


def _python_within(node: Node, least: int, names: Mapping[str, str]) -> str:
    printed = python(node, names)
    return printed if precedence(node) >= least else f"({printed})"
