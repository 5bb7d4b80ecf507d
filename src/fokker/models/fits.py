"""The parameters that a fit was made with, and what an estimator is where a fit fails."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def parameters_now(estimator: Any) -> dict[str, Any]:
    """The parameters of an estimator, to keep as `_fitted_with`: what is changed in place is copied."""
    parameters = estimator.get_params(deep=False).items()
    return {
        name: copy.deepcopy(x) if isinstance(x, list | dict | np.ndarray) else x for name, x in parameters
    }


def as_fitted(estimator: T) -> T:
    """An estimator with the parameters of its fit, `_fitted_with`, whatever they have been set to since."""
    same = object.__new__(type(estimator))
    vars(same).update({**vars(estimator), **vars(estimator).get("_fitted_with", {})})
    return same


@contextlib.contextmanager
def unchanged_by_failure(estimator: object) -> Iterator[None]:
    """Where what is done within fails, or is interrupted, the estimator is as it was before."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
