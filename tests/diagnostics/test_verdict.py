"""The grade of a run: what is found in draws known to be right or wrong, and what is advised.

Most traces here are made by NumPy, with what is wrong with them put in on purpose.
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal

import fokker as fk
from fokker import samplers
from fokker.diagnostics import Grade, Verdict, spread_of
from fokker.diagnostics._agreement import agreement, chance_r_hat
from fokker.diagnostics._convergence import (
    Context,
    _disagreement,
    _divergence,
    _how_to_mix,
    r_hat_and_effective,
)
from fokker.diagnostics._findings import Finding
from fokker.diagnostics._scores import scores
from fokker.diagnostics._steps import bfmi
from fokker.diagnostics.summary import Summary
from fokker.run import tuning
from fokker.run.call import Options
from fokker.run.candidates import Arm
from fokker.run.journal import Journal
from fokker.run.trials import trial_of
from interrupted import interrupt_at
from judged_draws import origin_of
from own_samplers import OfDraws

pytestmark = pytest.mark.dependencies


def rng(seed=0):
    return np.random.default_rng(seed)


def origin(sampler=None, target=None, one_start=False):
    sampler = sampler or OfDraws()
    return origin_of(sampler, target, one_start)


def trace_of(draws, stats=None, where=None, **settings):
    return fk.Trace(draws, None, stats or {}, None, None, settings, where)


def said(draws, stats=None, where=None):
    return trace_of(draws, stats, where).summary(gradients=False)


def right(chains=4, number=1000, d=2, seed=0):
    return rng(seed).normal(size=(chains, number, d))


# The spread of theta --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("d", "repeats"), [(1, 25), (10, 10)])
def test_a_variance_off_by_a_tenth_is_found_and_a_right_one_is_not(d, repeats):
    """4,000 draws of a normal. Right runs: 1 % alarm by design, so that 3 of 25 have a chance of 0.002."""
    alarms = {}
    for bias in (0.0, 0.1, -0.1):
        draws = (np.sqrt(1 + bias) * right(d=d, seed=i) for i in range(repeats))
        alarms[bias] = sum(spread_of(x, x).furthest() is not None for x in draws)
    assert alarms[0.0] < 3
    assert min(alarms[0.1], alarms[-0.1]) >= 0.85 * repeats


def test_the_bias_that_would_have_been_seen_is_that_of_the_theory():
    """√(2/n) per direction; threshold and power of a normal; the average over d directions √d times finer."""
    x = right(number=4000, d=8)
    spread = spread_of(x, x)
    assert spread.error == pytest.approx(np.sqrt(2 / 16_000), rel=0.25)
    one, everywhere = spread.detectable
    assert one == pytest.approx((3.60 + 1.28) * spread.error.max(), rel=0.02)  # 0.01/4 over 16 directions
    assert everywhere == 0.05
    assert spread.pooled_error == pytest.approx(np.sqrt(2 / 16_000 / 8), rel=0.15)


def test_directions_are_not_chosen_by_the_draws_that_they_judge():
    """400 draws in 100 dimensions: the widest direction of a sample is twice as wide as it should be."""
    x = right(number=100, d=100)
    spread = spread_of(x, x)
    assert np.all(np.abs(spread.bias[100:110].mean()) < 0.15)
    widest = np.linalg.eigvalsh(np.cov(x.reshape(-1, 100).T))[-10:]
    assert widest.mean() > 1.5


def test_a_bias_along_a_principal_direction_is_found_there():
    """A narrow direction that is 25 % too wide, between two coordinates whose variances hardly change."""
    axes, variances = np.array([[1, 1], [1, -1]]) / np.sqrt(2), np.array([1.95, 0.05])
    precision = axes.T @ np.diag(1 / variances) @ axes
    z = right()
    wrong = (z * np.sqrt(variances * [1, 1.25])) @ axes
    name, bias, error = spread_of(wrong, wrong @ precision).furthest()
    assert name == "principal direction 2 of 2"
    assert bias == pytest.approx(0.25, abs=4 * error)
    assert np.all(np.var(wrong, axis=(0, 1)) < 1.1)


def test_standard_errors_know_of_autocorrelation():
    """Of squares of an AR(1) process: effective draws n(1 - φ²)/(1 + φ²)."""
    phi = 0.9
    noise = rng().normal(size=(4, 5000, 2)) * np.sqrt(1 - phi**2)
    x = signal.lfilter([1], [1, -phi], noise, axis=1)[:, 500:]
    wanted = np.sqrt(2 / (18_000 * (1 - phi**2) / (1 + phi**2)))
    np.testing.assert_allclose(spread_of(x, x).error[:2], wanted, rtol=0.25)


def test_products_without_a_variance_are_not_judged():
    """Half-Pareto products of tail index 1.3, with the mean of 1 that they should have, and far from it."""
    products = (rng(3).pareto(1.3, size=(4, 1000, 1)) + 1) * 0.3 / 1.3
    spread = spread_of(np.ones_like(products), products)  # centred at 1: their product is 0
    assert not spread.judged.any()
    signs = rng(1).choice([-1.0, 1.0], size=products.shape)
    spread = spread_of(signs, 0.5 * signs * products)
    assert abs(spread.bias[0]) > 2 * spread.error[0]
    assert spread.furthest() is None
    assert spread_of(signs, 0.5 * signs).pooled_bias == pytest.approx(-0.5, abs=0.05)


# Convergence ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chain", [0, 1, 2, 3])
def test_every_chain_counts(chain):
    apart = right()
    apart[chain] += 3
    summary = said(apart)
    assert summary.grade is Grade.BAD
    assert np.all(summary.r_hat > 1.3)
    assert np.all(summary.effective < 50)
    assert said(right()).grade is Grade.GOOD


def test_r_hat_by_chance_is_not_a_problem():
    """Of 200 sets of four chains with 400 effective draws, 99 in 100 stay below; and it is not far above."""
    r_hat = r_hat_and_effective(right(number=100, d=200))[0]
    allowed = chance_r_hat(8, np.full(200, 50.0), 50, 1)
    assert np.mean(r_hat > allowed) < 0.05
    assert np.any(r_hat > 1.01)
    assert np.max(r_hat) > 0.7 * allowed[0] + 0.3


@pytest.mark.parametrize(
    ("grade", "words", "make"),
    [
        (Grade.BAD, "not finite", lambda x, t: np.where(t > 0.5, np.nan, x)),
        (Grade.BAD, "never moved", lambda x, t: 0 * x + 1),
        (Grade.BAD, "the chain diverges (take smaller steps)", lambda x, t: x * np.exp(20 * t)),
        (Grade.BAD, "several modes", lambda x, t: x + np.array([0, 0, 9, 9])[:, None, None]),
        (Grade.BAD, "give more burn_in", lambda x, t: x + 20 * np.exp(-2 * t)),
        (Grade.BAD, "have not mixed yet: run longer", lambda x, t: np.cumsum(x, axis=1)),
        (Grade.CARE, "effective draws, fewer than 400: run longer", lambda x, t: x[:, :60]),
    ],
    ids=["nan", "still", "blown up", "modes", "trend", "slow", "short"],
)
def test_the_advice_fits_the_cause(grade, words, make):
    x = right()
    summary = said(make(x, np.linspace(0, 1, 1000)[None, :, None]))
    assert summary.grade is grade
    assert words in summary.warnings[0]
    assert f"{grade}:".upper() in str(summary)


def test_unequal_scales_and_correlations_get_a_mass_for_advice():
    slow = np.cumsum(right(), axis=1)
    scaled = np.concatenate([slow, 1e-3 * right(seed=1)], axis=2)
    assert "standard deviations from" in said(scaled).warnings[0]
    tied = slow[:, :, :1] + 1e-3 * right(seed=1)
    assert "strongly correlated" in said(tied).warnings[0]
    learns = origin(OfDraws(adapts=True))
    assert "mass_matrix='dense'" in said(tied, where=learns).warnings[0]
    has_one = types.SimpleNamespace(learns=False, has_mass_matrix=True)
    for draws in (scaled, tied):
        assert _how_to_mix(draws, 0, Context(has_one)) == "run longer"
        assert _how_to_mix(draws, 0, Context(OfDraws())) != "run longer"


# What the steps say ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "grade"), [(0, Grade.GOOD), (1, Grade.CARE), (500, Grade.BAD)])
def test_divergences_are_graded_by_their_number(number, grade):
    diverging = np.zeros((4, 1500), bool)
    diverging.flat[:number] = True
    summary = said(right(number=1500), {"is_divergent": diverging})
    assert summary.grade is grade
    assert summary.trusted == (number == 0)
    assert any(f"{number:,} of 6,000 steps diverged" in w for w in summary.warnings) == (number > 0)


def tree_stats(energy, depth=5):
    return {"energy": energy, "tree_depth": np.full(energy.shape, depth)}


def test_energies_are_judged_chain_by_chain():
    """Independent ones move by 2, whatever the level of their chain; slow ones do not."""
    energy = rng().normal(size=(4, 1000))
    levels = np.array([0.0, 50, 100, 150])[:, None]
    np.testing.assert_allclose(bfmi(energy + levels), 2, atol=0.3)
    assert said(right(), tree_stats(energy + levels)).trusted
    slow = energy.copy()
    slow[2] = np.cumsum(slow[2])
    summary = said(right(), tree_stats(slow))
    assert summary.grade is Grade.CARE
    assert "the energy changes slowly" in summary.warnings[0]


def test_trajectories_cut_off_are_said_to_be():
    deep = origin(OfDraws(adapts=True, deepest=10))
    energy = rng().normal(size=(4, 1000))
    assert said(right(), tree_stats(energy, 9), deep).trusted
    assert "100 % of the trajectories were cut off" in said(right(), tree_stats(energy, 10), deep).warnings[0]


def test_the_kinetic_temperature_is_judged_beyond_its_error():
    """Of one momentum, 30 % of whose mean over 40 draws is chance; 6 % too high over 40,000 is not."""
    few = rng(0).chisquare(1, size=(4, 50)) * 1.15
    assert not any("kinetic" in w for w in said(right(), {"kinetic_temperature": few}).warnings)
    many = rng(0).chisquare(8, size=(4, 5000)) / 8 * 1.12
    summary = said(right(), {"kinetic_temperature": many})
    assert summary.grade is Grade.CARE
    assert "kinetic temperature is 1.12" in summary.warnings[0]
    assert said(right(), {"kinetic_temperature": 2 * many}).grade is Grade.BAD


@pytest.mark.slow
def test_nuts_is_trusted_on_a_normal_and_not_on_a_funnel():
    """Neal's funnel in three dimensions, whose neck the step does not fit."""

    def log_density(theta):
        v = 3 * theta[0]
        return -(theta[0] ** 2) / 2 - jnp.sum(theta[1:] ** 2 * jnp.exp(-v)) / 2 - v

    options = {"steps": 500, "warm_up": 300, "chains": 4, "progress": False}
    start = {"init": lambda key: jax.random.normal(key, (3,))}
    bad = fk.sample(fk.Density(log_density), samplers.nuts(), **options, **start).summary()
    assert bad.grade is Grade.BAD
    assert any("diverged" in w for w in bad.warnings)
    good = fk.sample(
        fk.Density(lambda theta: -jnp.sum(theta**2) / 2), samplers.nuts(), **options, **start
    ).summary()
    assert good.trusted, good.warnings
    assert "Nine times out of ten, a run like this one notices a variance that is off by" in str(good)
    assert good.notes == []


