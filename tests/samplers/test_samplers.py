"""The named samplers without luck: on Gaussians a step is affine, its stationary covariance known exactly."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.linalg import expm

import fokker as fk
from affine import PRECISION, Gaussian, affine, affine_in, covariance, precision_of, stationary, wanted
from conftest import quick_jit
from fokker import fields, samplers
from fokker.integrators import EulerMaruyama, ExactOU, Splitting, SymplecticEuler, noise
from fokker.integrators.exact_ou import coefficients
from fokker.samplers import SamplerState, schedules
from fokker.samplers.plain import OwnGradient
from marks import long_case
from registry import AFFINE, gsgrhmc

NOISE = np.array([[0.9, 0.3], [0.3, 0.5]])  # the covariance of the gradient's noise, where there is some
MASS = np.array([2.0, 0.5])


@pytest.mark.long("every_sampler::the_covariance_is_that_of_the_target_over_temperature_and_friction")
@pytest.mark.parametrize("name", ["sghmc, ABOBA", "sgld", "sghmc, mass", "ulmc", "gsgrhmc"])
def test_a_hundred_dimensions(name, x64):
    make, mass, order = dataclasses.astuple(AFFINE[name])
    target = Gaussian(precision_of(100))
    truth = wanted(target, mass, 10.0)
    h = 0.02 if order == 2 else 0.005
    found = stationary(affine_in(make, target)(10.0, h, 4.0))
    assert np.linalg.norm(found - truth) < (2e-4 if order == 2 else 0.02) * np.linalg.norm(truth)


@pytest.mark.long("samplers::one_set_of_settings_of_a_thermostat_serves_every_temperature")
@pytest.mark.parametrize(
    ("kind", "d"), [("scalar", 1), ("scalar", 20), ("scalar", 100), ("diagonal", 10), ("matrix", 10)]
)
def test_thermostats_over_temperature_friction_and_dimension(kind, d, optimised):
    """E θᵀPθ / d = E rᵀr / d = T for nine settings at once: 48 chains each, 4,000 steps of 0.1.

    A chain forgets itself in about 8 units of time: in one dimension T is known to 3 %, and asked for to 15.
    """
    curvatures = jnp.linspace(0.5, 2.0, d)
    target = fk.Density(lambda theta: -jnp.sum(curvatures * theta**2) / 2)
    integrator = SymplecticEuler() if kind == "matrix" else Splitting()
    h = 0.02 if kind == "matrix" else 0.1

    def chain(T, A, key):
        sampler = samplers.sgnht(h, A, kind=kind, integrator=integrator).on(target, T)
        state = sampler.init(jnp.zeros(d), key=key)

        def step(state, key):
            state, _ = sampler.step(key, state)
            theta, r = state.z["theta"], state.z["r"]
            energies = jnp.stack([jnp.sum(curvatures * theta**2), jnp.sum(r**2)]) / d
            return state, jnp.append(energies, jnp.mean(state.z["xi"]))

        return jax.lax.scan(step, state, jax.random.split(key, 4_000))[1][500:].mean(axis=0)

    settings = jnp.asarray(list(itertools.product((0.1, 1.0, 10.0), (0.25, 1.0, 4.0))))
    keys = jax.random.split(jax.random.key(0), (9, 48))
    found = jax.jit(jax.vmap(lambda s, k: jax.vmap(lambda key: chain(s[0], s[1], key))(k)))(settings, keys)
    found = np.asarray(found.mean(axis=1))
    np.testing.assert_allclose(found[:, :2] / np.asarray(settings)[:, :1], 1.0, atol=0.15)
    if d == 100:  # noise too strong by a factor would be absorbed, and show in the friction: E ξ = A
        np.testing.assert_allclose(found[:, 2], np.asarray(settings)[:, 1], atol=0.15)


FRICTIONS = np.array([1.5, 0.8])
MATRICES = {
    "sgld": (lambda h: samplers.sgld(h, NOISE), None, 1),
    "sgrld": (lambda h: samplers.sgrld(h, fields.Gram(np.linalg.cholesky(NOISE))), None, 1),
    "sghmc": (lambda h: samplers.sghmc(h, NOISE, MASS), MASS, 1),
    "sghmc, diagonal": (lambda h: samplers.sghmc(h, fields.Diagonal(FRICTIONS), MASS), MASS, 1),
    "sghmc, Euler": (lambda h: samplers.sghmc(h, NOISE, MASS, integrator=EulerMaruyama()), MASS, 1),
    "sghmc, ABOBA": (
        lambda h: samplers.sghmc(h, fields.Diagonal(FRICTIONS), MASS, integrator=Splitting()),
        MASS,
        2,
    ),
    "sghmc, BAOAB": (
        lambda h: samplers.sghmc(h, fields.Diagonal(FRICTIONS), MASS, integrator=Splitting("BAOAB")),
        MASS,
        2,
    ),
    "gsgrhmc": (lambda h: samplers.gsgrhmc(h, PRECISION @ PRECISION, PRECISION), 1.0, 1),
}


@pytest.mark.parametrize("name", MATRICES)
def test_with_matrices_the_bias_falls_with_the_step_at_the_order_of_the_integrator(name, x64):
    """From h to h/2 by 2 or by 4, in theta and r together; at T = 1.7 and a friction that is not 1."""
    make, mass, order = MATRICES[name]
    target, T = Gaussian(PRECISION), 1.7
    matrices, truth = affine_in(make, target), wanted(target, mass, T)
    steps = (0.1, 0.05) if order == 2 else (0.002, 0.001)
    coarse, fine = (np.linalg.norm(stationary(matrices(T, h)) - truth) for h in steps)
    assert 0.95 * 2**order < coarse / fine < 1.05 * 2**order


@pytest.mark.slow
def test_the_biases_are_the_known_ones(x64):
    """In closed form for a unit normal at temperature T, not only in order."""
    target, T, h = Gaussian(np.eye(1)), 2.0, 0.2
    ula = covariance(samplers.sgld(h, 0.7), target, T)[0, 0]
    np.testing.assert_allclose(ula, T / (1 - 0.7 * h / 2), rtol=1e-12)
    # Both splittings have theta exactly right on a Gaussian; the momentum pays for it.
    for word, momentum in (("ABOBA", T / (1 - h**2 / 4)), ("BAOAB", T * (1 - h**2 / 4))):
        S = stationary(affine(samplers.sghmc(h, 1.3, integrator=Splitting(word)), target, T))
        np.testing.assert_allclose(S, np.diag([momentum, T]), rtol=1e-12, atol=1e-12)


# The gradient's noise -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "estimate"),
    [
        (lambda B: samplers.sgld(0.05, 0.6, noise_estimate=B), 0.36 * NOISE),
        (lambda B: samplers.sgfs(0.05, PRECISION, 0.0 if B is None else B), PRECISION @ NOISE @ PRECISION),
        (lambda B: samplers.sghmc(0.05, 1.3, 2.5, noise_estimate=B), NOISE),
        (lambda B: samplers.sghmc(0.05, 1.3, noise_estimate=B, integrator=EulerMaruyama()), NOISE),
    ],
    ids=["sgld", "sgfs", "sghmc", "sghmc, Euler"],
)
def test_a_known_noise_of_the_gradient_is_made_up_for(make, estimate, x64):
    target = Gaussian(PRECISION)
    without = covariance(make(None), target)
    made_up = covariance(make(estimate), target, 1.0, NOISE)
    np.testing.assert_allclose(made_up, without, rtol=1e-10)
    ignored = covariance(make(None), target, 1.0, NOISE)
    assert np.linalg.norm(ignored - without) > 5e-3 * np.linalg.norm(without)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sgld", "sghmc", "sghmc, ABOBA", "gsgrhmc"])
def test_the_noise_of_the_gradient_adds_a_bias_of_first_order(name, x64):
    make = AFFINE[name].make
    target = Gaussian(PRECISION)
    added = [
        np.linalg.norm(covariance(make(h, 1.3), target, 1.0, NOISE) - covariance(make(h, 1.3), target))
        for h in (0.02, 0.01)
    ]
    assert 1.95 < added[0] / added[1] < 2.05


# Limits ---------------------------------------------------------------------------------------------------


def the_same(one, other, T=1.7):
    target = Gaussian(PRECISION)
    for x, y in zip(affine(one, target, T), affine(other, target, T), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_gsgrhmc_with_a_unit_metric_is_sghmc(x64):
    the_same(gsgrhmc(0.1, 1.0), samplers.sghmc(0.1, integrator=EulerMaruyama()))
    one = samplers.gsgrhmc(0.1, fields.Scalar(1.0), fields.Scalar(1.0), integrator=Splitting())
    the_same(one, samplers.sghmc(0.1, integrator=Splitting()))


def test_gsgrhmc_with_a_constant_metric_is_sghmc_with_friction_after_a_change_of_time(x64):
    """With G⁻¹ = c: dθ = √c r dt, dr = -√c∇U - cr + …, which is SGHMC with friction √c and steps √c h."""
    c = 2.3
    the_same(gsgrhmc(0.1, c), samplers.sghmc(0.1 * math.sqrt(c), math.sqrt(c), integrator=EulerMaruyama()))


def test_gsgrhmc_with_a_constant_matrix_has_the_moments_of_its_kin(x64):
    """In θ = G^{-½}x it is SGHMC of unit mass, friction G⁻¹, on the potential U(G^{-½}x)."""
    root = np.array([[1.2, 0.3], [0.3, 0.8]])
    one = covariance(samplers.gsgrhmc(0.05, root @ root, root), Gaussian(PRECISION), 1.7)
    moved = Gaussian(root @ PRECISION @ root)
    kin = covariance(samplers.sghmc(0.05, root @ root, integrator=EulerMaruyama()), moved, 1.7)
    np.testing.assert_allclose(one, root @ kin @ root, rtol=1e-10)


def test_sgrld_with_a_constant_metric_is_sgld(x64):
    the_same(samplers.sgrld(0.1, fields.Dense(NOISE)), samplers.sgld(0.1, NOISE))
    the_same(samplers.sgrld(0.1, fields.Scalar(0.4)), samplers.sgld(0.1, 0.4))


def test_sgfs_without_noise_is_sgld(x64):
    one, other = (
        covariance(s, Gaussian(PRECISION), 1.7)
        for s in (samplers.sgfs(0.1, NOISE, 0.0), samplers.sgld(0.1, NOISE))
    )
    np.testing.assert_allclose(one, other, rtol=1e-12)
    the_same(samplers.sgfs(0.1, 0.7, 0.0), samplers.sgld(0.1, 0.7))


@pytest.mark.slow
@pytest.mark.parametrize("x", [0.99, 1.5, 40.0])
def test_the_exact_friction_step_is_that_of_the_matrix_exponential(x, x64):
    """Moments of d(θ, r) = A(θ, r) dt + b dt + √(2Tc) dW by Van Loan's block matrices, at three γh."""
    gamma, h, T, mass, slope = 2.0, x / 2.0, 3.0, 2.5, np.array([0.7, -0.4])
    target = fk.Density(lambda theta: -jnp.asarray(slope) @ theta)
    sampler = samplers.sghmc(h, gamma * mass, mass, integrator=ExactOU()).on(target, T)
    state = sampler.init(jnp.array([0.2, -0.3]), key=jax.random.key(0))
    w, back = ravel_pytree(sampler.draw(jax.random.key(1), state))

    def step(w):
        z = sampler.advance(back(w), state)[0].z
        return jnp.stack([z["theta"][0], z["r"][0]])

    A = np.array([[0, 1 / mass], [0, -gamma]])
    noise = np.diag([0, 2 * T * gamma * mass])
    block = expm(np.block([[-A, noise], [np.zeros((2, 2)), A.T]]) * min(h, 10.0 / gamma))
    if h <= 10.0 / gamma:
        covariance = block[2:, 2:].T @ block[:2, 2:]
        L = np.asarray(jax.jacfwd(step)(jnp.zeros_like(w)))
        np.testing.assert_allclose(L @ L.T, covariance, rtol=1e-9)
    both = expm(np.block([[A, np.array([[0], [-slope[0]]])], [np.zeros((1, 3))]]) * h)
    mean = both[:2, :2] @ [0.2, float(state.z["r"][0])] + both[:2, 2]
    np.testing.assert_allclose(step(jnp.zeros_like(w)), mean, rtol=1e-9)


