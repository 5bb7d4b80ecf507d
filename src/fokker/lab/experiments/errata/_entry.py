"""One formula of a paper, the dynamics that it describes, and the expected verdict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array

from fokker.checker import check
from fokker.checker._residual import exact_residuals
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.problem import make_problem
from fokker.lab.experiments._stages import stage

Verdict = Literal["right", "wrong"]
Shapes = Mapping[str, tuple[int, ...]]

# A formula that is right leaves rounding error in double precision; one that is wrong leaves a term of order
# one. Between the two lie six orders of magnitude, so the exact place of the line does not matter.
THRESHOLD = 1e-6


@dataclass(frozen=True)
class Measurement:
    """The residual of a formula that is not a drift, relative to its size, and what was measured."""

    residual: float
    how: str


@dataclass(frozen=True)
class Entry:
    """A formula as printed or as corrected.

    `build` returns the dynamics that it describes, for the checker, or a `Measurement` where the formula is
    not a drift. `shapes` are the variables of the state. `closed_form`, where a residual is known by hand,
    gives R(z) to be compared with the checker's.
    """

    key: str
    source: str
    what: str
    expected: Verdict
    build: Callable[[], Dynamics | SDE | Measurement]
    shapes: Shapes = field(default_factory=dict)
    closed_form: Callable[[dict[str, Array]], Array] | None = None

    def state(self) -> dict[str, np.ndarray]:
        """An example of the state."""
        return {name: np.zeros(shape) for name, shape in self.shapes.items()}

    def points(self, number: int, seed: int) -> dict[str, np.ndarray]:
        """States where the targets have their mass: the residual is an identity, to hold at every one."""
        generator = np.random.default_rng(seed)
        return {name: generator.normal(size=(number, *shape)) for name, shape in self.shapes.items()}


@dataclass(frozen=True)
class Finding:
    """The checker's verdict on an entry."""

    key: str
    source: str
    what: str
    residual: float
    expected: Verdict
    verdict: Verdict
    agrees: bool
    reasons: tuple[str, ...]


def examine(entry: Entry, number_of_points: int = 64, explain: bool = False, seeds: int = 1) -> Finding:
    """Build the dynamics of a formula and let the checker judge them, at points drawn with each of the seeds.

    `explain` asks the checker for its reasons as well.
    """
    stage(f"checking {entry.key}")
    residual, ok, reasons = _judge(entry, number_of_points, explain, seeds)
    verdict: Verdict = "right" if ok else "wrong"
    return Finding(
        key=entry.key,
        source=entry.source,
        what=entry.what,
        residual=residual,
        expected=entry.expected,
        verdict=verdict,
        agrees=verdict == entry.expected,
        reasons=reasons,
    )


def _judge(entry: Entry, number: int, explain: bool, seeds: int) -> tuple[float, bool, tuple[str, ...]]:
    with jax.enable_x64(True):
        subject = entry.build()
    if isinstance(subject, Measurement):
        return subject.residual, subject.residual <= THRESHOLD, (subject.how,)
    verdicts = [_verdict(subject, entry, number, explain, seed) for seed in range(seeds)]
    return max(verdicts, key=lambda verdict: (not verdict[1], verdict[0]))


def _verdict(
    subject: Dynamics | SDE, entry: Entry, number: int, explain: bool, seed: int
) -> tuple[float, bool, tuple[str, ...]]:
    report = check(subject, state=entry.state(), points=entry.points(number, seed), explain=explain)
    return float(report.residual), report.ok, tuple(report.reasons)


def compare_with_closed_form(entry: Entry, number: int = 256, seed: int = 0) -> dict[str, Any]:
    """The largest |R| by autodiff, and its largest distance from the residual worked out by hand."""
    assert entry.closed_form is not None
    with jax.enable_x64(True):
        problem = make_problem(entry.build(), state=entry.state())
        points = jax.random.normal(jax.random.key(seed), (number, problem.dimension))
        values = exact_residuals(problem, points).values
        by_hand = np.asarray(jax.vmap(lambda x: entry.closed_form(problem.to_state(x)))(points))  # type: ignore[misc]
    return {
        "points": number,
        "largest residual": float(np.max(np.abs(values))),
        "largest difference": float(np.max(np.abs(values - by_hand))),
    }
