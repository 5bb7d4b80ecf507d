"""Starts whose dynamics are known to be right by their settings: the checks that are left out would pass."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.dynamics import Dynamics
from fokker.integrators import EulerMaruyama, ExactOU, Splitting, SymplecticEuler
from fokker.samplers.of_dynamics import OfDynamics, may_start

THETA = {"a": jnp.ones((2, 2)), "b": jnp.zeros(3)}
KEY = jax.random.key(0)
NORMAL = fk.Density(lambda theta: -sum(jnp.sum(x**2) for x in jax.tree.leaves(theta)) / 2)
FIELD = fk.fields.Diagonal(jax.tree.map(jnp.ones_like, THETA))


def sampler(name, *settings, **given):
    return getattr(fk.samplers, name)(0.01, *settings, **given).on(NORMAL)


NUMBERS = (0.03, jnp.float32(2.0), np.float64(40.0), 3)
KNOWN = [
    *(sampler("sgld", D, integrator=EulerMaruyama()) for D in NUMBERS),
    *(
        sampler(name, *numbers, integrator=integrator, **kind)
        for name, kind in (("sghmc", {}), ("sgnht", {}), ("sgnht", {"kind": "diagonal"}))
        for integrator in (SymplecticEuler(), Splitting(), EulerMaruyama())
        for numbers in itertools.islice(itertools.permutations(NUMBERS, 2), 0, None, 5)
    ),
    sampler("sghmc", resample=5),
    sampler("sgnht", resample=5, integrator=Splitting()),
]
UNKNOWN = [
    sampler("sgld", integrator=Splitting()),
    sampler("sgld", FIELD),
    sampler("sghmc", 0.0),
    sampler("sghmc", -1.0),
    sampler("sghmc", jnp.inf),
    sampler("sghmc", True),
    sampler("sghmc", FIELD),
    sampler("sghmc", integrator=ExactOU()),
    sampler("sghmc", integrator=Splitting("BAOAB")),
    sampler("sghmc", noise_estimate=0.1),
    sampler("sghmc", 1.0, jax.tree.map(jnp.ones_like, THETA)),
    sampler("sgnht", mass_matrix=jnp.arange(1.0, 8.0)),
    sampler("sgnht", kind="matrix"),
    sampler("sgnht", 1.0, -1.0),
]


@pytest.mark.parametrize("known", KNOWN[::4] + KNOWN[-2:], ids=str)
def test_what_settings_say_holds_by_all_checks(known):
    OfDynamics.check_start(known, THETA, KEY)


@pytest.mark.slow
def test_settings_that_say_enough_are_positive_numbers_and_no_drift_is_then_computed(monkeypatch):
    assert [may_start(x, THETA) for x in KNOWN] == [True] * len(KNOWN)
    assert [may_start(x, THETA) for x in UNKNOWN] == [False] * len(UNKNOWN)

    def drift(*_):
        raise AssertionError

    jax.clear_caches()  # what was traced before would not be traced again
    monkeypatch.setattr(Dynamics, "drift", drift)
    KNOWN[-1].check_start(THETA, KEY)
    with pytest.raises(AssertionError):
        OfDynamics.check_start(KNOWN[-1], THETA, KEY)


@pytest.mark.parametrize(
    ("given", "temperature", "message"),
    [
        (fk.samplers.sgnht(0.01), 0.0, "a thermostat needs a temperature above zero"),
        (fk.samplers.sgld(0.01, lambda theta: 1.0), 1.0, "a function does not show what kind of matrix"),
        (fk.samplers.sgnht(0.01, lambda theta: 1.0), 1.0, "must be one number, not function"),
        (fk.samplers.sgnht(0.01, thermostat_mass=1 + 0j), 1.0, "not one of type complex64"),
    ],
)
def test_settings_that_are_no_positive_numbers_are_named_before_a_step(given, temperature, message):
    with pytest.raises((TypeError, ValueError), match=message):
        given.on(NORMAL, temperature).check_start(THETA, KEY)


@pytest.mark.parametrize(
    ("given", "theta", "message"),
    [
        (sampler("sghmc", -1.0), THETA, "D must be positive semidefinite"),
        (sampler("sgld", -1.0), THETA, "D must be positive semidefinite"),
        (sampler("sghmc", 0.0, integrator=Splitting()), THETA, "solves friction and noise exactly"),
        (sampler("sgld", integrator=Splitting()), THETA, "this state or sampler is of another kind"),
        (sampler("sghmc"), {"a": jnp.ones(2), "b": jnp.array([0.0, jnp.nan])}, r"\['b'\] is not finite"),
        (sampler("sghmc"), {"a": jnp.full(2, 1e30)}, "the Hamiltonian is inf at this state"),
        (sampler("sgnht", mass_matrix=jnp.ones(7)), {"a": jnp.ones(2)}, "7"),
    ],
)
def test_a_start_is_refused_as_by_all_checks(given, theta, message):
    with pytest.raises(ValueError, match=message):
        given.check_start(theta, KEY)
    with pytest.raises(ValueError, match=message):
        given.init(theta, key=KEY)
