"""Labels of the user's, such as classes and identifiers, for files and from them."""

from collections.abc import Mapping
from types import NoneType
from typing import Any

import numpy as np


def split_labels(columns: Mapping[str, np.ndarray]) -> tuple[dict[str, list[Any]], dict[str, np.ndarray]]:
    """Labels of the user's by name: those that are Python's objects as lists, and all others as arrays."""
    objects = {name: x for name, x in columns.items() if x.dtype.kind == "O"}
    lists = {
        name: [label.item() if isinstance(label, np.generic) else label for label in x.tolist()]
        for name, x in objects.items()
    }
    # Texts of any length are known to NumPy 2 alone: files have those of a fixed length.
    arrays = {
        name: x.astype(str) if x.dtype.kind == "T" else x for name, x in columns.items() if name not in lists
    }
    return lists, arrays


def joined_labels(lists: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The labels of `split_labels`."""
    return {**arrays, **{name: np.fromiter(labels, object, len(labels)) for name, labels in lists.items()}}


def check_labels(labels: Mapping[str, list[Any]]) -> None:
    """Raise for labels that would be others when they are read again: a date, a UUID, a tuple."""
    for name, values in labels.items():
        for label in values:
            if not isinstance(label, str | int | float | NoneType):
                raise TypeError(
                    f"{name} has {label!r}, of the type {type(label).__name__}, which a file cannot hold: "
                    "fit to texts or numbers, as by str(label), or pickle the estimator."
                )