def test_the_coefficients_of_exact_friction_keep_their_digits_in_single_precision():
    for x in (1e-6, 1e-3, 0.1, 0.9, 1.1, 5.0):
        with jax.enable_x64(True):
            wanted = [float(v) for v in coefficients(jnp.asarray(x))]
        found = [float(v) for v in coefficients(jnp.asarray(x, jnp.float32))]
        np.testing.assert_allclose(found, wanted, rtol=5e-6)


WORDS = ["ADBOBDA", "BADODAB", "ABDODBA"]


@pytest.mark.parametrize(
    ("integrator", "kind"),
    [
        (SymplecticEuler(), "scalar"),
        (SymplecticEuler(), "diagonal"),
        *((Splitting(WORDS[0]), kind) for kind in ("scalar", "diagonal")),
        *(
            long_case("samplers::the_weak_order_of_a_step_of_a_thermostat", Splitting(word), kind)
            for word in WORDS[1:]
            for kind in ("scalar", "diagonal")
        ),
    ],
)
def test_the_weak_order_of_a_step_of_a_thermostat(integrator, kind, x64):
    """E φ after one step of h against two of h/2, by quadrature over the noise: of order h² for Euler, h³ for
    a symmetric word. One dimension, a potential that is not quadratic, friction of both signs."""
    target = fk.Density(lambda theta: -jnp.sum(theta**4 / 4 + jnp.sin(theta)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    weights = jnp.asarray(weights / weights.sum())

    def expected(steps, h, xi):
        sampler = samplers.sgnht(h, 0.8, 0.7, kind=kind, integrator=integrator).on(target, 1.3)
        state = sampler.init(jnp.array([0.6]), key=jax.random.key(0))
        z = {
            "theta": jnp.array([0.6]),
            "r": jnp.array([-0.9]),
            "xi": jnp.broadcast_to(xi, state.z["xi"].shape),
        }
        drawn = sampler.draw(jax.random.key(0), state)

        def step(z, w):
            draws = drawn._replace(noise=jax.tree.map(lambda x: jnp.full_like(x, w), drawn.noise))
            return sampler.advance(draws, SamplerState(z, state.step))[0].z

        def phi(z):
            return jnp.sum(z["theta"] ** 2 + z["r"] ** 3 + z["theta"] * z["r"] + jnp.cos(z["xi"]) * z["r"])

        def twice(z, w, v):
            return step(step(z, w), v)

        grid = jnp.asarray(nodes)
        if steps == 1:
            return weights @ jax.vmap(lambda w: phi(step(z, w)))(grid)
        return weights @ jax.vmap(lambda w: jax.vmap(lambda v: phi(twice(z, w, v)))(grid))(grid) @ weights

    once, both = (quick_jit(functools.partial(expected, steps)) for steps in (1, 2))
    for xi in (0.9, -0.4):
        errors = [float(abs(once(h, xi) - both(h / 2, xi))) for h in (0.08, 0.04)]
        order = math.log2(errors[0] / errors[1])
        if isinstance(integrator, Splitting):
            assert order > 2.7
        else:
            assert 1.7 < order < 2.4


@pytest.mark.slow
def test_a_splitting_of_a_thermostat_needs_its_letter():
    target = fk.Density(lambda theta: -jnp.sum(theta**2))
    for sampler, words in (
        (samplers.sgnht(0.1, integrator=Splitting("ABOBA")), "needs a D"),
        (samplers.sghmc(0.1, integrator=Splitting("ADBOBDA")), "no thermostat"),
        (samplers.sgnht(0.1, kind="matrix", integrator=Splitting()), "coordinate by coordinate"),
        (samplers.sghmc(0.1, integrator=Splitting(), noise_estimate=0.1), "noise_estimate"),
        (samplers.sghmc(0.1, integrator=ExactOU(), noise_estimate=0.1), "noise_estimate"),
        (samplers.sgnht(0.1, integrator=ExactOU()), "another kind"),
        (samplers.sghmc(0.1, 0.0, integrator=ExactOU()), "friction on every"),
    ):
        with pytest.raises(ValueError, match=words):
            sampler.on(target).init(jnp.array([0.1, 0.2]), key=jax.random.key(0))


@pytest.mark.parametrize("integrator", [EulerMaruyama, SymplecticEuler, Splitting])
def test_the_batch_takes_the_place_of_the_gradient_once(integrator, x64):
    """A full batch is no batch, and what a gradient's noise does to a step of size h is -h in r, no more."""
    sampler = samplers.sghmc(0.1, 1.3, integrator=integrator())
    placed = sampler.on(Gaussian(PRECISION), 1.7)
    state = placed.init(jnp.array([0.3, -0.4]), key=jax.random.key(0))
    draws = placed.draw(jax.random.key(1), state)
    whole, batch = placed.advance(draws, state)[0].z, placed.advance(draws, state, jnp.zeros(2))[0].z
    for name in ("theta", "r"):
        np.testing.assert_allclose(whole[name], batch[name], rtol=1e-14)
    C = affine(sampler, Gaussian(PRECISION), 1.7)[2]
    decay = math.exp(-0.13) if integrator is Splitting else 1.0
    np.testing.assert_allclose(C[:2], -0.1 * (1 + decay) / 2 * np.eye(2), rtol=1e-12, atol=1e-15)


@pytest.mark.slow
def test_symplectic_euler_is_symplectic_with_a_batch_too(x64):
    """det A = 1 without friction, and the order r, θ whatever form the noise to subtract has."""
    flow = samplers.recipe(
        fk.dynamics.hamiltonian_flow(Gaussian(PRECISION).potential, 2.0),
        0.1,
        integrator=SymplecticEuler(),
        gradient=jax.grad(Gaussian(PRECISION).minibatch_potential),
    )
    state = flow.init({"theta": jnp.array([0.3, -0.4]), "r": jnp.array([0.1, 0.2])})
    x, back = ravel_pytree(state.z)

    def step(x):
        moved = flow.advance(
            flow.draw(jax.random.key(0), state), SamplerState(back(x), state.step), jnp.zeros(2)
        )
        return ravel_pytree(moved[0].z)[0]

    np.testing.assert_allclose(np.linalg.det(jax.jacfwd(step)(x)), 1.0, rtol=1e-12)
    plain = affine(samplers.sghmc(0.1, 1.3), Gaussian(PRECISION), 1.0)[0]
    reduced = affine(samplers.sghmc(0.1, 1.3, noise_estimate=NOISE), Gaussian(PRECISION), 1.0)[0]
    np.testing.assert_allclose(reduced, plain, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", ["scalar", "diagonal", "matrix"])
@pytest.mark.parametrize("integrator", [SymplecticEuler(), Splitting()], ids=["Euler", "splitting"])
def test_one_set_of_settings_of_a_thermostat_serves_every_temperature(kind, integrator, x64):
    """On T·U(θ/√T) at temperature T the chain is √T times that on U at T = 1, and ξ is the same."""
    if kind == "matrix" and isinstance(integrator, Splitting):
        integrator = EulerMaruyama()  # a splitting solves friction coordinate by coordinate

    def scaled(T):
        target = fk.Density(lambda theta: -T * bent_well(theta / jnp.sqrt(T)))
        sampler = samplers.sgnht(0.1, 0.8, 0.3, kind=kind, integrator=integrator).on(target, T)
        state = sampler.init(jnp.sqrt(T) * jnp.array([0.6, -0.2]), key=jax.random.key(0))
        z = jax.lax.scan(
            lambda s, key: (sampler.step(key, s)[0], s.z), state, jax.random.split(jax.random.key(1), 30)
        )[1]
        return {**z, "theta": z["theta"] / jnp.sqrt(T), "r": z["r"] / jnp.sqrt(T)}

    compiled = quick_jit(scaled)
    wanted = compiled(1.0)
    assert np.std(wanted["theta"]) > 0.1
    for T in (0.05, 5.0, 20.0):
        found = compiled(T)
        for name in wanted:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-9, atol=1e-10)


def bent_well(theta):
    """Neither quadratic nor the same in both coordinates."""
    return jnp.sum(theta**2) / 2 + theta[0] ** 4 / 4 + jnp.sin(theta[0] * theta[1])


@pytest.mark.slow
def test_a_thermostat_at_its_fixed_point_is_sghmc(x64):
    """ξ' - ξ is second order in r, so at r'ᵀr' = dT a step of SGNHT from ξ = A is one of SGHMC."""
    for kind in ("scalar", "diagonal", "matrix"):
        one = samplers.sgnht(0.1, 1.3, 1.0, kind=kind).on(Gaussian(PRECISION), 1.7)
        other = samplers.sghmc(0.1, 1.3).on(Gaussian(PRECISION), 1.7)
        state = one.init(jnp.array([0.3, -0.4]), key=jax.random.key(0))
        draws = one.draw(jax.random.key(1), state)
        moved = one.advance(draws, state)[0].z
        z = {name: state.z[name] for name in ("theta", "r")}
        wanted = other.advance(draws, SamplerState(z, state.step))[0].z
        for name in ("theta", "r"):
            np.testing.assert_allclose(moved[name], wanted[name], rtol=1e-12)
        r = np.asarray(moved["r"])
        pull = {
            "scalar": r @ r / 3.4 - 1,
            "diagonal": r**2 / 1.7 - 1,
            "matrix": np.outer(r, r) / 1.7 - np.eye(2),
        }
        np.testing.assert_allclose(moved["xi"] - state.z["xi"], 0.1 * pull[kind], rtol=1e-10, atol=1e-14)


def test_the_thermostat_in_dings_parametrisation(x64):
    """u = rε, α = ξε: u' = u - αu - η∇U + N(0, 2aη), θ' = θ + u', α' = α + u'ᵀu'/d - η (Algorithm 1)."""
    eta, a = 0.04, 0.3
    target = Gaussian(PRECISION)
    sampler = samplers.sgnht_by_ding(eta, a).on(target)
    state = sampler.init(jnp.array([0.3, -0.4]), key=jax.random.key(0))
    draws = sampler.draw(jax.random.key(1), state)
    moved = sampler.advance(draws, state)[0].z
    u, alpha = np.asarray(state.z["r"]) * 0.2, float(state.z["xi"]) * 0.2
    w = np.asarray(ravel_pytree(draws)[0])
    new = u - alpha * u - eta * PRECISION @ np.asarray(state.z["theta"]) + math.sqrt(2 * a * eta) * w
    np.testing.assert_allclose(np.asarray(moved["r"]) * 0.2, new, rtol=1e-10)
    np.testing.assert_allclose(moved["theta"], np.asarray(state.z["theta"]) + new, rtol=1e-10)
    np.testing.assert_allclose(float(moved["xi"]) * 0.2, alpha + new @ new / 2 - eta, rtol=1e-10)


# A metric that varies ---------------------------------------------------------------------------------------


def test_steps_in_a_varying_metric_are_those_of_the_papers_with_gamma(x64):
    """SGRLD, and Algorithm 1 of Ma et al. (2015), with G⁻¹ = s(θ)² and T ≠ 1; the naive one has no Γ."""
    T, h, target = 1.7, 0.1, Gaussian(PRECISION)
    root = fields.Elementwise(lambda theta: 1.5 + jnp.tanh(theta))
    inverse = fields.Elementwise(lambda theta: (1.5 + jnp.tanh(theta)) ** 2)
    theta, r = np.array([0.3, -0.4]), np.array([0.5, 0.2])
    s, slope = 1.5 + np.tanh(theta), 1 - np.tanh(theta) ** 2
    force = PRECISION @ theta

    def moved(sampler, **z):
        placed = sampler.on(target, T)
        state = SamplerState({name: jnp.asarray(x) for name, x in z.items()}, jnp.array(0))
        draws = placed.draw(jax.random.key(0), state)
        return placed.advance(draws, state)[0].z, np.asarray(ravel_pytree(draws)[0])

    z, w = moved(samplers.sgrld(h, inverse), theta=theta)
    wanted = theta + h * (-(s**2) * force + T * 2 * s * slope) + math.sqrt(2 * h * T) * s * w
    np.testing.assert_allclose(z["theta"], wanted, rtol=1e-12)

    for make, gamma in ((samplers.gsgrhmc, T * slope), (samplers.naive_sgrhmc, 0.0)):
        z, w = moved(make(h, inverse, root), theta=theta, r=r)
        np.testing.assert_allclose(z["theta"], theta + h * s * r, rtol=1e-12)
        wanted = r + h * (-s * force + gamma - s**2 * r) + math.sqrt(2 * h * T) * s * w
        np.testing.assert_allclose(z["r"], wanted, rtol=1e-12)


# Where auxiliary variables start ----------------------------------------------------------------------------


@pytest.mark.parametrize("mass", [4.0, {"w": jnp.full(3, 4.0)}], ids=["number", "tree"])
def test_the_momentum_starts_with_variance_TM(mass):
    """Over 3·4000 values within 5 standard errors: a false alarm in 2e6."""
    target = fk.Density(lambda theta: -jnp.sum(theta["w"] ** 2) / 2)
    sampler = samplers.sghmc(0.1, mass=mass).on(target, 2.5)
    keys = jax.random.split(jax.random.key(0), 4000)
    r = jax.vmap(lambda k: sampler.init({"w": jnp.zeros(3)}, key=k).z["r"]["w"])(keys)
    assert abs(float(jnp.mean(r**2)) / 10 - 1) < 5 * math.sqrt(2 / r.size)


# Noise ------------------------------------------------------------------------------------------------------


def test_the_moments_of_cheaper_noise(monkeypatch, x64):
    """Three points: 1 to 5, the fourth to the 16 bits of which they are made; a count of 32 bits: 1 to 3, and
    a fourth of 3 - 2/32."""
    count = np.arange(33)
    chances = np.array([math.comb(32, k) for k in count]) / 2**32
    bits = jnp.asarray([(1 << int(k)) - 1 for k in count], jnp.uint32)
    with monkeypatch.context() as patch:
        patch.setattr(noise, "random_bits", lambda key, shape: bits)
        binomial = np.asarray(noise.NOISES["binomial"](jax.random.key(0), (33,), jnp.float64))
    moments = [chances @ binomial**k for k in range(1, 5)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3 - 2 / 32], atol=1e-12)
    words = jnp.arange(65536, dtype=jnp.uint32) << 16
    with monkeypatch.context() as patch:
        patch.setattr(noise, "random_bits", lambda key, shape: words[: shape[0], None])
        first = np.asarray(noise.NOISES["three-point"](jax.random.key(0), (8 * 65536,), jnp.float64))[::8]
    assert len(np.unique(first)) == 3
    moments = [np.mean(first**k) for k in range(1, 6)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3, 0], atol=3e-4)
    np.testing.assert_allclose(moments[:3], [0, 1, 0], atol=1e-12)


