"""The sampler of any dynamics: its exact bias on Gaussians, its behaviour under JAX, and a skewed target."""

import importlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.linalg import solve_discrete_lyapunov

import fokker as fk
from conftest import quick_jit
from fokker import fields
from fokker.integrators import EulerMaruyama, StepInput
from fokker.samplers import SamplerState, recipe
from marks import long_case

PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]])
FRICTION = np.array([[1.5, 0.2], [0.2, 0.8]])
MASS = np.array([2.0, 0.5])
T = 1.7


def U(theta):
    return theta @ jnp.asarray(PRECISION, theta.dtype) @ theta / 2


def skewed(theta):
    """The logarithm of a Gamma(1.5) variate, coordinate by coordinate."""
    return jnp.sum(jnp.exp(theta) - 1.5 * theta)


# The exact bias -------------------------------------------------------------------------------------------


def stationary_covariance(dynamics, z, step_size, gradient_noise=None, noise_estimate=None):
    """That of the Euler–Maruyama chain, which on a Gaussian is affine in z, its noise and that of ∇U."""
    x, back = ravel_pytree(z)
    like = dynamics.noise_like(z, noise_estimate)
    w, noise = ravel_pytree(jax.tree.map(lambda s: jnp.zeros(s.shape), like))
    nu = jnp.zeros(2)

    def step(x, w, nu):
        z = back(x)
        gradient = None if gradient_noise is None else lambda t: jax.grad(U)(t) + gradient_noise @ nu
        moved, shortfall = EulerMaruyama().advance(
            StepInput(dynamics, z, gradient, noise(w), step_size, noise_estimate=noise_estimate)
        )
        return ravel_pytree(moved)[0], shortfall

    (A, B, C), shortfall = jax.jacfwd(step, argnums=(0, 1, 2), has_aux=True)(x, w, nu)
    assert float(shortfall) == 0
    return solve_discrete_lyapunov(np.asarray(A), np.asarray(B @ B.T + C @ C.T))


THETA = {"theta": np.array([0.3, -0.4])}
PAIR = {"r": np.array([0.1, 0.2]), "theta": np.array([0.3, -0.4])}  # as ravel_pytree orders them
COVARIANCE = np.linalg.inv(PRECISION)
zero = np.zeros((2, 2))
GAUSSIAN = {
    "langevin": (lambda: fk.dynamics.langevin(U, 0.6, T), THETA, T * COVARIANCE),
    "langevin, dense": (lambda: fk.dynamics.langevin(U, FRICTION, T), THETA, T * COVARIANCE),
    "underdamped": (
        lambda: fk.dynamics.underdamped(U, 1.3, 2.5, T),
        PAIR,
        np.block([[2.5 * T * np.eye(2), zero], [zero, T * COVARIANCE]]),
    ),
    "underdamped, matrices": (
        lambda: fk.dynamics.underdamped(U, FRICTION, MASS, T),
        PAIR,
        np.block([[T * np.diag(MASS), zero], [zero, T * COVARIANCE]]),
    ),
}


@pytest.mark.parametrize("name", GAUSSIAN)
def test_the_bias_falls_with_the_step_and_vanishes(name, x64):
    make, z, target = GAUSSIAN[name]
    dynamics, z = make(), jax.tree.map(jnp.asarray, z)
    errors = [np.linalg.norm(stationary_covariance(dynamics, z, h) - target) for h in (0.02, 0.01, 0.005)]
    assert errors[0] < 0.2 * np.linalg.norm(target)
    for larger, smaller in itertools.pairwise(errors):
        assert 1.9 < larger / smaller < 2.1


@pytest.mark.long("samplers::the_biases_are_the_known_ones")
def test_the_variance_of_ula_is_the_known_one(x64):
    """S = T (P - hDP²/2)⁻¹ for D a number: the bias itself, not only its order."""
    S = stationary_covariance(fk.dynamics.langevin(U, 0.6, T), {"theta": jnp.zeros(2)}, 0.3)
    wanted = T * np.linalg.inv(PRECISION - 0.3 * 0.6 * PRECISION @ PRECISION / 2)
    np.testing.assert_allclose(S, wanted, rtol=1e-12)


V = np.array([[0.9, 0.3], [0.3, 0.5]])  # the covariance of the gradient's noise


