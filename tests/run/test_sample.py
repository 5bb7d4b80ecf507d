"""`fk.sample`: the same draws however a run is cut, the right distribution, and what is told of a bad one."""

import itertools
import math
import re
import signal
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker import fields, samplers
from fokker.batches import Batches
from fokker.integrators import ExactOU, Splitting, SymplecticEuler
from fokker.run import lockstep, minibatches, positions
from fokker.run.cache import folder_of_programs
from fokker.run.interruption import Interruption
from fokker.run.loop import _Pace
from fokker.run.losses import Loss
from fokker.run.positions import checked_positions
from fokker.run.recording import Recording
from fokker.run.step_plan import Piece, StepPlan
from fokker.samplers import SamplerState, schedules
from fokker.samplers.plain import Plain
from interrupted import interrupt_at

NORMAL = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
START = np.array([0.5, -0.3], np.float32)


def mean_of_normals(n=1000):
    """x ~ N(θ, 1), θ ~ N(0, 10): the posterior is N(Σx/(n + 0.1), 1/(n + 0.1))."""
    x = (np.random.default_rng(0).normal(size=n) + 0.7).astype(np.float32)
    target = fk.Posterior(
        lambda theta: -(theta**2) / 20, lambda theta, datum: -((datum["x"] - theta) ** 2) / 2, {"x": x}
    )
    return target, float(x.astype(float).sum()) / (n + 0.1), 1 / (n + 0.1)


def run(sampler=None, target=NORMAL, **options):
    settings = {"init": START, "steps": 60, "chains": 2, "progress": False, "seed": 3} | options
    return fk.sample(target, sampler or samplers.sghmc(0.1), **settings)


pytestmark = [pytest.mark.dependencies, pytest.mark.usefixtures("quickly")]


# The same draws -------------------------------------------------------------------------------------------


def test_draws_are_the_same_bit_for_bit_whatever_the_chunk(optimised):
    """Remainders of one step too, which XLA compiles otherwise than a loop."""
    target, _, _ = mean_of_normals(50)
    options = {"target": target, "init": 0.1, "batch_size": 7, "batches": "replacement"}
    whole = run(samplers.sgnht(0.01), chunk=500, steps=29, **options)
    for chunk in (1, 7):
        cut = run(samplers.sgnht(0.01), chunk=chunk, steps=29, **options)
        assert np.array_equal(whole.samples, cut.samples)
        assert np.array_equal(whole.sample_stats["xi"], cut.sample_stats["xi"])
        assert int(cut.state.step[0]) == 29


