"""The known data sets: what they are, on which terms, where from, and the checksums of their files."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from fokker._core.names import nearest


@dataclass(frozen=True)
class DataFile:
    """A file of a data set; `name` is without the suffix of a compression.

    `sha256` is the sum of the contents after decompression, so it does not depend on how the file is
    compressed; empty if no sum is known. `address` is where the file is published; empty if nowhere. If it is
    in an archive, `member` is its name there.
    """

    name: str
    sha256: str = ""
    address: str = ""
    member: str = ""


@dataclass(frozen=True)
class DataSet:
    """A data set of the catalogue.

    `reader` reads it. `refusal` says why it cannot be downloaded by a command; empty if at least one of its
    files can.
    """

    name: str
    description: str
    rows: str
    terms: str
    source: str
    reader: str
    files: tuple[DataFile, ...] = field(default=())
    refusal: str = ""

    def file(self, name: str) -> DataFile:
        """The file with this name."""
        for file in self.files:
            if file.name == name:
                return file
        raise KeyError(f"the data set {self.name} has no file {name!r}.")


def _read() -> dict[str, DataSet]:
    tables = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
    for table in tables.values():
        table["files"] = tuple(DataFile(**file) for file in table.get("files", ()))
    return {name: DataSet(name, **table) for name, table in tables.items()}


CATALOGUE = _read()


def find_dataset(name: str) -> DataSet:
    """The data set with this name; the error suggests the nearest."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    hint = nearest(name, list(CATALOGUE))
    raise ValueError(f"there is no data set {name!r}.{hint} There are: {', '.join(CATALOGUE)}.")
