"""Samplers that are more than dynamics × integrator: preconditioned SGLD and replica exchange."""

import dataclasses
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from conftest import quick_jit
from fokker import samplers
from fokker.batches import Batch
from fokker.samplers import SamplerState
from fokker.samplers.replica_exchange import exchange_log_ratio
from own_samplers import Unadjusted

pytestmark = pytest.mark.dependencies

# A skewed density on the line, far from the Gaussian whose gradient is linear.
SKEWED = fk.Density(lambda theta: -jnp.sum(jnp.exp(theta) - theta + theta**2 / 8))


def moments_of(density, low, high):
    """Mean and variance of a density on the line, by quadrature."""
    x = np.linspace(low, high, 20_001)
    with jax.enable_x64(True):
        log_p = np.asarray(jax.vmap(density.log_density)(jnp.asarray(x)))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    return p @ x, p @ x**2 - (p @ x) ** 2


class _Noisy(fk.Target):
    """SKEWED, its gradient with the batch times `noise` added."""

    noise: Any

    def potential(self, theta):
        return SKEWED.potential(theta)

    def minibatch_potential(self, theta, batch):
        return SKEWED.potential(theta) + self.noise * batch @ theta


# What Γ counts of W, of the newest gradient's part of it, and of W with nothing forgotten.
COUNTS = {
    "right": (1.0, 0.0, 0.0),
    "dropped": (0.0, 0.0, 0.0),
    "halved": (0.5, 0.0, 0.0),
    "newest alone": (0.0, 1.0, 0.0),
    "nothing forgotten": (0.0, 0.0, 1.0),
}
# ε, α, λ, the noise of the gradient, and what Γ counts.
QUICK, SLOW = (0.02, 0.8, 0.5), (0.05, 0.99, 1e-5)
CASES = [
    (*QUICK, 0.0, "right"),
    (*QUICK, 1.0, "right"),
    (*SLOW, 0.0, "right"),
    (*QUICK, 0.0, "dropped"),
    (*QUICK, 0.0, "halved"),
    (*QUICK, 0.0, "newest alone"),
    (*SLOW, 0.0, "nothing forgotten"),
]


def psgld_chain(h, alpha, floor, noise, counts, key):
    """Sums of θ and θ² over 6,500 steps after 1,500, where Γ is made of what `counts` says."""
    sampler = dataclasses.replace(samplers.psgld(0.1), step_size=h, alpha=alpha, regularisation=floor)
    sampler = sampler.on(_Noisy(noise))
    state = sampler.init(jnp.array([-0.5]))

    def step(carry, numbered):
        state, newest, unforgotten = carry
        number, key = numbered
        draw_key, batch_key = jax.random.split(key)
        draws, batch = sampler.draw(draw_key, state), jax.random.normal(batch_key, (1,))

        def after(W):
            return sampler.advance(draws, state._replace(z={**state.z, "W": W}), batch)[0]

        W = state.z["W"]
        theta = after(counts[0] * W + counts[1] * newest + counts[2] * unforgotten).position
        newest = after(jnp.zeros_like(W)).z["W"]
        state = after(W)
        state = state._replace(z={**state.z, "theta": theta})
        kept = jnp.where(number < 1_500, 0.0, theta[0])
        return (state, newest, alpha * unforgotten + newest), jnp.stack([kept, kept**2])

    zero = jnp.zeros(1)
    numbers = jnp.arange(8_000), jax.random.split(key, 8_000)
    return jax.lax.scan(step, (state, zero, zero), numbers)[1].sum(axis=0) / 6_500


@pytest.mark.long("adaptive::the_gamma_of_preconditioned_sgld_is_the_derivative_of_its_d")
def test_preconditioned_sgld_is_right_with_its_correction_and_with_no_other(optimised):
    """Mean and variance of a skewed density by 256 chains: within 5 standard errors and 0.02, or 2 %.

    With `QUICK` the averages follow theta closely, with `SLOW` theta goes through its whole range while they
    hardly change. Every wrong Γ is off by 1.5 times what is allowed, or more: dropped, halved or of the
    newest gradient alone it makes the chain too wide by a fifth and more; with nothing forgotten the mean is
    off by 0.3. A false alarm in 1e5.
    """
    mean, variance = moments_of(SKEWED, -12, 5)
    rows = [(*row[:4], *COUNTS[row[4]]) for row in CASES]
    run = jax.vmap(lambda row, keys: jax.vmap(lambda key: psgld_chain(*row[:4], row[4:], key))(keys))
    keys = jax.random.split(jax.random.key(0), (len(rows), 256))
    sums = np.asarray(jax.jit(run)(jnp.asarray(rows), keys), float)
    for (*settings, name), chains in zip(CASES, sums, strict=True):
        error = abs(chains[:, 0].mean() - mean) / (5 * chains[:, 0].std() / 16 + 0.02)
        squares = (chains[:, 1] - 2 * mean * chains[:, 0] + mean**2) / variance  # around the true mean
        off = abs(squares.mean() - 1) / (5 * squares.std() / 16 + 0.02)
        assert (max(error, off) < 1) if name == "right" else (max(error, off) > 1.5), (settings, name)


