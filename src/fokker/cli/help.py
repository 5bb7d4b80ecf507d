"""The help of commands: flags without a value, paragraphs as wide as the terminal, plain arguments."""

import inspect
import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from fokker.cli.console import show_error


def _as_flags(parameters: list[Any]) -> list[Any]:
    """Parameters of Click; of those that take no value, Typer would show the type <bool> in its place."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def joined(text: str | None) -> str | None:
    """A help text with one line per paragraph: Typer would keep the line ends of a docstring."""
    if text is None:
        return None
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(re.sub(r"\n(?![\s\b*-])", " ", paragraph) for paragraph in paragraphs)


class Command(TyperCommand):
    """A command."""

    def __init__(self, *arguments: Any, help: str | None = None, **more: Any) -> None:
        super().__init__(*arguments, help=joined(help), **more)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments for the line of usage, without the braces of newer releases of Typer."""
        return [re.sub(r"^\{(.*)\}(?=(\.\.\.)?$)", r"\1", x) for x in super().collect_usage_pieces(ctx)]

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """The line of usage, without the name of a command that a group runs where none is named."""
        default = getattr(ctx.parent and ctx.parent.command, "default", None)
        path = ctx.command_path.removesuffix(f" {default}")
        formatter.write_usage(path, " ".join(self.collect_usage_pieces(ctx)))

    def get_params(self, ctx: Any) -> list[Any]:
        """All arguments and options, with --help."""
        return _as_flags(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; Typer would end without a word where Ctrl-C ends it."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, ImportError) as error:
            # Ctrl-C while an extension is imported becomes an error of the import.
            if not isinstance(error.__cause__ or error, KeyboardInterrupt):
                raise
            show_error("fokker: interrupted")
            raise typer.Exit(130) from None

    def get_params(self, ctx: Any) -> list[Any]:
        """All options, with --help."""
        return _as_flags(super().get_params(ctx))
