"""X and y of any estimator as arrays that can be fitted to; what is wrong with them is said in a sentence."""

import numpy as np
from numpy.typing import ArrayLike

from fokker._core.missing import check_none_missing, real_numbers, unmasked
from fokker.rows.precision import check_differences, check_rounding


def checked_rows(X: ArrayLike, shape: tuple[int, ...] | None = None, kind: str = "the model") -> np.ndarray:
    """X in single precision, one row per datum; raise unless its rows are numbers.

    `shape`: that of a row, where an estimator of this `kind` was fitted to others before.
    """
    if hasattr(X, "tocsr"):
        raise TypeError("X is a sparse matrix, and dense rows are needed: give X.toarray().")
    values = real_numbers(X, "X")
    if values.ndim < 2:
        raise ValueError(
            f"X must have one row per datum and at least one column; its shape is {values.shape}. Reshape "
            "your data: for a single column give X.reshape(-1, 1)."
        )
    if values.dtype.kind not in "fiub":
        values = _numbers(values, X)
    if not len(values):
        raise ValueError("X has no rows: give at least one.")
    if not values.size:
        # With the words that scikit-learn has for it.
        raise ValueError(
            f"X has 0 feature(s) (shape={values.shape}) while a minimum of 1 is required: give at least one "
            "column."
        )
    if shape is not None and values.shape[1:] != shape:
        if values.ndim == 2 and len(shape) == 1:
            raise ValueError(
                f"X has {values.shape[1]} features, but {kind} is expecting {shape[0]} features as input: "
                "give the columns of the fit."
            )
        raise ValueError(
            f"the rows of X have the shape {values.shape[1:]}, but the model was fitted to rows of shape "
            f"{shape}."
        )
    if shape is None:  # rows to predict are of the same columns
        check_rounding("X", values, len(values), np.dtype(np.float32), double=None)
        check_differences([("X", values)], len(values), np.dtype(np.float32), double=None)
    with np.errstate(over="ignore"):  # which is refused below
        rows = values.astype(np.float32)
    if not np.isfinite(rows).all():
        place = np.argwhere(~np.isfinite(rows))[0]
        where, value = ", ".join(map(str, place[1:])), values[tuple(place)]
        what = "too large for single precision" if np.isfinite(value) else "not finite"
        shown = "NaN" if np.isnan(value) else f"{value:g}"
        raise ValueError(
            f"X has a value that is {what}, {shown}, first in row {place[0]}, column {where}: remove or "
            "replace it."
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
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None: give one entry per row.")
    if hasattr(y, "tocsr"):
        raise TypeError("y is a sparse matrix, and a dense one is needed: give y.toarray().")
    values = unmasked(y, "y")
    if values.ndim == 0 or len(values) != rows:
        size = "one number" if values.ndim == 0 else f"{len(values)} entries"
        raise ValueError(f"y has {size}, but X has {rows} rows: they need the same length.")
    return values


def checked_labels(y: ArrayLike, rows: int, *, for_regression: str) -> np.ndarray:
    """The labels of a classification, one per row; `for_regression`: what to do for numbers."""
    labels = _checked_length(y, rows)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(
            f"y has the shape {labels.shape}, and one label per row is needed. For one-hot rows give "
            "y.argmax(1)."
        )
    if labels.dtype.kind in "cV":
        raise ValueError(f"y has the type {labels.dtype}: give labels that are texts or whole numbers.")
    check_none_missing(labels, "y", "label")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            row = int(np.argmin(np.isfinite(labels)))
            raise ValueError(f"y is not a label in row {row}: it is {labels[row]}.")
        if np.any(labels != np.round(labels)):
            raise ValueError(
                f"y is continuous, with fractions, and labels are needed: for regression {for_regression}."
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


def checked_classes(labels: np.ndarray, classes: ArrayLike | None = None, *, hint: str = "") -> np.ndarray:
    """The classes in order: those given, or those that occur; `hint`: what to do where there is one only."""
    try:
        distinct = np.unique(labels if classes is None else np.asarray(classes))
    except TypeError as error:
        raise TypeError(f"the labels of y have no order ({error}): give texts or numbers.") from None
    if len(distinct) < 2:
        raise ValueError(
            f"y has one class only, {_plain(distinct[0])!r}: a classifier needs rows of at least two{hint}."
        )
    return distinct


def checked_targets(y: ArrayLike, rows: int, outputs: int | None = None) -> np.ndarray:
    """The targets of a regression, in double precision: one row per datum, one column per output."""
    values = real_numbers(_checked_length(y, rows), "y")
    try:
        targets = values.astype(float)
    except (TypeError, ValueError):
        raise ValueError(
            "y has values that are not numbers. A regression needs numbers; for labels use a classifier, "
            "such as Network with likelihood='categorical'."
        ) from None
    if targets.ndim > 2:
        raise ValueError(f"y has the shape {values.shape}; give one number per row, or one row of numbers.")
    if not targets.size:
        raise ValueError(f"y has the shape {values.shape}, without columns: give at least one.")
    targets = targets.reshape(rows, -1)
    if not np.isfinite(targets).all():
        row = int(np.argwhere(~np.isfinite(targets))[0][0])
        raise ValueError(f"y has a value that is not finite, first in row {row}: remove or replace it.")
    if outputs is not None and targets.shape[1] != outputs:
        raise ValueError(f"y has {targets.shape[1]} columns, but the model was fitted to {outputs}.")
    return targets