def test_a_step_of_preconditioned_sgld_is_the_formula(x64):
    """At T = 1.7 in two dimensions, the Hessian not diagonal; W averaged over all probes has diag(∇²U)."""
    H = jnp.array([[2.0, 0.7], [0.7, 1.0]])
    target = fk.Density(lambda theta: -theta @ H @ theta / 2 - jnp.sum(theta**3))
    T, h, alpha, floor = 1.7, 0.01, 0.9, 0.3
    sampler = samplers.psgld(h, alpha, floor).on(target, T)
    theta, V, W = jnp.array([0.4, 0.2]), jnp.array([0.8, 0.5]), jnp.array([0.6, -0.9])
    state = SamplerState({"theta": theta, "V": V, "W": W}, jnp.asarray(30))
    g, hessian = jax.grad(target.potential)(theta), jax.hessian(target.potential)(theta)
    w = jnp.array([0.3, -1.2])
    probes = jnp.asarray(list(itertools.product((-1.0, 1.0), repeat=2)))
    after = quick_jit(jax.vmap(lambda v: sampler.advance((w, v, ()), state)[0].z))(probes)
    moved = jax.tree.map(lambda x: x[0], after)
    seen = 1 - alpha**30
    D = 1 / (floor + jnp.sqrt(V / seen))
    gamma = -(D**2) * (W / seen) / (2 * jnp.sqrt(V / seen))
    wanted = theta + h * (-D * g + T * gamma) + jnp.sqrt(2 * h * T * D) * w
    np.testing.assert_allclose(moved["theta"], wanted, rtol=1e-10)
    np.testing.assert_allclose(moved["V"], alpha * V + (1 - alpha) * g**2, rtol=1e-10)
    curvature = jnp.diag(hessian)
    averaged = alpha * (1 - h * D * curvature) * W + (1 - alpha) * 2 * g * curvature
    np.testing.assert_allclose(np.mean(after["W"], axis=0), averaged, rtol=1e-10)


def test_the_gamma_of_preconditioned_sgld_is_the_derivative_of_its_d(x64):
    """A chain that hardly moves: D by its own V at θ ± δ against the Γ by which it drifts, at T = 1.7.

    The coordinates are independent, so that every probe gives the diagonal; the seed is forgotten by 2⁻⁶⁰.
    """
    target = fk.Density(lambda theta: -jnp.sum(jnp.exp(theta) - theta + theta**4))
    T, h, floor = 1.7, 1e-8, 0.3
    sampler = samplers.psgld(h, 0.5, floor).on(target, T)
    still = (jnp.zeros(3), jnp.ones(3), ())

    @quick_jit
    def drift(theta):
        state = sampler.init(theta)
        state = jax.lax.fori_loop(0, 60, lambda _, s: sampler.advance(still, s)[0], state)
        state = state._replace(z={**state.z, "theta": theta})
        return 1 / (floor + jnp.sqrt(state.z["V"])), (sampler.advance(still, state)[0].position - theta) / h

    theta, delta = jnp.array([0.4, -0.3, 1.1]), 1e-3
    D, found = drift(theta)
    slope = (drift(theta + delta)[0] - drift(theta - delta)[0]) / (2 * delta)
    gamma = found + D * jax.grad(target.potential)(theta)
    assert np.min(np.abs(gamma)) > 0.1
    np.testing.assert_allclose(gamma, T * slope, rtol=1e-4)


def test_preconditioned_sgld_gathers_the_mean_square_of_gradients_to_come(x64):
    """At a mode: D is 1/(λ + √(T diag(∇²U))), W is nothing, and theta stands still until then."""
    scales = jnp.array([1e4, 1.0, 1e-4])
    target = fk.Density(lambda theta: -jnp.sum(scales * theta**2) / 2)
    sampler = samplers.psgld(0.1, 0.9).on(target, 1.7)
    state = sampler.init(jnp.zeros(3))
    still = (jnp.ones(3), jnp.array([1.0, -1.0, 1.0]), ())
    for _ in range(10):
        state, _ = sampler.advance(still, state)
    np.testing.assert_array_equal(state.position, 0)
    np.testing.assert_array_equal(state.z["W"], 0)
    state, _ = sampler.advance(still, state)
    D = 1 / (1e-5 + np.sqrt(1.7 * np.asarray(scales)))
    np.testing.assert_allclose(state.position, np.sqrt(2 * 0.1 * 1.7 * D), rtol=1e-9)


