"""The checker's report, in numbers and in words."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fokker._core.digits import percent, without_minus_zero
from fokker._core.state import State
from fokker.checker._marginal import Marginal
from fokker.checker._structure import Structure

# From this error that may be missed on, the first line says so.
_WEAK = 0.05
_MODES_SHOWN = 8
# A coordinate of a mode that is nearer to zero is zero: where a search ended.
_NOTHING = 1e-12
# Where the texts of a printed report begin, after what they are about.
TEXT_COLUMN = 13
# Symbols in the messages; a printed report explains those that occur in it.
_SYMBOLS = {
    "z": "the state",
    "H": "the Hamiltonian",
    "U": "the potential of the target, the other part of H",
    "g": "the part of H with the auxiliary variables",
    "p": "exp(-H)",
    "f": "the drift",
    "D": "half the covariance of the noise per unit of time",
    "Q": "the skew matrix with which the drift has -Q∇H",
    "Γ": "the divergence of D + Q, which the drift needs",
    "R": "the residual: the change of exp(-H) per unit of time, as a share of it",
    "s": "the distance from the target's center",
    "d": "the number of coordinates",
}


@dataclass(frozen=True)
class Report:
    """The checker's verdict on a sampler; `print(report)` explains it.

    `ok`: whether all tests were passed and none was undecided. `residual`: the largest |R| over the size of
    its terms (pooled over points if it is estimated). `scale`: the typical size of those terms. `tolerance`:
    a smaller residual is rounding error. `reasons`: the errors, in words. `worst_point`: where the residual
    is largest. `correction`: what to add to the drift there. `power`: which errors could have been missed.
    `modes`: a point of each mode that was tested, the deepest first. `checks`: the results for a sampler's
    correction. `notes`: how the tests were done. `missed`: the largest change of an average of functions
    between -1 and 1 that would not have been seen, where a sampler is checked by averages. `temperature`:
    that of a sampler on a target, at which it was checked.
    """

    ok: bool
    verdict: str
    reasons: list[str]
    method: str
    power: str
    dimension: int = 0
    number_of_points: int = 0
    residual: float = math.nan
    tolerance: float = 0.0
    scale: float = math.nan
    worst_point: State | None = None
    worst_value: float = 0.0
    correction: State | None = None
    structure: Structure | None = None
    marginal: Marginal | None = None
    modes: list[State] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missed: float = 0.0
    temperature: float | None = None

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [self._headline(), ""]
        lines += [f"  reason     {reason}" for reason in self.reasons]
        if not self.ok and self.worst_point is not None:
            lines.append(f"  worst at   {_show(self.worst_point)}  where R = {self.worst_value:.4g}")
            if self.correction is not None:
                lines.append(f"  add there  {_show(self.correction)}  to the drift")
        lines += [f"  checked    {text}" for text in self.checks]
        if self.structure is not None:
            lines += [
                f"  residual   |R| at most {self.residual:.2g} of the size of its terms (zero means below "
                f"{self.tolerance:.1g}; typical size {self.scale:.3g})",
                f"  D          {_semidefinite(self.structure)}",
            ]
            if self.structure.skew_error is not None:
                lines.append(f"  Q          |Q + Qᵀ| at most {self.structure.skew_error:.1g} of its size")
        if self.marginal is not None:
            lines.append(f"  marginal   {_marginal_words(self.marginal)}")
        lines += [
            f"  points     {self.number_of_points} in {self.dimension} "
            f"{'dimension' if self.dimension == 1 else 'dimensions'}, {self.method}",
            f"  power      {self.power}",
        ]
        first_modes = self.modes[:_MODES_SHOWN]
        lines += [f"  mode       {_show(mode)}" for mode in first_modes]
        if len(self.modes) > len(first_modes):
            lines.append(f"  mode       and {len(self.modes) - len(first_modes)} more")
        lines += [f"  note       {note}" for note in self.notes]
        symbols = self._symbols("\n".join(lines))
        return "\n".join([*lines, f"  symbols    {symbols}"] if symbols else lines)

    def _symbols(self, text: str) -> str:
        """What the symbols in a text mean; names of the user's own variables need no explanation."""
        own = {name for state in (self.worst_point, *self.modes) if isinstance(state, dict) for name in state}
        used = set(re.findall(r"(?<![^\W\d])(?<!'|’)[A-Za-zΓ](?=\W|$)", text)) - own
        return "; ".join(f"{name} is {meaning}" for name, meaning in _SYMBOLS.items() if name in used)

    def _headline(self) -> str:
        warmth = "" if self.temperature is None else f" at temperature {self.temperature:g}"
        if self.ok and self.structure is None:
            steps = f"the target is stationary under the steps of this sampler{warmth}"
            if self.missed > _WEAK:
                return (
                    f"RIGHT as far as averages show: {steps}, up to errors of {percent(self.missed)}, which "
                    "would not have been seen."
                )
            return f"RIGHT: {steps}, as far as was checked."
        if self.ok:
            number = len(self.modes)
            where = {0: "at the points given", 1: "around the one mode of H that was found"}
            return (
                f"RIGHT: exp(-H) is stationary under these dynamics{warmth}, tested "
                f"{where.get(number, f'around the {number} modes of H that were found')}."
            )
        if self.verdict == "undecided":
            return "UNDECIDED: the tests could not establish that this sampler is correct."
        return "WRONG: this does not sample the target."

    def to_json(self) -> dict[str, Any]:
        """The report as plain values, for a file."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "temperature": self.temperature,
            "residual": _finite(self.residual),
            "tolerance": self.tolerance,
            "scale": _finite(self.scale),
            "reasons": self.reasons,
            "worst_point": None if self.worst_point is None else _plain(self.worst_point),
            "worst_value": _finite(self.worst_value),
            "correction": None if self.correction is None else _plain(self.correction),
            "dimension": self.dimension,
            "points": self.number_of_points,
            "method": self.method,
            "power": self.power,
            "marginal": None
            if self.marginal is None
            else {"holds": self.marginal.holds, "how": self.marginal.how},
            "modes": [_plain(mode) for mode in self.modes],
            "checks": self.checks,
            "notes": self.notes,
        }


def _semidefinite(s: Structure) -> str:
    if s.is_not_finite:
        return "not finite, or Q is not: nothing else was tested"
    if not s.has_noise:
        return "zero: no noise"
    least = without_minus_zero(f"{s.least_eigenvalue:.2g}")
    return f"smallest eigenvalue {least} and |D - Dᵀ| {s.asymmetry:.1g}, both relative to the size of D"


def _marginal_words(marginal: Marginal) -> str:
    if marginal.holds is None:
        return marginal.how
    if marginal.spread is None or marginal.spread == 0.0:
        return marginal.how
    return f"log ∫exp(-g) varies by {marginal.spread:.2g}, by {marginal.how}"


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _plain(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _plain(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_plain(value) for value in tree]
    return np.asarray(tree).tolist()


def _show(tree: Any) -> str:
    if isinstance(tree, dict):
        return ", ".join(f"{name} = {_show(value)}" for name, value in tree.items())
    array = np.asarray(tree)
    if np.issubdtype(array.dtype, np.floating):  # what is left of a search that ends at zero
        array = np.where(np.abs(array) < _NOTHING, 0.0, array)
    return np.array2string(array, precision=4, threshold=8, separator=", ")
