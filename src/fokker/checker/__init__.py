"""Tests whether a sampler is correct: the stationary Fokker–Planck equation, by automatic differentiation."""

from fokker.checker._check import check
from fokker.checker._report import Report

__all__ = ["Report", "check"]