@pytest.mark.long("adaptive::preconditioned_sgld_gathers_the_mean_square_of_gradients_to_come")
def test_preconditioned_sgld_starts_anywhere(optimised):
    """Normals in 1 and 3 dimensions at T = 2 from the mode and from 20 deviations away; 256 chains.

    E θᵀPθ/(dT) is within 6 standard errors between chains and 10 % of 1, of which the step of 0.1 of its
    scale makes 5 and the spread of V the rest. From a mode where D was 1/λ it would be 1e3 and more.
    """
    T = 2.0
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for precision in (np.array([[400.0]]), basis @ np.diag([50.0, 100.0, 400.0]) @ basis.T):
        d, P = len(precision), jnp.asarray(precision, jnp.float32)
        target = fk.Density(lambda theta, P=P: -theta @ P @ theta / 2)
        deviations = np.sqrt(T * np.diag(np.linalg.inv(precision)))
        sampler = samplers.psgld(0.1 * math.sqrt(T / 400)).on(target, T)

        def chain(start, key, sampler=sampler, P=P, d=d):
            def step(state, key):
                state, _ = sampler.step(key, state)
                return state, state.position @ P @ state.position / (d * T)

            return jax.lax.scan(step, sampler.init(start), jax.random.split(key, 3_000))[1][1_500:].mean()

        starts = jnp.asarray(np.outer(np.repeat([0.0, 20.0], 256), deviations), jnp.float32)
        found = np.asarray(jax.jit(jax.vmap(chain))(starts, jax.random.split(jax.random.key(0), 512)))
        for part in (found[:256], found[256:]):
            assert abs(part.mean() - 1) < 6 * part.std() / 16 + 0.1


@pytest.mark.long("adaptive::a_step_of_preconditioned_sgld_is_the_formula")
def test_preconditioned_sgld_in_many_dimensions(optimised):
    """100,000 independent coordinates of precision 1/4 to 4 from their mode: θᵀPθ/d is 1 within 8 %.

    The step makes 2 to 10 %, on average 4; the standard error is 0.5 %.
    """
    precision = jnp.geomspace(0.25, 4.0, 100_000)
    sampler = samplers.psgld(0.08).on(fk.Density(lambda theta: -theta @ (precision * theta) / 2))

    def run(key):
        step = lambda state, key: (sampler.step(key, state)[0], None)  # noqa: E731
        return jax.lax.scan(step, sampler.init(jnp.zeros(100_000)), jax.random.split(key, 250))[0].position

    theta = jax.jit(run)(jax.random.key(0))
    assert float(theta @ (precision * theta)) / 100_000 == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("noise", ["two-point", "gaussian"])
def test_the_noise_and_the_probe_of_preconditioned_sgld_are_independent(noise):
    """4,096 numbers each: a correlation beyond 5 standard errors once in 1e6."""
    sampler = samplers.psgld(0.1, noise=noise).on(SKEWED)
    w, v, _ = sampler.draw(jax.random.key(0), sampler.init(jnp.zeros(4096)))
    for part in (w, jnp.abs(w)) if noise == "gaussian" else (w,):
        assert abs(np.corrcoef(part, v)[0, 1]) < 5 / 64


@pytest.mark.slow
def test_preconditioned_sgld_takes_estimators():
    x = jax.random.normal(jax.random.key(0), (60,))
    target = fk.Posterior(lambda t: -(t**2) / 2, lambda t, x: -((x - t) ** 2) / 2, x)
    trace = fk.sample(
        target,
        samplers.psgld(0.01, alpha=0.5, regularisation=1.0),
        gradient=fk.gradients.svrg(7),
        init=0.3,
        steps=40,
        chains=1,
        batch_size=10,
        progress=False,
    )
    np.testing.assert_array_equal(trace.state.memory.estimator.center, trace.samples[:, 33])
    with pytest.raises(ValueError, match="one number"):
        fk.sample(target, samplers.psgld(jnp.ones(2)), init=0.3, steps=104, chains=1, progress=False)


