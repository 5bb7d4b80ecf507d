"""What a person hands in beside the dynamics: several states to start from, points, draws of a run."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fokker._core.state import as_arrays, describe_shapes
from fokker.dynamics.problem import Problem

# Chains start from so many of the draws that were given.
_MOST_STARTS = 256


def first_state(state: Any) -> tuple[Any, list[Any]]:
    """An example of the state, and all the states that were given: a list holds several."""
    several = isinstance(state, list) and bool(state)
    if several and all(isinstance(s, Mapping) or np.ndim(s) > 0 for s in state):
        return state[0], state
    return state, [] if state is None else [state]


def starts_of(problem: Problem, states: list[Any]) -> np.ndarray:
    """The states as rows; the example where none was given."""
    rows = []
    for number, state in enumerate(states):
        try:
            rows.append(np.asarray(problem.to_vector(as_arrays(state)), np.float64))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"state number {number} is unlike the first: {error}") from error
        if rows[-1].shape != np.shape(problem.start):
            raise ValueError(f"state number {number} has {rows[-1].size} numbers, not {rows[0].size}.")
    return np.stack(rows) if rows else np.asarray(problem.start, np.float64)[None]


def given_points(problem: Problem, given: Any) -> tuple[np.ndarray, bool]:
    """Points as rows, and whether they are whole states; draws of the position alone are completed.

    There may be one leading axis, or two (chains and draws, as in `trace.samples`).
    """
    given = as_arrays(given)
    example = problem.example
    whole = not problem.names or (isinstance(given, Mapping) and set(problem.names) <= set(given))
    if not whole and problem.position in problem.names:
        example, given = example[problem.position], _position_of(given, problem.position)
    try:
        axes = jax.tree.map(lambda g, e: np.ndim(g) - np.ndim(e), given, example)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"points must have the structure of the state, or of {problem.position}, with a leading axis: "
            f"{error}"
        ) from error
    leading = set(jax.tree.leaves(axes))
    if leading not in ({1}, {2}):
        raise ValueError(
            "points must have the structure of the state with one leading axis, or two for chains and draws; "
            f"they are {describe_shapes(given)} for a state of {describe_shapes(example)}."
        )
    (lead,) = leading
    rows = jax.tree.map(lambda g: np.reshape(g, (-1, *np.shape(g)[lead:])), given)
    if len({len(r) for r in jax.tree.leaves(rows)}) > 1:
        raise ValueError(f"points of different numbers were given: {describe_shapes(given)}.")
    if not whole:
        number = len(jax.tree.leaves(rows)[0])
        chosen = np.unique(np.linspace(0, number - 1, min(number, _MOST_STARTS)).astype(int))
        rows = jax.tree.map(lambda r: r[chosen], rows)
        others = {n: z for n, z in problem.example.items() if n != problem.position}
        rows = {
            **jax.tree.map(lambda e: np.broadcast_to(e, (len(chosen), *np.shape(e))), others),
            problem.position: rows,
        }
    points = np.asarray(jax.vmap(problem.to_vector)(jax.tree.map(jnp.asarray, rows)), np.float64)
    if points.shape[1] != problem.dimension:
        raise ValueError(
            f"points make vectors of length {points.shape[1]}; the state has {problem.dimension}."
        )
    return points, whole


def _position_of(given: Any, name: str) -> Any:
    return given[name] if isinstance(given, Mapping) and set(given) == {name} else given
