"""The checkpoints of a run over documents."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from fokker._core import files
from fokker.models.topics.reading import Reading

KIND, VERSION = "checkpoint", 1
CHECKPOINT, PREVIOUS = "checkpoint.npz", "checkpoint.previous.npz"
# The numbers of a run, written when its other results are.
SUMMARY = "summary.json"
# The mixtures of all documents, in the order of the source.
MIXTURES = "mixtures.csv.gz"
# The rows of mixtures in the order of the stream, to which a resumed run appends.
PARTIAL_MIXTURES = "checkpoint.mixtures.csv.gz"


def folder_of(folder: Path, topics: int) -> Path:
    """The folder of one run of several that differ in their number of topics."""
    return folder / f"topics-{topics}"


_Types = type | tuple[type, ...]
_FIELDS: Mapping[str, _Types] = {
    **dict.fromkeys(("reading", "settings"), dict),
    **dict.fromkeys(("words", "held_out_names"), list),
    **dict.fromkeys(("position", "trained", "tokens", "next_place"), int),
    **dict.fromkeys(("passes", "length", "mixtures_size", "exact_from"), (int, type(None))),
    "seconds": (int, float),
}


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as text, with commas."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def _check_header(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise unless the header of a checkpoint has what a run needs, of the right types."""
    for name, types in _FIELDS.items():
        if not isinstance(header[name], types) or isinstance(header[name], bool):
            raise TypeError(f"{name} is {str(header[name])[:40]}")
    if not all(isinstance(word, str) for word in header["words"]):
        raise TypeError("words are not texts")
    topics = header["settings"]["topics"]
    # Before memory for as many topics is taken.
    if topics * len(header["words"]) > sum(x.size for x in arrays.values()):
        raise ValueError(f"it has no {topics} topics of {len(header['words'])} words")


def read_latest(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The newest readable checkpoint of a folder, and the problem with a newer one, if any."""
    try:
        paths = (folder / CHECKPOINT, folder / PREVIOUS)
        return files.read_latest(paths, KIND, VERSION, _check_header)
    except FileNotFoundError:
        problem = f"{folder} has no checkpoint" if folder.exists() else f"there is no folder {folder}"
        raise FileNotFoundError(
            f"{problem}: there is nothing to resume. A run writes {CHECKPOINT} to its folder."
        ) from None


def interpreting_checkpoint(folder: Path) -> AbstractContextManager[None]:
    """Errors within are those of a checkpoint in this folder that is damaged."""
    return files.interpreting(folder / CHECKPOINT, KIND)


def stored_reading(folder: Path) -> Reading:
    """How the run in this folder reads its documents."""
    header = read_latest(folder)[0]
    with interpreting_checkpoint(folder):
        return Reading.from_json(header["reading"])
