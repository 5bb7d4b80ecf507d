"""Messages to the page: JSON, and behind it arrays of 32-bit numbers.

A binary message is the length of its JSON in four bytes, the JSON padded to a multiple of four bytes, and the
arrays that `arrays` in it names, with their shapes, in that order: all little-endian.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def finite(value: Any) -> Any:
    """The value with None for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def packed(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """One binary message."""
    shapes = [[name, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps(finite({**header, "arrays": shapes}), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 4)
    with np.errstate(over="ignore"):
        data = b"".join(np.ascontiguousarray(array, "<f4").tobytes() for array in arrays.values())
    return len(text).to_bytes(4, "little") + text + data


def unpacked(message: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The parts of a binary message, as the page reads them."""
    length = int.from_bytes(message[:4], "little")
    header = json.loads(message[4 : 4 + length])
    arrays, start = {}, 4 + length
    for name, shape in header.pop("arrays"):
        size = 4 * math.prod(shape)
        arrays[name] = np.frombuffer(message[start : start + size], "<f4").reshape(shape)
        start += size
    return header, arrays
