"""The no-U-turn sampler as first written down: every point of the path is stored, and looked at."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fokker._core.random import normal, split, uniform
from fokker.corrections import DIVERGENT, metropolis
from fokker.samplers._sampler import AUTOMATIC, Info
from fokker.samplers._trajectory import Seen
from fokker.samplers._walker import Vector, Walker, WalkerState, check_constant
from fokker.samplers.nuts import NUTS


class Points(NamedTuple):
    """Points of a path in the order of time."""

    q: Float[Array, "n d"]
    p: Float[Array, "n d"]
    gradient: Float[Array, "n d"]
    potential: Float[Array, " n"]


class Draws(NamedTuple):
    """A momentum, the slice's height above the start's energy, directions, and a uniform for the choice."""

    p: Vector
    height: Array
    right: Array
    choice: Array


class Grown(NamedTuple):
    """A path of a step, all of it, and which of its points may be chosen."""

    points: Points
    candidates: Array
    depth: Array
    leaps: Array
    accepted: Array
    divergent: Array
    going: Array


class NaiveNUTS(Walker):
    """The no-U-turn sampler that stores its whole path; made by `naive_nuts`."""

    max_depth: int = eqx.field(static=True)

    STATS: ClassVar = NUTS.STATS

    @property
    def name(self) -> str:
        """As in `fk.samplers`."""
        return "naive_nuts"

    def draw(self, key: Key[Array, ""], state: WalkerState) -> Draws:
        """The randomness of one tree."""
        first, second, third, fourth = split(key, 4)
        shape, dtype = state.gradient.shape, state.gradient.dtype
        height = -jnp.log1p(-uniform(second, (), dtype))
        right = uniform(third, (self.max_depth,), dtype) < 0.5
        return Draws(normal(first, shape, dtype), height, right, uniform(fourth, (), dtype))

    def begin(self, draws: Draws, state: WalkerState) -> tuple[Draws, Array, Any]:
        """No path yet; the state to come is the one before."""
        stats = jnp.zeros(len(self.STATS), state.gradient.dtype)
        chosen = (jnp.zeros_like(draws.p), state.potential, state.gradient, stats)
        return draws, jnp.zeros((), bool), chosen

    def arrived(self, walk: tuple[Draws, Array, Any]) -> Array:
        """After the whole tree, which is one move here."""
        return walk[1]

    def onward(self, walk: tuple[Draws, Array, Any], state: WalkerState) -> tuple[Draws, Array, Any]:
        """The whole tree, and a point of it."""
        draws = walk[0]
        tree = self.grow(draws, state)
        count = jnp.sum(tree.candidates)
        # The ⌈u·count⌉-th of the candidates: uniform over them.
        rank = jnp.minimum(jnp.floor(draws.choice * count), count - 1)
        place = jnp.argmax(tree.candidates & (jnp.cumsum(tree.candidates) - 1 == rank))
        energy = state.potential + jnp.sum(draws.p**2) / 2
        rate = tree.accepted / jnp.maximum(tree.leaps, 1)
        told = (rate, tree.divergent, energy, tree.leaps, tree.depth)
        stats = jnp.stack([jnp.asarray(x).astype(energy.dtype) for x in told])
        points = tree.points
        return (
            draws,
            jnp.ones((), bool),
            (points.q[place], points.potential[place], points.gradient[place], stats),
        )

    def finish(self, walk: tuple[Draws, Array, Any], state: WalkerState) -> tuple[WalkerState, Info]:
        """The point chosen."""
        q, U, gradient, stats = walk[2]
        return self.moved(state, q, U, gradient, state.momentum, *stats)

    def visited(self, before: Any, after: Any, state: WalkerState) -> Seen:
        """The path again, its points in the order of their doublings and not of time."""
        draws = before[0]
        tree = self.grow(draws, state)
        q, depths, ways = [], [], []
        rest = tree.points.q
        for depth in reversed(range(self.max_depth)):
            # The last doubling is the first or the second half of the path; one not made stands behind it.
            half, made = 2**depth, tree.leaps >= 2**depth
            right = draws.right[depth] | ~made
            new = jnp.where(right, rest[half:], rest[:half][::-1])
            rest = jnp.where(right, rest[:half], rest[half:])
            q.append(new)
            depths.append(jnp.full(half, jnp.where(made, depth + 1, -1)))
            ways.append(jnp.full(half, jnp.where(right, 1, -1)))
        return Seen(*(jnp.concatenate(parts[::-1]) for parts in (q, depths, ways)))

    def grow(self, draws: Draws, state: WalkerState) -> Grown:
        """Double the path, forward or back in time, until it or a half, quarter, … of it turns round."""
        here = Points(
            jnp.zeros_like(draws.p)[None],
            draws.p[None],
            state.gradient[None],
            state.potential[None],
        )
        energy = state.potential + jnp.sum(draws.p**2) / 2
        count, zero = jnp.zeros((), jnp.int32), jnp.zeros((), draws.p.dtype)
        false = jnp.zeros((), bool)
        tree = Grown(here, jnp.ones(1, bool), count, count, zero, false, ~false)
        for depth in range(self.max_depth):
            # The path has 2^depth points: arrays of another size at every doubling, as on paper.
            tree = self._doubled(depth, draws, energy, tree, state)
        return tree

    def _doubled(self, depth: int, draws: Draws, energy: Array, tree: Grown, state: WalkerState) -> Grown:
        def double() -> Grown:
            right = draws.right[depth]
            h = jnp.where(right, self.step_size, -self.step_size).astype(draws.p.dtype)
            old = tree.points
            edge = jax.tree.map(lambda x: jnp.where(right, x[-1], x[0]), old)

            def leap(point: Points, _: None) -> tuple[Points, Points]:
                new = Points(*self.leap(point.q, point.p, point.gradient, h, state))
                return new, new

            _, new = jax.lax.scan(leap, edge, length=2**depth)
            change = new.potential + jnp.sum(new.p**2, axis=1) / 2 - energy
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
            rates = metropolis(jnp.zeros(()), change)[1]
            return Grown(
                joined,
                candidates,
                tree.depth + sound,
                tree.leaps + 2**depth,
                tree.accepted + jnp.sum(rates),
                diverged,
                sound & ~_turned(joined.q[0], joined.p[0], joined.q[-1], joined.p[-1]),
            )

        def stop() -> Grown:
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


def naive_nuts(step_size: Any = AUTOMATIC, scale: Any = "diagonal", *, max_depth: int = 8) -> NaiveNUTS:
    r"""The no-U-turn sampler of Hoffman and Gelman (2014), Algorithm 2: for teaching, and to test `nuts` by.

    A slice u below exp(-H) is drawn; the path doubles, forward or back in time, until a subtree has
    (θ⁺-θ⁻)·p < 0 at one of its ends; of its points within the slice one is chosen uniformly. All points are
    stored: memory grows as 2^`max_depth`, and a path that ends early in a doubling is computed to its end.
    Keeps exp(-U/T) exactly.
    """
    if not isinstance(max_depth, int) or not 1 <= max_depth <= 12:
        raise ValueError(f"max_depth must be a whole number from 1 to 12 here; {max_depth!r} was given.")
    return NaiveNUTS(check_constant(step_size), scale, 0.8, max_depth)
