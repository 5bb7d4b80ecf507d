"""The progress of a run in one line: updated live in a terminal, printed at intervals elsewhere."""

import itertools
import time
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

from fokker.models.lda.run import Run

# Seconds between lines in a terminal and elsewhere, and between the topics shown.
_TERMINAL_SECONDS, _PLAIN_SECONDS, _TOPIC_SECONDS = 0.5, 5.0, 3.0
_WORDS = 7


class Progress:
    """A `Watcher` that prints; use it in a `with` statement."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._next_line = time.monotonic() + (_TERMINAL_SECONDS if console.is_terminal else _PLAIN_SECONDS)
        self._topics = itertools.count()
        self._previous: tuple[float, int, int] | None = None
        self._topic_line, self._next_topic = "", 0.0

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def notify(self, text: str) -> None:
        """Print a permanent message."""
        self.console.print(text, markup=False, soft_wrap=True)

    def update(self, run: Run) -> None:
        """Print a new line if it is time for one."""
        now = time.monotonic()
        if self._previous is None:
            self._previous = now, run.trained, run.tokens
        if now < self._next_line:
            return
        line = self._line(run, now)
        self._previous = now, run.trained, run.tokens
        if self.console.is_terminal:
            self._next_line = now + _TERMINAL_SECONDS
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            self._next_line = now + _PLAIN_SECONDS
            self.notify(line)

    def _line(self, run: Run, now: float) -> str:
        assert self._previous is not None
        previous_time, documents, tokens = self._previous
        elapsed = max(now - previous_time, 1e-9)
        parts = [
            f"{run.trained:,} documents",
            f"{(run.trained - documents) / elapsed:,.0f}/s",
            f"{(run.tokens - tokens) / elapsed:,.0f} words/s",
        ]
        if run.curve:
            parts.append(f"perplexity {run.curve[-1].of_average:,.0f}")
        if now >= self._next_topic and run.draws.draws:
            self._topic_line, self._next_topic = self._topic(run), now + _TOPIC_SECONDS
        return "  ".join(filter(None, [*parts, self._topic_line]))

    def _topic(self, run: Run) -> str:
        """The most probable words of the next topic."""
        k = next(self._topics) % run.settings.topics
        column = run.draws.draws[-1][:, k]
        words = run.corpus.vocabulary.words
        return f"[{k}] " + " ".join(words[w] for w in np.argsort(-column)[:_WORDS])
