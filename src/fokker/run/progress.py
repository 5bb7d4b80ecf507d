"""Progress of a task: a bar in a terminal, an occasional line elsewhere."""

import sys
import threading
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

# The bars that are shown, each within the one before it: the last is on the screen.
_shown: list[Bar] = []
# Seconds between two lines where there is no terminal, and before the first of them.
PLAIN_SECONDS = 10.0


class Progress:
    """Shows the progress of a task; use it in a `with` block, and call `update` as the task advances.

    ```python
    with Progress("sampling", total=10_000, unit="steps") as progress:
        progress.update(completed=500)
    ```

    It shows a description, how many of `total` units are completed (None where the total is unknown), their
    speed, the time left and a note; with `unit=None`, for a task that cannot be counted, the time so far. In
    a terminal and in a notebook that is a bar, which is removed at the end. Elsewhere it is a plain line
    every ten seconds, the first after ten seconds. Everything goes to standard error, or to the `console`
    given. With `enabled=False` nothing is shown. A task of several parts calls `start_part` for each further
    one; while a task within it has a bar of its own, that one is shown in its place. With `compiles`, for a
    task whose first program may take minutes to compile, the description is "compiling" until units are
    completed.
    """

    def __init__(
        self,
        description: str,
        total: float | None = None,
        *,
        unit: str | None = "steps",
        completed: float = 0,
        compiles: bool = False,
        enabled: bool = True,
        console: Console | None = None,
    ) -> None:
        self.console = Console(stderr=True, highlight=False) if console is None else console
        has_bar = self.console.is_terminal or self.console.is_jupyter
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            _Percentage(Column(no_wrap=True)),
            # Where the terminal is too narrow the note is cut off, and nothing is wrapped.
            _Amount(Column(no_wrap=True)),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            _Note(),
            console=self.console,
            disable=not (enabled and has_bar),
            transient=True,
            # Rich would redirect it to the bar's console: output piped to a file must reach that file.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._after_compiling = description if compiles else None
        self._task = self._add("compiling" if compiles else description, total, unit, completed)
        self._ended = threading.Event()
        self._lines: threading.Thread | None = None
        if enabled and not has_bar:
            # A thread, as there are no updates while a program compiles, which may take minutes.
            self._lines = threading.Thread(target=self._print_lines, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if not self._bar.disable:
            for outer in _shown[-1:]:
                outer.stop()
            _shown.append(self._bar)
        self._bar.start()
        if self._lines is not None:
            self._lines.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._lines is not None:
            self._lines.join()
        self._bar.stop()
        if self._bar in _shown:
            _shown.remove(self._bar)
            for outer in _shown[-1:]:
                outer.start()

    def _add(self, description: str, total: float | None, unit: str | None, completed: float) -> TaskID:
        return self._bar.add_task(description, total=total, completed=int(completed), unit=unit, note="")

    def start_part(
        self,
        description: str,
        total: float | None = None,
        *,
        unit: str | None = "steps",
        completed: float = 0,
    ) -> None:
        """Show the next part of the task, with a speed and a time left of its own."""
        before = self._task
        self._task = self._add(description, total, unit, completed)
        # Second: the thread that prints lines reads the first task at any time.
        self._bar.remove_task(before)

    def update(
        self,
        completed: float | None = None,
        *,
        description: str | None = None,
        total: float | None = None,
        note: str | None = None,
    ) -> None:
        """Show new values; None leaves a value as it was."""
        fields: dict[str, Any] = {} if note is None else {"note": note}
        if completed is not None:
            description, self._after_compiling = description or self._after_compiling, None
        self._bar.update(self._task, completed=completed, description=description, total=total, **fields)

    def print(self, text: str) -> None:
        """Print a message that stays, above the bar where there is one."""
        self.console.print(text, markup=False, soft_wrap=True)

    @property
    def line(self) -> str:
        """Everything that is shown, as one line of text."""
        task = self._bar.tasks[0]
        left = task.time_remaining
        parts = [
            f"{task.description}: {amount(task)}",
            "" if left is None or task.finished else f"{timedelta(seconds=round(left))} left",
            task.fields["note"],
        ]
        return ", ".join(part for part in parts if part)

    def _print_lines(self) -> None:
        while not self._ended.wait(PLAIN_SECONDS):
            self.print(self.line)


def amount(task: Task) -> str:
    """Completed and total with their unit, and the speed once it is known; without a unit the time so far."""
    if task.fields["unit"] is None:
        return f"{timedelta(seconds=round(task.elapsed or 0))} so far"
    of = "" if task.total is None else f"/{task.total:,.0f}"
    # Only the time between updates counts: what came before the first of them may be compilation.
    speed = f", {task.speed:,.{0 if task.speed >= 10 else 1}f}/s" if task.speed else ""
    return f"{task.completed:,.0f}{of} {task.fields['unit']}{speed}"


class _Percentage(ProgressColumn):
    """How much is done, where the total is known."""

    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{task.percentage:.0f} %".rjust(5))


class _Amount(ProgressColumn):
    """The column of `amount`."""

    def render(self, task: Task) -> Text:
        return Text(amount(task))


class _Note(ProgressColumn):
    """The column of the note, cut off at the edge of the terminal."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["note"], no_wrap=True, overflow="ellipsis")