@pytest.mark.long("adaptive::preconditioned_sgld_takes_estimators")
def test_preconditioned_sgld_on_a_tree_with_data():
    x = jax.random.normal(jax.random.key(0), (200,)) + 1
    target = fk.Posterior(
        lambda theta: -(theta["m"] ** 2) / 2, lambda theta, x: -((x - theta["m"]) ** 2) / 2, x
    )
    trace = fk.sample(
        target,
        samplers.psgld(3e-3, regularisation=1.0),
        init={"m": 0.0},
        steps=4_000,
        burn_in=2_000,
        chains=32,
        batch_size=20,
        progress=False,
    )
    assert trace.samples["m"].mean() == pytest.approx(float(x.sum()) / 201, abs=0.02)


def test_bad_settings_of_preconditioned_sgld_are_refused():
    with pytest.raises(ValueError, match="alpha"):
        samplers.psgld(0.1, alpha=1.0)
    with pytest.raises(ValueError, match="regularisation"):
        samplers.psgld(0.1, regularisation=0.0)


def test_the_penalty_makes_noisy_exchanges_keep_detailed_balance(x64):
    """E min(1, exp(log ratio)) over batches, forwards over backwards, is exp(aΔU); without it, it is not.

    100,000 batches of 50 rows of normal differences in energy, of variance 1 in all: within 0.03.
    """
    n, size, difference = 50, 5000, 1.0
    rows = np.random.default_rng(0).normal(size=(100_000, n)) * math.sqrt(n) / size + difference / size
    target = fk.Posterior(lambda t: 0.0 * t, lambda t, x: x * t, jnp.zeros(size))

    def rate(cold, hot):
        ratio = jax.vmap(lambda r: exchange_log_ratio(target, 1.0, jnp.array(cold), jnp.array(hot), r))(
            jnp.asarray(rows)
        )
        return float(jnp.mean(jnp.minimum(1, jnp.exp(ratio))))

    assert math.log(rate(0.0, 1.0) / rate(1.0, 0.0)) == pytest.approx(difference, abs=0.03)
    total = rows.sum(axis=1) * size / n
    without = np.mean(np.minimum(1, np.exp(total))) / np.mean(np.minimum(1, np.exp(-total)))
    assert math.log(without) < 0.8


@pytest.mark.slow
def test_exchanges_see_all_the_data_or_the_batch(monkeypatch):
    import importlib

    module = importlib.import_module("fokker.samplers.replica_exchange")
    seen = []

    def spy(target, a, cold, hot, batch):
        seen.append((batch, a))
        return jnp.zeros(())

    monkeypatch.setattr(module, "exchange_log_ratio", spy)
    target = fk.Posterior(lambda t: -(t**2), lambda t, x: -((x - t) ** 2), jnp.arange(6.0))
    for exact in (True, False):
        sampler = samplers.replica_exchange(samplers.sgld(0.01), (1.0, 2.0), every=1, exact=exact)
        sampler = sampler.on(target, 2.0)
        batch = Batch(target.data[:3], jnp.arange(3), None, 0.5)
        sampler.step(jax.random.key(1), sampler.init(0.1, key=jax.random.key(0)), batch)
    assert seen[0][0] is None
    assert seen[1][0].scatter == 0.5
    np.testing.assert_allclose(sampler.ladder, [2.0, 4.0])  # those of the run times its temperature


def test_the_log_ratio_of_an_exchange_is_unbiased_but_for_its_penalty(x64):
    """Over all batches of two rows: the mean is exact, the penalty is a²/2 times the variance."""
    data = jnp.array([0.3, -1.0, 2.0, 0.7])
    target = fk.Posterior(lambda t: -(t**2), lambda t, x: -jnp.cosh(x - t), data)
    cold, hot, a = jnp.array(0.2), jnp.array(-0.6), 0.4
    exact = float(exchange_log_ratio(target, a, cold, hot, None))
    assert exact == pytest.approx(a * float(target.potential(cold) - target.potential(hot)))
    rows = list(itertools.permutations(range(4), 2))
    found = [
        float(exchange_log_ratio(target, a, cold, hot, Batch(data[jnp.array(r)], jnp.array(r), None, 0.5)))
        for r in rows
    ]
    energies = [
        a
        * float(
            target.minibatch_potential(cold, data[jnp.array(r)])
            - target.minibatch_potential(hot, data[jnp.array(r)])
        )
        for r in rows
    ]
    assert np.mean(energies) == pytest.approx(exact)
    assert np.mean(found) == pytest.approx(exact - np.var(energies) / 2)


WELLS = fk.Density(
    lambda theta: jax.scipy.special.logsumexp(
        jnp.stack(
            [jnp.log(0.7) - jnp.sum((theta - 3) ** 2) * 2, jnp.log(0.3) - jnp.sum((theta + 3) ** 2) * 2]
        )
    )
)


