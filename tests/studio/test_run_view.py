"""A run that is watched: what is read of its folder, and that nobody but its own process is stopped."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from studio_server import Served, until
from test_guard import COMBINATIONS, HOSTS, ORIGINS, PORT, TOKEN, TOKENS, ask
from test_server import get_of

from chromium import skipped_headings
from fokker._core.lock import LOCK, OWNER, Holder, _started, holder_of, is_held, locked
from fokker.models.topics.live import PROGRESS, read_progress
from fokker.run.stored import StoredTrace
from fokker.run.trace import Trace
from fokker.studio import run_view, server
from fokker.studio.run_view import RunView, StopError

HOLD = """
import sys, time
from pathlib import Path
from fokker._core.lock import locked
with locked(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path):
    """A run of 300 draws of 3 numbers in two chains."""
    draws = {"a": np.random.default_rng(0).normal(size=(2, 300, 2)), "<b>": np.zeros((2, 300))}
    draws["<b>"] += np.random.default_rng(1).normal(size=(2, 300))
    settings = {"chains": 2, "burn_in": 0, "steps": 300, "taken": 300, "temperature": 1.0}
    stats = {"kinetic_temperature": np.ones((2, 300)) + np.arange(300) / 300}
    Trace(draws, None, stats, None, None, settings).save(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def phase():
    """What the process says that it does."""
    return ""


@pytest.fixture
def held(folder, phase):
    """Another process that holds the folder."""
    command = [sys.executable, "-c", HOLD, str(folder), phase]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_page_has_the_parts_of_a_report_and_they_are_sent_once(folder):
    view = RunView(folder)
    first = view.content()
    assert '<section id="parameters">' in first["html"]
    assert "Kinetic temperature" in first["html"]
    assert "&lt;b&gt;" in first["html"]
    assert "<b>" not in first["html"]
    assert not skipped_headings(first["html"])
    state = view.state()
    assert (state["text"], state["canStop"]) == ("not running", False)
    again = view.content(first["serial"])
    assert "html" not in again
    assert "html" in view.content("another")


def test_a_change_of_the_folder_is_seen_and_a_broken_file_leaves_the_last_picture(folder, monkeypatch):
    monkeypatch.setattr(run_view, "_TIMES", 0.0)
    view = RunView(folder)
    first = view.content()
    checkpoint = (folder / "checkpoint.npz").read_bytes()
    (folder / "checkpoint.npz").write_bytes(checkpoint[:100])
    broken = view.content(first["serial"])
    assert broken["serial"] != first["serial"]
    assert broken["html"] == first["html"]
    assert "cannot be read now" in broken["problem"]
    (folder / "checkpoint.npz").write_bytes(checkpoint)
    assert view.content()["problem"] == ""


def test_a_folder_without_draws_says_that_there_is_nothing_yet(tmp_path):
    assert "nothing to show yet" in RunView(tmp_path).content()["html"]


def test_long_runs_are_read_in_part_and_it_is_said(folder, monkeypatch):
    monkeypatch.setattr("fokker.run.store._CHUNK", 2_000)
    draws = {"a": np.arange(2 * 500 * 2.0).reshape(2, 500, 2)}
    settings = {"chains": 2, "burn_in": 0, "steps": 500, "taken": 500}
    Trace(draws, None, {"s": draws["a"][:, :, 0]}, None, None, settings).save(folder.with_name("long"))
    trace = StoredTrace(folder.with_name("long"))
    shown, left_out = trace.glimpse(400, 100, is_running=False)
    number = next(k for k in range(500) if np.array_equal(draws["a"][:, k], shown.samples["a"][:, 0]))
    assert 0 < number <= 400  # the last hundred, from the beginning of their chunk
    every = -(-(500 - number) * 4 // 100)
    np.testing.assert_array_equal(shown.samples["a"], draws["a"][:, number::every])
    np.testing.assert_array_equal(shown.sample_stats["s"], draws["a"][:, number::every, 0])
    assert f"the last {500 - number} of 500 draws of a chain, of these one draw in {every}" == left_out
    np.testing.assert_array_equal(trace.samples["a"], draws["a"])
    whole, left_out = trace.glimpse(10**6, 10**6, is_running=False)
    assert left_out == ""
    np.testing.assert_array_equal(whole.samples["a"], draws["a"])


def test_the_process_that_holds_a_folder_is_known_by_its_start(folder, held):
    holder = holder_of(folder)
    assert (holder.process, holder.host) == (held.pid, socket.gethostname())
    assert holder.is_running
    assert is_held(folder)
    # A process of the same number that started at another time is another one.
    assert not holder._replace(started="another time").is_running
    assert not holder._replace(host="another machine").is_running
    held.kill()
    held.wait()
    assert not holder.is_running
    assert not is_held(folder)
    assert holder_of(folder) == holder  # it could not remove its name
    assert RunView(folder).state()["text"].startswith("killed")
    with locked(folder):
        assert holder_of(folder) == Holder.here()
    assert holder_of(folder) is None


@pytest.mark.skipif(not Path("/proc/uptime").exists(), reason="Linux counts so")
def test_the_start_of_a_process_is_the_time_at_which_it_started():
    """In ticks since the machine was started: those between two looks at the clock."""

    def now():
        return float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK")

    before = now()
    with subprocess.Popen(["sleep", "60"]) as process:
        after, started = now(), _started(process.pid)
        process.kill()
    boot, _, ticks = started.rpartition(":")
    assert boot == _started(os.getpid()).rpartition(":")[0] != ""
    assert before - 2 <= int(ticks) <= after + 2


def test_the_end_of_a_run_is_shown_at_once(folder, held, monkeypatch):
    """While it runs, pictures wait for each other; the last one does not."""
    monkeypatch.setattr(run_view, "_TIMES", 1e6)
    view = RunView(folder)
    first = view.content()
    assert "300 of 300 steps so far" in first["html"]
    os.utime(folder / "checkpoint.npz", ns=(1, 1))
    assert "html" not in view.content(first["serial"])
    held.kill()
    held.wait()
    assert "steps so far" not in view.content(first["serial"])["html"]


def test_the_run_is_asked_once_to_stop(folder, held):
    sent = []
    view = RunView(folder)
    assert view.state() == {"title": str(folder), "text": "running", "canStop": True}
    assert "nothing is lost" in view.stop(lambda *call: sent.append(call))
    assert sent == [(held.pid, signal.SIGINT)]
    # A second Ctrl-C would end it at once.
    assert "asked already" in view.stop(lambda *call: sent.append(call))
    assert len(sent) == 1
    state = view.state()
    assert (state["text"][:8], state["canStop"]) == ("stopping", False)


def test_state_and_stop_are_answered_while_the_draws_are_read(folder, held, monkeypatch):
    """A long run is read for half a minute: its head and its button do not wait for that."""
    is_read = threading.Event()
    view = RunView(folder)
    monkeypatch.setattr(view, "_read", lambda serial: is_read.wait(60))
    monkeypatch.setattr(view, "stop", lambda: "asked")
    served = Served(run=view)

    def fetched(name, data=None):
        headers = {"Origin": served.address.rstrip("/").rpartition("/")[0]}
        request = urllib.request.Request(served.address + name, data, headers)
        return json.loads(urllib.request.urlopen(request, timeout=10).read())

    with ThreadPoolExecutor(1) as threads:
        content = threads.submit(fetched, "run.json")
        until(view._lock.locked)
        try:
            assert fetched("state.json")["text"] == "running"
            assert fetched("stop", b"") == {"message": "asked"}
            assert not content.done()
        finally:
            is_read.set()
    assert set(content.result()) == {"serial", "problem"}
    served.stop()


@pytest.mark.parametrize("phase", ["writing the report"])
def test_a_run_that_writes_its_report_has_not_ended_and_is_not_stopped(folder, held):
    view = RunView(folder)
    assert view.state() == {"title": str(folder), "text": "writing the report", "canStop": False}
    with pytest.raises(StopError, match="its process is writing the report"):
        view.stop(lambda *call: pytest.fail(str(call)))


def test_the_holder_of_a_folder_is_known_on_a_host_with_a_long_name(folder):
    holder = OWN._replace(host="ip-10-0-12-134.eu-central-1.compute.internal" + 100 * "x")
    (folder / OWNER).write_text(str(holder))
    assert holder_of(folder) == holder


def test_a_process_with_the_number_of_the_run_is_not_stopped(folder, held):
    """The folder is held, by a child of the run perhaps, and the number in it has been used again."""
    holder = holder_of(folder)
    (folder / OWNER).write_text(str(holder._replace(started="before")))
    with pytest.raises(StopError, match="ended already"):
        RunView(folder).stop(lambda *call: pytest.fail(str(call)))


OWN = Holder.here()


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (None, "no process is known"),
        ("process 1 on x", "no process is known"),
        (f"process {OWN.process} on elsewhere, since {OWN.started}", "another machine"),
        (f"process {OWN.process} on {OWN.host}, since yesterday", "ended already"),
        (str(OWN), "ended already"),  # it runs, but does not hold the folder
        (f"process -1 on {OWN.host}, since {OWN.started}", "no process is known"),
    ],
    ids=["none", "old", "elsewhere", "earlier", "other", "negative"],  # the same in every worker
)
def test_a_stranger_is_never_stopped(folder, owner, reason):
    (folder / LOCK).touch()
    if owner is not None:
        (folder / OWNER).write_text(owner)

    def send(*call):
        raise AssertionError(call)

    with pytest.raises(StopError, match=reason):
        RunView(folder).stop(send)


