"""Where data sets are: one folder per data set, in the folder of data."""

import os
from pathlib import Path

from fokker.datasets.catalogue import CATALOGUE, DataFile
from fokker.rows.compressed import SUFFIXES as COMPRESSED

VARIABLE = "FOKKER_DATA"
# A file may be stored as it is or compressed.
SUFFIXES = ("", *COMPRESSED)


def data_folder(folder: str | Path | None = None) -> Path:
    """The folder of data: the one given, that of the variable FOKKER_DATA, or the user's own data folder."""
    chosen = folder if folder is not None else os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_data_path("fokker", appauthor=False) / "data"


def stored_file(folder: Path, name: str, file: DataFile) -> Path | None:
    """The file of the data set `name` as it is stored, plain or compressed; None if it is not there."""
    candidates = (folder / name / f"{file.name}{suffix}" for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def find_file(name: str, file_name: str, folder: str | Path | None = None) -> Path:
    """The path of a file of a data set in the catalogue; the error says how to get it.

    `file_name` is without the suffix of a compression: the file may be stored plain or compressed.
    """
    dataset = CATALOGUE[name]
    where = data_folder(folder)
    path = stored_file(where, name, dataset.file(file_name))
    if path is not None:
        return path
    if dataset.file(file_name).address:
        remedy = f"Download it with `fokker data get {name}` (from {dataset.source})"
    else:
        remedy = f"It cannot be downloaded by a command, only made again from {dataset.source}"
    raise FileNotFoundError(
        f"the folder {where} has no file {name}/{file_name} ({dataset.description}). {remedy}, or give the "
        f"folder that has it (folder=…), or name it by the environment variable {VARIABLE}."
    )
