"""Problems found in a run, and their grades."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """The overall verdict on a result."""

    GOOD = "No problems found"
    CARE = "Use with care"
    BAD = "Do not use"


class Cause(StrEnum):
    """What a problem comes from, where other advice depends on it."""

    LARGE_STEPS = "too large a step, or noise of the gradient"
    STIFFNESS = "a region that is too narrow for the step, as in a funnel"
    OTHER = ""


@dataclass(frozen=True)
class Finding:
    """A problem of a run, described in words, with its grade and its cause."""

    grade: Grade
    text: str
    cause: Cause = Cause.OTHER


_ORDER = [Grade.GOOD, Grade.CARE, Grade.BAD]


def worst_of(grades: Iterable[Grade]) -> Grade:
    """The worst grade; GOOD if there are none."""
    return max(grades, key=_ORDER.index, default=Grade.GOOD)


def care_or_bad(is_bad: bool) -> Grade:
    """BAD or CARE."""
    return Grade.BAD if is_bad else Grade.CARE
