"""Where an experiment's data are: a folder of files that are not part of the library."""

import os
from pathlib import Path

VARIABLE = "FOKKER_DATA"


def data_file(folder: Path | None, name: str, origin: str) -> Path:
    """The file `name` in the folder of data, or in the one that FOKKER_DATA names.

    `origin` says where the file is from, for the message if it is not there.
    """
    location = os.environ.get(VARIABLE) if folder is None else folder
    wanted = f"this experiment needs the file {name} ({origin})"
    if not location:
        raise FileNotFoundError(
            f"{wanted}: name the folder that holds it in the environment variable {VARIABLE}, or with "
            "--data-dir."
        )
    path = Path(location) / name
    if not path.is_file():
        raise FileNotFoundError(f"{wanted}; the folder {location} has no such file.")
    return path
