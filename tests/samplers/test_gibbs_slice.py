"""Gibbs and slice sampling: detailed balance, moments, limits, and what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from detailed_balance import BENT, FALSE_ALARM, LOG_GAMMA, asymmetry, bent, log_gamma, one_step
from fokker import samplers
from marks import long_case

T = 1.6
COUNT = 25_000
MEAN = np.array([1.0, -2.0, 0.5])
COVARIANCE = np.array([[2.0, 0.9, 0.3], [0.9, 1.0, -0.2], [0.3, -0.2, 0.5]])
PRECISION = np.linalg.inv(COVARIANCE)
NORMAL = fk.Density(lambda x: -(x - MEAN) @ jnp.asarray(PRECISION, x.dtype) @ (x - MEAN) / 2)


def normal_draws(count, T=1.0):
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.multivariate_normal(MEAN, T * COVARIANCE, size=count), jnp.float32)


# Gibbs ------------------------------------------------------------------------------------------------------


def test_a_sweep_over_a_normal_is_affine_and_keeps_it_exactly(x64):
    """x' = Ax + b + Bw: its stationary mean and covariance, A, b, B being Jacobians, are the target's."""
    sampler = samplers.gibbs_normal(MEAN, COVARIANCE).on(NORMAL, T)
    state = sampler.init(jnp.zeros(3))

    def step(x, w):
        return sampler.advance((w, jnp.array(0)), state._replace(z={"theta": x}))[0].position

    A, B = (np.asarray(J) for J in jax.jacfwd(step, (0, 1))(jnp.zeros(3), jnp.zeros(3)))
    np.testing.assert_allclose(A @ (T * COVARIANCE) @ A.T + B @ B.T, T * COVARIANCE, rtol=1e-12)
    np.testing.assert_allclose(step(jnp.asarray(MEAN), jnp.zeros(3)), MEAN, rtol=1e-12)
    # In two dimensions a sweep forgets by ρ².
    two = samplers.gibbs_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]])
    first = two.init(jnp.zeros(2))

    def sweep(x):
        return two.advance((jnp.zeros(2), jnp.array(0)), first._replace(z={"theta": x}))[0].position

    found = np.linalg.eigvals(jax.jacfwd(sweep)(jnp.zeros(2)))
    np.testing.assert_allclose(np.abs(found).max(), 0.64, rtol=1e-12)


# A hierarchy that is not normal: y | v ~ N(0, v), v ~ inverse gamma; jointly skewed, with exact draws.
SHAPE = 3.0
CONDITIONALS = {
    "y": lambda key, theta: jnp.sqrt(theta["v"]) * jax.random.normal(key, (2,)),
    "v": lambda key, theta: (1 + jnp.sum(theta["y"] ** 2) / 2) / jax.random.gamma(key, SHAPE + 1),
}
HIERARCHY = fk.Density(lambda t: -(SHAPE + 2) * jnp.log(t["v"]) - (1 + jnp.sum(t["y"] ** 2) / 2) / t["v"])


def hierarchy_draws():
    rng = np.random.default_rng(0)
    v = 1 / rng.gamma(SHAPE, size=COUNT)
    return {
        "v": jnp.asarray(v, jnp.float32),
        "y": jnp.asarray(np.sqrt(v)[:, None] * rng.normal(size=(COUNT, 2)), jnp.float32),
    }


@pytest.mark.slow
def test_detailed_balance_of_a_random_scan_and_not_of_a_sweep():
    """False alarm 1e-6; a sweep keeps the target but not detailed balance: the negative control."""

    def flat(t):
        return np.stack([np.asarray(t["v"]), np.asarray(t["y"][:, 0])], 1)

    before = hierarchy_draws()
    found = {}
    for scan in ("random", "systematic"):
        after, info = one_step(samplers.gibbs(CONDITIONALS, scan=scan).on(HIERARCHY), before)
        assert bool(jnp.all(info.is_finite))
        found[scan] = asymmetry(flat(before), flat(after))
        # E 1/v = SHAPE, E y² = E v = 1/(SHAPE - 1): 5 standard errors, a false alarm in 2e6 each.
        for values, exact in (
            (1 / np.asarray(after["v"]), SHAPE),
            (np.asarray(after["y"]) ** 2, 1 / (SHAPE - 1)),
        ):
            each = values.reshape(COUNT, -1).mean(axis=1)
            assert abs(each.mean() - exact) < 5 * each.std() / math.sqrt(COUNT)
    assert found["random"] > FALSE_ALARM
    assert found["systematic"] < 1e-12


def test_a_wrong_conditional_shows():
    wrong = {"v": lambda key, theta: CONDITIONALS["v"](key, theta) * 1.1, "y": CONDITIONALS["y"]}
    before = hierarchy_draws()
    after, _ = one_step(samplers.gibbs(wrong).on(HIERARCHY), before)
    each = 1 / np.asarray(after["v"])
    assert abs(each.mean() - SHAPE) > 10 * each.std() / math.sqrt(COUNT)


@pytest.mark.slow
def test_the_moves_of_a_scan():
    sampler = samplers.gibbs(CONDITIONALS, scan="cyclic")
    state = sampler.init({"y": jnp.ones(2), "v": 2.0})
    step = jax.jit(sampler.step)
    first, _ = step(jax.random.key(0), state)
    second, _ = step(jax.random.key(1), first)
    assert float(first.position["v"]) == 2.0
    assert not np.any(np.asarray(first.position["y"]) == 1.0)
    np.testing.assert_array_equal(second.position["y"], first.position["y"])
    assert float(second.position["v"]) != 2.0
    normal = samplers.gibbs_normal(MEAN, COVARIANCE, scan="random")
    x = normal.init(jnp.zeros(3))
    keys = jax.random.split(jax.random.key(0), 20)
    moved = np.asarray(jax.vmap(lambda k: normal.step(k, x)[0].position != 0)(keys))
    assert np.all(moved.sum(axis=1) == 1)
    assert set(moved.argmax(axis=1)) == {0, 1, 2}


def test_gibbs_runs_in_sample():
    sampler = samplers.gibbs_normal(MEAN, COVARIANCE)
    trace = fk.sample(NORMAL, sampler, init=jnp.zeros(3), steps=100, chains=2, progress=False)
    assert trace.stopped is None
    assert trace.samples.shape == (2, 100, 3)


# Slice sampling ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit", [2, long_case("gibbs_slice::detailed_balance_of_slice_sampling_on_the_line", 50)]
)
def test_detailed_balance_of_slice_sampling_on_the_line(limit):
    """A width much too small, with and without its limit felt; T ≠ 1; false alarm 1e-6."""
    before = jnp.asarray(log_gamma(np.random.default_rng(0), T, (COUNT, 1)), jnp.float32)
    after, info = one_step(samplers.slice_sampler(0.8, limit=limit).on(LOG_GAMMA, T), before)
    assert bool(jnp.all(info.is_accepted))
    assert asymmetry(before, after, 8) > FALSE_ALARM
    moved = np.asarray(after, float)
    from scipy.special import digamma

    assert abs(moved.mean() - math.log(T) - digamma(1.5 / T)) < 5 * moved.std() / math.sqrt(COUNT)


def test_detailed_balance_of_hit_and_run():
    before = jnp.asarray(bent(np.random.default_rng(0), T, COUNT), jnp.float32)
    sampler = samplers.slice_sampler(jnp.array([1.0, 2.0]), direction="random").on(BENT, T)
    after, _ = one_step(sampler, before)
    assert asymmetry(before, after) > FALSE_ALARM


@pytest.mark.parametrize(
    "fault",
    [
        "the limit to one side",
        long_case("gibbs_slice::detailed_balance_of_slice_sampling_fails", "an exponential twice too long"),
    ],
)
def test_detailed_balance_of_slice_sampling_fails(fault, monkeypatch):
    before = jnp.asarray(log_gamma(np.random.default_rng(0), T, (COUNT, 1)), jnp.float32)
    if fault == "the limit to one side":
        monkeypatch.setattr(jax.random, "randint", lambda key, shape, low, high: jnp.array(high - 1))
    else:
        right = jax.random.exponential
        monkeypatch.setattr(jax.random, "exponential", lambda *a: 2 * right(*a))
    after, _ = one_step(samplers.slice_sampler(0.8, limit=3).on(LOG_GAMMA, T), before)
    assert asymmetry(before, after, 8) < 1e-12


@pytest.mark.slow
def test_a_sweep_of_slices_keeps_a_tree_of_normals_and_bounds():
    """One sweep from exact draws: moments within 5 standard errors; and a density with an edge."""
    target = fk.Density(lambda t: NORMAL.log_density(jnp.append(t["b"], t["a"])))
    draws = normal_draws(COUNT, T)
    start = {"a": draws[:, 2], "b": draws[:, :2]}
    width = {"a": 0.5, "b": jnp.array([3.0, 0.5])}
    after, info = one_step(samplers.slice_sampler(width).on(target, T), start)
    x = np.concatenate([np.asarray(after["b"]), np.asarray(after["a"])[:, None]], 1) - MEAN
    assert not np.any(x + MEAN == np.asarray(draws))
    products = x[:, :, None] * x[:, None, :]
    error = products.std(axis=0) / math.sqrt(COUNT)
    assert np.all(np.abs(x.mean(axis=0)) < 5 * x.std(axis=0) / math.sqrt(COUNT))
    assert np.all(np.abs(products.mean(axis=0) - T * COVARIANCE) < 5 * error)
    assert 12 < float(jnp.mean(info.evaluations)) < 60

    edge = fk.Density(lambda x: jnp.sum(jnp.where(x > 0, -x, -jnp.inf)))
    start = jnp.asarray(np.random.default_rng(1).exponential(size=(COUNT, 1)), jnp.float32)
    after = np.asarray(one_step(samplers.slice_sampler(3.0).on(edge), start)[0], float)
    assert after.min() > 0
    assert abs(after.mean() - 1) < 5 / math.sqrt(COUNT)


def test_bad_settings_are_refused():
    key, x = jax.random.key(0), {"y": jnp.ones(2), "v": 1.0}
    two = [[1.0, 0.0], [0.0, 1.0]]
    for make, words in (
        (lambda: samplers.gibbs({}), "dictionary of conditionals"),
        (lambda: samplers.gibbs(CONDITIONALS, scan="systematc"), "scan is one of"),
        (lambda: samplers.gibbs(CONDITIONALS).init({"y": jnp.ones(2), "w": 1.0}), "conditional for 'v'"),
        (lambda: samplers.gibbs({"yy": CONDITIONALS["y"]}).init(x), "Did you mean 'y'"),
        (lambda: samplers.gibbs({"y": CONDITIONALS["y"]}).init(x), "no conditional for 'v'"),
        (lambda: samplers.gibbs(CONDITIONALS).init({"y": jnp.ones(3), "v": 1.0}), "conditional of 'y' gives"),
        (lambda: samplers.gibbs(CONDITIONALS).init(jnp.ones(3)), "must be a dictionary"),
        (lambda: samplers.gibbs(CONDITIONALS).on(HIERARCHY, 2.0), "that of its conditionals"),
        (lambda: (s := samplers.gibbs(CONDITIONALS)).step(key, s.init(x), jnp.ones(2)), "no minibatches"),
        (lambda: samplers.gibbs_normal([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: samplers.gibbs_normal([0.0], two), "no covariance"),
        (lambda: samplers.gibbs_normal([0.0, 0.0], two).init(jnp.ones(3)), "3 numbers"),
        (lambda: samplers.slice_sampler(-1.0), "width must be positive"),
        (lambda: samplers.slice_sampler(direction="diagonal"), "direction is"),
        (lambda: samplers.slice_sampler(limit=0), "limit"),
        (lambda: samplers.slice_sampler(jnp.ones(2)).on(LOG_GAMMA).init(jnp.ones(3)), "2 numbers"),
        (lambda: samplers.slice_sampler().on(LOG_GAMMA, -1.0), "not negative"),
        (lambda: samplers.slice_sampler().on(fk.Density(lambda x: jnp.log(x))).init(-1.0), "not finite"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            make()
    with pytest.raises(TypeError, match="must be a function"):
        samplers.gibbs({"y": 1.0})
