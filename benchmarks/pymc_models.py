"""Four models of PyMC that people write first, for `benchmarks/nuts.py`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm

from fokker.posteriors.eight_schools import EFFECTS, ERRORS

COUNTIES, HOUSES = 85, 919


def eight_schools() -> Any:
    """Rubin's eight schools, not centred: 10 parameters."""
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        eta = pm.Normal("eta", 0, 1, shape=EFFECTS.size)
        pm.Normal("y", mu + tau * eta, ERRORS, observed=EFFECTS)
    return model


def radon() -> Any:
    """A regression whose intercept varies by county, not centred: 89 parameters."""
    generator = np.random.default_rng(0)
    county = np.append(np.arange(COUNTIES), generator.integers(0, COUNTIES, HOUSES - COUNTIES))
    floor = (generator.uniform(size=HOUSES) < 0.2).astype(float)
    intercepts = 1.5 + 0.3 * generator.normal(size=COUNTIES)
    y = intercepts[county] - 0.7 * floor + 0.75 * generator.normal(size=HOUSES)
    with pm.Model() as model:
        mu, beta = pm.Normal("mu", 0, 10), pm.Normal("beta", 0, 10)
        tau, sigma = pm.HalfNormal("tau", 1), pm.HalfNormal("sigma", 1)
        eta = pm.Normal("eta", 0, 1, shape=COUNTIES)
        pm.Normal("y", mu + tau * eta[county] + beta * floor, sigma, observed=y)
    return model


def normal() -> Any:
    """Independent normals with deviations from 0.5 to 2: 100 parameters."""
    with pm.Model() as model:
        pm.Normal("x", 0, np.linspace(0.5, 2, 100), shape=100)
    return model


def logistic_regression() -> Any:
    """1,000 rows of 25 columns."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1000, 25))
    chance = 1 / (1 + np.exp(-X @ generator.normal(size=25) / 3))
    y = (generator.uniform(size=1000) < chance).astype(int)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=25)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model


MODELS: dict[str, Callable[[], Any]] = {
    "pymc_eight_schools": eight_schools,
    "pymc_radon": radon,
    "pymc_normal": normal,
    "pymc_logistic": logistic_regression,
}
