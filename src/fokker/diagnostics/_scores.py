"""Means of autocorrelated series that should have known values: bias, standard error and score of each."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from fokker._core.statistics import effective_sample_size, pareto_k

# With this many chains, the spread of their means gives a standard error.
_MANY_CHAINS = 8
# With fewer effective draws of a series the standard error is unreliable.
_FEWEST = 50
# With this tail index the variance is infinite, and a standard error is meaningless (Vehtari et al. 2024).
_NO_VARIANCE = 0.5
# Share of correct runs that raise an alarm, over all series together.
FALSE_ALARMS = 0.01
# A smaller deviation raises no alarm, however significant.
TOLERATED = 0.1
# The probability of detecting a bias of the size reported as detectable.
_POWER = 0.9


class Scores(NamedTuple):
    """Of each series: its mean minus what it should be, the standard error, and the score.

    A score is standard normal for correct draws. `judged` is False for series of too few effective draws or
    of infinite variance, whose score is 0.
    """

    bias: Float[np.ndarray, " k"]
    error: Float[np.ndarray, " k"]
    score: Float[np.ndarray, " k"]
    judged: np.ndarray


def scores(series: Float[np.ndarray, "c n k"], expected: float) -> Scores:
    """Scores corrected for skewness (Hall 1992), with effective numbers of draws by ArviZ."""
    number = series.shape[0] * series.shape[1]
    if not series.shape[2]:
        none = np.zeros(0)
        return Scores(none, none, none, np.zeros(0, bool))
    effective = np.minimum(effective_draws(series), number)
    flat = series.reshape(number, -1)
    bias, deviation = flat.mean(axis=0) - expected, flat.std(axis=0, ddof=1)
    deviation = np.where(deviation > 0, deviation, 1e-30)
    error = deviation / np.sqrt(np.maximum(effective, 1))
    if series.shape[0] >= _MANY_CHAINS:
        # Chains are independent, and short chains underestimate their autocorrelation.
        between = series.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(series.shape[0])
        error = np.maximum(error, between)
        effective = np.maximum((deviation / error) ** 2, 1)
    skewness = np.mean(((flat - flat.mean(axis=0)) / deviation) ** 3, axis=0) / np.sqrt(effective)
    t = bias / error
    # Hall's transformation: normal up to order 1/n, and increasing in t.
    score = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    judged = (effective >= _FEWEST) & np.isfinite(score)
    for k in np.flatnonzero(judged & (np.abs(t) > 2)):  # the others raise no alarm
        judged[k] = pareto_k(np.abs(flat[:, k])) < _NO_VARIANCE
    return Scores(bias, error, np.where(judged, score, 0.0), judged)


def threshold(false_alarms: float, number: int) -> float:
    """The score that the largest of `number` scores exceeds in this share of correct runs."""
    return float(-ndtri(false_alarms / 2 / max(1, number)))


def power() -> float:
    """How far beyond the threshold a score must be on average to be detected in nine of ten runs."""
    return float(ndtri(_POWER))


def most_significant(
    score: np.ndarray, bias: np.ndarray, judged: np.ndarray, limit: float, tolerated: float
) -> int | None:
    """The largest score beyond a limit, of a bias beyond what is tolerated; None where there is none."""
    significant = judged & (np.abs(score) > limit) & (np.abs(bias) > tolerated)
    return int(np.argmax(np.where(significant, np.abs(score), 0))) if significant.any() else None


@dataclass(frozen=True)
class Deviations:
    """Series whose means should be zero: of each its name, and its `Scores`, of which `mean` is the bias."""

    names: list[str]
    mean: Float[np.ndarray, " k"]
    error: Float[np.ndarray, " k"]
    score: Float[np.ndarray, " k"]
    judged: np.ndarray

    def threshold(self, false_alarms: float = FALSE_ALARMS) -> float:
        """A score that correct draws rarely exceed in any series."""
        return threshold(false_alarms, int(self.judged.sum()))

    @property
    def detectable(self) -> float:
        """The mean of any one series that nine of ten runs like this would detect."""
        if not self.judged.any():
            return math.inf
        return max(TOLERATED, (self.threshold() + power()) * float(np.max(self.error[self.judged])))

    def furthest(self, false_alarms: float = FALSE_ALARMS) -> tuple[str, float, float] | None:
        """What is most wrong, its mean and standard error; None if nothing is significant."""
        limit = self.threshold(false_alarms)
        worst = most_significant(self.score, self.mean, self.judged, limit, TOLERATED)
        return (
            None if worst is None else (self.names[worst], float(self.mean[worst]), float(self.error[worst]))
        )


def effective_draws(values: Float[np.ndarray, "c n k"]) -> Float[np.ndarray, " k"]:
    """The effective number of draws for the mean of each series (ArviZ)."""
    if values.shape[1] < 4:  # too few draws for an autocorrelation; chains are independent
        return np.full(values.shape[2], float(values.shape[0]))
    return effective_sample_size(values, method="mean")
