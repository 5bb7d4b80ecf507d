"""What every demonstration prints: tables, and where its report is."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table


def print_table(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of text cells, numbers to the right."""
    shown = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        # In a narrow terminal headers are broken into lines, and what is in brackets; other numbers are not.
        parts = [part for row in rows for part in re.split(r" (?=\()", row[place])]
        width = max(map(len, parts), default=0)
        shown.add_column(column, justify="right", min_width=width)
    for row in rows:
        shown.add_row(*row)
    console.print(shown)


def print_end(console: Console, start: float, path: Path) -> None:
    """Say how long it took since `start`, by `time.perf_counter`, and where the report is."""
    seconds = time.perf_counter() - start
    console.print(f"\n{seconds:.0f} s; wrote {path}, to be opened in a browser", markup=False)
