"""Arrays of several parts in one file: the name of a part goes before those of its arrays."""

from collections.abc import Mapping

import numpy as np


def with_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays with a prefix added to their names."""
    return {f"{prefix}.{key}": value for key, value in arrays.items()}


def without_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays with this prefix, without the prefix."""
    return {key.removeprefix(f"{prefix}."): x for key, x in arrays.items() if key.startswith(f"{prefix}.")}
