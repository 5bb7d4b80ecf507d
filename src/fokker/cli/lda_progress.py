"""The progress of a run over a stream of documents, with its perplexity and a topic as a note."""

import itertools
import time
from types import TracebackType
from typing import Self

from rich.console import Console

from fokker.models.topics.live import LiveProgress as Live
from fokker.models.topics.model import top_words
from fokker.models.topics.run import TopicRun
from fokker.run.interruption import Interruption, Stopped
from fokker.run.progress import Progress

# Seconds between two notes, and between two topics shown.
_NOTE, _TOPIC = 0.5, 3.0
_WORDS = 7


class RunProgress:
    """A `Watcher` that shows a run while it goes on; messages go to `console`. Use it within a `with`.

    `interruption`: where one is given, a request to stop ends what is shown by `show` with `Stopped`.
    """

    def __init__(self, run: TopicRun, console: Console) -> None:
        self.console = console
        self.interruption: Interruption | None = None
        self._description = "reading documents"
        self._progress = Progress(
            self._description, run.plan.end, unit="documents", completed=run.plan.position
        )
        self._run, self._live = run, Live()
        self._topics = itertools.count()
        self._topic, self._next_topic = "", 0.0
        self._seen_at, self._seen_tokens = time.monotonic(), run.tokens

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.__exit__(kind, error, trace)
        self._live.write(self._run)  # as it ended

    def notify(self, text: str) -> None:
        """Print a message that stays."""
        self.console.print(text, markup=False, soft_wrap=True)

    def show(self, description: str, completed: int, total: int | None, unit: str) -> None:
        """Show this part of the run; a new description begins a part with a speed of its own."""
        if self.interruption is not None and self.interruption.asked:
            raise Stopped
        if description != self._description:
            self._description = description
            self._progress.start_part(description, total, unit=unit, completed=completed)
        self._progress.update(completed, total=total)

    def update(self, run: TopicRun) -> None:
        """Show how far the run is; the note changes less often."""
        # Documents that wait for the start are only read: their speed says nothing of what follows.
        description = "learning topics" if run.training.documents else "reading documents"
        self.show(description, run.plan.position, run.plan.end, "documents")
        now = time.monotonic()
        self._live.update(run, now)
        if run.training.documents and now >= self._seen_at + _NOTE:
            self._progress.update(note=self._note(run, now))
            self._seen_at, self._seen_tokens = now, run.tokens

    def _note(self, run: TopicRun, now: float) -> str:
        words_per_second = (run.tokens - self._seen_tokens) / (now - self._seen_at)
        parts = [f"{words_per_second:,.0f} words/s"]
        if run.training.curve.points:
            parts.append(f"perplexity {run.training.curve.points[-1].of_average:,.0f}")
        if now >= self._next_topic and run.training.draws.draws:
            self._topic, self._next_topic = self._next(run), now + _TOPIC
        return "  ".join(filter(None, [*parts, self._topic]))

    def _next(self, run: TopicRun) -> str:
        """The most probable words of the next topic."""
        beta = run.training.draws.draws[-1]  # of the topics of this process
        k = next(self._topics) % beta.shape[1]
        words = run.corpus.vocabulary.words
        return f"[{k}] " + " ".join(words[w] for w in top_words(beta[:, [k]], _WORDS)[0])
