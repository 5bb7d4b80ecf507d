"""Samplers that are more than dynamics × integrator: preconditioned SGLD and replica exchange."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker import samplers
from fokker.batches import Batch
from fokker.samplers import SamplerState
from fokker.samplers.replica_exchange import exchange_log_ratio

# A skewed density on the line, far from the Gaussian whose gradient is linear.
SKEWED = fk.Density(lambda theta: -jnp.sum(jnp.exp(theta) - theta + theta**2 / 8))

pytestmark = pytest.mark.usefixtures("quickly")


def moments_of(density, low, high):
    """Mean and variance of a density on the line, by quadrature."""
    x = np.linspace(low, high, 20_001)
    with jax.enable_x64(True):
        log_p = np.asarray(jax.vmap(density.log_density)(jnp.asarray(x)))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    return p @ x, p @ x**2 - (p @ x) ** 2


def short_psgld(sampler, noise):
    """512 chains of 12,000 kept steps, the gradient with normal noise from the batch."""
    target = _Noisy(noise)
    placed = sampler.on(target, 1.0)

    @jax.jit
    def run(key):
        def chain(key):
            state = placed.init(jnp.array([-0.5]), key=key)

            def step(state, key):
                batch_key, step_key = jax.random.split(key)
                state, _ = placed.step(step_key, state, jax.random.normal(batch_key, (1,)))
                return state, state.position[0]

            return jax.lax.scan(step, state, jax.random.split(key, 14_000))[1]

        return jax.vmap(chain)(jax.random.split(key, 512))

    kept = np.asarray(run(jax.random.key(0)), float)[:, 2_000:]
    return kept.mean(), kept.mean(1).std() / 512**0.5, kept.var()


class _Noisy:
    """SKEWED, its gradient with the batch times `noise` added."""

    def __init__(self, noise):
        self.noise = noise

    def potential(self, theta):
        return SKEWED.potential(theta)

    def minibatch_potential(self, theta, batch):
        return SKEWED.potential(theta) + self.noise * batch @ theta

    def validate(self, theta):
        pass


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_preconditioned_sgld_is_right_with_its_correction(noise, optimised):
    """Mean within 5 standard errors between chains and 0.02 of bias by the step; the variance within 5 %.

    D is 2 where the slope is zero and a third of that in the tail. A false alarm in 1e6.
    """
    mean, variance = moments_of(SKEWED, -12, 5)
    found, error, spread = short_psgld(samplers.psgld(8e-3, alpha=0.9, regularisation=0.5), noise)
    assert abs(found - mean) < 5 * error + 0.02
    assert spread == pytest.approx(variance, rel=0.05)


def test_a_step_of_preconditioned_sgld_is_the_formula(x64):
    """At T = 1.7 in two dimensions, the Hessian not diagonal; W averaged over the probes is 2g·diag(H)."""
    H = jnp.array([[2.0, 0.7], [0.7, 1.0]])
    target = fk.Density(lambda theta: -theta @ H @ theta / 2 - jnp.sum(theta**3))
    T, h, alpha, floor = 1.7, 0.01, 0.9, 0.3
    sampler = samplers.psgld(h, alpha, floor).on(target, T)
    theta, V, W = jnp.array([0.4, -0.3]), jnp.array([0.8, 0.5]), jnp.array([0.6, -0.9])
    state = SamplerState({"theta": theta, "V": V, "W": W}, jnp.asarray(30))
    g, hessian = jax.grad(target.potential)(theta), jax.hessian(target.potential)(theta)
    w = jnp.array([0.3, -1.2])
    after = []
    for signs in itertools.product((-1.0, 1.0), repeat=2):
        moved, _ = sampler.advance((w, jnp.asarray(signs), ()), state)
        after.append(moved.z["W"])
    seen = 1 - alpha**30
    D = 1 / (floor + jnp.sqrt(V / seen))
    gamma = -(D**2) * (W / seen) / (2 * jnp.sqrt(V / seen))
    wanted = theta + h * (-D * g + T * gamma) + jnp.sqrt(2 * h * T * D) * w
    np.testing.assert_allclose(moved.position, wanted, rtol=1e-10)
    np.testing.assert_allclose(moved.z["V"], alpha * V + (1 - alpha) * g**2, rtol=1e-10)
    np.testing.assert_allclose(
        np.mean(after, axis=0), alpha * W + (1 - alpha) * 2 * g * jnp.diag(hessian), rtol=1e-10
    )


def test_preconditioned_sgld_takes_estimators():
    x = jax.random.normal(jax.random.key(0), (60,))
    target = fk.Posterior(lambda t: -(t**2) / 2, lambda t, x: -((x - t) ** 2) / 2, x)
    trace = fk.sample(
        target,
        samplers.psgld(0.01, alpha=0.5, regularisation=1.0),
        gradient=fk.gradients.svrg(7),
        init=0.3,
        steps=40,
        batch_size=10,
        progress=False,
    )
    np.testing.assert_array_equal(trace.state.estimator.center, trace.samples[:, 33])
    with pytest.raises(ValueError, match="one number"):
        fk.sample(target, samplers.psgld(jnp.ones(2)), init=0.3, steps=4, progress=False)


def test_preconditioned_sgld_without_its_correction_would_be_found_wrong(monkeypatch, optimised):
    """The popular version: W, and with it Γ, put to zero."""

    def forget(self, draws, state, batch=None, number=None):
        state, info = right(self, draws, state, batch, number)
        return state._replace(z={**state.z, "W": jax.tree.map(jnp.zeros_like, state.z["W"])}), info

    right = samplers.psgld(0.1).__class__.advance
    monkeypatch.setattr(samplers.psgld(0.1).__class__, "advance", forget)
    mean, _ = moments_of(SKEWED, -12, 5)
    found, error, _ = short_psgld(samplers.psgld(8e-3, alpha=0.9, regularisation=0.5), 0.0)
    assert abs(found - mean) > 5 * error + 0.02


def test_preconditioned_sgld_on_a_tree_with_data_and_bad_settings():
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
    assert 0.1 < trace.stats["exchange_rate"][:, -1].mean() < 0.9


@pytest.mark.long
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
    assert trace.stats["kinetic_temperature"].mean() == pytest.approx(2.0, rel=0.06)


def test_exchanges_turn_by_turn_and_only_when_due():
    flat = fk.Density(lambda theta: 0.0 * jnp.sum(theta))
    sampler = samplers.replica_exchange(samplers.sgld(1e-12), (1.0, 2.0, 3.0), every=2).on(flat)
    state = sampler.init(jnp.zeros(1), key=jax.random.key(0))
    marked = {"theta": jnp.array([[1.0], [2.0], [3.0]])}
    state = state._replace(replicas=state.replicas._replace(z=marked))
    orders = []
    for number in range(6):
        state, _ = sampler.step(jax.random.key(number), state)
        orders.append(np.asarray(state.replicas.z["theta"]).ravel().round().astype(int).tolist())
    # On a flat density every exchange that is tried is made: pairs (1, 2) and (0, 1) by turns.
    assert orders == [[1, 2, 3], [1, 3, 2], [1, 3, 2], [3, 1, 2], [3, 1, 2], [3, 2, 1]]
    assert (int(state.tried), int(state.made)) == (3, 3)
    assert float(state.position[0]) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: samplers.replica_exchange(samplers.sgld(0.1), (2.0, 4.0)), ValueError, "increasing from 1"),
        (lambda: samplers.replica_exchange(samplers.sgld(0.1), (1.0,)), ValueError, "at least two"),
        (lambda: samplers.replica_exchange(samplers.sgld(0.1), (1.0, 2.0), every=0), ValueError, "every"),
        (lambda: samplers.replica_exchange(samplers.psgld(0.1), (1.0, 2.0)), TypeError, "named sampler"),
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
