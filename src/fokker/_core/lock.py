"""One process at a time writes to a folder, on any system."""

import contextlib
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fokker._core.files import DamagedFileError, check_no_links, naming

# The lock itself, and the process that holds it: on Windows nobody else can read a file that is locked.
LOCK, OWNER = ".lock", ".lock.owner"
# Earlier releases of filelock do not tell the two apart.
_UNKNOWN = "another process, or cannot be locked"


@contextlib.contextmanager
def locked(folder: Path, phase: str = "") -> Iterator[None]:
    """Hold a folder for this process; raise where another process holds it. A kill releases it.

    `phase`: what is done meanwhile, for those who watch, where it is not the steps of a run.
    """
    import filelock

    path = folder / LOCK
    check_no_links(path)  # releases of filelock before 3.20 empty the file that a link leads to
    if path.is_file() and path.stat().st_nlink > 1:
        raise DamagedFileError(f"{path} is another name of a file elsewhere: remove it.")
    lock = filelock.FileLock(path, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        owner = _owner(folder).partition(", since")[0]
        raise BlockingIOError(
            f"{folder} is in use by {owner}: wait for it, stop it, or give another folder."
        ) from None
    except (OSError, NotImplementedError) as error:
        raise OSError(
            f"{folder} cannot be locked ({error}), so that two processes could write to it: give a "
            "folder on a local disk."
        ) from error
    try:
        (folder / OWNER).unlink(missing_ok=True)
        with naming(folder / OWNER), (folder / OWNER).open("x", encoding="utf-8") as file:
            file.write(f"{Holder.here()}\n{phase}\n")
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder / OWNER).unlink(missing_ok=True)
        lock.release()


class Holder(NamedTuple):
    """The process that holds a folder. `started`: when, as its machine counts, where that is known.

    Numbers of processes are used again, so that the number alone names no process. `phase`: that of `locked`.
    """

    process: int
    host: str
    started: str = ""
    phase: str = ""

    @classmethod
    def here(cls) -> "Holder":
        """This process."""
        return cls(os.getpid(), socket.gethostname(), _started(os.getpid()))

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}" + (f", since {self.started}" if self.started else "")

    @property
    def is_running(self) -> bool:
        """Whether this very process runs on this machine."""
        return (
            self.host == socket.gethostname()
            and bool(self.started)
            and _started(self.process) == self.started
        )


def holder_of(folder: Path) -> Holder | None:
    """The process that has last held a folder and has not left it; None where it is not known."""
    match = re.fullmatch(r"process (\d+) on (\S+), since (\S+)(?:\n(.+))?", _owner(folder))
    return None if match is None else Holder(int(match[1]), match[2], match[3], match[4] or "")


def is_held(folder: Path) -> bool:
    """Whether another process holds a folder now."""
    import filelock

    path = folder / LOCK
    if not path.is_file() or path.is_symlink():
        return False
    try:
        with filelock.FileLock(path, timeout=0):
            return False
    except filelock.Timeout:
        return True


def _started(process: int) -> str:
    """When a process of this machine started; empty where there is none, or the system does not say it."""
    try:
        fields = (
            Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        )
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return _started_by_ps(process)
    # The 22nd field, in ticks since the machine was started; the name before may have blanks in it.
    return f"{boot}:{fields.split()[19]}"


def _started_by_ps(process: int) -> str:
    """The same by the command that systems without /proc have."""
    if os.name != "posix":
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["ps", "-o", "lstart=", "-p", str(process)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
        return "-".join(result.stdout.split())
    return ""


def _owner(folder: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        check_no_links(folder / OWNER)
        return (folder / OWNER).read_text(encoding="utf-8")[:1000].strip() or _UNKNOWN
    return _UNKNOWN
