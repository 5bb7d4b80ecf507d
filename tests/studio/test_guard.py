"""The guard: every route asks for the token, this machine's names and a page of our own."""

import asyncio
import itertools

import pytest
from starlette.routing import WebSocketRoute

from fokker.studio import server
from fokker.studio.guard import Guard

TOKEN, PORT = "the-right-token", 8123
HOST, ORIGIN = f"127.0.0.1:{PORT}", f"http://127.0.0.1:{PORT}"


def ask(app, path, *, kind="http", host=HOST, origin=ORIGIN, client="127.0.0.1", method="GET"):
    """The status of an answer: 403 where it is refused, of a WebSocket 101 where it is accepted."""
    headers = [(b"host", host.encode())] if host is not None else []
    headers += [(b"origin", origin.encode())] if origin is not None else []
    scope = {"type": kind, "path": path, "headers": headers, "client": (client, 5), "method": method}
    scope |= {"query_string": b"", "subprotocols": [], "scheme": "ws" if kind == "websocket" else "http"}
    first = {"type": f"{kind}.connect"} if kind == "websocket" else {"type": "http.request", "body": b""}
    incoming = iter([first, {"type": "websocket.disconnect" if kind == "websocket" else "http.disconnect"}])
    sent = []

    async def receive():
        return next(incoming)

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    if kind == "websocket":
        return {"websocket.accept": 101, "websocket.close": 403}[sent[0]["type"]]
    return sent[0]["status"]


@pytest.fixture(scope="module")
def app():
    return server.create_app(TOKEN, PORT)


def all_routes():
    routes = server.routes(server._Connections())
    return [(route.path, "websocket" if isinstance(route, WebSocketRoute) else "http") for route in routes]


HOSTS = {"right": HOST, "other": "evil.example", "none": None}
ORIGINS = {"right": ORIGIN, "other": "http://evil.example"}
TOKENS = {"right": TOKEN, "wrong": "the-wrong-token"}
# Every combination of token, Host and Origin: 12, of which one is right.
COMBINATIONS = list(itertools.product(TOKENS, HOSTS, ORIGINS))


@pytest.mark.parametrize(("path", "kind"), all_routes())
def test_every_route_lets_in_one_combination_of_twelve(app, path, kind):
    assert len(COMBINATIONS) == 12
    for token, host, origin in COMBINATIONS:
        status = ask(app, f"/{TOKENS[token]}{path}", kind=kind, host=HOSTS[host], origin=ORIGINS[origin])
        is_right = (token, host, origin) == ("right", "right", "right")
        assert status == ({"websocket": 101, "http": 200}[kind] if is_right else 403), (token, host, origin)


@pytest.mark.parametrize(("path", "kind"), all_routes())
@pytest.mark.parametrize(
    "change",
    [
        {"client": "192.168.1.7"},
        {"client": "not an address"},
        {"host": "127.0.0.1"},
        {"host": f"127.0.0.1:{PORT + 1}"},
        {"host": f"127.0.0.1.evil.example:{PORT}"},
        {"origin": f"https://127.0.0.1:{PORT}"},
        {"origin": f"http://127.0.0.1:{PORT + 1}"},
        {"origin": "null"},
    ],
    ids=str,
)
def test_nothing_comes_from_elsewhere(app, path, kind, change):
    assert ask(app, f"/{TOKEN}{path}", kind=kind, **change) == 403


@pytest.mark.parametrize(
    "path", ["", "/", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", "/../", f"//{TOKEN}/", f"/%00/{TOKEN}/"]
)
def test_the_token_is_asked_for_whole(app, path):
    assert ask(app, path) == 403
    assert ask(app, path, kind="websocket") == 403


def test_a_page_typed_into_the_browser_has_no_origin_but_a_socket_has_one(app):
    assert ask(app, f"/{TOKEN}/", origin=None) == 200
    assert ask(app, f"/{TOKEN}/socket", kind="websocket", origin=None) == 403


def test_other_names_of_this_machine_are_right(app):
    for name in ("localhost", "[::1]"):
        assert ask(app, f"/{TOKEN}/", host=f"{name}:{PORT}", origin=f"http://{name}:{PORT}") == 200


def test_no_route_is_outside_of_the_guard(app):
    """What `create_app` returns is the guard, and all that is served is behind it."""
    assert isinstance(app, Guard)
    reached = []

    async def inner(scope, receive, send):
        reached.append(scope["path"])

    guarded = Guard(inner, TOKEN, PORT)
    for path in ("/new", "/deep/er", "/"):
        with pytest.raises(IndexError):  # the inner application answers nothing
            ask(guarded, f"/{TOKEN}{path}")
        assert ask(guarded, f"/wrong{path}") == 403
        assert ask(guarded, path) == 403
    assert reached == ["/new", "/deep/er", "/"]


def test_answers_name_no_other_place():
    async def body(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "path": f"/{TOKEN}/",
        "headers": [(b"host", HOST.encode())],
        "client": ("::1", 1),
    }
    asyncio.run(Guard(body, TOKEN, PORT)(scope, None, send))
    headers = dict(sent[0]["headers"])
    assert b"default-src 'none'" in headers[b"content-security-policy"]
    assert b"unsafe" not in headers[b"content-security-policy"]
    assert headers[b"referrer-policy"] == b"no-referrer"


def test_the_socket_is_bound_to_this_machine_and_a_used_port_is_named():
    with server.listen(0) as bound:
        host, port = bound.getsockname()
        assert host == "127.0.0.1"
        bound.listen()
        with pytest.raises(OSError, match=f"port={port} is in use"):
            server.listen(port)


def test_tokens_differ():
    assert len({server.new_token() for _ in range(20)}) == 20
    assert len(server.new_token()) >= 32
