"""Arrays by name, from .npz files."""

import io
import zipfile
from pathlib import Path

import numpy as np

# What NumPy raises for a file that it cannot read.
NOT_READ = (ValueError, EOFError, OSError, zipfile.BadZipFile)


def arrays_of(contents: bytes, path: Path, note: str = "") -> dict[str, np.ndarray]:
    """The arrays of a .npz file with these contents; `note`: what is said besides of one that is damaged."""
    try:
        with np.load(io.BytesIO(contents), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except NOT_READ as error:
        raise ValueError(f"{path} is not a complete .npz file: {error}. {note}".rstrip()) from None
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError(f"{path} is an archive of other files: unpack it, and give the folder.")
    return arrays
