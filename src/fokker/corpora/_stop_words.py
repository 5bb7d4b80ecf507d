"""Words that carry no information about the subject of a text, for some languages."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from fokker.corpora._tokens import normalised

_FILE = Path(__file__).with_name("stop_words.toml")
STOP_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}
_CODES = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "ru": "russian",
    "es": "spanish",
    "it": "italian",
    "pt": "portuguese",
    "nl": "dutch",
}
# Text in one of these languages has a stop word of it in more than a quarter of its words.
_MIN_SHARE = 0.1


def stop_words(choice: str | os.PathLike[str] | Iterable[str]) -> frozenset[str] | None:
    """The stop words of a language, of a file with one per line, or as given; None for "auto".

    A language is a name in `STOP_WORDS` or its code (de, fr, ru, …); "none" is no words. Everything after a #
    in a file is a comment.
    """
    if not isinstance(choice, str | os.PathLike):
        return frozenset(choice)
    name = os.fspath(choice)
    language = _CODES.get(name.lower(), name.lower())
    if language == "auto":
        return None
    if language == "none":
        return frozenset()
    if language in STOP_WORDS:
        return STOP_WORDS[language]
    if not Path(name).is_file():
        raise ValueError(
            f"stop words: {name!r} is neither a file nor one of {', '.join(STOP_WORDS)}, auto and none. For "
            "another language, give a file with one word per line."
        )
    try:
        lines = Path(name).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"the stop words {name} are not UTF-8 text: {error}.") from None
    return frozenset(word for line in lines for word in normalised(line.partition("#")[0]).split())


def detected_language(occurrences: Mapping[str, int], total: int) -> str | None:
    """The language whose stop words are the most among the words of a text; None if they are few.

    `occurrences`: how often each word occurs. `total`: the number of words.
    """
    shares = {
        language: sum(occurrences.get(word, 0) for word in words) / max(total, 1)
        for language, words in STOP_WORDS.items()
    }
    language = max(shares, key=lambda name: shares[name])
    return language if shares[language] >= _MIN_SHARE else None
