"""Where a command writes: checked and made before its work, not after it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from fokker._core.lock import LOCK
from fokker._core.paths import as_folder
from fokker.cli.flags import CommandError


@contextlib.contextmanager
def made_folder(folder: Path | None, *settings: str) -> Iterator[None]:
    """Make the folder of --out; where an error ends the command before it has written there, remove it again.

    None: there is no folder to make. `settings`: files that are worth nothing on their own.
    """
    if folder is None:
        yield
        return
    as_folder(folder, "out")  # raises where a file is in its place
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    was_empty = not any(folder.iterdir())
    try:
        if not os.access(folder, os.W_OK):
            raise CommandError(f"--out {folder}: you may not write to this folder; give another one.")
        yield
    except BaseException as error:
        useless = (LOCK, *settings)
        if (
            was_empty
            and not isinstance(error, BlockingIOError)
            and {x.name for x in folder.iterdir()} <= {*useless}
        ):
            for name in useless:
                (folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty any more
                for path in created:
                    path.rmdir()
        raise


def check_not_replaced(out: Path, overwrite: bool, *names: str) -> None:
    """Raise where --out exists, or a file of these names in it, and --overwrite is not given."""
    existing = [name for name in names if (out / name).exists()]
    if overwrite or not (existing if names else out.exists()):
        return
    what = f"has {existing[0]} already" if names else "exists already"
    raise CommandError(f"--out {out} {what}: give another name, or --overwrite.")