@pytest.mark.parametrize(
    ("name", "noise_estimate"),
    [
        ("langevin", lambda: fields.symmetric({("theta", "theta"): 0.36 * V})),
        ("langevin, dense", lambda: fields.symmetric({("theta", "theta"): FRICTION @ V @ FRICTION})),
        ("underdamped", lambda: fields.symmetric({("r", "r"): V})),
        ("underdamped, matrices", lambda: fields.symmetric({("r", "r"): fields.Gram(np.linalg.cholesky(V))})),
    ],
)
def test_the_noise_of_the_gradient_is_made_up_for_where_its_covariance_is_known(name, noise_estimate, x64):
    make, z, _ = GAUSSIAN[name]
    dynamics, z, root = make(), jax.tree.map(jnp.asarray, z), np.linalg.cholesky(V)
    without = stationary_covariance(dynamics, z, 0.1)
    made_up = stationary_covariance(dynamics, z, 0.1, root, noise_estimate())
    np.testing.assert_allclose(made_up, without, rtol=1e-11, atol=1e-12)
    ignored = stationary_covariance(dynamics, z, 0.1, root)
    assert np.linalg.norm(ignored - without) > 1e-3 * np.linalg.norm(without)


@pytest.mark.long("samplers::draws_of_noise_have_mean_0_and_variance_1_and_are_independent")
def test_the_noise_of_a_step_is_gaussian_of_covariance_2TD(x64):
    """Over 40,000 keys: eight moments of the noise of r, each within 5 standard errors.

    A false alarm for one key in 2e5; this key gives none.
    """
    dynamics = fk.dynamics.underdamped(U, FRICTION, 1.0, T)
    sampler = recipe(dynamics, 0.25)
    state = sampler.init({"theta": jnp.array([0.3, -0.4]), "r": jnp.array([0.1, 0.2])})
    n = 40_000
    step = quick_jit(jax.vmap(lambda key: sampler.step(key, state)[0].z))
    moved = step(jax.random.split(jax.random.key(1), n))
    f = dynamics.drift(state.z)
    kick = jax.tree.map(lambda a, x, v: (a - x[None] - 0.25 * v[None]) / 0.5, moved, state.z, f)
    assert float(jnp.max(jnp.abs(kick["theta"]))) < 1e-12
    wanted = 2 * T * FRICTION
    errors = np.cov(kick["r"].T) - wanted
    spread = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / n)
    assert np.all(np.abs(errors) < 5 * spread)
    fourth = np.mean(kick["r"] ** 4, axis=0) / np.diag(wanted) ** 2
    assert np.all(np.abs(fourth - 3) < 5 * np.sqrt(96 / n))
    assert np.all(np.abs(np.mean(kick["r"], axis=0)) < 5 * np.sqrt(np.diag(wanted) / n))


# Under JAX ------------------------------------------------------------------------------------------------


def g(theta):
    return jax.tree.map(lambda x: 1.3 + jnp.tanh(x), theta)


def tree_potential(theta):
    return jnp.sum(theta["w"] ** 4) + jnp.sum(jnp.cosh(theta["b"][0]))


def tree_state(dtype=None):
    theta = {"w": jnp.array([0.3, -0.2], dtype), "b": (jnp.array(0.7, dtype),)}
    return {"theta": theta, "r": jax.tree.map(lambda x: 0.5 * x, theta)}


def riemann():
    return fk.dynamics.riemann(
        tree_potential, fields.Elementwise(lambda theta: g(theta)), fields.Elementwise(lambda theta: g(theta))
    )


def close(a, b, rtol=1e-6):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-6)


@pytest.mark.slow
def test_a_sampler_can_be_started_inside_jit_and_vmap():
    sampler, position = recipe(riemann(), 0.05), tree_state()
    key = jax.random.key(0)
    plain = sampler.step(key, sampler.init(position))[0]
    close(jax.jit(lambda key: sampler.step(key, sampler.init(position))[0])(key), plain)
    many = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), position)
    close(
        jax.tree.map(lambda x: x[0], jax.vmap(lambda p: sampler.step(key, sampler.init(p))[0])(many)), plain
    )


