"""Dynamics: stochastic differential equations of the state, independent of the integrator."""

from fokker.dynamics._dynamics import Dynamics
from fokker.dynamics._sde import SDE
from fokker.dynamics.isokinetic import isokinetic
from fokker.dynamics.langevin import langevin
from fokker.dynamics.riemann import riemann
from fokker.dynamics.thermostat import diagonal_thermostat, matrix_thermostat, thermostat
from fokker.dynamics.underdamped import hamiltonian_flow, underdamped

__all__ = [
    "SDE",
    "Dynamics",
    "diagonal_thermostat",
    "hamiltonian_flow",
    "isokinetic",
    "langevin",
    "matrix_thermostat",
    "riemann",
    "thermostat",
    "underdamped",
]