def test_a_run_is_cut_into_pieces_that_sum_to_it():
    """Whatever their length: as many draws as asked for, each after as many steps as it takes."""
    for burn_in, thin, most in itertools.product((0, 5), (1, 3, 7), range(1, 9)):
        plan = StepPlan(21, burn_in, thin, 1, most, "draws")
        done, ends = 0, []
        while done < burn_in + 21:
            _, draws, steps, kept = plan.piece(done, most, rows=2)
            assert draws * steps <= max(most, steps if draws == 1 else 0)
            assert draws <= 2
            ends += [done + (k + 1) * steps for k in range(draws)] if kept else []
            done += draws * steps
        assert done == burn_in + 21
        assert ends == [burn_in + thin * (k + 1) for k in range(21 // thin)]


@pytest.mark.parametrize("keep", ["draws", pytest.param("moments", marks=pytest.mark.slow)])
def test_every_form_of_the_loop_gives_the_same_draws(keep, monkeypatch):
    """Those of a CPU and of an accelerator, whose loops have a known length and steps too many."""
    target, _, _ = mean_of_normals(50)
    options = {"target": target, "init": 0.1, "batch_size": 7, "batches": "reshuffle", "keep": keep}

    def result(form):
        monkeypatch.setattr(lockstep.Form, "of", classmethod(lambda cls, *given: form))
        trace = run(samplers.sghmc(0.01), steps=24, thin=3, burn_in=5, **options)
        return trace.moments["mean"] if keep == "moments" else trace.samples

    first = result(lockstep.Form(128, True, False, True))
    others = (
        lockstep.Form(64, False, True, True),
        lockstep.Form(2, False, True, False),
        lockstep.Form(5, False, False, False),
    )
    for form in others:
        np.testing.assert_allclose(result(lockstep.Form(*form)), first, rtol=1e-5, atol=1e-6)


def test_draws_are_the_same_bit_for_bit_with_a_progress_bar(capsys):
    assert np.array_equal(run().samples, run(progress=True).samples)


@pytest.mark.parametrize("chunk", [500, 4])
def test_thinning_keeps_every_kth_and_burn_in_drops(chunk):
    """A chunk shorter than the thinning too."""
    whole = run(steps=60).samples
    assert np.array_equal(run(steps=60, thin=6, chunk=chunk).samples, whole[:, 5::6])
    assert np.array_equal(run(steps=40, burn_in=20, chunk=chunk).samples, whole[:, 20:])
    assert np.array_equal(run(steps=40, burn_in=20, thin=5, chunk=chunk).samples, whole[:, 24::5])


def test_chains_and_seeds_differ_and_a_seed_repeats():
    one = run(seed=1, chains=3)
    assert np.array_equal(one.samples, run(seed=1, chains=3).samples)
    assert not np.any(one.samples[0] == one.samples[1])
    assert not np.any(one.samples[1] == one.samples[2])
    assert not np.any(one.samples == run(seed=2, chains=3).samples)


@pytest.mark.slow
def test_batches_differ_between_chains_and_seeds(monkeypatch):
    """Without noise, from one start, chains differ by their batches alone."""
    target, _, _ = mean_of_normals(50)
    frozen = {"target": target, "init": 0.1, "batch_size": 5, "steps": 4, "temperature": 0.0}
    one = run(samplers.sgld(0.001), **frozen)
    assert not np.any(one.samples[0] == one.samples[1])
    assert not np.any(one.samples == run(samplers.sgld(0.001), **{**frozen, "seed": 4}).samples)
    whole = run(samplers.sgld(0.001), **{**frozen, "batch_size": None})
    assert np.array_equal(whole.samples[0], whole.samples[1])
    full = run(samplers.sgld(0.001), **{**frozen, "batch_size": 50, "batches": "no replacement"})
    np.testing.assert_allclose(full.samples, whole.samples, rtol=1e-4)


@pytest.mark.long("sample::noise_and_batches_come_from_different_keys")
def test_the_noise_and_the_batch_of_a_step_are_independent():
    """Correlation of the noise with the batch's mean over 20,000 first steps, within 5 standard errors.

    By fixing one and then the other: at T = 0 the batch alone moves theta; with a flat likelihood the noise
    alone does, for the same seed. A false alarm in 2e6. Weighted batches take the row from the very bits that
    a Gaussian is made of, in the same order: from one key for both, the correlation would be nearly 1.
    """
    x = np.sort(np.random.default_rng(0).normal(size=64)).astype(np.float32)
    moving = fk.Posterior(lambda theta: 0.0 * theta, lambda theta, x: x * theta, x - x.mean())
    options = {"init": 0.0, "batch_size": 1, "steps": 1, "chains": 20_000, "batches": np.ones(64)}
    batch = run(samplers.sgld(0.01), moving, temperature=0.0, **options).samples[:, 0]
    noise = run(samplers.sgld(0.01), moving, **options).samples[:, 0] - batch
    assert min(batch.std(), noise.std()) > 0.01
    assert abs(np.corrcoef(batch, noise)[0, 1]) < 5 / math.sqrt(20_000)
    assert abs(np.corrcoef(batch**2, noise**2)[0, 1]) < 5 / math.sqrt(20_000)


def test_the_data_are_shuffled_by_a_key_that_no_chain_has():
    """Chain n has fold_in(key, n), which is the n-th key that split gives."""
    shuffle_key = minibatches._shuffle_key
    key = jax.random.key(3)
    own, *others = (
        np.atleast_2d(jax.random.key_data(k)) for k in (shuffle_key(key), key, jax.random.split(key, 4096))
    )
    assert not any(np.any(np.all(np.asarray(words) == np.asarray(own), axis=1)) for words in others)


def test_noise_and_batches_come_from_different_keys(monkeypatch):
    target, _, _ = mean_of_normals(50)
    seen = {"noise": set(), "batch": set()}
    draw, rows = Plain.draw, Batches.rows

    def note(what, key):
        jax.debug.callback(lambda data: seen[what].add(tuple(data.tolist())), jax.random.key_data(key))

    def drawing(self, key, state):
        note("noise", key)
        return draw(self, key, state)

    def choosing(self, run_key, step_key, epoch, position):
        note("batch", run_key)
        note("batch", step_key)
        return rows(self, run_key, step_key, epoch, position)

    monkeypatch.setattr(Plain, "draw", drawing)
    monkeypatch.setattr(Batches, "rows", choosing)
    run(samplers.sgld(0.01), target, init=0.1, batch_size=5, steps=6, chains=2)
    jax.effects_barrier()
    assert len(seen["noise"]) >= 12  # drawn ahead, for more steps than are taken
    assert len(seen["batch"]) == len(seen["noise"]) + 2  # one for each chain, beside those of the steps
    assert not seen["noise"] & seen["batch"]


def test_moments_are_those_of_the_draws():
    options = {"init": {"a": START, "b": 0.2}, "steps": 40, "burn_in": 7, "thin": 2, "chains": 3, "chunk": 20}
    target = fk.Density(lambda theta: -jnp.sum(theta["a"] ** 2) - theta["b"] ** 4)
    draws, moments = (run(target=target, keep=keep, **options) for keep in ("draws", "moments"))
    assert moments.draws is None
    for name in ("a", "b"):
        x = draws.samples[name].astype(float)
        np.testing.assert_allclose(moments.moments["mean"][name], x.mean(axis=1), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(moments.moments["variance"][name], x.var(axis=1, ddof=1), rtol=1e-4)
    np.testing.assert_allclose(
        moments.sample_stats["kinetic_temperature"], draws.sample_stats["kinetic_temperature"], rtol=1e-5
    )
    with pytest.raises(RuntimeError, match="only moments were kept"):
        moments.to_arviz()


def test_init_may_be_drawn_for_each_chain():
    trace = run(init=lambda key: 5 + jax.random.normal(key, (2,)), steps=1, chains=50)
    assert np.std(trace.samples[:, 0]) > 0.5
    assert abs(np.mean(trace.samples) - 5) < 1


# One's own loop -------------------------------------------------------------------------------------------


@pytest.mark.long("every_sampler::jit_and_vmap_give_what_a_plain_step_gives")
@pytest.mark.parametrize("name", ["sgld", "sghmc", "sgnht"])
def test_ones_own_loop_works_under_jit_vmap_and_scan(name):
    target, _, _ = mean_of_normals(50)
    sampler = getattr(samplers, name)(0.001).on(target, 2.0)

    def chain(key):
        start, walk = jax.random.split(key)

        def step(state, key):
            batch = jax.tree.map(lambda x: x[:10], target.data)
            state, info = sampler.step(key, state, batch)
            return state, (state.position, info.is_finite)

        return jax.lax.scan(step, sampler.init(jnp.zeros(()), key=start), jax.random.split(walk, 5))

    keys = jax.random.split(jax.random.key(0), 3)
    last, (draws, finite) = jax.jit(jax.vmap(chain))(keys)
    assert draws.shape == (3, 5)
    assert bool(jnp.all(finite))
    assert last.step.tolist() == [5, 5, 5]
    alone = chain(keys[1])[1][0]
    np.testing.assert_allclose(draws[1], alone, rtol=1e-5)


def test_a_sampler_made_of_dynamics_is_sampled_too():
    """H as a plain function; the kinetic temperature is measured against the dynamics' own."""
    dynamics = fk.Dynamics(
        lambda theta, r: jnp.sum(theta**2) / 2 + jnp.sum(r**2) / 2,
        D={("r", "r"): 1.0},
        Q={("r", "theta"): 1.0},
        temperature=2.0,
    )
    trace = run(samplers.recipe(dynamics, 0.1), init={"theta": START, "r": START}, steps=40, chains=200)
    assert trace.settings["temperature"] == 2.0
    assert trace.sample_stats["kinetic_temperature"].shape == (200, 40)
    with pytest.raises(ValueError, match="made of dynamics at temperature 2"):
        run(samplers.recipe(dynamics, 0.1), init={"theta": START, "r": START}, temperature=3.0)
    flow = samplers.recipe(fk.dynamics.hamiltonian_flow(NORMAL.potential), 0.1, integrator=SymplecticEuler())
    energy = run(flow, init={"theta": START, "r": START}, steps=200).samples
    assert np.abs(energy).max() < 1


# The right distribution -----------------------------------------------------------------------------------

PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]], np.float32)


