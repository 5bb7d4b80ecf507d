"""The command `fokker studio`."""

import re
import sys

import pytest
from typer.testing import CliRunner

import fokker.studio
from fokker.cli import app
from fokker.cli.flags import CommandError
from fokker.cli.studio import studio
from fokker.studio import server


def test_the_address_is_printed_and_served(monkeypatch):
    served = []

    def serve(bound, token, run):
        served.append(server.address(token, bound.getsockname()[1]))
        bound.close()

    monkeypatch.setattr(server, "serve", serve)
    result = CliRunner().invoke(app, ["studio", "--no-open"])
    assert result.exit_code == 0
    assert served[0] in result.output
    assert served[0].startswith("http://127.0.0.1:")


def test_the_browser_is_opened(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(server, "serve", lambda bound, token, run: bound.close())
    CliRunner().invoke(app, ["studio"])
    assert opened[0].startswith("http://127.0.0.1:")


def test_a_run_is_watched_at_an_address_of_its_own(monkeypatch, tmp_path):
    watched = []

    def serve(bound, token, run):
        watched.append(run.folder)
        bound.close()

    monkeypatch.setattr(server, "serve", serve)
    result = CliRunner().invoke(app, ["studio", "--no-open", "--run", str(tmp_path)])
    assert watched == [tmp_path]
    assert re.search(r"http://127\.0\.0\.1:\d+/\S+/run\n", result.output)
    with pytest.raises(
        CommandError, match="nowhere does not exist yet: start the run first, in another terminal"
    ):
        studio(run=tmp_path / "nowhere", open_browser=False)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    monkeypatch.delitem(sys.modules, "fokker.studio.server")
    monkeypatch.delattr(fokker.studio, "server")
    with pytest.raises(CommandError, match=r"pip install 'fokker\[studio\]'"):
        studio(open_browser=False)
