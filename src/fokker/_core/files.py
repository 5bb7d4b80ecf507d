"""Files that survive a kill: written under another name, synced, then renamed; arrays with a checksum.

Files may come from strangers. Nothing is written through a link, nothing in a file is executed, no more
memory is taken than a file has bytes, and what cannot be understood is a `DamagedFileError` that names it.
"""

import contextlib
import hashlib
import io
import json
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_HEADER = "header"
# A checksum of the file is the comment at the end of the zip archive: it remains a .npz that NumPy reads.
_DIGITS = 64
_NO_COMMENT, _COMMENT = b"\0\0", _DIGITS.to_bytes(2, "little")
# The kinds of NumPy's types that are written and read: numbers, times, and texts of a fixed length.
_KINDS = "biufcmMSU"
# The most bytes of a file of JSON: what is read of it takes many times as much memory.
_MOST_JSON = 2**26


class DamagedFileError(ValueError):
    """A file is cut short, overwritten, of another format, or a link."""


@contextlib.contextmanager
def interpreting(path: Path, what: str) -> Iterator[None]:
    """Any error in here is about what a file says: it becomes one that names the file."""
    try:
        yield
    except (DamagedFileError, OSError):
        raise
    except Exception as error:  # a stranger can write anything, with a right checksum
        raise DamagedFileError(
            f"{path} is not a {what} of fokker ({type(error).__name__}: {error})."
        ) from None


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in errors of the system that do not, such as that the disk is full."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def check_no_links(path: Path) -> None:
    """Raise where a path, or anything below it, is a link or neither a file nor a folder; it may be missing.

    What is written there would otherwise change files elsewhere.
    """
    paths = [path]
    while paths:
        path = paths.pop()
        if check_own(path):
            paths += [path / name for name in os.listdir(path)]


def check_own(path: Path) -> bool:
    """Raise where a path itself is a link, or neither a file nor a folder; return whether it is a folder."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        kind = f"a link to {os.readlink(path)}" if stat.S_ISLNK(mode) else "neither a file nor a folder"
        raise DamagedFileError(
            f"{path} is {kind}, and nothing is written or read through it: put the file or folder itself "
            "there, or remove it."
        )
    return stat.S_ISDIR(mode)


def partial_of(path: Path) -> Path:
    """Where a file is written before it has its name."""
    return path.with_name(f".{path.name}.part")


def write_atomically(path: Path, write: Callable[[BinaryIO], object], backup: Path | None = None) -> None:
    """Write a file so that a complete old or new one always exists; `backup`: a new name for the old one.

    A link of that name is replaced, not followed.
    """
    partial = partial_of(path)
    try:
        with naming(path):
            partial.unlink(missing_ok=True)
            with partial.open("xb") as file:  # a new file: never one that a link leads to
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
    """Write arrays and a JSON header as one .npz file with a checksum; refuse what could not be read."""
    types = {name: x.dtype.name for name, x in arrays.items() if _plain(x) is not x}
    plain = {name: _plain(x) for name, x in arrays.items()}
    for name, x in plain.items():
        if not _is_read(x.dtype):
            raise TypeError(
                f"{path} cannot be written: {name} has the type {x.dtype}, and files have numbers, times and "
                "texts. Convert it first."
            )
    for name, value in header.items():
        _check_json(path, name, value)
    text = json.dumps({**header, "types": types}, ensure_ascii=False).encode("utf-8")
    stored = io.BytesIO()
    np.savez(stored, **{_HEADER: np.frombuffer(text, np.uint8)}, **plain)  # type: ignore[arg-type]
    contents = stored.getbuffer()

    def write(file: BinaryIO) -> None:
        for part in (contents[: -len(_NO_COMMENT)], _COMMENT, _digest(contents)):
            file.write(part)

    write_atomically(path, write, backup)


def _is_read(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a type are read; one that NumPy does not know by its name comes back as another."""
    is_known = dtype.kind in _KINDS and np.dtype(dtype.str) == dtype
    return is_known and not dtype.hasobject and dtype.itemsize > 0


