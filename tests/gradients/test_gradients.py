"""Estimators of the gradient and of its noise: exact averages over every batch that there can be."""

import importlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import fokker as fk
from conftest import quick_jit
from fokker import dynamics, fields, gradients, samplers
from fokker.batches import Batch, Batches, WeightedBatches
from fokker.gradients import OnlineNoise
from fokker.samplers import SamplerState
from marks import long_case

N = 5
THETA = {"a": np.array([0.3, -0.2]), "b": np.array(0.7)}
CENTER = {"a": np.array([-0.1, 0.4]), "b": np.array(0.2)}


def make_target():
    """Per-datum gradients that differ in size and depend on theta in a way that is not linear."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(N, 2)))
    y = jnp.asarray(np.random.default_rng(1).normal(size=N)) * 3
    return fk.Posterior(
        lambda theta: -jnp.sum(theta["a"] ** 4) - theta["b"] ** 2,
        lambda theta, datum: -jnp.cosh(datum["y"] - datum["x"] @ theta["a"] - theta["b"] ** 2),
        {"x": x, "y": y},
    )


def take(target, rows, weights=None, scatter=1.0):
    rows = jnp.asarray(rows)
    return Batch(jax.tree.map(lambda x: x[rows], target.data), rows, weights, scatter)


ESTIMATORS = {
    "minibatch": gradients.minibatch,
    "control variates": lambda: gradients.control_variates(CENTER),
    "svrg": lambda: gradients.svrg(3),
    "saga": gradients.saga,
}


def placed(name, target):
    """An estimator with a state that belongs to another position than THETA."""
    estimator = ESTIMATORS[name]().on(target)
    state = estimator.init(target, CENTER)
    if name == "saga":  # a table of gradients of different ages
        state = estimator.update(
            target, state, {"a": jnp.ones(2), "b": jnp.array(-1.0)}, take(target, [3, 1]), 0
        )
    return estimator, state


def average(trees, chances):
    return jax.tree.map(lambda *xs: sum(p * x for p, x in zip(chances, xs, strict=True)), *trees)


def assert_trees_close(found, wanted, tolerance=1e-12):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), found, wanted)


SCORES = np.array([1.0, 4.0, 0.5, 2.0, 3.0])


def every_batch(target, kind, n=2):
    """All batches of n rows and their chances."""
    if kind == "no replacement":
        rows = list(itertools.permutations(range(N), n))
        return [take(target, r, scatter=1 - n / N) for r in rows], [1 / len(rows)] * len(rows)
    rows = list(itertools.product(range(N), repeat=n))
    if kind == "replacement":
        return [take(target, r) for r in rows], [1 / len(rows)] * len(rows)
    batches = WeightedBatches(SCORES, N, n)
    chances = 1 / (n * np.asarray(batches.weights))
    return [batches.batch(target.data, jnp.asarray(r)) for r in rows], [
        np.prod(chances[list(r)]) for r in rows
    ]


KINDS = ("replacement", "no replacement", "weighted")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_is_unbiased_under_every_way_of_drawing_batches(name, kind, x64):
    target = make_target()
    estimator, state = placed(name, target)
    batches, chances = every_batch(target, kind)
    assert sum(chances) == pytest.approx(1, abs=1e-12)
    gradient = jax.jit(lambda batch: estimator.gradient(target, state, THETA, batch))
    found = average([gradient(batch) for batch in batches], chances)
    assert_trees_close(found, jax.grad(target.potential)(THETA), 1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_noise_of_every_estimator_is_estimated_without_bias(name, kind, x64):
    """The average over all batches of the estimate is the covariance of the gradients of all batches."""
    target = make_target()
    estimator, state = placed(name, target)
    batches, chances = every_batch(target, kind)

    @jax.jit
    def of(batch):
        gradient = estimator.gradient(target, state, THETA, batch)
        each = estimator.contributions(target, state, THETA, batch)
        found = {
            kind: OnlineNoise(kind).update(OnlineNoise(kind).init(THETA), each, batch.scatter, jnp.array(-19))
            for kind in ("scalar", "diagonal", "dense")
        }
        return ravel_pytree(gradient)[0], found

    flat, estimates = zip(*map(of, batches), strict=True)
    mean = sum(p * g for p, g in zip(chances, flat, strict=True))
    wanted = sum(p * jnp.outer(g - mean, g - mean) for p, g in zip(chances, flat, strict=True))
    found = average(estimates, chances)
    np.testing.assert_allclose(found["dense"], wanted, rtol=1e-9)
    np.testing.assert_allclose(ravel_pytree(found["diagonal"])[0], jnp.diag(wanted), rtol=1e-9)
    np.testing.assert_allclose(found["scalar"], jnp.trace(wanted) / 3, rtol=1e-9)


def test_the_estimate_of_the_noise_starts_from_zero_and_forgets_slowly(x64):
    """Of batches that all scatter alike: below the truth at first, then there; then after a change."""
    online = OnlineNoise("scalar")
    rows = jnp.array([[1.0], [-1.0]])  # V̂ = 2·(1 + 1) = 4

    def after(V, first, number, scale):
        return jax.lax.fori_loop(
            first, first + number, lambda t, v: online.update(v, scale * rows, 1.0, t), V
        )

    V = after(online.init(jnp.zeros(1)), 0, 20, 1.0)
    assert float(V) == pytest.approx(4 * 20 / 39)
    V = after(V, 20, 4000, 1.0)
    assert float(V) == pytest.approx(4, rel=0.01)
    assert float(after(V, 4020, 1000, 2.0)) == pytest.approx(16 - 12 / np.e, rel=0.01)


@pytest.mark.parametrize("name", ["control variates", "svrg", "saga"])
def test_where_the_baselines_are_the_gradients_themselves_there_is_no_noise(name, x64):
    target = make_target()
    estimator = ESTIMATORS[name]().on(target)
    state = estimator.init(target, CENTER)
    found = estimator.gradient(target, state, CENTER, take(target, [4, 2]))
    assert_trees_close(found, jax.grad(target.potential)(CENTER), 1e-10)


def test_svrg_moves_its_center_to_the_chain_every_so_many_steps(x64):
    target = make_target()
    estimator = gradients.svrg(3)
    state = estimator.init(target, CENTER)
    for number in range(6):
        here = {"a": jnp.full(2, number / 10), "b": jnp.array(0.1)}
        state = estimator.update(target, state, here, take(target, [0, 1]), jnp.array(number))
        at = CENTER if number < 2 else {"a": jnp.full(2, (number + 1) // 3 * 0.3 - 0.1), "b": jnp.array(0.1)}
        assert_trees_close(state.center, at)
        assert_trees_close(state.full, jax.grad(target.potential)(at), 1e-10)


def test_saga_remembers_rows_and_their_sum_where_a_row_comes_twice_too(x64):
    target = make_target()
    estimator = gradients.saga()
    before = estimator.init(target, CENTER)
    after = estimator.update(target, before, THETA, take(target, [3, 1, 3]), jnp.array(0))
    new = target.datum_gradients(THETA, target.data)
    seen = np.array([1, 3])
    wanted = jax.tree.map(lambda old, now: old.at[seen].set(now[seen]), before.each, new)
    assert_trees_close(after.each, wanted)
    assert_trees_close(after.total, jax.tree.map(lambda g: g.sum(0), after.each), 1e-10)


def test_saga_refuses_a_table_that_is_too_large_and_batches_without_rows(monkeypatch, x64):
    target = make_target()
    state = gradients.saga().init(target, CENTER)
    with pytest.raises(TypeError, match="needs the row numbers"):
        gradients.saga().gradient(target, state, CENTER, target.data)
    monkeypatch.setattr(importlib.import_module("fokker.gradients.saga"), "_LARGEST_TABLE", 10)
    with pytest.raises(ValueError, match="15 numbers per chain"):
        gradients.saga().init(target, CENTER)


def test_weighted_batches_draw_each_row_as_often_as_its_weight_says():
    """200,000 rows: chi-squared with 4 degrees of freedom below 40, a false alarm in 2e7."""
    batches = WeightedBatches(SCORES, N, 4)
    keys = jax.random.split(jax.random.key(0), 50_000)
    rows = jax.vmap(lambda key: batches.rows(key, key, 0, 0))(keys)
    counts = np.bincount(np.asarray(rows).ravel(), minlength=N)
    wanted = SCORES / SCORES.sum() * rows.size
    assert np.sum((counts - wanted) ** 2 / wanted) < 40
    np.testing.assert_allclose(1 / np.asarray(batches.weights), 4 * SCORES / SCORES.sum(), rtol=1e-6)


@pytest.mark.parametrize(
    "size", [20_000, long_case("gradients::weighted_batches_of_very_unequal_scores", 10_000_000)]
)
def test_weighted_batches_of_very_unequal_scores(size):
    """Every row keeps a chance; the chances sum to one exactly."""
    scores = np.ones(size)
    scores[: size // 2] = 1e-12
    batches = WeightedBatches(scores, scores.size, 10)
    tickets = np.diff(np.asarray(batches.last).astype(np.int64), prepend=-1)
    assert tickets.min() >= 1
    assert tickets.sum() == 2**32
    np.testing.assert_allclose(np.asarray(batches.weights, float) * tickets * 10, 2.0**32, rtol=1e-6)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (np.ones(4), "one score per datum"),
        (np.array([1, 2, 0, 1, 1.0]), "positive"),
        (np.full(5, np.nan), "positive"),
    ],
)
def test_scores_that_leave_rows_out_are_refused(scores, words):
    with pytest.raises(ValueError, match=words):
        WeightedBatches(scores, N, 2)


def test_batches_say_how_much_less_distinct_rows_scatter():
    target = make_target()
    rows = jnp.array([0, 1])
    assert Batches(N, 2, "replacement").batch(target.data, rows).scatter == 1
    for kind in ("no replacement", "reshuffle"):
        assert Batches(N, 2, kind).batch(target.data, rows).scatter == pytest.approx(1 - 2 / N)


def test_the_sizes_of_gradients_are_those_of_the_likelihood():
    target = make_target()
    each = target.datum_gradients(THETA, target.data)
    wanted = np.sqrt(np.sum(np.asarray(each["a"]) ** 2, axis=1) + np.asarray(each["b"]) ** 2)
    found = np.asarray(gradients.norms(target, THETA, least=0.5))
    np.testing.assert_allclose(found, np.maximum(wanted, 0.5 * wanted.mean()), rtol=1e-5)


V = np.array([[0.9, 0.3], [0.3, 0.5]])
METRIC = np.array([[0.8, 0.1], [0.1, 0.6]])


def U(theta):
    return jnp.sum(theta**4) + theta[0] * theta[1]


@pytest.mark.parametrize(
    ("made", "auxiliaries"),
    [
        (dynamics.langevin(U, 0.7), {}),
        (dynamics.langevin(U, METRIC), {}),
        (dynamics.underdamped(U, 0.3, 2.0), {"r": jnp.array([0.1, 0.2])}),
        (dynamics.thermostat(U, 0.3), {"r": jnp.array([0.1, 0.2]), "xi": jnp.array(0.4)}),
        (
            dynamics.riemann(
                U,
                fields.Elementwise(lambda theta: 1 + theta**2),
                fields.Elementwise(lambda theta: jnp.sqrt(1 + theta**2)),
            ),
            {"r": jnp.array([0.1, 0.2])},
        ),
    ],
    ids=["langevin", "matrix", "underdamped", "thermostat", "riemann"],
)
@pytest.mark.parametrize(
    "field", [fields.Scalar(0.8), fields.Diagonal(jnp.array([0.4, 0.9])), fields.Dense(jnp.asarray(V))]
)
def test_the_noise_of_the_drift_is_that_of_the_gradient_through_the_drift(made, auxiliaries, field, x64):
    """Against the derivative of the drift by the gradient."""
    made = jax.tree.map(lambda x: jnp.asarray(x, float) if eqx_array(x) else x, made)
    z = {"theta": jnp.array([0.3, -0.5]), **{k: jnp.asarray(v, float) for k, v in auxiliaries.items()}}

    def drift(gradient):
        f = made.drift(z, gradient)
        return jnp.concatenate([jnp.ravel(f[name]) for name in ("theta", *sorted(auxiliaries))])

    A = jax.jacfwd(drift)(jnp.zeros(2))
    covariance = field.as_matrix(z, "theta", "theta")
    np.testing.assert_allclose(made.drift_noise(z, field).as_matrix(z), A @ covariance @ A.T, atol=1e-7)


def eqx_array(x):
    return isinstance(x, jax.Array)


def mean_of_normals():
    """100 data of variance 1, a flat prior: the posterior is N(x̄, 1/100)."""
    x = jax.random.normal(jax.random.key(1), (100,))
    return fk.Posterior(lambda theta: 0.0 * theta, lambda theta, x: -((x - theta) ** 2) / 2, x)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda estimate: samplers.sgld(1e-3, noise_estimate=estimate), "sgld"),
        (lambda estimate: samplers.sghmc(0.01, 10.0, noise_estimate=estimate), "sghmc"),
    ],
)
@pytest.mark.long("gradients::the_noise_subtracted_is_that_of_the_batches_before")
def test_noise_that_is_estimated_while_sampling_is_made_up_for(make, name, optimised):
    """Batches of 10 rows, independent: without the estimate the spread is far too large.

    32 chains of 2,000 draws, of which one in 20 counts: the variance is known to 2.5 % and wanted within 10.
    """
    target = mean_of_normals()

    def variance(estimate):
        trace = fk.sample(
            target,
            make(estimate),
            init=jnp.mean(target.data),
            steps=2_000,
            burn_in=1_000,
            chains=32,
            batch_size=10,
            batches="replacement",
            progress=False,
        )
        assert trace.stopped is None
        return float(np.var(trace.samples) * 100)

    step = {"sgld": 1e-3 * 100 / 2, "sghmc": 0.0}[name]  # the exact bias of an Euler step, 1/(1 - εN/2)
    assert variance("scalar") == pytest.approx(1 / (1 - step), rel=0.1)
    if name == "sgld":
        assert variance(None) > 1.3 / (1 - step)


def test_estimators_and_batches_need_single_data_and_minibatches():
    density = fk.Density(lambda theta: -jnp.sum(theta**2))
    with pytest.raises(TypeError, match="a fk"):
        samplers.sgld(0.1, noise_estimate="dense").on(density)
    with pytest.raises(TypeError, match="a fk"):
        samplers.sgld(0.1).on(density, 1.0, gradients.saga())
    with pytest.raises(ValueError, match="batch_size"):
        fk.sample(
            mean_of_normals(), samplers.sgld(0.1), init=0.0, steps=10, chains=1, gradient=gradients.saga()
        )
    with pytest.raises(ValueError, match="Did you mean 'diagonal'"):
        samplers.sgld(0.1, noise_estimate="diagnoal")
    with pytest.raises(TypeError, match="must be one of"):
        samplers.sgld(0.1).on(mean_of_normals(), 1.0, "saga")
    with pytest.raises(ValueError, match="at least two"):
        OnlineNoise("scalar").update(jnp.zeros(()), jnp.ones((1, 3)), 1.0, jnp.array(0))
    with pytest.raises(ValueError, match="at least 1"):
        gradients.svrg(0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "svrg",
        *(
            long_case("gradients::every_estimator_runs_under_the_runner_with_chains", name)
            for name in ("saga", "control variates")
        ),
    ],
)
def test_every_estimator_runs_under_the_runner_with_chains(name):
    """SVRG's passes over the data are made every so many steps, not at every one: the state shows when."""
    target = mean_of_normals()
    estimator = {
        "svrg": gradients.svrg(7),
        "saga": gradients.saga(),
        "control variates": gradients.control_variates(jnp.mean(target.data)),
    }[name]
    options = {"init": jnp.array(0.5), "steps": 40, "chains": 3, "batch_size": 10, "progress": False}
    trace = fk.sample(target, samplers.sgld(1e-3), gradient=estimator, **options)
    again = fk.sample(target, samplers.sgld(1e-3), gradient=estimator, chunk=6, **options)
    np.testing.assert_array_equal(trace.samples, again.samples)
    if name == "svrg":  # the center is theta before step 34, the last of a multiple of seven
        np.testing.assert_array_equal(trace.state.memory.estimator.center, trace.samples[:, 33])


