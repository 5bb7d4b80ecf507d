"""Split text into words."""

import functools
import html
import re
import unicodedata
from collections.abc import Callable, Container, Sequence

_LETTERS = bytes(range(ord("a"), ord("z") + 1))
# These separate words. Other white space, such as the no-break space, is removed, as in the published counts
# that follow this rule.
_SEPARATORS = b"\t\n\v\f\r -"
_SEPARATOR_TO_SPACE = bytes.maketrans(_SEPARATORS, b" " * len(_SEPARATORS))
_REMOVED = bytes(set(range(256)) - set(_LETTERS) - set(_SEPARATORS))

# Letters of Turkish and Azerbaijani alone.
_TURKISH = "ıİğĞ"
_LETTERS_AND_DIGITS = re.compile(r"\w+")
# Vowels and other marks of Hebrew and Arabic, and the tatweel. Not hamza and madda, which are letters.
_OPTIONAL_MARKS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
)
# The two words of a bigram are joined by this, which no word of the rule "unicode" contains.
JOINT = "_"
_SOFT_HYPHEN = "\N{SOFT HYPHEN}"
# Within words of Persian and of the languages of India.
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
# Scripts that are written without spaces between words: Thai to Myanmar, Khmer, kana, Chinese characters. Not
# Hangul: Korean has spaces.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
# Mean lengths above which words of Chinese and Japanese, and of the others, are phrases.
_LONG_EAST_ASIAN, _LONG_WORDS = 4.5, 9.0
# A syllable of kana or Hangul is about two letters of an alphabet, a Chinese character is a word of its own.
_SYLLABLES = re.compile("[\u3040-\u30ff\uac00-\ud7a3]")
_CHINESE = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")

Tokeniser = Callable[[str], list[str]]


def letters(text: str) -> list[str]:
    """Words of the letters a to z, by the rule of Hoffman's onlineldavb.

    HTML entities are decoded, text is converted to lower case, hyphens and white space separate words, and
    every other character is removed.

    Arguments:

    - `text`: a text.

    Returns the list of its words.

    ```python
    fk.corpora.letters("Schrödinger's well-known cat")  # ["schrdingers", "well", "known", "cat"]
    ```
    """
    plain = html.unescape(text).lower().encode("ascii", "ignore")
    return plain.translate(_SEPARATOR_TO_SPACE, _REMOVED).decode("ascii").split()


def normalised(text: str) -> str:
    """Text in lower case and in Unicode's normal form NFKC.

    The same word then has the same characters, whether its accents were written as one character with the
    letter or as a second one, and also in ligatures and in full-width letters. Accents are kept. The vowel
    marks of Arabic and Hebrew, which are mostly left out, and the stroke that stretches Arabic words are
    removed. In a word with a letter of Turkish alone (ı, İ, ğ) the small letter of I is ı.
    """
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text)
    return unicodedata.normalize("NFC", _OPTIONAL_MARKS.sub("", lower_case(plain)))


def lower_case(text: str) -> str:
    """Composed text in lower case; in a word with a letter of Turkish alone the small letter of I is ı.

    A word decides for itself, so that it is the same wherever a text is split. The dot that lower case leaves
    of a Turkish İ is removed.
    """
    if any(letter in text for letter in _TURKISH):
        text = _LETTERS_AND_DIGITS.sub(_turkish_capitals, text)
    return text.lower().replace("i\u0307", "i")


def _turkish_capitals(match: re.Match[str]) -> str:
    word = match.group()
    return word.replace("I", "ı") if any(letter in word for letter in _TURKISH) else word


# Not after a letter or digit: "2nd" has no word. The underscore is replaced before.
_ASCII_WORD = re.compile(r"\b[a-z][a-z0-9]*")