@pytest.mark.slow
def test_replicas_cross_between_modes_that_one_chain_does_not(optimised):
    """Two wells, 36 units of energy apart by the barrier; 64 chains, all started in the lighter one.

    Each chain crosses dozens of times: the weight of a well is known to 0.03; 0.1 is a false alarm in 1e3 of
    wells' weights or less.
    """
    base = samplers.sgld(0.02)
    options = {"init": jnp.array([-3.0]), "steps": 8_000, "burn_in": 2_000, "chains": 64, "progress": False}
    alone = fk.sample(WELLS, base, **options)
    assert (alone.samples > 0).mean() < 0.05
    trace = fk.sample(WELLS, samplers.replica_exchange(base, (1.0, 3.0, 9.0, 27.0), every=10), **options)
    assert (trace.samples > 0).mean() == pytest.approx(0.7, abs=0.1)
    # Within a well the coldest replica has its own temperature: variance 1/4, and 4 % from the step.
    right = trace.samples[trace.samples > 0]
    assert right.var() == pytest.approx(0.25, rel=0.1)
    assert 0.1 < trace.sample_stats["exchange_rate"][:, -1].mean() < 0.9


@pytest.mark.slow
def test_replicas_with_momenta_and_minibatches_keep_the_temperature(optimised):
    """A conjugate posterior at temperature 2, energies by minibatches: the variance is 2/N within 12 %."""
    x = jax.random.normal(jax.random.key(1), (100,))
    target = fk.Posterior(lambda theta: 0.0 * theta, lambda theta, x: -((x - theta) ** 2) / 2, x)
    sampler = samplers.replica_exchange(samplers.sghmc(0.004, 10.0), (1.0, 1.5, 2.5), every=5)
    trace = fk.sample(
        target,
        sampler,
        init=jnp.mean(x),
        steps=4_000,
        burn_in=500,
        chains=32,
        batch_size=50,
        temperature=2.0,
        progress=False,
    )
    assert float(trace.samples.var()) * 50 == pytest.approx(1.0, rel=0.12)
    assert trace.sample_stats["kinetic_temperature"].mean() == pytest.approx(2.0, rel=0.06)


@pytest.mark.slow
def test_exchanges_turn_by_turn_and_only_when_due():
    flat = fk.Density(lambda theta: 0.0 * jnp.sum(theta))
    sampler = samplers.replica_exchange(samplers.sghmc(1e-12), (1.0, 2.0, 3.0), every=2).on(flat)
    state = sampler.init(jnp.zeros(1), key=jax.random.key(0))
    marked = {"theta": jnp.array([[1.0], [2.0], [3.0]]), "r": jnp.array([[10.0], [20.0], [30.0]])}
    state = state._replace(replicas=state.replicas._replace(z=marked))
    orders = []
    step = quick_jit(sampler.step)
    for number in range(6):
        state, _ = step(jax.random.key(number), state)
        orders.append(np.asarray(state.replicas.z["theta"]).ravel().round().astype(int).tolist())
    # On a flat density every exchange that is tried is made: pairs (1, 2) and (0, 1) by turns.
    assert orders == [[1, 2, 3], [1, 3, 2], [1, 3, 2], [3, 1, 2], [3, 1, 2], [3, 2, 1]]
    assert (int(state.tried), int(state.made)) == (3, 3)
    assert float(state.position[0]) == pytest.approx(3.0)
    # Momenta stay: they have the variance of their temperature.
    np.testing.assert_allclose(state.replicas.z["r"], marked["r"], rtol=1e-4)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: samplers.replica_exchange(samplers.sgld(0.1), (2.0, 4.0)), ValueError, "increasing from 1"),
        (lambda: samplers.replica_exchange(samplers.sgld(0.1), (1.0,)), ValueError, "at least two"),
        (lambda: samplers.replica_exchange(samplers.sgld(0.1), (1.0, 2.0), every=0), ValueError, "every"),
        (
            lambda: samplers.replica_exchange(samplers.psgld(0.1), (1.0, 2.0)),
            TypeError,
            "cannot copy psgld: its preconditioner is learned from the path",
        ),
        (
            lambda: samplers.replica_exchange(Unadjusted(0.1), (1.0, 2.0)),
            TypeError,
            "cannot copy Unadjusted: it does not say that copies can exchange",
        ),
        (lambda: samplers.replica_exchange(samplers.sgld, (1.0, 2.0)), TypeError, "not function"),
        (
            lambda: samplers.replica_exchange(samplers.sgld(0.1), (1.0, 2.0)).on(WELLS, 0.0),
            ValueError,
            "above zero",
        ),
    ],
)
def test_bad_replicas_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