@pytest.mark.parametrize(("kind", "lanes", "fourth"), [("two-point", 32, 1), ("three-point", 8, 3)])
def test_values_made_of_one_random_word_are_independent(kind, lanes, fourth):
    """Every lane has the moments, every pair of lanes no correlation of values or of their squares.

    250,000 words: within 6 standard errors, a false alarm in 1e6 for the 500 numbers looked at.
    """
    n = 250_000
    z = np.asarray(noise.NOISES[kind](jax.random.key(5), (n, lanes), jnp.float32), float)
    assert np.max(np.abs(z.mean(axis=0))) < 6 / math.sqrt(n)
    assert np.max(np.abs((z**2).mean(axis=0) - 1)) < 6 * math.sqrt((fourth - 1) / n) + 1e-6
    for values, spread in ((z, 1.0), (z**2 - 1, fourth - 1.0)):
        together = values.T @ values / n
        assert np.max(np.abs(together - np.diag(np.diag(together)))) < 6 * spread / math.sqrt(n) + 1e-6


@pytest.mark.parametrize("kind", noise.NOISES)
def test_draws_of_noise_have_mean_0_and_variance_1_and_are_independent(kind):
    """100,000 values each: every moment within 5 standard errors; a false alarm in 2e6 each."""
    like = {
        "a": jax.ShapeDtypeStruct((100_000,), jnp.float32),
        "b": jax.ShapeDtypeStruct((100_000,), jnp.float32),
    }
    drawn = noise.draw_like(kind, jax.random.key(3), like)
    a, b = (np.asarray(drawn[k], np.float64) for k in "ab")
    kurtosis = {"gaussian": 3, "three-point": 3, "two-point": 1, "binomial": 3 - 2 / 32}[kind]
    n = len(a)
    for x in (a, b):
        assert abs(x.mean()) < 5 / math.sqrt(n)
        assert abs((x**2).mean() - 1) < 5 * math.sqrt((kurtosis - 1) / n) + 1e-6
        assert abs((x**4).mean() - kurtosis) < 5 * math.sqrt(96 / n) + 3e-4
    assert abs((a * b).mean()) < 5 / math.sqrt(n)
    assert drawn["a"].dtype == jnp.float32


