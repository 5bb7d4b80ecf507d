"""The article's targets, which the samplers of the gallery are tried on, with their exact marginals.

Where the article gives no number (degrees of freedom, correlation, mixture, Rosenbrock's constants) it is
chosen here, and `setting` says so in the result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy import stats

# Degrees of freedom: the variance is finite, the fourth moment is not.
FREEDOM = 4.0
CORRELATION = 0.95
BEND = 0.03
WEIGHTS = np.array([0.3, 0.3, 0.4])
CENTRES = np.array([[-2.0, -1.0], [2.0, -1.0], [0.0, 2.0]])
SPREAD = 0.7
# Rosenbrock: x ~ N(1, 1), y given x ~ N(x², 0.2).
VALLEY = 0.2
_POINTS = 4001


@dataclass(frozen=True)
class Marginal:
    """A density in one dimension, tabulated on a fine grid from one end of its mass to the other."""

    x: np.ndarray
    density: np.ndarray
    distribution: np.ndarray

    @classmethod
    def of(cls, density: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> "Marginal":
        """From a normalised density; the mass outside [low, high] is negligible."""
        x = np.linspace(low, high, _POINTS)
        p = density(x)
        middle = (p[1:] + p[:-1]) / 2 * np.diff(x)
        return cls(x, p, np.concatenate([[0.0], np.cumsum(middle)]))

    @property
    def mass(self) -> float:
        """The integral: one, up to the tails and rounding."""
        return float(self.distribution[-1])

    @property
    def mean(self) -> float:
        """The mean, between the ends of the grid."""
        return float(np.trapezoid(self.x * self.density, self.x) / self.mass)

    @property
    def deviation(self) -> float:
        """The standard deviation, between the ends of the grid."""
        return float(np.sqrt(np.trapezoid((self.x - self.mean) ** 2 * self.density, self.x) / self.mass))

    def distance(self, draws: np.ndarray) -> float:
        """Kolmogorov–Smirnov: the largest difference of the distribution functions; 1 if not finite."""
        if not np.all(np.isfinite(draws)):
            return 1.0
        ordered = np.sort(draws, axis=None)
        exact = np.interp(ordered, self.x, self.distribution, left=0.0, right=1.0)
        steps = np.arange(ordered.size + 1) / ordered.size
        return float(max(np.max(steps[1:] - exact), np.max(exact - steps[:-1])))


@dataclass(frozen=True)
class GalleryTarget:
    """A density to sample, with its exact marginals.

    `curvature` is about the largest of the potential where the mass is, `length` the largest standard
    deviation: the step sizes of all samplers follow from the first, frictions and trajectories from the
    second. `lowest` is the least value of -log_density, `box` what is drawn.
    """

    name: str
    title: str
    setting: str
    log_density: Callable[[Any], Any]
    marginals: tuple[Marginal, ...]
    box: tuple[tuple[float, float], ...]
    start: tuple[float, ...]
    curvature: float
    length: float
    lowest: float = 0.0

    @property
    def dimension(self) -> int:
        """One or two."""
        return len(self.marginals)

    def grid(self, points: int = 160) -> tuple[np.ndarray, ...]:
        """Coordinates across the box, and the density there, scaled to a maximum of one."""
        axes = [np.linspace(low, high, points) for low, high in self.box]
        log = np.asarray(self.log_density(np.stack(np.meshgrid(*axes, indexing="ij"))))
        return *axes, np.exp(log - log.max())


# The coordinates of a point, or of many along further axes: of JAX in a sampler, of NumPy in a picture.
Point = Array | np.ndarray


def _sum(x: Point) -> Point:
    """The sum over the coordinates, the first axis."""
    return x.sum(axis=0)


def normal(theta: Point) -> Point:
    """N(0, I) in any dimension."""
    return -_sum(theta**2) / 2


def correlated(theta: Point) -> Point:
    """Unit variances, correlation ρ: the precision is [[1, -ρ], [-ρ, 1]]/(1 - ρ²)."""
    x, y = theta[0], theta[1]
    return -(x**2 - 2 * CORRELATION * x * y + y**2) / (2 * (1 - CORRELATION**2))


def student(theta: Point) -> Point:
    """Student's t in two dimensions with a unit scale matrix."""
    return -(FREEDOM + 2) / 2 * _log1p(_sum(theta**2) / FREEDOM)


def banana(theta: Point) -> Point:
    """z₁ ~ N(0, 10²), z₂ ~ N(0.03(z₁² - 100), 1)."""
    return -(theta[0] ** 2) / 200 - (theta[1] - BEND * (theta[0] ** 2 - 100)) ** 2 / 2


def mixture(theta: Point) -> Point:
    """Three round normals, the log of their weighted sum."""
    numbers = jnp if isinstance(theta, Array) else np
    logs = [
        float(np.log(weight)) - ((theta[0] - a) ** 2 + (theta[1] - b) ** 2) / (2 * SPREAD**2)
        for weight, (a, b) in zip(WEIGHTS, CENTRES.tolist(), strict=True)
    ]
    largest = numbers.maximum(numbers.maximum(logs[0], logs[1]), logs[2])
    return largest + numbers.log(sum(numbers.exp(log - largest) for log in logs))


