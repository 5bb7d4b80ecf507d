"""Rows of tables that are moved when they are next seen, against exact laws."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import fokker as fk
from conftest import quick_jit
from fokker import samplers
from fokker.integrators.quadratic_well import langevin_law, underdamped_law
from marks import long_case

# The law in a quadratic well -------------------------------------------------------------------------------


def transition(curvature: float, time: float, friction: float, mass: float, T: float) -> Any:
    """P and the covariance of the underdamped law, as matrices."""
    law = underdamped_law(*(jnp.asarray(float(x)) for x in (curvature, time, friction, mass, T)))
    x_x, x_r, r_x, r_r, spread, cross, rest = (float(x) for x in law)
    covariance = np.array([[cross**2 + rest**2, cross * spread], [cross * spread, spread**2]])
    return np.array([[x_x, x_r], [r_x, r_r]]), covariance


# Underdamped, critical, overdamped; short times, for which Cov = S - PSPᵀ has no digits left, and long ones.
@pytest.mark.parametrize("friction", [0.01, 2 * np.sqrt(3 * 1.5), 50.0])
@pytest.mark.parametrize("time", [1e-3, 0.1, 2.0])
def test_the_underdamped_law_is_that_of_the_linear_equation(friction, time, x64):
    curvature, mass, T = 3.0, 1.5, 0.7
    F = np.array([[0.0, -1 / mass], [curvature, friction / mass]])
    P, covariance = transition(curvature, time, friction, mass, T)
    np.testing.assert_allclose(P, scipy.linalg.expm(-F * time), rtol=1e-6, atol=1e-9)
    # ∫ e^{-Fu} 2D e^{-Fᵀu} du by quadrature: no difference is formed.
    nodes, weights = np.polynomial.legendre.leggauss(200)
    paths = [scipy.linalg.expm(-F * u)[:, 1] for u in time * (nodes + 1) / 2]
    wanted = sum(
        w * time / 2 * 2 * T * friction * np.outer(x, x) for w, x in zip(weights, paths, strict=True)
    )
    np.testing.assert_allclose(covariance, wanted, rtol=2e-5)


def test_many_steps_at_once_have_the_law_of_single_steps(x64):
    step, m = 0.02, 37
    P, C = transition(3.0, step, 1.0, 1.5, 0.7)
    power, covariance = np.eye(2), np.zeros((2, 2))
    for _ in range(m):
        power, covariance = P @ power, P @ covariance @ P.T + C
    at_once = transition(3.0, m * step, 1.0, 1.5, 0.7)
    np.testing.assert_allclose(at_once[0], power, rtol=1e-9)
    np.testing.assert_allclose(at_once[1], covariance, rtol=1e-7)
    decay, spread = (float(x) for x in langevin_law(*(jnp.asarray(x) for x in (3.0, step, 2.0, 0.7))))
    both = langevin_law(*(jnp.asarray(x) for x in (3.0, m * step, 2.0, 0.7)))
    variance = spread**2 * (1 - decay ** (2 * m)) / (1 - decay**2)
    np.testing.assert_allclose([float(both[0]), float(both[1]) ** 2], [decay**m, variance], rtol=1e-12)


# A step ----------------------------------------------------------------------------------------------------

MEAN = np.array([0.5, -0.25])
PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]])
DIRECTION = np.array([1.0, 0.5])


def log_likelihood(rows: Any, datum: Any) -> Any:
    return -((datum["y"] - rows["a"] @ jnp.asarray(DIRECTION, rows["a"].dtype)) ** 2) / 2


def toy(rows: int) -> Any:
    """One observation of each row, of two values in turn."""
    data = {"a": np.arange(rows), "y": np.where(np.arange(rows) % 2, 2.0, -1.0).astype(np.float32)}
    return fk.tables({"a": fk.Table(rows, MEAN, PRECISION)}, log_likelihood, data)


@pytest.mark.slow
def test_a_row_with_a_mass_moves_in_its_own_coordinates():
    """θ' = θ - εM⁻¹∇U + √(2ε/M) w row by row, with the noise of the same key and unit masses."""
    h, M = 0.05, np.array([1.0, 4.0, 9.0], np.float32)
    target, theta = toy(3), {"a": jnp.asarray([[0.3, -0.1], [0.7, 0.2], [-0.4, 0.5]])}
    key = jax.random.key(1)
    ends = []
    for masses in (None, {"a": M}):
        sampler = fk.lazy(samplers.sgld(h), masses).on(target)
        state = sampler.init(theta, key=jax.random.key(0))
        ends.append(quick_jit(sampler.step)(key, state)[0].position["a"])
    gradient = jax.grad(target.potential)(theta)["a"]
    noise = ends[0] - theta["a"] + h * gradient
    wanted = theta["a"] - h * gradient / M[:, None] + noise / np.sqrt(M)[:, None]
    np.testing.assert_allclose(ends[1], wanted, rtol=1e-4, atol=1e-5)