def test_a_sampler_draws_the_noise_that_was_asked_for():
    target = fk.Density(lambda theta: -jnp.sum(theta**2))
    for sampler in (
        samplers.sgld(0.1, noise="two-point"),
        samplers.sghmc(0.1, noise="two-point"),
        samplers.sgnht(0.1, noise="two-point"),
        gsgrhmc(0.1, 1.0, noise="two-point"),
    ):
        z = {name: jnp.zeros(50) for name in ("theta", "r")}
        drawn = sampler.on(target).draw(jax.random.key(0), SamplerState(z, jnp.array(0)))
        assert set(ravel_pytree(drawn)[0].tolist()) == {-1.0, 1.0}


# Schedules --------------------------------------------------------------------------------------------------


def test_schedules_are_what_they_say():
    t = jnp.array([0, 10, 20])
    np.testing.assert_allclose(
        schedules.polynomial(2.0, 10.0, 0.5)(t), (2.0 * np.array([1, 2, 3])) ** -0.5, rtol=1e-6
    )
    np.testing.assert_allclose(schedules.cyclical(0.4, 20)(t), [0.4, 0.2, 0.4], rtol=1e-6)


def test_a_step_takes_the_step_size_of_its_number():
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    moving = samplers.sgld(schedules.polynomial(10.0, 1.0, 1.0)).on(target)
    state = SamplerState({"theta": jnp.ones(2)}, jnp.array(4))
    fixed = samplers.sgld(1 / 50).on(target)
    key = jax.random.key(0)
    np.testing.assert_allclose(
        moving.step(key, state)[0].position, fixed.step(key, state)[0].position, rtol=1e-6
    )


