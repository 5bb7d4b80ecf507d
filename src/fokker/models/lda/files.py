"""Files that are whole or not there: written under another name, brought to the disk, then renamed."""

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
# What reading a file raises that was cut short, overwritten or never was what its name says.
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)
_HEADER = "header"


def write_whole(path: Path, write: Callable[[BinaryIO], object], keep: Path | None = None) -> None:
    """Write a file so that at any time either the old or the new one is there, whole; `keep`: a new name for
    the old one."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            os.replace(path, keep)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    _bring_to_disk(path.parent)


def write_text(path: Path, text: str) -> None:
    """A text, whole or not at all."""
    write_whole(path, lambda file: file.write(text.encode("utf-8")))


def _bring_to_disk(folder: Path) -> None:
    """The names in a folder too, where the system lets one."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_arrays(
    path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], keep: Path | None = None
) -> None:
    """Arrays, and a header in JSON, as one .npz."""
    text = np.frombuffer(json.dumps(dict(header), ensure_ascii=False).encode("utf-8"), np.uint8)
    write_whole(path, lambda file: np.savez(file, **{_HEADER: text}, **arrays), keep)  # type: ignore[arg-type]


def read_arrays(path: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a file of this kind and version; a `ValueError` says what it is instead."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(bytes(arrays.pop(_HEADER)))
        found = header["kind"], header["version"]
    except (*_UNREADABLE, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged, or not a {kind} of fokker lda ({type(error).__name__}: {error})."
        ) from None
    if found[0] != kind:
        raise ValueError(f"{path} is a {found[0]}; a {kind} is wanted.")
    if found[1] != version:
        raise ValueError(
            f"{path} is a {kind} of version {found[1]}; this fokker reads version {version}: use the fokker "
            "that wrote it, or make it anew."
        )
    return header, arrays


def under(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays with a part's name before theirs."""
    return {f"{name}.{key}": value for key, value in arrays.items()}


def part_of(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a part, without its name."""
    return {key.removeprefix(f"{name}."): x for key, x in arrays.items() if key.startswith(f"{name}.")}


def read_latest(folder: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The newest checkpoint of a folder that is whole, and what was wrong with a newer one, if anything."""
    there = [folder / name for name in (CHECKPOINT, PREVIOUS) if (folder / name).exists()]
    if not there:
        what = "has no checkpoint" if folder.is_dir() else "is not a folder"
        raise FileNotFoundError(
            f"{folder} {what}: there is nothing to resume. A run writes {CHECKPOINT} into the folder of its "
            "--out."
        )
    wrong: list[str] = []
    for path in there:
        try:
            header, arrays = read_arrays(path, kind, version)
        except ValueError as error:
            wrong.append(str(error))
        else:
            return header, arrays, " ".join(wrong)
    raise ValueError(f"no checkpoint of {folder} can be read. {' '.join(wrong)}")
