"""Formulas and matrices as MathML, which browsers show without any library."""

from collections.abc import Sequence
from html import escape

from fokker.studio.formulas.tree import (
    PRECEDENCE,
    SIGN,
    Apply,
    Binary,
    Name,
    Negative,
    Node,
    Number,
    is_zero,
    precedence,
)
from fokker.studio.formulas.write import number_text

_SHOWN: dict[str, str | tuple[str, str]] = {"pi": "π", "s": "ξ", "Ux": ("U", "x"), "Uy": ("U", "y")}
_FUNCTIONS = {"log1p": "log1p", "arctan": "arctan", "maximum": "max", "minimum": "min"}


def mathml(node: Node) -> str:
    """A formula as the inside of <math>."""
    match node:
        case Number(number):
            return f"<mn>{number_text(number)}</mn>"
        case Name(name):
            return _name(name)
        case Negative(operand):
            return f"<mrow><mo>−</mo>{_within(operand, SIGN)}</mrow>"
        case Binary("/", left, right):
            return f"<mfrac>{_row(mathml(left))}{_row(mathml(right))}</mfrac>"
        case Binary("^", left, right):
            base = _row(mathml(left)) if isinstance(left, Number | Name) else _parentheses(left)
            return f"<msup>{base}{_row(mathml(right))}</msup>"
        case Binary("*", left, right):
            # A dot only where two numbers would run together.
            sign = "<mo>·</mo>" if _starts_with_number(right) else "<mo>&#8290;</mo>"
            level = PRECEDENCE["*"]
            return f"<mrow>{_within(left, level)}{sign}{_within(right, level + 1)}</mrow>"
        case Binary(operation, left, right):
            sign = "−" if operation == "-" else "+"
            level = PRECEDENCE[operation]
            return f"<mrow>{_within(left, level)}<mo>{sign}</mo>{_within(right, level + 1)}</mrow>"
        case Apply("sqrt", (argument,)):
            return f"<msqrt>{mathml(argument)}</msqrt>"
        case Apply("exp", (argument,)):
            return f"<msup><mi>e</mi>{_row(mathml(argument))}</msup>"
        case Apply("abs", (argument,)):
            return f"<mrow><mo>|</mo>{mathml(argument)}<mo>|</mo></mrow>"
        case Apply(function, arguments):
            inside = "<mo>,</mo>".join(mathml(a) for a in arguments)
            name = escape(_FUNCTIONS.get(function, function))
            return f"<mrow><mi>{name}</mi><mo>&#8289;</mo><mo>(</mo>{inside}<mo>)</mo></mrow>"
    raise TypeError(f"{node!r} is not a formula.")  # pragma: no cover


def _name(name: str) -> str:
    shown = _SHOWN.get(name, name)
    if isinstance(shown, tuple):
        return f"<msub><mi>{shown[0]}</mi><mi>{shown[1]}</mi></msub>"
    return f"<mi>{escape(shown)}</mi>"


def _row(inside: str) -> str:
    return f"<mrow>{inside}</mrow>"


def _parentheses(node: Node) -> str:
    return f"<mrow><mo>(</mo>{mathml(node)}<mo>)</mo></mrow>"


def _within(node: Node, least: int) -> str:
    is_clear = precedence(node) >= least or (isinstance(node, Binary) and node.operation == "/")
    return mathml(node) if is_clear else _parentheses(node)


def _starts_with_number(node: Node) -> bool:
    while isinstance(node, Binary):
        node = node.left
    return isinstance(node, Number)


def matrix(rows: Sequence[Sequence[Node]]) -> str:
    """A matrix in brackets, its zeros pale."""
    cells = "".join(
        "<mtr>" + "".join(f"<mtd{_pale(cell)}>{mathml(cell)}</mtd>" for cell in row) + "</mtr>"
        for row in rows
    )
    # The brackets are borders of the style sheet: those of a font that is not for mathematics do not grow.
    return f'<mtable class="matrix">{cells}</mtable>'


def _pale(cell: Node) -> str:
    return ' class="zero"' if is_zero(cell) else ""


def equation(symbol: str, right: str) -> str:
    """symbol = right, as a whole <math> element."""
    return f'<math display="block"><mi>{escape(symbol)}</mi><mo>=</mo>{right}</math>'