def noisy_gaussian():
    """exp(-θᵀPθ/2) as a sum over 100 data whose minibatches have a noise of the gradient."""
    x = np.random.default_rng(1).normal(size=(100, 2)).astype(np.float32)
    x -= x.mean(axis=0)

    def log_likelihood(theta, datum):
        return (-(theta @ jnp.asarray(PRECISION) @ theta) / 2 + 4 * datum @ theta) / 100

    return fk.Posterior(lambda theta: 0.0, log_likelihood, x)


def errors_of(trace, T):
    """Covariance over TΣ and kinetic temperature over T, less 1, and their standard errors between chains."""
    x = trace.samples.astype(float)
    covariances = np.einsum("cni,cnj->cij", x, x) / x.shape[1]
    root = np.linalg.inv(np.linalg.cholesky(np.linalg.inv(PRECISION.astype(float))))
    ratios = root @ covariances @ root.T / T
    both = np.concatenate(
        [
            ratios.reshape(len(x), 4) - np.eye(2).ravel(),
            trace.sample_stats["kinetic_temperature"].mean(1)[:, None] / T - 1,
        ],
        axis=1,
    )
    return both.mean(axis=0), both.std(axis=0, ddof=1) / math.sqrt(len(x))


@pytest.mark.long("samplers::one_set_of_settings_of_a_thermostat_serves_every_temperature")
@pytest.mark.parametrize(
    ("kind", "T"),
    [
        ("scalar", 3.0),
        ("scalar", 1.0),
        ("diagonal", 3.0),
        ("matrix", 3.0),
    ],
)
def test_thermostats_absorb_the_noise_of_minibatches_at_every_temperature(kind, T, optimised):
    """300 chains: each of 5 ratios within 5 standard errors and 0.03 for the bias of the step.

    The gradient's noise has variance V = 4, which at this step heats as A = 0.1 would: 10 % at T = 1 with the
    friction held at 1. False alarm: one key in 9e4 over all four; this one gives none.
    """
    trace = run(
        samplers.sgnht(0.05, kind=kind),
        noisy_gaussian(),
        steps=1500,
        burn_in=300,
        chains=300,
        batch_size=4,
        batches="replacement",
        temperature=T,
    )
    error, spread = errors_of(trace, T)
    assert np.all(spread < 0.03)
    assert np.all(np.abs(error) < 5 * spread + 0.03)


