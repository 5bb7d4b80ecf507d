"""Problems found in a result, their grades, and the verdict that they make."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


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


@dataclass(frozen=True)
class Verdict:
    """The problems found in a result, each with a grade, and notes: useful to know, but no problems."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of_problem(cls, text: str, grade: Grade = Grade.CARE) -> Self:
        """The verdict that one problem makes."""
        return cls((Finding(grade, text),))

    @classmethod
    def joined(cls, parts: Iterable["Verdict"]) -> Self:
        """All that several verdicts say."""
        parts = list(parts)
        return cls(
            tuple(finding for part in parts for finding in part.findings),
            tuple(note for part in parts for note in part.notes),
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The verdict of `to_json`."""
        findings = (Finding(Grade(grade), text, Cause(cause)) for grade, text, cause in values["findings"])
        return cls(tuple(findings), tuple(values["notes"]))

    def to_json(self) -> dict[str, Any]:
        """The verdict as texts and lists."""
        findings = [[str(f.grade), f.text, str(f.cause)] for f in self.findings]
        return {"findings": findings, "notes": list(self.notes)}

    @property
    def grade(self) -> Grade:
        """The worst grade of the findings: "No problems found", "Use with care" or "Do not use"."""
        return worst_of(finding.grade for finding in self.findings)

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.findings

    @property
    def problems(self) -> tuple[str, ...]:
        """The findings in words."""
        return tuple(finding.text for finding in self.findings)

    @property
    def headline(self) -> str:
        """The grade, as the beginning of what is said."""
        return f"{self.grade}{'.' if self.ok else ':'}"

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.problems, *self.notes])
