"""Riemannian HMC: the generalised leapfrog, detailed balance, and moments in a metric that varies."""

import importlib
import math
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fokker as fk
from conftest import quick_jit
from detailed_balance import BENT, FALSE_ALARM, LOG_GAMMA, asymmetry, bent, log_gamma, one_step
from fokker import fields, samplers
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.integrators import generalised_leapfrog as implicit
from fokker.integrators.generalised_leapfrog import generalised_leapfrog, reversible_leapfrog
from marks import long_case

pytestmark = pytest.mark.usefixtures("quickly")

T = 1.6
COUNT = 25_000


def dense(theta):
    """A metric that is far from diagonal and from constant."""
    a, b = theta[0], theta[1]
    return jnp.array([[1.5 + jnp.sin(a), 0.5 * jnp.cos(b)], [0.5 * jnp.cos(b), 1 + 0.5 * a**2]])


PLACED = samplers.rhmc(0.3, dense, 1).on(BENT, T)


def hamiltonian(placed):
    """H/T of position and momentum."""
    return lambda x, r: placed.placed.hamiltonian({"theta": x, "r": r})


@quick_jit
def leap(x, r, h):
    H = hamiltonian(PLACED)
    return *generalised_leapfrog(H, x, r, h, 1e-13, 100), H(x, r)


@pytest.mark.slow
@settings(max_examples=12)
@given(
    x=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    r=st.tuples(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5)),
    h=st.floats(0.01, 0.25),
)
def test_the_generalised_leapfrog_leads_back(x, r, h, x64):
    x, r = jnp.array(x), jnp.array(r)
    y, p, solved, _ = leap(x, r, h)
    assert bool(solved)
    back, q, _, _ = leap(y, -p, h)
    np.testing.assert_allclose(back, x, atol=1e-10)
    np.testing.assert_allclose(q, -r, atol=1e-10)


def wavy(x, r):
    """H in a metric that varies fast: the implicit equations have several solutions."""
    G = 1.1 + jnp.sin(3 * x)
    return jnp.sum(x**2 + jnp.log(G) + r**2 / G) / 2


def test_a_leap_that_does_not_lead_back_is_not_taken_for_sound(x64):
    """Solved from both ends, but by another solution; near its start, but not solved from its end; and one of
    a shorter step, which leads back."""
    leap = quick_jit(lambda x, r, h, limit: generalised_leapfrog(wavy, x, r, h, 1e-10, limit))
    checked = quick_jit(lambda x, r, h, limit: reversible_leapfrog(wavy, x, r, h, 1e-10, limit)[2])
    for x, r, h, limit, is_solved, is_near in (
        (1.5650043, 0.07757683, 0.51205055, 60, True, False),
        (0.64110618, 0.89367053, 0.41752415, 12, False, True),
        (1.5650043, 0.07757683, 0.05, 60, True, True),
    ):
        x, r = jnp.array([x]), jnp.array([r])
        y, p, solved = leap(x, r, h, limit)
        back, _, solved_back = leap(y, -p, h, limit)
        assert bool(solved)
        assert bool(solved_back) == is_solved
        assert (abs(float(back[0] - x[0])) < 1e-8) == is_near
        assert bool(checked(x, r, h, limit)) == (is_solved and is_near)


@pytest.mark.parametrize(
    ("missed", "is_sound"), [((0, 0), True), ((1e-3, 0), False), ((0, 1e-3), False), ((0, 0, 1), False)]
)
def test_position_and_momentum_lead_back(missed, is_sound, monkeypatch):
    """The way back ends elsewhere, with another momentum, or is not solved."""
    x, r, y, p = (jnp.array([v]) for v in (0.3, 0.9, 0.7, 0.5))
    off_x, off_r, unsolved = (*missed, 0)[:3]
    ways = [(y, p, jnp.array(True)), (x + off_x, -r + off_r, jnp.array(not unsolved))]
    monkeypatch.setattr(implicit, "generalised_leapfrog", lambda *_: ways.pop(0))
    assert bool(reversible_leapfrog(wavy, x, r, 0.1, 1e-5, 60)[2]) == is_sound