@pytest.mark.long("diagnostics::minibatch_noise_that_is_not_accounted_for_is_said_to_spread_the_draws")
def test_without_friction_the_noise_of_minibatches_heats(optimised):
    """The negative control: naive SGHMC is far too wide, and its summary says not to trust it."""
    trace = run(
        samplers.naive_sghmc(0.02),
        noisy_gaussian(),
        steps=1000,
        burn_in=1500,
        chains=100,
        batch_size=4,
        batches="replacement",
    )
    error, spread = errors_of(trace, 1.0)
    assert error[0] > 0.2 + 5 * spread[0]
    assert any("kinetic temperature" in warning for warning in trace.summary().warnings)


@pytest.mark.long("gradients::every_estimator_is_unbiased_under_every_way_of_drawing_batches")
@pytest.mark.parametrize(
    "sampler",
    [
        samplers.sgld(5e-6),
        samplers.sghmc(2e-3, 60.0),
        samplers.sgnht(2e-3, 60.0, 1e-3),
    ],
    ids=["sgld", "sghmc", "sgnht"],
)
def test_a_conjugate_posterior_by_minibatches(sampler, optimised):
    """100 chains started in the posterior: mean and variance within 5 standard errors and a bias.

    The variance of the gradient's noise is N²/n·(1 - n/N) ≈ 19,000: it adds εV/(2·friction) to T.
    """
    T = 4.0
    target, mean, variance = mean_of_normals()
    spread = math.sqrt(variance * T)
    trace = run(
        sampler,
        target,
        init=lambda key: mean + spread * jax.random.normal(key),
        steps=3000,
        burn_in=200,
        thin=5,
        chains=100,
        batch_size=50,
        batches="no replacement",
        temperature=T,
    )
    x = trace.samples.astype(float) - mean
    means, variances = x.mean(axis=1), (x**2).mean(axis=1) / (variance * T)
    assert abs(means.mean()) < 5 * means.std(ddof=1) / 10 + 0.01 * spread
    heat = 0.0 if not sampler.wants_target else 19_000 * float(sampler.step_size) / (2 * T)
    if "xi" in trace.sample_stats:
        heat = 0.0  # absorbed
    elif "kinetic_temperature" in trace.sample_stats:
        heat /= 60
    error = variances.std(ddof=1) / 10
    assert error < 0.05
    assert abs(variances.mean() - 1 - heat) < 5 * error + 0.03


# Runs that end early --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", ["draws", "moments"])
def test_ctrl_c_keeps_the_draws_so_far(keep, monkeypatch):
    whole = run(steps=50, chunk=10)
    interrupt_at(monkeypatch, "_fetch", 2)
    trace = run(steps=50, chunk=10, keep=keep)
    # What was sent before the signal is fetched: how much that is, the clock decides.
    n = int(re.match(r"interrupted after (\d+) of 50 steps", trace.stopped)[1])
    assert 2 <= n < 50
    if keep == "draws":
        assert np.array_equal(trace.samples, whole.samples[:, :n])
        assert trace.stopped in trace.summary().warnings
    else:
        np.testing.assert_allclose(
            trace.moments["mean"], whole.samples[:, :n].mean(axis=1), rtol=1e-4, atol=1e-6
        )
    assert trace.sample_stats["kinetic_temperature"].shape == (2, n)
    interrupt_at(monkeypatch, "_send", 1)
    with pytest.warns(RuntimeWarning, match="before its first draw: interrupted after 10"):
        none = run(steps=50, burn_in=20, chunk=10, keep=keep)
    assert none.stopped == "interrupted after 10 of 70 steps; trace.resume() continues"
    assert none.draws is None
    assert "no draws" in repr(none)
    assert repr(none).endswith(f"stopped: {none.stopped})")
    for use in (lambda: none.samples, none.summary, none.to_arviz, none.flat):
        with pytest.raises(RuntimeError, match="before its first draw: interrupted after 10"):
            use()
    if keep == "moments":
        with pytest.raises(RuntimeError, match=r"only moments were kept.*keep='draws'"):
            trace.flat()


@pytest.mark.parametrize("chunk", [500, 7])
def test_a_run_that_diverges_keeps_the_finite_draws_and_says_so(chunk):
    quartic = fk.Density(lambda theta: -jnp.sum(theta**4))
    trace = run(samplers.sgld(0.35), quartic, steps=500, chunk=chunk, chains=3)
    assert "stopped at step" in trace.stopped
    assert "(not finite: take smaller steps)" in trace.stopped
    n = trace.samples.shape[1]
    assert 2 < n < 500
    assert np.all(np.isfinite(trace.samples))
    assert n == run(samplers.sgld(0.35), quartic, steps=500, chains=3).samples.shape[1]
    moments = run(samplers.sgld(0.35), quartic, steps=500, chunk=chunk, chains=3, keep="moments")
    assert "(not finite: take smaller steps)" in moments.stopped
    assert np.all(np.isfinite(moments.moments["mean"]))
    assert not np.any(np.isnan(moments.moments["variance"]))


