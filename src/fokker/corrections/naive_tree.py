"""The no-U-turn tree as first published: every point of the path is stored."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fokker._core.random import split, uniform
from fokker._core.state import State, ravel, unravel
from fokker.corrections._correction import DIVERGENT, Outcome, Step, Visited, metropolis_rule
from fokker.corrections._doubling import DoublingPath, as_state
from fokker.integrators import Point


class Points(NamedTuple):
    """Points of a path in the order of time."""

    q: Float[Array, "n d"]
    p: Float[Array, "n d"]
    gradient: Float[Array, "n d"]
    potential: Float[Array, " n"]
    energy: Float[Array, " n"]


class NaiveTreeDraws(NamedTuple):
    """The slice's height above the start's energy, directions, and a uniform for the choice."""

    height: Array
    right: Array
    choice: Array


class Path(NamedTuple):
    """The whole path of a step, and which of its points may be chosen."""

    points: Points
    candidates: Array
    depth: Array
    steps: Array
    accepted: Array
    divergent: Array
    going: Array


class Trajectory(NamedTuple):
    """The start and, after its only move, the point chosen from the whole path."""

    draws: NaiveTreeDraws
    start: Points
    chosen: Points
    done: Array
    rate: Array
    divergent: Array
    steps: Array
    depth: Array


class NaiveTree(DoublingPath):
    r"""The tree of Hoffman and Gelman (2014), Algorithm 2: for teaching, and to test `Tree` by.

    A slice u below exp(-H) is drawn; the path doubles, forward or back in time, until a subtree has
    (θ⁺-θ⁻)·r < 0 at one of its ends; of its points within the slice one is chosen uniformly. All points are
    stored: memory grows as 2^`max_depth`, and a path that ends early in a doubling is computed to its end.
    Keeps exp(-H/T) exactly.

    Arguments:

    - `max_depth`: the most doublings of a path, a whole number from 1 to 12.

    ```python
    dynamics = fk.dynamics.hamiltonian_flow(lambda theta: jnp.sum(theta**2) / 2)
    leapfrog, tree = fk.integrators.Leapfrog(), fk.corrections.NaiveTree(max_depth=5)
    sampler = fk.samplers.recipe(dynamics, 0.1, integrator=leapfrog, correction=tree)
    ```
    """

    max_depth: int = eqx.field(static=True, default=8)

    label: ClassVar = "naive tree"
    takes_one_move = True

    def __check_init__(self) -> None:
        if not isinstance(self.max_depth, int) or not 1 <= self.max_depth <= 12:
            raise ValueError(f"max_depth must be a whole number from 1 to 12; {self.max_depth!r} was given.")

    def with_one_move(self) -> "NaiveTree":
        """The same: the whole tree is one move."""
        return self

    def draw(self, key: Key[Array, ""], step: Step, z: State) -> NaiveTreeDraws:
        """The randomness of one tree."""
        first, second, third = split(key, 3)
        dtype = jnp.result_type(*jax.tree.leaves(z))
        height = -jnp.log1p(-uniform(first, (), dtype))
        right = uniform(second, (self.max_depth,), dtype) < 0.5
        return NaiveTreeDraws(height, right, uniform(third, (), dtype))

    def start(self, draws: NaiveTreeDraws, z: State, point: Point, step: Step) -> Trajectory:
        """No path yet; the state to come is the one before."""
        p = ravel(z["r"])
        U, g = point.potential, point.gradient
        here = Points(
            ravel(z["theta"]),
            p,
            jnp.zeros_like(p) if g is None else ravel(g),
            jnp.zeros_like(p[0]) if U is None else U,
            step.energy(z, point),
        )
        zero, count, false = jnp.zeros_like(p[0]), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        return Trajectory(draws, here, here, false, zero, false, count, count)

    def is_done(self, trajectory: Trajectory) -> Array:
        """After the whole tree, which is one move here."""
        return trajectory.done

    def move(self, trajectory: Trajectory, step: Step) -> Trajectory:
        """The whole tree, and a point of it."""
        tree = self.grow(trajectory, step)
        count = jnp.sum(tree.candidates)
        # The ⌈u·count⌉-th of the candidates: uniform over them.
        rank = jnp.minimum(jnp.floor(trajectory.draws.choice * count), count - 1)
        place = jnp.argmax(tree.candidates & (jnp.cumsum(tree.candidates) - 1 == rank))
        chosen = jax.tree.map(lambda x: x[place], tree.points)
        rate = tree.accepted / jnp.maximum(tree.steps, 1)
        done = jnp.ones((), bool)
        return Trajectory(
            trajectory.draws, trajectory.start, chosen, done, rate, tree.divergent, tree.steps, tree.depth
        )

    def end(self, trajectory: Trajectory, point: Point, step: Step) -> Outcome:
        """The point chosen."""
        z = {"theta": unravel(trajectory.chosen.q, step.like["theta"])}
        U = None if point.potential is None else trajectory.chosen.potential
        g = None if point.gradient is None else unravel(trajectory.chosen.gradient, point.gradient)
        energy = trajectory.start.energy
        return Outcome(
            z,
            Point(U, g),
            trajectory.rate,
            trajectory.divergent,
            energy,
            trajectory.steps,
            tree_depth=trajectory.depth,
        )

    def visited(self, before: Trajectory, after: Trajectory, step: Step) -> Visited:
        """The path again, its points in the order of their doublings and not of time."""
        draws = before.draws
        tree = self.grow(before, step)
        q, depths, directions = [], [], []
        rest = tree.points.q
        for depth in reversed(range(self.max_depth)):
            # The last doubling is the first or second half of the path; one that was not made comes last.
            half, is_made = 2**depth, tree.steps >= 2**depth
            right = draws.right[depth] | ~is_made
            new = jnp.where(right, rest[half:], rest[:half][::-1])
            rest = jnp.where(right, rest[:half], rest[half:])
            q.append(new)
            depths.append(jnp.full(half, jnp.where(is_made, depth + 1, -1)))
            directions.append(jnp.full(half, jnp.where(right, 1, -1)))
        points, doublings, direction = (jnp.concatenate(parts[::-1]) for parts in (q, depths, directions))
        theta = jax.vmap(lambda x: unravel(x, step.like["theta"]))(points)
        return Visited(theta, doublings, direction)

    def grow(self, trajectory: Trajectory, step: Step) -> Path:
        """Double the path, forward or back in time, until it or a half, quarter, … of it turns round."""
        here = jax.tree.map(lambda x: x[None], trajectory.start)
        count, zero = jnp.zeros((), jnp.int32), jnp.zeros((), here.p.dtype)
        false = jnp.zeros((), bool)
        tree = Path(here, jnp.ones(1, bool), count, count, zero, false, ~false)
        for depth in range(self.max_depth):
            # The path has 2^depth points: arrays of another size at every doubling, as in the paper.
            tree = self._doubled(depth, trajectory, tree, step)
        return tree

    def _doubled(self, depth: int, trajectory: Trajectory, tree: Path, step: Step) -> Path:
        draws = trajectory.draws

        def double() -> Path:
            right = draws.right[depth]
            old = tree.points
            h = jnp.where(right, step.size, -step.size).astype(old.p.dtype)
            edge = jax.tree.map(lambda x: jnp.where(right, x[-1], x[0]), old)

            def next_point(at: Points, _: None) -> tuple[Points, Points]:
                z, point = as_state(at.q, at.p, at.gradient, step)
                proposal = step.propose(z, point, size=h)
                z, point = proposal.z, proposal.point
                energy = jnp.where(proposal.is_sound, step.energy(z, point), jnp.inf)
                U = at.potential if point.potential is None else point.potential
                g = at.gradient if point.gradient is None else ravel(point.gradient)
                new = Points(ravel(z["theta"]), ravel(z["r"]), g, U, energy)
                return new, new

            _, new = jax.lax.scan(next_point, edge, length=2**depth)
            change = new.energy - trajectory.start.energy
            change = jnp.where(jnp.isfinite(change), change, jnp.inf)
            new = jax.tree.map(lambda x: jnp.where(right, x, x[::-1]), new)
            inside = jnp.where(right, change, change[::-1]) <= draws.height
            diverged = jnp.any(change - draws.height > DIVERGENT)
            sound = ~diverged & ~_turns(new)
            joined = jax.tree.map(
                lambda a, b: jnp.where(right, jnp.concatenate([a, b]), jnp.concatenate([b, a])), old, new
            )
            both = (tree.candidates, inside & sound)
            candidates = jnp.where(right, jnp.concatenate(both), jnp.concatenate(both[::-1]))
            rates = metropolis_rule(jnp.zeros(()), change)[1]
            return Path(
                joined,
                candidates,
                tree.depth + sound,
                tree.steps + 2**depth,
                tree.accepted + jnp.sum(rates),
                diverged,
                sound & ~_turned(joined.q[0], joined.p[0], joined.q[-1], joined.p[-1]),
            )

        def stop() -> Path:
            longer = jax.tree.map(lambda x: jnp.concatenate([x, jnp.zeros_like(x)]), tree.points)
            nothing = jnp.zeros_like(tree.candidates)
            return tree._replace(points=longer, candidates=jnp.concatenate([tree.candidates, nothing]))

        return jax.lax.cond(tree.going, double, stop)


def _turned(left_q: Array, left_p: Array, right_q: Array, right_p: Array) -> Array:
    """Whether the ends of a path are about to approach each other."""
    way = right_q - left_q
    return (jnp.sum(way * left_p, axis=-1) < 0) | (jnp.sum(way * right_p, axis=-1) < 0)


def _turns(points: Points) -> Array:
    """Whether any half, quarter, … of a path of 2^n points turns round."""
    turns, n = jnp.zeros((), bool), points.q.shape[0]
    size = 2
    while size <= n:
        q, p = (x.reshape(n // size, size, -1) for x in (points.q, points.p))
        turns |= jnp.any(_turned(q[:, 0], p[:, 0], q[:, -1], p[:, -1]))
        size *= 2
    return turns
