"""Animations rendered by other processes, while this one goes on sampling.

Drawing holds Python's lock, and a process that has run JAX must not be forked. `multiprocessing` would run
the caller's script again in each new process, unless it is guarded against that: these run a command of
their own instead, and receive their jobs one by one.
"""

import json
import pickle
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from fokker.lab.animation._animate import animate
from fokker.lab.animation._frames import write_animations


@dataclass(frozen=True)
class Job:
    """An animation to make: see `fokker.lab.animation.animate`; `stem` is the path without the ending.

    `mp4`: besides the GIF, where there is ffmpeg.
    """

    backdrop: Any
    chain: Any
    frames: int
    stem: Path
    mp4: bool = True

    def do(self) -> list[str]:
        """Draw and write the animation; return the names of the files."""
        return write_animations(animate(self.backdrop, self.chain, self.frames), self.stem, mp4=self.mp4)


class Renderers:
    """A number of processes that render animations; with none, animations are rendered here at once."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.written: list[str] = []
        self._submitted = 0

    def __enter__(self) -> "Renderers":
        self._folder = tempfile.TemporaryDirectory(prefix="fokker-animations-")
        # Their warnings and errors are printed with ours.
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-c", "from fokker.lab.animation._renderers import work; work()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(self.number)
        ]
        return self

    def submit(self, job: Job) -> None:
        """Have an animation rendered, by the next process in turn."""
        if not self._processes:
            self.written += job.do()
            return
        path = Path(self._folder.name) / f"{self._submitted}.pickle"
        path.write_bytes(pickle.dumps(job))
        pipe = self._processes[self._submitted % self.number].stdin
        assert pipe is not None
        # A path is short: the pipe holds hundreds of them before it blocks.
        pipe.write(f"{path}\n")
        pipe.flush()
        self._submitted += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = False
        for process in self._processes:
            if kind is not None:
                process.kill()
            out, _ = process.communicate()
            failed |= process.returncode != 0
            self.written += [name for line in out.splitlines() for name in json.loads(line)]
        self._folder.cleanup()
        if failed and kind is None:
            raise RuntimeError("a process that renders animations failed; its messages are above.")


def work() -> None:
    """The work of each process: read the path of a job, do it, print what was written."""
    for line in sys.stdin:
        path = Path(line.strip())
        job: Job = pickle.loads(path.read_bytes())
        path.unlink()
        print(json.dumps(job.do()), flush=True)
