"""One process at a time writes to a folder, on any system."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from fokker._core.files import DamagedFileError, check_no_links, naming

# The lock itself, and the process that holds it: on Windows nobody else can read a file that is locked.
LOCK, OWNER = ".lock", ".lock.owner"
# Earlier releases of filelock do not tell the two apart.
_UNKNOWN = "another process, or cannot be locked"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; raise where another process holds it. A kill releases it."""
    import filelock

    path = folder / LOCK
    check_no_links(path)  # releases of filelock before 3.20 empty the file that a link leads to
    if path.is_file() and path.stat().st_nlink > 1:
        raise DamagedFileError(f"{path} is another name of a file elsewhere: remove it.")
    lock = filelock.FileLock(path, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise BlockingIOError(
            f"{folder} is in use by {_owner(folder)}: wait for it, stop it, or give another folder."
        ) from None
    except (OSError, NotImplementedError) as error:
        raise OSError(
            f"{folder} cannot be locked ({error}), so that two processes could write to it: give a "
            "folder on a local disk."
        ) from error
    try:
        (folder / OWNER).unlink(missing_ok=True)
        with naming(folder / OWNER), (folder / OWNER).open("x", encoding="utf-8") as file:
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder / OWNER).unlink(missing_ok=True)
        lock.release()


def _owner(folder: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        check_no_links(folder / OWNER)
        return (folder / OWNER).read_text(encoding="utf-8")[:100].strip() or _UNKNOWN
    return _UNKNOWN
