"""From text to a tree, by a grammar of our own: nothing else is understood, and nothing is evaluated.

sum      := product (("+" | "-") product)*
product  := sign (("*" | "/") sign)*
sign     := "-" sign | "+" sign | power
power    := atom ("^" sign)?
atom     := number | name | function "(" sum ("," sum)* ")" | "(" sum ")"
"""

import re
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from fokker._core.names import nearest
from fokker.studio.formulas.tree import (
    CONSTANTS,
    FUNCTIONS,
    Apply,
    Binary,
    Name,
    Negative,
    Node,
    Number,
    children,
    names,
    whole_exponent,
)
from fokker.studio.formulas.values import value
from fokker.studio.formulas.write import text as text_of

MAX_LENGTH = 600
MAX_DEPTH = 40
# A larger whole exponent is a product of as many factors, and overflows wherever it matters.
MAX_EXPONENT = 32

_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/^(),]))"
)
# What people type on other keyboards and copy from other pages.
_SAME = str.maketrans({"−": "-", "–": "-", "·": "*", "×": "*", "÷": "/", "π": "pi", "²": "^2", "³": "^3"})


class FormulaError(ValueError):
    """A formula that cannot be read: where, and what to write instead."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            position += len(text[position:]) - len(text[position:].lstrip())
            raise FormulaError(
                f"{text[position]!r} at character {position + 1} is not understood. Write numbers, "
                "variables, + - * / ^, parentheses and functions such as exp(x).",
                position,
            )
        kind = ("number", "name", "sign")[next(i for i in range(3) if match[i + 1] is not None)]
        piece = match[1] or match[2] or match[3]
        tokens.append(_Token(kind, "^" if piece == "**" else piece, match.end() - len(piece)))
        position = match.end()
    tokens.append(_Token("end", "", end))
    return tokens


class _Parser:
    def __init__(self, text: str, variables: Collection[str]) -> None:
        self.tokens = _tokens(text)
        self.variables = variables
        self.index = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.index]

    def take(self, *texts: str) -> _Token | None:
        token = self.token
        if token.kind != "sign" or token.text not in texts:
            return None
        self.index += 1
        return token

    def expect(self, text: str, why: str) -> None:
        if self.take(text) is None:
            raise self.error(f"{why}; write {text!r} here.")

    def error(self, message: str) -> FormulaError:
        token = self.token
        what = f"{token.text!r}" if token.text else "the end"
        return FormulaError(f"at character {token.position + 1} ({what}): {message}", token.position)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"the formula is nested more than {MAX_DEPTH} levels deep; write it shorter.")

    def sum(self) -> Node:
        self.deeper()
        node = self.product()
        while token := self.take("+", "-"):
            node = Binary(token.text, node, self.product())
        self.depth -= 1
        return node

    def product(self) -> Node:
        node = self.sign()
        while token := self.take("*", "/"):
            node = Binary(token.text, node, self.sign())
        return node

    def sign(self) -> Node:
        self.deeper()
        if self.take("-"):
            node: Node = Negative(self.sign())
        elif self.take("+"):
            node = self.sign()
        else:
            node = self.power()
        self.depth -= 1
        return node

    def power(self) -> Node:
        base = self.atom()
        if self.take("^") is None:
            return base
        before = self.token.position
        exponent = self.sign()
        whole = whole_exponent(exponent)
        if whole is not None and abs(whole) > MAX_EXPONENT:
            raise FormulaError(
                f"the exponent {whole} at character {before + 1} is too large; the largest is "
                f"{MAX_EXPONENT}.",
                before,
            )
        return Binary("^", base, exponent)

    def atom(self) -> Node:
        token = self.token
        if token.kind == "number":
            self.index += 1
            number = float(token.text)
            if not np.isfinite(number):
                raise FormulaError(
                    f"{token.text} at character {token.position + 1} is too large.", token.position
                )
            return Number(number)
        if token.kind == "name":
            return self.named()
        if self.take("("):
            node = self.sum()
            self.expect(")", "a parenthesis is not closed")
            return node
        raise self.error("a number, a variable or a function is wanted here.")

    def named(self) -> Node:
        token = self.token
        self.index += 1
        if token.text in FUNCTIONS:
            return self.call(token)
        if token.text in self.variables or token.text in CONSTANTS:
            if self.token.text == "(":
                raise self.error(f"{token.text} is not a function; write {token.text}*(…) for a product.")
            return Name(token.text)
        known = [*self.variables, *CONSTANTS, *FUNCTIONS]
        raise FormulaError(
            f"{token.text!r} at character {token.position + 1} is not known.{nearest(token.text, known)} The "
            f"variables are {', '.join(self.variables)}; the functions are {', '.join(FUNCTIONS)}.",
            token.position,
        )

    def call(self, token: _Token) -> Node:
        wanted = FUNCTIONS[token.text]
        self.expect("(", f"{token.text} is a function")
        arguments = [self.sum()]
        while self.take(","):
            arguments.append(self.sum())
        self.expect(")", f"the parenthesis of {token.text} is not closed")
        if len(arguments) != wanted:
            raise FormulaError(
                f"{token.text} at character {token.position + 1} takes {wanted} "
                f"argument{'s' if wanted > 1 else ''}, not {len(arguments)}.",
                token.position,
            )
        return Apply(token.text, tuple(arguments))


def parse(text: str, variables: Collection[str]) -> Node:
    """The tree of a formula in these variables; raise a `FormulaError` that says what to write."""
    if len(text) > MAX_LENGTH:
        raise FormulaError(
            f"a formula has at most {MAX_LENGTH} characters, and this one has {len(text)}; write it shorter.",
            MAX_LENGTH,
        )
    parser = _Parser(text.translate(_SAME), variables)
    if parser.token.kind == "end":
        raise FormulaError("the formula is empty; write a number or an expression.", 0)
    node = parser.sum()
    if parser.token.kind != "end":
        raise parser.error("an operation is missing before this; write * for a product, as in 2*x.")
    _check_constants(node)
    return node


def _check_constants(node: Node) -> None:
    """Raise where a part without variables is not a finite number, such as 1/0 or log(0)."""
    for part in _constant_parts(node):
        try:
            with np.errstate(all="ignore"):
                number = value(part, {})
        except (OverflowError, ZeroDivisionError):
            number = np.nan
        if isinstance(number, complex) or not np.isfinite(number):
            raise FormulaError(f"{text_of(part)} is not a finite number.", 0)


def _constant_parts(node: Node) -> list[Node]:
    """The largest parts without variables, which contain the smaller ones, and the parts of these."""
    if isinstance(node, Number | Name):
        return []
    inner = [part for child in children(node) for part in _constant_parts(child)]
    return inner if names(node) else [*inner, node]
