"""Data sets in the files in which they are published. Nothing here needs JAX.

`read_ratings`, `read_features` and `mnist` read them. `fokker data` lists, downloads and checks those that
are known.
"""

import importlib
from typing import TYPE_CHECKING, Any

from fokker._core.names import no_attribute

if TYPE_CHECKING:
    from fokker.datasets.features import read_features
    from fokker.datasets.images import Images, mnist, read_idx
    from fokker.datasets.ratings import Ratings, read_ratings

__all__ = ["Images", "Ratings", "mnist", "read_features", "read_idx", "read_ratings"]

_HOMES = {
    "Images": "images",
    "Ratings": "ratings",
    "mnist": "images",
    "read_features": "features",
    "read_idx": "images",
    "read_ratings": "ratings",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:  # imported on demand, so that the command line starts without loading NumPy
        return getattr(importlib.import_module(f"fokker.datasets.{_HOMES[name]}"), name)
    raise no_attribute(__name__, name, __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
