"""Is a sampler right? The stationary Fokker–Planck equation, checked by automatic differentiation."""

from fokker.checker._check import check
from fokker.checker._report import Report

__all__ = ["Report", "check"]