def two_tables() -> Any:
    g = np.random.default_rng(0)
    data = {"a": g.integers(0, 6, 40), "b": g.integers(0, 9, 40), "y": g.normal(size=40)}
    priors = {"a": fk.Table(6, MEAN, PRECISION), "b": fk.Table(9, -MEAN, 3.0)}
    return fk.tables(priors, lambda rows, d: -((d["y"] - rows["a"] @ rows["b"]) ** 2) / 2, data)


@pytest.mark.slow
@pytest.mark.parametrize(
    "inner",
    [
        long_case(
            "lazy::without_noise_a_step_is_the_dense_one_on_the_rows_seen_and_the_prior_solved_on_the_others",
            samplers.sgld(0.02),
        ),
        samplers.sghmc(0.1, 0.8, 2.0),
    ],
    ids=["sgld", "sghmc"],
)
def test_without_noise_a_step_is_the_dense_one_on_the_rows_seen_and_the_prior_solved_on_the_others(
    inner, x64
):
    target = two_tables()
    g = np.random.default_rng(1)
    theta = {"a": jnp.asarray(g.normal(size=(6, 2))), "b": jnp.asarray(g.normal(size=(9, 2)))}
    lazy, dense = fk.lazy(inner).on(target, 0.0), inner.on(target, 0.0)
    state = lazy.init(theta, key=jax.random.key(0))
    state = state._replace(z={**state.z, **({"r": theta} if "r" in state.z else {})})  # T = 0 starts at rest
    # Rows are repeated, and in another order than in the table; some are not there.
    first = {
        "a": jnp.array([3, 0, 3, 3]),
        "b": jnp.array([8, 2, 2, 8]),
        "y": jnp.array([1.0, -1.0, 0.5, 2.0]),
    }
    second = {
        "a": jnp.array([5, 5, 5, 5]),
        "b": jnp.array([8, 1, 1, 2]),
        "y": jnp.array([1.0, 0.0, 0.5, 2.0]),
    }
    step, dense_step = quick_jit(lazy.step), quick_jit(dense.step)
    seen, _ = step(jax.random.key(1), state, first)
    dense_state = dense.init(theta, key=jax.random.key(0))._replace(z=state.z)
    wanted, _ = dense_step(jax.random.key(1), dense_state, first)
    for variable in state.z:
        for name in theta:
            rows = np.unique(first[name])
            others = np.setdiff1d(np.arange(len(theta[name])), rows)
            got, was = (np.asarray(s.z[variable][name]) for s in (seen, state))
            np.testing.assert_allclose(got[rows], wanted.z[variable][name][rows], rtol=1e-12)
            np.testing.assert_array_equal(got[others], was[others])
            assert set(np.asarray(seen.memory.rows.rows[name])[rows]) == {1}
            assert set(np.asarray(seen.memory.rows.rows[name])[others]) == {0}
    # Rows not seen, after two steps: x' = e^{-Fs} x in the dynamics of their prior.
    twice, _ = step(jax.random.key(2), seen, second)
    position = quick_jit(lazy.position)(twice)
    s = 2 * float(inner.step_size)
    x = np.asarray(theta["a"][1] - MEAN)
    if "r" in state.z:
        F = np.block([[np.zeros((2, 2)), -np.eye(2) / 2], [np.asarray(PRECISION), np.eye(2) * 0.8 / 2]])
        moved = (scipy.linalg.expm(-F * s) @ np.concatenate([x, theta["a"][1]]))[:2]
    else:
        moved = scipy.linalg.expm(-np.asarray(PRECISION) * s) @ x
    np.testing.assert_allclose(position["a"][1], MEAN + moved, rtol=1e-9)
    np.testing.assert_allclose(position["a"][5], twice.position["a"][5], rtol=1e-12)
    np.testing.assert_array_equal(twice.position["a"][1], theta["a"][1])


