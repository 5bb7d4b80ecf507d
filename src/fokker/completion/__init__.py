"""Completing a sampler: the skew Q of a drift (Ma, Chen, Fox 2015, Theorem 2)."""

from fokker.completion._complete import complete
from fokker.completion._completion import Completion

__all__ = ["Completion", "complete"]
