"""How bad something is, and what it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """What to do with a result."""

    GOOD = "No problems found"
    CARE = "Use with care"
    BAD = "Do not use"


@dataclass(frozen=True)
class Finding:
    """Something wrong with a run, in words, and how bad it is."""

    grade: Grade
    text: str


_ORDER = [Grade.GOOD, Grade.CARE, Grade.BAD]


def worst_of(grades: Iterable[Grade]) -> Grade:
    """The worst grade; good where there is none."""
    return max(grades, key=_ORDER.index, default=Grade.GOOD)


def care_or_bad(is_bad: bool) -> Grade:
    """BAD, or else CARE."""
    return Grade.BAD if is_bad else Grade.CARE
