r"""Whether chains agree as far as chance allows: split R-hat, or nested R-hat of many short chains.

Halves of m chains, n draws each, of a stationary process of variance σ² whose half-means have the variance
v = σ²/s, s being the effective draws of a half. The variance within a half has the mean (σ² - v)n/(n-1), as
its draws share the deviation of their mean, and that of the 2m means is v χ²_{2m-1}/(2m-1), so that

    R̂² = (n-1)/n + Var(means)/W ≈ (1 - 1/n) (1 + χ²_{2m-1}/((2m-1)(s - 1))).

Independent draws have s = n and R̂ ≈ 1; where draws are autocorrelated R̂ is above 1 however many chains there
are. s is measured within the second halves, each around its own mean: where it came from all chains together,
chains that disagree would raise the bound that they are judged by, and so would a trend at their starts.

Halves of a few effective draws, as of a thousand chains of twenty draws, have a large R-hat whether the draws
are right or not, and s cannot be measured in them. They are judged by nested R-hat (Margossian et al. 2024):
chains are put together into superchains, and the means of superchains are compared. Superchains of arbitrary
chains would agree even if no chain ever moved. Here a superchain has the chains whose first thirds are
nearest to each other, and the last thirds are compared: they differ if chains remember where they were. All
first thirds and all last thirds are compared likewise, which shows a common trend. Both bounds by chance are
those of an analysis of variance of the means of chains, which are independent: no autocorrelation is needed.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import fdtri, ndtri

from fokker._core.statistics import effective_sample_size

# Share of converged runs in which the R-hat of some series exceeds the bound that allows for chance.
_FALSE_ALARMS = 0.01
# An R-hat up to this value raises no alarm (Vehtari et al. 2021).
R_HAT = 1.01
# A run of fewer effective draws is bad whatever its R-hat: the bound is not raised further by fewer.
_FEWEST, _FEWEST_PER_HALF = 100, 5
# With fewer effective draws in a half, their number is not known well enough to judge many chains by it.
_SHORT = 20
# So many chains make four superchains.
MANY, _SUPERCHAINS = 24, 4
# Between the superchains, a fifth of the start may be remembered over a third of the chain: a trend of the
# chains, which is looked for too, is then far larger than the bias that is left. Beyond the second value more
# than half of it is.
_MEMORY, _MEMORY_BAD = 1.05, 1.2
# How far R-hat may be above what raises no alarm before the result is bad.
_MARGIN = 0.04
# A bound by chance above this value decides nothing.
_UNDECIDED = 1.1


class Agreement(NamedTuple):
    """R-hat of each series, the largest that raises no alarm, and that beyond which the result is bad.

    `is_nested`: whether it is that of superchains, and `is_trend`, that of their first and last thirds.
    """

    r_hat: Float[np.ndarray, " k"]
    allowed: Float[np.ndarray, " k"]
    bad: Float[np.ndarray, " k"]
    is_nested: np.ndarray
    is_trend: np.ndarray

    @property
    def excess(self) -> Float[np.ndarray, " k"]:
        """How far each R-hat is above what raises no alarm; infinite where there is none."""
        return np.where(np.isnan(self.r_hat), np.inf, self.r_hat - self.allowed)

    @property
    def is_undecided(self) -> np.ndarray:
        """Whether chains are too few or too short to see that they disagree."""
        return self.is_nested & (self.allowed > _UNDECIDED) & (self.excess <= 0)


def agreement(values: Float[np.ndarray, "c n k"], r_hat: Float[np.ndarray, " k"]) -> Agreement:
    """Judge at least two chains of finite draws; `r_hat` is split R-hat of each series (ArviZ)."""
    chains, draws, number = values.shape
    # R-hat is that of the ranks and that of the folded ranks, whichever is larger, and so are the bounds.
    kinds = [_normal_scores(x) for x in (values, np.abs(values - np.median(values, axis=(0, 1))))]
    per_half = np.minimum(*(effective_per_half(z) for z in kinds))
    allowed = np.maximum(R_HAT, chance_r_hat(2 * chains, per_half, draws // 2, number))
    is_nested = (per_half < _SHORT) & (chains >= MANY) & ~np.isnan(r_hat)
    result = Agreement(r_hat.copy(), allowed, allowed + _MARGIN, is_nested, np.zeros(number, bool))
    if is_nested.any():
        by_ranks, by_folded = (_nested(z[:, :, is_nested], number) for z in kinds)
        is_folded = by_folded.excess > by_ranks.excess
        for whole, a, b in zip(result, by_ranks, by_folded, strict=True):
            whole[is_nested] = np.where(is_folded, b, a)
    return result


def chance_r_hat(halves: int, per_half: np.ndarray, draws: int, number: int) -> np.ndarray:
    r"""A bound on R-hat that one in a hundred converged runs exceeds in any of `number` series.

    `halves`: the sequences that are compared, of `draws` draws each, of which `per_half` are effective.
    """
    freedom = halves - 1
    fewest = max(_FEWEST / halves, _FEWEST_PER_HALF)
    per_half = np.clip(np.nan_to_num(per_half, nan=fewest), fewest, draws)
    # s is a sum of about (log s)/2 autocorrelation times of lags in m halves: its error is that of a variance
    # estimated with m s/log s degrees of freedom, and F takes the place of χ²/(2m-1).
    of_s = halves / 2 * per_half / np.maximum(1, np.log(per_half))
    # R-hat is the maximum of two, of the ranks and of the folded ranks.
    ratio = fdtri(freedom, of_s, 1 - _FALSE_ALARMS / (2 * number))
    return np.sqrt((1 - 1 / draws) * (1 + ratio / (per_half - 1)))


def effective_per_half(values: Float[np.ndarray, "c n k"]) -> Float[np.ndarray, " k"]:
    """Effective draws of half a chain, by the autocorrelation around the mean of each second half (ArviZ)."""
    chains, draws, number = values.shape
    half = draws // 2
    last = values[:, draws - half :]
    last = last - last.mean(axis=1, keepdims=True)
    # ArviZ splits chains: each is put before another, and so is counted twice.
    centred = np.concatenate([last, np.roll(last, 1, axis=0)], axis=1)
    usable = np.ptp(centred, axis=(0, 1)) > 0
    effective = np.full(number, np.nan)
    if half >= 4 and usable.any():
        effective[usable] = effective_sample_size(centred[:, :, usable], method="mean") / (2 * chains)
    # Around a mean of s effective draws autocorrelations look smaller by 1/s. Summed up to the lag at which
    # that hides them, (log s)/2 autocorrelation times, this makes s too large by about log s (and 1).
    effective = np.minimum(effective, half)
    excess = np.log(np.maximum(effective, 1)) + 1
    return effective - excess * (1 - effective / half)  # independent draws have no such lags


def _normal_scores(values: np.ndarray) -> np.ndarray:
    """Each series by its ranks among all draws, as normal quantiles (Vehtari et al. 2021)."""
    chains, draws, number = values.shape
    from scipy.stats import rankdata  # takes half a second to import

    ranks = rankdata(values.reshape(-1, number), axis=0)
    return ndtri((ranks - 0.375) / (chains * draws + 0.25)).reshape(values.shape)


def _nested(z: Float[np.ndarray, "c n k"], number: int) -> Agreement:
    """Nested R-hat of superchains that were near each other, and of first and last thirds."""
    chains, draws, series = z.shape
    third, size = draws // 3, chains // _SUPERCHAINS
    first, last = z[:, :third].mean(axis=1), z[:, -third:].mean(axis=1)
    order = np.argsort(first, axis=0, kind="stable")[: size * _SUPERCHAINS]
    superchains = np.take_along_axis(last, order, axis=0).reshape(_SUPERCHAINS, size, series)
    # The variance of the draws of a superchain: between its chains, and within them.
    between_chains = superchains.var(axis=1, ddof=1).mean(axis=0)
    total = between_chains + z[:, -third:].var(axis=1).mean(axis=0)
    total = np.where(total > 0, total, 1.0)
    memory = superchains.mean(axis=1).var(axis=0, ddof=1) / total
    # Four comparisons: memory and trend, of the ranks and of the folded ranks.
    false_alarms = _FALSE_ALARMS / (4 * number)
    by_memory = fdtri(_SUPERCHAINS - 1, _SUPERCHAINS * (size - 1), 1 - false_alarms)
    by_memory = by_memory * between_chains / size / total
    change = last - first
    shift = change.mean(axis=0) ** 2 / 2 / total
    by_shift = fdtri(1, chains - 1, 1 - false_alarms) * change.var(axis=0, ddof=1) / chains / 2 / total
    allowed = np.maximum(_MEMORY, np.sqrt(1 + by_memory))
    of_memory = Agreement(
        np.sqrt(1 + memory),
        allowed,
        np.maximum(_MEMORY_BAD, allowed),
        np.ones(series, bool),
        np.zeros(series, bool),
    )
    allowed = np.maximum(R_HAT, np.sqrt(1 + by_shift))
    of_trend = Agreement(
        np.sqrt(1 + shift), allowed, allowed + _MARGIN, np.ones(series, bool), np.ones(series, bool)
    )
    is_trend = of_trend.excess > np.maximum(of_memory.excess, 0)
    return Agreement(*(np.where(is_trend, a, b) for a, b in zip(of_trend, of_memory, strict=True)))
