"""`fk.models.Network`: posteriors over weights, against closed forms; its manners; its errors."""

import copy
import datetime
import math
import pickle
import re
import uuid
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from flax import linen, nnx
from scipy import sparse, special, stats
from sklearn.base import clone, is_classifier

import fokker as fk
from chromium import skipped_headings
from conftest import quick_compiling
from fokker._core.files import DamagedFileError, read_arrays, write_arrays
from fokker._core.this_chain import CHAIN
from fokker.models import inputs
from fokker.models.estimator import NotFittedError, remember_columns
from fokker.models.fits import as_fitted
from fokker.models.network import calibration as network_calibration
from fokker.models.network import estimator as network_estimator
from fokker.models.network import metrics, report
from fokker.models.network.calibration import (
    chains_of_folds,
    chosen_calibration,
    derived_seed,
    fold_of_rows,
    fold_probabilities,
    of_all_chains,
    without_folds,
)
from fokker.models.network.networks import check_outputs, functional, paths
from fokker.models.network.posterior import (
    FITTED,
    NetworkLogLikelihood,
    Outputs,
    prior_scales,
    sampled_leaves,
)
from fokker.models.network.predict import Predictive
from fokker.models.network.report import stages
from fokker.models.network.settings import StepSettings
from fokker.models.network.training import Lengths, NetworkPosterior
from fokker.run import lockstep
from interrupted import interrupt_at

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 3)).astype(np.float32)
LABELS = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
Y = X @ np.array([1.0, -2.0, 0.5]) + 0.3 * GENERATOR.normal(size=60)
KEYS = jax.random.split(jax.random.key(0), 2)
QUICK = {
    "batch_size": 20,
    "passes": 10,
    "warm_start_passes": 10,
    "burn_in_passes": 1,
    "draws": 10,
    "calibration": 0,
    "progress": False,
}


@pytest.fixture(scope="module")
def fitted():
    with quick_compiling():
        return fk.models.Network([4], **QUICK).fit(X, LABELS)


