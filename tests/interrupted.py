"""A Ctrl-C at a given place of a run."""

import signal

from fokker.run import loop


def interrupt_at(monkeypatch, method, call):
    """Send SIGINT at the n-th call of a method of `Run`, after it has done its work."""
    right, calls = getattr(loop.Run, method), []

    def interrupted(self, *given):
        result = right(self, *given)
        calls.append(given)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(loop.Run, method, interrupted)
