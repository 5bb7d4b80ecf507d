"""The server: its files, its menus, and how many connections and how large messages it takes."""

import asyncio
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from socket import create_connection

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from studio_server import command, until
from test_guard import HOST, ORIGIN, PORT, TOKEN

from chromium import watched
from fokker.report.page import asset
from fokker.studio import server
from fokker.studio.session import MAX_MESSAGE

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "studio"
FILES = ("gallery.css", "gallery.js", "index.html", "run.html", "run.js", "studio.css", "studio.js")
ASSETS = ("report.css", "report.js")


def get(path):
    """The status, headers and body of an answer."""
    return get_of(server.create_app(TOKEN, PORT), path)


def get_of(app, path, query=b""):
    """The same of this application."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": f"/{TOKEN}{path}", "headers": [(b"host", HOST.encode())]}
    scope |= {"client": ("127.0.0.1", 5), "method": "GET", "query_string": query, "scheme": "http"}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(m.get("body", b"") for m in sent[1:])


class Socket:
    """A browser's side of a WebSocket, in the same process."""

    def __init__(self, app):
        self.incoming = asyncio.Queue()
        self.sent = []
        headers = [(b"host", HOST.encode()), (b"origin", ORIGIN.encode())]
        scope = {"type": "websocket", "path": f"/{TOKEN}/socket", "headers": headers, "subprotocols": []}
        scope |= {"client": ("127.0.0.1", 5), "query_string": b"", "scheme": "ws"}

        async def send(message):
            self.sent.append(message)

        self.incoming.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(app(scope, self.incoming.get, send))

    async def say(self, text):
        await self.incoming.put({"type": "websocket.receive", "text": text})
        await self.settle()

    async def settle(self):
        for _ in range(20):
            await asyncio.sleep(0)

    async def close(self):
        await self.incoming.put({"type": "websocket.disconnect", "code": 1000})
        await self.task

    @property
    def closed(self):
        return [m["code"] for m in self.sent if m["type"] == "websocket.close"]


def test_the_page_is_served_with_its_files():
    status, headers, page = get("/")
    assert (status, headers[b"content-type"]) == (200, b"text/html; charset=utf-8")
    for name in re.findall(rb'(?:src|href)="([^":]+)"', page):
        status, _, body = get(f"/{name.decode()}")
        assert status == 200
        assert body
    assert get("/nothing")[0] == 404
    assert b'name="viewport"' in page


def test_the_page_names_no_other_place():
    for name in FILES:
        text = server.page_file(name).decode()
        assert not re.findall(r"(?:https?|wss?)://(?!www\.w3\.org)", text)
        assert "eval(" not in text


def test_a_browser_that_comes_before_the_server_has_started_waits():
    bound = server.listen(0)
    with bound, create_connection(bound.getsockname(), timeout=5) as early:
        assert early.getpeername() == bound.getsockname()


def test_the_menus_are_json():
    menus = json.loads(get("/catalogue.json")[2])
    assert {"targets", "samplers", "dynamics", "integrators", "corrections", "stories"} <= set(menus)


def test_a_message_that_is_too_large_closes_the_connection():
    async def conversation():
        socket = Socket(server.create_app(TOKEN, PORT))
        await socket.settle()
        await socket.say(" " * (MAX_MESSAGE + 1))
        assert socket.closed == [1009]
        await asyncio.wait_for(socket.task, 5)

    asyncio.run(conversation())


def test_bytes_where_text_is_wanted_end_the_connection_alone():
    async def conversation():
        app = server.create_app(TOKEN, PORT)
        socket, other = Socket(app), Socket(app)
        await socket.incoming.put({"type": "websocket.receive", "bytes": b"\0"})
        await asyncio.wait_for(socket.task, 5)
        await other.say("nonsense")
        assert any(m["type"] == "websocket.send" for m in other.sent)
        await other.close()

    asyncio.run(conversation())


def test_five_hundred_connections_leave_nothing_behind():
    async def conversation():
        app = server.create_app(TOKEN, PORT)
        sockets = [Socket(app) for _ in range(500)]
        for socket in sockets:
            await socket.settle()
        refused = [socket for socket in sockets if socket.closed == [1013]]
        assert len(refused) == 500 - server.MAX_CONNECTIONS
        for socket in sockets:
            await socket.close()
        late = Socket(app)
        await late.settle()
        assert late.closed == []
        await late.close()

    asyncio.run(conversation())


def test_the_built_page_is_that_of_the_sources(tmp_path):
    """Rebuilt where Node and esbuild are installed (`make studio`), else its plain files are compared."""
    for name in ("index.html", "run.html"):
        assert (SOURCES / "src" / name).read_bytes() == server.page_file(name)
    for name, built in (
        ("studio.css", server.page_file("studio.css").decode()),
        ("report.css", asset("report.css")),
    ):
        source = next(SOURCES.glob(f"src/**/{name}")).read_text()
        assert built.startswith((SOURCES / "src" / "palette.css").read_text())
        assert built.endswith(source)
    if shutil.which("node") is None or not (SOURCES / "node_modules" / "esbuild").is_dir():
        pytest.skip("Node and esbuild are not installed: `make studio` installs them")
    subprocess.run(["node", SOURCES / "build.mjs", tmp_path], check=True, capture_output=True)
    for name in FILES:
        assert (tmp_path / "studio" / name).read_bytes() == server.page_file(name), "run `make studio`"
    for name in ASSETS:
        assert (tmp_path / "report" / name).read_text() == asset(name), "run `make studio`"


def test_the_lock_names_no_address():
    assert "resolved" not in (SOURCES / "package-lock.json").read_text()


@pytest.mark.slow
def test_an_installed_wheel_serves_the_page_to_a_browser(browser, tmp_path):
    """By its command, with its files alone."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    environment = {"PYTHONPATH": str(installed), "PATH": "", "HOME": str(tmp_path)}
    first = f"assert fokker.__file__.startswith({str(installed)!r}), fokker.__file__"
    with command(first, environment) as address, watched(browser) as page:
        page.goto(address)
        panel = page.locator(".panel[data-step]")
        panel.wait_for(timeout=120_000)
        page.get_by_role("button", name="Run", exact=True).click()
        step = int(panel.get_attribute("data-step"))
        until(lambda: int(panel.get_attribute("data-step")) > step)
    names = {path.name for path in (installed / "fokker").rglob("*")}
    assert {*FILES, *ASSETS} <= names


def needed(requirements, extra=""):
    """The names of the distributions that these requirements install."""
    names, waiting = set(), [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        is_wanted = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        if is_wanted and canonicalize_name(requirement.name) not in names:
            names.add(canonicalize_name(requirement.name))
            waiting += map(Requirement, metadata.requires(requirement.name) or ())
    return names


def test_what_the_extra_installs_is_small():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core, extra = project["dependencies"], project["optional-dependencies"]["studio"]
    added = needed([*core, *extra]) - needed(core)
    assert {"starlette", "uvicorn", "websockets"} <= added
    sizes = {
        n: sum(f.locate().stat().st_size for f in metadata.files(n) if f.locate().is_file()) for n in added
    }
    assert 0 < sum(sizes.values()) < 10e6, sizes
