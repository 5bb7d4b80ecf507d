"""The series that a summary judges: scalars of theta, directions, and quantities of the user's own."""

from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, PyTree

from fokker._core.draws import at_draws, shape_of_draws
from fokker._core.labels import NO_LABELS, Labels

# A theta of more scalars is judged along directions, and summarised by leaf.
MOST_SCALARS = 500


class Quantities(NamedTuple):
    """Named series, chain × draw × series."""

    names: list[str]
    values: Float[np.ndarray, "c n k"]

    def joined(self, *others: "Quantities") -> "Quantities":
        """These series followed by the others."""
        every = [x for x in (self, *others) if x.names] or [self]
        if len(every) == 1:
            return every[0]
        return Quantities(
            [name for x in every for name in x.names], np.concatenate([x.values for x in every], axis=2)
        )

    def without(self, names: Set[str]) -> "Quantities":
        """The series with other names than these."""
        if names.isdisjoint(self.names):
            return self
        left = [i for i, name in enumerate(self.names) if name not in names]
        return Quantities([self.names[i] for i in left], self.values[:, :, left])

    def constants(self) -> set[str]:
        """The names of series that are the same at every draw of every chain."""
        return {self.names[i] for i in np.flatnonzero(np.ptp(self.values, axis=(0, 1)) == 0)}


def flat(named: Mapping[str, Any], labels: Labels = NO_LABELS) -> Quantities:
    """All scalars of named leaves, each chain × draw × its shape."""
    names, values = [], []
    for variable, leaf in named.items():
        # In double precision: a sum of many draws in single precision loses their digits.
        x = np.asarray(leaf, float)
        names += [labels.scalar_name(variable, x.shape[2:], i) for i in range(int(np.prod(x.shape[2:])))]
        values.append(x.reshape(*x.shape[:2], -1))
    return Quantities(names, np.concatenate(values, axis=2))


def none_of(draws: PyTree[Any]) -> Quantities:
    """No series, of as many draws."""
    return Quantities([], np.zeros((*shape_of_draws(draws), 0)))


def as_quantities(quantities: Any, draws: PyTree[Any]) -> Quantities:
    """Those of the user: a function of theta, an array chain × draw × k, or a dictionary of them by name."""
    if quantities is None:
        return none_of(draws)
    if not isinstance(quantities, Mapping):
        name = getattr(quantities, "__name__", "quantity")
        quantities = {"quantity" if name == "<lambda>" else name: quantities}
    leading = shape_of_draws(draws)
    named = {}
    for name, value in quantities.items():
        x = np.asarray(_evaluated(name, value, draws) if callable(value) else value)
        if x.shape[:2] != leading:
            raise ValueError(
                f"quantities: {name} has the shape {x.shape}, but its first axes must be {leading}, chain "
                "and draw; give such an array, or a function of theta."
            )
        if not np.issubdtype(x.dtype, np.number) and x.dtype != bool:
            raise TypeError(f"quantities: {name} must hold numbers; it has the type {x.dtype}.")
        if (number := int(np.prod(x.shape[2:]))) > MOST_SCALARS:
            raise ValueError(
                f"quantities: {name} has {number:,} numbers per draw; at most {MOST_SCALARS} are judged. "
                "Take some of them, or their averages."
            )
        named[str(name)] = x.astype(float)
    return flat(named)


def _evaluated(name: str, function: Callable[..., Any], draws: PyTree[Any]) -> np.ndarray:
    values = at_draws(function, draws)
    if not isinstance(values, np.ndarray):
        raise TypeError(
            f"quantities: {name} must return one array; it returned {type(values).__name__}. Give several "
            'functions by name, as in {"loss": f, "accuracy": g}.'
        )
    return values