@functools.cache
def _word() -> re.Pattern[str]:
    """A letter, then letters, digits and marks; between Cyrillic letters also an apostrophe (Ukrainian)."""
    # Python's \w has no marks, without which the words of Hindi or Tamil would be cut at their vowels.
    is_mark = [unicodedata.category(chr(i))[0] == "M" for i in range(0x20000)]
    starts = [i for i in range(1, 0x20000) if is_mark[i] and not is_mark[i - 1]]
    stops = [i for i in range(1, 0x20000) if is_mark[i - 1] and not is_mark[i]]
    marks = "".join(f"{chr(start)}-{chr(stop - 1)}" for start, stop in zip(starts, stops, strict=True))
    inside, cyrillic = rf"[\w{marks}{_JOINERS}]", "[\u0400-\u04ff]"
    return re.compile(rf"(?<!\w)[^\W\d]{inside}*(?:(?<={cyrillic})['’](?={cyrillic}){inside}+)*")


def unicode_words(text: str) -> list[str]:
    """Words of any language that separates them: a letter, followed by letters, digits and marks.

    HTML entities are decoded, and the text is `normalised`. Everything else separates words, apostrophes and
    hyphens included. Numbers are left out, with the letters that follow them.

    Arguments:

    - `text`: a text.

    Returns the list of its words.

    ```python
    fk.corpora.unicode_words("L'eau de Köln: 20 Brücken")  # ["l", "eau", "de", "köln", "brücken"]
    ```
    """
    plain = normalised(html.unescape(text)).replace(JOINT, " ")
    if plain.isascii():
        return _ASCII_WORD.findall(plain)
    words = _word().findall(plain.replace(_SOFT_HYPHEN, ""))
    if "’" in plain or any(joiner in plain for joiner in _JOINERS):
        return [word.replace("’", "'").rstrip(_JOINERS) for word in words]
    return words


class matches:
    r"""A function that finds the words that match a regular expression.

    HTML entities are decoded, the text is converted to lower case, and letters are composed with their
    accents (Unicode's NFC) first.

    Arguments:

    - `pattern`: the expression. If it has a group, the group is the word; it has at most one.

    ```python
    fk.corpora.matches(r"\w+")("Chapter 1")  # ["chapter", "1"]
    ```
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
        plain = unicodedata.normalize("NFC", lower_case(unicodedata.normalize("NFC", html.unescape(text))))
        return [word for word in self.expression.findall(plain) if word]


# The rules that `pattern` can name; anything else is a regular expression.
RULES: dict[str, Tokeniser] = {"unicode": unicode_words, "letters": letters}


def tokeniser(pattern: str) -> Tokeniser:
    """The tokeniser of a rule in `RULES`, or of a regular expression."""
    return RULES.get(pattern) or matches(pattern)


def splits_at_spaces(tokenise: Tokeniser) -> bool:
    """Whether no word of this tokeniser contains a space."""
    return tokenise in RULES.values()


def joined(tokens: Sequence[str], known: Container[str]) -> list[str]:
    """The tokens, with two that follow each other replaced by their bigram where it is known.

    From left to right, and each token is in one bigram at most.
    """
    result: list[str] = []
    i = 0
    while i < len(tokens):
        if i + 1 < len(tokens) and (bigram := f"{tokens[i]}{JOINT}{tokens[i + 1]}") in known:
            result.append(bigram)
            i += 2
        else:
            result.append(tokens[i])
            i += 1
    return result


def num_letters(word: str) -> int:
    """The letters of a word: a syllable of kana or Hangul counts as two, a Chinese character as three."""
    if word.isascii():
        return len(word)
    return len(word) + len(_SYLLABLES.findall(word)) + 2 * len(_CHINESE.findall(word))


def are_phrases(words: Sequence[str]) -> bool:
    """Whether words of scripts without spaces are whole phrases: longer on average than words are.

    Words of Chinese and Japanese have two or three characters, those of Thai, Lao, Khmer and Burmese about
    five; phrases between two marks have ten and more. True where there are no such words at all.
    """
    in_script = [word for word in words if _WITHOUT_SPACES.search(word)]
    if not in_script:
        return True
    is_east_asian = sum(1 for word in in_script if _EAST_ASIAN.search(word)) * 2 > len(in_script)
    longest = _LONG_EAST_ASIAN if is_east_asian else _LONG_WORDS
    return sum(map(len, in_script)) > longest * len(in_script)


def is_without_spaces(text: str) -> bool:
    """Whether at least a third of the letters are of a script that has no spaces between words."""
    return not text.isascii() and 3 * len(_WITHOUT_SPACES.findall(text)) >= sum(map(str.isalpha, text)) > 0
