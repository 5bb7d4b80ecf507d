"""Ctrl-C and SIGTERM as requests: the current work is finished first. So is SIGHUP, of a closed terminal."""

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

# What ends a process from outside; SIGHUP is not on every system.
ENDING = tuple(
    signal.Signals(getattr(signal, name)) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class Stopped(BaseException):
    """The request came while there was nothing to finish."""


class Interruption:
    """Inside its `with` block the first of these signals sets `asked`; the second interrupts at once.

    While `waiting` is true (for documents that may never come) the first one raises `Stopped` there.
    `received`: the number of the signal.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self.signals = signals or (signal.SIGINT, *ENDING)
        self.asked, self.waiting = False, False
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        # Python allows signal handlers to be set in the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in self.signals:
                if can_be_handled(number):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        leave_closed_terminal(number)
        if self.asked:
            raise KeyboardInterrupt
        self.asked, self.received = True, number
        if self.waiting:
            raise Stopped

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def can_be_handled(number: int) -> bool:
    """Whether a handler may be set: one from outside Python cannot be restored, and `nohup` is obeyed."""
    before = signal.getsignal(number)
    is_hangup = number == getattr(signal, "SIGHUP", None)
    return before is not None and not (is_hangup and before is signal.SIG_IGN)


def leave_closed_terminal(number: int) -> None:
    """After SIGHUP, write nothing more to a terminal that is closed: that would end the process."""
    if number != getattr(signal, "SIGHUP", None):
        return
    for stream in (sys.stdout, sys.stderr):
        try:
            descriptor = stream.fileno()
        except (AttributeError, OSError, ValueError):  # not a file
            continue
        try:
            os.write(descriptor, b"")
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
