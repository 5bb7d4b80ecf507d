"""The derivative of a formula as a formula, with the zeros and ones left out: for Γ in mathematics."""

from collections.abc import Callable

from fokker.studio.formulas.tree import Apply, Binary, Name, Negative, Node, Number, is_zero, whole_exponent

ZERO, ONE, TWO = Number(0.0), Number(1.0), Number(2.0)
# U is the target's potential, a function of x and y.
_SLOPES = {"x": Name("Ux"), "y": Name("Uy")}


def add(a: Node, b: Node) -> Node:
    """a + b."""
    if is_zero(a):
        return b
    if is_zero(b):
        return a
    return subtract(a, b.operand) if isinstance(b, Negative) else Binary("+", a, b)


def subtract(a: Node, b: Node) -> Node:
    """a - b."""
    if is_zero(b):
        return a
    if isinstance(b, Negative):
        return add(a, b.operand)
    return negative(b) if is_zero(a) else Binary("-", a, b)


def negative(a: Node) -> Node:
    """-a."""
    if is_zero(a):
        return a
    return a.operand if isinstance(a, Negative) else Negative(a)


def multiply(a: Node, b: Node) -> Node:
    """a b."""
    if is_zero(a) or is_zero(b):
        return ZERO
    if isinstance(a, Negative):
        return negative(multiply(a.operand, b))
    if isinstance(b, Negative):
        return negative(multiply(a, b.operand))
    if a == ONE:
        return b
    if b == ONE:
        return a
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value * b.value)
    return Binary("*", b, a) if isinstance(b, Number) else Binary("*", a, b)


def divide(a: Node, b: Node) -> Node:
    """a / b."""
    if is_zero(a) or b == ONE:
        return a
    if isinstance(a, Negative):
        return negative(divide(a.operand, b))
    return Binary("/", a, b)


def power(a: Node, exponent: int) -> Node:
    """aⁿ."""
    if exponent == 0:
        return ONE
    if exponent == 1:
        return a
    n: Node = Number(float(abs(exponent)))
    return Binary("^", a, n if exponent > 0 else Negative(n))


def _square(a: Node) -> Node:
    return power(a, 2)


# The derivative of a function of one argument at that argument.
_OF_FUNCTION: dict[str, Callable[[Node], Node]] = {
    "abs": lambda a: divide(a, Apply("abs", (a,))),
    "arctan": lambda a: divide(ONE, add(ONE, _square(a))),
    "cos": lambda a: negative(Apply("sin", (a,))),
    "cosh": lambda a: Apply("sinh", (a,)),
    "exp": lambda a: Apply("exp", (a,)),
    "log": lambda a: divide(ONE, a),
    "log1p": lambda a: divide(ONE, add(ONE, a)),
    "sin": lambda a: Apply("cos", (a,)),
    "sinh": lambda a: Apply("cosh", (a,)),
    "sqrt": lambda a: divide(ONE, multiply(TWO, Apply("sqrt", (a,)))),
    "tan": lambda a: add(ONE, _square(Apply("tan", (a,)))),
    "tanh": lambda a: subtract(ONE, _square(Apply("tanh", (a,)))),
}


def derivative(node: Node, variable: str) -> Node:
    """∂/∂variable of a formula; raise for `maximum` and `minimum`, which have none in closed form."""
    match node:
        case Number():
            return ZERO
        case Name("U") if variable in _SLOPES:
            return _SLOPES[variable]
        case Name(name):
            return ONE if name == variable else ZERO
        case Negative(operand):
            return negative(derivative(operand, variable))
        case Binary("+", a, b):
            return add(derivative(a, variable), derivative(b, variable))
        case Binary("-", a, b):
            return subtract(derivative(a, variable), derivative(b, variable))
        case Binary("*", a, b):
            return add(multiply(derivative(a, variable), b), multiply(a, derivative(b, variable)))
        case Binary("/", a, b):
            da, db = derivative(a, variable), derivative(b, variable)
            if is_zero(db):
                return divide(da, b)
            return divide(subtract(multiply(da, b), multiply(a, db)), _square(b))
        case Binary("^", a, b):
            return _of_power(a, b, variable)
        case Apply("logaddexp", (a, b)):
            parts = [multiply(Apply("exp", (c,)), derivative(c, variable)) for c in (a, b)]
            return divide(add(*parts), add(Apply("exp", (a,)), Apply("exp", (b,))))
        case Apply(function, (a,)):
            return multiply(_OF_FUNCTION[function](a), derivative(a, variable))
    raise ValueError(f"{getattr(node, 'function', node)} has no derivative as a formula.")


def _of_power(a: Node, b: Node, variable: str) -> Node:
    whole, da = whole_exponent(b), derivative(a, variable)
    if whole is not None:
        factor = multiply(Number(float(abs(whole))), power(a, whole - 1))
        return multiply(factor if whole >= 0 else negative(factor), da)
    by_base = multiply(multiply(b, Binary("^", a, subtract(b, ONE))), da)
    by_exponent = multiply(multiply(Binary("^", a, b), Apply("log", (a,))), derivative(b, variable))
    return add(by_base, by_exponent)
