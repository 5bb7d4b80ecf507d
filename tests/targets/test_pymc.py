"""Targets from PyMC: the density that PyMC itself computes, names and transforms, minibatches, refusals."""

import os
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker import samplers

pytestmark = pytest.mark.dependencies

RNG = np.random.default_rng(0)


def test_without_pymc_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc", None)
    with pytest.raises(ImportError, match=r"pip install 'fokker\[pymc\]'"):
        fk.from_pymc(None)


@pytest.fixture(scope="module")
def pm():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyMC 6 uses names that PyTensor 3 gives up
        import pymc

    return pymc


@pytest.fixture(scope="module")
def schools(pm):
    """Eight schools, with a simplex, and a variable whose bounds depend on others."""
    effects, errors = [28.0, 8, -3, 7, -1, 1, 18, 12], [15.0, 10, 16, 11, 9, 11, 10, 18]
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        eta = pm.Normal("eta", 0, 1, shape=8)
        theta = pm.Deterministic("theta", mu + tau * eta)
        pm.Dirichlet("shares", np.array([1.0, 2.0, 3.0]))
        pm.Uniform("between", mu - tau, mu + tau)
        pm.Potential("penalty", -(mu**4) / 1000)
        pm.Normal("y", theta, errors, observed=effects)
    return model, fk.from_pymc(model)


def test_nothing_of_jax_is_changed_by_the_import(schools):
    assert not jax.config.jax_enable_x64
    assert "device_count=100" not in os.environ.get("XLA_FLAGS", "")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_density_is_that_of_pymc_at_every_temperature(schools, precision):
    model, target = schools
    with_jacobian, without = model.compile_logp(), model.compile_logp(jacobian=False)
    shapes = {v.name: model.initial_point()[model.rvs_to_values[v].name].shape for v in model.free_RVs}
    with jax.enable_x64(precision == "double"):
        if precision == "double":
            target = fk.from_pymc(model)
        values = jax.jit(lambda y: jnp.stack([target.at_temperature(T).potential(y) for T in (1.0, 0.3)]))
        for _ in range(3):
            y = {name: RNG.normal(size=shape) for name, shape in shapes.items()}
            point = {model.rvs_to_values[v].name: y[v.name] for v in model.free_RVs}
            wanted = np.array([-with_jacobian(point), -0.7 * without(point) - 0.3 * with_jacobian(point)])
            np.testing.assert_allclose(values(y), wanted, rtol=1e-12 if precision == "double" else 3e-6)


@pytest.mark.slow
def test_variables_go_there_and_back_with_the_jacobian_of_autodiff(schools):
    _, target = schools
    theta = target.init(jax.random.key(3))
    assert set(theta) == {"mu", "tau", "eta", "shares", "between"}
    assert theta["shares"].shape == (3,)
    assert float(theta["shares"].sum()) == pytest.approx(1, abs=1e-6)
    assert abs(theta["between"] - theta["mu"]) < theta["tau"]
    y = target.unconstrain(theta)
    assert y["shares"].shape == (2,)
    back = target.constrain(y)
    for name, value in theta.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-4, atol=1e-5)
    names = sorted(y)
    sizes = np.cumsum([0, *(y[name].size for name in names)])

    def flat(vector):
        parts = {
            name: vector[a:b].reshape(y[name].shape)
            for name, a, b in zip(names, sizes[:-1], sizes[1:], strict=True)
        }
        x = target.constrain(parts)
        return jnp.concatenate([x[name].ravel()[: y[name].size] for name in names])

    vector = jnp.concatenate([y[name].ravel() for name in names])
    wanted = np.linalg.slogdet(np.asarray(jax.jacfwd(flat)(vector), float))[1]
    assert float(target.program.log_jacobian(y)) == pytest.approx(wanted, rel=1e-4)
    np.testing.assert_allclose(
        target.derived(theta)["theta"], theta["mu"] + theta["tau"] * theta["eta"], rtol=1e-4, atol=1e-4
    )


X = RNG.normal(size=(40, 2))
Y = X @ np.array([1.0, -1.0]) + 0.5 * RNG.normal(size=40)


@pytest.fixture(scope="module")
def regression(pm):
    """Rows in containers, and a scale that is positive."""
    with pm.Model() as model:
        x, y = pm.Data("x", X), pm.Data("y", Y)
        w = pm.Normal("w", 0, 1, shape=2)
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("seen", x @ w, scale, observed=y)
    return model