def test_scores_agree_with_their_definitions():
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    labels = np.array([0, 1, 1, 1])
    assert metrics.accuracy(p, labels) == 0.75
    assert metrics.negative_log_likelihood(p, labels) == pytest.approx(-np.mean(np.log([0.9, 0.4, 0.7, 0.8])))
    assert metrics.brier(p, labels) == pytest.approx(2 * np.mean([0.01, 0.36, 0.09, 0.04]))
    # Two bins: all confidences lie in the upper one, of mean 0.75, and three of four are right.
    assert metrics.expected_calibration_error(p, labels, 2) == pytest.approx(0.0, abs=1e-12)
    # Five bins (0.4, 0.6], (0.6, 0.8], (0.8, 1]: |0 - 0.6|/4 + |1 - 0.75|/2 + |1 - 0.9|/4.
    assert metrics.expected_calibration_error(p, labels, 5) == pytest.approx(0.15 + 0.125 + 0.025)
    assert metrics.entropy(np.array([[0.5, 0.5], [1.0, 0.0]])) == pytest.approx([np.log(2), 0])
    # Of six pairs four are in order and two are ties.
    assert metrics.auroc(np.array([1, 2, 2]), np.array([2, 3])) == pytest.approx(5 / 6)
    assert metrics.auroc(np.zeros(3), np.zeros(4)) == 0.5
    y, means, deviations = np.zeros((1, 1)), np.array([[[0.0]], [[1.0]]]), np.ones((2, 1, 1))
    density = (1 + np.exp(-0.5)) / 2 / np.sqrt(2 * np.pi)
    assert metrics.gaussian_negative_log_likelihood(y, means, deviations) == pytest.approx(-np.log(density))
    with pytest.raises(ValueError, match=r"bins must be a whole number of at least 1; 0 was given"):
        metrics.reliability(p, labels, 0)
    with pytest.raises(ValueError, match="one of them is empty"):
        metrics.auroc(np.zeros(0), np.zeros(1))


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        for _ in range(2):
            x = linen.tanh(linen.Dense(4)(x))
        return linen.Dense(2)(x)


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(3, 4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.out = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.out(self.dropout(nnx.tanh(self.first(x))))


def plain(params, x):
    return jnp.tanh(x @ params["a"]) @ params["b"]


MODELS = {
    "sizes": ([4], None, "1"),
    "equinox": (eqx.nn.MLP(3, 2, 4, 1, key=KEYS[0]), None, "layers.1"),
    "built": (lambda key: eqx.nn.MLP(3, 2, 4, 1, key=key), None, "layers.1"),
    "linen": (Linen(), None, "Dense_2"),
    "nnx": (Nnx(nnx.Rngs(0)), None, "out"),
    "function": (plain, {"a": jnp.ones((3, 4)), "b": jnp.ones((4, 2))}, "b"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_networks_of_every_framework_are_functions_of_their_weights(kind):
    model, params, last = MODELS[kind]
    network = functional(model, params, "relu", X[0], 2, KEYS)
    weights = jax.tree.map(lambda x: x[0], network.starts)
    # The outputs of rows, and a scale for every leaf: √(2/m), and 1 for biases.
    assert jax.vmap(lambda x: network.apply(weights, x))(X).shape == (60, 2)
    scales = jax.tree.leaves(prior_scales("fan-in", weights, network.output_axis))
    for leaf, scale in zip(jax.tree.leaves(weights), scales, strict=True):
        m = leaf.size // leaf.shape[network.output_axis]
        assert scale == pytest.approx(1.0 if leaf.ndim == 1 else (2 / m) ** 0.5)
    names = paths(weights)
    chosen = jax.tree.leaves(sampled_leaves("last", weights, lambda: network.last_layer(X[0])))
    assert [name for name, one in zip(names, chosen, strict=True) if one] == [
        name for name in names if name.startswith(last)
    ]
    differ = any(np.any(x[0] != x[1]) for x in jax.tree.leaves(network.starts))
    assert differ == (kind in ("sizes", "built", "linen"))


class LinenAverages(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(linen.BatchNorm(use_running_average=True)(linen.Dense(4)(x)))


class NnxAverages(nnx.Module):
    def __init__(self, rngs):
        self.stem, self.norm = nnx.Linear(3, 4, rngs=rngs), nnx.BatchNorm(4, rngs=rngs)
        self.head = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.head(self.norm(self.stem(x)))


def trained(averages):
    """Averages as after training: none is what a fresh network has."""
    return jax.tree.map(lambda x: x + 0.7, averages)


class OneDense(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(4)(x)


def test_dropout_of_equinox_is_off():
    linear = eqx.nn.Linear(3, 2, key=KEYS[0])
    net = eqx.nn.Sequential([eqx.nn.Dropout(0.5), linear])
    for model, params in ((net, None), (net, net), (lambda key: net, None)):
        network = functional(model, params, "relu", X[0], 2, KEYS)
        np.testing.assert_allclose(network.apply(network.first_start, X[0]), linear(X[0]), rtol=1e-5)


@pytest.mark.parametrize(
    "params",
    [{"Dense_0": {"kernel": jnp.ones((5, 4)), "bias": jnp.ones(4)}}, {"Dense_0": {"bias": jnp.ones(4)}}, {}],
    ids=["shape", "missing", "none"],
)
def test_parameters_that_do_not_fit_a_module_are_refused_in_a_sentence(params):
    with pytest.raises(ValueError, match=r"could not be applied to a row of X|has no parameters"):
        check_outputs(functional(OneDense(), params, "relu", X[0], 4, KEYS), X[0], 4, "this test")


def test_a_trained_linen_network_keeps_its_averages():
    module = LinenAverages()
    variables = module.init(KEYS[1], X[:1])
    variables = {"params": variables["params"], "batch_stats": trained(variables["batch_stats"])}
    network = functional(module, variables, "relu", X[0], 2, KEYS)
    outputs = jax.vmap(lambda x: network.apply(network.first_start, x))(X[:5])
    np.testing.assert_allclose(outputs, module.apply(variables, X[:5]), rtol=1e-5)
    assert "batch_stats" not in " ".join(paths(network.starts))
    # Without them they would be those of a fresh network.
    with pytest.raises(
        ValueError, match=r"params has no batch_stats, .* params=\{'params': …, 'batch_stats': …\}"
    ):
        functional(module, variables["params"], "relu", X[0], 2, KEYS)
    # A network that has nothing beside its parameters takes both.
    plain_variables = Linen().init(KEYS[0], X[:1])
    for params in (plain_variables, plain_variables["params"]):
        assert paths(functional(Linen(), params, "relu", X[0], 2, KEYS).starts)[0] == "Dense_0.bias"


@pytest.mark.parametrize("kind", ["module", "state", "params"])
def test_a_trained_nnx_network_keeps_its_averages(kind):
    module, fresh = NnxAverages(nnx.Rngs(1)), NnxAverages(nnx.Rngs(2))
    module.norm.mean[...] = module.norm.mean[...] + 0.7
    module.eval()
    wanted = module(X[:5])
    params = {"module": None, "state": nnx.state(module), "params": module}[kind]
    network = functional(module if kind == "module" else fresh, params, "relu", X[0], 2, KEYS)
    outputs = jax.vmap(lambda x: network.apply(network.first_start, x))(X[:5])
    np.testing.assert_allclose(outputs, wanted, rtol=1e-5)


def test_a_whole_equinox_module_is_where_a_network_starts():
    first, second = (eqx.nn.MLP(3, 2, 4, 1, key=key) for key in KEYS)
    network = functional(first, second, "relu", X[0], 2, KEYS)
    np.testing.assert_array_equal(network.apply(network.first_start, X[0]), second(X[0]))


def test_columns_of_another_order_or_name_are_refused(fitted):
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    named = copy.copy(fitted)
    remember_columns(named, frame)
    np.testing.assert_array_equal(named.predict(frame), fitted.predict(X))
    for method in (
        named.predict,
        named.predict_proba,
        named.uncertainty,
        lambda X: named.partial_fit(X, LABELS),
    ):
        with pytest.raises(
            ValueError, match=r"should match those .* passed during fit: they are in another order"
        ):
            method(frame[["b", "a", "c"]])
    with pytest.raises(ValueError, match="unseen in fit: 'd'; missing: 'c'"):
        named.predict(frame.rename(columns={"c": "d"}))
    with pytest.warns(UserWarning, match="X has no names of columns, but Network was fitted with names"):
        named.predict(X)
    with pytest.warns(UserWarning, match="X has the names of columns, but Network was fitted without names"):
        fitted.predict(frame)
    remember_columns(named, X)
    assert not hasattr(named, "feature_names_in_")


def same_network(stored, net):
    np.testing.assert_array_equal(stored.predict_proba(X[:7]), net.predict_proba(X[:7]))
    np.testing.assert_array_equal(stored.classes_, net.classes_)
    assert jax.tree.structure(stored.parameters(3)) == jax.tree.structure(net.parameters(3))
    assert stored.score(X, LABELS) == net.score(X, LABELS)


def test_a_network_is_saved_without_its_rows_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "net.npz")
    loaded = fk.models.Network.load(tmp_path / "net.npz")
    same_network(loaded, fitted)
    assert {**loaded.get_params(), "model": (4,)} == {**fitted.get_params(), "model": (4,)}
    with pytest.raises(
        ValueError, match=r"partial_fit needs the rows of the fits before.*call fit with all rows.*pickle"
    ):
        loaded.partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="which a stored network does not have"):
        loaded.report(tmp_path / "page.html", X, LABELS)
    with pytest.raises(NotFittedError):
        fk.models.Network([4]).save(tmp_path / "none.npz")


def test_a_module_is_given_to_load_and_its_averages_are_in_the_file(tmp_path):
    module = LinenAverages()
    variables = module.init(KEYS[1], X[:1])
    variables = {"params": variables["params"], "batch_stats": trained(variables["batch_stats"])}
    # As after a fit, without its time: draws of the last layer, and the others fixed.
    net = fk.models.Network(module, params=variables, sampled="last")
    net.input_shape_, net._outputs, net.classes_ = (3,), 2, np.array(["down", "up"])
    net._seed = 0
    net._posterior = net._new_posterior(X[0], 2, net._seed)
    start = net._posterior.network.first_start
    weights, net._fixed = eqx.partition(start, {**jax.tree.map(lambda _: False, start), "Dense_1": True})
    net.draws_ = {"weights": jax.tree.map(lambda x: jnp.stack([x, 2 * x, x, -x]), weights)}
    net.save(tmp_path / "net.npz")
    with pytest.raises(
        ValueError, match=r"everything but model, which is a program: .*load\(path, model=…\)"
    ):
        fk.models.Network.load(tmp_path / "net.npz")
    same_network(fk.models.Network.load(tmp_path / "net.npz", model=module), net)
    same_network(pickle.loads(pickle.dumps(net)), net)


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["2024-01-01", "NaT"], "datetime64[ns]"),
        np.array([1, 2], "timedelta64[D]"),
        np.array([b"a", b"bc"]),
        np.array([2**60 + 1, 2**60 + 2]),
        np.array([1j, 2]),
        np.array([np.int64(1), 2.5], object),
        np.array(["a", None], object),
    ],
    ids=str,
)
def test_classes_of_any_type_are_stored(fitted, classes, tmp_path):
    net = copy.copy(fitted)
    net.classes_ = classes
    net.save(tmp_path / "net.npz")
    loaded = fk.models.Network.load(tmp_path / "net.npz").classes_
    assert loaded.dtype == classes.dtype
    assert [str(x) for x in loaded] == [str(x) for x in classes]


@pytest.mark.parametrize("label", [datetime.date(2024, 1, 1), uuid.UUID(int=1), (1, 2), b"a"], ids=str)
def test_classes_that_a_file_cannot_hold_are_refused_by_name(fitted, label, tmp_path):
    net = copy.copy(fitted)
    net.classes_ = np.fromiter([label, label], object, 2)
    name = type(label).__name__
    with pytest.raises(TypeError, match=f"classes has .*, of the type {name}, which a file cannot hold"):
        net.save(tmp_path / "net.npz")
    assert not (tmp_path / "net.npz").exists()
    assert pickle.loads(pickle.dumps(net)).classes_[0] == label


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": {"model": [6000, 6000]}},
        {"parameters": {"model": [10**7, 10**7]}},
        {"fitted": {"input_shape_": [10**7, 10**6]}},
        {"fitted": {"_outputs": 10**9}},
        {"labels": {"classes": ["a", "b", "c"]}},
    ],
    ids=str,
)
def test_a_file_of_another_size_is_refused_before_it_takes_memory(fitted, changes, tmp_path, monkeypatch):
    fitted.save(tmp_path / "net.npz")
    header, arrays = read_arrays(tmp_path / "net.npz", "fitted network", 1)
    for name, entries in changes.items():
        header[name] = {**header[name], **entries}
    write_arrays(tmp_path / "net.npz", header, arrays)
    monkeypatch.setattr(network_estimator, "functional", lambda *_: pytest.fail("weights were drawn"))
    with pytest.raises(DamagedFileError, match="is not a fitted network"):
        fk.models.Network.load(tmp_path / "net.npz")


