"""Predictions from the draws of a factorisation."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, ndtri

from fokker.datasets.ratings import Ratings
from fokker.models.factorisation.chain import Draw
from fokker.models.factorisation.conditional import draw_gaussians
from fokker.models.factorisation.features import row_of_new
from fokker.models.factorisation.implicit import as_rated_by_new, for_new_users
from fokker.models.factorisation.inputs import ratings_of_new

if TYPE_CHECKING:
    from fokker.models.factorisation.estimator import Factorisation

# Halvings of the range in which the bounds of an interval are looked for: to a millionth of it.
_HALVINGS = 20
# Predictions whose intervals are computed at the same time.
_BLOCK = 4096
# Sweeps over the row and the noise of someone new.
_SWEEPS = 10


class Predictions(NamedTuple):
    """Posterior means of ratings, with standard deviations and an interval where they were asked for.

    `std` and `interval` (2, n) are those of a rating that is yet to be given: they include its noise.
    """

    mean: np.ndarray
    std: np.ndarray | None = None
    interval: np.ndarray | None = None

    def clipped(self, bounds: tuple[float, float]) -> "Predictions":
        """With means and intervals within the bounds."""
        interval = None if self.interval is None else np.clip(self.interval, *bounds)
        return self._replace(mean=np.clip(self.mean, *bounds), interval=interval)


class Recommendation(NamedTuple):
    """An item, its title where there is one, its expected rating, and an interval for that expectation."""

    item: Any
    title: str
    mean: float
    interval: tuple[float, float]


def expected_of_row(draw: Draw, row: np.ndarray, items: np.ndarray) -> np.ndarray:
    """The expected ratings of items by one user with this row."""
    return draw.mean + draw.scale * (row[0] + draw.items[items, 0] + draw.items[items, 1:] @ row[1:])


def expected_of_new(
    model: "Factorisation", rated: Mapping[Hashable, float] | None, features: object, items: np.ndarray
) -> tuple[Float[np.ndarray, "draws n"], Float[np.ndarray, "draws n"]]:
    """Expected ratings of items by someone new, and standard deviations of their noise, for each draw."""
    draws, confidence, given = model._fitted(), model._confidence, rated or {}
    x = row_of_new(features, model.features_["users"])
    values = ratings_of_new(given, model.ratings_.range if confidence is None else None)
    known, weights = model._lookups[1].find(list(given)), np.ones(len(given))
    # Of someone of whom features alone are known nothing is a zero: they may have chosen anything.
    if confidence is not None and rated is not None:
        values, weights = as_rated_by_new(values, known, model._num_items, confidence)
        draws = for_new_users(draws, model._num_items)
    generator = np.random.Generator(np.random.Philox(model._seed))
    rows, noise = draw_new_users(draws, known, values, generator, x, weights)
    expected = [expected_of_row(draw, row, items) for draw, row in zip(draws, rows, strict=True)]
    return np.stack(expected), np.repeat(noise[:, None], len(items), axis=1)


def summarise(per_draw: np.ndarray, noise: np.ndarray, probability: float | None) -> Predictions:
    """Predictions from expected ratings (draws, n), and the standard deviations of their noise, likewise.

    The predictive distribution is a mixture of normals, one per draw.
    """
    variance = per_draw.var(0) + np.mean(noise**2, 0)
    interval = None
    if probability is not None:
        levels = ((1 - probability) / 2, (1 + probability) / 2)
        parts = [slice(first, first + _BLOCK) for first in range(0, per_draw.shape[1], _BLOCK)]
        interval = np.concatenate(
            [[_quantile(per_draw[:, part], noise[:, part], level) for level in levels] for part in parts],
            axis=1,
        )
    return Predictions(per_draw.mean(0), np.sqrt(variance), interval)


def _quantile(means: np.ndarray, deviations: np.ndarray, level: float) -> np.ndarray:
    """The quantile of mixtures of normals, along the first axis: between those of their parts, by halving."""
    quantiles = means + ndtri(level) * deviations
    low, high = quantiles.min(0), quantiles.max(0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_below = ndtr((middle - means) / deviations).mean(0) < level
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return (low + high) / 2


def draw_new_users(
    draws: Sequence[Draw],
    items: np.ndarray,
    values: np.ndarray,
    generator: np.random.Generator,
    coordinates: Float[np.ndarray, " p"] | None = None,
    weights: Float[np.ndarray, " n"] | float = 1.0,
) -> tuple[Float[np.ndarray, "draws d"], Float[np.ndarray, " draws"]]:
    """For each draw, the row and the standard deviation of the noise of a user who was not there in the fit.

    The row has the Gaussian law of `conditional`, and τ_u that of `draw_noise`: they are drawn in turns.
    `coordinates`: of their features, where users have some. `weights`: of the ratings, by which τ_u is
    multiplied.
    """
    priors = [draw.hyperparameters["users"] for draw in draws]
    precisions = np.stack([prior.precision for prior in priors], -1)
    x = np.zeros(len(priors[0].link)) if coordinates is None else coordinates
    forces = np.stack([prior.precision @ (prior.mean + x @ prior.link) for prior in priors], -1)
    rated = np.stack([draw.items[items] for draw in draws]).astype(float)
    features = np.concatenate([np.ones_like(rated[:, :, :1]), rated[:, :, 1:]], axis=2)
    weighted = features * np.broadcast_to(weights, len(items))[:, None]
    products = np.einsum("snj,snk->jks", weighted, features)
    scales, shapes, rates = (
        np.array(x) for x in zip(*((d.scale, d.noise.shape, d.noise.rate) for d in draws), strict=True)
    )
    means = np.array([draw.mean for draw in draws])
    y = (np.asarray(values, float)[None] - means[:, None]) / scales[:, None] - rated[:, :, 0]
    sums = np.einsum("snj,sn->js", weighted, y)
    tau = shapes / rates
    for _ in range(_SWEEPS):
        rows = draw_gaussians(generator, precisions + tau * products, forces + tau * sums).T
        squares = np.sum((y - np.einsum("snj,sj->sn", features, rows)) ** 2, 1)
        tau = generator.gamma(shapes + len(items) / 2, 1 / (rates + squares / 2))
    return rows, scales * tau**-0.5


class ErrorCurve:
    """Test errors by pass, of each state and of the running mean of predictions after burn-in."""

    def __init__(self, rows: tuple[np.ndarray, ...], values: np.ndarray) -> None:
        self.rows, self.values = rows, values
        self.count, self.mean = 0, np.zeros(len(values))
        self.errors: list[tuple[float, float]] = []

    def add(self, draw: Draw, is_burned_in: bool) -> float:
        """The error of the running mean with this draw."""
        now = draw.expected(*self.rows)
        if is_burned_in:
            self.count += 1
            self.mean += (now - self.mean) / self.count
        self.errors.append((rmse(now, self.values), rmse(self.mean if self.count else now, self.values)))
        return self.errors[-1][1]


def rmse(predicted: np.ndarray, values: np.ndarray) -> float:
    """The root mean squared error."""
    return float(np.sqrt(np.mean((np.asarray(predicted, float) - np.asarray(values, float)) ** 2)))


def recommended(
    per_draw: Float[np.ndarray, "draws items"],
    known: np.ndarray,
    ratings: Ratings,
    count: int,
    interval: float,
    clip: bool,
) -> list[Recommendation]:
    """The items with the highest expected ratings, the best first, without those that are `known`."""
    mean = per_draw.mean(0)
    mean[known] = -np.inf
    best = np.argsort(-mean, kind="stable")[: min(count, len(mean) - len(np.unique(known)))]
    bounds = np.quantile(per_draw[:, best], [(1 - interval) / 2, (1 + interval) / 2], axis=0)
    if clip:
        mean, bounds = (np.clip(x, *ratings.range) for x in (mean, bounds))
    return [
        Recommendation(
            ratings.item_names[i],
            "" if ratings.titles is None else str(ratings.titles[i]),
            float(mean[i]),
            (float(low), float(high)),
        )
        for i, low, high in zip(best, *bounds, strict=True)
    ]
