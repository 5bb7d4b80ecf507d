"""The configurational temperature: whether the spread of draws is that of the target."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from fokker.diagnostics._scores import most_significant, power, scores, threshold
from fokker.diagnostics.shape import Shape, shape_series
from fokker.diagnostics.shift import Shift

# Share of correct runs that raise an alarm, over all directions and the pooled statistic together.
FALSE_ALARMS = 0.01
# A smaller bias of the variance raises no alarm, however significant.
TOLERATED = 0.05
# In higher dimensions, computing principal directions takes too long.
_LARGEST = 2000
# A larger typical product means that the draws are far from the mass of the target.
_ASTRAY = 10.0


class Walls(NamedTuple):
    """Where the target ends along each coordinate; infinite where it does not."""

    lower: Float[np.ndarray, " d"]
    upper: Float[np.ndarray, " d"]

    @property
    def present(self) -> np.ndarray:
        """Which coordinates have a wall."""
        return np.isfinite(self.lower) | np.isfinite(self.upper)


@dataclass(frozen=True)
class Spread:
    """The variance of draws over that of the target, minus 1, along directions; computed by `spread_of`.

    The first directions are the coordinates, the next the principal directions of the draws, and the last, if
    there are any, averages over groups of coordinates. Each has a name, a `bias`, its standard `error` and
    its `score`, standard normal for correct draws; so has the average over all coordinates (`pooled`).
    `typical` is the median over draws of the average of
    (θ_i - c_i) ∂_iU/T, near 1 in the mass of the target. `judged` is False for directions with too few
    effective products or with products of infinite variance. `shift` is the same for the mean, and
    `shape` for the shape beyond both. `walled` are coordinates with a wall, which are measured from it: their
    bias is not that of a variance.
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
    shift: Shift
    walled: np.ndarray
    shape: Shape

    @property
    def astray(self) -> bool:
        """Whether a typical draw is far from the mass of the target."""
        return self.typical > _ASTRAY

    def thresholds(self, false_alarms: float = FALSE_ALARMS) -> tuple[float, float]:
        """Scores of one direction and of the average that correct draws rarely exceed."""
        number = max(1, int(self.judged.sum()))
        if number == 1:  # one direction is the average
            return (threshold(false_alarms, 1),) * 2
        return threshold(false_alarms / 2, number), threshold(false_alarms / 2, 1)

    @property
    def detectable(self) -> tuple[float, float]:
        """Biases that nine of ten runs like this would detect: of one direction (the worst case), of all."""
        one, all_ = self.thresholds()
        worst = float(np.max(self.error[self.judged], initial=0.0)) if self.judged.any() else math.inf
        return max(TOLERATED, (one + power()) * worst), max(TOLERATED, (all_ + power()) * self.pooled_error)

    def furthest(self, false_alarms: float = FALSE_ALARMS) -> tuple[str, float, float] | None:
        """The name of what is most wrong, its bias and standard error; None if nothing is significant."""
        one, all_ = self.thresholds(false_alarms)
        worst = most_significant(self.score, self.bias, self.judged, one, TOLERATED)
        if worst is not None:
            return self.names[worst], float(self.bias[worst]), float(self.error[worst])
        if abs(self.pooled_score) > all_ and abs(self.pooled_bias) > TOLERATED:
            return "all coordinates together", self.pooled_bias, self.pooled_error
        return None


