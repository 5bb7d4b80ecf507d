"""Seed words: words that a user gives to some of the topics, by the names of these topics."""

import numbers
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path


def read_seeds(path: Path) -> dict[str, list[str]]:
    """Read a file with one line per topic, `name: word word …`; words in lower case, # begins a comment."""
    seeds: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        name, colon, words = line.partition(":")
        name = name.strip()
        if not (colon and name and words.split()):
            raise ValueError(
                f"line {number} of {path} is {line!r}: give a name, a colon and one or more words, such as "
                "'space: nasa orbit shuttle'."
            )
        if name in seeds:
            raise ValueError(
                f"line {number} of {path} has the name {name!r} again: give each topic one line."
            )
        seeds[name] = words.lower().split()
    if not seeds:
        raise ValueError(f"{path} has no seed words: give lines such as 'space: nasa orbit shuttle'.")
    return seeds


def seed_columns(seed_words: object, names: Sequence[str] | None, words: int) -> list[list[int]]:
    """The columns of the seed words of each topic; words are names of columns, or numbers of columns.

    Warn of words that are unknown; raise if a topic has no known one. `names` are those of all columns, if
    they have any.
    """
    if not isinstance(seed_words, Mapping) or any(isinstance(own, str) for own in seed_words.values()):
        raise ValueError(
            "seed_words must be a dictionary of lists of words, such as {'space': ['nasa', 'orbit']}; "
            f"{seed_words!r} was given."
        )
    index = {} if names is None else {str(name): w for w, name in enumerate(names)}
    columns: list[list[int]] = []
    unknown: list[str] = []
    for topic, own in seed_words.items():
        columns.append([])
        for word in own:
            if isinstance(word, numbers.Integral) and 0 <= int(word) < words:
                columns[-1].append(int(word))
            elif names is None:
                raise ValueError(
                    f"seed_words has the word {word!r}, and the columns of X have no names: set "
                    "feature_names to the words of the columns, such as vectorizer.get_feature_names_out()."
                )
            elif str(word) in index:
                columns[-1].append(index[str(word)])
            else:
                unknown.append(str(word))
        if not columns[-1]:
            raise ValueError(
                f"none of the seed words of the topic {topic!r} is in the vocabulary: give others, or leave "
                "the topic out."
            )
    if unknown:
        warnings.warn(
            f"seed words that are not in the vocabulary are ignored: {', '.join(unknown)}.", stacklevel=2
        )
    return columns