# What does not fit ------------------------------------------------------------------------------------------


def test_splittings_refuse_what_they_cannot_solve():
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    start, key = jnp.zeros(2), jax.random.key(0)
    varying = fields.Elementwise(lambda theta: 1.5 + jnp.tanh(theta))
    refused = {
        "not diagonal": samplers.sghmc(0.1, NOISE, integrator=Splitting()).on(target),
        "coordinate by coordinate, and Q": samplers.gsgrhmc(0.1, varying, varying, integrator=Splitting()).on(
            target
        ),
    }
    for words, sampler in refused.items():
        with pytest.raises(ValueError, match=words):
            sampler.init(start, key=key)
    dense = fk.Dynamics(
        fk.Hamiltonian(
            lambda theta: jnp.sum(theta**2) / 2, lambda r: r @ jnp.asarray(PRECISION, r.dtype) @ r / 2
        ),
        D={("r", "r"): 1.0},
        Q={("r", "theta"): 1.0},
    )
    with pytest.raises(ValueError, match="coordinate by coordinate, and Q"):
        samplers.recipe(dense, 0.1, integrator=Splitting()).init({"theta": start, "r": start})
    with pytest.raises(ValueError, match="reads the same backwards"):
        Splitting("BAO")


@pytest.mark.slow
def test_the_default_thermostat_absorbs_the_noise_of_minibatches(optimised):
    """In 3,000 steps from the wrong friction; with μ = 1 ξ takes 30,000 for each factor of e.

    The standard error of the variance, of 4 chains of 100 coordinates that forget in 0.03, is 0.01.
    """
    step_size, curvature, noise = 1e-3, 1e3, 30.0

    def noisy(theta, batch):
        return curvature * theta + jnp.sqrt(2 * noise / step_size) * batch

    def variance(**settings):
        target = fk.Density(lambda theta: -curvature * jnp.sum(theta**2) / 2)
        made = samplers.sgnht(step_size, 1.0, **settings).on(target)
        sampler = dataclasses.replace(made, estimator=OwnGradient(noisy))

        def one(key):
            state = sampler.init(jax.random.normal(key, (100,)) / curvature**0.5, key=key)

            def step(state, key):
                state, _ = sampler.step(key, state, jax.random.normal(jax.random.fold_in(key, 1), (100,)))
                return state, jnp.mean(state.position**2)

            return jnp.mean(jax.lax.scan(step, state, jax.random.split(key, 4000))[1][3000:])

        return curvature * float(jnp.mean(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 4))))

    assert abs(variance() - 1) < 0.1
    assert variance(thermostat_mass=1.0) > 1.5


@pytest.mark.parametrize("make", [samplers.sghmc, samplers.sgnht])
def test_the_fastest_time_is_that_in_the_coordinates_of_a_step(make):
    """With the curvature as the mass matrix, every target is one of unit curvature."""
    curvature, theta, key = jnp.array([1e4, 1e-2]), jnp.zeros(2), jax.random.key(0)
    narrow = fk.Density(lambda theta: -jnp.sum(curvature * theta**2) / 2)
    unit = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    settings = {"step_size": 1e-3, **({"thermostat_mass": 1.0} if make is samplers.sgnht else {})}
    scaled = make(**settings, mass_matrix=curvature).fastest_time(narrow, 1.0, theta, key)
    np.testing.assert_allclose(scaled, make(**settings).fastest_time(unit, 1.0, theta, key), rtol=1e-4)