def test_only_one_start_is_made_of_a_file(fitted, tmp_path):
    fitted.save(tmp_path / "net.npz")
    header, arrays = read_arrays(tmp_path / "net.npz", "fitted network", 1)
    header["parameters"]["chains"] = 10**15
    write_arrays(tmp_path / "net.npz", header, arrays)
    same_network(fk.models.Network.load(tmp_path / "net.npz"), fitted)
    params = fitted.parameters(0)
    wider = jax.tree.map(lambda x: jnp.concatenate([x, x], -1), params)
    other = {"model": lambda p, x: x[:2] + 0 * p[0]["bias"][0], "params": wider, "prior": 1.0}
    with pytest.raises(ValueError, match=r"not the one that was saved: 0\.bias has the shape \(8,\)"):
        fk.models.Network.load(tmp_path / "net.npz", **other)


def test_a_pickled_network_has_all_that_partial_fit_needs(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    same_network(again, fitted)
    # partial_fit goes on from these.
    for old, new in ((fitted._positions, again._positions), (fitted._data, again._data)):
        assert jax.tree.structure(old) == jax.tree.structure(new)
        jax.tree.map(np.testing.assert_array_equal, old, new)
    pickle.loads(pickle.dumps(fk.models.Network([4])))


def problem(likelihood, outputs, noise_scale=None, network=None):
    network = network or functional([], None, "relu", X[0], outputs, KEYS)
    scales = prior_scales(0.7, jax.tree.map(lambda x: x[0], network.starts), -1)
    return NetworkPosterior(network, scales, likelihood, noise_scale, outputs, 0, False)


@pytest.mark.parametrize(
    ("likelihood", "outputs"), [("categorical", 2), ("gaussian", 1), ("heteroscedastic", 2)]
)
def test_the_gradient_of_the_potential_is_its_difference_quotient(likelihood, outputs, x64):
    made = problem(likelihood, outputs)
    targets = (X[:, 0] > 0).astype(np.int32) if likelihood == "categorical" else Y[:, None]
    everything = jax.tree.map(lambda _: True, made.scales)
    target = made.target(
        {"x": X.astype(float), "y": targets}, everything, jax.tree.map(lambda _: None, made.scales)
    )
    theta = jax.tree.map(lambda x: jnp.asarray(x[0], float) + 0.1, made.start())
    direction = jax.tree.map(jnp.ones_like, theta)
    h = 1e-5
    up, down = (target.potential(jax.tree.map(lambda x, s=s: x + s * h, theta)) for s in (1, -1))
    gradient = jax.grad(target.potential)(theta)
    slope = sum(
        jnp.sum(a * b) for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True)
    )
    assert float(slope) == pytest.approx(float(up - down) / (2 * h), rel=1e-6)
    # The prior is that of the scales: without data U is Σθ²/(2 s²), and the prior of log σ.
    weights = sum(float(jnp.sum(x**2)) for x in jax.tree.leaves(theta["weights"])) / (2 * 0.7**2)
    noise = float(jnp.sum((theta["log_noise"] + 1) ** 2)) / 2 if "log_noise" in theta else 0.0
    assert float(-target.log_prior(theta)) == pytest.approx(weights + noise)


def test_the_likelihoods_are_those_of_the_textbook_and_predictions_have_their_moments(x64):
    """The outputs of a network that gives its input: classes, means, or means and log variances."""
    outputs = Outputs(lambda weights, x: x, None)
    f = np.array([0.3, -1.2, 0.8, 0.5])
    two = np.array([0.4, -0.9])
    cases = {
        "categorical": (f, 2, {}, None, stats.multinomial(1, special.softmax(f)).logpmf([0, 0, 1, 0])),
        "gaussian": (f[:2], two, {}, 0.6, stats.norm(f[:2], 0.6).logpdf(two).sum()),
        "heteroscedastic": (f, two, {}, None, stats.norm(f[:2], np.exp(f[2:] / 2)).logpdf(two).sum()),
    }
    noise = {"log_noise": jnp.array([-0.5, 0.2])}
    learned = stats.norm(f[:2], np.exp(noise["log_noise"])).logpdf(two).sum()
    cases["learned"] = (f[:2], two, noise, None, learned)
    for kind, (x, y, theta, noise_scale, wanted) in cases.items():
        likelihood = NetworkLogLikelihood(outputs, "gaussian" if kind == "learned" else kind, noise_scale)
        theta = {"weights": None, **theta}
        value = likelihood(theta, {"x": jnp.asarray(x), "y": jnp.asarray(y)})
        assert float(value) == pytest.approx(wanted)
        predicted = Predictive(likelihood)(theta, jnp.asarray(x))
        if kind == "categorical":
            np.testing.assert_allclose(predicted, special.softmax(f))
        else:
            logs = stats.norm(*(np.asarray(part) for part in predicted)).logpdf(two)
            assert logs.sum() == pytest.approx(wanted)


def test_the_curvature_is_that_of_the_output_with_the_least_noise():
    """κ of a Gaussian goes with 1/σ²: the most certain output allows the smallest step."""
    network = functional([], None, "relu", X[0], 2, KEYS)
    of_noise = {
        noise: problem("gaussian", 2, np.asarray(noise), network).curvature(X)
        for noise in ((1.0, 1.0), (0.1, 1.0), (1.0, 0.1))
    }
    assert of_noise[0.1, 1.0] == pytest.approx(100 * of_noise[1.0, 1.0])
    assert of_noise[1.0, 0.1] == pytest.approx(100 * of_noise[1.0, 1.0])
    made = problem("gaussian", 2, None, network)
    positions = {"weights": network.starts, "log_noise": np.log([[1.0, 0.1], [1.0, 1.0]])}
    fixed = jax.tree.map(lambda _: None, made.scales)
    assert made.curvature(X, positions, fixed) == pytest.approx(100 * of_noise[1.0, 1.0])


@pytest.mark.slow
def test_a_linear_network_has_the_posterior_of_linear_regression(optimised):
    # y has mean 0 and deviation 1, so that the network sees it as it is.
    y = (Y - Y.mean()) / Y.std()
    sigma, prior = 0.5, 1.3
    net = fk.models.Network(
        [],
        likelihood="gaussian",
        noise_scale=sigma,
        prior=prior,
        sampler="sghmc",
        learning_rate=0.005,
        momentum=0.95,
        batch_size=60,
        passes=20_000,
        burn_in_passes=500,
        warm_start_passes=500,
        draws=1000,
        chains=4,
        progress=False,
    ).fit(X, y)
    design = np.c_[np.ones(60), X]
    covariance = np.linalg.inv(design.T @ design / sigma**2 + np.eye(4) / prior**2)
    mean = covariance @ design.T @ y / sigma**2
    draws = net.draws_["weights"][0]
    theta = np.c_[draws["bias"], draws["weight"][:, :, 0]]
    deviation = np.sqrt(np.diag(covariance))
    # At least 1,000 effective draws of 4,000: standard errors of 0.032 for means and 0.045 for variances, in
    # units of the deviation and the variance. Five of them over 4 + 4 numbers: a false alarm in 2·10⁵.
    assert np.max(np.abs(theta.mean(0) - mean) / deviation) < 0.16
    ratio = theta.var(0) / deviation**2
    assert np.max(np.abs(ratio - 1)) < 0.225
    # Negative controls: the posterior of another prior or of half the data would fail.
    other = np.linalg.inv(design[:30].T @ design[:30] / sigma**2 + np.eye(4) / prior**2)
    assert np.max(np.abs(theta.var(0) / np.diag(other) - 1)) > 0.3
    # The predictive deviation has both parts.
    predicted, std = net.predict(X[:5], return_std=True)
    np.testing.assert_allclose(predicted, design[:5] @ mean, atol=0.05)
    exact = np.sqrt(sigma**2 + np.einsum("ij,jk,ik->i", design[:5], covariance, design[:5]))
    np.testing.assert_allclose(std, exact, rtol=0.03)