def test_a_sampler_can_be_mapped_over_step_sizes():
    start = {"theta": jnp.array([0.4, 0.6])}
    dynamics = fk.dynamics.langevin(U)

    def run(h):
        return recipe(dynamics, h).step(jax.random.key(0), recipe(dynamics, h).init(start))[0].z["theta"]

    sizes = jnp.array([0.1, 0.2])
    np.testing.assert_allclose(quick_jit(jax.vmap(run))(sizes), [quick_jit(run)(h) for h in sizes], rtol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("gamma", ["exact", "estimate"])
def test_the_state_keeps_its_precision(dtype, gamma, x64):
    """Where double precision is on too, in which constants and step sizes are double."""
    for estimate in (None, {("r", "r"): 0.3}, {("r", "r"): 0.2 * np.eye(3)}):
        sampler = recipe(riemann(), 0.05, gamma=gamma, noise_estimate=estimate)
        state = SamplerState(tree_state(dtype), jnp.zeros((), jnp.int32))
        moved, _ = jax.eval_shape(sampler.step, jax.random.key(0), state)
        assert [x.dtype for x in jax.tree.leaves(moved.z)] == [jnp.dtype(dtype)] * 4


def test_variables_of_different_precision_keep_theirs(x64):
    sampler = recipe(fk.dynamics.underdamped(U), 0.05)
    state = sampler.init({"theta": jnp.ones(2, jnp.float64), "r": jnp.ones(2, jnp.float32)})
    z = jax.eval_shape(sampler.step, jax.random.key(0), state)[0].z
    assert (z["theta"].dtype, z["r"].dtype) == (jnp.float64, jnp.float32)


def test_the_noises_of_the_variables_are_independent():
    """The correlation of 5,000 pairs lies within 5 standard errors of 0: a false alarm in 2e6."""
    dynamics = fk.Dynamics(lambda z: 0.0 * jnp.sum(z["a"]), D=fields.Scalar(1.0))
    sampler = recipe(dynamics, 1.0)
    state = sampler.init({"a": jnp.zeros(1), "b": jnp.zeros(1)})
    step = quick_jit(jax.vmap(lambda key: sampler.step(key, state)[0].z))
    draws = step(jax.random.split(jax.random.key(2), 5000))
    correlation = np.corrcoef(draws["a"][:, 0], draws["b"][:, 0])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(5000)


@pytest.mark.slow
def test_the_estimate_of_gamma_is_unbiased_over_all_probes(monkeypatch, x64):
    D = fields.Gram(lambda z: jnp.eye(3) + 0.3 * jnp.outer(jnp.sin(z), jnp.cos(z)), diagonal_part=0.1)
    dynamics = fk.Dynamics(skewed, D=D, Q=fields.Skew(lambda z: jnp.outer(z, z**2)), temperature=T)
    key, position = jax.random.key(0), jnp.array([0.4, -0.3, 0.2])
    exact, estimating = recipe(dynamics, 0.1), recipe(dynamics, 0.1, gamma="estimate")
    noise_key, _ = jax.random.split(key)
    start = exact.init(position)
    wanted = quick_jit(exact.step)(noise_key, start)[0].z
    module = importlib.import_module("fokker.samplers.plain")

    @quick_jit
    @jax.vmap
    def step(signs):
        monkeypatch.setattr(module, "_signs", lambda key, z: signs)
        return estimating.step(key, start)[0].z

    moved = step(jnp.array(list(itertools.product((-1.0, 1.0), repeat=3))))
    np.testing.assert_allclose(np.mean(moved, axis=0), wanted, rtol=1e-12)
    assert np.max(np.std(moved, axis=0)) > 1e-3  # each alone is off


def test_the_probes_are_signs():
    module = importlib.import_module("fokker.samplers.plain")
    signs = module._signs(jax.random.key(0), {"a": jnp.zeros(400), "b": jnp.zeros(400)})
    both = np.concatenate([signs["a"], signs["b"]])
    assert set(both.tolist()) == {-1.0, 1.0}
    # Six standard errors each: a false alarm in 2.5e8.
    assert abs(both.sum()) < 6 * np.sqrt(800)
    assert abs(float(signs["a"] @ signs["b"])) < 6 * np.sqrt(400)


def test_a_stochastic_gradient_takes_the_batch_and_the_position_by_its_name():
    dynamics = fk.Dynamics(fk.Hamiltonian(U, position="x"), D={("x", "x"): 1.0})
    sampler = recipe(dynamics, 0.1, gradient=lambda theta, batch: batch * theta)
    state = sampler.init({"x": jnp.array([1.0, 2.0]), "other": jnp.zeros(())})
    key = jax.random.key(0)
    step = quick_jit(sampler.step)
    once, twice = (step(key, state, batch)[0].z["x"] for batch in (1.0, 2.0))
    np.testing.assert_allclose(once - twice, 0.1 * state.z["x"], rtol=1e-5)


def test_what_goes_wrong_in_a_step_is_told():
    fast = recipe(fk.dynamics.langevin(lambda theta: jnp.sum(jnp.exp(theta**2))), 1.0)
    state, info = fast.init({"theta": jnp.array([8.0])}), None
    for i in range(3):
        state, info = quick_jit(fast.step)(jax.random.key(i), state)
    assert not bool(info.is_finite)

    D = fields.Elementwise(lambda theta: theta)
    reduced = recipe(fk.dynamics.langevin(U, D), 0.1, noise_estimate={("theta", "theta"): 2.0})
    reduced.init({"theta": jnp.array([1.0, 1.0])})  # enough noise to take 0.2 from
    low = SamplerState({"theta": jnp.array([1.0, 0.05])}, jnp.array(3))
    _, info = quick_jit(reduced.step)(jax.random.key(0), low)
    np.testing.assert_allclose(float(info.noise_shortfall), 0.1 - 0.2, rtol=1e-5)


def test_whole_numbers_start_a_scalar_variable_and_the_position_is_theta():
    state = recipe(fk.dynamics.underdamped(lambda theta: theta**2), 0.1).init({"theta": 1, "r": 0})
    assert state.position.dtype == jnp.float32
    assert float(state.position) == 1.0
    assert SamplerState(jnp.ones(2), jnp.array(0)).position.shape == (2,)


# A skewed target ------------------------------------------------------------------------------------------


def quadrature(temperature, function):
    x = np.linspace(-40.0, 8.0, 200_001)
    log_p = -(np.exp(x) - 1.5 * x) / temperature
    p = np.exp(log_p - log_p.max())
    return float(np.sum(p * function(x)) / np.sum(p))


def long_run(dynamics, step_size, steps, chains, key):
    """Averages of θ and of θ² over time, one a chain."""
    sampler = recipe(dynamics, step_size)
    start = {"theta": jnp.zeros(chains), "r": jnp.zeros(chains)}

    @jax.jit
    def run(key):
        def step(carry, key):
            state, total = carry
            state, _ = sampler.step(key, state)
            theta = state.z["theta"]
            return (state, total + jnp.stack([theta, theta**2])), None

        warm = jax.lax.scan(
            step, (SamplerState(start, jnp.array(0)), jnp.zeros((2, chains))), split(key, 0, 500)
        )[0]
        total = jax.lax.scan(step, (warm[0], jnp.zeros((2, chains))), split(key, 1, steps))[0][1]
        return total / steps

    def split(key, i, n):
        return jax.random.split(jax.random.fold_in(key, i), n)

    return np.asarray(run(key))


def metric_root(theta):
    return 1.2 + 0.8 * jnp.tanh(theta)


def sg_rhmc(temperature):
    root = fields.Elementwise(lambda theta: metric_root(theta))
    return fk.dynamics.riemann(
        skewed, fields.Elementwise(lambda theta: metric_root(theta) ** 2), root, temperature
    )


def without_gamma(temperature):
    """The same with the correction forgotten, as in naive SGRHMC (Ma et al. 2015, Eq. 16)."""

    def drift(theta, r):
        s = metric_root(theta)
        return {"theta": s * r, "r": -s * (jnp.exp(theta) - 1.5) - s**2 * r}

    D = fields.symmetric(
        {("r", "r"): temperature * fields.Elementwise(lambda theta: metric_root(theta) ** 2)}
    )
    return fk.SDE(drift, D, lambda theta, r: skewed(theta) + jnp.sum(r**2) / 2)


def extrapolated(dynamics, key):
    """Means of θ and θ² at steps 0.02 and 0.01, extrapolated to a step of zero, and their standard errors."""
    chains = 4000
    coarse = long_run(dynamics, 0.02, 3000, chains, jax.random.fold_in(key, 1))
    fine = long_run(dynamics, 0.01, 6000, chains, jax.random.fold_in(key, 2))
    error = np.sqrt((4 * fine.var(axis=1) + coarse.var(axis=1)) / chains)
    return 2 * fine.mean(axis=1) - coarse.mean(axis=1), error


@pytest.mark.slow
def test_riemann_dynamics_find_a_skewed_target_and_without_gamma_they_do_not(optimised):
    """Against quadrature, within 5 standard errors and 0.005 for what is left of the bias, which is O(h²).

    The standard errors are those between 4,000 chains. A false alarm for one key in 8e5; this key gives none.
    """
    temperature = 0.7
    truth = [quadrature(temperature, f) for f in (lambda x: x, lambda x: x**2)]
    mean, error = extrapolated(sg_rhmc(temperature), jax.random.key(7))
    assert np.all(error < 0.02)
    assert np.all(np.abs(mean - truth) < 5 * error + 0.005)
    mean, error = extrapolated(without_gamma(temperature), jax.random.key(7))
    assert abs(mean[0] - truth[0]) > 3 * (5 * error[0] + 0.005)


# Coordinates of a mass matrix -------------------------------------------------------------------------------

COVARIANCE = np.array([[4.0, 1.5, 0.0], [1.5, 1.0, -0.2], [0.0, -0.2, 0.25]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "M"),
    [
        *(("sghmc", M) for M in ("vector", "matrix", "low-rank")),
        ("sgnht", "vector"),
        *(
            long_case("recipe::a_mass_matrix_is_a_change_of_coordinates", "sgnht", M)
            for M in ("matrix", "low-rank")
        ),
    ],
)
def test_a_mass_matrix_is_a_change_of_coordinates(name, M, x64):
    """A step with it is the step that q of θ = S q takes; also with a batch, whose gradient is exact here."""
    from fokker.samplers import mass_matrix as masses

    precision = np.linalg.inv(COVARIANCE)
    M = {
        "vector": np.array([0.3, 1.5, 3.0]),
        "matrix": precision + 0.1 * np.eye(3),
        "low-rank": masses.LowRank(jnp.array([2.0, 1.0, 0.5]), jnp.eye(3, 1), jnp.array([1.3])),
    }[M]
    S = np.stack([np.asarray(masses.as_mass_matrix(M)(e)) for e in jnp.eye(3)], 1)
    like = lambda theta, x: -theta["a"] @ jnp.asarray(precision) @ theta["a"] / 2  # noqa: E731
    target = fk.Posterior(lambda theta: 0.0 * jnp.sum(theta["a"]), like, np.zeros(1))
    plain = fk.Density(lambda theta: like({"a": jnp.asarray(S) @ theta}, None))
    make = getattr(fk.samplers, name)
    options = {"friction": 1.3, "integrator": fk.integrators.Splitting("ABOBA" if name == "sghmc" else None)}
    sampler, other = make(0.2, mass_matrix=M, **options).on(target, 1.7), make(0.2, **options).on(plain, 1.7)
    start, key = jnp.array([0.3, -0.5, 0.2]), jax.random.key(1)
    state = sampler.init({"a": jnp.asarray(S) @ start}, key=key)
    moved, _ = sampler.step(key, state)
    by_batch, _ = sampler.step(key, state, np.zeros(1))
    # The same step, taken by q of a target over q.
    expected, _ = other.step(key, other.init(start, key=key))
    np.testing.assert_allclose(moved.position["a"], S @ expected.position, rtol=1e-9)
    np.testing.assert_allclose(moved.z["r"], expected.z["r"], rtol=1e-9)
    np.testing.assert_allclose(by_batch.position["a"], moved.position["a"], rtol=1e-9)
    assert moved.position["a"].shape == (3,)


def test_a_mass_matrix_that_is_none_is_refused():
    sghmc = fk.samplers.sghmc
    for make, words in (
        (lambda: sghmc(0.1, mass_matrix="diagonal"), "learned by samplers with a correction"),
        (lambda: sghmc(0.1, mass_matrix=[1.0, -1.0]), "positive"),
        (lambda: sghmc(0.1, mass_matrix=np.ones(2), noise_estimate=1.0), "leave it out"),
    ):
        with pytest.raises(ValueError, match=words):
            make()
