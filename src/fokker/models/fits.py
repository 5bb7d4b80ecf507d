"""The parameters that a fit was made with."""

from typing import TypeVar

T = TypeVar("T")


def as_fitted(estimator: T) -> T:
    """An estimator with the parameters of its fit, `_fitted_with`, whatever they have been set to since."""
    same = object.__new__(type(estimator))
    vars(same).update({**vars(estimator), **vars(estimator).get("_fitted_with", {})})
    return same