def test_a_fit_has_the_manners_of_scikit_learn(fitted):
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert list(fitted.classes_) == ["down", "up"]
    assert set(fitted.predict(X)) <= {"down", "up"}
    assert fitted.score(X, LABELS) > 0.9
    assert is_classifier(fitted)
    assert not is_classifier(fk.models.Network(likelihood="gaussian"))
    assert fitted.n_features_in_ == 3
    again = clone(fitted)
    assert again.get_params()["draws"] == 10
    assert not hasattr(again, "draws_")
    # The same seed, to rounding: the fixture is compiled with optimisations, this is not. Chains differ.
    np.testing.assert_allclose(again.fit(X, LABELS).predict_proba(X), probabilities, atol=1e-3)
    assert all(np.any(x[0] != x[1]) for x in jax.tree.leaves(fitted.trace_.samples))
    with pytest.raises(NotFittedError, match="not fitted yet: call fit"):
        fk.models.Network([4]).predict(X)


def test_uncertainty_adds_up_and_rows_do_not_depend_on_each_other(fitted):
    u = fitted.uncertainty(X)
    np.testing.assert_allclose(u.entropy, metrics.entropy(fitted.predict_proba(X)), atol=1e-5)
    np.testing.assert_allclose(u.entropy, u.mutual_information + u.expected_entropy, atol=1e-6)
    assert np.all(u.mutual_information >= 0)
    assert np.all(u.mutual_information <= np.log(2))
    np.testing.assert_allclose(fitted.predict_proba(X[:7]), fitted.predict_proba(X)[:7], atol=1e-6)
    assert fitted.out_of_distribution(X, X) == 0.5
    scores = fitted.evaluate(X, LABELS, bins=10)
    assert scores.accuracy == fitted.score(X, LABELS)
    assert "ECE, 10 bins" in str(scores)
    with pytest.raises(ValueError, match="by is one of entropy, mutual_information, not 'variance'"):
        fitted.out_of_distribution(X, X, by="variance")


@pytest.mark.slow
def test_the_last_layer_alone_moves_and_partial_fit_goes_on(tmp_path):
    net = fk.models.Network([4], sampled="last", schedule="cyclical", **{**QUICK, "burn_in_passes": 0})
    net.fit(X[:40], LABELS[:40])
    first, second = (net.parameters(i) for i in (0, 5))
    np.testing.assert_array_equal(first[0]["weight"], second[0]["weight"])
    assert np.any(first[1]["weight"] != second[1]["weight"])
    before = net.parameters(0)[0]["weight"]
    net.partial_fit(X[40:], LABELS[40:])
    assert net.trace_.origin.target.size == 60
    np.testing.assert_array_equal(net.parameters(0)[0]["weight"], before)
    path = tmp_path / "report.html"
    net.report(path, X, LABELS, 3 * X)
    text = path.read_text()
    assert "AUROC of other data, by mutual information" in text
    assert text.count("<figure data-figure=") == 5
    assert not skipped_headings(text)
    assert "></th>" not in text


def test_draws_of_a_cycle_are_from_its_second_half():
    lengths = Lengths.of(10_000, 100, 40, None, None, 20, 4)
    assert (lengths.period, lengths.thin, lengths.draws) == (1000, 100, 40)
    numbers = np.arange(1, 41) * 100
    assert set((numbers[lengths.selected()] - 1) % 1000) == {599, 699, 799, 899, 999}
    constant = Lengths.of(10_000, 100, 40, None, 5, 20, None)
    assert (constant.warm_start, constant.burn_in, constant.thin) == (500, 1000, 200)


def test_settings_are_those_of_an_optimiser():
    def settings(name):
        return StepSettings(name, 0.01, 0.9, "constant", 4, "two-point")

    sghmc = settings("sghmc").make(10_000, 1.0, 0)
    assert float(sghmc.step_size) == pytest.approx(1e-3)
    dynamics = sghmc.on(fk.Density(lambda x: -jnp.sum(x**2) / 2)).placed
    D = np.asarray(dynamics.D.as_matrix({"theta": jnp.zeros(1), "r": jnp.zeros(1)}))
    assert D[1, 1] * 1e-3 == pytest.approx(0.1)  # 1 - momentum
    # The thermostat swings with the friction: √(2/μ) = C, which is 0.1/1e-3.
    thermostat_mass = settings("sgnht").make(10_000, 1.0, 0).dynamics.thermostat_mass
    assert float((2 / thermostat_mass) ** 0.5) == pytest.approx(100)
    assert float(settings("sgld").make(10_000, 1.0, 0).step_size) == pytest.approx(1e-6)
    cyclical = StepSettings("sghmc", 0.01, 0.9, "cyclical", 4, "two-point").make(10_000, 1.0, 100)
    assert float(cyclical.step_size(50)) == pytest.approx(5e-4)