@pytest.mark.slow
def test_a_lazy_step_of_all_the_data_is_a_dense_one(x64):
    target, inner = two_tables(), samplers.sghmc(0.1)
    theta = {"a": jnp.ones((6, 2)), "b": jnp.ones((9, 2))}
    lazy = fk.lazy(inner).on(target, 0.0)
    after, _ = quick_jit(lazy.step)(jax.random.key(0), lazy.init(theta, key=jax.random.key(0)))
    dense = inner.on(target, 0.0)
    wanted, _ = quick_jit(dense.step)(jax.random.key(0), dense.init(theta, key=jax.random.key(0)))
    np.testing.assert_allclose(after.position["b"], wanted.position["b"], rtol=1e-12)


def exact_moments(kind: str, h: float, T: float, p: float, y: float, moves_unseen: bool = True) -> Any:
    """Mean and covariance of a row of `toy` in the stationary law of the chain, seen with probability p.

    A step is affine: z' = A z + b + N(0, C), with one (A, b, C) for a row that is seen and one for others.
    """
    Lambda, a, mu, eye = (np.asarray(x, float) for x in (PRECISION, DIRECTION, MEAN, np.eye(2)))
    K, force = Lambda + np.outer(a, a) / p, Lambda @ mu + a * y / p
    if kind == "sgld":
        F, S = Lambda, np.linalg.inv(Lambda) * T
        A, b, C = eye - h * K, h * force, 2 * h * T * eye
    else:  # r' = r - h(Kθ - force) - h r + √(2hT) w, θ' = θ + h r'
        F = np.block([[np.zeros((2, 2)), -eye], [Lambda, eye]])
        S = scipy.linalg.block_diag(np.linalg.inv(Lambda) * T, T * eye)
        A = np.block([[eye - h**2 * K, h * (1 - h) * eye], [-h * K, (1 - h) * eye]])
        b, C = np.concatenate([h**2 * force, h * force]), 2 * h * T * np.kron([[h**2, h], [h, 1]], eye)
    P = scipy.linalg.expm(-F * h * moves_unseen)
    rest = np.concatenate([mu, np.zeros(len(P) - 2)])
    both = [(p, A, b, C), (1 - p, P, rest - P @ rest, S - P @ S @ P.T)]
    d = len(P)
    mean = np.linalg.solve(np.eye(d) - sum(q * A for q, A, _, _ in both), sum(q * b for q, _, b, _ in both))
    source = sum(
        q * (C + np.outer(b, b) + np.outer(A @ mean, b) + np.outer(b, A @ mean)) for q, A, b, C in both
    )
    second = np.linalg.solve(np.eye(d * d) - sum(q * np.kron(A, A) for q, A, _, _ in both), source.ravel())
    return mean[:2], (second.reshape(d, d) - np.outer(mean, mean))[:2, :2]


ROWS, BATCH = 4000, 1000


