"""Whether the mean of draws is that of the target."""

import numpy as np
from jaxtyping import Float

from fokker.diagnostics._scores import Deviations, scores


class Shift(Deviations):
    r"""How far the mean of draws is from that of the target, in standard deviations, along directions.

    E[∇U] = 0 for a target without walls. For a normal target, draws whose mean is off by δ have
    E[∇U/T] = Σ⁻¹δ, so that Σ∇U/T, with the covariance Σ of the draws, has the mean δ: each `names` has its
    `mean`, about the shift (exactly for a normal), the standard `error` and a `score`, standard normal for
    correct draws of any target. `judged` is False for directions with too few effective gradients, or with
    gradients of infinite variance. Computed by `spread_of`, from which it has its directions.
    """

    @classmethod
    def of(cls, names: list[str], series: Float[np.ndarray, "c n k"]) -> "Shift":
        """From Σ∇U/T along the directions, in units of the standard deviation along each."""
        return cls(names, *scores(series, 0.0))
