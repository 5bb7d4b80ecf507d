"""The no-U-turn tree, with memory that grows with the logarithm of the path."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from fokker._core.random import bits, uniforms_at
from fokker._core.state import State, ravel, unravel
from fokker.corrections._correction import DIVERGENT, Outcome, Step, Visited, metropolis_rule
from fokker.corrections._doubling import DoublingPath, Vector, as_state
from fokker.integrators import Point

# Rows of a tree's table: position, momentum and gradient of its left and right end; position and gradient of
# the point chosen from the tree, and from the subtree that is being added; the sums of the momenta of both.
_LEFT_Q, _LEFT_P, _LEFT_G, _RIGHT_Q, _RIGHT_P, _RIGHT_G = range(6)
_CHOSEN_Q, _CHOSEN_G, _NEW_Q, _NEW_G, _TOTAL, _NEW_TOTAL = range(6, 12)
_ROWS = 12


class TreeDraws(NamedTuple):
    """The height of the slice above the start, directions as bits, and a seed for the tree."""

    height: Array
    bits: Array


class Growth(NamedTuple):
    r"""A path that doubles until it turns round.

    A subtree turns when ρ = Σp - (p₁ + p₂)/2, of its momenta and those at its ends, points against one of its
    ends: p₁·ρ ≤ 0 or p₂·ρ ≤ 0. The products with ρ are kept up to date leaf by leaf, so that a leaf costs one
    product of the table with its momentum, not one per subtree that ends at it.

    `table` has the rows above. `marks`: at the first leaf of every subtree that is still open its momentum m
    and the sum s of the new subtree's momenta up to there; `products`: m·Σp and m·s - m·m/2 of each. Of the
    far end e, which does not move: e·Σp over the tree, over the new subtree, and e·e.
    """

    table: Float[Array, "rows d"]
    marks: Float[Array, "2 depth d"]
    products: Float[Array, "2 depth"]
    far: Float[Array, "3"]
    draws: TreeDraws
    energy: Array
    weight: Array
    new_weight: Array
    potential: Array
    new_potential: Array
    accepted: Array
    depth: Array
    leaf: Array
    steps: Array
    is_divergent: Array
    over: Array


class Leaf(NamedTuple):
    """A point at the end of a tree, and whether it is chosen from the subtree that it is added to.

    `weight`: of the subtree with it; `decision`: a number by which tree and subtree are chosen between.
    """

    end: Float[Array, "3 d"]
    potential: Array
    weight: Array
    is_chosen: Array
    decision: Array
    accepted: Array
    is_divergent: Array


class Subtree(NamedTuple):
    """A subtree that grows at one end: its end, the point chosen from it with its gradient, its momenta."""

    end: Float[Array, "3 d"]
    chosen: Float[Array, "2 d"]
    total: Float[Array, " d"]
    marks: Float[Array, "2 depth d"]
    potential: Array
    weight: Array
    decision: Array
    accepted: Array
    size: Array
    is_divergent: Array
    has_turned: Array


class Tree(DoublingPath):
    r"""A path that doubles until it begins to return, and a point chosen from it (Hoffman and Gelman 2014).

    Steps forward or back in time at random, 1, 2, 4, … of them, until the path, or a subtree of it, turns
    round: r·ρ ≤ 0 at one of its ends, with ρ the integral of r over it (Betancourt 2017). Keeps exp(-H/T)
    exactly. Memory grows with `max_depth`, not with the path. For integrators of Hamiltonian dynamics that
    are reversible and keep volume: `Leapfrog`, `GeneralisedLeapfrog`.

    Arguments:

    - `max_depth`: the most doublings, a whole number from 1 to 30: a path has at most 2^`max_depth` points.
    - `variant`: "multinomial" chooses a point in proportion to exp(-H/T), favouring the newer half
      (Betancourt 2017, appendix A.3); "slice" uniformly among those above a random level (the first paper).
    - `slots`: the largest depth, known when compiled, of a `max_depth` that is an array; 0 takes `max_depth`.

    ```python
    dynamics = fk.dynamics.hamiltonian_flow(lambda theta: jnp.sum(theta**2) / 2)
    fk.samplers.recipe(dynamics, 0.1, integrator=fk.integrators.Leapfrog(), correction=fk.corrections.Tree())
    ```
    """

    max_depth: Any = 10
    variant: str = eqx.field(static=True, default="multinomial")
    slots: int = eqx.field(static=True, default=0)

    label: ClassVar = "tree"

    def __post_init__(self) -> None:
        if self.variant not in ("multinomial", "slice"):
            raise ValueError(f"variant is 'multinomial' or 'slice', not {self.variant!r}.")
        if self.slots == 0:
            depth = self.max_depth
            if isinstance(depth, bool) or not isinstance(depth, int | np.integer) or not 1 <= depth <= 30:
                raise ValueError(f"max_depth must be a whole number from 1 to 30; {depth!r} was given.")
            self.slots = int(depth)
        self.max_depth = jnp.asarray(self.max_depth, jnp.int32)

    def with_one_move(self) -> "Tree":
        """A tree of two leaves."""
        return dataclasses.replace(self, max_depth=jnp.ones((), jnp.int32))

    def draw(self, key: Key[Array, ""], step: Step, z: State) -> TreeDraws:
        """The randomness of one tree."""
        dtype = jnp.result_type(*jax.tree.leaves(z))
        drawn = bits(key, (4,))
        height = -jnp.log1p(-(drawn[3] >> 8).astype(dtype) * 2.0**-24)
        return TreeDraws(height.astype(dtype), drawn[:3])

    def start(self, draws: TreeDraws, z: State, point: Point, step: Step) -> Growth:
        """A tree of one leaf."""
        q, p = ravel(z["theta"]), ravel(z["r"])
        g = _gradient_row(point, p)
        zero = jnp.zeros_like(p)
        square = jnp.sum(p**2)
        U = zero[0] if point.potential is None else point.potential
        count, nothing, false = jnp.zeros((), jnp.int32), jnp.zeros((), p.dtype), jnp.zeros((), bool)
        return Growth(
            table=jnp.stack([q, p, g, q, p, g, q, g, q, g, p, zero]),
            marks=jnp.zeros((2, self.slots, p.size), p.dtype),
            products=jnp.zeros((2, self.slots), p.dtype),
            far=jnp.stack([square, nothing, square]),
            draws=draws,
            energy=step.energy(z, point),
            weight=nothing,
            new_weight=jnp.full((), -jnp.inf, p.dtype),
            potential=U,
            new_potential=U,
            accepted=nothing,
            depth=count,
            leaf=count,
            steps=count,
            is_divergent=false,
            over=false,
        )

    def move(self, tree: Growth, step: Step) -> Growth:
        """One step at one end; where it completes a subtree, the tree doubles."""
        table = tree.table
        right = _goes_right(tree.draws, tree.depth)
        end = jnp.where(right, table[_RIGHT_Q : _RIGHT_G + 1], table[_LEFT_Q : _LEFT_G + 1])
        leaf = self._leaf(tree, end, right, tree.steps, tree.new_weight, step)
        (q, p, g), new_weight, divergent = leaf.end, leaf.weight, leaf.is_divergent
        along, marked, square = table @ p, tree.marks @ p, jnp.sum(p**2)
        so_far = along[_NEW_TOTAL] + square
        products, here, turned = self._turned(tree, marked, so_far, square)
        joins = (tree.leaf + 1 == 1 << tree.depth) & ~divergent & ~turned
        takes_subtree = joins & (leaf.decision < jnp.exp(new_weight - tree.weight))

        across = jnp.where(right, along[_LEFT_P], along[_RIGHT_P])
        far_sum, near_sum = tree.far[0] + tree.far[1] + across, along[_TOTAL] + so_far
        returned = (far_sum - (tree.far[2] + across) / 2 <= 0) | (near_sum - (square + across) / 2 <= 0)
        depth = tree.depth + joins
        stays = _goes_right(tree.draws, depth) == right
        unchanged_end = jnp.stack([far_sum, jnp.zeros_like(far_sum), tree.far[2]])
        swapped_end = jnp.stack([near_sum, jnp.zeros_like(near_sum), square])
        current_end = jnp.stack([tree.far[0], tree.far[1] + across, tree.far[2]])
        potential = jnp.where(leaf.is_chosen, leaf.potential, tree.new_potential)
        return Growth(
            table=_updated(table, q, p, g, right, leaf.is_chosen, takes_subtree, joins),
            marks=jnp.where(
                here[None, :, None], jnp.stack([p, table[_NEW_TOTAL] + p])[:, None, :], tree.marks
            ),
            products=products,
            far=jnp.where(joins, jnp.where(stays, unchanged_end, swapped_end), current_end),
            draws=tree.draws,
            energy=tree.energy,
            weight=jnp.where(joins, jnp.logaddexp(tree.weight, new_weight), tree.weight),
            new_weight=jnp.where(joins, -jnp.inf, new_weight),
            potential=jnp.where(takes_subtree, potential, tree.potential),
            new_potential=potential,
            accepted=tree.accepted + leaf.accepted,
            depth=depth,
            leaf=jnp.where(joins, 0, tree.leaf + 1),
            steps=tree.steps + 1,
            is_divergent=divergent,
            over=divergent | turned | (joins & (returned | (depth >= self.max_depth))),
        )

    def _leaf(self, tree: Growth, end: Array, right: Array, number: Array, weight: Array, step: Step) -> Leaf:
        """One step from an end of the tree: leaf `number`, of a subtree with this weight without it."""
        q, p, g = end
        h = jnp.where(right, step.size, -step.size).astype(p.dtype)
        proposal = step.propose(*as_state(q, p, g, step), size=h)
        q, p, g = ravel(proposal.z["theta"]), ravel(proposal.z["r"]), _gradient_row(proposal.point, p)
        U = tree.potential if proposal.point.potential is None else proposal.point.potential
        change = step.energy(proposal.z, proposal.point) - tree.energy
        # An energy of -inf is treated as NaN is: such a point would never be left.
        change = jnp.where(jnp.isfinite(change) & proposal.is_sound, change, jnp.inf)
        own_weight, divergent = self._weighed(change, tree.draws)
        u, v = uniforms_at(tree.draws.bits, number, p.dtype)
        # Within the subtree a leaf is chosen in proportion to its weight; between the tree and the subtree
        # the newer one is favoured (biased progressive sampling).
        weight = jnp.logaddexp(weight, own_weight)
        takes_leaf = u < jnp.exp(own_weight - weight)
        rate = metropolis_rule(u, change)[1]
        return Leaf(jnp.stack([q, p, g]), U, weight, takes_leaf, v, rate, divergent)

    def finish(self, tree: Growth, step: Step) -> Growth:
        """The same by subtrees: what changes where one is complete is not touched at each of its leaves."""

        def doubled(carry: tuple[Growth, Array, Array]) -> tuple[Growth, Array, Array]:
            tree, ends, chosen_and_total = carry
            right = _goes_right(tree.draws, tree.depth).astype(jnp.int32)
            new = self._subtree(tree, jax.lax.dynamic_index_in_dim(ends, right, keepdims=False), right, step)
            joins = ~new.is_divergent & ~new.has_turned
            takes_subtree = joins & (new.decision < jnp.exp(new.weight - tree.weight))
            ends = jax.lax.dynamic_update_index_in_dim(ends, new.end, right, 0)
            total = chosen_and_total[2] + new.total
            chosen = jnp.where(takes_subtree, new.chosen, chosen_and_total[:2])
            depth = tree.depth + joins
            returned = _turns(ends[0, 1], ends[1, 1], total - (ends[0, 1] + ends[1, 1]) / 2)
            tree = tree._replace(
                weight=jnp.where(joins, jnp.logaddexp(tree.weight, new.weight), tree.weight),
                potential=jnp.where(takes_subtree, new.potential, tree.potential),
                accepted=tree.accepted + new.accepted,
                depth=depth,
                steps=tree.steps + new.size,
                is_divergent=new.is_divergent,
                over=~joins | returned | (depth >= self.max_depth),
            )
            return tree, ends, jnp.concatenate([chosen, total[None]])

        table = tree.table
        ends = jnp.stack([table[_LEFT_Q : _LEFT_G + 1], table[_RIGHT_Q : _RIGHT_G + 1]])
        rows = jnp.stack([table[_CHOSEN_Q], table[_CHOSEN_G], table[_TOTAL]])
        grown = jax.lax.while_loop(lambda c: ~c[0].over, doubled, (tree, ends, rows))
        chosen = jax.lax.dynamic_update_slice(table, grown[2][:2], (_CHOSEN_Q, 0))
        return grown[0]._replace(table=chosen)

    def _subtree(self, tree: Growth, end: Array, right: Array, step: Step) -> Subtree:
        """A subtree as large as the tree, or as much of it as there is before it diverges or turns."""

        def is_growing(new: Subtree) -> Array:
            return (new.size < 1 << tree.depth) & ~new.is_divergent & ~new.has_turned

        def grown(new: Subtree) -> Subtree:
            leaf = self._leaf(tree, new.end, right == 1, tree.steps + new.size, new.weight, step)
            p, total = leaf.end[1], new.total + leaf.end[1]
            first, last = _ending(new.size)
            # Where no subtree ends a mark is left.
            mark = jnp.stack([p, total])[:, None]
            here = jax.lax.dynamic_slice_in_dim(new.marks, last, 1, axis=1)
            marks = jax.lax.dynamic_update_slice_in_dim(
                new.marks, jnp.where(first > last, mark, here), last, axis=1
            )

            def look(at: tuple[Array, Array]) -> tuple[Array, Array]:
                m, s = jax.lax.dynamic_index_in_dim(marks, at[0], 1, keepdims=False)
                return at[0] + 1, _turns(m, p, total - s + (m - p) / 2)

            _, turned = jax.lax.while_loop(
                lambda at: (at[0] <= last) & ~at[1], look, (first, jnp.zeros((), bool))
            )
            return Subtree(
                leaf.end,
                jnp.where(leaf.is_chosen, leaf.end[::2], new.chosen),
                total,
                marks,
                jnp.where(leaf.is_chosen, leaf.potential, new.potential),
                leaf.weight,
                leaf.decision,
                new.accepted + leaf.accepted,
                new.size + 1,
                leaf.is_divergent,
                turned,
            )

        nothing, false = jnp.zeros((), end.dtype), jnp.zeros((), bool)
        empty = Subtree(
            end,
            end[::2],
            jnp.zeros_like(end[1]),
            jnp.zeros_like(tree.marks),
            tree.potential,
            jnp.full((), -jnp.inf, end.dtype),
            nothing,
            nothing,
            jnp.zeros((), jnp.int32),
            false,
            false,
        )
        return jax.lax.while_loop(is_growing, grown, empty)

    def _weighed(self, change: Array, draws: TreeDraws) -> tuple[Array, Array]:
        """The log weight of a leaf by its change of energy, and whether it is too high to be trusted."""
        if self.variant == "multinomial":
            return -change, change > DIVERGENT
        excess = change - draws.height
        return jnp.where(excess <= 0, 0.0, -jnp.inf).astype(change.dtype), excess > DIVERGENT

    def _turned(
        self, tree: Growth, marked: Array, so_far: Array, square: Array
    ) -> tuple[Array, Bool[Array, " depth"], Array]:
        """The products after this leaf, where it leaves a mark, and whether a subtree that ends here turned.

        The subtrees that end at leaf n, an odd number, begin at the marks of as many leaves as n has ones at
        its end in binary; an even leaf has its mark where the count of ones of n/2 says.
        """
        n, slots = tree.leaf, jnp.arange(self.slots)
        first, last = _ending(n)
        here = (slots == last) & (first > last)
        along_m, along_s = marked
        totals = tree.products[0] + along_m
        products = jnp.stack([totals, tree.products[1]])
        fresh = jnp.stack([so_far, so_far - square / 2])
        back = totals - along_m / 2 - tree.products[1]
        forth = so_far - square / 2 - along_s + along_m / 2
        ends = (slots >= first) & (slots <= last)
        turned = jnp.any(ends & ((back <= 0) | (forth <= 0)))
        return jnp.where(here[None, :], fresh[:, None], products), here, turned

    def is_done(self, tree: Growth) -> Array:
        """Whether the path has turned, diverged or reached its largest length."""
        return tree.over

    def visited(self, before: Growth, after: Growth, step: Step) -> Visited:
        """The end of the tree that moved."""
        right = _goes_right(before.draws, before.depth)
        q = jnp.where(right, after.table[_RIGHT_Q], after.table[_LEFT_Q])
        theta = unravel(q, step.like["theta"])
        return Visited(jax.tree.map(lambda x: x[None], theta), before.depth + 1, jnp.where(right, 1, -1))

    def end(self, tree: Growth, point: Point, step: Step) -> Outcome:
        """The point chosen from the tree; its momentum is not stored, as the next tree draws a new one."""
        rate = tree.accepted / jnp.maximum(tree.steps, 1)
        z = {"theta": unravel(tree.table[_CHOSEN_Q], step.like["theta"])}
        U = None if point.potential is None else tree.potential
        g = None if point.gradient is None else unravel(tree.table[_CHOSEN_G], point.gradient)
        return Outcome(
            z, Point(U, g), rate, tree.is_divergent, tree.energy, tree.steps, tree_depth=tree.depth
        )


def _gradient_row(point: Point, like: Vector) -> Vector:
    return jnp.zeros_like(like) if point.gradient is None else ravel(point.gradient)


def _ending(leaf: Array) -> tuple[Array, Array]:
    """The first and the last place of the marks of subtrees that end at a leaf: none where first > last."""
    last = jax.lax.population_count(leaf >> 1)
    return last + 1 - jax.lax.population_count((leaf ^ (leaf + 1)) >> 1), last


def _turns(back: Vector, forth: Vector, rho: Vector) -> Array:
    """Whether ρ points against a momentum at one of the ends of a path."""
    return (jnp.sum(back * rho) <= 0) | (jnp.sum(forth * rho) <= 0)


def _goes_right(draws: TreeDraws, depth: Array) -> Array:
    return (draws.bits[2] >> depth.astype(jnp.uint32)) & 1 == 1


def _updated(
    table: Array, q: Vector, p: Vector, g: Vector, right: Array, leaf: Array, subtree: Array, joins: Array
) -> Array:
    """The table after a leaf at (q, p, g): each row is unchanged or replaced."""
    row = jnp.arange(_ROWS)[:, None]
    moving = jnp.where(right, _RIGHT_Q, _LEFT_Q)
    new_q = jnp.where(leaf, q, table[_NEW_Q])
    new_g = jnp.where(leaf, g, table[_NEW_G])
    total = table[_NEW_TOTAL] + p
    out = jnp.where(row == moving, q[None, :], table)
    out = jnp.where(row == moving + 1, p[None, :], out)
    out = jnp.where(row == moving + 2, g[None, :], out)
    out = jnp.where((row == _NEW_Q) | ((row == _CHOSEN_Q) & subtree), new_q[None, :], out)
    out = jnp.where((row == _NEW_G) | ((row == _CHOSEN_G) & subtree), new_g[None, :], out)
    out = jnp.where((row == _TOTAL) & joins, (table[_TOTAL] + total)[None, :], out)
    return jnp.where(row == _NEW_TOTAL, jnp.where(joins, 0.0, total)[None, :], out)
