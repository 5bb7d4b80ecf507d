"""Plausible single mistakes, each of which some test must notice; `make mutate` tries them."""

import importlib
import pkgutil

from mutations._mutation import Mutation

# A file for each part of the library.
_PARTS = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]

ALL: list[Mutation] = [
    mutation for part in _PARTS for mutation in importlib.import_module(f"mutations.{part}").MUTATIONS
]

__all__ = ["ALL", "Mutation"]
