"""How the commands print: lines whose brackets are no markup, and which are not wrapped."""

from rich.console import Console

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def show(text: object) -> None:
    """Print a line."""
    console.print(str(text), markup=False, soft_wrap=True)


def show_error(text: object, colour: str | None = None) -> None:
    """Print a line to standard error."""
    errors.print(str(text), style=colour, markup=False, soft_wrap=True)
