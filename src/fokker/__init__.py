"""Bayesian inference by simulating stochastic dynamics: write D and Q, get a sampler, and check it."""

from importlib.metadata import version

from fokker import dynamics, fields, integrators, samplers
from fokker.checker import Report, check
from fokker.completion import Completion, complete
from fokker.dynamics import SDE, Dynamics
from fokker.hamiltonian import Hamiltonian

__version__ = version("fokker")

__all__ = [
    "SDE",
    "Completion",
    "Dynamics",
    "Hamiltonian",
    "Report",
    "check",
    "complete",
    "dynamics",
    "fields",
    "integrators",
    "samplers",
]
