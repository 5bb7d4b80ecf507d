"""Whether the first draws were made on the way from the start to the mass of the target."""

import math

import numpy as np
from jaxtyping import Float

from fokker._core.statistics import split_r_hat
from fokker.diagnostics._findings import Finding, Grade, care_or_bad

# A chain that starts further from its later draws, in their standard deviations, comes from outside. So many
# normal draws in 10¹⁴ lie as far out; of heavy tails later draws do, too.
_FAR = 8.0
# How much further than all later draws, and where it came nearer at once, as of heavy tails by chance.
_FURTHER, _FURTHER_BY_CHANCE, _AT_ONCE = 1.5, 3.0, 3
# What the first draws may add to a variance, as a share of it, and what makes a result useless.
_ADDED, _ADDED_BAD = 0.05, 0.5
# Fewer draws have no reliable quartiles.
_FEWEST = 20
# With a larger R-hat of the later halves, their standard deviation and centre are not those of the target.
_SETTLED = 1.1
# The standard deviations of a normal between its quartiles.
_QUARTILES = 1.349


def arrival_findings(
    names: list[str], values: Float[np.ndarray, "c n k"], thin: int, burn_in: int
) -> list[Finding]:
    """A problem where first draws from far away make a variance too large.

    A chain is compared with its second half: centre and standard deviation s, by quartiles, and the distance
    of the furthest draw there. A chain whose first draw is clearly further away was on its way until its
    first draw within that distance. The draws before add Σ ((x - centre)/s)²/n to the variance of n draws.
    No number is given where the second halves of the chains disagree: s would be too small. The first draw
    comes after `burn_in` steps, and draws are `thin` steps apart.
    """
    chains, draws, _ = values.shape
    if draws < _FEWEST or not np.isfinite(values).all():
        return []
    later = values[:, draws // 2 :]
    low, centre, high = np.quantile(later, [0.25, 0.5, 0.75], axis=1)[:, :, None]
    deviation = np.where(high > low, (high - low) / _QUARTILES, np.inf)
    distance = np.abs(values - centre) / deviation
    reach = distance[:, draws // 2 :].max(axis=1)
    arrival = np.argmax(distance <= np.maximum(reach, _FAR / 2)[:, None], axis=1)
    further = np.where(arrival < _AT_ONCE, _FURTHER_BY_CHANCE, _FURTHER)
    arrival = np.where(distance[:, 0] > np.maximum(_FAR, further * reach), arrival, 0)
    on_the_way = np.arange(draws)[None, :, None] < arrival[:, None]
    added = np.sum(np.where(on_the_way, distance, 0) ** 2, axis=(0, 1)) / (chains * draws)
    worst = int(np.argmax(added))
    if not added[worst] > _ADDED:
        return []
    what = "the first draws were made on the way to the target"
    late = (arrival > 0).any(axis=0)
    if not np.all(split_r_hat(later[:, :, late]) <= _SETTLED):
        text = f"{what}, and the chains have not settled since: give more burn_in, or starts that are nearer"
        return [Finding(Grade.CARE, text)]
    steps, furthest = int(arrival.max()) * thin, float(distance[:, 0, worst].max())
    needed = burn_in + _round(2 * steps)
    start = f"{names[worst]} began {_round(furthest)} standard deviations away"
    text = (
        f"{what}: {start}, and {steps:,} steps passed before all chains were there, which makes its variance "
        f"{1 + added[worst]:.2g} times as large: give burn_in={needed}, or starts that are nearer"
    )
    return [Finding(care_or_bad(bool(added[worst] > _ADDED_BAD)), text)]


def _round(number: float) -> int:
    """Rounded up to two digits."""
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return int(math.ceil(number / unit) * unit)