# The table ------------------------------------------------------------------------------------------------


def test_entries_that_cannot_vary_are_no_problem():
    """Weights on a simplex, of which two are free, and a matrix with fixed entries of ones and zeros."""
    target = fk.constrain(fk.Density(lambda theta: 0.0), {"w": "simplex"})
    y = right(d=2)
    w = jax.vmap(jax.vmap(lambda y: target.constrain({"w": y})["w"]))(jnp.asarray(y, jnp.float32))
    summary = said({"w": np.asarray(w)}, where=origin(target=target))
    assert summary.trusted, summary.warnings
    assert summary.names == ["w[0]", "w[1]", "w[2]"]
    y[2] += 4
    w = jax.vmap(jax.vmap(lambda y: target.constrain({"w": y})["w"]))(jnp.asarray(y, jnp.float32))
    assert "R-hat of w[2]" in said({"w": np.asarray(w)}, where=origin(target=target)).warnings[0]


def test_numbers_of_the_table_are_those_of_its_own_entries():
    """Two unconstrained numbers and two entries that cannot vary: as many are judged as the table shows."""
    target = fk.constrain(fk.Density(lambda theta: 0.0), {"L": "correlation_cholesky"})
    y = right(d=2)
    # A slow number, and a factor whose free entry is fast.
    y[:, :, 0] = signal.lfilter([0.3], [1, -0.95], y[:, :, 0], axis=1)
    draw = jax.vmap(jax.vmap(lambda x, a: target.constrain({"L": x[None], "a": a})))
    draws = draw(jnp.asarray(y[..., 1], jnp.float32), jnp.asarray(y[..., 0], jnp.float32))
    summary = said(jax.tree.map(np.asarray, draws), where=origin(target=target))
    effective = dict(zip(summary.names, summary.effective, strict=True))
    assert np.isnan(effective["L[0,0]"])
    assert effective["L[1,0]"] > 2000
    assert effective["a"] < 400
    assert f"at least {effective['a']:,.0f} effective draws" in summary.checked


