"""Models with their own samplers."""

import importlib
from typing import TYPE_CHECKING, Any

from fokker._core.names import no_attribute

if TYPE_CHECKING:
    from fokker.models.factorisation.estimator import Factorisation
    from fokker.models.network.estimator import Network
    from fokker.models.topics.estimator import LDA

__all__ = ["LDA", "Factorisation", "Network"]
_HOMES = {"LDA": "topics", "Factorisation": "factorisation", "Network": "network"}


def __getattr__(name: str) -> Any:
    # Imported on demand, so that the command line starts without loading JAX.
    if name in __all__:
        return getattr(importlib.import_module(f"fokker.models.{_HOMES[name]}.estimator"), name)
    raise no_attribute(__name__, name, __all__)