BAD_FITS = {
    "NaN": (
        np.where(np.eye(60, 3) > 0, np.nan, X),
        LABELS,
        "X has a value that is not finite.*row 0, column 0",
    ),
    "text": (
        np.array([["1", "red", "2"]] * 60, object),
        LABELS,
        "column 1 of X has 'red', which is not a number",
    ),
    "text of NumPy": (np.array([["a"]] * 60), LABELS, "column 0 of X has 'a', which is not a number"),
    "length": (X, LABELS[:10], "y has 10 entries, but X has 60 rows"),
    "one class": (X, ["up"] * 60, "y has one class only, 'up'"),
    "empty": (X[:0], LABELS[:0], "X has no rows"),
    "one axis": (X[:, 0], LABELS, r"one row per datum.*shape is \(60,\).*reshape"),
    "fractions": (X, Y, "y is continuous.*likelihood='gaussian'"),
    "one-hot": (X, np.eye(2)[(X[:, 0] > 0).astype(int)], r"one label per row.*argmax"),
    "missing label": (X, np.where(X[:, 0] > 0, np.nan, 1), "y has nan in row 0, which is no label"),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_data_are_refused_in_a_sentence(case):
    rows, labels, message = BAD_FITS[case]
    with pytest.raises(ValueError, match=message):
        fk.models.Network([4], **QUICK).fit(rows, labels)


BAD_SETTINGS = {
    "likelihood": ({"likelihood": "categoricall"}, "likelihood is one of categorical"),
    "sampler": ({"sampler": "sghcm"}, "sampler is one of sgnht, sghmc, sgld, psgld"),
    "prior": ({"prior": -1}, "prior is a standard deviation above 0.*-1 was given"),
    "prior path": ({"prior": {"conv": 1.0}}, "prior names 'conv'.*paths are 0.bias"),
    "sampled": ({"sampled": "conv"}, "sampled='conv' selects no parameter"),
    "momentum": ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
    "rate": ({"learning_rate": 0}, "learning_rate must be a positive number"),
    "draws": ({"draws": 0}, "draws must be a whole number of at least 1"),
    "passes": ({"passes": -1}, "passes must be a number of passes"),
    "activation": ({"activation": "rleu"}, "activation is one of relu"),
    "noise": ({"noise_scale": 1.0}, "noise_scale is for likelihood='gaussian'"),
    "schedule": ({"schedule": "cosine"}, "schedule is one of constant, cyclical"),
    "calibration": (
        {"calibration": 0.01},
        "calibration=0.01 of 60 rows is none of them: give a larger share",
    ),
    "rate of a sampler": (
        {"sampler": fk.samplers.sghmc(0.01, 1.0), "learning_rate": 0.1},
        r"learning_rate=0.1 has no effect on a sampler of fk.samplers: make the sampler with it",
    ),
    "schedule of a sampler": (
        {"sampler": fk.samplers.sghmc(0.01, 1.0), "schedule": "cyclical", "burn_in_passes": None},
        "schedule='cyclical' has no effect on a sampler of fk.samplers",
    ),
    "momentum of sgld": (
        {"sampler": "sgld", "momentum": 0.5},
        "momentum=0.5 has no effect on sampler='sgld': leave it out, or give sampler='sghmc'",
    ),
    "cycles of none": ({"cycles": 8}, "cycles=8 has no effect with schedule='constant': give schedule="),
    "burn-in of cycles": (
        {"schedule": "cyclical"},
        "burn_in_passes=1 has no effect with schedule='cyclical', .*: leave one of them out",
    ),
    "activation of a module": (
        {"model": plain, "params": [], "activation": "tanh"},
        "activation='tanh' is for a model of layer sizes, and this one has its own",
    ),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_settings_are_refused_in_a_sentence(case):
    settings, message = BAD_SETTINGS[case]
    with pytest.raises(ValueError, match=message):
        fk.models.Network(**{"model": [4], **QUICK, **settings}).fit(X, LABELS)


def test_targets_that_are_all_the_same_have_the_scale_one():
    """The deviation of 60 times 0.1 is 1e-17: a noise_scale in its units would be 10¹⁶."""
    net = fk.models.Network([4], likelihood="gaussian")
    targets = net._new_targets(np.stack([np.full(60, 0.1), Y], 1), 60, None)
    np.testing.assert_allclose(net._scale, [1, Y.std()])
    np.testing.assert_allclose(targets.mean(0), 0, atol=1e-6)


def test_parameters_that_a_chain_has_from_its_start_do_not_change(fitted):
    """partial_fit goes on with what it began with, and would not look at them."""
    net = copy.copy(fitted)
    changes = {
        "prior": 0.5,
        "sampled": "last",
        "chains": 3,
        "random_state": 7,
        "calibration": 0.2,
        "model": [3],
    }
    for name, value in changes.items():
        before = getattr(net, name)
        with pytest.raises(ValueError, match=f"goes on with a chain that cannot change {name}: set it back"):
            net.set_params(**{name: value}).partial_fit(X, LABELS)
        net.set_params(**{name: before})
    with pytest.raises(ValueError, match="classes has 'left', which the first call did not have: name all"):
        net.partial_fit(X, LABELS, classes=["up", "left"])
    regression = fk.models.Network([4], likelihood="gaussian", **QUICK)
    with pytest.raises(ValueError, match="classes are for labels, and likelihood='gaussian' has none"):
        regression.partial_fit(X, Y, classes=[0, 1])


def leaves(net):
    return [np.asarray(x) for x in jax.tree.leaves(net.draws_)]


@pytest.mark.slow
def test_every_partial_fit_has_noise_of_its_own(monkeypatch):
    """Draws of a logistic regression that one row more hardly changes: 400 of them, far apart.

    Those of one noise have a correlation of 0.99, and independent ones of 0 ± 0.05; below 0.3 by 6 standard
    errors. Those of a fit do not differ from what they were, and a pickle goes on to the same bits.
    """
    run, seeds = NetworkPosterior.run, []

    def recorded(self, *given, seed, **settings):
        seeds.append(seed)
        return run(self, *given, seed=seed, **settings)

    monkeypatch.setattr(NetworkPosterior, "run", recorded)
    usual = {**QUICK, "batch_size": None, "passes": 8000, "burn_in_passes": 400, "draws": 400, "chains": 1}
    net = fk.models.Network([], learning_rate=0.1, random_state=3, **usual).fit(X[:40], LABELS[:40])
    before, twin = [leaves(net)], pickle.loads(pickle.dumps(net))
    for one in (net, twin):
        for row in (40, 41):
            one.partial_fit(X[row : row + 1], LABELS[row : row + 1])
            before += [leaves(one)]
        twin = pickle.loads(pickle.dumps(twin))
    fit, first, second, *again = before
    assert seeds[1] == net._seed == 3
    assert len({*seeds}) == 4 == len(seeds) - 2  # the warm start, and twice the same two
    for a, b, c, *others in zip(fit, first, second, *again, strict=True):
        for i in np.ndindex(a.shape[1:]):
            correlations = np.corrcoef([x[(slice(None), *i)] for x in (a, b, c)])
            assert np.all(np.abs(correlations[np.triu_indices(3, 1)]) < 0.3)
        np.testing.assert_array_equal(others, [b, c])


@pytest.mark.parametrize("when", ["run", "calibrated"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_partial_fit_that_fails_leaves_the_network_as_it_was(fitted, monkeypatch, when, error):
    net = as_fitted(fitted)

    def failed(*given, **settings):
        raise error

    before = net._data, leaves(net), net.predict_proba(X), net._positions
    owner = {"run": NetworkPosterior, "calibrated": network_estimator}[when]
    if when == "calibrated":
        monkeypatch.setattr(NetworkPosterior, "run", lambda *_, **__: net.trace_)
    monkeypatch.setattr(owner, when, failed)
    for fit, rows in ((net.partial_fit, X[:5]), (net.partial_fit, X[5:6]), (net.fit, X + 1)):
        with pytest.raises(error):
            fit(rows, LABELS[: len(rows)])
    assert net._data is before[0]
    assert net._positions is before[3]
    assert net._seed_of_run == net._seed
    jax.tree.map(np.testing.assert_array_equal, leaves(net), before[1])
    np.testing.assert_array_equal(net.predict_proba(X), before[2])


@pytest.fixture
def seeds(monkeypatch):
    """The seeds of the fits that follow, which draw nothing."""
    known = []

    def sample(self, positions, lengths):
        self._positions, self.draws_ = positions, {}
        known.append(self._seed_of_run)
        return self

    monkeypatch.setattr(fk.models.Network, "_sample", sample)
    return known


def test_every_fit_and_fold_has_a_seed_of_its_own(seeds):
    """The first has that of `random_state`, and the warm start the one after it."""
    net = fk.models.Network([3], **{**QUICK, "warm_start_passes": 0}, random_state=7)
    for row in range(0, 40, 10):
        net.partial_fit(X[row : row + 10], LABELS[row : row + 10], classes=["down", "up"])
    first = list(seeds)
    folds = [derived_seed(seed, 1 + fold) for seed in first for fold in range(5)]
    assert first[0] == 7
    assert len({*first, 8, *folds}) == 4 + 1 + 20
    net.fit(X[:10], LABELS[:10]).partial_fit(X[10:20], LABELS[10:20])
    assert seeds[4:] == first[:2]


def test_a_share_that_calibrates_is_one_of_all_rows(seeds):
    """Of rows that come one by one too: as many are left out as one fit to all would leave out."""
    quick = {**QUICK, "warm_start_passes": 0, "calibration": 0.2}
    net, places = fk.models.Network([3], **quick), []
    for first, last in [(0, 13), (13, 14), (14, 15), (15, 45), *((i, i + 1) for i in range(45, 60))]:
        net.partial_fit(X[first:last], LABELS[first:last])
        assert len(net._held_out[0]) == int(0.2 * last)
        rows = np.concatenate([net._data["x"], net._held_out[0]])
        labels = np.concatenate([net._data["y"], net._held_out[1]])
        order, wanted = np.lexsort(rows.T), np.lexsort(X[:last].T)
        np.testing.assert_array_equal(rows[order], X[:last][wanted])
        np.testing.assert_array_equal(net.classes_[labels[order]], LABELS[:last][wanted])
        places += [np.flatnonzero(np.isin(X[first:last, 0], net._held_out[0][:, 0]))]
    assert len(places[3]) == 6
    assert not np.array_equal(places[3], np.arange(6))
    assert not np.array_equal(np.diff(places[3]), np.full(5, 5))


def test_parameters_that_are_set_after_a_fit_change_no_prediction(fitted, tmp_path):
    """Nor do they change what a pickle or a file has, whose draws have the shapes of what was fitted."""
    net, changes = as_fitted(fitted), {"activation": "tanh", "model": [7], "prior": 0.1, "temperature": 3.0}
    before = net.evaluate(X, LABELS), net.uncertainty(X).entropy, report.report(net, X, LABELS, None, "", ())
    net.set_params(likelihood="gaussian", noise_scale=0.5, learning_rate=1.0, **changes)
    net.report(tmp_path / "net.html", X, LABELS)
    settings = before[2].split("<h2>The run</h2>")[1].split("<script")[0]
    assert settings in (tmp_path / "net.html").read_text(encoding="utf-8")
    net.save(tmp_path / "net.npz")
    loaded = fk.models.Network.load(tmp_path / "net.npz")
    assert {**loaded.get_params(), "model": [4]} == {**fitted.get_params(), "model": [4]}
    for again in (net, loaded, pickle.loads(pickle.dumps(net))):
        same_network(again, fitted)
        assert again.evaluate(X, LABELS) == before[0]
        np.testing.assert_array_equal(again.uncertainty(X).entropy, before[1])
        with pytest.raises(ValueError, match="return_std is for regression"):
            again.predict(X, return_std=True)
    with pytest.raises(ValueError, match=r"cannot change model, likelihood, prior, noise_scale, activation"):
        net.partial_fit(X, LABELS)


def test_bad_models_and_bad_rows_to_predict_are_refused(fitted):
    with pytest.raises(ValueError, match=r"outputs of shape \(5,\).*needs \(2,\)"):
        fk.models.Network(eqx.nn.MLP(3, 5, 4, 1, key=KEYS[0]), **QUICK).fit(X, LABELS)
    with pytest.raises(TypeError, match="the class Linen, which has to be called first"):
        fk.models.Network(Linen, **QUICK).fit(X, LABELS)
    with pytest.raises(TypeError, match=r"For a function f\(params, x\) give params="):
        fk.models.Network(plain, **QUICK).fit(X, LABELS)
    with pytest.raises(ValueError, match="X has 4 features, but Network is expecting 3 features"):
        fitted.predict(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="the label 'left', which is not one of the classes 'down', 'up'"):
        fitted.evaluate(X[:2], ["up", "left"])
    regression = clone(fitted).set_params(likelihood="gaussian")
    regression.draws_ = fitted.draws_
    with pytest.raises(AttributeError, match="predict_proba is for likelihood='categorical'"):
        regression.predict_proba(X)
    # Half precision is taken as it is.
    np.testing.assert_allclose(fitted.predict_proba(X.astype(np.float16)), fitted.predict_proba(X), atol=0.02)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            lambda: inputs.checked_rows(sparse.csr_matrix(np.eye(2))),
            "X is a sparse matrix, and dense rows are needed",
        ),
        (
            lambda: inputs.checked_targets(["a", "b"], 2),
            r"y has values that are not numbers\. A regression needs numbers",
        ),
        (lambda: inputs.checked_targets(np.eye(2), 2, 1), "y has 2 columns, but the model was fitted to 1"),
    ],
)
def test_what_is_said_of_rows_and_targets_fits_other_estimators(read, message):
    with pytest.raises((TypeError, ValueError), match=message):
        read()


# Calibration -----------------------------------------------------------------------------------------------


def test_calibration_is_that_which_labels_were_drawn_with():
    # 4000 labels; a larger power with more noise can be almost as likely.
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 4000)
    for true in (metrics.Calibration(0.5, 0.0), metrics.Calibration(2.0, 0.0), metrics.Calibration(2.0, 0.2)):
        q = true.of(p)
        np.testing.assert_allclose(q.sum(1), 1)
        np.testing.assert_array_equal(q.argmax(1), p.argmax(1))
        labels = (rng.uniform(size=(4000, 1)) > np.cumsum(q, 1)).sum(1)
        fitted = metrics.fitted_calibration(p, labels)
        assert np.mean(np.abs(fitted.of(p) - q)) < 0.015
        assert fitted.sharpness == pytest.approx(true.sharpness, rel=0.2)
        assert fitted.label_noise == pytest.approx(true.label_noise, abs=0.07)
    np.testing.assert_allclose(metrics.Calibration().of(p), p)
    # A single row moves it little, where the power would be infinite without a prior.
    fitted = metrics.fitted_calibration(np.array([[0.9, 0.1]]), np.array([0]))
    assert 1 < fitted.sharpness < 2
    assert fitted.label_noise < 0.05


