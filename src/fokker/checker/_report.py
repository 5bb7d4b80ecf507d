"""What the checker found, in numbers and in words."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fokker._state import State
from fokker.checker._marginal import Marginal
from fokker.checker._structure import Structure


@dataclass(frozen=True)
class Report:
    """The checker's verdict on a sampler; `print(report)` explains it.

    `ok`: whether everything that could be decided holds and nothing is in doubt. `residual`: the largest
    |R| over the size of the terms that it is made of (pooled over points where it is estimated). `scale`:
    the typical size of those terms. `tolerance`: the residual below which it is rounding error.
    `reasons`: what is wrong, in words. `worst_point`: where. `correction`: what to add to the drift there.
    `power`: what an error must be like to have been missed. `notes`: how it was looked at.
    """

    ok: bool
    verdict: str
    residual: float
    tolerance: float
    scale: float
    root_mean_square: float
    reasons: list[str]
    worst_point: State | None
    worst_value: float
    correction: State | None
    dimension: int
    number_of_points: int
    method: str
    power: str
    structure: Structure
    marginal: Marginal
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"{'RIGHT' if self.ok else self.verdict.upper()}: {self._headline()}", ""]
        lines += [f"  reason     {reason}" for reason in self.reasons]
        if not self.ok and self.worst_point is not None:
            lines.append(f"  worst at   {_show(self.worst_point)}  where R = {self.worst_value:.4g}")
            if self.correction is not None:
                lines.append(f"  add there  {_show(self.correction)}  to the drift")
        lines += [
            f"  residual   {self.residual:.2g} of the size of its terms (zero means below "
            f"{self.tolerance:.1g}; typical size {self.scale:.3g})",
            f"  D          {self._semidefinite()}",
        ]
        if self.structure.skew_error is not None:
            lines.append(f"  Q          |Q + Qᵀ| at most {self.structure.skew_error:.1g} of its size")
        lines += [
            f"  marginal   {_marginal_words(self.marginal)}",
            f"  points     {self.number_of_points} in {self.dimension} dimensions, {self.method}",
            f"  power      {self.power}",
        ]
        lines += [f"  note       {note}" for note in self.notes]
        return "\n".join(lines)

    def _headline(self) -> str:
        if self.ok:
            return "exp(-H) is stationary under these dynamics."
        if self.verdict == "undecided":
            return "not enough could be established to trust this sampler."
        return "these dynamics do not sample the target."

    def _semidefinite(self) -> str:
        s = self.structure
        if not s.has_noise:
            return "zero: no noise"
        return f"least eigenvalue {s.least_eigenvalue:.2g}, |D - Dᵀ| {s.asymmetry:.1g}, of its size"

    def to_json(self) -> dict[str, Any]:
        """The findings as plain values, for a file."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
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
            "marginal": {"holds": self.marginal.holds, "how": self.marginal.how},
            "notes": self.notes,
        }


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
    return np.array2string(array, precision=4, threshold=8, separator=", ")
