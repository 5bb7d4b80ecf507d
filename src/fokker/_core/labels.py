"""Names of the axes of parameters, and of the entries along them: what ArviZ calls dims and coords."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from fokker._core.names import nearest

# The axes of draws, in ArviZ and in stored runs.
AXES = ("chain", "draw")
# The kinds of NumPy's types that entries can have: they are stored with a run.
_KINDS = "biufUmM"


@dataclasses.dataclass(frozen=True, eq=False)
class Labels:
    """`dims`: the names of the axes of each variable; None for an axis without. `coords`: their entries.

    It can be hashed, as a target has it as a static field. Entries are compared, not hashed: there may be one
    per row of the data.
    """

    dims: Mapping[str, tuple[str | None, ...]] = dataclasses.field(default_factory=dict)
    coords: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.dims.items(), key=str)), tuple(sorted(self.coords))))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Labels)
            and dict(self.dims) == dict(other.dims)
            and self.coords.keys() == other.coords.keys()
            and all(np.array_equal(entries, other.coords[name]) for name, entries in self.coords.items())
        )

    @classmethod
    def checked(cls, dims: Any, coords: Any) -> "Labels":
        """From what a user or a model gives; raise unless they can be names of axes and entries."""
        for name, value, example in (
            ("dims", dims, '{"a": ["city"]}'),
            ("coords", coords, '{"city": ["Köln", "Bonn"]}'),
        ):
            if value is not None and not isinstance(value, Mapping):
                raise TypeError(
                    f"{name} must be a dictionary, as in {name}={example}, not {type(value).__name__}."
                )
        names = {str(variable): _axis_names(variable, axes) for variable, axes in (dims or {}).items()}
        entries = {str(axis): _entries(axis, values) for axis, values in (coords or {}).items()}
        used = {axis for axes in names.values() for axis in axes if axis is not None}
        for axis in (*used, *entries):
            if axis in AXES or axis in names:
                reason = (
                    "a variable has that name" if axis in names else "the draws have an axis of that name"
                )
                raise ValueError(
                    f"dims or coords name an axis {axis!r}, but {reason}: call it something else."
                )
        return cls(names, entries)

    def with_entries(self, entries: Mapping[str, Sequence[str]]) -> "Labels":
        """With these entries along the axes of their names that are in use and have none."""
        used = {axis for axes in self.dims.values() for axis in axes}
        new = {axis: np.array(x) for axis, x in entries.items() if axis in used and axis not in self.coords}
        return Labels(self.dims, {**self.coords, **new}) if new else self

    def axes(self, variable: str, shape: tuple[int, ...]) -> tuple[str | None, ...]:
        """The names of the axes of a variable of this shape; None where there is none, or it does not fit."""
        names = self.dims.get(variable, ())
        if len(names) != len(shape):
            return (None,) * len(shape)
        return tuple(
            name if name is not None and len(self.coords.get(name, range(length))) == length else None
            for name, length in zip(names, shape, strict=True)
        )

    def scalar_name(self, variable: str, shape: tuple[int, ...], index: int) -> str:
        """The name of one scalar of a variable: "w[3,0]", and "a[Köln]" where its axis has entries."""
        if not shape:
            return variable
        places = zip(self.axes(variable, shape), np.unravel_index(index, shape), strict=True)
        return f"{variable}[{','.join(self._entry(axis, int(place)) for axis, place in places)}]"

    def _entry(self, axis: str | None, place: int) -> str:
        return str(self.coords[axis][place]) if axis in self._distinct else str(place)

    @cached_property
    def _distinct(self) -> frozenset[str]:
        """Axes whose entries differ as text; the others are known by number."""
        return frozenset(
            axis for axis, entries in self.coords.items() if len({str(x) for x in entries}) == len(entries)
        )

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise unless every variable that is named exists, and its shape fits the names of its axes."""
        lengths: dict[str, tuple[str, int]] = {
            axis: (f"coords[{axis!r}]", len(entries)) for axis, entries in self.coords.items()
        }
        for variable, axes in self.dims.items():
            if variable not in shapes:
                raise ValueError(
                    f"dims names {variable!r}, but the parameters are {', '.join(shapes)}."
                    f"{nearest(variable, list(shapes))}"
                )
            if len(axes) != len(shapes[variable]):
                raise ValueError(
                    f"dims[{variable!r}] has {len(axes)} names, but the parameter has the shape "
                    f"{shapes[variable]}: give one name, or None, per axis."
                )
            for axis, length in zip(axes, shapes[variable], strict=True):
                if axis is None:
                    continue
                where, known = lengths.setdefault(axis, (variable, length))
                if known != length:
                    raise ValueError(
                        f"the axis {axis!r} has {length} entries in {variable!r}, but {where} has {known}: "
                        "give as many, or another name for one of the axes."
                    )

    def for_arviz(self, variables: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
        """The arguments dims and coords of ArviZ for variables of these shapes, without chain and draw."""
        # What has the name of a variable cannot be the name of an axis there.
        dims = {
            name: [
                f"{name}_dim_{i}" if axis is None or axis in variables else axis
                for i, axis in enumerate(self.axes(name, shape))
            ]
            for name, shape in variables.items()
        }
        used = {axis for axes in dims.values() for axis in axes}
        return {"dims": dims, "coords": {axis: x for axis, x in self.coords.items() if axis in used}}

    def written(self) -> dict[str, Any]:
        """As text and numbers, for a file."""
        # Dates have no form of their own in JSON, and times between them are numbers of their unit.
        plain = {"M": str, "m": np.int64}
        entries = {
            axis: {"type": x.dtype.str, "values": x.astype(plain.get(x.dtype.kind, x.dtype)).tolist()}
            for axis, x in self.coords.items()
        }
        return {"dims": {name: list(axes) for name, axes in self.dims.items()}, "coords": entries}

    @classmethod
    def read(cls, text: Any) -> "Labels":
        """What `written` wrote; raise ValueError where it is something else."""
        try:
            coords = {}
            for axis, entries in text["coords"].items():
                kind = np.dtype(entries["type"])
                if kind.kind not in _KINDS:
                    raise ValueError(f"coords[{axis!r}] is of type {kind}")
                coords[axis] = np.array(entries["values"], kind)
            return cls.checked(text["dims"], coords)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the names of axes are damaged ({type(error).__name__}: {error})") from error


NO_LABELS = Labels()


def named_leaves(tree: PyTree[Any]) -> dict[str, Any]:
    """Every leaf by its path; a single array is called theta."""
    leaves: dict[str, Any] = {}
    for number, (path, leaf) in enumerate(jax.tree.leaves_with_path(tree)):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "theta"
        # Both {"a.b": x} and {"a": {"b": x}} have a leaf a.b.
        leaves[f"{name}|{number}" if name in leaves else name] = leaf
    return leaves


def shapes_of(tree: PyTree[Any]) -> dict[str, tuple[int, ...]]:
    """The shape of every leaf, by its path."""
    return {name: tuple(np.shape(leaf)) for name, leaf in named_leaves(tree).items()}


def scalar_at(tree: PyTree[Any], place: int) -> str:
    """The name of the scalar at a place of a tree written as a vector."""
    for name, shape in shapes_of(tree).items():
        size = int(np.prod(shape))
        if place < size:
            return NO_LABELS.scalar_name(name, shape, place)
        place -= size
    raise IndexError(place)


def check_variable_names(names: Iterable[str]) -> None:
    """Raise for a variable with the name of an axis of draws."""
    for name in names:
        if name in AXES:
            raise ValueError(
                f"a parameter or variable is called {name!r}, which is the name of an axis of the draws: "
                f"rename it, as in {name + '_effect'!r}."
            )


def _axis_names(variable: Any, axes: Any) -> tuple[str | None, ...]:
    if isinstance(axes, str):
        return (axes,)
    if not isinstance(axes, Sequence) or not all(axis is None or isinstance(axis, str) for axis in axes):
        raise TypeError(f"dims[{variable!r}] must be a list of names, one per axis or None, not {axes!r}.")
    named = [axis for axis in axes if axis is not None]
    if len(set(named)) < len(named):
        raise ValueError(f"dims[{variable!r}] names two axes alike, {tuple(axes)}: each needs its own name.")
    return tuple(axes)


def _entries(axis: Any, values: Any) -> np.ndarray:
    wanted = f"coords[{axis!r}] must be a list of entries, one per place along the axis;"
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"{wanted} {values!r} was given.")
    entries = np.asarray(values if hasattr(values, "__array__") else list(values))
    if entries.ndim != 1:
        raise ValueError(f"{wanted} its shape is {entries.shape}.")
    if entries.dtype.kind in "OT":
        return np.array([str(x) for x in entries])
    if entries.dtype.kind not in _KINDS:
        raise TypeError(
            f"coords[{axis!r}] has entries of the type {entries.dtype}: give texts, numbers, dates or times "
            f"between them, as coords={{{axis!r}: [str(x) for x in …]}}."
        )
    # JSON has no numbers of more digits.
    return entries.astype(float) if entries.dtype.kind == "f" and entries.itemsize > 8 else entries