def _check_json(path: Path, name: str, value: object) -> None:
    """Raise with the name of an entry of a header that JSON cannot hold."""
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{path} cannot be written: in {name}, {error}. Files can hold texts, numbers, true and false."
        ) from None


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
    del stored
    with interpreting(path, kind):
        arrays = _arrays_in(contents)
        header = json.loads(bytes(arrays.pop(_HEADER)))
        for name, dtype in header.pop("types").items():
            if dtype != "bfloat16":
                raise ValueError(f"{name} has the type {dtype!r}")
            arrays[name] = arrays[name].view(np.dtype(dtype))
        kind_and_version = header["kind"], header["version"]
    if kind_and_version[0] != kind:
        raise DamagedFileError(f"{path} is a {kind_and_version[0]}; a {kind} is needed.")
    if kind_and_version[1] != version:
        raise DamagedFileError(
            f"{path} is a {kind} of version {kind_and_version[1]}; this version of fokker reads "
            f"version {version}: use the version of fokker that wrote it, or create it again."
        )
    return header, arrays


def _arrays_in(contents: bytes) -> dict[str, np.ndarray]:
    """The arrays of an archive; their sizes are compared with its own before any memory is taken."""
    with zipfile.ZipFile(io.BytesIO(contents)) as archive:
        entries = archive.infolist()
        is_compressed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
        if is_compressed or sum(entry.file_size for entry in entries) > len(contents):
            raise ValueError("its parts are compressed, or larger than the file")
        return {entry.filename.removesuffix(".npy"): _array_in(archive.read(entry)) for entry in entries}


def _array_in(contents: bytes) -> np.ndarray:
    file = io.BytesIO(contents)
    is_first_version = np.lib.format.read_magic(file) == (1, 0)
    read_header = (
        np.lib.format.read_array_header_1_0 if is_first_version else np.lib.format.read_array_header_2_0
    )
    shape, is_fortran, dtype = read_header(file)
    if not _is_read(dtype):
        raise ValueError(f"arrays of the type {dtype} are not read")
    # Of the bytes that there are, whatever the header says; a copy, which can be written to.
    values = np.frombuffer(contents, dtype, offset=file.tell()).copy()
    return values.reshape(shape, order="F" if is_fortran else "C")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file of JSON; a `DamagedFileError` describes any other file."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    with interpreting(path, "file"):
        if path.stat().st_size > _MOST_JSON:
            raise ValueError(f"it has more than {_MOST_JSON:,} bytes")
        values = json.loads(path.read_bytes())
        if not isinstance(values, dict):
            raise TypeError(f"{type(values).__name__} in place of an object of JSON")
    return values


def read_latest(
    paths: tuple[Path, ...],
    kind: str,
    version: int,
    check: Callable[[Mapping[str, Any], Mapping[str, np.ndarray]], None],
) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The newest of these files that can be read, and the problem with those before it, if any.

    They go from new to old. `check` raises where a header and its arrays cannot be what they say. Where
    headers have an `id` it must be the same, and where they have a `serial` number it tells which is newer.
    """
    problems: list[str] = []
    for number, path in enumerate(paths):
        try:
            header, arrays = read_arrays(path, kind, version)
            with interpreting(path, kind):
                check(header, arrays)
        except FileNotFoundError:
            continue
        except DamagedFileError as error:
            problems.append(str(error))
            continue
        newer = _newer_than(path, header, paths[number + 1 :])
        if newer is None:
            return header, arrays, " ".join(problems)
        problems.append(f"{path} is older than {newer}.")
    if not problems:
        raise FileNotFoundError(f"there is no {kind} in {paths[0].parent}.")
    raise DamagedFileError(f"no {kind} in {paths[0].parent} can be read. {' '.join(problems)}")


def _newer_than(path: Path, header: Mapping[str, Any], others: tuple[Path, ...]) -> Path | None:
    """One of the files that claims to be newer; raise where one is of another run."""
    for other in others:
        claimed = _header_of(other)
        if "id" in header and claimed.get("id", header["id"]) != header["id"]:
            raise DamagedFileError(
                f"{path} and {other} are of different runs: restore the files of one of them."
            )
        theirs, own = claimed.get("serial"), header.get("serial")
        if isinstance(theirs, int) and isinstance(own, int) and theirs > own:
            return other
    return None


def _header_of(path: Path) -> dict[str, Any]:
    """The header of a file of arrays, without comparing its checksum; empty where it cannot be read."""
    if not path.is_file():  # a pipe would never end
        return {}
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            entry = archive.getinfo(f"{_HEADER}.npy")
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > _MOST_JSON:
                return {}
            header = json.loads(bytes(_array_in(archive.read(entry))))
            return header if isinstance(header, dict) else {}
    except Exception:  # it may be damaged
        return {}
