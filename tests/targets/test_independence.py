"""Minibatches are refused for models whose rows depend on one another, however poor the fit at a start."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import fokker as fk

pytestmark = pytest.mark.dependencies

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=60).astype(np.float32)
Y = (1000 + 7 * X + GENERATOR.normal(size=60)).astype(np.float32)


def regression(mean, prior=lambda y: 0.0):
    def model(x, y):
        a = numpyro.sample("a", dist.Normal(prior(y), 2000.0))
        b = numpyro.sample("b", dist.Normal(0.0, 10.0))
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("y", dist.Normal(a + mean(b, x), 1.0), obs=y)

    return model


DEPENDENT = {
    "centred": regression(lambda b, x: b * (x - x.mean())),
    "slightly centred": regression(lambda b, x: b * (x - 1e-3 * x.mean())),
    "ranks": regression(lambda b, x: b * jnp.argsort(jnp.argsort(x))),
    "the row before": regression(lambda b, x: b * jnp.roll(x, 1)),
    "the third row": regression(lambda b, x: b * (x - x[2])),
    "their number": regression(lambda b, x: b * x / x.shape[0]),
    "their spread": regression(lambda b, x: b * x / jnp.std(x, ddof=1)),
    "prior at a mean": regression(lambda b, x: b * x, lambda y: y.mean()),
    "prior by their number": regression(lambda b, x: b * x, lambda y: 3.0 * y.shape[0]),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_rows_that_depend_on_one_another_are_refused(name):
    with pytest.raises(ValueError, match=r"together and .* row by row, so minibatches would be wrong"):
        fk.from_numpyro(DEPENDENT[name], X, Y, subsample="rows")


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e6])
def test_independent_rows_are_taken(scale):
    model = regression(lambda b, x: b * x**3 + jnp.where(x > 0, jnp.log1p(jnp.abs(x)), x))
    fk.from_numpyro(model, scale * X, Y, subsample="rows")


def test_what_the_derivative_alone_shows_is_named():
    """The log likelihood of huge residuals hardly depends on a slope."""
    with pytest.raises(ValueError, match=r"by theta\['b'\] of the log likelihood of one of 60"):
        fk.from_numpyro(DEPENDENT["centred"], X, 1e6 * Y, subsample="rows")


def test_it_is_said_where_no_start_is_finite():
    def model(y):
        top = numpyro.sample("top", dist.HalfNormal(1.0))
        with numpyro.plate("rows", y.shape[0]):
            numpyro.factor("below", jnp.where(y < top, -jnp.log(top), -jnp.inf))

    with pytest.warns(UserWarning, match="could not be checked that the rows are independent"):
        fk.from_numpyro(model, Y, subsample="rows")
    target = fk.from_numpyro(model, jnp.asarray(X) / 100, subsample="rows")  # some starts are, in silence
    assert target.size == 60


def test_a_model_for_single_precision_alone_is_checked_in_it():
    def model(x, y, is_centred):
        b = numpyro.sample("b", dist.Normal(0.0, 10.0))
        mean = jax.lax.scan(lambda total, v: (total + jnp.float32(v), None), jnp.float32(0), x)[0]
        assert b.dtype == jnp.float32, "for single precision"
        with numpyro.plate("rows", x.shape[0]):
            numpyro.sample("y", dist.Normal(b * (x - mean * is_centred), 1.0), obs=y)

    fk.from_numpyro(model, X, X, 0, subsample="rows")
    with pytest.raises(ValueError, match=r"together and .* row by row"):
        fk.from_numpyro(model, X, X, 1, subsample="rows")


@pytest.fixture(scope="module")
def pm():
    return pytest.importorskip("pymc")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["centred", "independent", "batch of the mean"])
def test_pymc_models_are_looked_at_likewise(pm, kind):
    with pm.Model() as model:
        x, y = pm.Data("x", X), pm.Data("y", Y)
        a, b = pm.Normal("a", 0, 2000), pm.Normal("b", 0, 10)
        if kind == "batch of the mean":
            drawn = pm.Minibatch(X, batch_size=60)
            pm.Normal("seen", a + b * drawn, 1, observed=Y)
        else:
            pm.Normal("seen", a + b * (x - (x.mean() if kind == "centred" else 0.0)), 1, observed=y)
    if kind == "independent":
        assert fk.from_pymc(model, subsample=["x", "y"]).size == 60
        return
    words = {"centred": "together and .* row by row", "batch of the mean": r"pm\.Minibatch.*subsample"}
    with pytest.raises(ValueError, match=words[kind]):
        fk.from_pymc(model, subsample=["x", "y"] if kind == "centred" else None)