@pytest.mark.slow
def test_minibatches_are_unbiased_and_all_the_rows_are_the_model(regression):
    whole, target = fk.from_pymc(regression), fk.from_pymc(regression, subsample=["x", "y"])
    assert target.size == 40
    target, whole = target.at_temperature(0.3), whole.at_temperature(0.3)
    y = target.unconstrain(target.init(jax.random.key(0)))
    potential = jax.jit(target.minibatch_potential)
    batches = [jax.tree.map(lambda x, k=k: x[8 * k : 8 * k + 8], target.data) for k in range(5)]
    mean = np.mean([float(potential(y, batch)) for batch in batches])
    assert mean == pytest.approx(float(whole.potential(y)), rel=1e-5)
    assert float(target.potential(y)) == pytest.approx(float(whole.potential(y)), rel=1e-5)


@pytest.mark.slow
def test_draws_are_of_the_posterior(pm):
    """Conjugate: μ ~ N(0, 1), x ~ N(μ, 1). Mean and variance within 5 standard errors: 1e-6 false alarms."""
    x = RNG.normal(1.0, 1.0, 9)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Deterministic("twice", 2 * mu)
        pm.Normal("x", mu, 1, observed=x)
    target = fk.from_pymc(model)
    trace = fk.sample(target, samplers.nuts(), init=target.init, steps=1000, chains=4, progress=False)
    draws, mean, variance = np.asarray(trace.samples["mu"]), x.sum() / 10, 1 / 10
    independent = 1000  # at least, of 4000 draws of NUTS in one dimension
    assert abs(draws.mean() - mean) < 5 * np.sqrt(variance / independent)
    assert abs(draws.var() / variance - 1) < 5 * np.sqrt(2 / independent)
    # Not the prior, nor the likelihood alone.
    assert abs(draws.mean() - x.mean()) > 0.05
    np.testing.assert_allclose(trace.to_arviz().posterior["twice"], 2 * draws, rtol=1e-5)


def test_models_that_cannot_be_sampled_are_refused(pm):
    with pytest.raises(TypeError, match=r"pymc\.Model, not int"):
        fk.from_pymc(3)
    with pm.Model() as model:
        pm.Bernoulli("z", 0.3)
    with pytest.raises(ValueError, match=r"'z' is discrete.*pm\.Mixture"):
        fk.from_pymc(model)
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=1.0)
    with pytest.raises(ValueError, match="no free variable"):
        fk.from_pymc(model)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=pm.Minibatch(Y, batch_size=4), total_size=40)
    with pytest.raises(ValueError, match=r"pm\.Minibatch.*subsample"):
        fk.from_pymc(model)


