"""Targets from NumPyro: the density that NumPyro has, minibatches that are unbiased, and what is refused."""

import builtins
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import potential_energy

import conftest
import fokker as fk
from fokker import samplers
from fokker.integrators import Splitting

pytestmark = [pytest.mark.dependencies, pytest.mark.usefixtures("ranks")]


@pytest.fixture
def ranks():
    """NumPyro promotes ranks."""
    with jax.numpy_rank_promotion("allow"):
        yield


# The density ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_density_of_lkj_is_that_of_numpyro(x64):
    """Of five variables, with its integral."""
    y = np.random.default_rng(0).normal(size=10)
    L = fk.constraints.correlation_cholesky().constrain(jnp.asarray(y))
    for eta in (0.5, 1.0, 3.7):
        matrix = fk.constraints.lkj_log_density(L @ L.T, eta) - dist.LKJ(5, eta).log_prob(L @ L.T)
        factor = fk.constraints.lkj_cholesky_log_density(L, eta) - dist.LKJCholesky(5, eta).log_prob(L)
        np.testing.assert_allclose([matrix, factor], 0, atol=1e-9)


def positive():
    numpyro.sample("scale", dist.Gamma(3.0, 2.0))
    numpyro.sample("wide", dist.HalfCauchy(jnp.ones(3)))


def simplex():
    numpyro.sample("weights", dist.Dirichlet(jnp.array([2.0, 3.0, 4.0])))


def interval():
    numpyro.sample("inside", dist.Uniform(jnp.array([-1.0, 2.0]), jnp.array([1.0, 7.0])))
    numpyro.sample("unit", dist.Beta(2.0, 3.0))


def correlations():
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0).expand([3]).to_event(1))
    root = numpyro.sample("root", dist.LKJCholesky(3, 1.5))
    numpyro.sample(
        "y", dist.MultivariateNormal(jnp.zeros(3), scale_tril=scale[:, None] * root), obs=jnp.ones(3)
    )


def ordered():
    numpyro.sample("cuts", dist.ImproperUniform(dist.constraints.ordered_vector, (), (4,)))
    numpyro.factor("prior", -1.5)


def hierarchy():
    centre = numpyro.sample("centre", dist.Normal(0.0, 5.0))
    with numpyro.plate("groups", 4):
        effect = numpyro.sample("effect", dist.Normal(centre, 2.0))
        numpyro.sample("y", dist.StudentT(4.0, effect, 1.0), obs=jnp.arange(4.0))


def scaled():
    with handlers.scale(scale=3.0), handlers.mask(mask=jnp.array([True, False])):
        numpyro.sample("x", dist.Normal(jnp.zeros(2), 1.0).mask(True))
    numpyro.sample("y", dist.Normal(0.0, 1.0))


MODELS = {
    "positive": positive,
    "simplex": simplex,
    "interval": interval,
    "LKJ": correlations,
    "ordered": ordered,
    "hierarchy": hierarchy,
    "reparametrised": handlers.reparam(hierarchy, config={"effect": LocScaleReparam(0)}),
    "scaled": scaled,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_potential_is_that_of_numpyro(name, x64):
    model = MODELS[name]
    target = fk.from_numpyro(model)

    def both(key):
        theta = target.init(key)
        y = target.unconstrain(theta)
        back = target.constrain(y)
        return theta, back, target.potential(y), potential_energy(model, (), {}, y)

    for theta, back, found, wanted in map(conftest.quick_jit(both), jax.random.split(jax.random.key(1), 3)):
        target.check(theta)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12), back, theta)
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_the_jacobian_is_not_tempered(x64):
    """For Gamma(3, 2) and y = log x: U_y = -2 log x + 2x - T log x up to a constant."""
    target = fk.from_numpyro(lambda: numpyro.sample("x", dist.Gamma(3.0, 2.0))).at_temperature(0.25)
    x = np.array([0.5, 2.0])
    U = [float(target.potential({"x": jnp.log(value)})) for value in x]
    np.testing.assert_allclose(np.diff(U), np.diff(-2.25 * np.log(x) + 2 * x), rtol=1e-12)


