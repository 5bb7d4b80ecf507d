"""Signals that end a run: what is obeyed, and a terminal that is closed."""

import os
import pty
import signal
import sys

import pytest

from fokker.run.interruption import Interruption, leave_closed_terminal


@pytest.mark.usefixtures("foreground")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_and_the_second_interrupts(number):
    before = signal.getsignal(number)
    with Interruption() as interruption:
        signal.raise_signal(number)
        assert interruption.asked
        assert interruption.received == number
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_nohup_is_obeyed():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGHUP)
            assert not interruption.asked
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("is_closed", [True, False])
def test_nothing_is_written_to_a_terminal_that_is_closed(monkeypatch, is_closed):
    """After it was closed every line would be an error, in the middle of what is still to be written."""
    other_end, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        if is_closed:
            os.close(other_end)
            with pytest.raises(OSError, match="Input/output error"):
                os.write(terminal, b"a line")
        leave_closed_terminal(signal.SIGHUP)
        print("a line", file=stream, flush=True)
        assert os.isatty(terminal) != is_closed
    if not is_closed:
        assert os.read(other_end, 100) == b"a line\r\n"
        os.close(other_end)
