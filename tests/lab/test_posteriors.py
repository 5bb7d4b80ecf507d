"""Classic posteriors: each density against the same model written with SciPy, datum by datum."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import integrate, special, stats

import fokker as fk
from fokker.posteriors import POSTERIORS, correlated_normal
from fokker.posteriors._classic import stored_references
from marks import long_case

EACH = pytest.mark.parametrize("name", POSTERIORS)
STARTS = 4


def module(name):
    """Functions bear the names of their modules."""
    return sys.modules[f"fokker.posteriors.{name}"]


# The models again, from their docstrings --------------------------------------------------------------------


def half(distribution, value):
    return distribution.logpdf(value) + np.log(2)


def eight_schools_centred(z):
    effects = [28, 8, -3, 7, -1, 1, 18, 12]
    errors = [15, 10, 16, 11, 9, 11, 10, 18]
    log = stats.norm(0, 5).logpdf(z["mu"]) + half(stats.cauchy(0, 5), z["tau"])
    for theta, y, sigma in zip(z["theta"], effects, errors, strict=True):
        log += stats.norm(z["mu"], z["tau"]).logpdf(theta) + stats.norm(theta, sigma).logpdf(y)
    return log


def eight_schools_noncentred(z):
    """With the Jacobian of theta by eta."""
    theta = z["mu"] + z["tau"] * z["eta"]
    return eight_schools_centred({**z, "theta": theta}) + 8 * np.log(z["tau"])


def funnel(z):
    return stats.norm(0, 3).logpdf(z["v"]) + sum(stats.norm(0, np.exp(z["v"] / 2)).logpdf(x) for x in z["x"])


def normal(theta):
    place = np.arange(theta.size)
    widths = 10 ** (place / (theta.size - 1))
    covariance = np.outer(widths, widths) * 0.9 ** np.abs(place[:, None] - place)
    return stats.multivariate_normal(np.zeros(theta.size), covariance).logpdf(theta)


def logistic_regression(theta):
    data = module("logistic_regression").make_data()
    log = stats.norm.logpdf(theta).sum()
    for x, y in zip(data["x"], data["y"], strict=True):
        log += np.log(special.expit(np.dot(x, theta)) if y else special.expit(-np.dot(x, theta)))
    return log


def gaussian_mixture(z):
    assert z["mu"][0] < z["mu"][1]
    log = stats.dirichlet([5, 5]).logpdf(z["weights"]) + stats.norm(0, 2).logpdf(z["mu"]).sum()
    log += stats.halfnorm(0, 2).logpdf(z["sigma"]).sum()
    densities = [
        w * stats.norm(mu, sigma).pdf(module("gaussian_mixture").make_data())
        for w, mu, sigma in zip(z["weights"], z["mu"], z["sigma"], strict=True)
    ]
    return log + np.log(sum(densities)).sum()


def autoregression(z):
    after, before = module("autoregression").make_data()
    y = np.append(before[0, ::-1], after)
    assert y.size == 200
    log = stats.norm(0, 10).logpdf(np.append(z["alpha"], z["beta"])).sum()
    log += half(stats.cauchy(0, 2.5), z["sigma"])
    for t in range(5, 200):
        mean = z["alpha"] + sum(z["beta"][k - 1] * y[t - k] for k in range(1, 6))
        log += stats.norm.logpdf(y[t], mean, z["sigma"])
    return log


def garch(z):
    y = module("garch").make_data()
    alpha_1, beta_1, _ = z["weights"]
    log = stats.norm.logpdf(z["mu"]) + stats.halfnorm.logpdf(z["alpha_0"])
    log += stats.dirichlet([1, 1, 1]).logpdf(z["weights"])
    h = y.var()
    for t in range(300):
        if t > 0:
            h = z["alpha_0"] + alpha_1 * (y[t - 1] - z["mu"]) ** 2 + beta_1 * h
        log += stats.norm.logpdf(y[t], z["mu"], np.sqrt(h))
    return log


def poisson_process(z):
    """Matérn's kernel by its Bessel function."""
    x, y = module("poisson_process").make_data()
    r = np.sqrt(3) * np.abs(np.subtract.outer(x, x)) / z["rho"] + 1e-9
    kernel = 2**-0.5 / special.gamma(1.5) * r**1.5 * special.kv(1.5, r) + 1e-4 * np.eye(15)
    rates = np.exp(z["alpha"] * np.linalg.cholesky(kernel) @ z["eta"])
    log = stats.invgamma(5, scale=5).logpdf(z["rho"]) + stats.halfnorm(0, 2).logpdf(z["alpha"])
    return log + stats.norm.logpdf(z["eta"]).sum() + stats.poisson(rates).logpmf(y).sum()


