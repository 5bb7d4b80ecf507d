"""Microcanonical samplers: the isokinetic step, its energy, the correction, the bias, and the warm-up."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fokker as fk
from conftest import quick_jit
from detailed_balance import BENT, FALSE_ALARM, asymmetry, bent, one_step
from fokker import corrections, samplers
from fokker._core.state import ravel
from fokker.integrators import IsokineticLeapfrog, isokinetic
from fokker.integrators.isokinetic import COEFFICIENTS, kick, refresh, unit_vector
from fokker.samplers import _microcanonical_warm_up as warm_up_module
from fokker.samplers._microcanonical_warm_up import _first_step
from marks import long_case

INTEGRATORS = list(COEFFICIENTS)

pytestmark = pytest.mark.usefixtures("quickly")


def bumpy(x):
    """Far from quadratic, coupled, of any dimension."""
    return jnp.sum(x**4) / 8 + jnp.sum(jnp.sin(2 * x)) + x[0] * x[1] / 2 + jnp.sum(x**2) / 2


def steps(integrator, count):
    """(x, u, h) ↦ (x, u, ΔU + ΔK, ΔK) after `count` steps, in units of a scale."""

    def run(x, u, h):
        dynamics = fk.dynamics.isokinetic(bumpy, jnp.linspace(0.5, 1.5, x.size))
        return steps_of(dynamics, IsokineticLeapfrog(integrator), count)(x, u, h)

    return run


def steps_of(dynamics, integrator, count):
    def run(x, u, h):
        z = {"theta": x, "u": u}
        start = point = integrator.evaluate(dynamics, z)
        kinetic = 0.0
        for _ in range(count):
            z, point, log_ratio, _ = integrator.propose(dynamics, z, None, h, point)
            kinetic -= log_ratio
        return z["theta"], z["u"], point.potential - start.potential + kinetic, kinetic

    return run


def somewhere(seed, d):
    key_x, key_u = jax.random.split(jax.random.key(seed))
    return jax.random.normal(key_x, (d,)), unit_vector(jax.random.normal(key_u, (d,)))


# The step ---------------------------------------------------------------------------------------------------

FORWARD = {
    (i, d): quick_jit(steps(i, 3)) for i in INTEGRATORS for d in (2, 5)
}  # traced at the first call, in double precision


@pytest.mark.slow
@settings(max_examples=12)
@given(
    seed=st.integers(0, 1000),
    h=st.floats(0.01, 1.5),
    integrator=st.sampled_from(INTEGRATORS),
    d=st.sampled_from([2, 5]),
)
def test_steps_lead_back_and_stay_on_the_sphere(seed, h, integrator, d, x64):
    x, u = somewhere(seed, d)
    run = FORWARD[integrator, d]
    y, v, change, _ = run(x, u, h)
    np.testing.assert_allclose(v @ v, 1, rtol=1e-12)
    back, w, other, _ = run(y, -v, h)
    np.testing.assert_allclose(back, x, atol=1e-6)
    np.testing.assert_allclose(w, -u, atol=1e-6)
    np.testing.assert_allclose(other, -change, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "integrator",
    [
        "leapfrog",
        long_case(
            "microcanonical::the_change_of_volume_is_what_the_kinetic_energy_accounts_for", "minimal norm"
        ),
    ],
)
def test_the_change_of_volume_is_what_the_kinetic_energy_accounts_for(integrator, x64):
    """log|det| of the map of ℝᵈ × the sphere into itself is -ΔK, for steps small and large."""
    run = steps(integrator, 2)
    for d in (2, 4):

        @quick_jit
        def found(x, u, h):
            _, v, _, kinetic = run(x, u, h)

            def basis(u):  # of the plane that touches the sphere
                return jnp.linalg.svd(u[None, :])[2][1:].T

            J = jax.jacfwd(lambda x, u: jnp.concatenate(run(x, u / jnp.sqrt(u @ u), h)[:2]), (0, 1))(x, u)
            inside = jnp.concatenate([J[0], J[1] @ basis(u)], 1)
            both = jnp.concatenate([inside[: x.size], basis(v).T @ inside[x.size :]])
            return jnp.linalg.slogdet(both)[1], kinetic

        for seed, h in ((0, 0.1), (1, 0.7), (2, 2.0)):
            volume, kinetic = found(*somewhere(seed, d), h)
            assert abs(kinetic) > 1e-3
            np.testing.assert_allclose(volume, -kinetic, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_the_integrators_are_of_second_order(integrator, x64):
    x, u = somewhere(3, 4)

    four = steps(integrator, 4)

    @quick_jit
    def end(count):
        def go(_, carry):
            x, u, change = carry
            x, u, more, _ = four(x, u, 1.0 / count)
            return x, u, change + more

        x_end, u_end, change = jax.lax.fori_loop(0, count // 4, go, (x, u, 0.0))
        return jnp.concatenate([x_end, u_end]), change

    (a, e), (b, f), (best, _) = end(16), end(32), end(1024)
    assert 1.8 < math.log2(np.linalg.norm(a - best) / np.linalg.norm(b - best)) < 2.2
    assert 1.6 < math.log2(abs(e / f)) < 2.4


def test_a_kick_in_single_precision_is_the_exact_solution():
    """Against cosh and sinh in double precision, from tiny to enormous forces, towards u and against it."""
    rng = np.random.default_rng(0)
    d = 50
    for size in (0.0, 1e-4, 1.0, 30.0, 1e3, 1e25):
        for way in ("across", "along", "against", "nearly against"):
            u = rng.normal(size=d)
            u /= np.linalg.norm(u)
            towards = {"across": rng.normal(size=d), "along": u, "against": -u}
            e = towards.get(way, -u + 1e-3 * rng.normal(size=d))
            u32, g32 = jnp.asarray(u, jnp.float32), jnp.asarray(-size * e / np.linalg.norm(e), jnp.float32)
            v, kinetic = jax.jit(kick)(u32, g32, jnp.float32(0.7))
            assert np.all(np.isfinite(v))
            assert abs(float(v @ v) - 1) < 1e-5
            u, g = np.asarray(u32, float), np.asarray(g32, float)
            delta = 0.7 * np.linalg.norm(g) / (d - 1)
            if 0 < delta < 300:
                e = -g / np.linalg.norm(g)
                c = e @ u / np.linalg.norm(u)
                bottom = np.cosh(delta) + c * np.sinh(delta)
                exact = (u + e * (np.sinh(delta) + c * (np.cosh(delta) - 1))) / bottom
                # Straight against u is a fixed point, from which rounding of u itself grows by e^{2δ}.
                if way != "against" or delta < 1:
                    np.testing.assert_allclose(v, exact, atol=3e-5 if way == "nearly against" else 2e-6)
                    np.testing.assert_allclose(kinetic, (d - 1) * np.log(bottom), rtol=3e-4, atol=1e-5)
    v, kinetic = kick(u32, jnp.zeros(d), jnp.float32(1.0))
    np.testing.assert_allclose(v, u32, rtol=1e-6)
    assert float(kinetic) == 0


def test_refreshment_forgets_over_L_and_keeps_directions_even(x64):
    """E[u·u'] = e^{-t/L} up to 1/d; 4,000 pairs in 200 dimensions: within 5 standard errors (1 in 2e6)."""
    keys = jax.random.split(jax.random.key(0), (2, 4_000))
    u, w = (jax.vmap(lambda k: jax.random.normal(k, (200,)))(k) for k in keys)
    u = jax.vmap(unit_vector)(u)
    v = jax.jit(jax.vmap(lambda u, w: refresh(u, w, 0.7, 2.0)))(u, w)
    c = np.sum(np.asarray(u * v), axis=1)
    assert abs(c.mean() - math.exp(-0.35)) < 5 * c.std() / math.sqrt(len(c)) + 2 / 200
    np.testing.assert_allclose(np.mean(np.asarray(v) ** 2, axis=0), 1 / 200, rtol=5 * math.sqrt(2 / 4_000))


@pytest.mark.slow
def test_the_step_goes_into_any_recipe(x64):
    dynamics, integrator = (
        fk.dynamics.isokinetic(bumpy, jnp.array([0.7, 1.3])),
        IsokineticLeapfrog("leapfrog"),
    )
    x, u = somewhere(4, 2)
    z = {"theta": x, "u": u}
    y, v, change, _ = quick_jit(steps_of(dynamics, integrator, 1))(x, u, 0.9)
    free = samplers.recipe(dynamics, 0.9, integrator=integrator)
    moved, _ = free.step(jax.random.key(0), free.init(z))
    np.testing.assert_allclose(ravel(moved.z), jnp.concatenate([y, v]), rtol=1e-10)
    sampler = samplers.recipe(dynamics, 0.9, integrator=integrator, correction=corrections.Metropolis())
    assert str(sampler) == "SDE × isokinetic leapfrog × Metropolis"
    state = sampler.init(z)
    ends, info = quick_jit(jax.vmap(sampler.step, (0, None)))(jax.random.split(jax.random.key(1), 64), state)
    np.testing.assert_allclose(info.energy_change, change, rtol=1e-8)
    np.testing.assert_allclose(info.acceptance_rate, min(1, math.exp(-change)), rtol=1e-8)
    accepted = np.asarray(info.is_accepted)[:, None]
    assert 0 < accepted.mean() < 1
    np.testing.assert_allclose(ends.z["theta"], np.where(accepted, y, x), rtol=1e-10)
    np.testing.assert_allclose(ends.z["u"], np.where(accepted, v, -u), rtol=1e-10)


def test_the_step_refuses_other_dynamics():
    x = jnp.array([0.6, 0.8])
    right = fk.dynamics.isokinetic(bumpy)
    straight = fk.SDE(lambda u, gradient: {"theta": u, "u": 0 * u}, 0.0, right.hamiltonian)
    for dynamics, z, words in (
        (fk.dynamics.underdamped(bumpy), {"theta": x, "r": x}, "of theta and u.*theta, r"),
        (fk.dynamics.isokinetic(bumpy, length=1.0), {"theta": x, "u": x}, "without noise"),
        (straight, {"theta": x, "u": x}, "are others"),
        (right, {"theta": x, "u": 2 * x}, "its length here is 2"),
        (right, {"theta": x[:1], "u": jnp.ones(1)}, "two numbers or more"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            IsokineticLeapfrog().check(dynamics, z)
    assert str(samplers.mclmc()) == "isokinetic × isokinetic minimal norm"
    leapfrog = samplers.mchmc(adjusted=True, integrator="leapfrog")
    assert str(leapfrog) == "isokinetic × isokinetic leapfrog × Metropolis"


# The correction ---------------------------------------------------------------------------------------------

T = 1.6
COUNT = 60_000


def exact_draws():
    return jnp.asarray(bent(np.random.default_rng(0), T, COUNT), jnp.float32)


# In two dimensions, a step at which a third to a half is rejected.
ADJUSTED = {
    "mclmc": samplers.mclmc(1.4, 3.0, adjusted=True, integrator="leapfrog", scale=jnp.array([1.0, 1.3])),
    "mchmc": samplers.mchmc(1.7, 3.0, adjusted=True),
}


@pytest.mark.parametrize("name", ADJUSTED)
def test_detailed_balance_of_the_adjusted_kinds(name):
    """From exact draws at T ≠ 1 of a bent and skewed density; false alarm 1e-6."""
    before = exact_draws()
    after, info = one_step(ADJUSTED[name].on(BENT, T), before)
    assert 0.3 < float(jnp.mean(info.is_accepted)) < 0.8, float(jnp.mean(info.is_accepted))
    assert abs(float(jnp.mean(info.is_accepted)) - float(jnp.mean(info.acceptance_rate))) < 5 / math.sqrt(
        COUNT
    )
    assert asymmetry(before, after) > FALSE_ALARM


@pytest.mark.parametrize(
    "fault",
    [
        "no kinetic energy",
        long_case("microcanonical::detailed_balance_fails_without_the_right_energy", "no rejection"),
        long_case(
            "microcanonical::detailed_balance_fails_without_the_right_energy",
            "kinetic energy of the wrong sign",
        ),
    ],
)
def test_detailed_balance_fails_without_the_right_energy(fault, monkeypatch):
    before = exact_draws()
    if fault == "no rejection":
        always = (jnp.asarray(True), jnp.ones(()), jnp.asarray(False))
        monkeypatch.setattr(corrections.metropolis, "metropolis_rule", lambda *given: always)
    else:
        right, sign = isokinetic.kick, {"no": 0.0, "ki": -1.0}[fault[:2]]
        monkeypatch.setattr(isokinetic, "kick", lambda *a: (lambda u, k: (u, sign * k))(*right(*a)))
    after, _ = one_step(ADJUSTED["mclmc"].on(BENT, T), before)
    assert asymmetry(before, after) < 1e-12


# Stationary moments -----------------------------------------------------------------------------------------


def run(sampler, positions, length, seed=0, of=lambda theta: theta):
    """of(theta) of all chains after each of `length` steps."""

    @jax.jit
    def go(positions, keys):
        def chain(theta, key):
            state = sampler.init(theta, key=key)

            def step(state, key):
                state, info = sampler.step(key, state)
                return state, (of(state.position), info.energy_change, info.acceptance_rate)

            return jax.lax.scan(step, state, jax.random.split(key, length))[1]

        return jax.vmap(chain)(positions, keys)

    chains = jax.tree.leaves(positions)[0].shape[0]
    return go(positions, jax.random.split(jax.random.key(seed), chains))


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampler",
    [
        samplers.mclmc(0.25, 3.0),
        long_case(
            "microcanonical::moments_of_a_skewed_tree_at_a_temperature",
            samplers.mchmc(0.2, 3.0, integrator="leapfrog"),
        ),
        long_case(
            "microcanonical::moments_of_a_skewed_tree_at_a_temperature",
            samplers.mclmc(1.2, 4.0, adjusted=True, integrator="leapfrog"),
        ),
        samplers.mchmc(1.5, 3.0, adjusted=True),
    ],
    ids=["mclmc", "mchmc", "mclmc adjusted", "mchmc adjusted"],
)
def test_moments_of_a_skewed_tree_at_a_temperature(sampler):
    """E e^{θ/2} and E θ of logs of Gamma variables; 5 standard errors between 400 chains (1 in 2e6 each), and
    0.01 for the bias of the first two."""
    from scipy.special import digamma, gamma

    target = fk.Density(lambda theta: sum(jnp.sum(1.5 * x - jnp.exp(x)) for x in jax.tree.leaves(theta)))
    a = 1.5 / T
    rng = np.random.default_rng(1)
    start = {
        "b": jnp.asarray(np.log(T * rng.gamma(a, size=(400, 2, 2))), jnp.float32),
        "a": jnp.asarray(np.log(T * rng.gamma(a, size=400)), jnp.float32),
    }
    length = 100 if sampler.adjusted else 500
    found = run(sampler.on(target, T), start, length, of=lambda t: jnp.append(jnp.ravel(t["b"]), t["a"]))[0]
    x = np.asarray(found, float)
    wanted = {
        "E exp(θ/2)": (np.exp(x / 2), math.sqrt(T) * gamma(a + 0.5) / gamma(a)),
        "E θ": (x, math.log(T) + digamma(a)),
    }
    for values, exact in wanted.values():
        means = values.mean(axis=(1, 2))
        allowed = 5 * means.std() / math.sqrt(len(means)) + (0 if sampler.adjusted else 0.01)
        assert abs(means.mean() - exact) < allowed


@pytest.mark.long("microcanonical::the_integrators_are_of_second_order")
def test_half_the_step_has_a_quarter_of_the_bias(optimised):
    """Of the mean of θ² on a normal, leapfrog: the ratio is 4 up to higher orders, its standard error below
    0.35, so that one of first order would be found out at three of them, one of third at five."""
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    start = jax.random.normal(jax.random.key(0), (2000, 4))
    biases = []
    for h in (1.6, 0.8):
        sampler = samplers.mclmc(h, 3.0, integrator="leapfrog").on(target)
        found = run(sampler, start, 800, of=lambda x: jnp.mean(x**2))[0]
        means = np.asarray(found, float)[:, 50:].mean(axis=1)
        biases.append((means.mean() - 1, means.std() / math.sqrt(len(means))))
    (large, error_large), (small, error_small) = biases
    ratio = large / small
    assert ratio * math.hypot(error_large / large, error_small / small) < 0.35
    assert 3 < ratio < 6


# The contract -----------------------------------------------------------------------------------------------

TREE = {"w": jnp.array([0.3, -0.2, 0.5]), "b": jnp.array(0.1)}
NORMAL_TREE = fk.Density(lambda t: -jnp.sum(t["w"] ** 2) / 2 - (t["b"] - t["w"][0]) ** 2)


@pytest.mark.long("every_sampler::jit_and_vmap_give_what_a_plain_step_gives")
@pytest.mark.parametrize("adjusted", [False, True])
def test_jit_is_eager_and_vmap_is_a_loop(adjusted):
    scale = {"w": jnp.ones(3), "b": 0.7}
    sampler = samplers.mclmc(0.5, 2.0, scale=scale, integrator="leapfrog", adjusted=adjusted)
    placed = sampler.on(NORMAL_TREE, 1.3)
    keys = jax.random.split(jax.random.key(0), 3)
    states = jax.vmap(lambda key: placed.init(TREE, key=key))(keys)
    mapped = jax.jit(jax.vmap(placed.step))(keys, states)
    step = jax.jit(placed.step) if adjusted else placed.step
    one = step(keys[1], jax.tree.map(lambda x: x[1], states))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(mapped), strict=True):
        np.testing.assert_allclose(a, b[1], rtol=2e-5, atol=2e-6)
    assert jax.tree.structure(one[0].position) == jax.tree.structure(TREE)


@pytest.mark.slow
def test_temperature_divides_the_potential_and_nothing_else(x64):
    hot = fk.Density(lambda t: -bumpy(t))
    cold = fk.Density(lambda t: -bumpy(t) / 2.5)
    key, x = jax.random.key(0), jnp.array([0.2, -0.4, 0.9])
    for sampler in (samplers.mclmc(0.3, 1.0), samplers.mchmc(0.3, 1.0, adjusted=True)):
        ends = []
        for target, temperature in ((hot, 2.5), (cold, 1.0)):
            placed = sampler.on(target, temperature)
            end = quick_jit(lambda key, p=placed: p.step(key, p.init(x, key=key))[0].position)(key)
            assert np.all(np.asarray(end) != x)
            ends.append(end)
        np.testing.assert_allclose(*ends, rtol=1e-12)


@pytest.mark.slow
def test_a_constrained_target_keeps_its_density_at_a_temperature():
    """θ > 0 with U = θ - log θ at T = 2: Gamma(1/T + 1, T), of mean 3; 5 standard errors (1 in 2e6)."""
    target = fk.constrain(fk.Density(lambda theta: jnp.sum(jnp.log(theta) - theta)), "positive")
    sampler = samplers.mchmc(1.5, 3.0, adjusted=True).on(target, 2.0)
    rng = np.random.default_rng(0)
    start = jnp.asarray(np.log(rng.gamma(1.5, 2.0, size=(500, 3))), jnp.float32)
    means = np.asarray(run(sampler, start, 60, of=lambda y: jnp.mean(jnp.exp(y)))[0], float).mean(axis=1)
    assert abs(means.mean() - 3) < 5 * means.std() / math.sqrt(len(means))


def test_bad_settings_are_refused():
    target = fk.Density(lambda theta: -jnp.sum(theta**2))
    edge = fk.Density(lambda theta: jnp.log(theta[0]))
    key, x = jax.random.key(0), jnp.ones(2)
    for make, words in (
        (lambda: samplers.mclmc(-0.1, 1.0), "positive number"),
        (lambda: samplers.mclmc(0.1, -1.0), "L is a positive length"),
        (lambda: samplers.mclmc(0.1), "L has to be given"),
        (lambda: samplers.mclmc(0.1, 1.0, integrator="leapfog"), "Did you mean 'leapfrog'"),
        (lambda: samplers.mclmc(0.1, 1.0, scale=0.0), "scale must be positive"),
        (lambda: samplers.mclmc(0.1, 1.0).on(target).init(jnp.ones(1), key=key), "slice_sampler"),
        (lambda: samplers.mclmc(0.1, 1.0, scale=jnp.ones(3)).on(target).init(x, key=key), "3 numbers"),
        (lambda: samplers.mclmc(0.1, 1.0).on(target).init(jnp.ones(2)), "pass key"),
        (lambda: samplers.mclmc(0.1, 1.0).on(target, 0.0), "above zero"),
        (lambda: samplers.mclmc(0.1, 1.0).init(jnp.ones(2), key=key), "no target"),
        (lambda: samplers.mclmc(0.1, 1.0).on(edge).init(-x, key=key), "not finite"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            make()
    for adjusted in (True, False):
        placed = samplers.mclmc(0.1, 1.0, adjusted=adjusted).on(target)
        with pytest.raises(ValueError, match="no minibatches"):
            placed.step(key, placed.init(jnp.ones(2), key=key), jnp.ones(3))
    automatic = samplers.mclmc().on(target)
    state = automatic.init(jnp.ones(2), key=key)
    with pytest.raises(ValueError, match="has not been found yet"):
        automatic.step(key, state)
    with pytest.raises(ValueError, match="at least 200 steps"):
        automatic.warm_up(jnp.ones((1, 2)), jax.random.split(key, 1), 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mclmc", "mchmc"])
def test_an_adjusted_step_is_the_path_written_out(name):
    """A new u, steps of the integrator with refreshments in part between them, and Metropolis."""
    h, L = 0.3, 1.5
    sampler = getattr(samplers, name)(h, L, adjusted=True, integrator="leapfrog").on(NORMAL_TREE, 1.3)
    state = sampler.init(TREE, key=jax.random.key(0))
    step = quick_jit(sampler.step)
    propose = quick_jit(lambda z, point: sampler.integrator.propose(sampler.placed, z, None, h, point))
    lengths = set()
    for number in range(3):
        key = jax.random.key(number)
        after, info = step(key, state)
        u_key, length_key, _, noise_key = jax.random.split(key, 4)
        share = 1.0 if name == "mclmc" else float(jax.random.uniform(length_key, minval=0.5, maxval=1.5))
        z, point = {**state.z, "u": unit_vector(jax.random.normal(u_key, (4,)))}, state.memory.point
        points, change = [], -point.potential
        for k in range(round(share * L / h)):
            z, point, log_ratio, _ = propose(z, point)
            change -= log_ratio
            points.append(ravel(z["theta"]))
            if name == "mclmc":
                noise = jax.random.normal(jax.random.fold_in(noise_key, k), (4,))
                z = {**z, "u": refresh(z["u"], noise, h, L)}
        np.testing.assert_allclose(ravel(info.proposal), points[-1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(info.energy_change, change + point.potential, atol=1e-5)
        assert int(info.num_integration_steps) == len(points)
        lengths.add(len(points))
        state = after
    assert (len(lengths) == 1) == (name == "mclmc")
    if name == "mchmc":
        shown = sampler.trajectory(key, state)
        assert len(shown.points) == int(shown.info.num_integration_steps) + 1
    assert info.energy is None  # that of a Hamiltonian, which has a kinetic part


@pytest.mark.slow
def test_a_path_finished_by_the_sampler_has_its_refreshments():
    """`finish` is all its moves, with the noise between them that a correction does not know."""
    sampler = samplers.mclmc(0.3, 1.5, adjusted=True, integrator="leapfrog").on(NORMAL_TREE)
    state = sampler.init(TREE, key=jax.random.key(0))
    draws = sampler.draw(jax.random.key(1), state)
    finished, _ = quick_jit(lambda: sampler.end(sampler.finish(sampler.start(draws, state), state), state))()
    stepped, _ = quick_jit(sampler.step)(jax.random.key(1), state)
    np.testing.assert_allclose(ravel(finished.z), ravel(stepped.z), rtol=1e-5)
    assert not np.allclose(ravel(finished.z), ravel(state.z))  # it was accepted


@pytest.mark.parametrize("name", ["mclmc", "mchmc"])
def test_without_a_correction_every_step_is_taken(name):
    h, L = 0.5, 1.0
    sampler = getattr(samplers, name)(h, L, integrator="leapfrog").on(NORMAL_TREE)
    state = sampler.init(TREE, key=jax.random.key(0))
    step = quick_jit(sampler.step)
    for number in range(3):
        key = jax.random.key(number)
        after, info = step(key, state)
        noise, z = jax.random.normal(key, (4,)), state.z
        if name == "mchmc" and number % 2 == 0:
            z = {**z, "u": unit_vector(noise)}
        z, point, _, _ = sampler.integrator.propose(sampler.placed, z, None, h, state.memory.point)
        if name == "mclmc":
            z = {**z, "u": refresh(z["u"], noise, h, L)}
        np.testing.assert_allclose(ravel(after.z), ravel(z), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(after.memory.point.potential, point.potential, rtol=1e-4)
        assert info.is_accepted is None
        state = after
    with pytest.raises(ValueError, match="without a correction has no trajectory"):
        sampler.trajectory(key, state)


def test_a_trajectory_that_leaves_the_finite_numbers_is_rejected():
    wall = fk.Density(lambda theta: jnp.sum(jnp.log(1 - theta**2)))
    placed = samplers.mchmc(5.0, 5.0, adjusted=True).on(wall)
    state, info = placed.step(jax.random.key(1), placed.init(jnp.zeros(3), key=jax.random.key(0)))
    assert bool(info.is_divergent)
    assert not bool(info.is_accepted)
    assert bool(info.is_finite)
    np.testing.assert_array_equal(state.position, jnp.zeros(3))


# The warm-up ------------------------------------------------------------------------------------------------

SIZES = jnp.asarray(np.geomspace(0.01, 100, 12), jnp.float32)
UNEQUAL = fk.Density(lambda theta: -jnp.sum((theta["x"] / SIZES) ** 2) / 2)


@pytest.mark.slow
def test_the_warm_up_finds_step_size_length_and_scale():
    """Scales from 0.01 to 100 at T = 2, from a bad start; the energy error asked for comes out."""
    start = {"x": jnp.stack([SIZES * 3 * s for s in (-1, 1, -1, 1)])}
    keys = jax.random.split(jax.random.key(0), 4)
    tuned, positions, _ = samplers.mclmc().on(UNEQUAL, 2.0).warm_up(start, keys, 2000)
    assert positions["x"].shape == (4, 12)
    np.testing.assert_allclose(tuned.scale, math.sqrt(2) * SIZES, rtol=0.35)
    assert 0.5 < float(tuned.L) / math.sqrt(12) < 4
    x, change, _ = run(tuned, positions, 1000, of=lambda t: t["x"])
    assert 2e-4 < float(jnp.mean(change**2)) / 12 < 1.2e-3
    variance = np.asarray(x, float).reshape(-1, 12).var(axis=0)
    np.testing.assert_allclose(variance, 2 * np.asarray(SIZES, float) ** 2, rtol=0.35)


@pytest.mark.parametrize(
    "sampler",
    [
        samplers.mclmc(),
        samplers.mclmc(L=5.0),
        samplers.mclmc(0.3, 5.0),
        samplers.mchmc(adjusted=True, preconditioned=False),
        samplers.mclmc(L=5.0, adjusted=True),
    ],
    ids=["all open", "L given", "both given", "adjusted, no scale", "adjusted, L given"],
)
def test_a_warm_up_sets_what_is_open_and_keeps_what_was_given(sampler, monkeypatch):
    """By rounds whose results are known: E[ΔE²]/d = 2ε⁶, acceptance 2Φ(-3ε²/2), and variances of 9."""
    seen = []

    def known_round(kind, states, keys, length, columns):
        step, chains = float(kind.step_size), len(keys)
        error = 2 * stats.norm.cdf(-3 * step**2 / 2) if kind.adjusted else 2 * step**6
        seen.append((kind.adjusted, float(kind.L)))
        zeros = np.zeros((chains, 4))
        draws = np.random.default_rng(len(seen)).normal(size=(chains, length, len(columns)))
        return states, warm_up_module.Round(np.full(chains, error), zeros, zeros + 9, draws)

    monkeypatch.setattr(warm_up_module, "_round", known_round)
    monkeypatch.setattr(warm_up_module, "_first_step", lambda *_: 0.1)
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    keys = jax.random.split(jax.random.key(0), 2)
    tuned, *_ = sampler.on(target).warm_up(jnp.ones((2, 4)), keys, 400)
    np.testing.assert_allclose(tuned.scale, 3.0 if sampler.preconditioned else 1.0)
    assert [adjusted for adjusted, _ in seen] == [sampler.adjusted and k >= 12 for k in range(20)]
    wanted = math.sqrt(-2 * stats.norm.ppf(0.45) / 3) if sampler.adjusted else (5e-4 / 2) ** (1 / 6)
    step_size = wanted if sampler.step_size == "auto" else 0.3
    assert float(tuned.step_size) == pytest.approx(step_size, rel=1e-3)
    if sampler.L == "auto":
        size = 2.0 if sampler.preconditioned else 6.0  # √Σ Var, in units of the scale
        assert seen[-1][1] == pytest.approx(size)
        assert float(tuned.L) == pytest.approx(size if sampler.adjusted else size / 4)  # draws forget at once
    else:
        assert {L for _, L in seen} == {5.0}
        assert float(tuned.L) == 5.0


@pytest.mark.long("microcanonical::a_warm_up_sets_what_is_open_and_keeps_what_was_given")
def test_the_warm_up_of_an_adjusted_kind_without_preconditioner():
    """90 % are accepted; L is the size of the target, 3√(2·8)."""
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2 / 9)
    start, keys = jnp.zeros((4, 8)) + 10.0, jax.random.split(jax.random.key(0), 4)
    sampler = samplers.mchmc(adjusted=True, preconditioned=False).on(target, 2.0)
    tuned, positions, _ = sampler.warm_up(start, keys, 400)
    np.testing.assert_array_equal(tuned.scale, np.ones(8))
    assert 0.7 < float(tuned.L) / 12 < 1.4
    assert 0.83 < float(jnp.mean(run(tuned, positions, 300)[2])) < 0.96
    assert tuned.with_step_size(0.1).step_size == 0.1


@pytest.mark.long("microcanonical::a_warm_up_sets_what_is_open_and_keeps_what_was_given")
def test_the_warm_up_keeps_an_L_that_was_given():
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2 / 9)
    keys = jax.random.split(jax.random.key(0), 2)
    tuned, *_ = samplers.mclmc(L=5.0).on(target).warm_up(jnp.ones((2, 8)), keys, 400)
    assert float(tuned.L) == 5.0
    assert float(tuned.step_size) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "integrator",
    [
        "minimal norm",
        long_case("microcanonical::the_first_step_is_no_step_that_leads_straight_back", "leapfrog"),
    ],
)
def test_the_first_step_is_no_step_that_leads_straight_back(integrator):
    """A step so large that the force turns it round ends where it began, with no error of the energy."""
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2 / 9)
    sampler = samplers.mclmc(1.0, 1.0, integrator=integrator).on(target)
    states = jax.vmap(lambda k: sampler.init(jnp.full(5, 10.0), key=k))(
        jax.random.split(jax.random.key(0), 2)
    )
    assert 0.1 < _first_step(sampler, states) < 20
