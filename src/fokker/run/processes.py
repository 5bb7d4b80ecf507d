"""Runs of many processes, on one machine or on many: `fk.processes.start` in each, before anything else."""

import atexit
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

Result = TypeVar("Result")

# Seconds without a sign of life after which JAX takes a process for lost.
_HEARTBEAT_SECONDS = 20
# Seconds in which a process that is alive answers another, and for which one that has lost another waits for
# the others to find it alive.
_ANSWER_SECONDS, _LINGER_SECONDS = 2.0, 1.0


class LostProcessError(RuntimeError):
    """Another process of the run has ended before its time."""


class _Peers:
    """Where the processes are, and how to find out which of them is lost: it does not accept connections."""

    def __init__(self, coordinator: str | None) -> None:
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        self.listener = socket.create_server(("", 0), family=family, backlog=64, dualstack_ipv6=dual)
        own = pickle.dumps((socket.gethostname(), _own_address(coordinator), self.listener.getsockname()[1]))
        self.places: list[tuple[str, str, int]] = [pickle.loads(x) for x in _from_all(own)]

    def lost(self) -> list[str]:
        """The processes that do not answer, by number and host."""
        found = []
        for number, (host, address, port) in enumerate(self.places):
            if number == jax.process_index():
                continue
            try:
                socket.create_connection((address, port), _ANSWER_SECONDS).close()
            except OSError:
                found.append(f"process {number} on {host}")
        return found


_peers: _Peers | None = None
_has_lost = False


def start(coordinator: str | None = None, processes: int | None = None, process: int | None = None) -> None:
    """Make this process number `process` of `processes` that run together; all call this first of all.

    ```python
    fk.processes.start("node1:12345", processes=2, process=0)  # and with process=1 in the other
    trace = fk.sample(target, sampler, init=init, steps=10_000, chains=4, mesh={"chains": 2}, out="run")
    ```

    `coordinator` is a free port of the machine of process 0, as HOST:PORT. Without arguments they are what
    Slurm, Open MPI or Kubernetes say (`jax.distributed.initialize`). All processes then make the same calls.
    A second call changes nothing.
    """
    global _peers
    if _peers is not None:
        return
    given = (coordinator, processes, process)
    if any(x is not None for x in given) and any(x is None for x in given):
        raise ValueError(
            "coordinator, processes and process belong together: give all three, or none under Slurm, "
            f"Open MPI or Kubernetes. Given were {coordinator!r}, {processes!r} and {process!r}."
        )
    if coordinator is not None and not coordinator.rpartition(":")[2].isdigit():
        raise ValueError(f"the coordinator is a host and a port, as node1:12345; {coordinator!r} was given.")
    if processes is not None and process is not None and not 0 <= process < processes:
        raise ValueError(
            f"the numbers of {processes} processes go from 0 to {processes - 1}; {process} was given."
        )
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # It would take SIGTERM for itself.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=_HEARTBEAT_SECONDS,
        )
    except ValueError as error:
        raise ValueError(
            f"this process does not know the others ({error}): give coordinator, processes and process, or "
            "start it with srun, mpirun or an indexed job of Kubernetes."
        ) from error
    if jax.process_count() > 1:
        _peers = _Peers(coordinator)
        atexit.register(_leave_at_once)


def expected() -> bool:
    """Whether the environment says that this is one of many processes."""
    variables = os.environ
    if "SLURM_JOB_ID" in variables and "SLURM_PROCID" in variables:
        return int(variables.get("SLURM_NTASKS", 1)) > 1
    if "OMPI_MCA_orte_hnp_uri" in variables:
        return int(variables.get("OMPI_COMM_WORLD_SIZE", 1)) > 1
    return "KUBERNETES_SERVICE_HOST" in variables and "JOB_COMPLETION_INDEX" in variables


def is_first() -> bool:
    """Whether this process is the one that writes and prints. It asks JAX for its devices."""
    return jax.process_index() == 0


def first_ones(tree: PyTree[Any]) -> PyTree[Any]:
    """The arrays of the first process, in all of them; keys are left, which all processes make alike."""
    from jax.experimental import multihost_utils

    is_number = lambda x: eqx.is_array(x) and not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    numbers, rest = eqx.partition(tree, is_number)
    return eqx.combine(multihost_utils.broadcast_one_to_all(numbers), rest)


def _from_all(own: bytes) -> list[bytes]:
    """What each process gave."""
    from jax.experimental import multihost_utils

    lengths = np.asarray(multihost_utils.process_allgather(np.array([len(own)]))).reshape(-1)
    padded = np.frombuffer(own.ljust(int(lengths.max()), b"\0"), np.uint8)
    rows = np.asarray(multihost_utils.process_allgather(padded)).reshape(len(lengths), -1)
    return [row.tobytes()[:length] for row, length in zip(rows, lengths, strict=True)]


def by_first(function: Callable[[], Result]) -> Result:
    """What the function returns, or raises, in the first process, for all; only that one calls it."""
    if jax.process_count() == 1:
        return function()
    outcome: tuple[Any, BaseException | None] = (None, None)
    if is_first():
        try:
            outcome = function(), None
        except Exception as error:
            outcome = None, error
    result, problem = pickle.loads(_from_all(pickle.dumps(outcome))[0])
    if problem is not None:
        raise problem
    return result


def check_seen_by_all(folder: Path) -> None:
    """Raise, in all processes, unless every one of them sees the folder that the first has made."""
    seen = _from_all(b"+" if folder.is_dir() else b"-")
    blind = [str(number) for number, mark in enumerate(seen) if mark != b"+"]
    if blind:
        raise ValueError(
            f"{folder} is not there for the processes {', '.join(blind)}: give a folder on a disk that all "
            "processes share, by its full path."
        )


def lost_process(error: Exception) -> LostProcessError | None:
    """The error that says which process was lost, where that is why JAX raised this one."""
    global _has_lost
    lost = [] if _peers is None else _peers.lost()
    if not lost:
        return None
    _has_lost = True
    return LostProcessError(
        f"{' and '.join(lost)} was lost, as process {jax.process_index()} on {socket.gethostname()} has "
        "found. With out=…, the draws until the last checkpoint are in that folder, and the same command "
        "goes on from there with as many processes as there are."
    )


def _leave_at_once() -> None:
    """End a process that has lost another: JAX would wait for it, and end in a crash."""
    if not _has_lost:
        return
    time.sleep(_LINGER_SECONDS)  # the others may still ask whether this one is alive
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _own_address(coordinator: str | None) -> str:
    """The address of this machine in the network of the coordinator."""
    host = "" if coordinator is None else coordinator.rpartition(":")[0].strip("[]")
    try:
        if host:
            family = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family[0], socket.SOCK_DGRAM) as probe:
                probe.connect(family[4])  # sends nothing
                return str(probe.getsockname()[0])
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return socket.gethostname()
