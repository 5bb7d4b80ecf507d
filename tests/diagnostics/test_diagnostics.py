"""What is said about a run: Stein's discrepancy, temperatures, noise, bias of the step; and tuning."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker import diagnostics, samplers
from fokker.batches import Batches, WindowBatches
from fokker.diagnostics._gradients import thinned
from fokker.diagnostics._quantities import flat
from fokker.integrators import Splitting
from fokker.run.call import Options
from fokker.run.candidates import _FRICTIONS, _friction_name, _with_friction, candidates_of
from fokker.samplers._time_scale import largest_curvature
from fokker.samplers.by_name import by_name
from interrupted import interrupt_at

pytestmark = pytest.mark.dependencies

PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]])
NORMAL = fk.Density(lambda theta: -theta @ jnp.asarray(PRECISION, theta.dtype) @ theta / 2)


def exact_draws(m, spread=1.0, seed=0):
    root = np.linalg.cholesky(np.linalg.inv(PRECISION))
    return spread * np.random.default_rng(seed).normal(size=(m, 2)) @ root.T + 3.0


def gradients(draws):
    """∇log p of the normal around 3."""
    return -(draws - 3.0) @ PRECISION


# Stein's discrepancy --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_stein_kernel_is_the_stein_operator_twice_applied(x64):
    """k₀ by the closed form against automatic differentiation of the kernel."""
    from fokker.diagnostics.stein import _stein_matrix

    rng = np.random.default_rng(1)
    x, s = rng.normal(size=(2, 4, 3))
    d = x.shape[1]

    def k(a, b):
        return (1 + jnp.sum((a - b) ** 2) / d) ** -0.5 + 1 + a @ b / d

    def k0(a, sa, b, sb):
        by_a, by_b = jax.grad(k, 0)(a, b), jax.grad(k, 1)(a, b)
        mixed = jnp.trace(jax.jacfwd(jax.grad(k, 0), 1)(a, b))
        return sa @ sb * k(a, b) + sa @ by_b + sb @ by_a + mixed

    wanted = [[k0(x[i], s[i], x[j], s[j]) for j in range(4)] for i in range(4)]
    np.testing.assert_allclose(_stein_matrix(jnp.asarray(x), jnp.asarray(s)), wanted, rtol=1e-10)


@pytest.mark.slow
def test_the_discrepancy_of_exact_draws_is_zero_on_average_and_of_others_it_is_not():
    """100 sets of 50 draws: the mean within 5 standard errors of 0; p below 0.05 in 0.5 to 12 % of them."""
    found = [
        diagnostics.kernel_stein_discrepancy(x, gradients(x))
        for x in (exact_draws(50, seed=i) for i in range(100))
    ]
    squares = np.array([f.squared for f in found])
    # Centring by the mean of the same draws takes 1/m off.
    assert abs(squares.mean()) < 5 * squares.std() / np.sqrt(100) + 0.1
    assert 0.005 < np.mean([f.p_value < 0.05 for f in found]) < 0.12
    for spread in (0.7, 1.4):
        wrong = exact_draws(100, spread)
        assert diagnostics.kernel_stein_discrepancy(wrong, gradients(wrong)).p_value < 0.01
    shifted = exact_draws(100) + 0.5
    assert diagnostics.kernel_stein_discrepancy(shifted, gradients(shifted)).p_value < 0.01
    with pytest.raises(ValueError, match="the same shape"):
        diagnostics.kernel_stein_discrepancy(np.zeros((10, 2)), np.zeros((10, 3)))


@pytest.mark.slow
def test_noise_in_the_gradients_does_not_move_the_discrepancy():
    """Independent noise of three times the gradients' size, over 36 repetitions: within 5 standard errors."""
    x = exact_draws(40)
    rng = np.random.default_rng(3)
    exact = diagnostics.kernel_stein_discrepancy(x, gradients(x)).squared
    noisy = np.array(
        [
            diagnostics.kernel_stein_discrepancy(x, gradients(x) + 3 * rng.normal(size=x.shape)).squared
            for _ in range(36)
        ]
    )
    assert abs(noisy.mean() - exact) < 5 * noisy.std() / 6


# The temperature of theta ---------------------------------------------------------------------------------