def moments_of(inner: Any, T: float, steps: int, draws: int, batch: int = BATCH) -> Any:
    """Means and covariances of the rows with each of the two observations: rows are independent replicas."""
    start = {"a": jnp.zeros((ROWS, 2))}
    trace = fk.sample(
        toy(ROWS),
        fk.lazy(inner),
        init=start,
        steps=steps * draws,
        chains=1,
        thin=steps,
        burn_in=2 * steps,
        batch_size=batch,
        batches="no replacement",
        temperature=T,
        progress=False,
    )
    x = np.asarray(trace.samples["a"], float)[0]
    return [(rows.reshape(-1, 2).mean(0), np.cov(rows.reshape(-1, 2).T)) for rows in (x[:, 0::2], x[:, 1::2])]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [long_case("lazy::rows_have_the_exact_stationary_law_at_a_temperature", "sgld"), "sghmc"]
)
def test_rows_have_the_exact_stationary_law_at_a_temperature(kind, optimised):
    # 2000 rows × 2 draws that are nearly independent: a mean is off by 1/√4000 = 0.016 of a standard
    # deviation, a covariance by 0.022 of its size. Five times that, for 10 numbers: a false alarm in 2e5.
    h, T = (0.05, 0.5) if kind == "sgld" else (0.15, 0.5)
    inner = samplers.sgld(h) if kind == "sgld" else samplers.sghmc(h)
    for (mean, covariance), y in zip(moments_of(inner, T, 150, 2), (-1.0, 2.0), strict=True):
        wanted_mean, wanted = exact_moments(kind, h, T, BATCH / ROWS, y)
        scale = np.sqrt(np.diag(wanted))
        np.testing.assert_array_less(np.abs(mean - wanted_mean) / scale, 0.08)
        np.testing.assert_array_less(np.abs(covariance - wanted) / np.outer(scale, scale), 0.11)
        # Negative controls: another temperature, rows that stand still while they are not seen.
        assert np.abs(covariance / 0.5 - wanted).max() > 0.2 * wanted.max()
        _, without = exact_moments(kind, h, T, BATCH / ROWS, y, moves_unseen=False)
        assert np.max(np.abs(without - wanted) / np.outer(scale, scale)) > 0.2


@pytest.mark.slow
def test_thermostats_of_rows_absorb_the_noise_of_minibatches(optimised):
    # Variances alone: noise that two coordinates share is not absorbed by a thermostat for each. Five
    # standard errors, as above, and a bias of order ε. Without thermostats they are wider: the control.
    T, h = 0.5, 0.1
    exact = np.linalg.inv(PRECISION + np.outer(DIRECTION, DIRECTION)) * T
    scale = np.sqrt(np.diag(exact))
    inner = samplers.sgnht(h, 1.0, kind="diagonal", integrator=fk.integrators.Splitting())
    for y, (mean, covariance) in zip((-1.0, 2.0), moments_of(inner, T, 400, 2), strict=True):
        wanted_mean = exact / T @ (PRECISION @ MEAN + DIRECTION * y)
        np.testing.assert_array_less(np.abs(mean - wanted_mean) / scale, 0.11)
        np.testing.assert_array_less(np.abs(np.diag(covariance) / scale**2 - 1), 0.12)
        _, plain = exact_moments("sghmc", h, T, BATCH / ROWS, y)
        assert plain[0, 0] / scale[0] ** 2 > 1.17


# A run -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_draws_are_the_same_whatever_the_blocks_and_the_rows_read():
    start = {"a": jnp.zeros((6, 2)), "b": jnp.zeros((9, 2))}
    settings = {"init": start, "steps": 24, "batch_size": 3, "chains": 2, "progress": False}
    # One target: another would be compiled again.
    target, sampler = two_tables(), fk.lazy(samplers.sgnht(0.05, kind="diagonal"))
    one, other = (fk.sample(target, sampler, chunk=chunk, **settings) for chunk in (24, 5))
    np.testing.assert_array_equal(one.samples["a"], other.samples["a"])
    thinned = fk.sample(target, sampler, thin=4, **settings)
    np.testing.assert_array_equal(one.samples["b"][:, 3::4], thinned.samples["b"])
    assert not np.array_equal(one.samples["a"][0], one.samples["a"][1])
    # Every row moves at every draw, seen or not.
    assert np.all(np.asarray(one.samples["b"])[:, 1:] != np.asarray(one.samples["b"])[:, :-1])