def test_noise_that_cannot_be_subtracted_stops_the_run():
    """2D - εB̂ turns negative where theta does: the draws before are kept."""
    D = fields.Elementwise(lambda theta: 0.5 + jnp.tanh(theta**2))
    dynamics = fk.dynamics.langevin(lambda theta: jnp.sum(theta**2) / 2, D)
    sampler = samplers.recipe(dynamics, 0.1, noise_estimate={("theta", "theta"): 15.0})
    trace = run(sampler, init={"theta": np.full(2, 2.0, np.float32)}, steps=400, chunk=50)
    assert "not positive semidefinite" in trace.stopped
    assert 0 < trace.samples.shape[1] < 400
    assert np.all(2 * (0.5 + np.tanh(trace.samples[:, :-1] ** 2)) - 1.5 >= -1e-5)


# What is told ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_good_run_is_trusted_and_a_bad_one_is_not():
    good = run(samplers.sghmc(0.2, integrator=Splitting()), steps=8000, thin=4, burn_in=200, chains=4)
    summary = good.summary()
    assert summary.trusted, summary.warnings
    assert summary.grade == "No problems found"
    assert "No problems found. R-hat is at most" in str(summary)
    # The sample moments of a unit normal: 5 standard errors by the effective number of draws.
    assert np.all(np.abs(summary.mean) < 5 / np.sqrt(summary.effective))
    assert np.all(np.abs(summary.deviation - 1) < 5 / np.sqrt(summary.effective))

    def warned(trace, words):
        summary = trace.summary()
        assert not summary.trusted
        assert summary.grade.upper() in str(summary)
        return any(words in warning for warning in summary.warnings)

    assert warned(run(steps=2000, chains=1), "one chain")
    assert warned(run(steps=50, chains=4), "effective draws, fewer than 400")
    apart = run(samplers.sgld(1e-6), init=lambda key: jax.random.normal(key, (2,)), steps=100, chains=4)
    assert warned(apart, "R-hat of theta[")
    assert warned(run(samplers.sghmc(1.5, 0.1), steps=2000, chains=4), "the spread of theta is too")
    hot = run(steps=500, temperature=2.5, chains=400).summary()
    assert not any("kinetic temperature is" in text for text in [*hot.warnings, *hot.notes])
    with pytest.raises(ValueError, match="too few for a summary"):
        run(steps=3).summary()


@pytest.mark.slow
def test_draws_go_to_arviz_by_name():
    target = fk.Density(lambda theta: -jnp.sum(theta["w"] ** 2) - theta["b"][0] ** 2)
    trace = run(samplers.sgnht(0.1), target, init={"w": np.zeros((3, 2)), "b": [0.0]}, steps=20, chains=2)
    data = trace.to_arviz()
    assert {name: data.posterior[name].shape for name in data.posterior} == {
        "b.0": (2, 20),
        "w": (2, 20, 3, 2),
    }
    assert np.array_equal(data.posterior["w"], trace.samples["w"])
    assert data.sample_stats["xi"].shape == (2, 20)
    assert run(steps=20).to_arviz().posterior["theta"].shape == (2, 20, 2)
    names = trace.summary().names
    assert len(names) == 7
    assert len(set(names)) == 7


# Bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 10, "thin": 3}, "steps=10 is not a multiple of thin=3"),
        ({"steps": 0}, "steps must be a whole number of at least 1; 0"),
        ({"steps": 2.5}, r"steps must be a whole number of at least 1; 2\.5"),
        ({"chains": 0}, "chains must be"),
        ({"burn_in": -1}, "burn_in must be"),
        ({"keep": "everything"}, "keep is 'draws' or 'moments'"),
        ({"batch_size": 5}, "batch_size needs data"),
        ({"temperature": -1.0}, "temperature must be finite and not negative"),
        ({"temperature": math.nan}, "temperature must be finite"),
        ({"init": np.array([0.0, np.nan])}, "nan at the initial position"),
    ],
)
def test_bad_settings_of_a_run_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        run(**options)


def test_a_batch_larger_than_the_data_and_a_misspelt_kind_are_refused():
    target, _, _ = mean_of_normals(10)
    with pytest.raises(ValueError, match="the number of data, 10; 11 was given"):
        run(target=target, init=0.0, batch_size=11)
    with pytest.raises(ValueError, match="Did you mean 'reshuffle'"):
        run(target=target, init=0.0, batch_size=5, batches="reshufle")


@pytest.mark.parametrize("h", [-0.1, 0.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["sgld", "sghmc", "sgnht"])
def test_a_step_size_that_is_not_positive_is_refused(name, h):
    with pytest.raises(ValueError, match="step size must be a positive number"):
        getattr(samplers, name)(h)


def test_misspelt_names_are_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="Did you mean 'gaussian'"):
        samplers.sgld(0.1, noise="gausian")
    with pytest.raises(ValueError, match="Did you mean 'diagonal'"):
        samplers.sgnht(0.1, kind="diag0nal")


