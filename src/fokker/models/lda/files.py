"""The checkpoints of a run over documents."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fokker._core import files

CHECKPOINT, PREVIOUS = "checkpoint.npz", "checkpoint.previous.npz"
# The numbers of a run, written when its other results are.
SUMMARY = "summary.json"
# The rows of mixtures in the order of the stream, to which a resumed run appends.
PARTIAL_MIXTURES = "checkpoint.mixtures.csv.gz"


def with_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays with a prefix added to their names."""
    return {f"{prefix}.{key}": value for key, value in arrays.items()}


def without_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays with this prefix, without the prefix."""
    return {key.removeprefix(f"{prefix}."): x for key, x in arrays.items() if key.startswith(f"{prefix}.")}


def read_latest(folder: Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The newest readable checkpoint of a folder, and the problem with a newer one, if any."""
    try:
        return files.read_latest((folder / CHECKPOINT, folder / PREVIOUS), kind, version)
    except FileNotFoundError:
        problem = "has no checkpoint" if folder.is_dir() else "is not a folder"
        raise FileNotFoundError(
            f"{folder} {problem}: there is nothing to resume. A run writes {CHECKPOINT} to the folder given "
            "by --out."
        ) from None
