"""The options of `fokker lda`, which are None unless given; those of the settings of topics are theirs."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from fokker.models.lda.settings import DECLARED


def option(help: str, default: object = None, **more: Any) -> Any:
    """An option that is None unless given, which --resume needs to know. The help shows the default."""
    return typer.Option(help=help, show_default=False if default is None else str(default), **more)


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose keyword arguments are the options of all settings of topics that have a help."""
    signature = inspect.signature(command)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    parameters += [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[declared.option | None, option(declared.help, declared.shown or None)],
        )
        for name, declared in DECLARED.items()
        if declared.help
    ]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ |= {parameter.name: parameter.annotation for parameter in parameters}
    return command


def specified(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def parsed(options: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given as options."""
    return {
        name: DECLARED[name].parse(f"--{name.replace('_', '-')}", value)
        for name, value in specified(options).items()
    }