def _calibration_losses(p, labels, log_powers, log_odds):
    """-log p(labels) and the prior, of every pair of log β and log odds of ε."""
    rows = np.arange(len(labels))
    chosen = np.stack([metrics.Calibration(math.exp(b)).of(p)[rows, labels] for b in log_powers])
    noise = special.expit(log_odds)
    mixed = chosen[:, None] + noise[:, None] * (1 / p.shape[1] - chosen[:, None])
    prior = log_powers[:, None] ** 2 / 2 + (log_odds + 4) ** 2 / 8
    return prior - np.log(np.maximum(mixed, np.finfo(np.float32).tiny)).sum(-1)


def test_a_fitted_calibration_is_the_best_of_a_fine_grid():
    """Also where there are two optima, as of few rows: one that is better by 1e-4 is not to be missed."""
    log_powers, log_odds = np.linspace(-3, 3, 61), np.linspace(-9, 4, 53)
    # Those of the second row need the second start, and those of the third row the third.
    for seed in (
        *range(100),
        *(633, 1190, 1402),
        *(386, 466, 823),
    ):
        rng = np.random.default_rng(seed)
        rows, classes = rng.choice([10, 20, 60]), rng.choice([2, 3, 10])
        p = rng.dirichlet(np.full(classes, rng.choice([0.02, 0.1, 0.3, 1.0])), rows)
        true = metrics.Calibration(math.exp(0.7 * rng.normal()), rng.choice([0.0, 0.02, 0.2]))
        labels = (rng.uniform(size=(rows, 1)) > np.cumsum(true.of(p), 1)).sum(1).clip(0, classes - 1)
        fitted = metrics.fitted_calibration(p, labels)
        x = math.log(fitted.sharpness), special.logit(fitted.label_noise)
        loss = _calibration_losses(p, labels, *(np.array([value]) for value in x))
        assert loss <= _calibration_losses(p, labels, log_powers, log_odds).min() + 1e-4
    # The first simplex of SciPy is narrow in log β, and collapsed at 1.025 here.
    rng = np.random.default_rng(7)
    p = rng.dirichlet([0.3, 0.3], 100)
    labels = (rng.uniform(size=100) > metrics.Calibration(2.0).of(p)[:, 0]).astype(int)
    assert metrics.fitted_calibration(p, labels).sharpness == pytest.approx(1.957, abs=0.01)


def test_what_chance_makes_of_a_calibration_error_depends_on_the_rows():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 4000)
    p = np.stack([confidence, 1 - confidence], 1)
    limits = {
        (rows, bins): metrics.calibration_limit(p[:rows], bins) for rows in (3, 45, 4000) for bins in (15, 1)
    }
    assert limits[3, 15] > 0.5
    assert 0.15 < limits[45, 15] < 0.3
    assert limits[4000, 15] < 0.04
    # Of all rows together the error is |Σ(right - p)|/n, about normal with variance mean p(1 - p)/n.
    deviation = np.sqrt(np.mean(confidence * (1 - confidence)) / 4000)
    assert limits[4000, 1] == pytest.approx(2.576 * deviation, rel=0.15)
    # Labels that are right as often as they should be exceed it once in a hundred times: at most 6 of 200.
    drawn = [(rng.uniform(size=45) > confidence[:45]).astype(int) for _ in range(200)]
    errors = [metrics.expected_calibration_error(p[:45], labels) for labels in drawn]
    assert np.sum(np.array(errors) > limits[45, 15]) <= 8


