"""Corrections: the third factor of a sampler, which makes an integrator's steps keep their target exactly.

| correction | what it needs from an integrator |
| --- | --- |
| `None` | nothing; the step size leaves a bias |
| `Metropolis()` | the probability of a step over that of its way back: `EulerMaruyama` where D is invertible,
  `ExactOU` and `Splitting` of underdamped dynamics, `Leapfrog` of Hamiltonian dynamics |
| `Tree()` | steps without noise that lead back and keep volume: `Leapfrog`, `GeneralisedLeapfrog` |
"""

from fokker.corrections._correction import DIVERGENT, Correction, Outcome, Step, Visited, metropolis_rule
from fokker.corrections.metropolis import Metropolis
from fokker.corrections.naive_tree import NaiveTree
from fokker.corrections.tree import Tree

__all__ = [
    "DIVERGENT",
    "Correction",
    "Metropolis",
    "NaiveTree",
    "Outcome",
    "Step",
    "Tree",
    "Visited",
    "metropolis_rule",
]