def test_the_table_has_quantiles_names_by_place_and_constants():
    z = right(d=1)[..., 0]
    L = np.zeros((*z.shape, 2, 2))
    L[..., 0, 0], L[..., 1, 0], L[..., 1, 1] = 1, z, np.exp(z)
    free = {"z": z[..., None]}

    class CholeskyFactor(fk.Target):
        is_constrained = True

        def potential(self, y):
            return y["z"] ** 2 / 2

        def unconstrain(self, theta):
            return {"z": theta["L"][1, 0]}

    target = CholeskyFactor()
    summary = said({"L": L}, where=origin(target=target))
    assert summary.trusted
    assert summary.names == ["L[0,0]", "L[0,1]", "L[1,0]", "L[1,1]"]
    rows = str(summary).splitlines()
    assert rows[0].split() == ["mean", "sd", "5", "%", "50", "%", "95", "%", "R-hat", "ESS", "tail", "ESS"]
    assert [("constant" in row) for row in rows[1:5]] == [True, True, False, False]
    np.testing.assert_allclose(summary.quantiles[2], np.quantile(free["z"], [0.05, 0.5, 0.95]))


def test_chains_that_started_together_are_noted():
    together = said(right(), where=origin(one_start=True))
    assert together.trusted
    assert "Note: all chains started at one point" in str(together)
    assert "started at one point" not in str(said(right(), where=origin()))


