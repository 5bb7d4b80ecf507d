"""The no-U-turn sampler, with memory that grows with the logarithm of the path."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from fokker._core.random import bits, normal, split, uniforms_at
from fokker.corrections import DIVERGENT, metropolis
from fokker.samplers._sampler import AUTOMATIC, Info
from fokker.samplers._trajectory import Seen
from fokker.samplers._walker import Vector, Walker, WalkerState, check_constant

# Rows of a tree's table: position, momentum and gradient of its left and right end; position and gradient of
# the point chosen of the tree, and of the subtree that is being added; the sums of the momenta of both.
_LEFT_Q, _LEFT_P, _LEFT_G, _RIGHT_Q, _RIGHT_P, _RIGHT_G = range(6)
_CHOSEN_Q, _CHOSEN_G, _NEW_Q, _NEW_G, _TOTAL, _NEW_TOTAL = range(6, 12)
_ROWS = 12


class Draws(NamedTuple):
    """A momentum, the height of the slice above the start, directions as bits, and a seed for the tree."""

    p: Vector
    height: Array
    bits: Array


class Tree(NamedTuple):
    r"""A path that doubles until it turns round.

    A subtree turns when ρ = Σp - (p₁ + p₂)/2, of its momenta and those at its ends, points against one of its
    ends: p₁·ρ ≤ 0 or p₂·ρ ≤ 0. The products with ρ are kept up to date leaf by leaf, so that a leaf costs one
    product of the table with its momentum, and not one for each subtree that ends at it.

    `table` has the rows above. `marks`: at the first leaf of every subtree that is still open its momentum m
    and the sum s of the new subtree's momenta up to there; `products`: m·Σp and m·s - m·m/2 of each. Of the
    far end e, that which stands still: e·Σp over the tree, over the new subtree, and e·e.
    """

    table: Float[Array, "rows d"]
    marks: Float[Array, "2 depth d"]
    products: Float[Array, "2 depth"]
    far: Float[Array, "3"]
    draws: Draws
    energy: Array
    weight: Array
    new_weight: Array
    potential: Array
    new_potential: Array
    accepted: Array
    depth: Array
    leaf: Array
    leaps: Array
    divergent: Array
    over: Array


class NUTS(Walker):
    """The no-U-turn sampler; made by `nuts`."""

    max_depth: Array
    slots: int = eqx.field(static=True)
    by_slice: bool = eqx.field(static=True)

    STATS: ClassVar = {
        "acceptance_rate": float,
        "diverging": bool,
        "energy": float,
        "n_steps": int,
        "tree_depth": int,
    }

    def with_one_move(self) -> "NUTS":
        """A tree of two leaves."""
        return dataclasses.replace(self, max_depth=jnp.ones((), jnp.int32))

    def draw(self, key: Key[Array, ""], state: WalkerState) -> Draws:
        """The randomness of one tree."""
        momentum_key, rest = split(key)
        shape, dtype = state.gradient.shape, state.gradient.dtype
        drawn = bits(rest, (4,))
        height = -jnp.log1p(-(drawn[3] >> 8).astype(dtype) * 2.0**-24)
        return Draws(normal(momentum_key, shape, dtype), height.astype(dtype), drawn[:3])

    def begin(self, draws: Draws, state: WalkerState) -> Tree:
        """A tree of one leaf."""
        p, g, zero = draws.p, state.gradient, jnp.zeros_like(draws.p)
        square = jnp.sum(p**2)
        count, nothing, false = jnp.zeros((), jnp.int32), jnp.zeros((), p.dtype), jnp.zeros((), bool)
        return Tree(
            table=jnp.stack([zero, p, g, zero, p, g, zero, g, zero, g, p, zero]),
            marks=jnp.zeros((2, self.slots, p.size), p.dtype),
            products=jnp.zeros((2, self.slots), p.dtype),
            far=jnp.stack([square, nothing, square]),
            draws=draws,
            energy=state.potential + square / 2,
            weight=nothing,
            new_weight=jnp.full((), -jnp.inf, p.dtype),
            potential=state.potential,
            new_potential=state.potential,
            accepted=nothing,
            depth=count,
            leaf=count,
            leaps=count,
            divergent=false,
            over=false,
        )

    def onward(self, tree: Tree, state: WalkerState) -> Tree:
        """One leap at one end; where it completes a subtree, the tree doubles."""
        table = tree.table
        right = _goes_right(tree.draws, tree.depth)
        q, p, g = jnp.where(right, table[_RIGHT_Q : _RIGHT_G + 1], table[_LEFT_Q : _LEFT_G + 1])
        h = jnp.where(right, self.step_size, -self.step_size).astype(p.dtype)
        q, p, g, U = self.leap(q, p, g, h, state)

        along, marked, square = table @ p, tree.marks @ p, jnp.sum(p**2)
        change = U + square / 2 - tree.energy
        # An energy of -inf is no better than one that is not a number: it would never be left again.
        change = jnp.where(jnp.isfinite(change), change, jnp.inf)
        weight, divergent = self._weighed(change, tree.draws)

        u, v = uniforms_at(tree.draws.bits, tree.leaps, p.dtype)
        # Within the subtree a leaf is chosen in proportion to its weight; between the tree and the subtree
        # the farther is favoured (biased progressive sampling).
        new_weight = jnp.logaddexp(tree.new_weight, weight)
        takes_leaf = u < jnp.exp(weight - new_weight)
        so_far = along[_NEW_TOTAL] + square
        products, here, turned = self._turned(tree, marked, so_far, square)
        joins = (tree.leaf + 1 == 1 << tree.depth) & ~divergent & ~turned
        takes_subtree = joins & (v < jnp.exp(new_weight - tree.weight))

        across = jnp.where(right, along[_LEFT_P], along[_RIGHT_P])
        whole, mine = tree.far[0] + tree.far[1] + across, along[_TOTAL] + so_far
        returned = (whole - (tree.far[2] + across) / 2 <= 0) | (mine - (square + across) / 2 <= 0)
        depth = tree.depth + joins
        stays = _goes_right(tree.draws, depth) == right
        kept = jnp.stack([whole, jnp.zeros_like(whole), tree.far[2]])
        swapped = jnp.stack([mine, jnp.zeros_like(mine), square])
        going = jnp.stack([tree.far[0], tree.far[1] + across, tree.far[2]])
        potential = jnp.where(takes_leaf, U, tree.new_potential)
        return Tree(
            table=_updated(table, q, p, g, right, takes_leaf, takes_subtree, joins),
            marks=jnp.where(
                here[None, :, None], jnp.stack([p, table[_NEW_TOTAL] + p])[:, None, :], tree.marks
            ),
            products=products,
            far=jnp.where(joins, jnp.where(stays, kept, swapped), going),
            draws=tree.draws,
            energy=tree.energy,
            weight=jnp.where(joins, jnp.logaddexp(tree.weight, new_weight), tree.weight),
            new_weight=jnp.where(joins, -jnp.inf, new_weight),
            potential=jnp.where(takes_subtree, potential, tree.potential),
            new_potential=potential,
            accepted=tree.accepted + metropolis(u, change)[1],
            depth=depth,
            leaf=jnp.where(joins, 0, tree.leaf + 1),
            leaps=tree.leaps + 1,
            divergent=divergent,
            over=divergent | turned | (joins & (returned | (depth >= self.max_depth))),
        )

    def _weighed(self, change: Array, draws: Draws) -> tuple[Array, Array]:
        """The log weight of a leaf by its change of energy, and whether it is too high to be trusted."""
        if not self.by_slice:
            return -change, change > DIVERGENT
        excess = change - draws.height
        return jnp.where(excess <= 0, 0.0, -jnp.inf).astype(change.dtype), excess > DIVERGENT

    def _turned(
        self, tree: Tree, marked: Array, so_far: Array, square: Array
    ) -> tuple[Array, Bool[Array, " depth"], Array]:
        """The products after this leaf, where it leaves a mark, and whether a subtree that ends here turned.

        The subtrees that end at leaf n, an odd number, begin at the marks of as many leaves as n has ones at
        its end in binary; an even leaf has its mark where the count of ones of n/2 says.
        """
        n, slots = tree.leaf, jnp.arange(self.slots)
        last = jax.lax.population_count(n >> 1)
        odd = n & 1 == 1
        here = (slots == last) & ~odd
        along_m, along_s = marked
        totals = tree.products[0] + along_m
        products = jnp.stack([totals, tree.products[1]])
        fresh = jnp.stack([so_far, so_far - square / 2])
        back = totals - along_m / 2 - tree.products[1]
        forth = so_far - square / 2 - along_s + along_m / 2
        count = jax.lax.population_count((n ^ (n + 1)) >> 1)
        ends = odd & (slots > last - count) & (slots <= last)
        turned = jnp.any(ends & ((back <= 0) | (forth <= 0)))
        return jnp.where(here[None, :], fresh[:, None], products), here, turned

    def arrived(self, tree: Tree) -> Array:
        """Whether the path has turned, diverged or become as long as it may."""
        return tree.over

    def visited(self, before: Tree, after: Tree, state: WalkerState) -> Seen:
        """The end of the tree that moved."""
        right = _goes_right(before.draws, before.depth)
        q = jnp.where(right, after.table[_RIGHT_Q], after.table[_LEFT_Q])
        return Seen(q[None], before.depth + 1, jnp.where(right, 1, -1))

    def finish(self, tree: Tree, state: WalkerState) -> tuple[WalkerState, Info]:
        """The point chosen of the tree."""
        rate = tree.accepted / jnp.maximum(tree.leaps, 1)
        stats = (rate, tree.divergent, tree.energy, tree.leaps, tree.depth)
        q, g = tree.table[_CHOSEN_Q], tree.table[_CHOSEN_G]
        return self.moved(state, q, tree.potential, g, state.momentum, *stats)


def _goes_right(draws: Draws, depth: Array) -> Array:
    return (draws.bits[2] >> depth.astype(jnp.uint32)) & 1 == 1


def _updated(
    table: Array, q: Vector, p: Vector, g: Vector, right: Array, leaf: Array, subtree: Array, joins: Array
) -> Array:
    """The table after a leaf at (q, p, g): each row as it was, or one of a few others."""
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


def nuts(
    step_size: Any = AUTOMATIC,
    scale: Any = "diagonal",
    *,
    acceptance: float = 0.8,
    max_depth: int = 10,
    variant: str = "multinomial",
) -> NUTS:
    r"""The no-U-turn sampler: HMC whose path doubles until it begins to come back (Hoffman and Gelman 2014).

        H = U/T + pᵀp/2 in coordinates θ = θ₀ + S q: the mass matrix is (SSᵀ)⁻¹

    Leapfrog steps forward or back in time at random, 1, 2, 4, … of them, until the path, or a subtree of it,
    turns round: p·ρ ≤ 0 at one of its ends, with ρ the integral of p over it (Betancourt 2017).
    `variant` "multinomial" chooses a point of it in proportion to exp(-H), favouring the newer half (there,
    appendix A.3); "slice" chooses uniformly of those above a random level, as in the first paper. Keeps
    exp(-U/T) exactly. Memory grows with `max_depth`, not with the path.

    Warm-up finds the step size, for a mean `acceptance`, and the scale S: "diagonal", "dense", "low-rank" or
    "identity". With a `step_size` given there is no warm-up; `scale` may then be standard deviations or a
    covariance matrix.

    ```python
    trace = fk.sample(target, fk.samplers.nuts(), init=jnp.zeros(10), steps=1000, chains=4)
    ```
    """
    if variant not in ("multinomial", "slice"):
        raise ValueError(f"variant is 'multinomial' or 'slice', not {variant!r}.")
    if not isinstance(max_depth, int | np.integer) or not 1 <= max_depth <= 30:
        raise ValueError(f"max_depth must be a whole number from 1 to 30; {max_depth!r} was given.")
    depth = jnp.asarray(max_depth, jnp.int32)
    step = check_constant(step_size)
    return NUTS(step, scale, acceptance, depth, int(max_depth), variant == "slice")