# Minibatches ----------------------------------------------------------------------------------------------

N = 6


def regression(x, y=None, *, width=1.0):
    w = numpyro.sample("w", dist.Normal(0.0, width).expand([x.shape[1]]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.deterministic("length", jnp.sum(w**2))
    numpyro.deterministic("sharpness", jnp.mean(x @ w) / scale)
    with numpyro.plate("rows", x.shape[0]):
        mean = numpyro.deterministic("mean", x @ w)
        numpyro.sample("y", dist.Normal(mean, scale), obs=y)


def as_tree(data, y):
    """Two likelihoods, a nested plate, and data in a tree with what is no data."""
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    numpyro.sample("outside", dist.Normal(w[0], 1.0), obs=0.3)
    rows = numpyro.plate("rows", y.shape[0], dim=-1)
    with rows:
        numpyro.sample("y", dist.Normal(data["x"] @ w, data["width"]), obs=y)
    with numpyro.plate("twice", 2, dim=-2), rows:
        numpyro.sample("z", dist.Poisson(jnp.exp(w[:, None])), obs=data["counts"].T)


def grouped(groups, y):
    """The number of groups is looked up in an array."""
    number = int(np.max(groups)) + 1
    effects = numpyro.sample("effects", dist.Normal(0.0, 1.0).expand([number]).to_event(1))
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.Normal(jnp.mean(effects), 1.0), obs=y)


def arrays(n=N):
    generator = np.random.default_rng(n)
    x = generator.normal(size=(n, 2))
    return x, x @ np.array([1.0, -2.0]) + generator.normal(size=n)


X, Y = arrays()
COUNTS = np.random.default_rng(0).poisson(2.0, size=(N, 2))
# A width of as many entries as there are rows is told apart from them.
CASES = {
    "regression": (regression, (X,), {"y": Y}, "rows"),
    "named": (regression, (X, Y), {"width": 2.0}, {"rows": ("x", "y")}),
    "tree": (as_tree, ({"x": X, "counts": COUNTS, "width": 0.7}, Y), {}, "rows"),
    "partial": (functools.partial(regression, width=3.0), (X, Y), {}, "rows"),
    "looked up": (grouped, (np.array([0, 2, 1, 0]), Y), {}, "rows"),
    "handled": (handlers.block(regression, hide=[]), (X, Y), {}, {"rows": ["x", "y"]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_minibatches_are_unbiased_for_the_potential_of_numpyro(name, x64, monkeypatch):
    model, arguments, keywords, subsample = CASES[name]
    target = fk.from_numpyro(model, *arguments, subsample=subsample, **keywords)
    assert target.size == N
    batches = jax.tree.map(lambda a: a.reshape(3, 2, *a.shape[1:]), target.data)

    def estimate(y):
        return jnp.mean(jax.vmap(target.minibatch_potential, (None, 0))(y, batches))

    @conftest.quick_jit
    def everything(y):
        return potential_energy(model, arguments, keywords, y), target.potential(y), estimate(y)

    y = target.unconstrain(target.init(jax.random.key(3)))
    wanted, whole, estimated = everything(y)
    np.testing.assert_allclose([whole, estimated], wanted, rtol=1e-10)
    if name == "regression":  # the negative control: N/n once too often, and not at all
        for factor in ((N / 2) ** 2, 1.0):
            monkeypatch.setattr(fk.Posterior, "weighted", lambda self, batch, f=factor: (batch, f))
            assert abs(estimate(y) - wanted) > 0.01 * abs(wanted)


@pytest.mark.slow
def test_gradients_of_single_data_add_up(x64):
    target = fk.from_numpyro(regression, X, Y, subsample="rows")
    y = target.unconstrain({"w": jnp.array([0.5, 1.0]), "scale": 0.8})
    each, prior, whole = conftest.quick_jit(
        lambda y: (
            target.datum_gradients(y, target.data),
            jax.grad(target.log_prior)(y),
            jax.grad(target.potential)(y),
        )
    )(y)
    jax.tree.map(
        lambda e, p, g: np.testing.assert_allclose(e.sum(axis=0) - p, g, rtol=1e-10), each, prior, whole
    )


# Sampling -------------------------------------------------------------------------------------------------


def conjugate(heads, y):
    p = numpyro.sample("p", dist.Beta(2.0, 3.0))
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.deterministic("odds", p / (1 - p))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("heads", dist.Bernoulli(p), obs=heads)
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


ROWS = 200
HEADS = np.arange(ROWS) % 4 == 0
HEIGHTS = (0.5 + np.random.default_rng(4).normal(size=ROWS)).astype(np.float32)


@functools.cache
def conjugate_run(steps, chains):
    target = fk.from_numpyro(conjugate, HEADS.astype(np.int32), y=HEIGHTS, subsample="rows")
    centre = {"p": 0.25, "mean": HEIGHTS.mean()}
    return fk.sample(
        target,
        samplers.sghmc(0.02, 20.0, integrator=Splitting()),
        gradient=fk.gradients.control_variates(centre),
        init=centre,
        steps=steps,
        chains=chains,
        batch_size=20,
        progress=False,
    )


@pytest.mark.long("numpyro::minibatches_are_unbiased_for_the_potential_of_numpyro")
def test_a_conjugate_posterior_by_minibatches():
    """Mean and variance of both sites: within 5 standard errors of 50 chains and 3 % of the spread.

    False alarm: one seed in 3e4.
    """
    a, b = 2 + HEADS.sum(), 3 + ROWS - HEADS.sum()
    known = {
        "p": (a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1))),
        "mean": (float(HEIGHTS.sum()) / (ROWS + 1), 1 / (ROWS + 1)),
    }
    for name, (centre, variance) in known.items():
        x = conjugate_run(3000, 50).samples[name].astype(float)
        for found, wanted, scale in (
            (x.mean(axis=1), centre, math.sqrt(variance)),
            (((x - centre) ** 2).mean(axis=1), variance, variance),
        ):
            assert abs(found.mean() - wanted) < 5 * found.std(ddof=1) / math.sqrt(50) + 0.03 * scale


@pytest.mark.slow
def test_arviz_has_the_sites_by_name_and_the_deterministic_ones():
    target = fk.from_numpyro(conjugate, HEADS.astype(np.int32), y=HEIGHTS, subsample="rows")
    options = {"init": {"p": 0.25, "mean": 1.0}, "steps": 6, "chains": 2, "batch_size": 20, "progress": False}
    found = fk.sample(target, samplers.sgld(1e-3), **options).to_arviz().posterior
    shapes = {name: values.shape for name, values in found.items()}
    assert shapes == {"p": (2, 6), "mean": (2, 6), "odds": (2, 6)}
    np.testing.assert_allclose(found["odds"], found["p"] / (1 - found["p"]), rtol=1e-5)


def test_deterministic_sites_are_of_all_rows_and_those_with_a_value_a_row_of_the_whole_model_alone():
    theta = {"w": jnp.ones(2), "scale": jnp.asarray(2.0)}
    whole = fk.from_numpyro(regression, X, Y).derived(theta)
    assert set(whole) == {"length", "sharpness", "mean"}
    np.testing.assert_allclose(whole["mean"], X.sum(axis=1), rtol=1e-5)
    parts = fk.from_numpyro(regression, X, Y, subsample="rows").derived(theta)
    assert set(parts) == {"length", "sharpness"}
    np.testing.assert_allclose(parts["length"], 2.0)
    np.testing.assert_allclose(parts["sharpness"], X.sum(axis=1).mean() / 2, rtol=1e-5)


def short(target, **options):
    return fk.sample(
        target, samplers.sgld(1e-3), **{"init": target.init, "steps": 3, "progress": False, **options}
    )


def test_starts_differ_between_chains_and_meet_the_supports():
    target = fk.from_numpyro(simplex)
    first = jax.vmap(target.init)(jax.random.split(jax.random.key(0), 5))["weights"]
    assert first.shape == (5, 3)
    np.testing.assert_allclose(first.sum(axis=1), 1.0, rtol=1e-5)
    assert len(np.unique(first[:, 0])) == 5


# What is refused ------------------------------------------------------------------------------------------


def discrete():
    numpyro.sample("which", dist.Bernoulli(0.5))


def moving():
    top = numpyro.sample("top", dist.HalfNormal(1.0))
    numpyro.sample("below", dist.Uniform(0.0, top))


def observed(y):
    numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)


def subsampled(x, y):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(y), subsample_size=2) as rows:
        numpyro.sample("y", dist.Normal(w, 1.0), obs=y[rows])


