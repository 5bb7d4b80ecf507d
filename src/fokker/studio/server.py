"""The page and its WebSocket: Starlette behind the guard, served to this machine alone."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from fokker.report.page import asset
from fokker.studio.catalogue import catalogue
from fokker.studio.guard import Guard
from fokker.studio.session import MAX_MESSAGE, Session

if TYPE_CHECKING:
    import uvicorn

    from fokker.studio.run_view import RunView

HOST = "127.0.0.1"
MAX_CONNECTIONS = 16
# Blocks of two runs are computed at once, and one question: more would wait for the same cores.
_RUNNERS, _ANALYSTS = 2, 1
_FILES = {
    "": ("index.html", "text/html"),
    "studio.js": ("studio.js", "text/javascript"),
    "studio.css": ("studio.css", "text/css"),
}
# Seconds between two looks whether the server ends, less than it waits for answers.
_LOOK = 0.2
# The codes of a WebSocket that is closed because a message is too large, or because there are too many.
_TOO_LARGE, _TRY_LATER = 1009, 1013


def page_file(name: str) -> bytes:
    """A file of the built page, as it was installed."""
    return resources.files("fokker.studio").joinpath("page", name).read_bytes()


_RUN_FILES = {"run.html": ("run.html", "text/html"), "run.js": ("run.js", "text/javascript")}


async def _catalogue(request: Request) -> Response:
    return JSONResponse(catalogue())


class _Connections:
    """The open WebSockets, at most `MAX_CONNECTIONS`, and the threads that work for them."""

    def __init__(self, is_ending: Callable[[], bool] = lambda: False) -> None:
        self.is_ending = is_ending
        self.sessions: set[Session] = set()
        self.runners = ThreadPoolExecutor(_RUNNERS, thread_name_prefix="studio-run")
        self.analysts = ThreadPoolExecutor(_ANALYSTS, thread_name_prefix="studio-check")

    async def serve(self, websocket: WebSocket) -> None:
        """One connection from its first message to its last."""
        await websocket.accept()
        if len(self.sessions) >= MAX_CONNECTIONS:
            await websocket.close(_TRY_LATER, "too many tabs are open")
            return
        session = Session(websocket, self.runners, self.analysts)
        self.sessions.add(session)
        try:
            while True:
                message = await websocket.receive_text()
                if len(message) > MAX_MESSAGE:
                    await websocket.close(_TOO_LARGE, "a message is too large")
                    return
                await session.handle(message)
        except (WebSocketDisconnect, RuntimeError, KeyError):
            # Closed, in the middle of an answer perhaps, or sent bytes where text is wanted.
            return
        finally:
            session.close()
            self.sessions.discard(session)


def routes(connections: _Connections, run: "RunView | None" = None) -> list[BaseRoute]:
    """Everything that is served; all of it is behind the guard. `run`: one that is watched."""
    return [
        *(Route(f"/{name}", _file(name)) for name in _FILES),
        Route("/catalogue.json", _catalogue),
        WebSocketRoute("/socket", connections.serve),
        *([] if run is None else _run_routes(connections, run)),
    ]


def _file(name: str) -> Any:
    async def respond(request: Request) -> Response:
        file, kind = {**_FILES, **_RUN_FILES}[name]
        return Response(page_file(file), media_type=kind)

    return respond


def _run_routes(connections: _Connections, run: "RunView") -> list[BaseRoute]:
    """The page of a run, its state, its contents, and a request to stop it."""
    from fokker.studio.run_view import StopError

    # In a thread that is free while the draws are read in that of the contents.
    async def state(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(run.state))

    async def content(request: Request) -> Response:
        known = request.query_params.get("known", "")[:64]
        work = asyncio.get_running_loop().run_in_executor(connections.analysts, run.content, known)
        # A long run is read for seconds: an answer that nobody waits for must not hold up the end.
        while not work.done() and not connections.is_ending():
            await asyncio.wait({work}, timeout=_LOOK)
        return JSONResponse(work.result()) if work.done() else Response(status_code=503)

    async def stop(request: Request) -> Response:
        try:
            return JSONResponse({"message": run.stop()})
        except StopError as error:
            return JSONResponse({"message": str(error)}, status_code=409)

    async def style(request: Request) -> Response:
        return Response(asset("report.css"), media_type="text/css")

    return [
        Route("/state.json", state),
        Route("/run.json", content),
        Route("/stop", stop, methods=["POST"]),
        Route("/report.css", style),
        Route("/run", _file("run.html")),
        Route("/run.js", _file("run.js")),
    ]


def create_app(
    token: str, port: int, run: "RunView | None" = None, is_ending: Callable[[], bool] = lambda: False
) -> Guard:
    """The application: there is no way to it but through the guard."""
    connections = _Connections(is_ending)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        for session in list(connections.sessions):
            session.close()
        for threads in (connections.runners, connections.analysts):
            threads.shutdown(wait=False, cancel_futures=True)

    app = Starlette(routes=routes(connections, run), lifespan=lifespan)
    app.state.connections = connections
    return Guard(app, token, port)


def listen(port: int) -> socket.socket:
    """A socket of this machine alone; port 0 takes a free one."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
    except OSError:
        bound.close()
        raise OSError(f"port={port} is in use: give another, or leave it out for any that is free.") from None
    bound.listen()  # a browser that is opened before the server has started waits, and is not refused
    return bound


def address(token: str, port: int) -> str:
    """What to open in the browser."""
    return f"http://{HOST}:{port}/{token}/"


def new_token() -> str:
    """A secret for one start of the server."""
    return secrets.token_urlsafe(24)


def server_of(bound: socket.socket, token: str, run: "RunView | None" = None) -> "uvicorn.Server":
    """The server of the page at a bound socket."""
    import uvicorn

    config = uvicorn.Config(
        create_app(token, bound.getsockname()[1], run, lambda: server.should_exit),
        log_level="warning",
        access_log=False,  # addresses have the token
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        ws_max_queue=8,
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    server = uvicorn.Server(config)
    return server


def serve(bound: socket.socket, token: str, run: "RunView | None" = None) -> None:
    """Serve until interrupted."""
    server_of(bound, token, run).run(sockets=[bound])