def test_a_likelihood_that_returns_a_vector_is_refused_before_anything_is_compiled():
    target = fk.Posterior(lambda theta: -jnp.sum(theta**2), lambda theta, x: -((x - theta) ** 2), np.zeros(5))
    with pytest.raises(ValueError, match="log_likelihood must return one number"):
        run(target=target)


def test_an_init_of_the_wrong_structure_is_refused():
    target = fk.Density(lambda theta: -jnp.sum(theta["w"] ** 2))
    with pytest.raises((TypeError, ValueError, KeyError)):
        run(target=target, init=START)
    with pytest.raises(ValueError, match="the mass must be"):
        run(samplers.sghmc(0.1, mass=np.ones(3)))


def test_a_sampler_without_a_target_says_what_to_do():
    for call in (
        lambda: samplers.sgld(0.1).init(START, key=jax.random.key(0)),
        lambda: samplers.sgld(0.1).step(jax.random.key(0), SamplerState({"theta": START}, 0)),
    ):
        with pytest.raises(ValueError, match=r"no target yet.*sampler\.on\(target\)"):
            call()
    with pytest.raises(ValueError, match=r"pass key=jax\.random\.key"):
        samplers.sghmc(0.1).on(NORMAL).init(START)
    with pytest.raises(TypeError, match="made of dynamics"):
        samplers.recipe(fk.dynamics.langevin(NORMAL.potential), 0.1).on(NORMAL)


def test_a_target_or_sampler_of_the_wrong_type_is_refused():
    with pytest.raises(TypeError, match=r"fk\.Density\(log_density\)"):
        run(target=lambda theta: 0.0)
    with pytest.raises(TypeError, match=r"one of fk\.samplers, not function"):
        run(lambda key: None)


def test_reshuffled_batches_do_not_start_over_with_every_chunk_or_resume():
    """13 rows in batches of 4, without noise: every step is the one that its place in the epoch says."""
    x = np.arange(13.0, dtype=np.float32) - 6
    target = fk.Posterior(lambda theta: 0.0 * theta, lambda theta, x: x * theta, x)
    options = {"target": target, "init": 0.0, "batch_size": 4, "batches": "reshuffle", "temperature": 0.0}
    whole = run(samplers.sgld(0.01), steps=39, **options)
    cut = run(samplers.sgld(0.01), steps=39, chunk=5, **options)
    np.testing.assert_array_equal(whole.samples, cut.samples)
    np.testing.assert_array_equal(
        run(samplers.sgld(0.01), steps=20, **options).resume(19).samples, whole.samples
    )
    # After three whole epochs every row has pulled three times per epoch of 13 steps: the pulls cancel.
    np.testing.assert_allclose(whole.samples[:, 12::13], 0.0, atol=1e-3)


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("keep", ["draws", "moments"])
def test_a_chain_that_diverges_is_stopped_while_the_others_go_on(keep, on_disk, tmp_path):
    target = fk.Density(lambda theta: -jnp.sum(theta**4))
    starts = np.array([[0.1], [30.0], [0.2], [0.3]], np.float32)  # the second is beyond the stable region
    out = tmp_path / "run" if on_disk else None
    options = {"chunk": 50, "keep": keep, "init": fk.PerChain(starts)}
    with pytest.warns(
        RuntimeWarning,
        match=r"^chain 2 of 4 was stopped at step \d+ \(not finite.*\); the summary is of chains 1, 3, 4\.$",
    ):
        trace = run(samplers.sgld(0.01), target, chains=4, steps=200, out=out, **options)
    assert trace.stopped is None
    assert trace.chains == [0, 2, 3]
    assert list(trace.losses) == [1]
    assert "not finite" in trace.losses[1].reason
    assert trace.state.position.shape == (4, 1)
    if keep == "moments":
        assert trace.moments["mean"].shape == (3, 1)
        assert np.all(np.isfinite(trace.moments["variance"]))
    else:
        assert trace.samples.shape == (3, 200, 1)
        assert np.all(np.isfinite(trace.samples))
        assert trace.losses[1].draws < 10
        # The others are not touched by it.
        same = run(
            samplers.sgld(0.01),
            target,
            chains=4,
            steps=200,
            chunk=50,
            init=fk.PerChain(np.where(starts > 1, 0.0, starts).astype(np.float32)),
        )
        np.testing.assert_array_equal(trace.samples, same.samples[[0, 2, 3]])
        summary = trace.summary()
        assert not summary.trusted
        assert trace.lost in summary.warnings
        with pytest.warns(RuntimeWarning, match="chain 2 of 4"):
            assert trace.step_halving().mean.shape == (1,)
    with pytest.warns(RuntimeWarning, match="chain 2 of 4"):
        longer = trace.resume(40)
    assert longer.chains == [0, 2, 3]
    if keep == "draws":
        np.testing.assert_array_equal(longer.samples[:, :200], trace.samples)
    saved = tmp_path / "saved"
    longer.save(saved)
    read = fk.open(saved)
    assert trace.lost.split(" at ")[0] in read.notes[0]
    if keep == "draws":
        np.testing.assert_array_equal(read.samples, longer.samples)


