"""Completion without a grid, in any dimension."""

import jax
import jax.numpy as jnp
import numpy as np

from fokker.completion._axial import AxialEntries, survey
from fokker.completion._box import Box, Energy, check_mass
from fokker.completion._completion import TOLERANCE, Completion, completed_dynamics
from fokker.completion._curl import Curl
from fokker.completion._explore import explore
from fokker.completion._flux import REVERSIBLE
from fokker.dynamics import SDE, Dynamics
from fokker.dynamics.problem import Problem
from fokker.fields import Field, Zero


def complete_by_axis(
    dynamics: Dynamics | SDE,
    problem: Problem,
    energy: Energy,
    box: Box | None,
    axis: int | None,
    T: float,
    wide: bool,
) -> Completion:
    """Q in the axial gauge, along the given axis or that of least leftover flux."""
    d, names = problem.dimension, problem.coordinate_names()
    exploration = explore(energy, problem, box)
    if box is not None:
        ends = _line_ends(energy, exploration.points, box)
        start_energy = float(energy(np.asarray(problem.start)[None])[0])
        notes = check_mass(box, exploration.least, ends, start_energy, names)
    else:
        notes = []
    report = survey(problem, exploration, axis)
    a = report.axis
    Q: Field = Zero()
    sizes: list[tuple[str, float]] = []
    if report.is_zero:
        notes.append(REVERSIBLE)
    else:
        pairs = tuple((i, a) for i in range(d) if i != a)
        side = jnp.asarray(exploration.box[a])
        entries = AxialEntries(dynamics, jnp.asarray(T, float), side, a, problem.names, report.two_sided)
        Q = Curl(entries, pairs, problem.names, d)
        values = np.abs(
            jax.jit(jax.vmap(lambda x: entries(problem.to_state(x), x)))(jnp.asarray(exploration.points))
        )
        sizes = [(f"{names[i]}, {names[a]}", float(values[:, m].max())) for m, (i, _) in enumerate(pairs)]
        if not report.two_sided:
            notes.append(
                f"the total flux of lines along {names[a]} is {report.leftover:.2g} of its size, not zero: "
                f"Qp does not vanish, and Q grows like 1/p for large {names[a]}. Try another axis=…."
            )
        if report.divergence > TOLERANCE:
            notes.append("the nearest stationary drift needs the Fourier method.")
    return Completion(
        Q=Q,
        dynamics=completed_dynamics(dynamics, problem, Q, T, wide),
        divergence=report.divergence,
        distance=None,
        method=f"axial gauge, integrating the flux along {names[a]}",
        box=exploration.box,
        names=names,
        notes=notes,
        least_energy=exploration.least,
        largest=sorted(sizes, key=lambda entry: -entry[1])[:3],
        order=problem.names,
    )


def _line_ends(energy: Energy, points: np.ndarray, box: Box) -> np.ndarray:
    """The least H at the two ends of the lines through the points, for each axis: (d, 2)."""
    ends = np.zeros((len(box), 2))
    for a, side in enumerate(box):
        for e, value in enumerate(side):
            on_face = points.copy()
            on_face[:, a] = value
            ends[a, e] = energy(on_face).min()
    return ends
