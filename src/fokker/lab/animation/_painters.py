"""Films made by processes of their own, while this one goes on sampling.

Drawing holds Python's lock, and a process that has run JAX must not be forked. `multiprocessing` would run
the caller's script again in each new process, unless it is guarded against that: these are started on a
line of their own instead, and are told their jobs one by one.
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


@dataclass(frozen=True)
class Job:
    """A film to make: see `fokker.lab.animation.animate`; `stem` is the path without the ending.

    `mp4`: besides the GIF, where there is ffmpeg.
    """

    backdrop: Any
    walk: Any
    frames: int
    stem: Path
    mp4: bool = True

    def do(self) -> list[str]:
        """Draw it and write it; the names of the files."""
        from fokker.lab.animation import animate, write_films

        return write_films(animate(self.backdrop, self.walk, self.frames), self.stem, mp4=self.mp4)


class Painters:
    """So many processes that make films; none means that they are made at once, here."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.written: list[str] = []
        self._told = 0

    def __enter__(self) -> "Painters":
        self._folder = tempfile.TemporaryDirectory(prefix="fokker-films-")
        # What they say of warnings and errors comes out with ours.
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-c", "from fokker.lab.animation._painters import work; work()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(self.number)
        ]
        return self

    def submit(self, job: Job) -> None:
        """Have a film made, by the next process in turn."""
        if not self._processes:
            self.written += job.do()
            return
        path = Path(self._folder.name) / f"{self._told}.pickle"
        path.write_bytes(pickle.dumps(job))
        pipe = self._processes[self._told % self.number].stdin
        assert pipe is not None
        # A path is short: the pipe takes hundreds of them before it makes anyone wait.
        pipe.write(f"{path}\n")
        pipe.flush()
        self._told += 1

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
            raise RuntimeError("a process that makes films failed; what it said stands above.")


def work() -> None:
    """What each process does: read the path of a job, do it, say what was written."""
    for line in sys.stdin:
        path = Path(line.strip())
        job: Job = pickle.loads(path.read_bytes())
        path.unlink()
        print(json.dumps(job.do()), flush=True)
