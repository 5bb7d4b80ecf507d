"""A run on disk, as the page shows it while it goes on: read by its folder alone, at each change of it.

The parts are those of reports, in the same HTML. The folder is given when the server is started: a page names
no folder, and reads no other.
"""

import contextlib
import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fokker._core.lock import OWNER, Holder, holder_of, is_held
from fokker.diagnostics import Grade
from fokker.models.topics.curve import curve_from_array
from fokker.models.topics.files import SUMMARY
from fokker.models.topics.live import PROGRESS, read_progress
from fokker.models.topics.report import curve_figure
from fokker.models.topics.summary import RunSummary
from fokker.report.page import figure_part, html, table, verdict_part
from fokker.report.trace_page import trace_parts
from fokker.run.store import CHECKPOINT, DESCRIPTION, PREVIOUS
from fokker.run.stored import StoredTrace

# What changes when a run goes on.
_WATCHED = (CHECKPOINT, PREVIOUS, DESCRIPTION, PROGRESS, SUMMARY, OWNER)
# Draws whose effective number is followed: fewer than in a report, as it is computed again and again.
_WORK = 500_000
# Numbers of theta that are read at most, the last ones, and that are kept of these.
_READ, _KEPT = 40_000_000, 2_000_000
# A new picture is made when so many times its own time has passed: the run has the cores for the rest.
_TIMES = 3.0
_NOTHING_YET = "There is nothing to show yet: the run has too few draws, or is still learning its settings."


class StopError(Exception):
    """Why a run cannot be stopped from here."""


