"""Ctrl-C and SIGTERM as requests: the current work is finished first."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Stopped(BaseException):
    """The request came while there was nothing to finish."""


class Interruption:
    """Inside its `with` block the first of these signals sets `asked`; the second interrupts at once.

    While `waiting` is true (for documents that may never come) the first one raises `Stopped` there.
    `received`: the number of the signal.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self.signals = signals or (signal.SIGINT, signal.SIGTERM)
        self.asked, self.waiting = False, False
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        # Python allows signal handlers to be set in the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in self.signals:
                if signal.getsignal(number) is not None:  # one set outside Python cannot be restored
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
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