@pytest.mark.parametrize(
    ("made", "mass"),
    [
        (samplers.sghmc(1e-6, 1.0, 4.0, resample=5), 4.0),
        long_case(
            "gradients::the_momentum_is_drawn_anew_every_so_many_steps", samplers.sgnht(1e-6, resample=5), 1.0
        ),
        long_case(
            "gradients::the_momentum_is_drawn_anew_every_so_many_steps",
            samplers.gsgrhmc(1e-6, 1.0, 1.0, resample=5),
            1.0,
        ),
    ],
    ids=["sghmc", "sgnht", "gsgrhmc"],
)
def test_the_momentum_is_drawn_anew_every_so_many_steps(made, mass):
    """At steps 5, 10, …, with the key of that step; a step of 1e-6 hardly changes it otherwise.

    The variance of 2,000 normal numbers is within 20 % of its value but once in 1e9.
    """
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    sampler = made.on(target, 2.0)
    state = sampler.init(jnp.zeros(2000), key=jax.random.key(0))
    before = np.asarray(state.z["r"])
    step = quick_jit(lambda number, key: sampler.step(key, SamplerState(state.z, number))[0].z["r"])

    def moved(number, seed=1):
        return np.asarray(step(jnp.asarray(number), jax.random.key(seed)))

    for number in (0, 1, 4, 6):
        np.testing.assert_allclose(moved(number), before, atol=0.05)
    for number in (5, 10):
        fresh = moved(number)
        assert abs(np.corrcoef(fresh, before)[0, 1]) < 0.12
        assert abs(np.corrcoef(fresh, moved(number, 2))[0, 1]) < 0.12
        assert fresh.var() == pytest.approx(2 * mass, rel=0.2)
    with pytest.raises(ValueError, match="at least 1"):
        samplers.sghmc(0.1, resample=0)