def optimised(y):
    w = numpyro.param("w", 0.0)
    numpyro.sample("y", dist.Normal(w, 1.0), obs=y)


def with_locals(x, y):
    with numpyro.plate("rows", len(y)):
        effect = numpyro.sample("effect", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(effect, 1.0), obs=y)


def fixed_size(x, y):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", N):
        numpyro.sample("y", dist.Normal(w, 1.0), obs=y)


def path(x, y):
    f = numpyro.sample("f", dist.GaussianRandomWalk(1.0, len(y)))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(f, 1.0), obs=y)


def empty_plate(x, y):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(w, 1.0), obs=y)
    with numpyro.plate("rows", len(y)):
        pass


def standardised(x, y):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(w * (x[:, 0] - x[:, 0].mean()), 1.0), obs=y)


def half_outside(x, y):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    numpyro.factor("also", -jnp.sum((y - w) ** 2))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(w, 1.0), obs=y)


def widths(x, y, width):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(N), width).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(jnp.sum(w) * x[:, 0], 1.0), obs=y)


def reshaped(x, y):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(w, 1.0), obs=y.reshape(N))


def broken(x, y):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(3), 1.0).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (TypeError, "must be a function .* not 3", lambda: fk.from_numpyro(3)),
        (
            TypeError,
            r"do not match the model observed\(y\): missing .*'y'.*fk\.from_numpyro\(model, x, y=y\)",
            lambda: fk.from_numpyro(observed),
        ),
        (TypeError, "unexpected keyword argument 'z'", lambda: fk.from_numpyro(regression, X, z=Y)),
        (
            ValueError,
            r"could not be run with its arguments \(x: \(6, 2\), y: \(6,\)\): TypeError: ",
            lambda: fk.from_numpyro(broken, X, Y),
        ),
        (ValueError, "no latent site", lambda: fk.from_numpyro(observed, Y)),
        (ValueError, "'which' is discrete.*sum it out.*MixtureSameFamily", lambda: fk.from_numpyro(discrete)),
        (
            ValueError,
            r"support of 'below' depends on other sites.*Uniform\(0, 1\)",
            lambda: fk.from_numpyro(moving),
        ),
        (
            ValueError,
            r"'rows' has its own subsample_size=2.*second time.*subsample='rows'",
            lambda: fk.from_numpyro(subsampled, X, Y, subsample="rows"),
        ),
        (ValueError, "numpyro.param, 'w'.*give it a prior", lambda: fk.from_numpyro(optimised, Y)),
        (
            ValueError,
            "no plate 'row': its plates are rows. Did you mean 'rows'",
            lambda: fk.from_numpyro(regression, X, Y, subsample="row"),
        ),
        (ValueError, "no plate 'rows': it has none", lambda: fk.from_numpyro(simplex, subsample="rows")),
        (
            ValueError,
            "'effect' is inside the plate 'rows', with one value per row",
            lambda: fk.from_numpyro(with_locals, X, Y, subsample="rows"),
        ),
        (
            ValueError,
            "latent site 'y' is inside the plate 'rows'.*as obs",
            lambda: fk.from_numpyro(regression, X, subsample="rows"),
        ),
        (
            ValueError,
            "size 6 even if the model is run on one row.*shape",
            lambda: fk.from_numpyro(fixed_size, X, Y, subsample="rows"),
        ),
        (
            ValueError,
            r"'f' has the shape \(6,\) on 6 rows and \(1,\) on one",
            lambda: fk.from_numpyro(path, X, Y, subsample="rows"),
        ),
        (
            ValueError,
            "nothing is observed inside the plate 'rows'",
            lambda: fk.from_numpyro(empty_plate, X, Y, subsample="rows"),
        ),
        (
            ValueError,
            "no argument of the model has a first axis of that length",
            lambda: fk.from_numpyro(lambda: fixed_size(X, Y), subsample="rows"),
        ),
        (
            ValueError,
            "together and .* row by row.*standardise before",
            lambda: fk.from_numpyro(standardised, X, Y, subsample="rows"),
        ),
        (
            ValueError,
            "together and .* row by row.*inside the plate 'rows'",
            lambda: fk.from_numpyro(half_outside, X, Y, subsample="rows"),
        ),
        (
            ValueError,
            "together and .* row by row.*here width, x, y: name them by subsample=",
            lambda: fk.from_numpyro(widths, X, Y, 1.0 + np.arange(N), subsample="rows"),
        ),
        (
            ValueError,
            r"argument 'groups' has the shape \(4,\): its first axis must have that length",
            lambda: fk.from_numpyro(grouped, X[:4, 0] > 0, Y, subsample={"rows": ["groups"]}),
        ),
        (
            ValueError,
            "names the argument 'yy', but the model was given x, y. Did you mean 'y'",
            lambda: fk.from_numpyro(regression, X, Y, subsample={"rows": ["x", "yy"]}),
        ),
        (
            TypeError,
            'as in subsample="rows".* not 6',
            lambda: fk.from_numpyro(regression, X, Y, subsample=6),
        ),
        (
            ValueError,
            r"could not be run on one row of its data \(x, y\): TypeError.*name those that are",
            lambda: fk.from_numpyro(reshaped, X, Y, subsample="rows"),
        ),
        (
            ValueError,
            "together and .* row by row.*here x: name them by subsample",
            lambda: fk.from_numpyro(regression, X, Y, subsample={"rows": "x"}),
        ),
        (
            ValueError,
            "not finite, nan, first in row 2",
            lambda: fk.from_numpyro(regression, X, np.where(np.arange(N) == 2, np.nan, Y), subsample="rows"),
        ),
    ],
)
def test_models_that_cannot_be_sampled_are_refused(error, words, call):
    with pytest.raises(error, match=words):
        call()


