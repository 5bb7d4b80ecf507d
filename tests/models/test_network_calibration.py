"""Simulation-based calibration of `fk.models.Network`: its prior, likelihood, settings and steps together.

Weights are drawn from the prior of the model and y from its likelihood. Among draws of the fit to them the
true values rank uniformly (Talts et al. 2018). Single weights are not ranked, as hidden units can be
exchanged. What is ranked does not depend on that: the output at three inputs, the log likelihood of the
data, and |θ/s|², the squares of the weights in units of their prior. Ranks among 15 draws, two by two, are
tried for uniformity by χ² at a false-alarm rate of 1e-6 for each quantity: 2e-5 for all 20 of this file.

A regression is sampled without scaling y: a fit scales it to mean 0 and standard deviation 1, and its prior
then depends on the data, which simulation-based calibration cannot take. The classifier is fitted by the
estimator too.

The learning rates are below the default ones and the momentum is above, as the default ones are biased with
minibatches, in proportion to learning_rate/(1 - momentum): docs/networks.md has figures.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fokker as fk
from fokker.batches import Batches
from fokker.models import Network
from fokker.models.network.training import NetworkPosterior
from marks import long_case

pytestmark = pytest.mark.usefixtures("optimised")

X = np.random.default_rng(0).normal(size=(24, 1)).astype(np.float32)
PROBES = np.array([[-1.5], [0.0], [1.0]], np.float32)
NAMES = ("f(-1.5)", "f(0)", "f(1)", "log likelihood", "square")
DRAWS = 15
BINS = 8
FALSE_ALARM = 1e-6


@dataclass(frozen=True, eq=False)
class Case:
    """A network, with steps of the warm start, of burn-in and between draws, and the number of data sets."""

    network: Network
    warm_start: int
    burn_in: int
    thin: int
    replications: int

    @cached_property
    def problem(self) -> NetworkPosterior:
        """The posterior that a fit makes, without the data. This y has mean 0 and deviation 1."""
        self.network._new_targets(np.resize([-1.0, 1.0], len(X)), len(X), None)
        self.network._seed = self.network.random_state
        return self.network._new_posterior(X[0], self.network.chains, self.network._seed)


CASES = {
    # Every step sees all rows, as there are fewer than the default batch size.
    "regression": Case(
        Network([2], likelihood="gaussian", noise_scale=0.5, prior=0.7, learning_rate=0.003, momentum=0.99),
        warm_start=300,
        burn_in=1200,
        thin=300,
        replications=1024,
    ),
    "classification": Case(
        Network([2], learning_rate=0.001, momentum=0.99, batch_size=8),
        warm_start=300,
        burn_in=4800,
        thin=1200,
        replications=1024,
    ),
    "linear classification": Case(
        Network([], prior=1.0, learning_rate=0.03, momentum=0.99),
        warm_start=0,
        burn_in=400,
        thin=100,
        replications=512,
    ),
}


def outputs(problem, theta):
    """f at the probes; of a classifier the log odds."""
    f = jax.vmap(lambda x: problem.network.apply(theta["weights"], x))(PROBES)
    return f[:, 0] if f.shape[1] == 1 else f[:, 1] - f[:, 0]


def ranked(problem, theta, data):
    """What is ranked, in the order of NAMES."""
    log_likelihood = problem.log_likelihood(jax.tree.map(lambda _: None, problem.scales))
    total = jnp.sum(jax.vmap(log_likelihood, (None, 0))(theta, data))
    squares = jax.tree.map(lambda x, s: jnp.sum((x / s) ** 2), theta["weights"], problem.scales)
    return jnp.concatenate([outputs(problem, theta), total[None], sum(jax.tree.leaves(squares))[None]])


def first_weights(problem):
    """The initial weights of the first chain."""
    return jax.tree.map(lambda x: x[0], problem.network.starts)


def simulated(problem, key, prior_factor, noise_factor):
    """Weights from the prior, and y given them; the factors are for controls."""
    weights_key, data_key = jax.random.split(key)
    leaves, structure = jax.tree.flatten(first_weights(problem))
    keys = jax.random.split(weights_key, len(leaves))
    scales = jax.tree.leaves(problem.scales)
    weights = [
        prior_factor * s * jax.random.normal(k, x.shape) for k, x, s in zip(keys, leaves, scales, strict=True)
    ]
    theta = {"weights": jax.tree.unflatten(structure, weights)}
    f = jax.vmap(lambda x: problem.network.apply(theta["weights"], x))(X)
    if problem.likelihood == "categorical":
        return theta, jax.random.categorical(data_key, f)
    deviation = noise_factor * jnp.asarray(problem.noise_scale)[None, :]
    return theta, f + deviation * jax.random.normal(data_key, f.shape)


def steps(sampler, target, temperature, position, key, batch_size):
    """A function that goes on by so many steps, and its first argument: a state, and whether all is sound."""
    placed = sampler.on(target, temperature)
    batches = Batches(len(X), batch_size, "replacement") if batch_size < len(X) else None

    def step(carry, _):
        state, sound = carry
        step_key, row_key = jax.random.split(state.step.fold_into(key))
        batch = None
        if batches is not None:
            batch = batches.batch(target.data, batches.rows(key, row_key, 0, 0))
        state, info = placed.step(step_key, state, batch)
        return (state, sound & info.is_finite), None

    def advance(carry, length):
        return jax.lax.scan(step, carry, length=length)[0]

    return advance, (placed.init(position, key=jax.random.fold_in(key, 1)), jnp.asarray(True))


# XLA's last optimisations take longer than they save here; the option is not a promise of XLA's.
OPTIONS: dict[str, Any] = {"xla_backend_optimization_level": 1}
try:
    jax.jit(lambda x: x, compiler_options=OPTIONS)(0.0)
except Exception:
    OPTIONS = {}


# All but the case is traced: a control runs the same program.
@partial(jax.jit, static_argnums=0, compiler_options=OPTIONS)
def ranks(case, seed, temperature, counted, prior_factor, noise_factor):
    """The rank of every true value among the draws, and whether every step was finite; by data set.

    `counted`: what the likelihood of a row is raised to.
    """
    problem, settings = case.problem, case.network._step_settings()
    batch_size = case.network._lengths(len(X)).batch_size
    everything = jax.tree.map(lambda _: True, problem.scales)
    nothing = jax.tree.map(lambda _: None, problem.scales)
    unused = 1.0  # the curvature, as a learning rate is given

    def replicate(key):
        truth_key, warm_key, run_key = jax.random.split(key, 3)
        truth, y = simulated(problem, truth_key, prior_factor, noise_factor)
        data = {"x": jnp.asarray(X), "y": y}
        whole = problem.target(data, everything, nothing)
        target = fk.Posterior(
            whole.log_prior, lambda theta, datum: counted * whole.log_likelihood(theta, datum), data
        )
        position, warm_sound = {"weights": first_weights(problem)}, True
        if case.warm_start:
            warm_start = settings.warm_start(len(X), unused, case.warm_start)
            advance, carry = steps(warm_start, target, 0.0, position, warm_key, batch_size)
            warm, warm_sound = advance(carry, case.warm_start)
            position = warm.position
        sampler = settings.make(len(X), unused, 0)
        advance, carry = steps(sampler, target, temperature, position, run_key, batch_size)

        def draw(carry, _):
            carry = advance(carry, case.thin)
            return carry, ranked(problem, carry[0].position, data)

        (_, sound), draws = jax.lax.scan(draw, carry, length=case.burn_in // case.thin + DRAWS)
        below = draws[-DRAWS:] < ranked(problem, truth, data)[None, :]
        return jnp.sum(below, axis=0), sound & warm_sound

    return jax.vmap(replicate)(jax.random.split(jax.random.key(seed), case.replications))


def of_uniform(found):
    """The p-values of uniform ranks, by χ², for everything that is ranked."""
    bins = np.asarray(found) * BINS // (DRAWS + 1)
    counts = np.stack([np.bincount(column, minlength=BINS) for column in bins.T])
    return dict(zip(NAMES, stats.chisquare(counts, axis=1).pvalue, strict=True))


def p_values(name, seed=0, temperature=1.0, counted=1.0, prior_factor=1.0, noise_factor=1.0):
    case = CASES[name]
    _ = case.problem  # its start is NumPy's, which cannot be traced
    found, sound = ranks(case, seed, temperature, counted, prior_factor, noise_factor)
    assert bool(jnp.all(sound))
    return of_uniform(found)


QUICK = ("linear classification",)
ALL = [
    n
    if n in QUICK
    else long_case("network_calibration::true_values_rank_uniformly_among_the_draws_of_a_network", n)
    for n in CASES
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_true_values_rank_uniformly_among_the_draws_of_a_network(name):
    found = p_values(name)
    assert min(found.values()) > FALSE_ALARM, found


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_prior_that_is_narrow_by_two_thirds_is_found(name):
    found = p_values(name, prior_factor=1.5)
    assert found["square"] < FALSE_ALARM, found


@pytest.mark.long("network_calibration::a_prior_that_is_narrow_by_two_thirds_is_found")
def test_a_noise_scale_that_is_small_by_two_thirds_is_found():
    found = p_values("regression", noise_factor=1.5)
    assert found["log likelihood"] < FALSE_ALARM, found


@pytest.mark.long("network_calibration::a_prior_that_is_narrow_by_two_thirds_is_found")
def test_rows_of_a_batch_that_count_for_themselves_alone_are_found():
    """N/n forgotten: N/n Σ (n/N) log p(y|x, θ)."""
    found = p_values("classification", counted=8 / 24)
    assert found["log likelihood"] < FALSE_ALARM, found


@pytest.mark.long("network_calibration::a_prior_that_is_narrow_by_two_thirds_is_found")
def test_a_temperature_of_two_thirds_is_found():
    found = p_values("regression", temperature=2 / 3)
    assert min(found.values()) < FALSE_ALARM, found


# The estimator itself --------------------------------------------------------------------------------------


def layers(weights, x):
    """f of two layers with a ReLU between them, in NumPy; weights may have leading axes."""
    first, last = weights
    hidden = np.maximum(x @ first["weight"] + first["bias"][..., None, :], 0)
    return hidden @ last["weight"] + last["bias"][..., None, :]


def ranked_by_hand(weights, y):
    """As `ranked`, of a classifier with two hidden units, from the formulas of docs/networks.md."""
    odds = np.diff(layers(weights, PROBES))[..., 0]
    logits = layers(weights, X)
    log_p = logits - np.logaddexp(logits[..., :1], logits[..., 1:])
    total = log_p[..., np.arange(len(X)), y].sum(-1)
    first, last = weights
    square = (first["weight"] ** 2).sum((-2, -1)) / 2  # s² = 2/m with m = 1 input
    square = square + (first["bias"] ** 2).sum(-1) + (last["weight"] ** 2).sum((-2, -1)) / 4
    return np.concatenate([odds, np.stack([total, square + (last["bias"] ** 2).sum(-1)], -1)], -1)


def fitted_p_values(prior_factor, replications=256):
    """Of the draws of a fit to each of many data sets.

    There is no warm start, which each fit compiles again. Both classes are named, as some data have one.
    """
    generator = np.random.default_rng(0)
    found = []
    for number in range(replications):
        draw = lambda scale, *shape: prior_factor * scale * generator.normal(size=shape)  # noqa: E731
        truth = [
            {"weight": draw(2**0.5, 1, 2), "bias": draw(1.0, 2)},
            {"weight": draw(2.0, 2, 2), "bias": draw(1.0, 2)},
        ]
        odds = np.diff(layers(truth, X))[:, 0]
        y = (generator.uniform(size=len(X)) < 1 / (1 + np.exp(-odds))).astype(int)
        net = Network(
            [2],
            learning_rate=0.001,
            momentum=0.99,
            batch_size=8,
            warm_start_passes=0,
            burn_in_passes=1600,
            passes=400 * DRAWS,
            draws=DRAWS,
            chains=1,
            random_state=number,
            progress=False,
        ).partial_fit(X, y, classes=[0, 1])
        draws = ranked_by_hand(net.draws_["weights"], y)
        found.append(np.sum(draws < ranked_by_hand(truth, y), axis=0))
    return of_uniform(np.stack(found))


@pytest.mark.long("network_model::a_linear_network_has_the_posterior_of_linear_regression")
def test_true_values_rank_uniformly_among_the_draws_of_fit():
    found = fitted_p_values(1.0)
    assert min(found.values()) > FALSE_ALARM, found


@pytest.mark.long("network_calibration::a_prior_that_is_narrow_by_two_thirds_is_found")
def test_a_prior_that_is_narrow_by_two_thirds_is_found_by_fit():
    found = fitted_p_values(1.5, replications=64)
    assert found["square"] < FALSE_ALARM, found
