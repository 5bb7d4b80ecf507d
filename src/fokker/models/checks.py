"""Checks of settings, one for each kind of value: they return it as a plain Python value, or raise."""

import dataclasses
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, TypeVar

from fokker._core.checks import check_whole
from fokker._core.names import nearest

T = TypeVar("T")

# Takes the name by which the user knows a setting, and its value.
Check = Callable[[str, object], Any]


def whole(minimum: int) -> Check:
    """Whole numbers of at least this."""

    def check(name: str, value: object) -> int:
        return check_whole(name, value, minimum)

    return check


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is one finite number, and not True or False."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def positive(name: str, value: object) -> float:
    """Numbers above 0."""
    if not (is_number(value) and value > 0):
        raise ValueError(f"{name} must be a positive number; {value!r} was given.")
    return float(value)


def within(minimum: float, limit: float, meaning: str) -> Check:
    """Numbers from a minimum to below a limit; `meaning`: what they have to be, in words."""

    def check(name: str, value: object) -> float:
        if not (is_number(value) and minimum <= value < limit):
            raise ValueError(f"{name} must be {meaning}; {value!r} was given.")
        return float(value)

    return check


PROBABILITY = within(math.nextafter(0, 1), 1, "a probability between 0 and 1, such as 0.9")


def one_of(choices: Sequence[str]) -> Check:
    """One of these texts."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(
                f"{name} is one of {', '.join(choices)}, not {value!r}.{nearest(str(value), choices)}"
            )
        return value

    return check


def optional(check: Check) -> Check:
    """None, or what another check allows."""
    return lambda name, value: None if value is None else check(name, value)


def anything(name: str, value: T) -> T:
    """What is checked where it is used."""
    return value


def refuse_ignored(settings: Any, names: Sequence[str], reason: str) -> None:
    """Raise for settings of a dataclass that others leave without effect, unless they have their default.

    None, 0 and False may stay too: they ask for nothing. `reason`: what follows the name and the value.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    for name in names:
        value = getattr(settings, name)
        if value and value != defaults[name]:
            raise ValueError(f"{name}={value!r} {reason}")
