"""The configurational temperature: whether the spread of draws is that of the target."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from fokker._core.statistics import effective_sample_size, pareto_k

# Share of correct runs that raise an alarm, over all directions and the pooled statistic together.
FALSE_ALARMS = 0.01
# A smaller bias of the variance raises no alarm, however significant.
TOLERATED = 0.05
# With this many chains, the spread of their means gives a standard error.
_MANY_CHAINS = 8
# With fewer effective products the standard error is unreliable.
_FEWEST = 50
# With this tail index the variance is infinite, and a standard error is meaningless (Vehtari et al. 2024).
_NO_VARIANCE = 0.5
# In higher dimensions, computing principal directions takes too long.
_LARGEST = 2000
# A larger typical product means that the draws are far from the mass of the target.
_ASTRAY = 10.0
# The probability of detecting a bias of the size reported as detectable.
_POWER = 0.9


@dataclass(frozen=True)
class Spread:
    """The variance of draws over that of the target, minus 1, along directions; computed by `spread_of`.

    The first directions are the coordinates, the next the principal directions of the draws, and the last, if
    there are any, averages over groups of coordinates. Each has a name, a `bias`, its standard `error` and
    its `score`, standard normal for correct draws; so has the average over all coordinates (`pooled`).
    `typical` is the median over draws of the average of
    (θ_i - c_i) ∂_iU/T, near 1 in the mass of the target. `judged` is False for directions with too few
    effective products or with products of infinite variance.
    """

    names: list[str]
    bias: Float[np.ndarray, " k"]
    error: Float[np.ndarray, " k"]
    score: Float[np.ndarray, " k"]
    judged: np.ndarray
    pooled_bias: float
    pooled_error: float
    pooled_score: float
    typical: float

    @property
    def astray(self) -> bool:
        """Whether a typical draw is far from the mass of the target."""
        return self.typical > _ASTRAY

    def thresholds(self, false_alarms: float = FALSE_ALARMS) -> tuple[float, float]:
        """Scores of one direction and of the average that correct draws rarely exceed."""
        number = max(1, int(self.judged.sum()))
        if number == 1:  # one direction is the average
            return (float(-ndtri(false_alarms / 2)),) * 2
        return float(-ndtri(false_alarms / 4 / number)), float(-ndtri(false_alarms / 4))

    @property
    def detectable(self) -> tuple[float, float]:
        """Biases that nine of ten runs like this would detect: of one direction (the worst case), of all."""
        one, all_ = self.thresholds()
        power = float(ndtri(_POWER))
        worst = float(np.max(self.error[self.judged], initial=0.0)) if self.judged.any() else math.inf
        return max(TOLERATED, (one + power) * worst), max(TOLERATED, (all_ + power) * self.pooled_error)

    def furthest(self, false_alarms: float = FALSE_ALARMS) -> tuple[str, float, float] | None:
        """The name of what is most wrong, its bias and standard error; None if nothing is significant."""
        one, all_ = self.thresholds(false_alarms)
        significant = self.judged & (np.abs(self.score) > one) & (np.abs(self.bias) > TOLERATED)
        if significant.any():
            worst = int(np.argmax(np.where(significant, np.abs(self.score), 0)))
            return self.names[worst], float(self.bias[worst]), float(self.error[worst])
        if abs(self.pooled_score) > all_ and abs(self.pooled_bias) > TOLERATED:
            return "all coordinates together", self.pooled_bias, self.pooled_error
        return None


def configurational_temperature(draws: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""E[(θ_i - Eθ_i) ∂U/∂θ_i] of each coordinate, and standard errors; T for draws from exp(-U/T).

    By the virial theorem, for a target without walls. It is for theta what the kinetic temperature is for the
    momentum. `draws` and `gradients`, ∇U at the draws, are m × d, and the draws must be independent;
    `spread_of` is for chains. Too large a step, or uncorrected minibatch noise, gives too high a value.
    """
    each = (draws - draws.mean(axis=0)) * gradients
    m = len(each)
    # The mean is from the same draws, which costs one degree of freedom.
    return each.sum(axis=0) / (m - 1), each.std(axis=0, ddof=1) / np.sqrt(m)


