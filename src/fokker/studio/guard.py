"""The door of the page: a token, this machine's names alone, and no other page's scripts.

A plain ASGI application around the whole of the page's own, so that HTTP and WebSocket both pass through it
and no route can be outside. (Middleware for HTTP alone would never see a WebSocket.)
"""

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_NAMES = ("127.0.0.1", "localhost", "[::1]")
# Nothing from elsewhere, nothing inline but styles of elements, and no address given away by links.
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
# The code of a WebSocket that is closed for reasons of policy.
_POLICY = 1008


class Guard:
    """Let a request through if its token, Host, Origin and client are right; else answer 403 and no more."""

    def __init__(self, app: App, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {f"{name}:{port}" for name in _NAMES} | ({*_NAMES} if port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI: `/TOKEN/path` is handed on as `/path`."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        rest = self._path_within(scope)
        if rest is None or not self._is_from_here(scope):
            await _refuse(scope, receive, send)
            return
        inner = {**scope, "path": rest, "raw_path": rest.encode(), "root_path": ""}
        await self._app(inner, receive, _with_headers(send))

    def _path_within(self, scope: Scope) -> str | None:
        """What follows the token in the path; None where the token is wrong."""
        _, token, *rest = [*str(scope.get("path", "")).split("/", 2), ""]
        # In a time that does not depend on how much of it is right.
        if not hmac.compare_digest(token.encode(), self._token):
            return None
        return "/" + rest[0]

    def _is_from_here(self, scope: Scope) -> bool:
        headers: dict[bytes, list[str]] = {}
        for name, value in scope.get("headers", []):
            headers.setdefault(bytes(name).lower(), []).append(bytes(value).decode("latin-1"))
        hosts, origins = headers.get(b"host", []), headers.get(b"origin", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts or len(origins) > 1:
            return False
        # A browser names the Origin of every WebSocket, and of a request that another page made.
        if not origins and scope["type"] == "websocket":
            return False
        if origins and origins[0].lower() not in self._origins:
            return False
        return _is_loopback(scope.get("client"))


def _is_loopback(client: Any) -> bool:
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except (TypeError, ValueError, IndexError):
        return False


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": _POLICY})
        return
    body = b"This page is for the browser of this machine: open the address that `fokker studio` printed.\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Send:
    async def wrapped(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
        await send(message)

    return wrapped
