"""Figures that the page draws itself: marks in the units of two axes, as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fokker.report.packing import packed

Kind = Literal["line", "points", "bars", "stairs", "lengths", "intervals", "rule"]


@dataclass(frozen=True)
class Mark:
    """Lines, points or bars of one colour of the palette, such as "chain-0", "truth" or "bad".

    `x` and `y`: places; of bars and stairs `x` has the edges. `low`, `high`: ends of intervals along the axis
    `along`. `at`: where a rule is on that axis. `size`: areas of points, from 0 to 1; `text`: beside them.
    """

    kind: Kind
    colour: str
    name: str | None = None
    x: ArrayLike | None = None
    y: ArrayLike | None = None
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    along: Literal["x", "y"] | None = None
    at: float | None = None
    size: ArrayLike | None = None
    text: Sequence[str] | None = None
    dashed: bool | None = None
    opacity: float | None = None
    width: float | None = None

    def to_json(self) -> dict[str, Any]:
        """What is given, with packed arrays."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        arrays = {name: packed(values.pop(name)) for name in _ARRAYS if values[name] is not None}
        return {name: x for name, x in values.items() if x is not None} | arrays


_ARRAYS = ("x", "y", "low", "high", "size")


@dataclass(frozen=True)
class Axis:
    """The label of an axis, whether it is logarithmic, and names of the places 0, -1, -2, … along it."""

    label: str = ""
    log: bool = False
    names: Sequence[str] | None = None

    def to_json(self) -> dict[str, Any]:
        """What is given."""
        names = {} if self.names is None else {"names": list(self.names)}
        return {"label": self.label, "log": bool(self.log), **names}


@dataclass(frozen=True)
class Figure:
    """A title, what is seen in words, two axes and marks. In a map only distances have a meaning."""

    title: str
    text: str
    marks: Sequence[Mark] = ()
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    is_map: bool = False

    def to_json(self) -> dict[str, Any]:
        """As the page reads it."""
        return {
            "title": self.title,
            "text": self.text,
            "x": self.x.to_json(),
            "y": self.y.to_json(),
            "marks": [mark.to_json() for mark in self.marks],
            "isMap": self.is_map,
        }


def chain_colour(chain: int) -> str:
    """The colour of a chain, by its place among those shown."""
    return f"chain-{chain % 8}"


def histogram(
    values: ArrayLike,
    colour: str,
    name: str | None = None,
    bins: int = 40,
    ends: tuple[float, float] | None = None,
) -> Mark:
    """Bars of the density of some values."""
    finite = np.asarray(values, float).ravel()
    finite = finite[np.isfinite(finite)]
    heights, edges = np.histogram(finite, bins, ends, density=finite.size > 0)
    return Mark("bars", colour, name, edges, heights, opacity=0.5)


def rule(at: float, name: str | None = None, along: Literal["x", "y"] = "y", colour: str = "truth") -> Mark:
    """A dashed line across the figure, at a place along an axis."""
    return Mark("rule", colour, name, along=along, at=float(at), dashed=True)
