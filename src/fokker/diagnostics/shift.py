"""Whether the mean of draws is that of the target."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from fokker.diagnostics._scores import power, scores, threshold

# Share of correct runs that raise an alarm, over all directions together.
FALSE_ALARMS = 0.01
# A smaller shift, in standard deviations, raises no alarm, however significant.
TOLERATED = 0.1


@dataclass(frozen=True)
class Shift:
    r"""How far the mean of draws is from that of the target, in standard deviations, along directions.

    E[∇U] = 0 for a target without walls. For a normal target, draws whose mean is off by δ have
    E[∇U/T] = Σ⁻¹δ, so that Σ∇U/T, with the covariance Σ of the draws, has the mean δ: each `names` has its
    `mean`, about the shift (exactly for a normal), the standard `error` and a `score`, standard normal for
    correct draws of any target. `judged` is False for directions with too few effective gradients, or with
    gradients of infinite variance. Computed by `spread_of`, from which it has its directions.
    """

    names: list[str]
    mean: Float[np.ndarray, " k"]
    error: Float[np.ndarray, " k"]
    score: Float[np.ndarray, " k"]
    judged: np.ndarray

    @classmethod
    def of(cls, names: list[str], series: Float[np.ndarray, "c n k"]) -> "Shift":
        """From Σ∇U/T along the directions, in units of the standard deviation along each."""
        return cls(names, *scores(series, 0.0))

    def threshold(self, false_alarms: float = FALSE_ALARMS) -> float:
        """A score that correct draws rarely exceed in any direction."""
        return threshold(false_alarms, int(self.judged.sum()))

    @property
    def detectable(self) -> float:
        """The shift along any one direction that nine of ten runs like this would detect."""
        if not self.judged.any():
            return math.inf
        return max(TOLERATED, (self.threshold() + power()) * float(np.max(self.error[self.judged])))

    def furthest(self, false_alarms: float = FALSE_ALARMS) -> tuple[str, float, float] | None:
        """The direction that is most wrong, its shift and standard error; None if none is significant."""
        limit = self.threshold(false_alarms)
        significant = self.judged & (np.abs(self.score) > limit) & (np.abs(self.mean) > TOLERATED)
        if not significant.any():
            return None
        worst = int(np.argmax(np.where(significant, np.abs(self.score), 0)))
        return self.names[worst], float(self.mean[worst]), float(self.error[worst])