@pytest.mark.parametrize(("is_kept", "draws"), [(True, 10 + 4 + 2), (False, 10 + 4)])
def test_the_draws_of_a_chain_that_is_stopped_are_counted_from_the_start_of_the_run(is_kept, draws):
    """Ten before the run went on, four in earlier blocks, and two in this one before the first bad draw."""
    run = types.SimpleNamespace(
        plan=types.SimpleNamespace(chains=2), losses={}, draws_before=10, draws=4, _chain_axis=1
    )
    run._wrong_schedule, run._why = lambda piece: None, lambda is_finite: f"finite: {is_finite}"
    run._by_chain = lambda block, recorded: Recording._by_chain(run, block, recorded)
    sound = np.array([[True, True], [True, True], [True, False]])
    stopped = types.SimpleNamespace(
        sound=(np.array([True, False]), True), out={"sound": sound}, piece=Piece(20, 3, 1, is_kept)
    )
    Recording._lose_chains(run, stopped)
    assert run.losses == {1: Loss(draws, 23, "finite: False")}
    Recording._lose_chains(run, stopped)  # once lost, a chain stays so
    assert len(run.losses) == 1


def test_a_recipe_with_a_gradient_of_its_own_takes_batches():
    target, mean, _ = mean_of_normals(200)
    dynamics = fk.dynamics.langevin(target.potential)
    gradient = jax.grad(target.minibatch_potential)
    sampler = samplers.recipe(dynamics, 1e-3, gradient=gradient)
    trace = run(sampler, target, init={"theta": jnp.array(0.0)}, steps=2000, batch_size=20)
    assert abs(trace.samples[:, 500:].mean() - mean) < 0.1
    with pytest.raises(ValueError, match="no gradient for batches"):
        run(samplers.recipe(dynamics, 1e-3), target, init={"theta": jnp.array(0.0)}, batch_size=20)


@pytest.mark.parametrize("sampler", [samplers.sgld, lambda h: samplers.sghmc(h, integrator=Splitting())])
@pytest.mark.parametrize(
    ("schedule", "value"), [(lambda t: 0.1 - 0.01 * t, "-"), (lambda t: 0.1 / (t < 30), "inf")]
)
def test_a_schedule_that_goes_wrong_is_named(sampler, schedule, value):
    trace = run(sampler(schedule), NORMAL, steps=60, temperature=0.0)
    assert "the schedule gave the step size" in trace.stopped
    assert value in trace.stopped
    assert trace.samples.shape[1] in (11, 30)


def test_exact_friction_survives_a_schedule_that_comes_to_rest():
    sampler = samplers.sghmc(schedules.cyclical(0.1, 20_000), integrator=ExactOU()).on(NORMAL)
    state = sampler.init(START, key=jax.random.key(0))
    state = state._replace(step=jnp.asarray(19_999))
    moved, info = sampler.step(jax.random.key(1), state)
    assert bool(info.is_finite)
    np.testing.assert_allclose(moved.position, state.position, atol=1e-3)


def test_compiled_programs_are_kept_where_nothing_else_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("FOKKER_CACHE", str(tmp_path))
    assert folder_of_programs(None) == tmp_path / "programs"
    assert (tmp_path / "programs").is_dir()
    assert folder_of_programs("elsewhere") is None
    monkeypatch.setenv("FOKKER_CACHE", "off")
    assert folder_of_programs(None) is None
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FOKKER_CACHE", str(tmp_path / "file"))
    assert folder_of_programs(None) is None


def test_the_length_of_blocks_follows_the_clock_where_jax_does_not_compute_in_the_background():
    """A block that was done when it was sent is timed by that, not by the one sent after it."""
    pace = _Pace(10**9)
    lengths = []
    for _ in range(20):
        lengths.append(pace.steps)
        pace.took(lengths[-1], time.monotonic(), lengths[-1] / 340)
    assert max(lengths) <= 340
    assert lengths[-1] >= 330


