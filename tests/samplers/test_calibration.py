"""Simulation-based calibration: true values rank uniformly among draws from their posteriors.

Where the parameters are drawn from the prior and the data from the model, the rank of the true value among
draws from the posterior is uniform (Talts et al. 2018). Each of 2048 replications has parameters, data and a
chain of its own, all in one compiled program. Of every parameter, and of the log likelihood of all the data,
the true value is ranked among 15 draws, far enough apart to be nearly independent, and the 16 ranks, two by
two, are tried for uniformity by χ² at a false-alarm rate of 1e-6 each: 3e-5 for all 24 of this file. The log
likelihood is there because parameters drawn from the prior rank uniformly too (Modrák et al. 2023).

What this cannot see: one test finds the mean of a normal posterior 0.1 standard deviations off with
probability 0.05, 0.2 with 0.99; the standard deviation 10 % too large with 0.05 or too small with 0.14, 20 %
with 0.97 and more. The log likelihood finds a temperature 10 % too high with probability 0.1 (three
parameters) to 0.9 (seven), 20 % with 0.99 and more. The bias by the steps that are taken here is well below
that: over eight times as many replications the log likelihood puts the temperature within 1 % of the right
one, with a standard error of 1 %, and the correlation left between the draws widens the ranks' variance by
3 % at most.
"""

import importlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fokker as fk
from fokker import samplers
from fokker.batches import Batches
from fokker.integrators import Splitting
from marks import long_case

pytestmark = pytest.mark.usefixtures("optimised")

REPLICATIONS = 2048
DRAWS = 15
BINS = 8
# As many draws at the start of a chain are thrown away.
WARM_UP = 8
FALSE_ALARM = 1e-6


# Models -----------------------------------------------------------------------------------------------------


def log_normal(x, deviation=1.0):
    """log N(x; 0, deviation²), up to a constant."""
    return -jnp.sum((x / deviation) ** 2) / 2


class Logistic:
    """y = ±1 with odds exp(±xᵀθ), θ ~ N(0, 1) in each of three coefficients."""

    names = ("theta[0]", "theta[1]", "theta[2]")
    size = 60

    def parameters(self, key):
        return jax.random.normal(key, (3,))

    def data(self, key, theta):
        x_key, y_key = jax.random.split(key)
        x = jax.random.normal(x_key, (self.size, 3))
        return {"x": x, "y": jnp.where(jax.random.bernoulli(y_key, jax.nn.sigmoid(x @ theta)), 1.0, -1.0)}

    def log_prior(self, theta):
        return log_normal(theta)

    def log_likelihood(self, theta, datum):
        return jax.nn.log_sigmoid(datum["y"] * (datum["x"] @ theta))


class Hierarchical:
    """y ~ N(mu + tau z[group], 1), z ~ N(0, 1), mu ~ N(0, 1), log tau ~ N(0, 0.4²), five unequal groups."""

    names = ("log_tau", "mu", "z[0]", "z[1]", "z[2]", "z[3]", "z[4]")
    group = np.repeat(np.arange(5), [2, 3, 4, 5, 6])
    size = group.size

    def parameters(self, key):
        keys = jax.random.split(key, 3)
        return {
            "mu": jax.random.normal(keys[0]),
            "log_tau": 0.4 * jax.random.normal(keys[1]),
            "z": jax.random.normal(keys[2], (5,)),
        }

    def mean(self, theta, group):
        return theta["mu"] + jnp.exp(theta["log_tau"]) * theta["z"][group]

    def data(self, key, theta):
        noise = jax.random.normal(key, (self.size,))
        return {"group": self.group, "y": self.mean(theta, self.group) + noise}

    def log_prior(self, theta):
        return log_normal(theta["mu"]) + log_normal(theta["log_tau"], 0.4) + log_normal(theta["z"])

    def log_likelihood(self, theta, datum):
        return log_normal(datum["y"] - self.mean(theta, datum["group"]))


# Ranks ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """A model and a sampler of it: `thin` steps a draw, on batches of so many rows or on all."""

    model: Any
    sampler: Any
    thin: int
    batch_size: int | None = None


CASES = {
    "hierarchical, whole gradients": Case(
        Hierarchical(), samplers.sghmc(0.05, 2.5, integrator=Splitting()), thin=80
    ),
    "logistic, thermostat": Case(
        Logistic(),
        samplers.sgnht(0.04, 2.5, 0.1, kind="diagonal", integrator=Splitting()),
        thin=40,
        batch_size=10,
    ),
    "logistic, noise estimated": Case(
        Logistic(), samplers.sghmc(0.04, 4.0, noise_estimate="diagonal"), thin=40, batch_size=10
    ),
    # Five steps a draw are too few: the log likelihood is then correlated enough to push its ranks outwards.
    "logistic, hmc": Case(Logistic(), samplers.hmc(0.45, 2), thin=20),
    "logistic, nuts": Case(Logistic(), samplers.nuts(0.5, np.array([0.8, 1.0, 1.3]), max_depth=3), thin=12),
}
UNCORRECTED = Case(Logistic(), samplers.sghmc(0.04, 4.0), thin=40, batch_size=10)


def ranked(model, theta, data):
    """What is ranked: every parameter, and the log likelihood of all the data."""
    likelihoods = jax.vmap(model.log_likelihood, (None, 0))(theta, data)
    return jnp.concatenate([*(jnp.ravel(x) for x in jax.tree.leaves(theta)), jnp.sum(likelihoods)[None]])


