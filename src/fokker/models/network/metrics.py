r"""How good predictions are, and how certain: pure functions of NumPy arrays.

`probabilities` has one row per datum and one column per class, `labels` are column numbers.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import rankdata

from fokker._core.checks import check_whole

# A probability that has been rounded to zero counts as this, so that one row does not make the mean infinite.
_LEAST = float(np.finfo(np.float32).tiny)

# Where the search for a calibration starts, as log β and the log odds of ε, and the corners around a start.
# They are as wide as the prior: those that SciPy chooses are 0.00025 apart in log β, and often stay there.
_STARTS = np.array([[0.0, -4.0], [-1.0, -5.0], [1.0, -2.0]])
_SIMPLEX = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])


# Predictions that are drawn to see how large their calibration error is by chance.
_DRAWN = 1000


class Reliability(NamedTuple):
    """Predictions in bins of equal width by confidence.

    `edges` of the bins, and of each the `share` of the rows, the mean `confidence` and the `accuracy`; the
    last two are NaN in empty bins.
    """

    edges: np.ndarray
    share: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @property
    def error(self) -> float:
        """Σ share · |accuracy - confidence|, the expected calibration error."""
        gaps = np.where(self.share > 0, np.abs(self.accuracy - self.confidence), 0.0)
        return float(np.sum(self.share * gaps))


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The share of rows whose most probable class is the label."""
    return float(np.mean(np.argmax(probabilities, 1) == labels))


def negative_log_likelihood(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The mean of -log p(label), in nats."""
    chosen = probabilities[np.arange(len(labels)), labels]
    return float(-np.mean(np.log(np.maximum(chosen, _LEAST))))


def brier(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The mean over rows of Σ_k (p_k - 1[k = label])², between 0 and 2 (Brier 1950)."""
    targets = np.zeros_like(probabilities)
    targets[np.arange(len(labels)), labels] = 1
    return float(np.mean(np.sum((probabilities - targets) ** 2, 1)))


def reliability(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> Reliability:
    """Accuracy against confidence max_k p_k, in bins (k/bins, (k+1)/bins] (Guo et al. 2017)."""
    check_whole("bins", bins)
    return _binned(np.max(probabilities, 1), np.argmax(probabilities, 1) == labels, bins)


def _binned(confidence: np.ndarray, right: np.ndarray, bins: int) -> Reliability:
    edges = np.linspace(0, 1, bins + 1)
    places = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    counts = np.bincount(places, minlength=bins)
    filled = np.where(counts > 0, counts, np.nan)
    return Reliability(
        edges,
        counts / len(confidence),
        np.bincount(places, confidence, bins) / filled,
        np.bincount(places, right, bins) / filled,
    )


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Σ_bins share · |accuracy - mean confidence| (Naeini et al. 2015; Guo et al. 2017).

    It is biased upwards on few rows: a perfectly calibrated prediction has about √(bins/rows)/2 of it.
    """
    return reliability(probabilities, labels, bins).error


def calibration_limit(probabilities: np.ndarray, bins: int = 15) -> float:
    """The calibration error that one in a hundred predictions have that are right as often as they say."""
    generator, confidence = np.random.default_rng(0), np.max(probabilities, 1)
    drawn = [_binned(confidence, generator.random(len(confidence)) < confidence, bins) for _ in range(_DRAWN)]
    return float(np.quantile([curve.error for curve in drawn], 0.99))


class Calibration(NamedTuple):
    """(1 - ε) p^β, normalised, + ε/K: the power `sharpness` β, and `label_noise` ε, a share at random."""

    sharpness: float = 1.0
    label_noise: float = 0.0

    def of(self, probabilities: np.ndarray) -> np.ndarray:
        """The calibrated probabilities; the most probable class stays."""
        logs = self.sharpness * np.log(np.maximum(probabilities, _LEAST))
        powers = np.exp(logs - logs.max(1, keepdims=True))
        powers /= powers.sum(1, keepdims=True)
        return powers + self.label_noise * (1 / powers.shape[1] - powers)


def fitted_calibration(probabilities: np.ndarray, labels: np.ndarray) -> Calibration:
    """The `Calibration` that is most likely for labels which the predictions have not seen (Guo et al. 2017).

    A priori log β is N(0, 1) and the log odds of ε are N(-4, 4), so that a few rows change little. Without ε
    a few labels at random would make all probabilities soft.
    """

    def calibration(x: np.ndarray) -> Calibration:
        return Calibration(math.exp(x[0]), 1 / (1 + math.exp(-x[1])))

    def loss(x: np.ndarray) -> float:
        prior = x[0] ** 2 / 2 + (x[1] + 4) ** 2 / 8
        return len(labels) * negative_log_likelihood(calibration(x).of(probabilities), labels) + prior

    # Of a few rows there can be two optima, of which one has a large ε.
    fits = [
        minimize(loss, start, method="Nelder-Mead", options={"initial_simplex": start + _SIMPLEX})
        for start in _STARTS
    ]
    return calibration(min(fits, key=lambda fit: fit.fun).x)


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """-Σ_k p_k log p_k over the last axis, in nats."""
    p = np.asarray(probabilities)
    return -np.sum(p * np.log(np.maximum(p, _LEAST)), -1)


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """P(score outside > score inside) + P(equal)/2, from ranks: the Mann–Whitney statistic over its largest.

    1 if every score of `outside` is above all of `inside`, ½ if they are alike.
    """
    inside, outside = (np.asarray(x, float).ravel() for x in (inside, outside))
    if not inside.size or not outside.size:
        raise ValueError("AUROC compares two sets of scores, and one of them is empty.")
    ranks = rankdata(np.concatenate([inside, outside]))  # ties share their mean rank
    above = ranks[inside.size :].sum() - outside.size * (outside.size + 1) / 2
    return float(above / (inside.size * outside.size))


def gaussian_negative_log_likelihood(y: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> float:
    r"""The mean over rows of -log (1/S) Σ_s Π_j N(y_j; m_sj, σ_sj²), for draws s along the first axis."""
    z = (y - means) / deviations
    logs = -0.5 * np.sum(z**2 + np.log(2 * np.pi * deviations**2), -1)
    return float(-np.mean(np.logaddexp.reduce(logs, 0) - np.log(len(logs))))
