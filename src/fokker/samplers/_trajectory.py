"""One step seen point by point, for teaching: the sampler's own walk, taken move by move on the host."""

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key

from fokker._core.state import ravel

if TYPE_CHECKING:
    from fokker.samplers._walker import Walker, WalkerState


class Trajectory(NamedTuple):
    """The points that a step visited, in that order, each theta as a vector; the start is the first.

    `chosen` is the place of the point that became the next state, 0 where that is the start; `state` is that
    next state. Of a tree, `depth` says in which doubling a point was added (the start: 0) and `direction`
    whether forwards (1) or backwards (-1) in time.
    """

    points: np.ndarray
    chosen: int
    accepted: bool
    state: Any
    depth: np.ndarray | None = None
    direction: np.ndarray | None = None


class Seen(NamedTuple):
    """Points that a move has visited, in order, as q; of a tree with their doublings and directions."""

    q: Array
    depth: Array | None = None
    direction: Array | None = None


def taken(sampler: "Walker", key: Key[Array, ""], state: "WalkerState") -> Trajectory:
    """The trajectory of `sampler.step(key, state)`."""
    walk = _begin(sampler, key, state)
    told: list[Any] = []
    while not bool(sampler.arrived(walk)):
        walk, seen = _move(sampler, walk, state)
        told.append(jax.tree.map(np.asarray, seen))
    next_state = _finish(sampler, walk, state)
    new, start = (np.asarray(ravel(x.position)) for x in (next_state, state))
    points = np.concatenate([start[None], *(seen.q for seen in told)])
    apart = np.sum((points - new) ** 2, axis=1)
    chosen = int(np.argmin(np.where(np.isnan(apart), np.inf, apart)))
    depth = direction = None
    if told[0].depth is not None:
        depth = np.concatenate([[0], *(np.atleast_1d(seen.depth) for seen in told)]).astype(int)
        direction = np.concatenate([[1], *(np.atleast_1d(seen.direction) for seen in told)]).astype(int)
        # Of a doubling that a whole-tree move did not make.
        made = depth >= 0
        chosen = int(np.sum(made[:chosen]))
        points, depth, direction = points[made], depth[made], direction[made]
    return Trajectory(points, chosen, chosen > 0, next_state, depth, direction)


@eqx.filter_jit
def _begin(sampler: Any, key: Any, state: Any) -> Any:
    return sampler.begin(sampler.draw(key, state), state)


@eqx.filter_jit
def _move(sampler: Any, walk: Any, state: Any) -> tuple[Any, Seen]:
    new = sampler.onward(walk, state)
    seen = sampler.visited(walk, new, state)
    return new, seen._replace(q=jax.vmap(lambda q: sampler.vector(q, state))(seen.q))


@eqx.filter_jit
def _finish(sampler: Any, walk: Any, state: Any) -> Any:
    return sampler.finish(walk, state)[0]
