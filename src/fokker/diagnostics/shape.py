"""Whether the shape of draws is that of the target, beyond their mean and variance."""

import numpy as np
from jaxtyping import Float

from fokker.diagnostics._scores import Deviations, scores


class Shape(Deviations):
    r"""How far the draws of each coordinate are from the target in shape, by two Stein equations.

    E[f(x) ∂U/T] = E[f'(x)] for a coordinate x without walls, standardised, and every smooth f. For f = x it
    is the equation of the variance; f = tanh x weighs the middle against the tails, so that uniform draws of
    the right variance show in it, and f = tanh² x shows skewness. Each of `names` has its `mean`, the
    difference of both sides over E[sech² x], the standard `error` and a `score`, standard normal for correct
    draws. A normal whose variance is off by b deviates by b. Computed by `spread_of`.
    """

    @classmethod
    def of(cls, names: list[str], series: Float[np.ndarray, "c n k"]) -> "Shape":
        """From `shape_series`."""
        return cls(
            [*(f"the tails of {x}" for x in names), *(f"the skewness of {x}" for x in names)],
            *scores(series, 0.0),
        )


def shape_series(x: Float[np.ndarray, "c n d"], g: Float[np.ndarray, "c n d"]) -> Float[np.ndarray, "c n k"]:
    """(f(x) ∂U/T - f'(x))/E[sech² x] for both f, of coordinates whose centre and scale are of other draws."""
    f = np.tanh(x)
    slope = 1 - f**2
    # E[sech² x] by the draws: its error is a factor of what is zero for right draws.
    size = np.maximum(slope.mean(axis=(0, 1)), 1e-30)
    return np.concatenate([(f * g - slope) / size, (f**2 * g - 2 * f * slope) / size], axis=2)
