"""`sampler="auto"`: the table of docs/choosing.md is that of the code, and each rule makes a run to use."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.run.call import Call, Options
from fokker.run.choice import MOST_CURVED, MOST_FOR_NUTS, RULES, chosen

NORMAL = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)


def by_a_loop(theta):
    """A normal density by a loop of unknown length, which JAX does not differentiate backwards."""
    return jax.lax.while_loop(
        lambda carry: carry[0] < 3,
        lambda carry: (carry[0] + 1, carry[1] - jnp.sum(theta**2) / 6),
        (0, jnp.zeros(())),
    )[1]


WITHOUT_GRADIENT = fk.Density(by_a_loop)


def regression(rows=400, width=2):
    """Columns that are correlated and of different scales."""
    x = np.cumsum(np.random.default_rng(0).normal(size=(rows, width)), axis=1) * np.linspace(1, 5, width)
    return fk.Posterior(
        lambda theta: -jnp.sum(theta**2) / 2,
        lambda theta, row: -((row["y"] - row["x"] @ theta) ** 2) / 2,
        {"x": x.astype(np.float32), "y": x.sum(1).astype(np.float32)},
    )


def choice(target, init, **options):
    return chosen(Call(target, "auto", Options(init=init, steps=100, **options)))


def rule_of(call):
    return next(
        i for i, rule in enumerate(RULES) if call.chosen.startswith(f"{rule.sampler}, since {rule.when}")
    )


def test_the_table_in_the_documentation_is_that_of_the_code():
    text = Path(__file__).parents[2].joinpath("docs", "choosing.md").read_text()
    rows = re.findall(r"^\| (.+) \| (.+) \| (.+) \|$", text, re.M)
    assert [row for row in rows if row[0] in {rule.when for rule in RULES}] == [
        (rule.when, f"`{rule.sampler}`" if rule.sampler != "none" else "none", rule.why) for rule in RULES
    ]


@pytest.mark.parametrize(
    ("target", "init", "options", "rule", "name"),
    [
        (WITHOUT_GRADIENT, jnp.zeros(2), {}, 1, "rwm"),
        (regression(), jnp.zeros(2), {"batch_size": 20}, 2, "sgnht"),
        (regression(width=MOST_CURVED + 1), jnp.zeros(MOST_CURVED + 1), {"batch_size": 20}, 3, "sgnht"),
        (regression(), jnp.zeros(2), {"batch_size": 400}, 5, "nuts"),
        (NORMAL, jnp.zeros(MOST_FOR_NUTS + 1), {}, 4, "mclmc"),
        (NORMAL, jnp.zeros(MOST_FOR_NUTS), {}, 5, "nuts"),
        (fk.constrain(NORMAL, "positive"), fk.PerChain(jnp.ones((2, 3))), {"chains": 2}, 5, "nuts"),
        (regression(), lambda key: jax.random.normal(key, (2,)), {"chains": 500}, 5, "nuts"),
    ],
)
def test_the_first_rule_that_holds_decides(target, init, options, rule, name):
    call = choice(target, init, **options)
    assert rule_of(call) == rule
    assert call.sampler == name or call.sampler.name == name


def test_a_batch_without_data_is_refused_before_a_sampler_is_announced(capsys):
    with pytest.raises(ValueError, match="batch_size needs data"):
        fk.sample(NORMAL, init=jnp.zeros(2), steps=10, batch_size=10)
    assert capsys.readouterr().err == ""


def test_a_batch_of_all_rows_is_no_minibatch():
    """Drawn with replacement it would have noise, of which `nuts` knows nothing."""
    assert choice(regression(), jnp.zeros(2), batch_size=400).options.batch_size is None
    assert choice(regression(), jnp.zeros(2), batch_size=400, batches="reshuffle").options.batches is None
    own = fk.gradients.svrg(10)
    assert choice(regression(), jnp.zeros(2), batch_size=400, gradient=own).options.gradient is own


def test_a_given_sampler_stays():
    call = Call(NORMAL, "sgld", Options(init=jnp.zeros(2), steps=1))
    assert chosen(call) is call


def test_minibatches_are_taken_around_the_mode_in_the_units_of_its_curvature():
    target = regression()
    options = choice(target, jnp.zeros(2), batch_size=20)
    x = np.asarray(target.data["x"], float)
    precision = x.T @ x + np.eye(2)
    factor = np.asarray(options.sampler.mass_matrix.factor, float)
    np.testing.assert_allclose(factor @ factor.T, np.linalg.inv(precision), rtol=1e-4)
    starts = jax.vmap(options.options.init)(jax.random.split(jax.random.key(0), 4000))
    L = np.linalg.cholesky(precision)
    np.testing.assert_allclose(L.T @ np.cov(starts.T) @ L, np.eye(2), atol=0.1)  # 4.5 standard errors
    np.testing.assert_allclose(
        np.mean(starts, 0), np.linalg.solve(precision, x.T @ target.data["y"]), rtol=1e-2
    )
    hot = choice(target, jnp.zeros(2), batch_size=20, temperature=4.0).sampler.mass_matrix.factor
    np.testing.assert_allclose(hot @ hot.T, 4 * factor @ factor.T, rtol=1e-4)
    own = fk.gradients.svrg(10)
    assert choice(target, jnp.zeros(2), batch_size=20, gradient=own).options.gradient is own


@pytest.mark.slow
def test_starts_of_ones_own_stay_so_that_a_second_mode_is_seen():
    """Draws around one mode would agree with each other, and R-hat could not see another."""
    target = fk.Posterior(
        lambda theta: -(theta**2) / 200, lambda theta, y: -((y - theta**2) ** 2) / 2, np.ones(400, np.float32)
    )
    starts = fk.PerChain(jnp.array([-1.0, 1.0, -1.0]))
    call = choice(target, starts, batch_size=20)
    assert call.options.burn_in == call.options.steps // 2
    assert choice(target, starts, batch_size=20, burn_in=7).options.burn_in == 7
    assert choice(target, starts, batch_size=20, burn_in=0).options.burn_in == 0
    assert choice(target, jnp.zeros(2), batch_size=20).options.burn_in is None  # draws around the mode
    assert rule_of(call) == 2
    assert call.options.init is starts
    function = lambda key: jax.random.normal(key)  # noqa: E731
    assert choice(target, function, batch_size=20).options.init is function


@pytest.mark.slow
def test_a_run_that_goes_on_for_more_steps_keeps_the_burn_in_that_was_chosen_for_it(tmp_path):
    target, starts = regression(), fk.PerChain(jnp.ones((2, 2)))
    options = {"batch_size": 20, "burn_in": 7, "steps": 14, "chains": 2, "progress": False}
    before = [
        fk.sample(target, fk.samplers.sgnht(1e-4), init=starts, out=out, **options)
        for out in (None, tmp_path)
    ]
    assert choice(target, starts, batch_size=20).options.burn_in == 50
    assert choice(target, starts, batch_size=20, out=tmp_path).options.burn_in == 7
    assert choice(target, starts, batch_size=20, out=tmp_path / "new").options.burn_in == 50
    assert choice(target, starts, batch_size=20, out=tmp_path, burn_in=9).options.burn_in == 9
    call = Call(target, "auto", Options(init=starts, steps=100, batch_size=20), resumed=before[0])
    assert chosen(call).options.burn_in == 7


def test_without_a_mode_the_next_rule_holds():
    flat = fk.Posterior(
        lambda theta: 0.0 * theta.sum(), lambda theta, x: -((theta[0] - x) ** 2), np.ones(50, np.float32)
    )
    assert rule_of(choice(flat, jnp.zeros(2), batch_size=5)) == 3


def test_a_stream_is_refused_with_what_to_give_instead():
    batches = [np.ones(4, np.float32)] * 3
    target = fk.Posterior(lambda t: -(t**2), lambda t, x: -((x - t) ** 2), lambda: batches, size=100)
    with pytest.raises(ValueError, match=r"stream of batches: give a sampler with a step size"):
        choice(target, 0.0)


@pytest.mark.slow
def test_a_run_says_which_sampler_was_chosen_and_why(tmp_path):
    options = {
        "init": lambda key: jax.random.normal(key, (2,)),
        "steps": 4000,
        "chains": 2,
        "progress": False,
    }
    trace = fk.sample(WITHOUT_GRADIENT, warm_up=200, **options, out=tmp_path / "run")
    reason = f"rwm, since {RULES[1].when}: {RULES[1].why}"
    summary = trace.summary()
    assert trace.settings["chosen"] == fk.open(tmp_path / "run").settings["chosen"] == reason
    assert f"Note: the sampler was chosen automatically: {reason}." in str(summary)
    assert "Do not use" not in str(summary.grade)
    again = fk.sample(WITHOUT_GRADIENT, "auto", warm_up=200, **options, out=tmp_path / "run")
    np.testing.assert_array_equal(again.samples, trace.samples)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "init", "options", "rule"),
    [
        (regression(20_000, 5), jnp.zeros(5), {"batch_size": 100, "steps": 4000}, 2),
        (NORMAL, jnp.zeros(MOST_FOR_NUTS + 1), {"steps": 500, "chains": 2}, 4),
        (NORMAL, jnp.zeros(3), {}, 5),
    ],
)
def test_each_rule_makes_a_run_that_can_be_used(optimised, target, init, options, rule):
    trace = fk.sample(target, "auto", init=init, progress=False, **{"steps": 1000, **options})
    assert trace.settings["chosen"].startswith(f"{RULES[rule].sampler}, since {RULES[rule].when}")
    assert "Do not use" not in str(trace.summary().grade)
