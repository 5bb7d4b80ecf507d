"""Bayesian inference by simulating stochastic dynamics: write D and Q, get a sampler, and check it."""

from importlib.metadata import version

from fokker import constraints, diagnostics, dynamics, fields, gradients, integrators, samplers, schedules
from fokker.checker import Report, check
from fokker.completion import Completion, complete
from fokker.dynamics import SDE, Dynamics
from fokker.hamiltonian import Hamiltonian
from fokker.runner import sample
from fokker.targets import Density, Posterior, constrain, find_mode, from_numpyro, from_stan
from fokker.trace import Trace
from fokker.tuning import Tuning, tune

__version__ = version("fokker")

__all__ = [
    "SDE",
    "Completion",
    "Density",
    "Dynamics",
    "Hamiltonian",
    "Posterior",
    "Report",
    "Trace",
    "Tuning",
    "check",
    "complete",
    "constrain",
    "constraints",
    "diagnostics",
    "dynamics",
    "fields",
    "find_mode",
    "from_numpyro",
    "from_stan",
    "gradients",
    "integrators",
    "sample",
    "samplers",
    "schedules",
    "tune",
]