def lotka_volterra(z):
    """The equation itself, by a solver that chooses its steps."""
    model = module("lotka_volterra")

    def slope(_, state):
        u, v = state
        return (z["alpha"] - z["beta"] * v) * u, (-z["gamma"] + z["delta"] * u) * v

    found = integrate.solve_ivp(
        slope, (0, 20), z["initial"], t_eval=np.arange(21), rtol=1e-9, atol=1e-9, method="DOP853"
    ).y
    log = stats.norm(1, 0.5).logpdf([z["alpha"], z["gamma"]]).sum()
    log += stats.norm(0.05, 0.05).logpdf([z["beta"], z["delta"]]).sum()
    log += stats.lognorm(1, scale=np.exp(-1)).logpdf(z["sigma"]).sum()
    log += stats.lognorm(1, scale=10).logpdf(z["initial"]).sum()
    for counts, path, sigma in zip((model.HARES, model.LYNXES), found, z["sigma"], strict=True):
        log += stats.lognorm(sigma, scale=path).logpdf(counts).sum()
    return log


def hierarchical_linear(z):
    data = module("hierarchical_linear").make_data()
    log = stats.norm(0, 10).logpdf([z["mu"], z["beta"]]).sum() + stats.norm.logpdf(z["eta"]).sum()
    log += stats.halfnorm.logpdf([z["tau"], z["sigma"]]).sum()
    for c, x, y in zip(data["county"], data["floor"], data["y"], strict=True):
        log += stats.norm.logpdf(y, z["mu"] + z["tau"] * z["eta"][c] + z["beta"] * x, z["sigma"])
    return log


BY_SCIPY = {
    "eight_schools_centred": eight_schools_centred,
    "eight_schools_noncentred": eight_schools_noncentred,
    "funnel": funnel,
    "correlated_normal_2": normal,
    "correlated_normal_100": normal,
    "logistic_regression": logistic_regression,
    "gaussian_mixture": gaussian_mixture,
    "autoregression": autoregression,
    "garch": garch,
    "poisson_process": poisson_process,
    "lotka_volterra": lotka_volterra,
    "hierarchical_linear": hierarchical_linear,
}


# Tests ------------------------------------------------------------------------------------------------------


def log_jacobian(target, y):
    """log|det dθ/dy| from all its derivatives, on a simplex without the last entry."""
    if not target.is_constrained:
        return jnp.zeros(())
    flat, unravel = ravel_pytree(y)

    def free(flat):
        theta = target.constrain(unravel(flat))
        return ravel_pytree({k: x[:-1] if k == "weights" else x for k, x in theta.items()})[0]

    return jnp.linalg.slogdet(jax.jacfwd(free)(flat))[1]


@functools.cache
def starts(name):
    """Several of init, stacked; in single precision, which double has too."""
    with jax.enable_x64(False):
        drawn = jax.jit(jax.vmap(POSTERIORS[name]().init))(jax.random.split(jax.random.key(7), STARTS))
        return jax.tree.map(np.asarray, drawn)


