"""Models with their own samplers."""

import importlib
from typing import TYPE_CHECKING, Any

from fokker._core.names import no_attribute

if TYPE_CHECKING:
    # Under their own names: checkers of types take that for public without reading `__all__`.
    from fokker.models.factorisation.estimator import Factorisation as Factorisation
    from fokker.models.network.estimator import Network as Network
    from fokker.models.topics.estimator import LDA as LDA

_HOMES = {"LDA": "topics", "Factorisation": "factorisation", "Network": "network"}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    # Imported on demand, so that the command line starts without loading JAX.
    if name in _HOMES:
        return getattr(importlib.import_module(f"fokker.models.{_HOMES[name]}.estimator"), name)
    raise no_attribute(__name__, name, __all__)
