"""How the commands print: lines whose brackets are no markup, and which are not wrapped."""

import textwrap

from rich.console import Console

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def show(text: object) -> None:
    """Print a line."""
    console.print(str(text), markup=False, soft_wrap=True)


def show_columns(text: object, indent: int) -> None:
    """Print lines; in a terminal those that are too long for it go on below what follows `indent` columns."""
    if not console.is_terminal:
        show(text)
        return
    wrap = textwrap.TextWrapper(
        console.width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    for line in str(text).splitlines():
        show("\n".join(wrap.wrap(line)))


def show_error(text: object, colour: str | None = None) -> None:
    """Print a line to standard error."""
    errors.print(str(text), style=colour, markup=False, soft_wrap=True)