@pytest.mark.slow
def test_rows_that_calibrate_are_not_fitted_and_sharpen_what_is_too_unsure(tmp_path):
    rng = np.random.default_rng(0)
    # With names, of which those that are left out know nothing: there is no warning.
    X = pandas.DataFrame(rng.normal(size=(60, 2)).astype(np.float32), columns=["a", "b"])
    y = (X["a"] > 0).astype(int)
    quick = {"passes": 4, "burn_in_passes": 2, "draws": 4, "batch_size": 20, "progress": False}
    net = fk.models.Network([3], prior=0.3, calibration=0.5, **quick).fit(X, y)
    assert len(net._data["x"]) == 30
    assert not {tuple(row) for row in net._data["x"]} & {tuple(row) for row in net._held_out[0]}
    # Weights of a narrow prior are too unsure of a boundary that is sharp.
    assert net.sharpness_ > 1.5
    raw = copy.copy(net)
    raw.sharpness_, raw.label_noise_ = 1.0, 0.0
    calibration = metrics.Calibration(net.sharpness_, net.label_noise_)
    np.testing.assert_allclose(net.predict_proba(X), calibration.of(raw.predict_proba(X)), rtol=1e-6)
    assert net.evaluate(X, y).negative_log_likelihood < raw.evaluate(X, y).negative_log_likelihood
    net.report(tmp_path / "net.html", X, y)
    page = (tmp_path / "net.html").read_text(encoding="utf-8")
    assert f"to the power {net.sharpness_:.3g} (sharpness_)" in page
    assert f"{100 * net.label_noise_:.2f} % of the labels are taken to be random" in page
    # Of the same probabilities as the percentages beside them.
    assert f"<td>{metrics.entropy(net.predict_proba(X)).max():.3f}</td>" in page
    assert "Single weights are not judged" in page
    assert re.search(r"of 60 rows an error above 0\.\d\d or a mean confidence off by 0\.\d\d would", page)
    # Every number says whether it is of the draws or of calibrated predictions.
    for text in (
        "Entropy, before",
        "Mutual information, before",
        "entropy, after",
        "on held-out rows, after",
    ):
        assert f"{text} calibration" in page
    assert ">chains<" in page
    assert ">cycles<" not in page  # of a schedule that it has not
    assert stages(raw) == ("", "")
    net.save(tmp_path / "net.npz")
    again = fk.models.Network.load(tmp_path / "net.npz")
    np.testing.assert_array_equal(again.predict_proba(X), net.predict_proba(X))
    with pytest.raises(ValueError, match="calibration is of the probabilities of classes"):
        fk.models.Network([3], likelihood="gaussian", calibration=0.1).fit(X, y)
    for wrong in (1, -0.1, 2.5, "five", True):
        with pytest.raises(ValueError, match=r"a share of the rows .* or a whole number of folds from 2"):
            fk.models.Network([3], calibration=wrong).fit(X, y)
    with pytest.raises(ValueError, match="calibration=61 folds need as many rows; there are 60"):
        fk.models.Network([3], calibration=61).fit(X, y)


@pytest.mark.slow
def test_folds_calibrate_by_rows_that_their_fits_have_not_seen(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).astype(np.float32)
    y = np.where(X[:, 0] > 0, "right", "left")
    quick = {"passes": 400, "burn_in_passes": 100, "warm_start_passes": 200, "draws": 20, "progress": False}
    predicted, fitted, calibrated, seeds, given = [], [], [], [], {}
    by_rows, sampled, calibration = (
        network_calibration.by_rows,
        NetworkPosterior.sampled,
        metrics.fitted_calibration,
    )

    def predictions(function, draws, rows):
        predicted.append({tuple(row) for row in rows})
        for place, values in by_rows(function, draws, rows):
            for row, one in zip(rows[place], values.mean(0, dtype=float), strict=True):
                given.setdefault(tuple(row), {})[len(predicted)] = one
            yield place, values

    def recorded(self, fit, *rest):
        seeds.append(self.seed)
        columns = fit.data[FITTED].T
        fitted.extend({tuple(row) for row in fit.data["x"][column]} for column in columns)
        assert fit.size == (60 if columns.all() else columns.sum(1).min())
        return sampled(self, fit, *rest)

    def fitted_calibration(probabilities, labels):
        calibrated.append((probabilities, labels))
        return calibration(probabilities, labels)

    monkeypatch.setattr(network_calibration, "by_rows", predictions)
    monkeypatch.setattr(NetworkPosterior, "sampled", recorded)
    monkeypatch.setattr("fokker.models.network.calibration.fitted_calibration", fitted_calibration)
    net = fk.models.Network([3], prior=0.3, calibration=3, **quick).fit(X, y)
    rows = {tuple(row) for row in X}
    # Two by two, as the fit has two chains; there is room for the first fold once more.
    assert [len(fold) for fold in predicted] == [20, 20, 20, 20]
    assert predicted[3] == predicted[0]
    assert set.union(*predicted) == rows
    assert fitted == [rows, rows, *(rows - fold for fold in predicted)]
    ((probabilities, labels),) = calibrated
    means = [np.mean(list(given[tuple(row)].values()), axis=0) for row in X]
    np.testing.assert_allclose(probabilities, means, rtol=1e-12)
    np.testing.assert_array_equal(labels, (y == "right").astype(int))
    assert (net.sharpness_, net.label_noise_) == calibration(probabilities, labels)
    assert net.sharpness_ > 1.5  # a narrow prior is unsure
    assert len(net._data["x"]) == 60  # the draws are of all rows
    # A warm start has the seed after that of its fit: no two runs have one.
    assert seeds[0] == net._seed
    assert len({*seeds, *(seed + 1 for seed in seeds)}) == 2 * (1 + 2)
    # What is said of the columns is said once, not for every fold.
    with pytest.warns(UserWarning, match="StandardScaler") as warned:
        fk.models.Network([3], prior=0.3, calibration=2, learning_rate=1e-4, **quick).fit(50 * X, y)
    assert len(warned) == 1
    # By default no more folds are left out than are needed to predict enough rows.
    monkeypatch.setattr("fokker.models.network.calibration._ENOUGH", 20)
    predicted.clear()
    assert fk.models.Network([3], prior=0.3, **quick).fit(X, y).sharpness_ > 1
    assert [len(fold) for fold in predicted] == [12, 12]
    # A number of folds that is given predicts all rows.
    predicted.clear()
    fk.models.Network([3], prior=0.3, calibration=3, **quick).fit(X, y)
    assert [len(fold) for fold in predicted] == [20, 20, 20, 20]


