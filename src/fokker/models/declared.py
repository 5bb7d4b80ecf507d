"""Settings that are declared once: fields that know their check, and what each interface calls them."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from fokker.models.checks import Check, anything


class Declared(NamedTuple):
    """What is known of a setting besides its name, type and default.

    `parameter`: its name as one of an estimator, None where that has no such parameter. `help`: what it is,
    for the option of a command, which has none where it is empty. `option`: the type of that option, of
    which `parse` makes the value, given the name of the option too. `shown`: the default in its help.
    """

    check: Check
    parameter: str | None
    help: str
    option: type
    parse: Callable[[str, Any], Any]
    shown: str


def setting(
    default: Any,
    check: Check = anything,
    parameter: str | None = None,
    help: str = "",
    *,
    option: type | None = None,
    parse: Callable[[str, Any], Any] = anything,
    shown: str = "",
) -> Any:
    """A field of a dataclass with what is declared of it; see `Declared`."""
    shown = shown or ("" if default is None else str(default))
    declared = Declared(check, parameter, help, option or type(default), parse, shown)
    return dataclasses.field(default=default, metadata={"declared": declared})


def declared_in(settings: type) -> dict[str, Declared]:
    """What is declared of each setting of a dataclass, by name."""
    return {entry.name: entry.metadata["declared"] for entry in dataclasses.fields(settings)}


__all__ = ["Declared", "declared_in", "setting"]
