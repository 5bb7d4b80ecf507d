"""NUTS with no settings given, on classic posteriors whose answers come from elsewhere."""

import arviz
import numpy as np
import pytest

import fokker as fk
from fokker.posteriors import POSTERIORS

# A hierarchy and a hundred dimensions by default; the others at length.
QUICK = {"eight_schools_noncentred"}
# What needs more than the defaults: smaller steps, and more of them.
SETTINGS = {
    "poisson_process": ({"target_accept": 0.95}, 4000),
    "funnel": ({"target_accept": 0.995, "mass_matrix": "identity"}, 10_000),
    "eight_schools_centred": ({"target_accept": 0.99}, 10_000),
}
# NUTS gets through the neck of a funnel rarely, however it is set.
R_HAT = {"funnel": 1.05, "eight_schools_centred": 1.05}


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in POSTERIORS]
)
def test_nuts_finds_the_posterior(name):
    """Means within 0.1 standard deviations, standard deviations within 10 %, R-hat under 1.01.

    With 1500 effective draws or more a mean is off by 0.1 with probability 1e-4.
    """
    posterior = POSTERIORS[name]()
    options, steps = SETTINGS.get(name, ({}, 2000))
    sampler = fk.samplers.nuts(**options)
    trace = fk.sample(posterior.target, sampler, init=posterior.init, steps=steps, chains=4, progress=False)
    names, values = trace.flat()
    values = np.asarray(values[:, :, [names.index(scalar) for scalar in posterior.reference]], float)
    mean, sd = np.array(list(posterior.reference.values())).T
    assert np.max(np.abs(values.mean(axis=(0, 1)) - mean) / sd) < 0.1
    assert np.max(np.abs(values.std(axis=(0, 1)) / sd - 1)) < 0.1
    assert float(np.max(arviz.rhat(arviz.convert_to_dataset(values))["x"])) < R_HAT.get(name, 1.01)


@pytest.mark.long("calibration::a_temperature_of_six_fifths_is_found")
def test_a_wrong_temperature_is_seen():
    """The control: the same test on exp(-U/1.3), whose standard deviations are 14 % too large."""
    posterior = POSTERIORS["correlated_normal_2"]()
    sampler = fk.samplers.nuts()
    options = {"init": posterior.init, "steps": 2000, "chains": 4, "progress": False}
    trace = fk.sample(posterior.target, sampler, temperature=1.3, **options)
    names, values = trace.flat()
    sd = np.array([posterior.reference[name][1] for name in names])
    assert np.max(np.abs(values.std(axis=(0, 1)) / sd - 1)) > 0.1