def spread_of(
    draws: Float[np.ndarray, "c n d"],
    gradients: Float[np.ndarray, "c n d"],
    groups: "Groups | None" = None,
) -> Spread:
    r"""The spread of the chains' draws relative to exp(-U/T), from ∇U/T at the draws.

    For every fixed direction v and centre c, E[v·(θ - c) v·∇U/T] = |v|² for a target without walls (Stein).
    For a normal target and an eigenvector v, it is the variance of the draws over that of the target, with
    relative standard error √(2/n) for n effective draws. Centre, scales and principal directions for one half
    of the chains come from the other half: if they came from the same draws, the widest of d directions would
    look too wide by about 2√(d/n). Standard errors use the effective number of products (ArviZ). The scores
    are corrected for the skewness of the products (Hall 1992), which is that of χ²₁.

    With `groups`, the draws and gradients are those along a few orthonormal directions of a theta of many
    coordinates, whose averages over groups of coordinates are given.
    """
    averages = None if groups is None else groups.products
    if len(draws) == 1:  # split the chain into two halves
        half = draws.shape[1] // 2
        draws, gradients = (x[0, : 2 * half].reshape(2, half, -1) for x in (draws, gradients))
        averages = None if averages is None else averages[0, : 2 * half].reshape(2, half, -1)
    # In this order, as the halves are put together.
    order = np.concatenate([np.arange(len(draws))[to::2] for to in (0, 1)])
    products = np.concatenate(
        [
            _products(draws[to::2], gradients[to::2], draws[1 - to :: 2].reshape(-1, draws.shape[2]))
            for to in (0, 1)
        ]
    )
    d = draws.shape[2]
    names = [f"coordinate {i}" if groups is None else f"random direction {i + 1}" for i in range(d)]
    names += [f"principal direction {i + 1} of {d}" for i in range(products.shape[2] - d)]
    if groups is None:
        average = products[:, :, :d].mean(axis=2, keepdims=True)
    else:
        assert averages is not None
        average = np.average(averages[order], axis=2, weights=groups.sizes)[:, :, None]
        if len(groups.names) > 1:
            products = np.concatenate([products, averages[order]], axis=2)
            names += [f"{name} on average" for name in groups.names]
    bias, error, score, judged = _scores(products)
    pooled_bias, pooled_error, pooled_score, _ = (float(x[0]) for x in _scores(average))
    typical = float(np.median(average))
    return Spread(names, bias, error, score, judged, pooled_bias, pooled_error, pooled_score, typical)


class Groups(NamedTuple):
    """Averages of (θ_i - c_i) ∂_iU/T over groups of coordinates, chain × draw × group, and their sizes.

    The centre c for one half of the chains must come from the other half, as in `spread_of`.
    """

    names: list[str]
    sizes: np.ndarray
    products: Float[np.ndarray, "c n g"]


def _products(draws: np.ndarray, gradients: np.ndarray, others: np.ndarray) -> np.ndarray:
    """v·(θ - c) v·∇U/T along the coordinates and the principal directions of the other draws."""
    d = draws.shape[2]
    deviation = others.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    # The gradient needs no centring: its mean is zero, and an estimated centre would not be fixed.
    x, g = (draws - others.mean(axis=0)) / deviation, gradients * deviation
    if not 1 < d <= _LARGEST:
        return x * g
    correlation = np.cov((others / deviation).T)
    directions = np.linalg.eigh(correlation)[1][:, ::-1]
    return np.concatenate([x * g, (x @ directions) * (g @ directions)], axis=2)


def _scores(products: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For each direction: the mean product minus 1, its standard error, its score, whether it is judged."""
    number = products.shape[0] * products.shape[1]
    effective = np.minimum(effective_draws(products), number)
    flat = products.reshape(number, -1)
    bias, deviation = flat.mean(axis=0) - 1, flat.std(axis=0, ddof=1)
    deviation = np.where(deviation > 0, deviation, 1e-30)
    error = deviation / np.sqrt(np.maximum(effective, 1))
    if products.shape[0] >= _MANY_CHAINS:
        # Chains are independent, and short chains underestimate their autocorrelation.
        between = products.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(products.shape[0])
        error = np.maximum(error, between)
        effective = np.maximum((deviation / error) ** 2, 1)
    skewness = np.mean(((flat - flat.mean(axis=0)) / deviation) ** 3, axis=0) / np.sqrt(effective)
    t = bias / error
    # Hall's transformation: normal up to order 1/n, and increasing in t.
    score = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    judged = (effective >= _FEWEST) & np.isfinite(score)
    for k in np.flatnonzero(judged & (np.abs(t) > 2)):  # the others raise no alarm
        judged[k] = pareto_k(np.abs(flat[:, k])) < _NO_VARIANCE
    return bias, error, np.where(judged, score, 0.0), judged


def effective_draws(values: Float[np.ndarray, "c n k"]) -> Float[np.ndarray, " k"]:
    """The effective number of draws for the mean of each series (ArviZ)."""
    if values.shape[1] < 4:  # too few draws for an autocorrelation; chains are independent
        return np.full(values.shape[2], float(values.shape[0]))
    return effective_sample_size(values, method="mean")
