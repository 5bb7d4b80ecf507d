"""Runs of many processes, on one machine or on many: `fk.processes.start` in each, before anything else."""

import atexit
import contextlib
import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fokker._core.parts import CHAINS
from fokker.run.watch import Watch, own_address

Result = TypeVar("Result")

# Seconds without a sign of life after which JAX takes a process for lost and aborts all: a day. `Watch` finds
# one that is gone much earlier, and a process that is suspended may come back.
_HEARTBEAT_SECONDS = 24 * 60 * 60
# Seconds that an error of JAX waits, as `Watch` may be about to say that a process was lost.
_WATCH_SECONDS = 5.0

_watch: Watch | None = None
# The exit code of this process where a run failed in it but not in the others, which wait for it.
_failure: int | None = None


def start(coordinator: str | None = None, processes: int | None = None, process: int | None = None) -> None:
    """Make this process number `process` of `processes` that run together; all call this first of all.

    ```python
    fk.processes.start("node1:12345", processes=2, process=0)  # and with process=1 in the other
    trace = fk.sample(target, sampler, init=init, steps=10_000, chains=4, mesh={"chains": 2}, out="run")
    ```

    All processes then make the same calls. A second call of this changes nothing.

    - `coordinator`: a free port of the machine of process 0, as HOST:PORT.
    - `processes`: how many there are.
    - `process`: the number of this one, from 0.

    Without arguments they are what Slurm, Open MPI or Kubernetes say (`jax.distributed.initialize`).
    """
    global _watch
    if _watch is not None:
        return
    arguments = (coordinator, processes, process)
    if any(x is not None for x in arguments) and any(x is None for x in arguments):
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
        _watch = Watch(jax.process_index(), _from_all, own_address(coordinator))
        atexit.register(_leave)


def expected() -> bool:
    """Whether the environment says that this is one of many processes."""
    variables = os.environ
    if "SLURM_JOB_ID" in variables and "SLURM_PROCID" in variables:
        return int(variables.get("SLURM_NTASKS", 1)) > 1
    if "OMPI_MCA_orte_hnp_uri" in variables:
        return int(variables.get("OMPI_COMM_WORLD_SIZE", 1)) > 1
    return "KUBERNETES_SERVICE_HOST" in variables and "JOB_COMPLETION_INDEX" in variables


def join(mesh: str | None, coordinator: str | None, processes: int | None, process: int | None) -> str | None:
    """Start as one of many processes where the options of a command or the environment say so; its mesh."""
    if expected() or any(x is not None for x in (coordinator, processes, process)):
        start(coordinator, processes, process)
        return mesh or CHAINS
    return mesh


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


def check_same_settings(settings: Mapping[str, Any]) -> None:
    """Raise in all processes where one has other settings: a chain divided among them would be two."""
    of_all = [json.loads(text) for text in _from_all(json.dumps(settings).encode())]
    for number, other in enumerate(of_all):
        for name, value in of_all[0].items():
            if other[name] != value:
                raise ValueError(
                    f"process {number} has {name}={other[name]!r}, and process 0 has {value!r}: every "
                    "process of a run makes the same call."
                )


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
        problem.is_of_all = True
        raise problem
    return result


def check_seen_by_all(folder: Path) -> None:
    """Raise, in all processes, unless every one of them sees the folder that the first has made."""
    seen = _from_all(b"+" if folder.is_dir() else b"-")
    blind = [str(number) for number, mark in enumerate(seen) if mark != b"+"]
    if blind:
        error = ValueError(
            f"{folder} is not there for the processes {', '.join(blind)}: give a folder on a disk that all "
            "processes share, by its full path."
        )
        error.is_of_all = True  # type: ignore[attr-defined]
        raise error


@contextlib.contextmanager
def together() -> Iterator[None]:
    """A run of all processes: an error that is not the same in all of them ends them all."""
    global _failure
    if _watch is not None:
        _watch.enter_run()
    try:
        yield
    except BaseException as error:
        if isinstance(error, jax.errors.JaxRuntimeError):
            time.sleep(_WATCH_SECONDS)
        if not getattr(error, "is_of_all", False):
            by_signal = 128 + (signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
            _failure = 1 if isinstance(error, Exception) else getattr(error, "exit_code", by_signal)
        raise


def _leave() -> None:
    """End this process, with those that wait for it where it has failed; JAX would wait for them first."""
    assert _watch is not None
    uncaught = getattr(sys, "last_value", None)  # which Python has printed already
    if _failure is None and (uncaught is None or getattr(uncaught, "is_of_all", False)):
        _watch.leave()
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_failure or 1)
