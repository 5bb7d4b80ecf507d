"""Which process of a run was lost: each keeps a connection to the first, which the system closes with it.

JAX finds a lost process too, but only after a while, and ends the others in a crash that does not name it. A
process that is suspended is not lost: the others say that they wait for it, and go on with it.
"""

import contextlib
import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable

# Seconds of silence after which the system asks whether the other machine is there, seconds between its
# questions, and how many of them may be left unanswered.
_IDLE, _INTERVAL, _UNANSWERED = 5, 5, 2
_TOKEN_BYTES, _CONNECT_SECONDS = 16, 30.0
# A message is one of these and a number of 4 bytes: the runs that the process has taken part in, or which
# process was lost; or a sign of life.
_GOODBYE, _LOST, _ALIVE = b"b", b"l", b"a"
# Seconds between two signs of life, and of silence after which it is said that a process is waited for.
_BEAT, _SILENCE = 5.0, 20.0


class Watch:
    """The connections of this process, and a thread that ends it with a message when another is lost."""

    def __init__(self, number: int, exchange: Callable[[bytes], list[bytes]], address: str) -> None:
        """`exchange` gives every process what each gave; `address`: of this machine, for the others."""
        self.number, self.host, self.has_left = number, socket.gethostname(), False
        self.runs, self._lock, self._sending = 0, threading.Lock(), threading.Lock()
        self._runs_of_left: dict[int, int] = {}
        listener = _listener() if number == 0 else None
        port = 0 if listener is None else listener.getsockname()[1]
        token = secrets.token_hex(_TOKEN_BYTES // 2) if number == 0 else ""
        rows = exchange(f"{self.host} {address} {port} {token}".encode())
        places = [row.decode().split(" ") for row in rows]
        self.hosts = [place[0] for place in places]
        if listener is None:
            _, address, port_of_first, token = places[0]
            first = socket.create_connection((address, int(port_of_first)), _CONNECT_SECONDS)
            first.sendall(token.encode() + number.to_bytes(4, "little"))
            self._connections = {0: first}
        else:
            self._connections = _accepted(listener, places[0][3].encode(), len(places) - 1)
        for connection in self._connections.values():
            connection.settimeout(None)
            _keep_alive(connection)
        self._heard = dict.fromkeys(self._connections, time.monotonic())
        self._silent: set[int] = set()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def name(self, number: int) -> str:
        """A process by its number and host."""
        return f"process {number} on {self.hosts[number]}"

    def enter_run(self) -> None:
        """Count a run that begins; it cannot if another process has ended before it."""
        with self._lock:
            self.runs += 1
        self._check_left()

    def leave(self) -> None:
        """Tell the others that this process ends because it is done."""
        self.has_left = True
        self._tell(_GOODBYE, self.runs)

    def _check_left(self) -> None:
        with self._lock:
            missing = [number for number, runs in self._runs_of_left.items() if runs < self.runs]
        if missing and not self.has_left:
            self._end(missing[0], "ended before this run")

    def _tell(self, kind: bytes, value: int) -> None:
        message = kind + value.to_bytes(4, "little")
        for connection in self._connections.values():
            with contextlib.suppress(OSError), self._sending:  # that one is gone
                connection.sendall(message)

    def _watch(self) -> None:
        selector = selectors.DefaultSelector()
        for number, connection in self._connections.items():
            selector.register(connection, selectors.EVENT_READ, number)
        woken = time.monotonic()
        while selector.get_map():
            ready = selector.select(_BEAT)
            woken = self._beat(woken, [key.data for key in selector.get_map().values()])
            for key, _ in ready:
                lost = key.data
                self._hear(lost)
                try:
                    message = key.fileobj.recv(1 + 4, socket.MSG_WAITALL)  # type: ignore[union-attr]
                except OSError:
                    message = b""
                value = int.from_bytes(message[1:5], "little")
                if message[:1] == _ALIVE:
                    continue
                if message[:1] == _GOODBYE:
                    selector.unregister(key.fileobj)
                    with self._lock:
                        self._runs_of_left[lost] = value
                    self._check_left()
                    continue
                if message[:1] == _LOST:  # another one, as the first process has found
                    lost = value
                if self.has_left:
                    os._exit(1)  # JAX would wait a minute for the other, and abort
                self._end(lost)

    def _beat(self, before: float, watched: list[int]) -> float:
        """Give a sign of life where it is due, and say which processes give none; `before`: the last time."""
        now = time.monotonic()
        if now - before < _BEAT:
            return before
        if not self.has_left:
            self._tell(_ALIVE, 0)
        if now - before > _SILENCE:  # this process itself stood still, and heard nobody
            self._say(f"{self.name(self.number)} was suspended for {now - before:.0f} seconds, and goes on.")
            self._heard = dict.fromkeys(self._heard, now)
        for number in watched:
            if now - self._heard[number] > _SILENCE and number not in self._silent:
                self._silent.add(number)
                self._say(
                    f"{self.name(number)} has given no sign of life for {now - self._heard[number]:.0f} "
                    f"seconds: it may be suspended. {self.name(self.number)} waits for it."
                )
        return now

    def _hear(self, number: int) -> None:
        """Note down that a process has sent something."""
        now = time.monotonic()
        if number in self._silent:
            self._silent.remove(number)
            self._say(f"{self.name(number)} is back after {now - self._heard[number]:.0f} seconds.")
        self._heard[number] = now

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(
                sys.stderr.fileno() if hasattr(sys.stderr, "fileno") else 2, f"\nfokker: {text}\n".encode()
            )

    def _end(self, lost: int, how: str = "was lost") -> None:
        """Say which process was lost, and end this one: it may wait for the other in a program for ever."""
        self._tell(_LOST, lost)
        self._say(
            f"{self.name(lost)} {how}, and {self.name(self.number)} ends. In the folder of the "
            "run are the draws up to its last checkpoint; the same command goes on from there, with as many "
            "processes as there are."
        )
        os._exit(1)


def _listener() -> socket.socket:
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", 0), family=family, backlog=128, dualstack_ipv6=both)


def _accepted(listener: socket.socket, token: bytes, number: int) -> dict[int, socket.socket]:
    """The connections of that many other processes, which know the token."""
    connections: dict[int, socket.socket] = {}
    listener.settimeout(_CONNECT_SECONDS)
    while len(connections) < number:
        connection, _ = listener.accept()
        connection.settimeout(_CONNECT_SECONDS)
        greeting = connection.recv(len(token) + 4, socket.MSG_WAITALL)
        if secrets.compare_digest(greeting[: len(token)], token):
            connections[int.from_bytes(greeting[len(token) :], "little")] = connection
        else:
            connection.close()
    listener.close()
    return connections


def _keep_alive(connection: socket.socket) -> None:
    """Notice a machine that is gone: its system closes nothing."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", _IDLE), ("TCP_KEEPINTVL", _INTERVAL), ("TCP_KEEPCNT", _UNANSWERED)):
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def own_address(coordinator: str | None) -> str:
    """The address of this machine in the network of the coordinator, HOST:PORT."""
    host = "" if coordinator is None else coordinator.rpartition(":")[0].strip("[]")
    try:
        if not host:
            return socket.gethostbyname(socket.gethostname())
        family, _, _, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()
