"""For every test: ranks are never promoted in silence, and hypothesis draws the same examples each time."""

import contextlib
import ctypes
import errno
import functools
import gc
import mmap
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from hypothesis import HealthCheck, settings

from chromium import browser, page, served  # noqa: F401
from fokker._core.statistics import _arviz

jax.config.update("jax_numpy_rank_promotion", "raise")

settings.register_profile(
    "fokker",
    deadline=None,  # the first example compiles
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("fokker")


# Nearly all the time of the suite is XLA's, much of it for the same thousands of tiny programs: they are kept
# on disk, for all workers and runs. A folder that has grown by many changes is emptied.
_KEPT = Path(__file__).resolve().parents[1] / ".pytest_cache" / "xla"
_MOST_KEPT = 2**30


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if not is_worker:
        # The first import of ArviZ 0.23 on a day writes a file, without a lock: two workers would collide.
        _arviz()
    if jax.config.jax_compilation_cache_dir is None:
        if not is_worker and sum(file.stat().st_size for file in _KEPT.glob("*")) > _MOST_KEPT:
            shutil.rmtree(_KEPT)
        jax.config.update("jax_compilation_cache_dir", str(_KEPT))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    # Where each operation was called, for the names of XLA's profiles, which no test reads.
    jax.config.update("jax_traceback_in_locations_limit", 0)


# Traces are made of millions of small objects that live as long as their program: a collector that goes
# through them again and again takes a tenth of the time of the suite.
gc.freeze()
gc.set_threshold(100_000, 50, 50)


def _share_contexts() -> None:
    """All lowered programs share one MLIR context.

    One of its own takes 3 ms to make and three quarters of the memory of a small program. JAX has no public
    function or setting for the context that a program is lowered in, so this one replaces a private function;
    where that is missing, or where contexts cannot be shared, the tests are slower, no more.
    """
    try:
        from jax._src.interpreters import mlir

        make = mlir.make_ir_context
    except (ImportError, AttributeError):
        return
    mlir.make_ir_context = functools.cache(make)
    try:
        for number in range(2):
            jax.jit(lambda x, number=number: x + number).lower(0.0).compile()
    except Exception:
        mlir.make_ir_context = make


_share_contexts()


# A compiled program takes memory, however small. Above this all are dropped, to be traced and read from disk
# again, so that a worker stays below 2 GB.
_MOST_MEMORY = 7 * 2**28


@pytest.fixture(autouse=True)
def bounded_memory() -> Iterator[None]:
    """A worker does not grow without end; where Linux does not say how large it is, it may."""
    yield
    statm = Path("/proc/self/statm")
    if statm.exists() and int(statm.read_text().split()[1]) * mmap.PAGESIZE > _MOST_MEMORY:
        jax.clear_caches()
        gc.collect()
        if hasattr(ctypes.CDLL(None), "malloc_trim"):  # glibc keeps what was freed unless asked
            ctypes.CDLL(None).malloc_trim(0)


# Half of an exact test is XLA's optimising of code that runs five times: these options leave it out. The last
# leaves a program in one piece, where XLA makes 32, each with its own share of the work, for as many cores.
_OPTIONS: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


def _is_known(option: str) -> bool:
    """Whether XLA has an option: none is a promise, and without them the tests are slower, no more."""
    try:
        jax.jit(lambda x: x, compiler_options={option: _OPTIONS[option]}).lower(0.0).compile()
    except Exception:
        return False
    return True


_UNOPTIMISED = {option: value for option, value in _OPTIONS.items() if _is_known(option)}
# A third of the time of a tiny program is its fusion emitter's, a quarter of that of a large one its pieces'.
# The flags are for all programs of the workers, which start later: for this process it is too late. One that
# XLA does not know would end a process.
for _flag in ("xla_cpu_use_fusion_emitters", "xla_cpu_parallel_codegen_split_count"):
    _flags = os.environ.get("XLA_FLAGS", "")
    if _flag in _UNOPTIMISED and _flag not in _flags:
        os.environ["XLA_FLAGS"] = f"{_flags} --{_flag}={str(_OPTIONS[_flag]).lower()}".strip()


def quick_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` for a function that is run a few times only."""
    return jax.jit(function, compiler_options=_UNOPTIMISED)


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision, for tests that are exact."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def closed_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads what commands print has gone, as `head` after its lines."""

    def closed(*given: object, **settings: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("fokker.cli.console.console.print", closed)


@pytest.fixture
def foreground() -> Iterator[None]:
    """Signals as in a terminal: `nohup` ignores SIGHUP, and a process in the background ignores Ctrl-C."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@contextlib.contextmanager
def quick_compiling() -> Iterator[None]:
    """Without XLA's optimisations; for fixtures of a module, which `quickly` comes too late for."""
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def optimised() -> None:
    """For tests that run long or look at bits."""


@pytest.fixture(autouse=True)
def quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    """Without XLA's optimisations, since tests are nearly all compiling; but for those `optimised`."""
    with contextlib.nullcontext() if "optimised" in request.fixturenames else quick_compiling():
        yield


@pytest.fixture
def fokker(monkeypatch, capsys):
    """The command, run here: `fokker("check", "file.py:name")` gives its exit code and what it printed."""
    from fokker import cli

    # Under `python -m pytest` Click would take pytest for the name of the command.
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fokker", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        return stop.value.code or 0, printed.out, printed.err

    return run
