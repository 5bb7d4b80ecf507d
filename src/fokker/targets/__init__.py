"""Targets: what is sampled, as a potential U(theta) = -log p(theta)."""

from fokker.targets.control_variates import ControlVariates, find_mode
from fokker.targets.density import Density
from fokker.targets.posterior import Posterior

__all__ = ["ControlVariates", "Density", "Posterior", "find_mode"]