@pytest.mark.slow
def test_no_table_is_copied_by_a_step(optimised):
    rows = 54_321
    sampler = fk.lazy(samplers.sgnht(0.1, kind="diagonal")).on(toy(rows))
    data = sampler.target.data

    def run(state: Any, key: Any) -> Any:
        def body(i: Any, state: Any) -> Any:
            numbers = jax.random.randint(jax.random.fold_in(key, i), (8,), 0, rows)
            batch = {name: x[numbers] for name, x in data.items()}
            return sampler.step(jax.random.fold_in(key, i + 100), state, batch)[0]

        return jax.lax.fori_loop(0, 5, body, state)

    state = sampler.init({"a": jnp.zeros((rows, 2))}, key=jax.random.key(0))
    text = jax.jit(run, donate_argnums=0).lower(state, jax.random.key(0)).compile().as_text()
    assert "scatter" in text
    assert not re.findall(rf"= \w+\[{rows}[^=]* copy\(", text)


# What is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: samplers.nuts(), "a correction decides about all rows at once"),
        (lambda: samplers.sghmc(0.1, mass_matrix=jnp.ones(8)), "a mass matrix couples rows"),
        (lambda: samplers.sgld(lambda t: 0.1), "known for a constant step size"),
        (lambda: samplers.sghmc(0.1, resample=10), "resample draws the momentum of rows that are not seen"),
        (lambda: samplers.sgld(0.1, noise_estimate="scalar"), "a noise_estimate is of all rows"),
        (lambda: samplers.sgnht(0.1), r"xi is one for all rows.*kind=\"diagonal\""),
        (lambda: samplers.sgld(0.1, fk.fields.Elementwise(lambda theta: theta)), "one number each"),
    ],
)
def test_samplers_that_couple_rows_are_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        fk.lazy(make()).on(toy(4))


def test_bad_tables_are_refused():
    table = fk.Table(4, MEAN, PRECISION)
    with pytest.raises(ValueError, match=r"positive definite"):
        fk.Table(4, MEAN, -PRECISION)
    with pytest.raises(ValueError, match=r"a vector of 2 or a 2×2 matrix.*\(3,\)"):
        fk.Table(4, MEAN, jnp.ones(3))
    with pytest.raises(ValueError, match=r"rows must be a whole number of at least 1; 0"):
        fk.Table(0, MEAN)
    with pytest.raises(ValueError, match=r"the row number 4, but the table has the rows 0 … 3"):
        fk.tables({"a": table}, log_likelihood, {"a": np.array([4]), "y": np.zeros(1)})
    with pytest.raises(TypeError, match=r"whole numbers"):
        fk.tables({"a": table}, log_likelihood, {"a": np.zeros(1), "y": np.zeros(1)})
    with pytest.raises(ValueError, match=r"the data have no 'a'"):
        fk.tables({"a": table}, log_likelihood, {"y": np.zeros(1)})
    with pytest.raises(TypeError, match=r"make the target with fk.tables; Density was given"):
        fk.lazy(samplers.sgld(0.1)).on(fk.Density(lambda theta: -jnp.sum(theta**2)))
    with pytest.raises(ValueError, match=r"tables of the shapes"):
        fk.lazy(samplers.sgld(0.1)).on(toy(4)).init({"a": jnp.zeros((3, 2))}, key=jax.random.key(0))
    with pytest.raises(TypeError, match=r"call it, as in"):
        fk.lazy(samplers.sgld)
