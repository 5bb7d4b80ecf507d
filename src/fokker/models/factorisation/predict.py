"""Predictions from the draws of a factorisation."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from fokker.models.factorisation.chain import Draw

# Points of the noise for each draw in a predictive interval: equally likely values of a standard normal.
_POINTS = 16
_NOISE = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
# Predictions whose intervals are computed at the same time.
_BLOCK = 4096


class Predictions(NamedTuple):
    """Posterior means of ratings, with standard deviations and an interval where they were asked for.

    `std` and `interval` (2, n) are those of a rating that is yet to be given: they include its noise.
    """

    mean: np.ndarray
    std: np.ndarray | None = None
    interval: np.ndarray | None = None


def expected(draw: Draw, users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """The expected ratings of items by users at one draw."""
    u, v = draw.users[users], draw.items[items]
    return draw.mean + draw.scale * (u[:, 0] + v[:, 0] + np.einsum("nk,nk->n", u[:, 1:], v[:, 1:]))


def expected_of_row(draw: Draw, row: np.ndarray, items: np.ndarray) -> np.ndarray:
    """The expected ratings of items by one user with this row."""
    return draw.mean + draw.scale * (row[0] + draw.items[items, 0] + draw.items[items, 1:] @ row[1:])


def summarise(per_draw: np.ndarray, noise: np.ndarray, probability: float | None) -> Predictions:
    """Predictions from expected ratings (draws, n), and the standard deviation of the noise of each draw.

    The predictive distribution is a mixture of normals, one per draw.
    """
    variance = per_draw.var(0) + np.mean(noise**2)
    interval = None
    if probability is not None:
        levels = [(1 - probability) / 2, (1 + probability) / 2]
        errors = (_NOISE[None, :] * noise[:, None])[:, :, None]
        blocks = [
            np.quantile((block[:, None, :] + errors).reshape(-1, block.shape[1]), levels, axis=0)
            for block in np.split(per_draw, range(_BLOCK, per_draw.shape[1], _BLOCK), axis=1)
        ]
        interval = np.concatenate(blocks, axis=1)
    return Predictions(per_draw.mean(0), np.sqrt(variance), interval)


def draw_new_users(
    draws: Sequence[Draw], items: np.ndarray, values: np.ndarray, generator: np.random.Generator
) -> list[np.ndarray]:
    r"""A row for a user who was not there when the model was fitted, for each draw of the rest.

    Given items and hyperparameters the row is Gaussian: with Φ = (1, V_i) of the rated items, and their
    standardised ratings less b_i as y,

        precision P = Λ + τΦᵀΦ,   mean P⁻¹(Λμ + τΦᵀy).
    """
    rows = []
    for draw in draws:
        prior = draw.hyperparameters["users"]
        rated = draw.items[items].astype(float)
        features = np.concatenate([np.ones((len(items), 1)), rated[:, 1:]], axis=1)
        y = (np.asarray(values, float) - draw.mean) / draw.scale - rated[:, 0]
        precision = prior.precision + draw.noise_precision * features.T @ features
        force = prior.precision @ prior.mean + draw.noise_precision * features.T @ y
        root = np.linalg.cholesky(precision)
        noise = np.linalg.solve(root.T, generator.standard_normal(len(force)))
        rows.append(np.linalg.solve(precision, force) + noise)
    return rows
