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
    given: Dynamics | SDE,
    problem: Problem,
    energy: Energy,
    box: Box | None,
    axis: int | None,
    T: float,
    wide: bool,
) -> Completion:
    """Q in the axial gauge, along the axis given or the one of least leftover flux."""
    d, names = problem.dimension, problem.coordinate_names()
    found = explore(energy, problem, box)
    if box is not None:
        ends = _line_ends(energy, found.points, box)
        start_energy = float(energy(np.asarray(problem.start)[None])[0])
        notes = check_mass(box, found.least, ends, start_energy, names)
    else:
        notes = []
    seen = survey(problem, found, axis)
    a = seen.axis
    Q: Field = Zero()
    sizes: list[tuple[str, float]] = []
    if seen.is_zero:
        notes.append(REVERSIBLE)
    else:
        pairs = tuple((i, a) for i in range(d) if i != a)
        side = jnp.asarray(found.box[a])
        entries = AxialEntries(given, jnp.asarray(T, float), side, a, problem.names, seen.two_sided)
        Q = Curl(entries, pairs, problem.names, d)
        values = np.abs(
            jax.jit(jax.vmap(lambda x: entries(problem.to_state(x), x)))(jnp.asarray(found.points))
        )
        sizes = [(f"{names[i]}, {names[a]}", float(values[:, m].max())) for m, (i, _) in enumerate(pairs)]
        if not seen.two_sided:
            notes.append(
                f"the flux along whole lines of {names[a]} is {seen.leftover:.2g} of its size, not zero: Qp "
                f"does not end, and Q grows like 1/p where {names[a]} is large. Another axis=… may do better."
            )
        if seen.divergence > TOLERANCE:
            notes.append("the nearest stationary drift needs the Fourier method.")
    return Completion(
        Q=Q,
        dynamics=completed_dynamics(given, problem, Q, T, wide),
        divergence=seen.divergence,
        distance=None,
        method=f"axial gauge, integrating the flux along {names[a]}",
        box=found.box,
        names=names,
        notes=notes,
        least_energy=found.least,
        largest=sorted(sizes, key=lambda entry: -entry[1])[:3],
        order=problem.names,
    )


def _line_ends(energy: Energy, points: np.ndarray, box: Box) -> np.ndarray:
    """The least H at the two ends of the lines through the points, for each axis: (d, 2)."""
    ends = np.zeros((len(box), 2))
    for a, side in enumerate(box):
        for e, value in enumerate(side):
            moved = points.copy()
            moved[:, a] = value
            ends[a, e] = energy(moved).min()
    return ends
