"""Classic posteriors with known answers, to try samplers on: `POSTERIORS[name]()`.

Each has a target, a function that draws where to start, and mean and standard deviation of its scalars that
do not come from this library's samplers: exact, by quadrature, or by importance sampling
(`benchmarks/references.py`).
"""

import functools
from collections.abc import Callable

from fokker.posteriors._classic import ClassicPosterior
from fokker.posteriors.autoregression import autoregression
from fokker.posteriors.correlated_normal import correlated_normal
from fokker.posteriors.eight_schools import eight_schools_centred, eight_schools_noncentred
from fokker.posteriors.funnel import funnel
from fokker.posteriors.garch import garch
from fokker.posteriors.gaussian_mixture import gaussian_mixture
from fokker.posteriors.hierarchical_linear import hierarchical_linear
from fokker.posteriors.logistic_regression import logistic_regression
from fokker.posteriors.lotka_volterra import lotka_volterra
from fokker.posteriors.poisson_process import poisson_process

POSTERIORS: dict[str, Callable[[], ClassicPosterior]] = {
    "eight_schools_centred": eight_schools_centred,
    "eight_schools_noncentred": eight_schools_noncentred,
    "funnel": funnel,
    "correlated_normal_2": functools.partial(correlated_normal, 2),
    "correlated_normal_100": functools.partial(correlated_normal, 100),
    "logistic_regression": logistic_regression,
    "gaussian_mixture": gaussian_mixture,
    "autoregression": autoregression,
    "garch": garch,
    "poisson_process": poisson_process,
    "lotka_volterra": lotka_volterra,
    "hierarchical_linear": hierarchical_linear,
}

__all__ = [
    "POSTERIORS",
    "ClassicPosterior",
    "autoregression",
    "correlated_normal",
    "eight_schools_centred",
    "eight_schools_noncentred",
    "funnel",
    "garch",
    "gaussian_mixture",
    "hierarchical_linear",
    "logistic_regression",
    "lotka_volterra",
    "poisson_process",
]