@pytest.mark.slow
def test_a_chain_has_the_posterior_given_the_rows_that_it_fits(x64):
    """By a pass over all rows, and over a batch; where it is not known which chain it is, of rows of all."""
    made = problem("categorical", 2)
    rows, labels = X.astype(float), (X[:, 0] > 0).astype(np.int32)
    everything, nothing = (jax.tree.map(lambda _, y=y: y, made.scales) for y in (True, None))
    fitted = np.arange(60)[:, None] % 3 != [0, 1]
    data = {"x": rows, "y": labels}
    target = made.target({**data, FITTED: fitted}, everything, nothing)
    theta = jax.tree.map(lambda x: jnp.asarray(x, float) + 0.1, made.start())
    batch = np.arange(40)

    def parts(theta):
        at_batch = jax.tree.map(lambda x: x[batch], target.data)
        return target.potential(theta), target.minibatch_potential(theta, at_batch)

    def expected(theta, chosen):
        each = jax.vmap(lambda x, y: target.log_likelihood.of_row(theta, {"x": x, "y": y}))(rows, labels)
        prior, in_batch = target.log_prior(theta), chosen & (np.arange(60) < 40)
        return -prior - jnp.sum(each[chosen]), -prior - 60 / 40 * jnp.sum(each[in_batch])

    by_chain = jax.vmap(jax.jacrev(parts), axis_name=CHAIN)(theta)
    for chain in range(2):
        one = jax.tree.map(lambda x, c=chain: x[c], theta)
        found = jax.tree.map(lambda x, c=chain: x[c], by_chain)
        wanted = jax.jacrev(expected)(one, fitted[:, chain])
        close = partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-12)
        jax.tree.map(close, found, wanted)
        np.testing.assert_allclose(parts(one), expected(one, fitted.all(1)), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [60, 20])
def test_rows_of_a_fold_have_no_influence_on_the_draws_that_predict_it(monkeypatch, batch_size):
    """To the bit, whatever their columns and labels are; those of the chain beside it change."""
    quick = {**QUICK, "batch_size": batch_size, "learning_rate": 0.05, "warm_start_passes": 4}
    net = fk.models.Network([4], **{**quick, "passes": 20, "draws": 4}).fit(X, LABELS)
    folds, by_rows, draws = fold_of_rows(net, 3), network_calibration.by_rows, []

    def predictions(function, draws_of_chain, rows):
        draws.append(jax.tree.leaves(draws_of_chain))
        return by_rows(function, draws_of_chain, rows)

    monkeypatch.setattr(network_calibration, "by_rows", predictions)
    before = fold_probabilities(net, folds, 2)
    out = folds == 0
    net._data = {
        "x": np.where(out[:, None], 5 - X, X),
        "y": np.where(out, 1 - net._data["y"], net._data["y"]),
    }
    after = fold_probabilities(net, folds, 2)
    first, second, first_after, second_after = draws
    jax.tree.map(np.testing.assert_array_equal, first, first_after)
    assert all(np.any(a != b) for a, b in zip(second, second_after, strict=True))
    for probabilities in (before, after):
        np.testing.assert_array_equal(np.isnan(probabilities[:, 0]), folds == 2)


@pytest.mark.slow
def test_folds_run_by_the_programs_of_the_fit(monkeypatch):
    traced, steps = [], lockstep._all_steps
    monkeypatch.setattr(lockstep, "_all_steps", lambda *given: traced.append(1) or steps(*given))
    # A width that no other test has, so that the fit is sure to compile.
    net = fk.models.Network([9], **{**QUICK, "calibration": 5}).fit(X, LABELS)
    assert len(traced) == 2  # the warm start and the sampler
    assert chains_of_folds(net, 5) == 2 != chains_of_folds(net, 1)
    # One by one, of other numbers of rows, where steps are large or weights fixed.
    monkeypatch.setattr(network_calibration, "_SMALL", 0)
    assert chains_of_folds(net, 5) == 1
    data = without_folds(net, np.arange(60) % 4, [3], 44)
    np.testing.assert_array_equal(data["x"], X[np.arange(60) % 4 != 3][:44])
    assert FITTED not in {*data, *of_all_chains(net)}
    monkeypatch.undo()
    net._chosen = jax.tree.map(lambda _: False, net._chosen)
    assert chains_of_folds(net, 5) == 1


def test_folds_are_the_default_where_a_fit_to_fewer_rows_knows_no_others():
    module = eqx.nn.MLP(3, 2, 4, 1, key=KEYS[0])
    assert chosen_calibration(fk.models.Network([3]), 50) == 5
    assert chosen_calibration(fk.models.Network(Linen()), 50) == 5
    assert chosen_calibration(fk.models.Network([3], calibration=0.1), 50) == 0.1
    for net, rows in (
        (fk.models.Network([3]), 49),
        (fk.models.Network([3], calibration=0), 50),
        (fk.models.Network([3], likelihood="gaussian"), 50),
        (fk.models.Network(module), 50),
        (fk.models.Network([3], params=[1]), 50),
    ):
        assert chosen_calibration(net, rows) == 0


@pytest.mark.slow
def test_a_fit_with_other_numbers_compiles_no_steps(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).astype(np.float32)
    traced, steps = [], lockstep._all_steps

    def counted(shared, by_chain):
        traced.append(shared)
        return steps(shared, by_chain)

    monkeypatch.setattr(lockstep, "_all_steps", counted)
    # A width that no other test has, so that the first fit is sure to compile.
    first = fk.models.Network([7], **QUICK).fit(X, X[:, 0] > 0)
    assert len(traced) == 2  # the warm start and the sampler
    other = {"learning_rate": 0.01, "momentum": 0.8, "prior": 0.5, "random_state": 1, "noise": "two-point"}
    second = fk.models.Network([7], **{**QUICK, **other}).fit(X, X[:, 1] > 0)
    assert len(traced) == 2
    steps_of = [float(net.trace_.settings["step_size"]) for net in (first, second)]
    assert steps_of[1] == pytest.approx((0.01 / 60) ** 0.5) != steps_of[0]


@pytest.mark.slow
def test_an_interrupted_calibration_keeps_the_draws(monkeypatch, foreground):
    """Ctrl-C while the first fold is sampled: its run returns the draws that it has, and is not used."""
    run, traces = NetworkPosterior.run, []

    def interrupted(self, *given, **settings):
        if len(traces) == 3:  # after the warm starts of the fit and of the fold, and the draws of the fit
            interrupt_at(monkeypatch, "_send", 1)
        traces.append(run(self, *given, **settings))
        return traces[-1]

    monkeypatch.setattr(NetworkPosterior, "run", interrupted)
    X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    quick = {"passes": 4000, "burn_in_passes": 0, "warm_start_passes": 2, "draws": 400, "progress": False}
    with pytest.warns(UserWarning, match="of the calibration were interrupted, and it is not") as warned:
        net = fk.models.Network([3], calibration=3, **quick).fit(X, X[:, 0] > 0)
    assert len(warned) == 1
    *_, trace = traces
    assert len(traces) == 4
    assert trace.was_interrupted
    assert 0 < jax.tree.leaves(trace.draws)[0].shape[1] < 200
    assert (net.sharpness_, net.label_noise_) == metrics.Calibration()
    assert net.stopped_ is None
    assert jax.tree.leaves(net.draws_)[0].shape[0] == 2 * 400
    assert net.predict_proba(X).shape == (60, 2)


@pytest.mark.slow
def test_small_sets_are_seen_as_a_whole_and_large_ones_by_minibatches():
    rng = np.random.default_rng(0)
    quick = {"passes": 1, "burn_in_passes": 0, "warm_start_passes": 0, "draws": 2, "calibration": 0}
    for rows, given, batch_size in ((500, None, None), (501, None, 100), (60, 20, 20)):
        X = rng.normal(size=(rows, 1)).astype(np.float32)
        net = fk.models.Network([2], batch_size=given, progress=False, **quick).fit(X, X[:, 0] > 0)
        assert net.trace_.settings["batch_size"] == batch_size


@pytest.mark.slow
def test_steps_of_the_default_momentum_keep_the_variance():
    """On a standard normal, within 0.02 (standard error 0.004); symplectic Euler gives 0.95."""
    sampler = StepSettings("sgnht", 0.01, 0.9, "constant", 4, "two-point").make(1, 1.0, 0)
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    trace = fk.sample(
        normal, sampler, init=jnp.zeros(50), steps=4000, burn_in=500, chains=16, thin=5, progress=False
    )
    assert np.var(trace.samples) == pytest.approx(1, abs=0.02)
