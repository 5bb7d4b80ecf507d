"""Ctrl-C as a wish, not an accident: what is being done is finished first."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Stopped(BaseException):
    """The wish came while there was nothing to finish."""


class Interruption:
    """Within its `with`, the first of these signals sets `asked`; the second one interrupts at once.

    While `waiting` is true (for documents that may never come) the first one raises `Stopped` there.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self.signals = signals or (signal.SIGINT, signal.SIGTERM)
        self.asked, self.waiting = False, False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        # Elsewhere Python does not let one, and it is not ours to do.
        if threading.current_thread() is threading.main_thread():
            for number in self.signals:
                if signal.getsignal(number) is not None:  # one that is not Python's cannot be put back
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        if self.waiting:
            raise Stopped

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
