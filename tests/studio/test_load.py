"""The server under hostile load, over real sockets: no crash, no growth, and the others are served."""

import asyncio
import gc
import json
import os
import socket
import threading

import pytest
from studio_server import TOKEN, until
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from fokker.studio import server
from fokker.studio.frames import unpacked
from fokker.studio.guard import Guard
from fokker.studio.session import MAX_MESSAGE

# Frames of 80 kB, as many as are asked for: built once in the process.
LARGE = {"target": {"name": "normal"}, "sampler": {"name": "sgld"}, "run": {"chains": 10_000, "steps": 1}}
DEEP = {
    "parentheses": "(" * 20_000 + "x" + ")" * 20_000,
    "minus": "-" * 20_000 + "x",
    "powers": "^".join(["x"] * 20_000),
    "levels": "(" * 200 + "x" + ")" * 200,
    "arguments": "maximum(" * 60 + "x" + ", y)" * 60,
    "a number": "1" * 20_000,
}


def address(served):
    return f"ws://127.0.0.1:{served.port}/{TOKEN}/socket"


def joined(served, **options):
    return connect(address(served), origin=f"http://127.0.0.1:{served.port}", max_size=None, **options)


async def asked(tab, message):
    await tab.send(json.dumps(message))
    answer = await asyncio.wait_for(tab.recv(), 60)
    return unpacked(answer)[0] if isinstance(answer, bytes) else json.loads(answer)


async def works(served):
    """Whether a new tab gets an answer."""
    async with joined(served) as tab:
        return (await asked(tab, {"do": "stop", "id": 0}))["kind"] == "stopped"


def memory():
    """Megabytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def left(served):
    """What the server holds: sessions, connections, threads of its own."""
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("studio-")]
    return len(served.connections.sessions), len(served.uvicorn.server_state.connections), len(names)


def is_empty(served):
    return left(served)[:2] == (0, 0)


def test_what_is_served_is_the_guard():
    with server.listen(0) as bound:
        assert isinstance(server.server_of(bound, TOKEN).config.app, Guard)


@pytest.mark.slow
def test_five_hundred_connections_at_once_leave_nothing_behind(served):
    async def crowd():
        tabs = await asyncio.gather(*(joined(served).__aenter__() for _ in range(500)))
        codes = []
        for tab in tabs:
            try:
                codes.append((await asked(tab, {"do": "stop", "id": 0}))["kind"])
            except ConnectionClosed as closed:
                codes.append(closed.rcvd.code)
        assert codes.count("stopped") == server.MAX_CONNECTIONS
        assert codes.count(1013) == 500 - server.MAX_CONNECTIONS
        await asyncio.gather(*(tab.close() for tab in tabs))

    asyncio.run(crowd())  # what is imported and kept once
    until(lambda: is_empty(served))
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(2):
        asyncio.run(crowd())
        until(lambda: is_empty(served))
        assert left(served)[2] <= server._RUNNERS + server._ANALYSTS
    gc.collect()
    # One object more for each connection would be 1,000.
    assert len(gc.get_objects()) - before < 500
    assert asyncio.run(works(served))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
def test_readers_that_do_not_read_hold_one_frame_each(served):
    """Eight tabs ask for 2,000 frames of 80 kB each, 1.3 GB in all, and read none of them."""

    async def stubborn(tab):
        for _ in range(2_000):
            await tab.send(json.dumps({"do": "next", "id": 0}))
            await asyncio.sleep(0.001)

    async def conversation():
        tabs = [await joined(served, max_queue=1).__aenter__() for _ in range(8)]
        for tab in tabs:
            assert (await asked(tab, {"do": "start", "id": 0, "design": LARGE}))["kind"] == "started"
            tab.transport.pause_reading()
        gc.collect()
        before = memory()
        await asyncio.gather(*map(stubborn, tabs))
        gc.collect()
        assert memory() - before < 100
        for session in served.connections.sessions:
            assert len(session._tasks) <= 1
            assert not session._waiting
        assert await works(served)
        for tab in tabs:
            tab.transport.abort()

    asyncio.run(conversation())
    until(lambda: is_empty(served))
    # Nothing is computed for them any more.
    until(lambda: served.connections.runners._work_queue.empty())


def test_a_tab_that_is_cut_off_stops_its_work(served):
    async def conversation():
        tab = await joined(served).__aenter__()
        assert (await asked(tab, {"do": "start", "id": 0, "design": LARGE}))["kind"] == "started"
        for do in ("next", "check", "residual", "recipe"):
            await tab.send(json.dumps({"do": do, "id": 0, "design": LARGE}))
        (session,) = served.connections.sessions
        tab.transport.abort()
        return session

    session = asyncio.run(conversation())
    until(lambda: is_empty(served))
    until(lambda: session.is_idle)
    assert not session._runs
    assert not session._waiting


@pytest.mark.parametrize("formula", DEEP, ids=str)
def test_deep_formulas_get_an_error_over_the_wire(served, formula):
    async def conversation():
        async with joined(served) as tab:
            design = {"target": {"formula": DEEP[formula]}}
            answer = await asked(tab, {"do": "recipe", "id": 0, "design": design})
            assert (answer["kind"], answer["part"]) == ("error", "target.formula")
            assert "unexpected" not in answer
            assert len(answer["message"]) < 1_000

    asyncio.run(conversation())


def test_frames_that_are_too_large_end_their_connection_alone(served):
    """The last in pieces that are small each: their sum is what counts."""

    async def exchange(tab, message):
        await tab.send(message)
        return await asyncio.wait_for(tab.recv(), 60)

    async def conversation():
        async with joined(served) as other:
            for message in (" " * (MAX_MESSAGE + 1), "x" * 20_000_000, b"\0" * 20_000_000, ["x" * 999] * 999):
                async with joined(served) as tab:
                    with pytest.raises(ConnectionClosed) as closed:
                        await exchange(tab, message)
                    # A peer that is still sending may see the end of the connection before its reason.
                    assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
            assert (await asked(other, {"do": "stop", "id": 0}))["kind"] == "stopped"

    asyncio.run(conversation())


def test_noise_on_the_socket_is_no_request(served):
    for noise in (
        b"\0" * 1_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000,
        os.urandom(1_000) + b"\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", served.port), timeout=20) as raw:
            try:
                raw.sendall(noise)
                raw.shutdown(socket.SHUT_WR)
                answer = raw.recv(100)
            except OSError:
                answer = b""
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert asyncio.run(works(served))
