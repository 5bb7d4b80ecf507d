"""How a run goes, in one line: alive in a terminal, now and then elsewhere."""

import itertools
import time
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

from fokker.models.lda.run import Run

# Seconds between lines in a terminal and elsewhere, and between topics shown.
_ALIVE, _PLAIN, _TOPIC = 0.5, 5.0, 3.0
_WORDS = 7


class Progress:
    """A `Watcher` that prints; use it within a `with`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._next = time.monotonic() + (_ALIVE if console.is_terminal else _PLAIN)
        self._topics = itertools.count()
        self._before: tuple[float, int, int] | None = None
        self._shown, self._until = "", 0.0

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """A message that stays."""
        self.console.print(text, markup=False, soft_wrap=True)

    def look(self, run: Run) -> None:
        """A new line if it is time for one."""
        now = time.monotonic()
        if self._before is None:
            self._before = now, run.trained, run.tokens
        if now < self._next:
            return
        line = self._line(run, now)
        self._before = now, run.trained, run.tokens
        if self.console.is_terminal:
            self._next = now + _ALIVE
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            self._next = now + _PLAIN
            self.say(line)

    def _line(self, run: Run, now: float) -> str:
        assert self._before is not None
        then, documents, tokens = self._before
        elapsed = max(now - then, 1e-9)
        parts = [
            f"{run.trained:,} documents",
            f"{(run.trained - documents) / elapsed:,.0f}/s",
            f"{(run.tokens - tokens) / elapsed:,.0f} words/s",
        ]
        if run.curve:
            parts.append(f"perplexity {run.curve[-1].of_average:,.0f}")
        if now >= self._until and run.draws.draws:
            self._shown, self._until = self._topic(run), now + _TOPIC
        return "  ".join(filter(None, [*parts, self._shown]))

    def _topic(self, run: Run) -> str:
        """The likeliest words of the next topic."""
        k = next(self._topics) % run.settings.topics
        column = run.draws.draws[-1][:, k]
        words = run.corpus.vocabulary.words
        return f"[{k}] " + " ".join(words[w] for w in np.argsort(-column)[:_WORDS])
