"""The ratings and draws of a factorisation as arrays, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fokker.datasets.ratings import Ratings
from fokker.models.factorisation.chain import TABLES, Draw
from fokker.models.factorisation.features import Features, no_covariates
from fokker.models.factorisation.hyperparameters import Hyperparameters, Noise, equal_noise
from fokker.models.labels import joined_labels, split_labels

_NUMBERS = ("users", "items", "values")
_NAMES = ("user_names", "item_names", "titles")


def ratings_state(ratings: Ratings) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Identifiers that are objects, such as text of a data frame, for JSON; and all others as arrays."""
    columns = {name: getattr(ratings, name) for name in (*_NUMBERS, *_NAMES)}
    return split_labels({name: np.asarray(x) for name, x in columns.items() if x is not None})


def restored_ratings(objects: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Ratings:
    """The ratings of a `ratings_state`."""
    return Ratings(**joined_labels(objects, arrays))


def draws_state(draws: Sequence[Draw]) -> dict[str, np.ndarray]:
    """All draws, along the first axis of each array."""
    return {
        **{name: np.stack([getattr(draw, name) for draw in draws]) for name in TABLES},
        **{
            f"{name}.{part}": np.stack([getattr(draw.hyperparameters[name], part) for draw in draws])
            for name in TABLES
            for part in Hyperparameters._fields
        },
        "noise": np.stack([draw.noise.precision for draw in draws]),
        "numbers": np.array([(draw.noise.shape, draw.noise.rate, draw.mean, draw.scale) for draw in draws]),
    }


def restored_draws(arrays: Mapping[str, np.ndarray]) -> list[Draw]:
    """The draws of a `draws_state`."""
    return [
        Draw(
            arrays["users"][i],
            arrays["items"][i],
            {
                # An older file has no links to features.
                name: Hyperparameters(
                    **{
                        p: arrays[f"{name}.{p}"][i]
                        for p in Hyperparameters._fields
                        if f"{name}.{p}" in arrays
                    }
                )
                for name in TABLES
            },
            _restored_noise(arrays, i),
            *(float(x) for x in numbers[-2:]),
        )
        for i, numbers in enumerate(arrays["numbers"])
    ]


def features_state(features: Mapping[str, Features]) -> dict[str, np.ndarray]:
    """The columns of features of both tables, and what was learned of them."""
    return {
        f"{name}.{part}": np.asarray(x) for name, f in features.items() for part, x in f._asdict().items()
    }


def restored_features(arrays: Mapping[str, np.ndarray]) -> dict[str, Features]:
    """Those of a `features_state`; an older file has none."""
    if not arrays:
        return {name: no_covariates(0).features for name in TABLES}
    by_name = {name: {part: arrays[f"{name}.{part}"] for part in Features._fields} for name in TABLES}
    columns = {name: tuple(str(x) for x in parts.pop("columns")) for name, parts in by_name.items()}
    return {name: Features(columns[name], **parts) for name, parts in by_name.items()}


def _restored_noise(arrays: Mapping[str, np.ndarray], number: int) -> Noise:
    numbers = arrays["numbers"][number]
    if "noise" not in arrays:  # an older file has one τ for all users
        return equal_noise(float(numbers[0]), arrays["users"].shape[1])
    return Noise(arrays["noise"][number], float(numbers[0]), float(numbers[1]))
