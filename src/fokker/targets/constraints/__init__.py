"""Constraints on theta, each a smooth map x(y) of real numbers y onto the allowed values x.

All but that of unit vectors are one-to-one. The density of θ is with respect to the measure that the
docstring of each constraint names.
"""

from fokker._core.names import nearest
from fokker.targets.constraints._bounds import interval, lower, positive, real, upper
from fokker.targets.constraints._constraint import Constraint
from fokker.targets.constraints._correlations import (
    correlation,
    correlation_cholesky,
    lkj_cholesky_log_density,
    lkj_log_density,
)
from fokker.targets.constraints._vectors import ordered, simplex, unit_vector, zero_sum

__all__ = [
    "Constraint",
    "as_constraint",
    "correlation",
    "correlation_cholesky",
    "interval",
    "lkj_cholesky_log_density",
    "lkj_log_density",
    "lower",
    "ordered",
    "positive",
    "real",
    "simplex",
    "unit_vector",
    "upper",
    "zero_sum",
]

_NAMED = {
    "real": real,
    "positive": positive,
    "unit": lambda: interval(0.0, 1.0),
    "simplex": simplex,
    "ordered": ordered,
    "zero_sum": zero_sum,
    "unit_vector": unit_vector,
    "correlation": correlation,
    "correlation_cholesky": correlation_cholesky,
}
_WITH_ARGUMENTS = "fk.constraints.lower(bound), upper(bound), interval(low, high) and zero_sum(axis)"


def as_constraint(constraint: object) -> Constraint:
    """A constraint from its name, as `fk.constrain` takes it.

    Arguments:

    - `constraint`: one of `fk.constraints`, which is returned as it is; or the name of one that needs no
      arguments, such as "positive" or "zero_sum", or "unit" for numbers between 0 and 1.

    Returns a `Constraint`.

    ```python
    simplex = fk.constraints.as_constraint("simplex")
    ```
    """
    if isinstance(constraint, Constraint):
        return constraint
    names = ", ".join(_NAMED)
    if not isinstance(constraint, str):
        raise TypeError(
            f"a constraint is one of {names}, or one of fk.constraints such as "
            f"fk.constraints.interval(0, 2), not {constraint!r}."
        )
    if constraint not in _NAMED:
        raise ValueError(
            f"there is no constraint {constraint!r}; there are {names}, and {_WITH_ARGUMENTS}."
            f"{nearest(constraint, list(_NAMED))}"
        )
    return _NAMED[constraint]()
