"""One step seen point by point, for teaching: the sampler's own trajectory, advanced from the host."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from fokker._core.state import ravel
from fokker.corrections import Visited
from fokker.samplers.contract import Info, SamplerState
from fokker.samplers.trajectory_sampler import TrajectorySampler


class Trajectory(NamedTuple):
    """The points that a step visited, in order, each theta as a vector; the start is the first.

    `chosen` is the place of the point that became the next state, 0 where that is the start; `state` is that
    next state and `info` what the step reported. Of a tree, `depth` says in which doubling a point was added
    (the start: 0) and `direction` whether forwards (1) or backwards (-1) in time.
    """

    points: np.ndarray
    chosen: int
    accepted: bool
    state: Any
    info: Info
    depth: np.ndarray | None = None
    direction: np.ndarray | None = None


def trajectory_of(sampler: TrajectorySampler, key: Key[Array, ""], state: SamplerState) -> Trajectory:
    """The trajectory of `sampler.step(key, state)`."""
    trajectory = _start(sampler, key, state)
    moves: list[Any] = []
    while not bool(sampler.is_done(trajectory)):
        trajectory, visited = _move(sampler, trajectory, state)
        moves.append(jax.tree.map(np.asarray, visited))
    next_state, info = _end(sampler, trajectory, state)
    new, start = (np.asarray(ravel(x.position)) for x in (next_state, state))
    points = np.concatenate([start[None], *(move.theta for move in moves)])
    apart = np.sum((points - new) ** 2, axis=1)
    chosen = int(np.argmin(np.where(np.isnan(apart), np.inf, apart)))
    depth = direction = None
    if moves[0].depth is not None:
        depth = np.concatenate([[0], *(np.atleast_1d(move.depth) for move in moves)]).astype(int)
        direction = np.concatenate([[1], *(np.atleast_1d(move.direction) for move in moves)]).astype(int)
        # Without the points of a doubling that was not made.
        is_made = depth >= 0
        chosen = int(np.sum(is_made[:chosen]))
        points, depth, direction = points[is_made], depth[is_made], direction[is_made]
    return Trajectory(points, chosen, chosen > 0, next_state, info, depth, direction)


@eqx.filter_jit
def _start(sampler: Any, key: Key[Array, ""], state: PyTree[Array]) -> Any:
    return sampler.start(sampler.draw(key, state), state)


@eqx.filter_jit
def _move(sampler: Any, trajectory: PyTree[Array], state: PyTree[Array]) -> tuple[Any, Visited]:
    new = sampler.move(trajectory, state)
    visited = sampler.visited(trajectory, new, state)
    return new, visited._replace(theta=jax.vmap(ravel)(visited.theta))


@eqx.filter_jit
def _end(sampler: Any, trajectory: PyTree[Array], state: PyTree[Array]) -> Any:
    return sampler.end(trajectory, state)
