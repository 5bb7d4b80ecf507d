"""Paths that a user gives: refused by name where they cannot be what they are for."""

import os
from pathlib import Path


def as_path(value: object, name: str) -> Path:
    """A path; raise unless it is a text or a path, and not empty."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text or "\0" in text:
        raise TypeError(f"{name} must be a path, as in {name}='folder/run', not {value!r}.")
    return Path(text)


def as_folder(value: object, name: str) -> Path:
    """The path of a folder that is there or can be made; raise where a file is in its place."""
    path = as_path(value, name)
    for place in (path, *path.parents):
        if place.is_dir():
            break
        if place.exists():
            raise NotADirectoryError(
                f"{name}={str(path)!r} must be a folder, but {place} is a file: give another path."
            )
    return path


def as_file(value: object, name: str) -> Path:
    """The path of a file to write; raise where it is a folder, or in none."""
    path = as_path(value, name)
    if path.is_dir():
        raise IsADirectoryError(
            f"{name}={str(path)!r} is a folder: give the path of a file in it, as in "
            f"{str(path / 'report.html')!r}."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{name}={str(path)!r}: there is no folder {path.parent}: make it first.")
    return path
