"""What the commands of `fokker lda` share: consoles, how a line is printed, and options without a default."""

from typing import Any

import typer
from rich.console import Console

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