@pytest.mark.slow
def test_rows_that_are_no_rows_are_refused(pm, regression):
    with pytest.raises(
        ValueError, match=r"'xs', but the pm\.Data containers of the model are x, y\. Did you"
    ):
        fk.from_pymc(regression, subsample=["xs"])
    with pytest.raises(ValueError, match="subsample is empty"):
        fk.from_pymc(regression, subsample=[])
    with pm.Model() as model:
        pm.Normal("seen", pm.Normal("mu", 0, 1), 1, observed=pm.Data("y", Y), total_size=80)
    with pytest.raises(ValueError, match=r"'seen' has a total_size, .* leave it out"):
        fk.from_pymc(model, subsample=["y"])
    # x has as many rows as ever, and y one.
    with pytest.raises(ValueError, match=r"together and .* row by row.*here y|could not be evaluated"):
        fk.from_pymc(regression, subsample="y")
    with pm.Model() as model:
        y = pm.Data("y", Y)
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("seen", mu, 1, observed=y - y.mean())
    with pytest.raises(ValueError, match=r"together and .* row by row, so minibatches would be wrong"):
        fk.from_pymc(model, subsample=["y"])
    with pm.Model() as model:
        y = pm.Data("y", Y)
        effect = pm.Normal("effect", 0, 1, shape=40)
        pm.Normal("seen", effect, 1, observed=y)
    with pytest.raises(ValueError, match="no free variable may have one entry per row"):
        fk.from_pymc(model, subsample=["y"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tau": -1.0}, r"theta\['tau'\] is -1.*outside its support.*init=target\.init"),
        ({"shares": np.ones(3)}, r"theta\['shares'\] is .*outside its support"),
        ({"between": 99.0}, r"theta\['between'\]"),
        ({"eta": np.zeros(7)}, r"theta\['eta'\] has the shape \(7,\); the free variable has \(8,\)"),
        ({"taus": 1.0}, r"theta has 'taus', but the free variables of the model are .* Did you mean 'tau'"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(schools, change, message):
    _, target = schools
    theta = {**target.init(jax.random.key(0)), **change}
    with pytest.raises(ValueError, match=message):
        target.unconstrain(theta)


def test_a_start_lacks_a_variable_or_is_no_dictionary(schools):
    _, target = schools
    theta = target.init(jax.random.key(0))
    with pytest.raises(ValueError, match="theta lacks 'mu'"):
        target.unconstrain({name: value for name, value in theta.items() if name != "mu"})
    with pytest.raises(ValueError, match="must be a dictionary of the model's free variables, mu, tau"):
        target.unconstrain(jnp.zeros(3))


CITIES = ["Köln", "Bonn", "Trier"]
PLACES = np.repeat(np.arange(3), 20)
SEEN = np.array([6.0, -6.0, 1.0])[PLACES] + RNG.normal(size=60)


def model_of_cities(pm):
    """An effect per city: by the entries of an axis, with a container for its scale and one for the rows."""
    with pm.Model(coords={"city": CITIES, "row": range(60)}) as model:
        scale = pm.Data("scale", 5.0)
        place = pm.Data("place", PLACES, dims="row")
        effect = pm.Normal("effect", 0, scale, dims="city")
        noise = pm.HalfNormal("noise", 2)
        pm.Deterministic("twice", 2 * effect, dims="city")
        pm.Normal("seen", effect[place], noise, observed=SEEN, dims="row")
    return model


@pytest.fixture(scope="module")
def cities(pm):
    model = model_of_cities(pm)
    target = fk.from_pymc(model)
    trace = fk.sample(target, samplers.ula(1e-3), init=target.init, steps=100, chains=2, progress=False)
    return model, trace


def test_dims_and_coords_of_the_model_are_in_draws_and_tables(cities):
    _, trace = cities
    data = trace.to_arviz()
    for name in ("effect", "twice"):
        assert data.posterior[name].dims == ("chain", "draw", "city")
    assert list(data.posterior["city"].values) == CITIES
    assert data.constant_data["place"].dims == data.observed_data["seen"].dims == ("row",)
    assert data.constant_data["scale"].shape == ()
    np.testing.assert_array_equal(data.observed_data["seen"], SEEN)
    names = trace.summary(gradients=False).names
    assert names == ["effect[Köln]", "effect[Bonn]", "effect[Trier]", "noise"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_posterior_predictive_of_pymc_is_that_of_the_draws(pm, cities):
    """PyMC draws from the prior whatever depends on an axis or a container that it does not find."""
    model, trace = cities
    with model:
        draws = pm.sample_posterior_predictive(trace.to_arviz(), random_seed=1, progressbar=False)
    seen = np.asarray(draws.posterior_predictive["seen"])
    effect, noise = (np.asarray(trace.samples[name]) for name in ("effect", "noise"))
    # Of 12,000 standard normals: 5 standard errors, 1e-6 false alarms. By the prior of the effects it is 5.
    assert np.std((seen - effect[:, :, PLACES]) / noise[:, :, None]) == pytest.approx(1.0, abs=0.033)


def test_predictive_draws_are_of_the_model_at_each_draw(pm, cities):
    """Of 12,000 standard normals, mean and spread within 5 standard errors: 1e-6 false alarms."""
    model, trace = cities
    drawn = trace.predict(key=jax.random.key(0))
    assert list(drawn) == ["seen"]
    effect, noise = (np.asarray(trace.samples[name], float) for name in ("effect", "noise"))
    off = (drawn["seen"] - effect[:, :, PLACES]) / noise[:, :, None]
    assert off.shape == (2, 100, 60)
    assert abs(off.mean()) < 5 / np.sqrt(off.size)
    assert abs(off.std() - 1) < 5 / np.sqrt(2 * off.size)
    assert len(np.unique(off)) == off.size  # every draw has its own noise
    np.testing.assert_array_equal(trace.predict(key=jax.random.key(0))["seen"], drawn["seen"])
    assert not np.array_equal(trace.predict(key=jax.random.key(1))["seen"], drawn["seen"])
    assert trace.predict(key=jax.random.key(0), thin=10)["seen"].shape == (2, 10, 60)
    # New values of containers do not change the effects, which PyMC itself would draw from their prior.
    with model:
        pm.set_data({"scale": 50.0, "place": np.zeros(60, int)})
    try:
        moved = (trace.predict(key=jax.random.key(0))["seen"] - effect[:, :, :1]) / noise[:, :, None]
    finally:
        with model:
            pm.set_data({"scale": 5.0, "place": PLACES})
    np.testing.assert_allclose(moved, off, rtol=1e-6, atol=1e-6)


def test_prior_draws_have_the_law_of_the_prior(pm, cities):
    """An effect is N(0, 25), and a datum adds the 4 of E[noise²]; 5 standard errors of 1,000 draws."""
    _, trace = cities
    target = fk.from_pymc(model_of_cities(pm))
    prior = fk.prior_predictive(target, 1000, key=jax.random.key(0))
    assert set(prior) == {"effect", "noise", "twice", "seen"}
    for values, variance in ((prior["effect"][:, 1], 25), (prior["seen"][:, 0], 29)):
        assert abs(values.mean()) < 5 * np.sqrt(variance / 1000)
        assert abs(values.var() / variance - 1) < 5 * np.sqrt(2 / 1000)
    np.testing.assert_array_equal(prior["twice"], 2 * prior["effect"])
    data = trace.to_arviz(predictive=trace.predict(key=jax.random.key(0)), prior=prior)
    assert data.posterior_predictive["seen"].dims == ("chain", "draw", "row")
    assert data.prior_predictive["seen"].shape == (1, 1000, 60)
    assert data.prior["effect"].dims == ("chain", "draw", "city")
    assert set(data.prior.data_vars) == {"effect", "noise", "twice"}


def test_what_pymc_cannot_draw_is_said_in_a_sentence(pm):
    with pm.Model() as model:
        pm.Normal("seen", pm.Flat("mu"), 1, observed=Y)
    target = fk.from_pymc(model)
    with pytest.raises(ValueError, match=r"PyMC could not draw the variables of the model: .*can be drawn"):
        fk.prior_predictive(target, 2, key=jax.random.key(0))


def log_normal(x, mean, scale):
    return -(((x - mean) / scale) ** 2) / 2 - np.log(scale) - np.log(2 * np.pi) / 2


def test_the_log_likelihood_is_that_of_each_datum(cities):
    _, trace = cities
    effect, noise = (np.asarray(trace.samples[name], float) for name in ("effect", "noise"))
    wanted = log_normal(SEEN, effect[:, :, PLACES], noise[:, :, None])
    np.testing.assert_allclose(trace.log_likelihood(), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(trace.log_likelihood(thin=7), wanted[:, ::7], rtol=1e-4, atol=1e-4)
    pointwise = trace.to_arviz(log_likelihood=True).log_likelihood["seen"]
    assert pointwise.dims == ("chain", "draw", "row")
    with pytest.raises(TypeError, match=r"rows and batch_size with a fk\.Posterior alone"):
        trace.log_likelihood(rows=[0])


@pytest.mark.slow
def test_the_log_likelihood_of_rows_is_taken_at_theta(regression):
    """Draws are of a scale that is positive; the program takes its logarithm."""
    target = fk.from_pymc(regression, subsample=["x", "y"])
    trace = fk.sample(target, samplers.sgld(1e-3), init=target.init, steps=3, batch_size=8, progress=False)
    w, scale = (np.asarray(trace.samples[name], float) for name in ("w", "scale"))
    wanted = log_normal(Y, w @ X.T, scale[:, :, None])
    np.testing.assert_allclose(trace.log_likelihood(progress=False), wanted, rtol=1e-4, atol=1e-4)


def test_a_variable_with_the_name_of_an_axis_of_draws_is_refused(pm):
    with pm.Model() as model:
        pm.Deterministic("draw", 2 * pm.Normal("mu", 0, 1))
    with pytest.raises(ValueError, match=r"called 'draw', which is the name of an axis.*'draw_effect'"):
        fk.from_pymc(model)
