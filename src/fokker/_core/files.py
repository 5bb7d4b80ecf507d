"""Files that survive a kill: written under another name, synced, then renamed; arrays with a checksum."""

import contextlib
import hashlib
import io
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_HEADER = "header"
# A checksum of the file is the comment at the end of the zip archive: it remains a .npz that NumPy reads.
_DIGITS = 64
_NO_COMMENT, _COMMENT = b"\0\0", _DIGITS.to_bytes(2, "little")


class DamagedFileError(ValueError):
    """A file is cut short, overwritten, or of another format."""


def write_atomically(path: Path, write: Callable[[BinaryIO], object], backup: Path | None = None) -> None:
    """Write a file so that a complete old or new one always exists; `backup`: a new name for the old one."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if backup is not None and path.exists():
            os.replace(path, backup)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a text atomically."""
    write_atomically(path, lambda file: file.write(text.encode("utf-8")))


def _sync_folder(folder: Path) -> None:
    """Sync the names in a folder to the disk, if the system allows it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_arrays(
    path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], backup: Path | None = None
) -> None:
    """Write arrays and a JSON header as one .npz file with a checksum."""
    types = {name: x.dtype.name for name, x in arrays.items() if _plain(x) is not x}
    text = json.dumps({**header, "types": types}, ensure_ascii=False).encode("utf-8")
    stored = io.BytesIO()
    plain = {name: _plain(x) for name, x in arrays.items()}
    np.savez(stored, **{_HEADER: np.frombuffer(text, np.uint8)}, **plain)  # type: ignore[arg-type]
    contents = stored.getbuffer()

    def write(file: BinaryIO) -> None:
        for part in (contents[: -len(_NO_COMMENT)], _COMMENT, _digest(contents)):
            file.write(part)

    write_atomically(path, write, backup)


def _digest(contents: Any) -> bytes:
    return hashlib.blake2b(contents, digest_size=_DIGITS // 2).hexdigest().encode()


def _plain(x: np.ndarray) -> np.ndarray:
    """The same bits in a type that NumPy can write: bfloat16 is not one of its own."""
    return x.view(np.uint16) if x.dtype.name == "bfloat16" else x


def read_arrays(path: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and arrays of a file of this kind and version; a `ValueError` describes any other file.

    Nothing in it is interpreted before its checksum has been compared, and nothing in it is executed.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    stored = path.read_bytes()
    contents = stored[: -_DIGITS - len(_COMMENT)] + _NO_COMMENT
    if stored[-_DIGITS - len(_COMMENT) :] != _COMMENT + _digest(contents):
        raise DamagedFileError(f"{path} is damaged, or not a {kind} of fokker: its checksum is wrong.")
    try:
        with np.load(io.BytesIO(contents), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(bytes(arrays.pop(_HEADER)))
        for name, dtype in header.pop("types").items():
            arrays[name] = arrays[name].view(np.dtype(dtype))
        kind_and_version = header["kind"], header["version"]
    except Exception as error:  # a stranger can write a right checksum of anything
        raise DamagedFileError(
            f"{path} is not a {kind} of fokker ({type(error).__name__}: {error})."
        ) from None
    if kind_and_version[0] != kind:
        raise DamagedFileError(f"{path} is a {kind_and_version[0]}; a {kind} is needed.")
    if kind_and_version[1] != version:
        raise DamagedFileError(
            f"{path} is a {kind} of version {kind_and_version[1]}; this version of fokker reads "
            f"version {version}: use the version of fokker that wrote it, or create it again."
        )
    return header, arrays


def read_latest(
    paths: tuple[Path, ...], kind: str, version: int
) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The first of these files that can be read, and the problem with those before it, if any."""
    problems: list[str] = []
    for path in paths:
        try:
            return *read_arrays(path, kind, version), " ".join(problems)
        except FileNotFoundError:
            continue
        except DamagedFileError as error:
            problems.append(str(error))
    if not problems:
        raise FileNotFoundError(f"there is no {kind} in {paths[0].parent}.")
    raise DamagedFileError(f"no {kind} in {paths[0].parent} can be read. {' '.join(problems)}")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; raise where another process holds it. A kill releases it."""
    import fcntl  # not on Windows, where everything but runs on disk works without it

    path = folder / ".lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise BlockingIOError(
                f"{folder} is in use by {owner}: wait for it, stop it, or give another folder."
            ) from None
        except OSError as error:
            raise OSError(
                f"{folder} cannot be locked ({error}), so that two processes could write to it: give a "
                "folder on a local disk."
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
