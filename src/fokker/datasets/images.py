"""Images of handwritten digits, in the IDX format of MNIST."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fokker.datasets.folder import find_file
from fokker.rows.compressed import read_all

# The third byte of an IDX file names the type of its entries, which are big-endian.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_NUM_CLASSES = 10


class Images(NamedTuple):
    """Images (n, height, width) of bytes and their labels (n,), to learn from and to test with."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def read_idx(path: str | Path) -> np.ndarray:
    """The array in a file of the IDX format, plain or compressed.

    The format is: two zero bytes, the type, the number n of axes, n sizes of 4 bytes, then the entries.

    ```python
    images = fk.datasets.read_idx("train-images-idx3-ubyte.gz")  # (60000, 28, 28)
    ```

    Arguments:

    - `path`: the file.

    Returns an array of the type and shape that the file declares.
    """
    path = Path(path).expanduser()
    contents = read_all(path)
    if len(contents) < 4 or contents[:2] != b"\0\0" or contents[2] not in _TYPES:
        raise ValueError(
            f"{path} is not a file of the IDX format: it begins with {contents[:4].hex(' ') or 'nothing'}; "
            "two zero bytes, the type of the entries and the number of axes are needed."
        )
    num_axes = contents[3]
    start = 4 + 4 * num_axes
    sizes = np.frombuffer(contents[4:start][: (len(contents) - 4) // 4 * 4], ">u4")
    dtype = np.dtype(_TYPES[contents[2]])
    expected = start + math.prod(sizes.tolist()) * dtype.itemsize
    if len(sizes) < num_axes or len(contents) != expected:
        shape = " × ".join(map(str, sizes.tolist()))
        raise ValueError(
            f"{path} has {len(contents):,} bytes; its header declares {shape} entries, which need "
            f"{expected:,}. The file is damaged or cut short: download it again."
        )
    entries = np.frombuffer(contents, dtype, offset=start).reshape(sizes.tolist())
    return entries.astype(dtype.newbyteorder("="))


def mnist(folder: str | Path | None = None) -> Images:
    """The 60,000 training and 10,000 test images of MNIST: bytes of shape (n, 28, 28), labels from 0 to 9.

    ```python
    images, labels, test_images, test_labels = fk.datasets.mnist()
    ```

    Arguments:

    - `folder`: the files are in its subfolder mnist. By default that of the variable FOKKER_DATA, or else the
      one into which `fokker data get mnist` downloads.

    Returns `Images`.
    """
    arrays = Images(
        *(
            read_idx(find_file("mnist", f"{part}-{kind}-ubyte", folder))
            for part in ("train", "t10k")
            for kind in ("images-idx3", "labels-idx1")
        )
    )
    for part in ("train", "test"):
        images, labels = getattr(arrays, f"{part}_images"), getattr(arrays, f"{part}_labels")
        if images.ndim != 3 or labels.shape != images.shape[:1] or labels.max(initial=0) >= _NUM_CLASSES:
            raise ValueError(
                f"the {part} images of MNIST have the shape {images.shape} and the labels {labels.shape}; "
                "one label from 0 to 9 per image is needed. Check the files with `fokker data check`."
            )
    return arrays
