"""What `Network.evaluate` and `Network.uncertainty` return."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from fokker._core.digits import percent
from fokker.models.network import metrics

_COVERAGE = 0.9


class ClassUncertainty(NamedTuple):
    """Of each row, in nats: H[E p], I(y; θ) = H[E p] - E H[p], and E H[p]."""

    entropy: np.ndarray
    mutual_information: np.ndarray
    expected_entropy: np.ndarray


class RegressionUncertainty(NamedTuple):
    """Of each row: the variance of y, the part from the weights, and the part from the noise."""

    variance: np.ndarray
    variance_of_mean: np.ndarray
    expected_variance: np.ndarray


@dataclass(frozen=True)
class Evaluation:
    """Scores on some rows; those of the other kind of likelihood are None. `print` shows a table."""

    rows: int
    negative_log_likelihood: float
    accuracy: Any = None
    brier: float | None = None
    calibration_error: float | None = None
    bins: int | None = None
    root_mean_square_error: float | None = None
    coverage: float | None = None

    def table(self) -> list[tuple[str, str]]:
        """Names and values as text."""
        names = {
            "brier": "Brier score",
            "calibration_error": f"calibration error (ECE, {self.bins} bins)",
            "coverage": f"share within {percent(_COVERAGE)} intervals",
        }
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and field.name != "bins":
                text = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
                shown.append((names.get(field.name, field.name.replace("_", " ")), text))
        return shown

    def __str__(self) -> str:
        rows = self.table()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {value:>8}" for name, value in rows)


def evaluate_classes(probabilities: np.ndarray, labels: np.ndarray, bins: int) -> Evaluation:
    """The scores of a classification."""
    return Evaluation(
        rows=len(labels),
        negative_log_likelihood=metrics.negative_log_likelihood(probabilities, labels),
        accuracy=metrics.accuracy(probabilities, labels),
        brier=metrics.brier(probabilities, labels),
        calibration_error=metrics.expected_calibration_error(probabilities, labels, bins),
        bins=bins,
    )


def evaluate_targets(
    y: np.ndarray, parts: Iterable[tuple[slice, Any]], location: np.ndarray, scale: np.ndarray
) -> Evaluation:
    """The scores of a regression, from means and deviations over draws, in units of `scale`."""
    total = inside = 0.0
    predicted = np.empty_like(y)
    for place, (means, deviations) in parts:
        means = means.astype(float) * scale + location
        deviations = deviations.astype(float) * scale
        count = means.shape[1]
        total += count * metrics.gaussian_negative_log_likelihood(y[place], means, deviations)
        predicted[place] = means.mean(0)
        # The rank of y under the mixture over draws: between 5 % and 95 % is within the interval.
        probability = norm.cdf((y[place] - means) / deviations).mean(0)
        inside += np.sum(np.abs(probability - 0.5) <= _COVERAGE / 2) / y.shape[1]
    return Evaluation(
        rows=len(y),
        negative_log_likelihood=total / len(y),
        root_mean_square_error=float(np.sqrt(np.mean((y - predicted) ** 2))),
        coverage=inside / len(y),
    )