def test_every_route_of_a_run_lets_in_one_combination_of_twelve(folder):
    app = server.create_app(TOKEN, PORT, RunView(folder))
    plain = {route.path for route in server.routes(server._Connections())}
    new = [r for r in server.routes(server._Connections(), RunView(folder)) if r.path not in plain]
    assert {route.path for route in new} == {
        "/state.json",
        "/run.json",
        "/stop",
        "/report.css",
        "/run",
        "/run.js",
    }
    for route in new:
        method = "POST" if "POST" in route.methods else "GET"
        for token, host, origin in COMBINATIONS:
            path = f"/{TOKENS[token]}{route.path}"
            status = ask(app, path, host=HOSTS[host], origin=ORIGINS[origin], method=method)
            is_right = (token, host, origin) == ("right", "right", "right")
            # Nobody runs there: there is nothing to stop.
            assert status == ((409 if route.path == "/stop" else 200) if is_right else 403), route.path
    assert ask(app, f"/{TOKEN}/stop") == 405  # a link does not stop a run
    assert ask(server.create_app(TOKEN, PORT), f"/{TOKEN}/run.json") == 404


def test_the_served_page_is_that_of_the_folder_alone(folder):
    app = server.create_app(TOKEN, PORT, RunView(folder))
    status, _, body = get_of(app, "/state.json", b"folder=/etc")
    assert status == 200
    assert json.loads(body)["title"] == str(folder)
    status, headers, page = get_of(app, "/run")
    assert headers[b"content-type"].startswith(b"text/html")
    assert b"run.js" in page


