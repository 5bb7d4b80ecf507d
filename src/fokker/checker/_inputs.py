"""The user's inputs besides the dynamics: several initial states, points, draws of a run."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fokker._core.state import as_arrays, describe_shapes
from fokker.checker._points import draw_points
from fokker.dynamics.problem import Problem

# The maximum number of given draws that chains start from.
_MOST_STARTS = 256
# With fewer different points given, as many more are taken next to them, at this share of their size.
_FEW, _NEAR = 8, 1e-2


class CheckedPoints(NamedTuple):
    """The points, how many are draws, whether they settled or were given, and the minima below them."""

    points: np.ndarray
    on_target: int
    settled: bool
    are_given: bool
    notes: list[str]
    below: np.ndarray | None = None


def first_state(state: Any) -> tuple[Any, list[Any]]:
    """An example of the state, and all given states: a list contains several."""
    several = isinstance(state, list) and bool(state)
    if several and all(isinstance(s, Mapping) or np.ndim(s) > 0 for s in state):
        return state[0], state
    return state, [] if state is None else [state]


def starts_of(problem: Problem, states: list[Any]) -> np.ndarray:
    """The states as rows; the example state if none was given."""
    rows = []
    for number, state in enumerate(states):
        try:
            rows.append(np.asarray(problem.to_vector(as_arrays(state)), np.float64))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"state number {number} is different from the first: {error}") from error
        if rows[-1].shape != np.shape(problem.start):
            raise ValueError(f"state number {number} has {rows[-1].size} numbers, not {rows[0].size}.")
    return np.stack(rows) if rows else np.asarray(problem.start, np.float64)[None]


def given_points(problem: Problem, points: Any) -> tuple[np.ndarray, bool]:
    """Points as rows, and whether they are full states; draws of the position are extended to states.

    There may be one leading axis, or two (chains and draws, as in `trace.samples`).
    """
    points = as_arrays(points)
    example = problem.example
    are_states = not problem.names or (isinstance(points, Mapping) and set(problem.names) <= set(points))
    if not are_states and problem.position in problem.names:
        example, points = example[problem.position], _position_of(points, problem.position)
    try:
        axes = jax.tree.map(lambda g, e: np.ndim(g) - np.ndim(e), points, example)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"points must have the structure of the state, or of {problem.position}, with a leading axis: "
            f"{error}"
        ) from error
    leading = set(jax.tree.leaves(axes))
    if leading not in ({1}, {2}):
        raise ValueError(
            "points must have the structure of the state with one leading axis, or two for chains and draws; "
            f"they are {describe_shapes(points)} for a state of {describe_shapes(example)}."
        )
    (lead,) = leading
    rows = jax.tree.map(lambda g: np.reshape(g, (-1, *np.shape(g)[lead:])), points)
    if len({len(r) for r in jax.tree.leaves(rows)}) > 1:
        raise ValueError(f"the leaves of points have different lengths: {describe_shapes(points)}.")
    number = len(jax.tree.leaves(rows)[0])
    if number == 0:
        raise ValueError(f"points has no rows: it is {describe_shapes(points)}. Give at least one state.")
    if not all(np.all(np.isfinite(r)) for r in jax.tree.leaves(rows)):
        raise ValueError("points must be finite numbers; NaN or infinity was given.")
    if not are_states:
        selected = np.unique(np.linspace(0, number - 1, min(number, _MOST_STARTS)).astype(int))
        rows = jax.tree.map(lambda r: r[selected], rows)
        others = {n: z for n, z in problem.example.items() if n != problem.position}
        rows = {
            **jax.tree.map(lambda e: np.broadcast_to(e, (len(selected), *np.shape(e))), others),
            problem.position: rows,
        }
    vectors = np.asarray(jax.vmap(problem.to_vector)(jax.tree.map(jnp.asarray, rows)), np.float64)
    if vectors.shape[1] != problem.dimension:
        raise ValueError(f"points have {vectors.shape[1]} coordinates; the state has {problem.dimension}.")
    return vectors, are_states


def _position_of(draws: Any, name: str) -> Any:
    return draws[name] if isinstance(draws, Mapping) and set(draws) == {name} else draws


def choose_points(
    problem: Problem, states: list[Any], points: Any, number: int, generator: np.random.Generator
) -> CheckedPoints:
    """The given points, or points drawn from chains that start at the given draws or states."""
    are_draws: np.ndarray | bool = False
    if points is None:
        starts = starts_of(problem, states)
    else:
        starts, are_states = given_points(problem, points)
        if are_states:
            notes = ["the points were given, not drawn"]
            different = np.unique(starts, axis=0)
            near = np.repeat(different, _FEW // len(different), axis=0)
            if len(near):
                # At single points an error may vanish by chance, but not around them.
                near = near + _NEAR * (1 + np.abs(near)) * generator.normal(size=near.shape)
                notes.append(
                    f"few points were given: the residual was also computed at {len(near)} near them"
                )
            return CheckedPoints(np.concatenate([starts, near]), len(starts), True, True, notes)
        are_draws = np.zeros(problem.dimension, bool)
        are_draws[problem.variables[problem.position]] = True
    target, wide = draw_points(problem.hamiltonian, starts, number, generator, are_draws)
    # With heavy tails exp(-H/4) may not be normalisable: only chains of the target must settle.
    drawn = np.concatenate([target.points, wide.points[: number // 2]])
    return CheckedPoints(drawn, number, target.settled, False, [], target.below)
