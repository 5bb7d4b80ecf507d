"""Atomic writes: a file is written under another name, synced to the disk, then renamed."""

import contextlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

CHECKPOINT, PREVIOUS = "checkpoint.npz", "checkpoint.previous.npz"
# Errors from reading a file that is cut short, overwritten, or of another format.
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)
_HEADER = "header"


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
    """Write arrays and a JSON header as one .npz file."""
    text = np.frombuffer(json.dumps(dict(header), ensure_ascii=False).encode("utf-8"), np.uint8)
    write_atomically(path, lambda file: np.savez(file, **{_HEADER: text}, **arrays), backup)  # type: ignore[arg-type]


def read_arrays(path: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and arrays of a file of this kind and version; a `ValueError` describes any other file."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(bytes(arrays.pop(_HEADER)))
        kind_and_version = header["kind"], header["version"]
    except (*_UNREADABLE, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged, or not a {kind} of fokker lda ({type(error).__name__}: {error})."
        ) from None
    if kind_and_version[0] != kind:
        raise ValueError(f"{path} is a {kind_and_version[0]}; a {kind} is needed.")
    if kind_and_version[1] != version:
        raise ValueError(
            f"{path} is a {kind} of version {kind_and_version[1]}; this version of fokker reads "
            f"version {version}: use the version of fokker that wrote it, or create it again."
        )
    return header, arrays


def with_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays with a prefix added to their names."""
    return {f"{prefix}.{key}": value for key, value in arrays.items()}


def without_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays with this prefix, without the prefix."""
    return {key.removeprefix(f"{prefix}."): x for key, x in arrays.items() if key.startswith(f"{prefix}.")}


def read_latest(folder: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The newest readable checkpoint of a folder, and the problem with a newer one, if any."""
    paths = [folder / name for name in (CHECKPOINT, PREVIOUS) if (folder / name).exists()]
    if not paths:
        problem = "has no checkpoint" if folder.is_dir() else "is not a folder"
        raise FileNotFoundError(
            f"{folder} {problem}: there is nothing to resume. A run writes {CHECKPOINT} to the folder given "
            "by --out."
        )
    problems: list[str] = []
    for path in paths:
        try:
            header, arrays = read_arrays(path, kind, version)
        except ValueError as error:
            problems.append(str(error))
        else:
            return header, arrays, " ".join(problems)
    raise ValueError(f"no checkpoint in {folder} can be read. {' '.join(problems)}")
