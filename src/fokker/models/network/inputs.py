"""X and y as arrays that can be fitted to; what is wrong with them is said in a sentence.

Other estimators with X and y use `checked_rows` and `checked_targets` too: what these say fits all of them.
"""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from fokker._core.missing import check_none_missing
from fokker.rows.precision import check_differences, check_rounding

# Above this mean square of the entries of X, the default learning rates are not what they are made for.
_LARGE_INPUTS = 100.0
LARGE = "the entries of X are large"


def warn_of_large(rows: np.ndarray) -> None:
    """Warn where the columns should be scaled first."""
    mean_square = float(np.mean(rows.astype(float) ** 2))
    if mean_square > _LARGE_INPUTS:
        warnings.warn(
            f"{LARGE}, {mean_square**0.5:.3g} in root mean square: scale columns to standard deviation 1, as "
            "StandardScaler of scikit-learn does; the default settings are made for that.",
            stacklevel=4,
        )


def checked_rows(X: ArrayLike, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """X in single precision, one row per datum; raise unless its rows are numbers of the given shape."""
    if hasattr(X, "tocsr"):
        raise TypeError("X is a sparse matrix, and dense rows are needed: give X.toarray().")
    values = np.asarray(X)
    if values.ndim < 2:
        raise ValueError(
            f"X must have one row per datum and at least one column; its shape is {values.shape}. For a "
            "single column give X.reshape(-1, 1)."
        )
    if values.dtype.kind not in "fiub":
        values = _numbers(values, X)
    if not len(values):
        raise ValueError("X has no rows: give at least one.")
    if shape is not None and values.shape[1:] != shape:
        raise ValueError(
            f"the rows of X have the shape {values.shape[1:]}, but the model was fitted to rows of shape "
            f"{shape}."
        )
    if shape is None:  # rows to predict are of the same columns
        check_rounding("X", values, len(values), np.dtype(np.float32), double=None)
        check_differences([("X", values)], len(values), np.dtype(np.float32), double=None)
    rows = values.astype(np.float32)
    if not np.isfinite(rows).all():
        place = np.argwhere(~np.isfinite(rows))[0]
        where = ", ".join(map(str, place[1:]))
        raise ValueError(
            f"X has a value that is not finite (or too large for single precision), first in row {place[0]}, "
            f"column {where}: remove or replace it."
        )
    return rows


def _numbers(values: np.ndarray, X: ArrayLike) -> np.ndarray:
    """An array of objects as numbers; raise with the column that has something else."""
    columns = getattr(X, "columns", range(values.shape[1]))
    for name, column in zip(columns, np.moveaxis(values, 1, 0), strict=True):
        try:
            column.astype(float)
        except (TypeError, ValueError):
            text = next((v for v in column.ravel() if not isinstance(v, int | float | np.number)), column[0])
            text = text.item() if isinstance(text, np.generic) else text  # whose repr has its class
            raise ValueError(
                f"column {name!r} of X has {text!r}, which is not a number: encode text as numbers first, "
                "for example one column of zeros and ones per category."
            ) from None
    return values.astype(float)


def _checked_length(y: ArrayLike, rows: int) -> np.ndarray:
    values = np.asarray(y)
    if values.ndim == 0 or len(values) != rows:
        size = "one number" if values.ndim == 0 else f"{len(values)} entries"
        raise ValueError(f"y has {size}, but X has {rows} rows: they need the same length.")
    return values


def checked_labels(y: ArrayLike, rows: int) -> np.ndarray:
    """The labels of a classification, one per row."""
    labels = _checked_length(y, rows)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(
            f"y has the shape {labels.shape}; a categorical likelihood needs one label per row. For one-hot "
            "rows give y.argmax(1)."
        )
    check_none_missing(labels, "y", "label")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            row = int(np.argmin(np.isfinite(labels)))
            raise ValueError(f"y is not a label in row {row}: it is {labels[row]}.")
        if np.any(labels != np.round(labels)):
            raise ValueError(
                "y has fractions, but a categorical likelihood needs labels: for regression give "
                "likelihood='gaussian'."
            )
    return labels


def class_numbers(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The place of each label among the classes; raise where it is none of them."""
    try:
        places = np.searchsorted(classes, labels)
        known = classes[np.minimum(places, len(classes) - 1)] == labels
    except TypeError:
        known = np.zeros(len(labels), bool)
    if not np.all(known):
        shown = ", ".join(map(repr, classes[:10].tolist())) + (", …" if len(classes) > 10 else "")
        label = repr(_plain(labels[int(np.argmin(known))]))
        raise ValueError(f"y has the label {label}, which is not one of the classes {shown}.")
    return places.astype(np.int32)


def _plain(value: object) -> object:
    """A scalar of NumPy as Python shows it."""
    return value.item() if isinstance(value, np.generic) else value


def checked_classes(labels: np.ndarray, classes: ArrayLike | None) -> np.ndarray:
    """The classes in order: those given, or those that occur."""
    distinct = np.unique(labels if classes is None else np.asarray(classes))
    if len(distinct) < 2:
        raise ValueError(
            f"y has one class only, {_plain(distinct[0])!r}: a classifier needs rows of at least two, or "
            "classes= in partial_fit."
        )
    return distinct


def checked_targets(y: ArrayLike, rows: int, outputs: int | None = None) -> np.ndarray:
    """The targets of a regression, in double precision: one row per datum, one column per output."""
    values = _checked_length(y, rows)
    try:
        targets = values.astype(float)
    except (TypeError, ValueError):
        raise ValueError(
            "y has values that are not numbers. A regression needs numbers; for labels use a classifier, "
            "such as Network with likelihood='categorical'."
        ) from None
    if targets.ndim > 2:
        raise ValueError(f"y has the shape {values.shape}; give one number per row, or one row of numbers.")
    targets = targets.reshape(rows, -1)
    if not np.isfinite(targets).all():
        row = int(np.argwhere(~np.isfinite(targets))[0][0])
        raise ValueError(f"y has a value that is not finite, first in row {row}: remove or replace it.")
    if outputs is not None and targets.shape[1] != outputs:
        raise ValueError(f"y has {targets.shape[1]} columns, but the model was fitted to {outputs}.")
    return targets