def test_the_generalised_leapfrog_is_symplectic_and_of_second_order(x64):
    """JᵀΩJ = Ω by central differences, the loops having no derivative; the order by halving the step."""
    z = np.array([0.3, -0.5, 0.8, 1.1])

    def flow(z, h, count=1):
        for _ in range(count):
            y, p, solved, energy = leap(jnp.asarray(z[:2]), jnp.asarray(z[2:]), h)
            assert bool(solved)
            z = np.concatenate([y, p])
        return z, float(energy)

    d = 1e-5
    J = np.stack([(flow(z + d * e, 0.2)[0] - flow(z - d * e, 0.2)[0]) / (2 * d) for e in np.eye(4)], 1)
    omega = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])
    np.testing.assert_allclose(J.T @ omega @ J, omega, atol=1e-7)
    assert np.abs(J - np.eye(4)).max() > 0.1
    best = flow(z, 1 / 512, 256)[0]
    errors = [np.linalg.norm(flow(z, 0.5 / n, n)[0] - best) for n in (8, 16)]
    assert 1.8 < math.log2(errors[0] / errors[1]) < 2.2


def test_the_hamiltonian_is_that_of_the_paper(x64):
    x, r = jnp.array([0.4, -0.7]), jnp.array([0.3, 1.2])
    G = np.asarray(dense(x))
    placed = samplers.rhmc(0.3, dense, 1).on(BENT, T)
    wanted = float(BENT.potential(x)) / T + np.linalg.slogdet(G)[1] / 2 + r @ np.linalg.solve(G, r) / 2
    np.testing.assert_allclose(hamiltonian(placed)(x, r), wanted, rtol=1e-12)
    for metric, g in (
        (lambda theta: 2.0 + theta[0] ** 2, np.full(2, 2.16)),
        (lambda theta: 1 + theta**2, np.array([1.16, 1.49])),
        (fields.Elementwise(lambda theta: 1 + theta**2), np.array([1.16, 1.49])),
    ):
        value = hamiltonian(samplers.rhmc(0.1, metric).on(BENT, T))(x, r)
        wanted = float(BENT.potential(x)) / T + np.log(g).sum() / 2 + np.sum(r**2 / g) / 2
        np.testing.assert_allclose(value, wanted, rtol=1e-12)


# Detailed balance -------------------------------------------------------------------------------------------


def steep(theta):
    """A metric that grows with θ, as the Fisher information of these densities does."""
    return 0.3 + jnp.exp(theta)


# One leap of a size at which a good part is rejected.
CASES = {
    "number, in one dimension": (
        samplers.rhmc(1.6, lambda theta: steep(theta)[0], 1, iterations=20),
        LOG_GAMMA,
    ),
    "matrix, in two": (samplers.rhmc(0.9, dense, 2, iterations=12), BENT),
}


def one_step_of(placed):
    return quick_jit(lambda theta, key: placed.step(jax.random.split(key)[1], placed.init(theta))[0].position)


def one_of(step, before, i):
    """The step that `one_step` takes from the i-th draw, alone."""
    return step(before[i], jax.random.split(jax.random.key(1), len(before))[i])