# XLA's last optimisations take longer than they save here; the option is not a promise of XLA's.
OPTIONS: dict[str, Any] = {"xla_backend_optimization_level": 1}
try:
    jax.jit(lambda x: x, compiler_options=OPTIONS)(0.0)
except Exception:
    OPTIONS = {}


# All but the case is traced: a control runs the same program.
@partial(jax.jit, static_argnums=0, compiler_options=OPTIONS)
def ranks(case, seed, temperature, counted):
    """The rank of every true value among the draws, and whether every step was sound; by replication.

    `counted`: what the likelihood of a datum is raised to.
    """
    model = case.model

    def log_likelihood(theta, datum):
        return counted * model.log_likelihood(theta, datum)

    def replicate(key):
        truth_key, data_key, start_key, run_key = jax.random.split(key, 4)
        truth = model.parameters(truth_key)
        target = fk.Posterior(model.log_prior, log_likelihood, model.data(data_key, truth))
        sampler = case.sampler.on(target, temperature)

        def step(carry, _):
            state, sound = carry
            step_key, row_key = jax.random.split(state.step.fold_into(run_key))
            batch = None
            if case.batch_size is not None:
                batches = Batches(target.size, case.batch_size, "replacement")
                batch = batches.batch(target.data, batches.rows(run_key, row_key, 0, 0))
            state, info = sampler.step(step_key, state, batch)
            return (
                state,
                sound
                & info.is_finite
                & (True if info.noise_shortfall is None else info.noise_shortfall >= 0),
            ), None

        def draw(carry, _):
            carry, _ = jax.lax.scan(step, carry, length=case.thin)
            return carry, ranked(model, carry[0].position, target.data)

        state = sampler.init(jax.tree.map(jnp.zeros_like, truth), key=start_key)
        (_, sound), draws = jax.lax.scan(draw, (state, jnp.asarray(True)), length=WARM_UP + DRAWS)
        return jnp.sum(draws[WARM_UP:] < ranked(model, truth, target.data)[None, :], axis=0), sound

    return jax.vmap(replicate)(jax.random.split(jax.random.key(seed), REPLICATIONS))


def p_values(case, seed=0, temperature=1.0, counted=1.0):
    """Of uniform ranks, by χ², for everything that is ranked."""
    found, sound = ranks(case, seed, temperature, counted)
    assert bool(jnp.all(sound))
    bins = np.asarray(found) * BINS // (DRAWS + 1)
    counts = np.stack([np.bincount(column, minlength=BINS) for column in bins.T])
    names = (*case.model.names, "log likelihood")
    return dict(zip(names, stats.chisquare(counts, axis=1).pvalue, strict=True))


# The others repeat with another sampler what this one shows.
QUICK = ("hierarchical, whole gradients",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        n if n in QUICK else long_case("calibration::the_true_values_rank_uniformly_among_the_draws", n)
        for n in CASES
    ],
)
def test_the_true_values_rank_uniformly_among_the_draws(name):
    found = p_values(CASES[name])
    assert min(found.values()) > FALSE_ALARM, found


# The same test of what is wrong on purpose ------------------------------------------------------------------


@pytest.mark.slow
def test_a_temperature_of_six_fifths_is_found():
    found = p_values(CASES["hierarchical, whole gradients"], temperature=1.2)
    assert min(found.values()) < FALSE_ALARM, found


@pytest.mark.long("calibration::a_temperature_of_six_fifths_is_found")
def test_a_forgotten_number_of_data_is_found():
    """(N/n) Σ (n/N) log p(x|θ): a batch that counts for itself alone. By every coefficient."""
    case = CASES["logistic, thermostat"]
    found = p_values(case, counted=case.batch_size / case.model.size)
    assert max(found.values()) < FALSE_ALARM, found


@pytest.mark.long("calibration::a_temperature_of_six_fifths_is_found")
def test_draws_that_know_nothing_of_the_data_are_found_by_the_likelihood():
    found = p_values(CASES["logistic, thermostat"], counted=0.0)
    assert found["log likelihood"] < FALSE_ALARM, found


@pytest.mark.long("calibration::a_temperature_of_six_fifths_is_found")
def test_minibatch_noise_that_is_not_made_up_for_is_found():
    """The sampler of "logistic, noise estimated" without the estimate: theta is about a quarter too hot."""
    found = p_values(UNCORRECTED)
    assert found["log likelihood"] < FALSE_ALARM, found


@pytest.mark.long("calibration::a_temperature_of_six_fifths_is_found")
def test_paths_that_are_never_rejected_are_found(monkeypatch):
    """The sampler of "logistic, hmc" without its Metropolis step."""
    module = importlib.import_module("fokker.corrections.metropolis")
    right = module.metropolis_rule
    always = lambda u, change, sound: right(u, jnp.minimum(change, 0.0), sound)  # noqa: E731
    monkeypatch.setattr(module, "metropolis_rule", always)
    case = CASES["logistic, hmc"]
    found = p_values(Case(case.model, case.sampler, case.thin))
    assert found["log likelihood"] < FALSE_ALARM, found


@pytest.mark.long("calibration::a_temperature_of_six_fifths_is_found")
def test_a_temperature_of_four_thirds_is_found_in_trees():
    found = p_values(CASES["logistic, nuts"], temperature=4 / 3)
    assert min(found.values()) < FALSE_ALARM, found