# Tuning ---------------------------------------------------------------------------------------------------

UNIT = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)


@pytest.mark.parametrize(("T", "start"), [(1.0, 40.0), (4.0, 0.0)], ids=["far start", "hot"])
def test_a_trial_is_judged_by_its_second_half_and_at_its_temperature(T, start):
    """From 40 standard deviations away, forgotten after 100 of 256 steps; and at T = 4."""
    options = Options(init=jnp.full(2, start), steps=512, temperature=T)
    trial = trial_of(UNIT, Arm(0.1, None, samplers.sgld(0.1)), 512, options, Journal())
    assert abs(trial.discrepancy) < 1
    assert trial.problem == ""
    # Of two normal numbers of variance 1/T the norm has the median √(2 log 2 / T).
    assert trial.gradient_norm * T**0.5 == pytest.approx((2 * np.log(2)) ** 0.5, abs=0.3)


def regression():
    x = rng().normal(size=(500, 3)).astype(np.float32)
    y = (x @ np.linspace(-1, 1, 3) + rng(1).normal(size=500)).astype(np.float32)
    return fk.Posterior(
        lambda theta: -jnp.sum(theta**2) / 20,
        lambda theta, row: -((row["y"] - row["x"] @ theta) ** 2) / 2,
        {"x": x, "y": y},
    )


@pytest.mark.long("diagnostics::tuning_leaves_out_steps_that_explode_or_crawl")
@pytest.mark.parametrize("make", [samplers.sgld, samplers.sghmc, samplers.sgnht])
def test_what_was_tuned_passes_its_own_summary(make, optimised):
    """A step four times too large among the candidates, which the check of the winner halves."""
    target = regression()
    mode = fk.find_mode(target, jnp.zeros(3))
    options = {"init": mode, "batch_size": 50, "gradient": fk.gradients.control_variates(mode)}
    scale = {"step_sizes": [1.2e-3, 8e-4]} if make is samplers.sgld else {"frictions": [20.0]}
    tuning = fk.tune(target, make, **scale, **options)
    trace = fk.sample(
        target, tuning.sampler, steps=20_000, burn_in=1_000, thin=4, chains=4, progress=False, **options
    )
    summary = trace.summary()
    assert summary.trusted, summary.warnings