def test_the_configurational_temperature_is_that_of_the_draws():
    for T in (0.5, 1.0, 3.0):
        x = exact_draws(4000, np.sqrt(T))
        found, error = diagnostics.configurational_temperature(x, -gradients(x))
        assert np.all(np.abs(found - T) < 5 * error)
        assert np.all(error < 0.05 * T)


def normals(n=1000):
    x = (np.random.default_rng(0).normal(size=n) + 0.7).astype(np.float32)
    return fk.Posterior(lambda theta: 0.0 * theta, lambda theta, x: -((x - theta) ** 2) / 2, x)


@pytest.mark.slow
def test_the_share_of_the_minibatches_in_the_noise_is_the_known_one():
    """Of SGLD with batches of n out of N normal data: ε(N²/n)s²/2T; with control variates there is none."""
    target = normals()
    s2 = float(np.var(np.asarray(target.data)))
    options = {
        "init": 0.7,
        "steps": 50,
        "chains": 64,
        "batch_size": 20,
        "batches": "replacement",
        "progress": False,
    }
    trace = fk.sample(target, samplers.sgld(1e-5), temperature=3.0, **options)
    found = trace.summary(gradients=False).checks["gradient noise over injected noise"]
    assert found == pytest.approx(1e-5 * (1000**2 / 20) * s2 / (2 * 3.0), rel=0.1)
    calm = fk.sample(target, samplers.sgld(1e-5), gradient=fk.gradients.control_variates(0.7), **options)
    assert calm.summary(gradients=False).checks["gradient noise over injected noise"] < 1e-6


# What the summary says ------------------------------------------------------------------------------------


def summary_of(sampler, target, **options):
    given = {
        "init": jnp.array(0.7),
        "steps": 8_000,
        "burn_in": 1_000,
        "thin": 4,
        "chains": 4,
        "progress": False,
    }
    return fk.sample(target, sampler, **{**given, **options}).summary()


@pytest.mark.slow
def test_minibatch_noise_that_is_not_accounted_for_is_said_to_spread_the_draws(optimised):
    target = normals()
    noisy = summary_of(samplers.sgld(1e-4), target, batch_size=20, batches="replacement")
    assert any("noise of the minibatches" in warning for warning in noisy.warnings)
    assert any("configurational temperature" in warning and "wide" in warning for warning in noisy.warnings)
    assert noisy.grade == "Do not use"
    assert "DO NOT USE" in str(noisy)
    # The same step with all the data: its bias is 5 %, and nothing is said of noise or temperature.
    calm = summary_of(samplers.sgld(1e-4), target)
    assert calm.warnings == []
    error = float(calm.checks["standard error of the configurational temperature"])
    assert calm.checks["configurational temperature"] == pytest.approx(1.05, abs=4 * error)


@pytest.mark.slow
def test_reshuffled_batches_make_a_thermostat_too_cold_and_it_is_said(optimised):
    """Their noise cancels over an epoch; the thermostat, which sees it in the momentum, takes it for white.

    100 batches an epoch, friction such that theta moves in about one epoch.
    """
    target = normals()
    sampler = samplers.sgnht(1e-3, 10.0, 0.01)
    options = {"batch_size": 10, "steps": 40_000, "thin": 20, "burn_in": 4_000, "chains": 16}
    shuffled = summary_of(sampler, target, batches="reshuffle", **options)
    assert shuffled.deviation[0] ** 2 * 1000 < 0.8
    assert abs(shuffled.checks["kinetic temperature"] - 1) < 0.05
    assert any("narrow" in warning for warning in shuffled.warnings)
    independent = summary_of(sampler, target, batches="replacement", **options)
    assert independent.deviation[0] ** 2 * 1000 == pytest.approx(1, abs=0.12)


@pytest.mark.slow
def test_many_chains_are_judged_by_late_draws_too():
    """All start at the same point: judged by their first draws they would be far too cold."""
    trace = fk.sample(NORMAL, samplers.sghmc(0.1), init=jnp.zeros(2), steps=400, chains=300, progress=False)
    assert abs(trace.summary().checks["configurational temperature"] - 1) < 0.2


