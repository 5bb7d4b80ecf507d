"""Targets: what is sampled, as a potential U(theta) = -log p(theta)."""

from fokker.targets.constrained import Constrained, constrain
from fokker.targets.density import Density
from fokker.targets.mode import find_mode
from fokker.targets.numpyro_model import from_numpyro
from fokker.targets.posterior import Posterior
from fokker.targets.stan_model import from_stan

__all__ = ["Constrained", "Density", "Posterior", "constrain", "find_mode", "from_numpyro", "from_stan"]