def test_signals_that_are_not_pythons_are_left_alone(monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    with Interruption(signal.SIGINT) as interruption:
        assert interruption._before == {}


def test_a_run_that_would_only_gather_is_refused():
    with pytest.raises(ValueError, match="stands still for its first 100 steps"):
        run(samplers.psgld(0.01), steps=60)


def test_a_run_says_what_it_was_made_with(tmp_path):
    trace = run(samplers.sghmc(0.1), steps=20, seed=3)
    assert trace.settings["sampler"] == "underdamped × symplectic Euler"
    assert (trace.settings["seed"], trace.settings["batch_size"]) == (3, None)
    trace.report(tmp_path / "report.html", summary=trace.summary(gradients=False))
    page = (tmp_path / "report.html").read_text()
    assert '<th scope="row">steps taken</th><td>20</td>' in page
    assert '<th scope="row">sampler</th><td>underdamped × symplectic Euler</td>' in page
    assert "batch size" not in page


def test_keys_of_both_kinds_are_taken_and_others_refused():
    options = {"init": jnp.zeros(2), "steps": 5, "chains": 1, "progress": False}
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    sgld = samplers.sgld(0.1)
    by_seed = fk.sample(normal, sgld, seed=4, **options).samples
    for key in (jax.random.key(4), jax.random.PRNGKey(4)):
        np.testing.assert_array_equal(fk.sample(normal, sgld, key=key, **options).samples, by_seed)
    with pytest.raises(TypeError, match=r"jax\.random\.key\(0\).*give seed"):
        fk.sample(normal, sgld, key=4, **options)


def test_starts_per_chain_say_how_many_chains_there_are():
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    without = fk.sample(normal, samplers.sgld(1e-9), init=jnp.zeros(2), steps=2, progress=False)
    assert without.samples.shape == (4, 2, 2)
    starts = jnp.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    trace = fk.sample(normal, samplers.sgld(1e-9), init=fk.PerChain(starts), steps=2, progress=False)
    np.testing.assert_allclose(trace.samples[:, 0], starts, atol=1e-3)
    assert not trace.origin.one_start
    with pytest.raises(ValueError, match=r"leading axis of 2.*shape \(3, 2\)"):
        fk.sample(normal, samplers.sgld(0.1), init=fk.PerChain(starts), steps=2, chains=2, progress=False)


def test_a_start_that_passed_is_not_checked_again_and_any_other_is(monkeypatch):
    evaluated, check = [], positions._check

    def counted(*given):
        evaluated.append(given)
        check(*given)

    def log_density(theta):
        return jnp.where(theta[0] < 5, -jnp.sum(theta**2) / 2, -jnp.inf)

    monkeypatch.setattr(positions, "_check", counted)
    target, sampler = fk.Density(log_density), fk.samplers.ula(0.1)

    def evaluations(first, seed=0, sampler=sampler):
        evaluated.clear()
        fk.sample(target, sampler, init=jnp.full(2, first), steps=2, chains=1, seed=seed, progress=False)
        return len(evaluated)

    assert evaluations(1.0) > 0
    assert evaluations(1.0) == evaluations(1.0, seed=1) == 0
    assert evaluations(2.0) > 0
    assert evaluations(1.0, sampler=fk.samplers.ula(0.2)) > 0
    with pytest.raises(ValueError, match="inside the support"):
        evaluations(9.0)
    with pytest.raises(ValueError, match="inside the support"):  # what failed is not remembered
        evaluations(9.0)


def test_other_starts_of_chains_that_hold_their_potential_are_checked_in_one_call():
    """A check of a single chain calls the density again, be it to trace it; the call for all is compiled."""
    evaluated = []

    def log_density(theta):
        evaluated.append(theta)
        return jnp.where(theta[0] < 5, -jnp.sum(theta**2) / 2, -jnp.inf)

    target = fk.Density(log_density)
    keys = jax.random.split(jax.random.key(0), (3, 3))

    def evaluations(first, sampler):
        evaluated.clear()
        starts = fk.PerChain(jnp.array([[first, 0.0], [1.0, 1.0], [2.0, 2.0]]))
        checked_positions(sampler.on(target, 1.0), target, starts, keys)
        return len(evaluated)

    assert evaluations(1.0, samplers.hmc(0.1)) > 0
    assert evaluations(2.0, samplers.hmc(0.1)) == 0
    assert evaluations(2.0, samplers.hmc(0.2)) > 0
    assert evaluations(1.0, samplers.ula(0.1)) > 0
    assert evaluations(2.0, samplers.ula(0.1)) > 0  # the gradient is looked at here alone
    with pytest.raises(ValueError, match=r"chain 1 of 3.*inside the support"):
        evaluations(9.0, samplers.hmc(0.1))


def test_samplers_of_equal_settings_share_their_compiled_programs():
    traces = []

    def log_density(theta):
        traces.append(theta)
        return -jnp.sum(theta**2) / 2

    target = fk.Density(log_density)
    run(samplers.sghmc(0.1), target, steps=5)
    before = len(traces)
    run(samplers.sghmc(0.1), target, steps=5)
    assert len(traces) == before + 1  # the trace that tells whether the density has changed
    for make in (samplers.sghmc, samplers.sgld, samplers.sgnht, samplers.maula):
        first, second, other, whole = (make(0.1, setting).dynamics for setting in (1.0, 1.0, 2.0, True))
        assert first == second
        assert hash(first) == hash(second)
        assert first != other
        assert first != whole or make is samplers.maula  # which takes numbers alone
    vectors = [samplers.sgld(0.1, D).dynamics for D in (jnp.ones(2), 2 * jnp.ones(2))]
    assert vectors[0] != vectors[1]


def test_an_array_as_init_is_one_theta_also_if_it_has_as_many_rows_as_there_are_chains():
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    start, options = jnp.arange(6.0).reshape(3, 2), {"steps": 1, "chains": 3, "progress": False}
    sampler = fk.samplers.rwm(1e-6)
    one = fk.sample(target, sampler, init=start, **options).samples
    np.testing.assert_allclose(one[:, 0], np.broadcast_to(start, (3, 3, 2)), atol=1e-2)
    each = fk.sample(target, sampler, init=fk.PerChain(start), **options).samples
    np.testing.assert_allclose(each[:, 0], start, atol=1e-2)