def configurational_temperature(draws: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""E[(θ_i - Eθ_i) ∂U/∂θ_i] of each coordinate, and standard errors; T for draws from exp(-U/T).

    By the virial theorem, for a target without walls. It is for theta what the kinetic temperature is for the
    momentum. Too large a step, or uncorrected minibatch noise, gives too high a value.

    Arguments:

    - `draws`: m × d, independent of each other; `spread_of` is for chains.
    - `gradients`: ∇U at the draws, m × d.

    Returns two arrays of length d, the temperatures and their standard errors.

    ```python
    draws = np.random.default_rng(0).normal(size=(1000, 2))
    temperature, error = fk.diagnostics.configurational_temperature(draws, draws)  # ∇U = θ
    ```
    """
    each = (draws - draws.mean(axis=0)) * gradients
    m = len(each)
    # The mean is from the same draws, which costs one degree of freedom.
    return each.sum(axis=0) / (m - 1), each.std(axis=0, ddof=1) / np.sqrt(m)


class Groups(NamedTuple):
    """Averages of (θ_i - c_i) ∂_iU/T over groups of coordinates, chain × draw × group, and their sizes.

    The centre c for one half of the chains must come from the other half, as in `spread_of`.
    """

    names: list[str]
    sizes: np.ndarray
    products: Float[np.ndarray, "c n g"]


def spread_of(
    draws: Float[np.ndarray, "c n d"],
    gradients: Float[np.ndarray, "c n d"],
    groups: Groups | None = None,
    walls: Walls | None = None,
    names: Sequence[str] = (),
) -> Spread:
    r"""The spread and the mean of the chains' draws relative to exp(-U/T), from ∇U/T at the draws.

    For every fixed direction v and centre c, E[v·(θ - c) v·∇U/T] = |v|² for a target without walls (Stein).
    For a normal target and an eigenvector v, it is the variance of the draws over that of the target, with
    relative standard error √(2/n) for n effective draws. Centre, scales and principal directions for one half
    of the chains come from the other half: if they came from the same draws, the widest of d directions would
    look too wide by about 2√(d/n). Standard errors use the effective number of products (ArviZ). The scores
    are corrected for the skewness of the products (Hall 1992), which is that of χ²₁. The means are compared
    along the same directions by E[v·∇U] = 0 (`Shift`), and the shape of each coordinate by two more equations
    (`Shape`).

    At `walls` the density is not zero, and both equations have a boundary term. It vanishes for a function
    that is zero there: f = θ - a for one wall a, and (θ - a)(b - θ)/(b - a) for two, with
    E[f ∂U/T] = E[f']. Such coordinates have this equation only; the others have all of them.

    Arguments:

    - `draws`: chain × draw × coordinate. A single chain is split into two halves.
    - `gradients`: ∇U/T at the draws, of the same shape.
    - `groups`: averages over groups of coordinates (`fokker.diagnostics.configurational.Groups`), for a theta
      of many coordinates, of which draws and gradients are those along a few orthonormal directions. None
      where they are those of the coordinates.
    - `walls`: where the target ends along each coordinate (`fokker.diagnostics.configurational.Walls`); None
      where it has no walls.
    - `names`: of the coordinates; without them they are numbered.

    Returns a `Spread`.

    ```python
    draws = np.random.default_rng(0).normal(size=(4, 500, 2))
    spread = fk.diagnostics.spread_of(draws, draws)  # ∇U/T = θ
    spread.furthest()  # None: nothing is wrong
    ```
    """
    averages = None if groups is None else groups.products
    if len(draws) == 1:  # split the chain into two halves
        half = draws.shape[1] // 2
        draws, gradients = (x[0, : 2 * half].reshape(2, half, -1) for x in (draws, gradients))
        averages = None if averages is None else averages[0, : 2 * half].reshape(2, half, -1)
    d = draws.shape[2]
    walled = np.zeros(d, bool) if walls is None else walls.present
    products = np.concatenate(
        [_products(draws[to::2], gradients[to::2], draws[1 - to :: 2].reshape(-1, d), walls) for to in (0, 1)]
    )
    unnamed = "coordinate {0}" if groups is None else "random direction {1}"
    own = list(names) if len(names) == d else [unnamed.format(i, i + 1) for i in range(d)]
    free = int(d - walled.sum())
    principal = [f"principal direction {i + 1} of {free}" for i in range(products.shape[2] - d)]
    unwalled = [name for name, wall in zip(own, walled, strict=True) if not wall]
    shift = Shift.of([*unwalled, *principal], _shifts(draws[:, :, ~walled], gradients[:, :, ~walled]))
    shape = Shape.of(unwalled, _shapes(draws[:, :, ~walled], gradients[:, :, ~walled]))
    own += principal
    if groups is None:
        average = products[:, :, :d].mean(axis=2, keepdims=True)
    else:
        assert averages is not None
        # In this order, as the halves are put together.
        order = np.concatenate([np.arange(len(draws))[to::2] for to in (0, 1)])
        average = np.average(averages[order], axis=2, weights=groups.sizes)[:, :, None]
        if len(groups.names) > 1:
            products = np.concatenate([products, averages[order]], axis=2)
            own += [f"{name} on average" for name in groups.names]
    bias, error, score, _ = (float(x[0]) for x in scores(average, 1.0))
    typical = float(np.median(average))
    walled = np.concatenate([walled, np.zeros(len(own) - d, bool)])
    return Spread(own, *scores(products, 1.0), bias, error, score, typical, shift, walled, shape)


def _products(
    draws: np.ndarray, gradients: np.ndarray, others: np.ndarray, walls: Walls | None
) -> np.ndarray:
    """v·(θ - c) v·∇U/T along the coordinates and the principal directions of the other draws."""
    deviation = _deviation(others)
    # The gradient needs no centring: its mean is zero, and an estimated centre would not be fixed.
    x, g = (draws - others.mean(axis=0)) / deviation, gradients * deviation
    products = x * g
    if walls is not None:
        walled = walls.present
        products[:, :, walled] = _from_walls(draws, gradients, others, walls)[:, :, walled]
        x, g, others, deviation = x[:, :, ~walled], g[:, :, ~walled], others[:, ~walled], deviation[~walled]
    if not 1 < x.shape[2] <= _LARGEST:
        return products
    directions = _principal(others / deviation)[2]
    return np.concatenate([products, (x @ directions) * (g @ directions)], axis=2)


def _shifts(draws: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Σ∇U/T along the coordinates and the principal directions, each in its own standard deviations.

    Σ is that of all draws: as E[(θ - c)² ∇U] = 2E[θ - c], it is not correlated with the mean of ∇U.
    """
    flat = draws.reshape(draws.shape[0] * draws.shape[1], draws.shape[2])
    deviation = _deviation(flat)
    g = gradients * deviation
    if not 1 < g.shape[2] <= _LARGEST:
        return g
    correlation, variances, directions = _principal(flat / deviation)
    return np.concatenate([g @ correlation, (g @ directions) * np.sqrt(variances)], axis=2)


def _shapes(draws: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """The series of `Shape`, with the centre and scale of each half of the chains from the other."""
    parts = []
    for to in (0, 1):
        others = draws[1 - to :: 2]
        deviation = others.std(axis=(0, 1))
        deviation = np.where(deviation > 0, deviation, 1.0)
        x, g = (draws[to::2] - others.mean(axis=(0, 1))) / deviation, gradients[to::2] * deviation
        parts.append(shape_series(x, g))
    return np.concatenate(parts)


def _deviation(draws: np.ndarray) -> np.ndarray:
    deviation = draws.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def _principal(standard: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The correlations of standardised draws, and the variances and directions of their principal axes."""
    correlation = np.cov(standard.T)
    variances, directions = np.linalg.eigh(correlation)
    # Pointing to where most of it grows, so that a shift along it has a sign.
    directions = directions * np.where(directions.sum(axis=0) < 0, -1, 1)
    return correlation, np.maximum(variances[::-1], 0), directions[:, ::-1]


def _from_walls(draws: np.ndarray, gradients: np.ndarray, others: np.ndarray, walls: Walls) -> np.ndarray:
    """1 + (f ∂U/T - f')/s for an f that is zero at the walls, and the mean s of |f'| at the other draws."""
    lower, upper = walls
    has_two = np.isfinite(lower) & np.isfinite(upper)
    wall = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0))
    width = np.where(has_two, upper - lower, 1.0)
    away = (draws - wall) / width
    f = np.where(has_two, away * (1 - away) * width, draws - wall)
    slope, slope_of_others = (
        np.where(has_two, 1 - 2 * (theta - wall) / width, 1.0) for theta in (draws, others)
    )
    size = np.maximum(np.abs(slope_of_others).mean(axis=0), 1e-30)
    return 1 + (f * gradients - slope) / size
