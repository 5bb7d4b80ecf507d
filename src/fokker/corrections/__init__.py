"""Corrections: the third factor of a sampler, which makes an integrator's steps keep their target exactly.

| correction | what it needs of an integrator |
| --- | --- |
| `None` | nothing; the step size leaves a bias |
| `Metropolis()` | the probability of a step over that of its way back: `EulerMaruyama` where D is invertible,
  `ExactOU` and `Splitting` of underdamped dynamics |
"""

from fokker.corrections.metropolis import DIVERGENT, Metropolis, metropolis

__all__ = ["DIVERGENT", "Metropolis", "metropolis"]
