"""Checks of single settings, each with one sentence."""

import numbers


def check_whole(name: str, value: object, least: int = 1) -> int:
    """A setting as a number of Python; raise unless it is a whole number of at least that much."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; {value!r} was given.")
    return int(value)
