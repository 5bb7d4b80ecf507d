"""The help of commands, in which a flag is shown without a value."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


def _as_flags(parameters: list[Any]) -> list[Any]:
    """Parameters of Click; of those that take no value, Typer would show the type <bool> in its place."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class Command(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All arguments and options, with --help."""
        return _as_flags(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options, with --help."""
        return _as_flags(super().get_params(ctx))