@pytest.mark.slow
def test_the_noise_subtracted_is_that_of_the_batches_before(x64):
    """The first step subtracts nothing; the second what the first batch showed, by the state before it."""
    target = make_target()
    for estimator in (gradients.minibatch(), gradients.saga()):
        placed = samplers.sgld(1e-3, noise_estimate="diagonal").on(target, 1.0, estimator)
        start = placed.init(CENTER, key=jax.random.key(0))
        start = start._replace(z={"theta": jax.tree.map(jnp.asarray, THETA)})
        batch = take(target, [3, 1], scatter=0.6)
        draws = placed.draw(jax.random.key(1), start)
        first, _ = placed.advance(draws, start, batch)
        plain, _ = samplers.sgld(1e-3).on(target, 1.0, estimator).advance(draws, start, batch)
        assert_trees_close(first.position, plain.position)
        each = estimator.contributions(target, start.memory.estimator, start.position, batch)
        seen = OnlineNoise("diagonal").estimate(each, 0.6)
        assert_trees_close(first.memory.noise, jax.tree.map(lambda v: v / 20, seen), 1e-6)
        second, _ = placed.advance(
            draws, start._replace(memory=start.memory._replace(noise=first.memory.noise)), batch
        )
        assert np.max(np.abs(second.position["a"] - plain.position["a"])) > 1e-6


@pytest.mark.slow
def test_all_rows_at_once_have_no_noise():
    """The batches of the runner say that they are distinct: all of them together scatter by nothing."""
    trace = fk.sample(
        mean_of_normals(),
        samplers.sgld(1e-4, noise_estimate="scalar"),
        init=0.0,
        steps=10,
        chains=1,
        batch_size=100,
        batches="no replacement",
        progress=False,
    )
    assert float(trace.state.memory.noise[0]) == 0
