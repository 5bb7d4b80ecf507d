"""The command in this process: `fokker("check", "file.py:name")` gives its exit code and what it printed."""

import sys

import pytest

from fokker import cli


@pytest.fixture
def fokker(monkeypatch, capsys):
    # Under `python -m pytest` Click would take pytest for the name of the command.
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fokker", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        return stop.value.code or 0, printed.out, printed.err

    return run
