"""Integrators: one step of time for given dynamics, pure in the noise."""

from fokker.integrators._integrator import Integrator, StepInput
from fokker.integrators._proposal import Correctable, Point, Proposal
from fokker.integrators.euler_maruyama import EulerMaruyama
from fokker.integrators.exact_ou import ExactOU
from fokker.integrators.generalised_leapfrog import GeneralisedLeapfrog
from fokker.integrators.isokinetic import IsokineticLeapfrog
from fokker.integrators.leapfrog import Leapfrog
from fokker.integrators.random_walk import RandomWalk
from fokker.integrators.reflecting import Reflecting
from fokker.integrators.splitting import Splitting
from fokker.integrators.symplectic_euler import SymplecticEuler

__all__ = [
    "Correctable",
    "EulerMaruyama",
    "ExactOU",
    "GeneralisedLeapfrog",
    "Integrator",
    "IsokineticLeapfrog",
    "Leapfrog",
    "Point",
    "Proposal",
    "RandomWalk",
    "Reflecting",
    "Splitting",
    "StepInput",
    "SymplecticEuler",
]
