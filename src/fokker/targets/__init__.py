"""Targets: the densities to sample from, each given by its potential U(theta) = -log p(theta)."""

from fokker.targets.bambi_model import from_bambi
from fokker.targets.constrained import Constrained, constrain
from fokker.targets.density import Density
from fokker.targets.mode import find_mode
from fokker.targets.numpyro_model import from_numpyro
from fokker.targets.posterior import Posterior
from fokker.targets.pymc_model import from_pymc
from fokker.targets.stan_model import from_stan
from fokker.targets.tables import Table, tables
from fokker.targets.target import Target, TargetWithData

__all__ = [
    "Constrained",
    "Density",
    "Posterior",
    "Table",
    "Target",
    "TargetWithData",
    "constrain",
    "find_mode",
    "from_bambi",
    "from_numpyro",
    "from_pymc",
    "from_stan",
    "tables",
]