def rosenbrock(theta: Point) -> Point:
    """x ~ N(1, 1), y ~ N(x², 0.2): a narrow parabola that steepens without bound."""
    return -((theta[0] - 1) ** 2) / 2 - (theta[1] - theta[0] ** 2) ** 2 / (2 * VALLEY)


def _log1p(x: Point) -> Point:
    return jnp.log1p(x) if isinstance(x, Array) else np.log1p(x)


def _round(deviation: float = 1.0) -> Marginal:
    return Marginal.of(stats.norm(0, deviation).pdf, -8 * deviation, 8 * deviation)


def _mixed(axis: int) -> Marginal:
    parts = [stats.norm(centre, SPREAD).pdf for centre in CENTRES[:, axis]]
    return Marginal.of(
        lambda x: np.sum([w * part(x) for w, part in zip(WEIGHTS, parts, strict=True)], axis=0), -8, 8
    )


def _over_parabola(
    first: Any, height: Callable[[np.ndarray], np.ndarray], deviation: float, low: float, high: float
) -> Marginal:
    """Of y ~ N(height(x), deviation²) with x ~ `first`: the average over x, by midpoints of equal mass.

    Quantiles as nodes put the points where the mass is; the tails of `first` beyond them weigh 1e-5.
    """
    nodes = height(first.ppf((np.arange(20_000) + 0.5) / 20_000))

    def density(y: np.ndarray) -> np.ndarray:
        # In cells finer than the normal is wide, then one convolution in place of 8e7 evaluations.
        step = y[1] - y[0]
        places = (nodes - y[0]) / step
        cell = np.clip(np.floor(places).astype(int), 0, y.size - 2)
        part = np.clip(places - cell, 0, 1)
        weights = np.bincount(cell, 1 - part, y.size) + np.bincount(cell + 1, part, y.size)
        reach = int(np.ceil(8 * deviation / step))
        kernel = stats.norm(0, deviation).pdf(step * np.arange(-reach, reach + 1))
        return np.convolve(weights / nodes.size, kernel, "same")

    return Marginal.of(density, low, high)


TARGETS: dict[str, GalleryTarget] = {
    target.name: target
    for target in (
        GalleryTarget(
            "normal-1d", "1-D normal", "N(0, 1)", normal, (_round(),), ((-3.6, 3.6),), (2.5,), 1.0, 1.0
        ),
        GalleryTarget(
            "normal-2d",
            "2-D normal",
            "N(0, I)",
            normal,
            (_round(), _round()),
            ((-3.6, 3.6), (-3.6, 3.6)),
            (2.5, -2.0),
            1.0,
            1.0,
        ),
        GalleryTarget(
            "correlated",
            "Correlated normal",
            f"unit variances, correlation {CORRELATION} (chosen)",
            correlated,
            (_round(), _round()),
            ((-3.6, 3.6), (-3.6, 3.6)),
            (-2.2, -1.8),
            1 / (1 - CORRELATION),
            1.4,
        ),
        GalleryTarget(
            "student-t",
            "Student-t",
            f"unit scale, {FREEDOM:g} degrees of freedom (chosen)",
            student,
            (Marginal.of(stats.t(FREEDOM).pdf, -200, 200),) * 2,
            ((-6.5, 6.5), (-6.5, 6.5)),
            (4.0, 3.0),
            (FREEDOM + 2) / FREEDOM,
            1.5,
        ),
        GalleryTarget(
            "banana",
            "Banana",
            "z₁ ~ N(0, 10²), z₂ ~ N(0.03(z₁² - 100), 1)",
            banana,
            (
                _round(10.0),
                _over_parabola(stats.norm(0, 10), lambda z: BEND * (z**2 - 100), 1.0, -11.0, 70.0),
            ),
            ((-27.0, 27.0), (-7.0, 18.0)),
            (-14.0, 3.0),
            3.0,
            10.0,
        ),
        GalleryTarget(
            "mixture",
            "Mixture",
            f"three normals of deviation {SPREAD}, weights {WEIGHTS.tolist()} (chosen)",
            mixture,
            (_mixed(0), _mixed(1)),
            ((-4.6, 4.6), (-3.6, 4.6)),
            (-2.6, -1.5),
            1 / SPREAD**2,
            2.0,
            # The least potential, at the centre of the largest weight; the others add less than a thousandth.
            -float(np.log(WEIGHTS.max())),
        ),
        GalleryTarget(
            "rosenbrock",
            "Rosenbrock",
            f"x ~ N(1, 1), y ~ N(x², {VALLEY}) (chosen)",
            rosenbrock,
            (
                Marginal.of(stats.norm(1, 1).pdf, -7, 9),
                _over_parabola(stats.norm(1, 1), lambda x: x**2, VALLEY**0.5, -3.0, 40.0),
            ),
            ((-2.6, 4.4), (-2.0, 15.0)),
            (-1.0, 1.5),
            (1 + 4 * 2.5**2) / VALLEY,
            3.0,
        ),
    )
}
