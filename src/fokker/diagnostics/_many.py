"""Judging a theta of too many scalars to look at each in full: along directions, and by its leaves."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fokker._core.draws import batches_of_draws, draws_per_batch, shape_of_draws
from fokker.diagnostics._agreement import MANY, chance_r_hat
from fokker.diagnostics._findings import Finding, Grade
from fokker.diagnostics._gradients import Gradients, affordable_rows, thinned_places
from fokker.diagnostics._projections import (
    DIRECTIONS,
    LeafMoments,
    Projections,
    shift_of_one_chain,
    visible_fraction,
)
from fokker.diagnostics._quantities import Quantities
from fokker.diagnostics.configurational import Groups

# Draws at which ∇U is computed.
_POINTS = 500
# R-hat by means up to this value raises no alarm for a single parameter.
_R_HAT = 1.05
# With fewer effective draws in half a chain, its mean says nothing about a single parameter.
_SHORT = 10
# The probability of detecting what is reported as detectable.
_POWER = 0.9


def directions(projections: Projections) -> Quantities:
    """The draws along the directions over all scalars, and then along those of each leaf."""
    names = [f"random direction {i + 1}" for i in range(DIRECTIONS)]
    leaves = [Quantities(leaf.names, leaf.series) for leaf in projections.leaves]
    return Quantities(names, projections.series).joined(*leaves)


def unusable_scalars(leaves: list[LeafMoments], fixed: Mapping[str, np.ndarray]) -> list[Finding]:
    """Scalars that are not finite or never moved: there is no point in judging anything else.

    `fixed`: where leaves, by name, have entries that are constant by construction.
    """
    for leaf in leaves:
        if not leaf.is_finite.all():
            name = leaf.scalar(int(np.argmin(leaf.is_finite)))
            text = f"{name} has draws that are not finite: the chain diverged; take smaller steps"
            return [Finding(Grade.BAD, text)]
    still = [leaf.never_moved & ~fixed.get(leaf.name, np.zeros(leaf.shape, bool)).ravel() for leaf in leaves]
    number = sum(int(of_leaf.sum()) for of_leaf in still)
    for leaf, of_leaf in zip(leaves, still, strict=True):
        if of_leaf.any():
            return [
                Finding(
                    Grade.BAD,
                    f"{leaf.scalar(int(np.argmax(of_leaf)))} never moved in any chain, and in all "
                    f"{number:,} of {_size(leaves):,} parameters did not: every proposal was rejected, or "
                    "the step is below the floating-point precision; choose another step size, or start "
                    "elsewhere",
                )
            ]
    return []


def _size(leaves: list[LeafMoments]) -> int:
    return sum(leaf.size for leaf in leaves)


def allowed_r_hat(sequences: int, effective: float, draws: int, number: int) -> float:
    """R-hat by means that hardly any of `number` scalars of converged chains exceeds.

    `sequences` of `draws` draws each, whole chains or halves of them, have `effective` draws together.
    """
    per_sequence = np.array([effective / sequences])
    if sequences >= 2 * MANY and 0 < per_sequence[0] < _SHORT:
        return math.inf  # means of so few draws differ whether the chains agree or not
    return max(_R_HAT, float(chance_r_hat(sequences, per_sequence, draws, number)[0]))


def disagreeing_scalars(leaves: list[LeafMoments], allowed: float) -> list[Finding]:
    """Scalars whose chains have different means, which directions over many scalars may not show."""
    worst = max(leaves, key=lambda leaf: np.nanmax(leaf.r_hat, initial=0.0))
    highest = float(np.nanmax(worst.r_hat, initial=0.0))
    if highest <= allowed:
        return []
    number = sum(int((leaf.r_hat > allowed).sum()) for leaf in leaves)
    name = worst.scalar(int(np.nanargmax(worst.r_hat)))
    return [
        Finding(
            Grade.BAD,
            f"R-hat of {name}, by the means of its chains, is {highest:.3g}; it is above {allowed:.3g} in "
            f"{number:,} of {_size(leaves):,} parameters: their chains have not mixed, or have settled in "
            "different regions; run longer, or start the chains elsewhere (init)",
        )
    ]


def limits(projections: Projections, r_hat: float, allowed: float) -> str:
    """What was looked at, and what may be missed."""
    chains, size = projections.series.shape[0], projections.size
    text = (
        f"theta has {size:,} parameters. R-hat, effective draws and spread were checked along {DIRECTIONS} "
        "random directions over all of them and a few within each leaf, not for each parameter: one that "
        "mixes slowly or has a wrong spread may be missed"
    )
    if chains < 2:
        return text
    share = visible_fraction(chains, r_hat, _POWER)
    text += (
        ". If the parameters are independent, nine of ten such runs show a chain that is off by one standard "
        f"deviation in {100 * share:.2g} % of them"
    )
    if math.isinf(allowed):
        return f"{text}. The chains are too short to compare their means for each parameter"
    shift = math.sqrt((allowed**2 - 1) / shift_of_one_chain(chains))
    return (
        f"{text}. The means of the chains were compared for each parameter, which shows a chain that is off "
        f"by {shift:.2g} standard deviations in a single one"
    )


def gradients_along(
    projections: Projections, positions: PyTree[Any], target: Any, temperature: float
) -> tuple[np.ndarray, np.ndarray, Groups]:
    """Draws and ∇U/T along the directions, chain × place × direction, and averages over each leaf."""
    chains, draws = shape_of_draws(positions)
    places = thinned_places(draws, chains, _POINTS)
    total, leaves = chains * len(places), projections.leaves
    rows = affordable_rows(target, 2 * total, projections.size)
    like, structure = jax.tree.flatten(positions)
    centre = jax.tree.unflatten(
        structure,
        [jnp.asarray(leaf.mean.reshape(x.shape[2:]), x.dtype) for leaf, x in zip(leaves, like, strict=True)],
    )
    estimate = Gradients.around(target, centre, rows)
    batch = min(draws_per_batch(positions), total)
    keys = jax.random.split(jax.random.key(0), total + batch)
    along, products = np.empty((total, DIRECTIONS)), np.empty((total, len(leaves)))
    # The centre for one half of the chains, or of the only one, comes from the other.
    chain, place = np.divmod(np.arange(total), len(places))
    group = chain % 2 if chains > 1 else (place >= len(places) // 2).astype(int)
    for span, rows_of_theta in batches_of_draws(positions, batch, places):
        gradients = estimate.at(rows_of_theta, keys[span.start : span.start + batch])
        number = span.stop - span.start
        x, g = (
            [np.asarray(leaf)[:number].reshape(number, -1) for leaf in jax.tree.leaves(tree)]
            for tree in (rows_of_theta, gradients)
        )
        along[span] = projections.along(g)
        for i, leaf in enumerate(leaves):
            for half in (0, 1):
                mine = group[span] == half
                products_of_half = (x[i][mine] - projections.centres(leaf, half, chains)) * g[i][mine]
                products[np.arange(total)[span][mine], i] = products_of_half.mean(axis=1, dtype=float)
    shape = (chains, len(places), -1)
    groups = Groups(
        [leaf.name for leaf in leaves],
        np.array([leaf.size for leaf in leaves]),
        products.reshape(shape) / temperature,
    )
    return projections.series[:, places], along.reshape(shape) / temperature, groups
