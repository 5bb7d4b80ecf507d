"""The ratings and draws of a factorisation as arrays, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fokker.datasets.ratings import Ratings
from fokker.models.estimator import as_json
from fokker.models.factorisation.chain import TABLES, Draw
from fokker.models.factorisation.hyperparameters import Hyperparameters

_NUMBERS = ("users", "items", "values")
_NAMES = ("user_names", "item_names", "titles")


def ratings_state(ratings: Ratings) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Identifiers that are objects, such as text of a data frame, for JSON; and all others as arrays."""
    columns = {name: getattr(ratings, name) for name in (*_NUMBERS, *_NAMES)}
    arrays = {name: np.asarray(x) for name, x in columns.items() if x is not None}
    objects = {name: as_json(x) for name, x in arrays.items() if x.dtype.kind == "O"}
    return objects, {name: x for name, x in arrays.items() if name not in objects}


def restored_ratings(objects: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Ratings:
    """The ratings of a `ratings_state`."""
    columns = {**arrays, **{name: np.asarray(x, dtype=object) for name, x in objects.items()}}
    return Ratings(**columns)


def draws_state(draws: Sequence[Draw]) -> dict[str, np.ndarray]:
    """All draws, along the first axis of each array."""
    return {
        **{name: np.stack([getattr(draw, name) for draw in draws]) for name in TABLES},
        **{
            f"{name}.{part}": np.stack([getattr(draw.hyperparameters[name], part) for draw in draws])
            for name in TABLES
            for part in Hyperparameters._fields
        },
        "numbers": np.array([(draw.noise_precision, draw.mean, draw.scale) for draw in draws]),
    }


def restored_draws(arrays: Mapping[str, np.ndarray]) -> list[Draw]:
    """The draws of a `draws_state`."""
    return [
        Draw(
            arrays["users"][i],
            arrays["items"][i],
            {
                name: Hyperparameters(*(arrays[f"{name}.{part}"][i] for part in Hyperparameters._fields))
                for name in TABLES
            },
            *(float(x) for x in numbers),
        )
        for i, numbers in enumerate(arrays["numbers"])
    ]