@pytest.mark.slow
def test_draws_that_are_not_of_the_target_are_said_not_to_be(optimised):
    """A skewed target sampled by the naive Riemannian sampler, whose temperature is right: Stein tells."""
    skewed = fk.Density(lambda theta: -jnp.sum(jnp.exp(theta) - theta))
    metric = fk.fields.Elementwise(lambda theta: 0.2 + jax.nn.sigmoid(3 * theta))
    root = fk.fields.Elementwise(lambda theta: jnp.sqrt(0.2 + jax.nn.sigmoid(3 * theta)))
    options = {"init": jnp.zeros(1), "steps": 100_000, "thin": 50, "burn_in": 1_000, "chains": 8}
    wrong = summary_of(samplers.naive_sgrhmc(0.05, metric, root), skewed, **options)
    assert any("Stein" in warning for warning in wrong.warnings)
    right = summary_of(samplers.gsgrhmc(0.05, metric, root), skewed, **options)
    assert not any("Stein" in warning for warning in right.warnings)


@pytest.mark.slow
def test_temperature_and_distinct_rows_enter_the_share_and_the_discrepancy(optimised):
    target = normals()
    s2 = float(np.var(np.asarray(target.data)))
    trace = fk.sample(
        target,
        samplers.sgld(1e-5),
        init=0.7,
        steps=2_000,
        thin=40,
        chains=64,
        batch_size=500,
        batches="no replacement",
        temperature=3.0,
        progress=False,
    )
    summary = trace.summary()
    wanted = 1e-5 * (1000**2 / 500) * 0.5 * s2 / (2 * 3.0)
    assert summary.checks["gradient noise over injected noise"] == pytest.approx(wanted, rel=0.1)
    assert summary.checks["p-value of the kernel Stein discrepancy"] > 0.001


@pytest.mark.slow
def test_gradients_by_large_minibatches_are_unbiased():
    """By control variates, which are exact where U is quadratic; 1,000 rows of 2,000 each."""
    from fokker.diagnostics._gradients import gradients_at

    target = normals(2000)
    positions = jnp.full((2, 400), 0.2).at[1].set(0.6)
    found = gradients_at(target, positions, most=1000)[:, :, 0]
    exact = jax.vmap(jax.grad(target.potential))(positions[:, 0])
    np.testing.assert_allclose(found.mean(axis=1), exact, rtol=1e-5)


# The bias of the step -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_halving_the_step_finds_its_bias(optimised):
    """Euler steps on a unit normal have the variance 1/(1 - ε/2): at ε = 0.6 a spread 19.5 % too large."""
    unit = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    options = {"init": jnp.zeros(1), "steps": 6_000, "burn_in": 200, "chains": 32, "progress": False}
    coarse = fk.sample(unit, samplers.sgld(0.6), **options).step_halving()
    exact = 2 * (1 - np.sqrt((1 - 0.3) / (1 - 0.15)))
    assert coarse.deviation[0] == pytest.approx(exact, abs=5 * float(coarse.deviation_error[0]))
    assert coarse.halved.settings["step_size"] == pytest.approx(0.3)
    assert any("standard deviation" in warning for warning in coarse.warnings)
    assert "standard deviation" in str(coarse)
    fine = fk.sample(unit, samplers.sghmc(0.1, integrator=Splitting()), **options).step_halving()
    assert fine.warnings == []
    assert fine.halved.settings["burn_in"] == 400
    assert fine.halved.settings["steps"] == 12_000


@pytest.mark.slow
def test_halving_a_schedule_halves_its_clock_too():
    unit = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    trace = fk.sample(
        unit, samplers.sgld(lambda t: 0.1 / (1 + t)), init=jnp.zeros(1), steps=20, chains=2, progress=False
    )
    assert float(trace.step_halving().halved.settings["step_size"](10)) == pytest.approx(0.05 / 6)


@pytest.mark.slow
def test_halving_needs_draws_and_chains():
    unit = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    options = {"init": jnp.zeros(1), "steps": 20, "chains": 1, "progress": False}
    with pytest.raises(ValueError, match="at least two"):
        fk.sample(unit, samplers.sgld(0.1), **options).step_halving()
    with pytest.raises(ValueError, match="draws"):
        fk.sample(unit, samplers.sgld(0.1), keep="moments", **options).step_halving()


