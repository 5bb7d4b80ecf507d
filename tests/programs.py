"""Programs of this folder that tests start as processes of their own."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax


def program(name: str, *arguments: Any) -> subprocess.Popen[str]:
    """A program of this folder as a process of its own; what it prints goes to pipes."""
    cache = getattr(jax.config, "jax_compilation_cache_dir", None)
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache)}
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(name)), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def outputs(running: Sequence[subprocess.Popen[str]], seconds: float = 280) -> list[tuple[str, str]]:
    """What each wrote to its two pipes; where one takes longer, none of them is left behind."""
    with contextlib.ExitStack() as ended:
        for process in running:
            ended.enter_context(process)
            ended.callback(process.kill)
        return [process.communicate(timeout=seconds) for process in running]
