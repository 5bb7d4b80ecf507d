"""What is given as rows, labels and targets is read as it is meant, or refused by name."""

import functools

import numpy as np
import pandas
import pytest
from scipy import sparse

import fokker as fk
from fokker.datasets.ratings import Ratings
from fokker.models.factorisation.features import Features, row_of_new
from fokker.models.factorisation.inputs import as_counts, as_ratings
from fokker.models.inputs import checked_classes, checked_labels, checked_rows, checked_targets

pytestmark = pytest.mark.dependencies

THREE = np.arange(3)
labels = functools.partial(checked_labels, for_regression="take the other")
MASK = [False, True, False]


def no_numbers(shape):
    """Arrays whose numbers would be others: what is refused, and how."""
    mask = np.broadcast_to(np.reshape(MASK, (3, *[1] * (len(shape) - 1))), shape)
    lost = np.ones(shape, object)
    lost.flat[0] = np.complex64(1j)  # NumPy drops the imaginary part of its own scalars
    late = np.ones(shape, object)
    late.flat[0] = np.timedelta64(1, "s")
    return {
        "complex": (np.ones(shape) * 1j, "Complex data not supported: {}"),
        "complex objects": (lost, "Complex data not supported: {}"),
        "dates": (np.ones(shape, "datetime64[s]"), r"{} has dates, of the type datetime64\[s\]"),
        "durations": (np.ones(shape, "timedelta64[s]"), "{} has durations"),
        "objects of durations": (late, "{} has durations"),
        "fields": (np.ones(shape, [("a", float)]), "{} has records"),
        "masked": (np.ma.masked_array(np.ones(shape), mask=mask), "{} has a masked value, first in row 1"),
    }


@pytest.mark.parametrize("name", no_numbers((3,)))
@pytest.mark.parametrize(
    ("read", "shape", "argument"),
    [
        (checked_rows, (3, 2), "X"),
        (lambda y: checked_targets(y, 3), (3,), "y"),
        (lambda y: checked_targets(y, 3), (3, 2), "y"),
        (lambda values: as_ratings(THREE, THREE, values), (3,), "values"),
        (lambda values: as_counts(THREE, THREE, values), (3,), "values"),
        (lambda values: Ratings.from_identifiers(THREE, THREE, values), (3,), "values"),
        (lambda given: row_of_new(given, Features(("a", "b", "c"), *[np.ones(3)] * 4)), (3,), "features"),
    ],
    ids=["rows", "targets", "vectors", "ratings", "counts", "Ratings", "features"],
)
def test_what_would_become_other_numbers_is_refused(name, read, shape, argument):
    given, message = no_numbers(shape)[name]
    with pytest.raises(ValueError, match=message.format(argument)):
        read(given)


@pytest.mark.parametrize("name", ["complex", "dates", "durations", "masked"])
def test_counts_of_words_that_would_become_others_are_refused(name):
    given, message = no_numbers((3, 2))[name]
    message = "Complex data not supported" if name == "complex" else message.format("X")
    with pytest.raises(ValueError, match=message):
        fk.models.LDA(2).fit(given)


@pytest.mark.parametrize("read", [as_ratings, Ratings.from_identifiers])
def test_masked_identifiers_are_refused(read):
    masked = np.ma.masked_array(THREE, mask=MASK)
    with pytest.raises(ValueError, match="users has a masked value, first in row 1: remove the row"):
        read(masked, THREE, np.ones(3))
    with pytest.raises(ValueError, match="items has a masked value"):
        read(THREE, masked, np.ones(3))


@pytest.mark.parametrize("X", [np.zeros((3, 0)), np.zeros((3, 0, 2)), np.zeros((3, 0), object)])
def test_rows_without_columns_are_refused(X):
    with pytest.raises(ValueError, match=r"X has 0 feature\(s\) .*: give at least one column"):
        checked_rows(X)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (np.ma.masked_array(THREE, mask=MASK), ValueError, "y has a masked value, first in row 1"),
        (THREE * 1j, ValueError, "y has the type complex128: give labels that are texts or whole numbers"),
        (np.ones(3, [("a", int)]), ValueError, "y has the type .*: give labels"),
        ((THREE * 1j).astype(object), TypeError, "the labels of y have no order"),
        (sparse.csr_matrix(np.ones((3, 1))), TypeError, r"y is a sparse matrix.*y\.toarray\(\)"),
    ],
)
def test_labels_that_cannot_be_told_apart_are_refused(y, error, message):
    with pytest.raises(error, match=message):
        checked_classes(labels(y, 3))


def test_targets_without_columns_or_in_a_sparse_matrix_are_refused():
    with pytest.raises(ValueError, match=r"y has the shape \(3, 0\), without columns"):
        checked_targets(np.zeros((3, 0)), 3)
    with pytest.raises(TypeError, match="y is a sparse matrix"):
        checked_targets(sparse.csr_matrix(np.ones((3, 1))), 3)


def test_what_is_meant_as_numbers_is_read():
    """Nothing masked, and types of pandas without gaps; dates are labels like others."""
    frame = pandas.DataFrame({"a": pandas.array([1, 2, 3], "Int64"), "b": [True, False, True]})
    np.testing.assert_array_equal(checked_rows(frame), [[1, 1], [2, 0], [3, 1]])
    np.testing.assert_array_equal(checked_rows(np.ma.masked_array(np.eye(2))), np.eye(2))
    np.testing.assert_array_equal(checked_targets(np.ma.masked_array(THREE), 3)[:, 0], THREE)
    days = np.array("2024-01", "datetime64[M]") + THREE
    np.testing.assert_array_equal(checked_classes(labels(days, 3)), days)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: labels([0.5, 1.0, 2.0], 3), "y is continuous.*: for regression take the other"),
        (lambda: labels(None, 3), "requires y to be passed, but the target y is None"),
        (lambda: checked_classes(np.zeros(3), hint=", or more"), "at least two, or more"),
        (lambda: checked_rows(np.ones(3)), r"Reshape your data: .*X\.reshape\(-1, 1\)"),
        (lambda: checked_rows([[1.0, np.nan]]), "X has a value that is not finite, NaN, first in row 0, col"),
        (lambda: checked_rows([[np.inf]]), "not finite, inf, first in row 0, column 0"),
        (lambda: checked_rows([[1e300]]), r"too large for single precision, 1e\+300, first in row 0"),
        (lambda: checked_rows(np.eye(2), (3,), "A"), "X has 2 features, but A is expecting 3 features"),
        (lambda: checked_rows(np.eye(2), (3, 1)), r"shape \(2,\), but the model was fitted to .*\(3, 1\)"),
    ],
)
def test_what_is_said_fits_any_estimator(read, message):
    with pytest.raises(ValueError, match=message):
        read()