@pytest.mark.slow
def test_tuning_halves_the_step_until_its_diagnostics_find_no_bias(capsys):
    """From ε = 0.8, with a variance 67 % too large, to 0.2 or less; a far start is warned of."""
    with pytest.warns(RuntimeWarning, match="gradient at init is .* times as large"):
        tuning = fk.tune(UNIT, samplers.sgld(1.0), init=jnp.full(2, 40.0), step_sizes=[0.8])
    assert tuning.step_size <= 0.2
    checks = [trials[0] for trials in tuning.rounds[1:]]
    assert [trial.step_size for trial in checks] == [0.8 / 2**k for k in range(len(checks))]
    assert all("too wide" in trial.problem for trial in checks[:-1])
    assert checks[-1].problem == ""
    assert "too wide" in str(tuning)
    assert (
        "tuning: 1 candidate, about 33,000 steps in each of 4 chains; a step size" in capsys.readouterr().err
    )


@pytest.mark.parametrize(("chains", "draws"), [(1000, 10), (4, 8)])
def test_many_short_chains_do_not_look_as_if_they_blew_up(chains, draws):
    values = np.random.default_rng(0).normal(size=(chains, draws, 20))
    assert _divergence([f"x{k}" for k in range(20)], values) == []
    growing = values * np.geomspace(1, 1e4, draws)[None, :, None]
    assert bool(_divergence([f"x{k}" for k in range(20)], growing)) is (chains > 4)


def test_short_chains_that_hang_together_are_as_many_as_chains():
    """Of products that hardly change within a chain: the error is that of the means of the chains."""
    rng = np.random.default_rng(0)
    products = 1 + rng.normal(size=(64, 1, 3)) + 1e-3 * rng.normal(size=(64, 8, 3))
    _, error, _, _ = scores(products, 1.0)
    np.testing.assert_allclose(error, products.mean(axis=1).std(axis=0, ddof=1) / 8, rtol=1e-6)
    # As few as chains: 32 of them are too few to judge by, though they have 256 draws.
    judged = [scores(1 + 3 * products[:chains], 4.0).judged for chains in (32, 64)]
    assert not judged[0].any()
    assert judged[1].all()


def test_one_chain_is_judged_without_a_word_of_the_library_that_computes(capfd):
    """ArviZ 0.23 logs a failed validation of shapes once for every shape of a single chain."""
    said(right(chains=1, number=777))
    assert "Shape validation failed" not in capfd.readouterr().err


def test_a_step_that_diverges_when_it_is_checked_is_halved(monkeypatch):
    def trial(target, arm, steps, options, journal):
        step_size, friction, sampler = arm
        diverged = step_size > 0.1 and steps > 2000
        problem = "the chains diverged" if diverged else ""
        return tuning.Trial(step_size, friction, steps, np.inf if diverged else 0.1, sampler, problem)

    monkeypatch.setattr(tuning, "trial_of", trial)
    options = {"init": jnp.zeros(1), "step_sizes": [0.3], "progress": False}
    found = fk.tune(fk.Density(lambda theta: -jnp.sum(theta**4) / 4), fk.samplers.sgld, **options)
    assert found.step_size == pytest.approx(0.075)


def test_a_trial_that_diverges_is_a_problem_and_ctrl_c_ends_tuning(monkeypatch):
    target = fk.Density(lambda theta: -jnp.sum(theta**4) / 4)
    options = Options(init=jnp.ones(1), steps=512)
    trial = trial_of(target, Arm(5.0, None, fk.samplers.sgld(5.0)), 512, options, Journal())
    assert "diverged" in trial.problem
    interrupt_at(monkeypatch, "_fetch", 1)
    with pytest.raises(KeyboardInterrupt):
        trial_of(target, Arm(0.01, None, fk.samplers.sgld(0.01)), 512, options, Journal())