@pytest.mark.slow
@pytest.mark.parametrize("form", [lambda m: m, np.diag], ids=["masses", "matrix"])
def test_the_share_of_the_minibatches_is_that_of_the_same_steps_in_other_units(form, x64):
    """A mass matrix m with steps of h√m and a friction of γ/√m is the same chain."""
    data = np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 3.0]
    target = fk.Posterior(lambda theta: 0.0, lambda theta, x: -jnp.sum((x - theta) ** 2) / 2, data)

    def share(*m):
        root = m[0] ** 0.5
        placed = samplers.sghmc(2e-3 * root, 50 / root, mass_matrix=form(np.array(m))).on(target)
        start = jax.vmap(lambda key: placed.init(jnp.ones(2), key=key))
        states = start(jax.random.split(jax.random.key(1), 2))
        return diagnostics.gradient_noise_share(placed, states, Batches(60, 6))

    usual = share(1.0, 1.0)
    np.testing.assert_allclose([share(100.0, 100.0), share(0.01, 0.01)], usual, rtol=1e-9)
    assert share(1.0, 4.0) < 0.5 * usual  # less noise where there is most of it


# Going on -------------------------------------------------------------------------------------------------


@pytest.mark.long("diagnostics::an_interrupted_run_is_resumed_to_the_bit")
@pytest.mark.parametrize("keep", ["draws", "moments"])
def test_a_run_in_two_parts_is_the_run_in_one(keep):
    target = normals()
    options = {
        "init": 0.5,
        "burn_in": 30,
        "thin": 2,
        "chains": 2,
        "batch_size": 10,
        "keep": keep,
        "progress": False,
    }
    sampler = samplers.sgnht(1e-3, 10.0)
    whole = fk.sample(target, sampler, steps=120, chunk=50, **options)
    parts = fk.sample(target, sampler, steps=40, chunk=50, **options).resume(80)
    if keep == "draws":
        np.testing.assert_array_equal(parts.samples, whole.samples)
        np.testing.assert_array_equal(parts.sample_stats["xi"], whole.sample_stats["xi"])
    else:
        np.testing.assert_allclose(parts.moments["mean"], whole.moments["mean"], rtol=1e-6)
        np.testing.assert_allclose(parts.moments["variance"], whole.moments["variance"], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the run ended before its first draw")
@pytest.mark.parametrize("after", [1, 3, 6])
def test_an_interrupted_run_is_resumed_to_the_bit(after, monkeypatch):
    """Ctrl-C in burn-in, between draws that are further apart than a chunk, and among the draws."""
    options = {
        "init": jnp.ones(2),
        "steps": 75,
        "burn_in": 40,
        "thin": 25,
        "chunk": 20,
        "chains": 2,
        "progress": False,
    }
    whole = fk.sample(NORMAL, samplers.sghmc(0.1), **options)
    interrupt_at(monkeypatch, "_fetch", after)
    part = fk.sample(NORMAL, samplers.sghmc(0.1), **options)
    assert part.stopped.startswith("interrupted")
    monkeypatch.undo()
    rest = part.resume()
    assert rest.stopped is None
    np.testing.assert_array_equal(rest.samples, whole.samples)


def test_a_run_that_diverged_cannot_be_resumed():
    trace = fk.sample(
        fk.Density(lambda theta: -jnp.sum(theta**4)),
        samplers.sgld(1.0),
        init=jnp.ones(1),
        steps=100,
        chains=1,
        progress=False,
    )
    with pytest.raises(ValueError, match="not finite"):
        trace.resume()


# Tuning ---------------------------------------------------------------------------------------------------


def test_the_time_scales_of_the_dynamics_are_found():
    """Of a normal with curvatures 0.7 and 2.3: 1/(D·2.3) for Langevin, 1/√2.3 for SGHMC."""
    largest = np.linalg.eigvalsh(PRECISION)[-1]
    theta = jnp.zeros(2)
    assert largest_curvature(NORMAL, theta) == pytest.approx(largest, rel=0.01)
    where = (NORMAL, 1.0, theta, jax.random.key(0))
    assert samplers.sgld(0.1, 3.0).fastest_time(*where) == pytest.approx(1 / (3 * largest), rel=0.01)
    slow = samplers.sghmc(0.1, 1e-3).fastest_time(*where)
    assert slow == pytest.approx(1 / np.sqrt(largest), rel=0.15)
    with pytest.raises(ValueError, match="give step_sizes"):
        largest_curvature(fk.Density(lambda theta: -jnp.sum(theta)), theta)


@pytest.mark.slow
def test_the_time_scales_of_a_constrained_target_are_those_at_its_temperature():
    """Of a uniform variable between 0 and 1: U_y is T times the log-Jacobian alone, with curvature T/2."""
    target = fk.constrain(fk.Density(lambda theta: 0.0 * theta), fk.constraints.interval(0.0, 1.0))
    y, key = target.unconstrain(0.5), jax.random.key(0)
    for T in (1.0, 8.0):
        assert samplers.sgld(0.1).fastest_time(target, T, y, key) == pytest.approx(2 / T, rel=0.01)
        assert samplers.psgld(0.1).fastest_time(target, T, y, key) == pytest.approx(2**0.5, rel=0.01)
        options = Options(init=0.5, steps=1, temperature=T, key=key)
        arms = list(candidates_of(target, samplers.sghmc, y, [0.1], None, options))
        rates = [arm.friction for arm in arms]
        np.testing.assert_allclose(rates, [(T / 2) ** 0.5 * share for share in _FRICTIONS], rtol=0.01)


@pytest.mark.slow
def test_tuning_leaves_out_steps_that_explode_or_crawl(optimised):
    """The best of SGLD's steps on a normal is neither the unstable nor the slowest; its bias is mended."""
    tuning = fk.tune(
        NORMAL, samplers.sgld(1.0), init=jnp.zeros(2), step_sizes=[3.0, 0.2, 1e-5], progress=False
    )
    assert tuning.rounds[1][0].step_size == 0.2  # the winner, whose variance is 30 % too large
    assert 0.02 < tuning.step_size <= 0.1
    first = {trial.step_size: trial.discrepancy for trial in tuning.rounds[0]}
    assert [trial.problem for trial in tuning.rounds[0]][2] == "theta has hardly moved"
    assert first[3.0] == np.inf
    assert first[1e-5] > 10 * abs(first[0.2])
    text = str(tuning)
    assert "diverged" in text
    assert f"chosen: step size {tuning.step_size:.4g}" in text
    with pytest.raises(ValueError, match="every step size tried"):
        fk.tune(NORMAL, samplers.sgld(1.0), init=jnp.zeros(2), step_sizes=[50.0], progress=False)


def test_a_sampler_given_as_a_function_gets_its_friction_inertia_and_splitting():
    """The inertia of a thermostat is that of its friction, μ = 1/A²: dξ = (r²/d - T)/μ."""
    assert _friction_name(samplers.sgnht) == "friction"
    thermostat = _with_friction(samplers.sgnht, "friction", 3.0)
    assert isinstance(thermostat.integrator, Splitting)
    z = {"theta": jnp.zeros(2), "r": 2 * jnp.ones(2), "xi": jnp.array(3.0)}
    assert float(thermostat.on(NORMAL).placed.drift(z)["xi"]) == pytest.approx(3 * 9)
    plain = _with_friction(samplers.sghmc, "friction", 3.0).on(NORMAL).placed
    z = {"theta": jnp.zeros(2), "r": jnp.ones(2)}
    np.testing.assert_allclose(plain.drift(z)["r"], -3.0, rtol=1e-6)
    with pytest.raises(ValueError, match="no friction"):
        fk.tune(NORMAL, samplers.sgld, init=jnp.zeros(2), frictions=[1.0], progress=False)


@pytest.mark.long("diagnostics::a_sampler_given_as_a_function_gets_its_friction_inertia_and_splitting")
def test_friction_is_chosen_for_a_sampler_given_as_a_function(optimised):
    tuning = fk.tune(
        NORMAL, samplers.sghmc, init=jnp.zeros(2), step_sizes=[0.3], frictions=[1.0, 1e4], progress=False
    )
    assert tuning.friction == 1.0
    assert isinstance(tuning.sampler.integrator, Splitting)


@pytest.mark.long("journal::a_warm_up_that_is_killed_goes_on_to_the_same_bits")
def test_a_step_size_left_open_is_found_by_sample(optimised):
    trace = fk.sample(NORMAL, "sgld", init=jnp.zeros(2), steps=4_000, chains=4, progress=False)
    assert 0.01 < float(trace.settings["step_size"]) < 0.6
    np.testing.assert_allclose(np.cov(trace.flat()[1].reshape(-1, 2).T), np.linalg.inv(PRECISION), atol=0.35)


def test_a_step_size_left_open_is_not_stepped_with():
    placed = samplers.sgld("auto").on(NORMAL)
    state = placed.init(jnp.zeros(2), key=jax.random.key(0))
    with pytest.raises(ValueError, match="has not been found yet"):
        placed.step(jax.random.key(0), state)
    with pytest.raises(ValueError, match="not 'Auto'"):
        samplers.sgld("Auto")


def test_the_time_scale_of_a_preconditioned_sampler_grows_with_the_root_of_the_temperature():
    """D = 1/√(T∇²U), and 1/(D∇²U) with it: √(T/curvature)."""
    for T in (1.0, 4.0):
        found = samplers.psgld(1.0).fastest_time(NORMAL, T, jnp.zeros(2), jax.random.key(0))
        assert found == pytest.approx(np.sqrt(T / np.linalg.eigvalsh(PRECISION).max()), rel=1e-3)


@pytest.mark.long(
    "diagnostics::the_time_scale_of_a_preconditioned_sampler_grows_with_the_root_of_the_temperature"
)
def test_preconditioned_sgld_is_tuned_by_name_from_the_mode(optimised):
    """Half of the data per step, with control variates: variances within 30 %, of 4 chains of 4,000 steps."""
    x = jax.random.normal(jax.random.key(0), (400, 2))
    y = x @ jnp.array([1.0, -0.5]) + jax.random.normal(jax.random.key(1), (400,))
    target = fk.Posterior(
        lambda theta: -jnp.sum(theta**2) / 2, lambda theta, row: -((row[1] - row[0] @ theta) ** 2) / 2, (x, y)
    )
    precision = np.asarray(x.T @ x) + np.eye(2)
    mode = jnp.asarray(np.linalg.solve(precision, np.asarray(x.T @ y)), jnp.float32)
    options = {
        "init": mode,
        "batch_size": 200,
        "gradient": fk.gradients.control_variates(mode),
        "progress": False,
    }
    tuning = fk.tune(target, "psgld", **options)
    trace = fk.sample(target, tuning.sampler, steps=4_000, burn_in=1_000, chains=4, **options)
    variances = np.asarray(trace.samples).reshape(-1, 2).var(axis=0)
    np.testing.assert_allclose(variances, np.diag(np.linalg.inv(precision)), rtol=0.3)


@pytest.mark.long("verdict::a_trial_is_judged_by_its_second_half_and_at_its_temperature")
def test_a_step_size_is_found_at_other_temperatures(optimised):
    hot = fk.tune(NORMAL, "sgld", init=jnp.zeros(2), step_sizes=[0.2], temperature=4.0, progress=False)
    assert abs(hot.rounds[0][0].discrepancy) < 1


@pytest.mark.slow
def test_a_step_size_left_open_in_replicas_is_found(monkeypatch):
    """By trials that are not run: of the steps tried, that nearest to 0.1 is said to be the best."""
    judged = lambda target, sampler, *rest: (abs(float(sampler.step_size) - 0.1), "", 1.0)  # noqa: E731
    monkeypatch.setattr("fokker.run.trials.judged", judged)
    open_ended = samplers.replica_exchange(samplers.sgld("auto", noise_estimate=0.01), (1.0, 2.0))
    trace = fk.sample(NORMAL, open_ended, init=jnp.zeros(2), steps=4, chains=2, progress=False)
    time_scale = 1 / np.linalg.eigvalsh(PRECISION)[-1]
    steps = time_scale * 2.0 ** -np.arange(9)
    nearest = steps[np.argmin(np.abs(steps - 0.1))]
    assert float(trace.settings["step_size"]) == pytest.approx(nearest, rel=0.02)
    assert trace.samples.shape == (2, 4, 2)


def test_samplers_by_name_are_suggested():
    cases = {
        "sgdl": r"Did you mean 'sgld'\? There are: ghmc, .*as fk\.samplers\.NAME\(…\): gibbs, .*recipe",
        "gsgrhmc": r"cannot be given by its name alone: give fk\.samplers\.gsgrhmc\(step_size, inverse",
        "slice_sampler": r"cannot be given by its name alone: give fk\.samplers\.slice_sampler\(\)",
        "recipe": r"cannot be given by its name alone: give fk\.samplers\.recipe\(dynamics, step_size\)",
    }
    for name, words in cases.items():
        with pytest.raises(ValueError, match=words):
            fk.sample(NORMAL, name, init=jnp.zeros(2), steps=10, chains=1)


def test_what_is_said_to_be_there_can_be_given_by_name():
    with pytest.raises(ValueError, match="There are: ") as caught:
        by_name("sgdl")
    listed, _, others = str(caught.value).partition("There are: ")[2].partition("; or 'auto'")
    assert {"sgld", "nuts"} <= set(listed.split(", "))
    for name in listed.split(", "):
        assert by_name(name)(step_size="auto").is_automatic
    for name in others.partition("NAME(…): ")[2].rstrip(".").split(", "):
        with pytest.raises(ValueError, match=rf"give fk\.samplers\.{name}\("):
            by_name(name)


# Windows --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_windows_have_every_row_equally_often_and_know_which_they_are():
    data = {"x": jnp.arange(3000.0)}
    batches = WindowBatches(data, 3, jax.random.key(0))
    seen = [batches.batch(data, jnp.asarray(start)) for start in range(0, 3000, 7)]
    for batch in seen[:20]:
        np.testing.assert_array_equal(batch.data["x"], data["x"][batch.rows])
    every = jax.vmap(lambda start: batches.batch(data, start).rows)(jnp.arange(3000))
    np.testing.assert_array_equal(np.bincount(np.asarray(every).ravel()), 3)
    starts = jax.vmap(lambda key: batches.rows(key, key, 0, 0))(jax.random.split(jax.random.key(1), 30_000))
    counts = np.bincount(np.asarray(starts), minlength=3000)
    assert counts.std() == pytest.approx(np.sqrt(10), rel=0.15)
    assert counts.size == 3000
    assert counts[-2:].sum() > 0
    with pytest.raises(ValueError, match="3,000 data"):
        WindowBatches({"x": jnp.arange(2999.0)}, 3, jax.random.key(0))


def test_windows_are_the_default_on_large_data_alone():
    from fokker.run.minibatches import make_batches

    target = normals(2000)
    assert isinstance(make_batches(target, 2, None, None, jax.random.key(0)), WindowBatches)
    assert make_batches(target, 3, None, None, jax.random.key(0)).kind == "replacement"
    assert make_batches(target, 2, "no replacement", None, jax.random.key(0)).kind == "no replacement"


@pytest.mark.slow
def test_saga_and_windows_agree_on_the_rows():
    """On data whose order matters: the table has each row's own gradient."""
    target = fk.Posterior(lambda t: 0.0 * t, lambda t, x: -((x - t) ** 2) / 2, jnp.arange(2000.0) / 2000)
    trace = fk.sample(
        target,
        samplers.sgld(1e-9),
        gradient=fk.gradients.saga(),
        init=0.5,
        steps=50,
        chains=1,
        batch_size=2,
        progress=False,
    )
    np.testing.assert_allclose(trace.state.memory.estimator.each[0], 0.5 - np.arange(2000) / 2000, atol=1e-3)


@pytest.mark.parametrize("chains", [1, 2, 4, 5])
def test_every_chain_is_looked_at(chains):
    """At evenly spaced places from its start to its end."""
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    trace = fk.sample(
        target, fk.samplers.sgld(0.1), init=jnp.zeros(1), steps=1000, chains=chains, progress=False
    )
    samples = np.broadcast_to(np.arange(chains)[:, None, None], trace.samples.shape)
    marked = dataclasses.replace(trace, draws=samples + np.arange(1000)[None, :, None] / 1000)
    found = np.asarray(thinned(marked.positions, 400))[:, :, 0]
    assert found.shape == (chains, 400 // chains)
    np.testing.assert_array_equal(np.floor(found), np.arange(chains)[:, None] * np.ones(found.shape))
    places = found % 1
    np.testing.assert_allclose(np.diff(places), chains / 400, atol=0.0021)
    assert places.min() < chains / 400
    assert places.max() > 1 - chains / 400


def test_moments_of_many_draws_far_from_zero_keep_their_digits():
    """NumPy adds the draws of two coordinates one by one: in single precision in steps of 32 near 4e8."""
    draws = 1000 + np.random.default_rng(0).normal(size=(4, 100_000, 2)).astype(np.float32)
    values = flat({"theta": draws}).values
    np.testing.assert_allclose(values.mean(axis=(0, 1)), 1000, atol=0.01)
    np.testing.assert_allclose(values.std(axis=(0, 1)), 1, atol=0.01)
