"""The options of `fokker lda`, which are None unless given; those of the settings of topics are theirs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from fokker.models.declared import Declared


def option(help: str, default: object = None, **more: Any) -> Any:
    """An option that is None unless given, which --resume needs to know. The help shows the default."""
    shown = "" if default is None else f" Default: {default}."
    return typer.Option(help=f"{help}{shown}", show_default=False, **more)


Command = Callable[..., Any]


def with_settings(*declared: Mapping[str, Declared]) -> Callable[[Command], Command]:
    """A decorator of a command, which gets the options of all settings that have a help by keyword.

    They come after its first argument.
    """

    def decorated(command: Command) -> Command:
        signature = inspect.signature(command)
        first, *others = (p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD)
        added = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(name, known)
            )
            for settings in declared
            for name, known in settings.items()
            if known.help
        ]
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[first, *added, *others]
        )
        command.__annotations__ |= {parameter.name: parameter.annotation for parameter in added}
        return command

    return decorated


def _annotation(name: str, known: Declared) -> Any:
    if known.option is bool:  # a flag, without its opposite
        return Annotated[bool | None, typer.Option(_flag(name), help=known.help)]
    return Annotated[known.option | None, option(known.help, known.shown or None)]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def specified(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def parsed(options: Mapping[str, Any], declared: Mapping[str, Declared]) -> dict[str, Any]:
    """The settings that were given as options, of those declared."""
    return {
        name: declared[name].parse(_flag(name), value)
        for name, value in specified(options).items()
        if name in declared
    }