def test_r_hat_of_antithetic_chains_is_judged_by_their_folded_draws():
    """As NUTS's: the draws alternate about their mean and their size hangs together; right in all respects.

    Of 40 runs at most two may be found to disagree (chance_r_hat allows one in a hundred).
    """
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(40):
        size = np.exp(
            0.5 * signal.lfilter([np.sqrt(1 - 0.8**2)], [1, -0.8], rng.normal(size=(4, 400)), axis=1)
        )
        values = (size * rng.normal(size=(4, 400)))[:, -200:, None]
        r_hat = r_hat_and_effective(values)[0]
        alarms += bool(_disagreement(["x"], values, agreement(values, r_hat), Context(None)))
    assert alarms <= 2
    shifted = values + 0.5 * np.arange(4)[:, None, None]
    apart = agreement(shifted, r_hat_and_effective(shifted)[0])
    assert _disagreement(["x"], shifted, apart, Context(None))


def test_a_list_for_a_vector_is_named():
    with pytest.raises(ValueError, match=r"init is a list; for a vector give jnp\.zeros\(2\)"):
        fk.sample(
            fk.Density(lambda t: -jnp.sum(t**2)), samplers.sgld(0.1), init=[0.0, 0.0], steps=9, chains=1
        )


def test_a_list_inside_a_start_is_named():
    target = fk.Density(lambda p: -jnp.sum((2.0 * p["z"]) ** 2) - jnp.sum(p["layers"][0] ** 2))
    options = {"steps": 3, "progress": False}
    for z, array in (([0] * 8, r"jnp\.zeros\(8\)"), ([1.0, 2], r"jnp\.array\(\[1\.0, 2\]\)")):
        with pytest.raises(ValueError, match=rf"\. init\['z'\] is a list; for a vector give {array}\.$"):
            fk.sample(target, fk.samplers.sgld(0.1), init={"z": z, "layers": [jnp.ones(2)]}, **options)
    with pytest.raises(ValueError, match=r"could not be evaluated(?!.*is a list)"):
        fk.sample(target, fk.samplers.sgld(0.1), init={"z": {}, "layers": [jnp.ones(2)]}, **options)


@pytest.mark.slow
def test_the_spread_of_a_sampler_made_of_dynamics_is_compared_too():
    """An Euler step of 0.6 makes the variance of a unit normal 1/(1 - 0.3)."""
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    sampler = fk.samplers.recipe(fk.dynamics.langevin(target.potential), 0.6)
    options = {"init": {"theta": jnp.zeros(2)}, "steps": 4000, "chains": 4, "progress": False}
    summary = fk.sample(target, sampler, **options).summary()
    assert any("the spread of theta is too wide" in warning for warning in summary.warnings)
    unknown = fk.sample(None, sampler, **options).summary()
    assert unknown.grade is Grade.CARE
    assert "no bias of the draws was looked for" in unknown.warnings[0]


@pytest.mark.parametrize("grade", [None, Grade.CARE])
def test_in_a_terminal_the_grade_has_its_own_line_and_sentences_are_wrapped(grade):
    finding, checked = "a finding of some words, in /one/long-path/to/nowhere " * 4, "what was checked " * 9
    findings = [] if grade is None else [Finding(grade, finding.strip())]
    nothing = np.zeros(0)
    summary = Summary(
        *([], nothing, nothing, nothing, nothing, nothing, nothing, findings),
        checked=checked.strip(),
        notes=["a note " * 20],
    )
    lines = summary.text(60).splitlines()
    assert max(map(len, lines)) <= 60
    assert ("No problems found." if grade is None else "USE WITH CARE:") in lines
    assert " ".join(summary.text(60).split()) == " ".join(str(summary).split())
    assert max(map(len, str(summary).splitlines())) > 100
    if grade is not None:
        assert lines[lines.index("USE WITH CARE:") + 2].startswith("  ")


def test_a_summary_gives_its_verdict_and_says_the_problems():
    slow, wrong = Finding(Grade.CARE, "slow"), Finding(Grade.BAD, "wrong")
    values = np.zeros(1)
    table = [values] * 2 + [np.zeros((1, 3))] + [values] * 3
    summary = Summary(["x"], *table, [slow, wrong], notes=["seen"], checked="All of it.")
    assert summary.judgement == Verdict((wrong, slow), ("seen",))
    assert summary.verdict == "Do not use: wrong; slow"
    assert "DO NOT USE:\n- wrong\n- slow\nNote: seen." in str(summary)
    good = Summary(["x"], *table, [], checked="All of it.")
    assert (good.verdict, good.judgement.ok) == ("No problems found. All of it.", True)
