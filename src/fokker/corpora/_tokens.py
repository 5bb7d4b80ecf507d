"""From text to words."""

import html
import re
from collections.abc import Callable

_LETTERS = bytes(range(ord("a"), ord("z") + 1))
# These part words. Other white space, such as the one that does not break a line, is removed as in the
# counts that are published by this rule.
_BLANKS = b"\t\n\v\f\r -"
_TO_BLANK = bytes.maketrans(_BLANKS, b" " * len(_BLANKS))
_REMOVED = bytes(set(range(256)) - set(_LETTERS) - set(_BLANKS))

Tokeniser = Callable[[str], list[str]]


def letters(text: str) -> list[str]:
    """Words of the letters a to z, by the rule of Hoffman's onlineldavb.

    HTML entities are undone, capitals made small, hyphens and white space part words, and every other
    character is removed: "Schrödinger's well-known cat" gives schrdingers, well, known, cat.
    """
    plain = html.unescape(text).lower().encode("ascii", "ignore")
    return plain.translate(_TO_BLANK, _REMOVED).decode("ascii").split()


class matches:
    r"""Words that match a regular expression, for other alphabets: `matches(r"\w+")`.

    HTML entities are undone and capitals made small first. Of an expression with a group, the group is the
    word.
    """

    def __init__(self, pattern: str) -> None:
        try:
            self.expression = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"pattern={pattern!r} is not a regular expression: {error}.") from None
        if self.expression.groups > 1:
            raise ValueError(
                f"pattern={pattern!r} has several groups; at most one can be the word: use (?:…)."
            )

    def __call__(self, text: str) -> list[str]:
        """The words of a text."""
        return [word for word in self.expression.findall(html.unescape(text).lower()) if word]
