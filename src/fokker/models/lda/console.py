"""What the commands of `fokker lda` share: consoles, how a line is printed, and options without a default."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console

from fokker.models.lda.settings import DECLARED

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)
# The exit code after Ctrl-C.
INTERRUPTED = 130


def print_by_first_only() -> None:
    """Print nothing here, unless this is the first of the processes of a run."""
    from fokker.run.processes import is_first

    console.quiet = errors.quiet = not is_first()


def print_line(text: str) -> None:
    """Print a line, whose brackets are no markup."""
    console.print(text, markup=False, soft_wrap=True)


def print_error(text: str) -> None:
    """Print a line to standard error."""
    errors.print(text, markup=False, soft_wrap=True)


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