@functools.cache
def evaluated(name, double=True):
    """Potential, gradient, and in double log-Jacobian and theta: at starts, then where fingerprints are."""
    with jax.enable_x64(double):
        target = POSTERIORS[name]().target
        theta = jax.tree.map(lambda x: jnp.asarray(x, float), starts(name))
        shapes = jax.eval_shape(target.unconstrain, jax.tree.map(lambda x: x[0], theta))
        _, unravel = ravel_pytree(jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes))

        @jax.jit
        def evaluate(theta):
            y = jax.vmap(lambda theta: ravel_pytree(target.unconstrain(theta))[0])(theta)
            place = jnp.linspace(-0.5, 0.5, y.shape[1])

            def each(x):
                y = unravel(x)
                found = jax.value_and_grad(lambda x: target.potential(unravel(x)))(x)
                return (*found, log_jacobian(target, y), target.constrain(y)) if double else found

            return jax.vmap(each)(jnp.concatenate([y, jnp.stack([place, -place])]))

        return jax.tree.map(np.asarray, evaluate(theta))


@EACH
def test_the_density_is_that_of_the_same_model_in_scipy(name):
    """Differences between starts: the constants that are left out do not show.

    Lotka and Volterra's equation is solved by the model in steps of a tenth: that is the one tolerance.
    """
    potential, _, jacobian, theta = jax.tree.map(lambda x: x[:STARTS], evaluated(name))
    each = [jax.tree.map(lambda x, i=i: x[i], theta) for i in range(STARTS)]
    wanted = np.array([BY_SCIPY[name](one) for one in each]) + jacobian
    tolerance = 1e-4 if name == "lotka_volterra" else 1e-7
    assert np.ptp(wanted) > 1
    np.testing.assert_allclose(np.diff(-potential), np.diff(wanted), rtol=tolerance, atol=tolerance)


# The others are of sums that lose nothing in single precision.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        n
        if n in ("garch", "lotka_volterra")
        else long_case(
            "posteriors::value_and_gradient_are_finite_at_the_starts_and_the_same_in_both_precisions", n
        )
        for n in POSTERIORS
    ],
)
def test_value_and_gradient_are_finite_at_the_starts_and_the_same_in_both_precisions(name):
    (single, single_gradient), (double, double_gradient) = (
        jax.tree.map(lambda x: x[:STARTS], evaluated(name, precise)[:2]) for precise in (False, True)
    )
    assert single.dtype == single_gradient.dtype == np.float32
    assert np.all(np.isfinite(double_gradient))
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-3)
    scale = np.max(np.abs(double_gradient), axis=1, keepdims=True)
    np.testing.assert_allclose(single_gradient / scale, double_gradient / scale, atol=3e-4)


@EACH
def test_every_start_meets_the_constraints(name):
    target = POSTERIORS[name]().target
    target.check(starts(name))


@EACH
def test_the_reference_has_the_names_of_a_trace_and_small_errors(name):
    posterior = POSTERIORS[name]()
    assert posterior.name == name
    assert posterior.source
    names, _ = fk.Trace(jax.tree.map(lambda x: x[None], starts(name)), None, {}, None, None).flat()
    assert set(posterior.reference) == ({"v"} if name == "funnel" else set(names))
    for found in stored_references()[name]["scalars"].values():
        assert found["sd"] > 0
        assert max(found["mean_error"], found["sd_error"]) < 0.01


@EACH
def test_the_reference_is_of_the_model_as_it_is(name):
    """Who changes a model or its data has to run benchmarks/references.py again."""
    first, second = evaluated(name)[0][STARTS:]
    np.testing.assert_allclose(first - second, stored_references()[name]["fingerprint"], rtol=1e-6)


def test_references_that_are_had_in_two_ways_agree():
    centred, noncentred = (
        POSTERIORS[f"eight_schools_{form}"]().reference for form in ("centred", "noncentred")
    )
    for scalar in ("mu", "tau"):
        np.testing.assert_allclose(centred[scalar], noncentred[scalar], rtol=1e-7)
    for dimension in (2, 100):
        stored = stored_references()[f"correlated_normal_{dimension}"]["scalars"]
        for scalar, moments in correlated_normal(dimension).reference.items():
            np.testing.assert_allclose((stored[scalar]["mean"], stored[scalar]["sd"]), moments, rtol=1e-7)


def test_normals_have_any_dimension_above_one():
    assert len(correlated_normal(7).reference) == 7
    with pytest.raises(ValueError, match="dimension=1 was given"):
        correlated_normal(1)
