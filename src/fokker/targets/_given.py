"""The arrays of a model of another library, which are stored when the precision of a run is known."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from fokker._core.precision import is_double
from fokker.rows.precision import check_differences, check_rounding
from fokker.rows.values import check_underflow, stored_dtype

_REMEDY = "compute in double precision, by fk.sample(…, precision='double')"
_T = TypeVar("_T")


class Given:
    """Arrays by name, as the user gave them, and a function that makes the target of them.

    All are equal: a static field of a target, which no compiled program uses.
    """

    def __init__(self, arrays: Iterable[tuple[str, Any]], make: Callable[[], Any]) -> None:
        self._arrays = [(name, x) for name, x in arrays if isinstance(x, np.ndarray) and x.ndim and x.size]
        self._make = make
        self._is_double = is_double()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Given)

    def __hash__(self) -> int:
        return 0

    def stored(self, target: _T) -> _T:
        """The target in the precision that is on; raise where single precision would round its arrays."""
        if is_double():
            return target if self._is_double else self._make()
        self._check()
        return target

    def _check(self) -> None:
        by_length: dict[int, list[tuple[str, np.ndarray]]] = {}
        for name, values in self._arrays:
            if values.dtype.kind not in "iufc":
                continue
            # What a model leaves out may be marked by NaN.
            usable = np.isfinite(values).reshape(len(values), -1).all(1)
            finite = values if usable.all() else values[usable]
            if len(finite):
                check_underflow(name, finite, stored_dtype(finite.dtype))
                check_rounding(name, finite, len(finite), double=_REMEDY)
                by_length.setdefault(len(finite), []).append((name, finite))
        for length, columns in by_length.items():
            check_differences(columns, length, double=_REMEDY)