def test_topics_are_shown_as_they_are_learned(tmp_path):
    curve = [[10, 1.0, 90.0, 95.0, 0], [20, 2.0, None, 80.0, 1]]
    content = {"source": "<i>", "position": 20, "end": None, "documents": 20, "steps": 2, "tokens": 1000}
    content |= {"seconds": 2.0, "sampler": "scir", "topics": [["one", "<b>two"], ["three"]], "curve": curve}
    (tmp_path / PROGRESS).write_text(json.dumps(content))
    page = RunView(tmp_path).content()["html"]
    for part in (
        "No verdict yet",
        "&lt;i&gt;",
        "one &lt;b&gt;two",
        "80 after 20 documents",
        "2 steps of scir",
    ):
        assert part in page
    assert not skipped_headings(page)
    assert skipped_headings("<h1>A</h1><h3>B</h3><h2>C</h2><h3>D</h3>") == ["B"]
    (tmp_path / PROGRESS).write_text('{"curve": 1}')
    assert read_progress(tmp_path) is None
    assert os.listdir(tmp_path) == [PROGRESS]


def test_a_server_that_ends_waits_for_no_run_that_is_still_read():
    is_read = threading.Event()

    class Slow:
        def content(self, known):
            is_read.wait(60)

    app = server.create_app(TOKEN, PORT, Slow(), is_ending=lambda: True)
    status, _, _ = get_of(app, "/run.json")
    is_read.set()
    assert status == 503