def test_widths_that_are_no_rows_may_be_told_apart():
    target = fk.from_numpyro(widths, X, Y, np.full(N, 2.0), subsample={"rows": ["x", "y"]})
    assert set(target.data) == {"x", "y"}


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ({"w": np.ones(2)}, "'scale' is constrained, but theta has only w"),
        (
            {"w": np.ones(2), "scale": 1.0, "b": 0.0},
            "theta has 'b', but the latent sites of the model are w, scale",
        ),
        ({"w": np.ones(3), "scale": 1.0}, r"theta\['w'\] has the shape \(3,\); the site has \(2,\)"),
        ({"w": np.ones(2), "scale": -1.0}, r"theta\['scale'\] is -1\., outside its support .*target\.init"),
        (np.ones(2), r"by name \(w, scale\), but theta is not a dictionary"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(init, words):
    with pytest.raises(ValueError, match=words):
        short(fk.from_numpyro(regression, X, Y), init=init)


def test_without_numpyro_it_is_said_what_to_install(monkeypatch):
    found = builtins.__import__

    def without(name, *rest, **keywords):
        if name == "numpyro":
            raise ImportError(name)
        return found(name, *rest, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'fokker\[numpyro\]'"):
        fk.from_numpyro(regression, X, Y)


@pytest.fixture(scope="module")
def cities():
    """Effects in a plate, others not, and a factor; the rows in a plate of their own."""
    place = np.repeat(np.arange(3), 5)
    seen = np.arange(15.0)

    def model(place, seen):
        mean = numpyro.sample("mean", dist.Normal(0, 5))
        with numpyro.plate("city", 3):
            effect = numpyro.sample("effect", dist.Normal(mean, 1))
            numpyro.deterministic("twice", 2 * effect)
            numpyro.sample("pair", dist.Normal(0, 1).expand([2]).to_event(1))
        numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
        numpyro.factor("penalty", -(mean**2))
        with numpyro.plate("row", place.shape[0]):
            numpyro.sample("seen", dist.Normal(effect[place], 0.5), obs=seen)

    labels = {"coords": {"city": ["Köln", "Bonn", "Trier"]}, "dims": {"w": "column"}}
    target = fk.from_numpyro(model, place, seen, **labels)
    trace = fk.sample(target, fk.samplers.ula(1e-3), init=target.init, steps=10, chains=2, progress=False)
    return model, place, seen, labels, trace


def test_plates_are_names_of_axes_and_the_log_likelihood_is_that_of_each_datum(cities):
    _, place, seen, _, trace = cities
    data = trace.to_arviz(log_likelihood=True)
    axes = {name: x.dims[2:] for name, x in data.posterior.data_vars.items()}
    assert axes == {
        "mean": (),
        "effect": ("city",),
        "twice": ("city",),
        "pair": ("city", "pair_dim_1"),
        "w": ("column",),
    }
    assert "effect[Köln]" in trace.flat().names
    np.testing.assert_array_equal(data.observed_data["seen"], seen)
    assert list(data.log_likelihood.data_vars) == ["seen"]
    off = (seen - np.asarray(trace.samples["effect"])[:, :, place]) / 0.5
    wanted = -(off**2) / 2 - np.log(0.5) - np.log(2 * np.pi) / 2
    np.testing.assert_allclose(data.log_likelihood["seen"], wanted, rtol=1e-4)
    np.testing.assert_allclose(trace.log_likelihood(thin=3), wanted[:, ::3], rtol=1e-4)


@pytest.mark.slow
def test_predictive_draws_are_of_the_model_at_each_draw(cities):
    """Of 300 standard normals, mean and spread within 5 standard errors: 1e-6 false alarms."""
    model, place, seen, labels, trace = cities
    drawn = trace.predict(key=jax.random.key(0))
    assert list(drawn) == ["seen"]
    off = (drawn["seen"] - np.asarray(trace.samples["effect"])[:, :, place]) / 0.5
    assert off.shape == (2, 10, 15)
    assert abs(off.mean()) < 5 / np.sqrt(300)
    assert abs(off.std() - 1) < 5 / np.sqrt(600)
    # Every draw has its own noise.
    assert len(np.unique(off)) == off.size
    target = fk.from_numpyro(model, place, seen, subsample={"row": ["place", "seen"]}, **labels)
    assert target.labels() == trace.labels
    theta = jax.tree.map(lambda x: x[0, 0], trace.samples)
    assert target.predictive(theta, jax.random.key(1))["seen"].shape == (15,)
    np.testing.assert_array_equal(target.known_data()["observed_data"]["seen"], seen)


@pytest.mark.slow
def test_the_prior_predictive_has_the_law_of_the_prior(cities):
    """mean ~ N(0, 25), an effect adds 1, a datum 1/4; within 5 standard errors of 500 draws."""
    model, place, seen, _, trace = cities
    target = fk.from_numpyro(model, place, seen)
    prior = fk.prior_predictive(target, 500, key=jax.random.key(0))
    assert set(prior) == {"mean", "effect", "twice", "pair", "w", "seen"}
    for values, variance in ((prior["mean"], 25), (prior["seen"][:, 0], 26.25), (prior["w"][:, 1], 1)):
        assert len(values) == 500
        assert abs(values.mean()) < 5 * np.sqrt(variance / 500)
        assert abs(values.var() / variance - 1) < 5 * np.sqrt(2 / 500)
    np.testing.assert_allclose(prior["twice"], 2 * prior["effect"], rtol=1e-6)
    data = trace.to_arviz(prior=prior, predictive=trace.predict(key=jax.random.key(0)))
    assert data.posterior_predictive["seen"].dims == ("chain", "draw", "row")
    assert data.prior_predictive["seen"].shape == (1, 500, 15)
    assert "effect" in data.prior
    assert "seen" not in data.prior


def test_what_cannot_draw_data_says_what_can():
    density = fk.Density(lambda theta: -jnp.sum(theta**2))
    trace = fk.sample(density, fk.samplers.ula(0.1), init=jnp.zeros(2), steps=2, progress=False)
    with pytest.raises(
        TypeError, match=r"Density has a density alone and cannot draw data.*fk\.from_numpyro"
    ):
        trace.predict(key=jax.random.key(0))
    with pytest.raises(TypeError, match="cannot draw data"):
        fk.prior_predictive(density, 10, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": {"effects": ["x"]}}, r"dims names 'effects', but the sites.*Did you mean 'effect'"),
        ({"coords": {"city": ["Köln"]}}, r"the axis 'city' has 3 entries in .* coords\['city'\] has 1"),
    ],
)
def test_names_of_axes_that_do_not_fit_the_sites_are_refused(cities, options, message):
    model, place, seen, _, _ = cities
    with pytest.raises(ValueError, match=message):
        fk.from_numpyro(model, place, seen, **options)


def test_axes_of_computed_values_are_named_only_where_one_can_be_meant():
    def model():
        with numpyro.plate("city", 3):
            score = numpyro.sample("score", dist.Normal(0, 1).expand([2]).to_event(1))
            numpyro.deterministic("total", score.sum(-1))
            numpyro.deterministic("swapped", score.T)
            padded = jnp.concatenate([score, jnp.zeros((3, 1))], 1)
            numpyro.deterministic("shares", jax.nn.softmax(padded))
        with numpyro.plate("one", 2, dim=-2), numpyro.plate("other", 2):
            numpyro.deterministic("both", jnp.zeros((2, 5)))

    dims = fk.from_numpyro(model).labels().dims
    assert dims == {"score": ("city", None), "total": ("city",), "swapped": (None, "city")}


def masked(y, seen, weight=1.0):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", y.shape[0]), handlers.mask(mask=seen), handlers.scale(scale=weight):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


@pytest.mark.slow
def test_masked_entries_are_no_data_and_a_scale_is_none_of_the_likelihood():
    y, seen = np.array([1.0, 2.0, 99.0]), np.array([True, True, False])
    theta = {"mean": jnp.zeros(())}
    want = [*(-(y[:2] ** 2) / 2 - np.log(2 * np.pi) / 2), np.nan]
    whole = fk.from_numpyro(masked, y, seen, weight=3.0)
    np.testing.assert_allclose(whole.pointwise(theta)["y"], want, rtol=1e-6)
    theirs = numpyro.infer.log_likelihood(
        masked, {"mean": np.zeros(1)}, y, seen, weight=3.0, parallel=True
    )  # which has 0 where a mask is
    np.testing.assert_allclose(theirs["y"][0], np.nan_to_num(want), rtol=1e-6)
    rows = fk.from_numpyro(masked, y, seen, subsample="rows")
    each = [rows.log_likelihood_of_theta(theta, jax.tree.map(lambda x, i=i: x[i], rows.data)) for i in (0, 2)]
    np.testing.assert_allclose(each, [want[0], want[2]], rtol=1e-6)
    trace = fk.sample(whole, samplers.ula(1e-3), init=whole.init, steps=3, chains=2, progress=False)
    assert trace.to_arviz(log_likelihood=True).log_likelihood["y"].shape == (2, 3, 2)


def test_a_mask_inside_an_event_leaves_out_what_is_masked_altogether():
    seen = np.array([[True, False], [False, False]])

    def model():
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mean, jnp.ones((2, 2))).mask(seen).to_event(1), obs=np.ones((2, 2)))

    values = fk.from_numpyro(model).pointwise({"mean": jnp.zeros(())})["y"]
    assert np.isfinite(values).tolist() == [True, False]


def test_a_prior_that_cannot_be_drawn_is_said_in_a_sentence():
    def model(y):
        mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    with pytest.raises(ValueError, match=r"cannot draw from, such as dist\.ImproperUniform .*proper prior"):
        fk.prior_predictive(fk.from_numpyro(model, np.zeros(3)), 3, key=jax.random.key(0))
