"""Split text into words."""

import html
import re
from collections.abc import Callable

_LETTERS = bytes(range(ord("a"), ord("z") + 1))
# These separate words. Other white space, such as the no-break space, is removed, as in the published counts
# that follow this rule.
_SEPARATORS = b"\t\n\v\f\r -"
_SEPARATOR_TO_SPACE = bytes.maketrans(_SEPARATORS, b" " * len(_SEPARATORS))
_REMOVED = bytes(set(range(256)) - set(_LETTERS) - set(_SEPARATORS))

Tokeniser = Callable[[str], list[str]]


def letters(text: str) -> list[str]:
    """Words of the letters a to z, by the rule of Hoffman's onlineldavb.

    HTML entities are decoded, text is converted to lower case, hyphens and white space separate words, and
    every other character is removed: "Schrödinger's well-known cat" gives schrdingers, well, known, cat.
    """
    plain = html.unescape(text).lower().encode("ascii", "ignore")
    return plain.translate(_SEPARATOR_TO_SPACE, _REMOVED).decode("ascii").split()


class matches:
    r"""Words that match a regular expression, for other alphabets: `matches(r"\w+")`.

    HTML entities are decoded and the text is converted to lower case first. If the expression has a group,
    the group is the word.
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
