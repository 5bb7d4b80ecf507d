"""Whether residuals are zero, and which errors the tests could have missed."""

import math

import numpy as np
from scipy.stats import chi2

from fokker._core.digits import percent
from fokker.checker._inputs import CheckedPoints
from fokker.checker._jumps import SMALLEST_JUMP
from fokker.checker._residual import Residuals

# The probability that estimated residuals of a correct sampler raise an alarm.
_FALSE_ALARM = 1e-6
# If the detectable residual is a larger share of the scale, the estimate is too noisy.
_BLIND = 0.05


def judge(residuals: Residuals, tolerance: float) -> tuple[float, bool, bool]:
    """The relative residual, whether it is zero, and whether an estimate is too noisy for that conclusion."""
    if not residuals.values.size:
        return math.nan, True, False
    if residuals.probes == 0:
        residual = float(np.max(residuals.relative))
        return residual, residual <= tolerance, False
    scale = max(residuals.typical_scale, 1e-300)
    errors = np.maximum(residuals.errors, tolerance * scale)
    n = residuals.values.size
    statistic = float(np.sum((residuals.values / errors) ** 2))
    excess = max(0.0, float(np.mean(residuals.values**2 - residuals.errors**2)))
    residual = math.sqrt(excess) / scale
    stationary = statistic <= float(chi2.isf(_FALSE_ALARM, n))
    return residual, stationary, stationary and _detectable(residuals, tolerance) > _BLIND


def _detectable(residuals: Residuals, tolerance: float) -> float:
    """The residual, as a share of the scale, that the pooled test detects with probability 0.99."""
    n = residuals.values.size
    scale = max(residuals.typical_scale, 1e-300)
    error = float(np.sqrt(np.mean(np.maximum(residuals.errors, tolerance * scale) ** 2)))
    excess = float(chi2.isf(_FALSE_ALARM, n)) / n - 1 + 2.33 * math.sqrt(2 / n)
    return error / scale * math.sqrt(excess)


def power_words(checked: CheckedPoints, residuals: Residuals, tolerance: float, exact: bool) -> str:
    if not residuals.values.size:
        return "none: the residual is not finite at any point"
    if checked.are_given:
        number = len(np.unique(checked.points[: checked.on_target], axis=0))
        words = (
            f"an error away from the {number} different point{'s' * (number > 1)} given is not seen; at a "
            "point an error is seen if it is "
        )
    else:
        mass = 1 - 0.01 ** (1 / checked.on_target)
        words = (
            f"an error in a region with at least {percent(mass, 1)} of the mass of the tested modes is "
            "missed with probability below 1 %; an error in a formula without case distinctions is found "
            "almost surely if it is "
        )
    least = f"{tolerance:.1g} of the terms"
    if not exact:
        least = f"{_detectable(residuals, tolerance):.2g} of the terms (99 %)"
    return (
        f"{words}above {least}. A jump of H, D or the drift below {percent(SMALLEST_JUMP, 1)} of its range "
        "is not seen. Far out, the integral of exp(-H), the flux and the noise are looked at along straight "
        "rays: mass that escapes along curves, as in a funnel without a prior, is not seen"
    )