class RunView:
    """The run in a folder: its state, its pictures, and how to stop it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._lock = threading.Lock()
        self._serial, self._html, self._problem = "", "", ""
        self._not_before, self._was_running = 0.0, False
        self._asked: Holder | None = None

    def state(self) -> dict[str, Any]:
        """What the head of the page says: by the files, while the draws are being read or not."""
        holder = holder_of(self.folder)
        can_stop = False
        if holder is None:
            text = "not running"
        elif holder.is_running:
            is_asked = holder == self._asked
            can_stop = not (is_asked or holder.phase)
            text = "stopping: the current work is finished first" if is_asked else holder.phase or "running"
        elif holder.host != Holder.here().host:
            text = f"held by {holder}: it may run there"
        else:
            text = "killed, or not ended well: its command continues it"
        return {"title": str(self.folder), "text": text, "canStop": can_stop}

    def content(self, known: str = "") -> dict[str, Any]:
        """The parts of the page in HTML, where they are not those that are known already."""
        with self._lock:
            is_running = self._is_running()
            # The last picture is made at once: a run that has ended leaves the cores free.
            has_ended = self._was_running and not is_running
            is_due = has_ended or time.monotonic() >= self._not_before or not self._serial
            serial = self._changed(is_running)
            if serial != self._serial and is_due:
                before, self._was_running = time.monotonic(), is_running
                self._read(serial)
                self._not_before = time.monotonic() + _TIMES * (time.monotonic() - before)
            answer = {"serial": self._serial, "problem": self._problem}
            return answer if known == self._serial else {**answer, "html": self._html}

    def _is_running(self) -> bool:
        holder = holder_of(self.folder)
        return holder is not None and holder.is_running

    def _changed(self, is_running: bool) -> str:
        """A text that differs when a file of the run does, or when its process has ended."""
        digest = hashlib.sha256(str(is_running).encode())
        for name in _WATCHED:
            with contextlib.suppress(OSError):
                status = (self.folder / name).stat()
                digest.update(f"{name} {status.st_mtime_ns} {status.st_size} {status.st_ino};".encode())
        return digest.hexdigest()[:16]

    def _read(self, serial: str) -> None:
        try:
            parts = self._parts()
            self._html, self._problem = "\n".join(map(str, parts)), ""
        except (
            Exception
        ) as error:  # the run may be replacing a file: the last picture stays, and it is tried again
            self._problem = f"the folder cannot be read now: {error}"
            self._html = self._html or str(html("<p>{{ text }}</p>", text=_NOTHING_YET))
        self._serial = serial

    def _parts(self) -> list[str]:
        progress = read_progress(self.folder)
        if progress is not None:
            return _topic_parts(progress, RunSummary.read(self.folder))
        if not any((self.folder / name).is_file() for name in (CHECKPOINT, PREVIOUS)):
            return [html("<p>{{ text }}</p>", text=_NOTHING_YET)]
        is_running = self._is_running()
        trace, left_out = StoredTrace(self.folder).glimpse(_READ, _KEPT, is_running)
        try:
            summary = trace.summary(gradients=False)
        except (ValueError, RuntimeError) as error:
            return [html("<p>{{ text }}</p>", text=f"{_NOTHING_YET} ({error})")]
        if is_running:
            settings = trace.settings
            total = settings["burn_in"] + settings["steps"]
            summary.notes.append(f"{settings['taken']:,} of {total:,} steps so far")
        if left_out:
            summary.notes.append(f"this picture has {left_out}; the report at the end has all")
        return trace_parts(trace, summary, work=_WORK)

    def stop(self, send: Callable[[int, int], None] = os.kill) -> str:
        """Ask the process of the run to end, as Ctrl-C does: it finishes its work, and writes everything.

        Only the very process that holds the folder, on this machine: by its number and when it started, and
        by the lock, which the system releases with its end.
        """
        holder = holder_of(self.folder)
        if os.name != "posix":
            raise StopError("a run cannot be stopped from here on this system: press Ctrl-C where it runs.")
        if holder is None:
            raise StopError("no process is known to run in this folder.")
        if holder.host != Holder.here().host:
            raise StopError(f"the run is {holder}, which is another machine: stop it there.")
        if not holder.is_running or not is_held(self.folder):
            raise StopError("the run has ended already, or was killed.")
        if holder.phase:
            raise StopError(f"the run has ended already: its process is {holder.phase}.")
        if holder == self._asked:
            return "asked already: the current work is finished first."
        if holder_of(self.folder) != holder:
            raise StopError("another process has taken the folder in the meantime: try again.")
        self._asked = holder
        send(holder.process, signal.SIGINT)
        return "asked to stop: the current work is finished first, and nothing is lost."


def _topic_parts(progress: dict[str, Any], summary: RunSummary | None) -> list[str]:
    """The parts of a run over documents."""
    end = "" if progress["end"] is None else f" of {progress['end']:,}"
    read = f"{progress['position']:,}{end} documents of {progress['source']} read"
    steps = f"{progress['tokens']:,} words and {progress['steps']:,} steps of {progress['sampler']}"
    text = f"{read}, {steps}, {progress['seconds']:,.0f} s."
    curve = curve_from_array(progress["curve"])
    rows = [[str(k), " ".join(words)] for k, words in enumerate(progress["topics"])]
    return [
        _topic_verdict(summary),
        html("<p>{{ text }}</p><h2>Held-out perplexity</h2>", text=text),
        figure_part(curve_figure(curve, None if summary is None else summary.unigram_perplexity, None)),
        "<h2>Topics</h2>",
        table(["topic", "words"], rows, "Topics", sortable=True),
    ]


def _topic_verdict(summary: RunSummary | None) -> str:
    """That of the end of the run; before it there is none."""
    if summary is None:
        text = "The topics are judged at the end of the run, by its stored draws and the held-out documents."
        return verdict_part(Grade.CARE, [], checked=text, word="No verdict yet.")
    grade = Grade.BAD if not summary.is_useful else Grade.CARE if summary.problems else Grade.GOOD
    text = (
        f"The held-out perplexity is {summary.perplexity:,.0f}, by word frequencies alone "
        f"{summary.unigram_perplexity:,.0f}."
    )
    return verdict_part(grade, summary.problems, [*summary.notes, "More is in report.html."], text)
