"""Models with their own samplers."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fokker.models.factorisation.estimator import Factorisation
    from fokker.models.lda.estimator import LDA

__all__ = ["LDA", "Factorisation"]

_HOMES = {"LDA": "lda.estimator", "Factorisation": "factorisation.estimator"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:  # imported on demand, so that the command line starts without loading JAX
        return getattr(importlib.import_module(f"fokker.models.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'fokker.models' has no attribute {name!r}")