def draws_of(target):
    rng = np.random.default_rng(0)
    x = log_gamma(rng, T, (COUNT, 1)) if target is LOG_GAMMA else bent(rng, T, COUNT)
    return jnp.asarray(x, jnp.float32)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.long("rhmc::detailed_balance") if "number" in case else ())
        for case in CASES
    ],
)
def test_detailed_balance(case):
    """From exact draws at T ≠ 1, with a good part rejected, some for not being solved; false alarm 1e-6."""
    sampler, target = CASES[case]
    before = draws_of(target)
    after, info = one_step(sampler.on(target, T), before)
    assert 0.3 < float(jnp.mean(info.is_accepted)) < 0.95
    assert float(jnp.mean(info.is_divergent)) > 0.001
    assert float(jnp.mean(jnp.any(before != after, axis=1))) > 0.3
    assert asymmetry(before, after, 8 if target is LOG_GAMMA else 4) > FALSE_ALARM
    if target is LOG_GAMMA:  # vmap is a loop
        one = one_of(one_step_of(sampler.on(target, T)), before, 3)
        np.testing.assert_allclose(one, after[3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "fault",
    [
        "no log det G",
        "no rejection",
        long_case("rhmc::detailed_balance_fails_for_another_hamiltonian", "log det G of the wrong sign"),
    ],
)
def test_detailed_balance_fails_for_another_hamiltonian(fault, monkeypatch):
    sampler, target = CASES["number, in one dimension"]
    if fault == "no rejection":
        module = importlib.import_module("fokker.corrections.metropolis")
        right_rule = module.metropolis_rule
        monkeypatch.setattr(
            module, "metropolis_rule", lambda u, e, s: right_rule(u, jnp.where(s, -1.0, e), s)
        )
    else:
        right, sign = Hamiltonian.value, 2.0 if "sign" in fault else 1.0

        def wrong(self, z, U):
            return right(self, z, U) - sign * jnp.sum(jnp.log(steep(z["theta"]))) / 2

        monkeypatch.setattr(Hamiltonian, "value", wrong)
    before = draws_of(target)
    after, _ = one_step(sampler.on(target, T), before)
    assert asymmetry(before, after, 8) < 1e-12


@pytest.mark.long("rhmc::detailed_balance")
def test_moments_on_a_skewed_tree():
    """E θ and E e^{θ/2} from exact starts, 40 steps of 400 chains: 5 standard errors (1 in 2e6 each)."""
    from scipy.special import digamma, gamma

    target = fk.Density(lambda t: LOG_GAMMA.log_density(t["a"]) + LOG_GAMMA.log_density(t["b"]))
    sampler = samplers.rhmc(0.5, lambda t: jax.tree.map(steep, t), 3).on(target, T)
    rng = np.random.default_rng(1)
    start = {
        "b": jnp.asarray(log_gamma(rng, T, (400, 2)), jnp.float32),
        "a": jnp.asarray(log_gamma(rng, T, 400), jnp.float32),
    }

    @jax.jit
    def run(start, keys):
        def chain(theta, key):
            def step(state, key):
                state, info = sampler.step(key, state)
                return state, (jnp.append(state.position["b"], state.position["a"]), info.is_accepted)

            return jax.lax.scan(step, sampler.init(theta), jax.random.split(key, 40))[1]

        return jax.vmap(chain)(start, keys)

    x, accepted = run(start, jax.random.split(jax.random.key(0), 400))
    assert 0.5 < float(jnp.mean(accepted)) < 0.99
    x, a = np.asarray(x, float), 1.5 / T
    for values, exact in (
        (x, math.log(T) + digamma(a)),
        (np.exp(x / 2), math.sqrt(T) * gamma(a + 0.5) / gamma(a)),
    ):
        means = values.mean(axis=(1, 2))
        assert abs(means.mean() - exact) < 5 * means.std() / math.sqrt(len(means))


def test_in_one_dimension_it_is_the_flow_of_sgrhmc_without_friction(x64):
    """With r = G^½ p the paths of (θ, p) are those of Q = G^{-½} with Γ, dp = -G^{-½}U' + (G^{-½})'."""

    def g(x):
        return 1.5 + jnp.tanh(x)

    def U(theta):
        return jnp.sum(theta**4 / 4 + jnp.sin(theta))

    H = hamiltonian(samplers.rhmc(0.1, lambda theta: g(theta)).on(fk.Density(lambda t: -U(t))))
    root = fields.Elementwise(lambda theta: g(theta) ** -0.5)
    dynamics = fk.Dynamics(fk.Hamiltonian(U, lambda r: jnp.sum(r**2) / 2), D={}, Q={("r", "theta"): root})
    x, p = jnp.array([0.4]), jnp.array([-0.8])
    f = dynamics.drift({"theta": x, "r": p})
    r = jnp.sqrt(g(x)) * p
    dx, dr = jax.grad(H, 1)(x, r), -jax.grad(H, 0)(x, r)
    np.testing.assert_allclose(dx, f["theta"], rtol=1e-12)
    # dp = d(G^{-½} r)
    dp = g(x) ** -0.5 * dr + jax.jvp(lambda y: g(y) ** -0.5, (x,), (dx,))[1] * r
    np.testing.assert_allclose(dp, f["r"], rtol=1e-12)


@pytest.mark.slow
def test_a_constant_metric_is_hmc_by_leapfrog(x64):
    x, w = jnp.array([0.4, -0.7]), jnp.array([0.3, 1.2])
    G, h = jnp.array([[2.0, 0.3], [0.3, 0.5]]), 0.2
    sampler = samplers.rhmc(h, G, 3).on(BENT)
    state = sampler.init(x)
    draws = sampler.draw(jax.random.key(0), state)._replace(momentum=w)
    info = quick_jit(sampler.advance)(draws, state)[1]
    r, slope = jnp.linalg.cholesky(G) @ w, jax.grad(BENT.potential)
    for _ in range(3):
        r = r - h / 2 * slope(x)
        x = x + h * jnp.linalg.solve(G, r)
        r = r - h / 2 * slope(x)
    np.testing.assert_allclose(info.proposal, x, rtol=1e-8)


def test_a_q_that_is_canonical_here_alone_is_refused():
    def one_near_zero(theta):
        return jnp.where(jnp.abs(theta) < 5, 1.0, 2.0)

    z = {"theta": jnp.array([0.1, 0.2]), "r": jnp.ones(2)}
    H = fk.Hamiltonian(BENT.potential, lambda r: jnp.sum(r**2) / 2)
    for Q, is_refused in ((1.0, False), (fields.Elementwise(one_near_zero), True)):
        dynamics = fk.Dynamics(H, D={}, Q={("r", "theta"): Q})
        with pytest.raises(ValueError, match="these have others") if is_refused else nullcontext():
            fk.integrators.GeneralisedLeapfrog().check(dynamics, z)


def test_bad_settings_are_refused():
    key = jax.random.key(0)
    x = jnp.array([0.1, 0.2])
    for make, words in (
        (lambda: samplers.rhmc(-0.1, 1.0), "positive number"),
        (lambda: samplers.rhmc(0.1, 1.0, 0), "num_integration_steps"),
        (lambda: samplers.rhmc(0.1, 1.0, tolerance=0.0), "tolerance"),
        (lambda: samplers.rhmc("auto", 1.0), "needs a step size"),
        (lambda: samplers.rhmc(0.1, lambda t: -1.0).on(BENT).init(x), "positive definite"),
        (lambda: samplers.rhmc(0.1, lambda t: t - 0.15).on(BENT).init(x), "positive definite"),
        (lambda: samplers.rhmc(0.1, jnp.array([[1.0, 2], [2, 1.0]])).on(BENT).init(x), "positive definite"),
        (lambda: samplers.rhmc(0.1, jnp.array([[1.0, 0.5], [0.0, 1.0]])).on(BENT).init(x), "symmetric"),
        (lambda: samplers.rhmc(0.1, jnp.ones(3)).on(BENT).init(x), "2 × 2"),
        (lambda: samplers.rhmc(0.1, 1.0).on(BENT, 0.0), "above zero"),
        (lambda: (s := samplers.rhmc(0.1, 1.0).on(BENT)).step(key, s.init(x), x), "no minibatches"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            make()
