"""Targets from Stan: a model with BridgeStan's interface, its gradient in JAX, its names and its errors."""

import builtins
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker import samplers


class Fake:
    """sigma > 0 from Gamma(3, 2), and a matrix m of 2 × 2 from normals around 1, 2, 3, 4 by rows.

    As Stan does: y = log sigma, entries with the first index running fastest, RuntimeError where it fails.
    """

    MEANS = np.array([1.0, 3.0, 2.0, 4.0])

    def param_unc_num(self):
        return 5

    def param_names(self, *, include_tp=False, include_gq=False):
        return ["sigma", "m.1.1", "m.2.1", "m.1.2", "m.2.2"] + ["variance"] * include_tp

    def log_density_gradient(self, y, *, propto=True, jacobian=True):
        assert y.dtype == np.float64
        assert y.flags.c_contiguous
        if y[0] > 10:
            raise RuntimeError("sigma is too large")
        sigma = np.exp(y[0])
        value = 2 * y[0] - 2 * sigma - np.sum((y[1:] - self.MEANS) ** 2) / 2 + jacobian * y[0]
        return value, np.concatenate([[2 - 2 * sigma + jacobian], self.MEANS - y[1:]])

    def param_constrain(self, y, *, include_tp=False):
        x = np.concatenate([[np.exp(y[0])], y[1:]])
        return np.append(x, x[0] ** 2) if include_tp else x

    def param_unconstrain(self, x):
        if x[0] <= 0:
            raise RuntimeError("sigma must be positive")
        return np.concatenate([[np.log(x[0])], x[1:]])


TARGET = fk.from_stan(Fake())
THETA = {"sigma": 0.5, "m": np.array([[1.0, 2.0], [3.0, 4.0]])}


def potential(y, T=1.0):
    m = jnp.array([[1.0, 3.0, 2.0, 4.0]])
    return -2 * y[0] + 2 * jnp.exp(y[0]) + jnp.sum((y[None, 1:] - m) ** 2) / 2 - T * y[0]


@pytest.mark.parametrize("T", [1.0, 0.3])
def test_values_and_gradients_under_grad_jit_and_vmap(T, x64):
    target = TARGET.at_temperature(jnp.asarray(T))
    ys = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 5)))
    wanted, slopes = jax.vmap(jax.vmap(jax.value_and_grad(lambda y: potential(y, T))))(ys)
    found, gradients = jax.jit(jax.vmap(jax.vmap(jax.value_and_grad(target.potential))))(ys)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(gradients, slopes, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(lambda y: 3 * target.potential(y))(ys[0, 0]), 3 * slopes[0, 0])
    np.testing.assert_allclose(target.potential(ys[0, 0]), wanted[0, 0])


def test_parameters_have_the_names_and_shapes_of_the_program(x64):
    y = TARGET.unconstrain(THETA)
    np.testing.assert_allclose(y, [np.log(0.5), 1.0, 3.0, 2.0, 4.0])
    theta = TARGET.constrain(y)
    assert set(theta) == {"sigma", "m"}
    np.testing.assert_allclose(theta["sigma"], 0.5)
    np.testing.assert_allclose(theta["m"], THETA["m"])
    np.testing.assert_allclose(TARGET.derived(THETA)["variance"], 0.25)


@pytest.mark.slow
def test_draws_are_constrained_and_arviz_has_the_transformed_parameters():
    """Means of 20 chains: within 5 standard errors. False alarm: one seed in 4e5."""
    trace = fk.sample(
        TARGET, samplers.sghmc(0.3), init=TARGET.init, steps=200, burn_in=50, chains=20, progress=False
    )
    assert trace.stopped is None
    found = trace.to_arviz().posterior
    assert {name: x.shape[2:] for name, x in found.items()} == {"sigma": (), "m": (2, 2), "variance": ()}
    np.testing.assert_allclose(found["variance"], found["sigma"] ** 2, rtol=1e-4)
    means = trace.samples["m"].mean(axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(20)
    assert np.all(np.abs(means.mean(axis=0) - THETA["m"]) < 5 * error)


def test_a_point_that_stan_rejects_has_no_mass():
    y = jnp.array([11.0, 0.0, 0.0, 0.0, 0.0])
    value, gradient = jax.value_and_grad(TARGET.potential)(y)
    assert value == np.inf
    assert np.all(np.isnan(gradient))
    with pytest.raises(ValueError, match="log density is -inf at the initial"):
        TARGET.validate(y)


class Empty(Fake):
    def param_unc_num(self):
        return 0


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (ValueError, "theta lacks 'm'", lambda: TARGET.check({"sigma": 1.0})),
        (ValueError, "theta has 'sigm', but .* Did you mean 'sigma'", lambda: TARGET.check({"sigm": 1.0})),
        (ValueError, "must be a dictionary", lambda: TARGET.check(jnp.ones(5))),
        (ValueError, r"theta\['m'\] has the shape \(2,\)", lambda: TARGET.check({**THETA, "m": np.ones(2)})),
        (
            ValueError,
            "does not meet the constraints of the program: sigma must be positive",
            lambda: TARGET.unconstrain({**THETA, "sigma": -1.0}),
        ),
        (ValueError, "y has the shape .4,.; the program has 5", lambda: TARGET.validate(jnp.ones(4))),
        (ValueError, "no parameters", lambda: fk.from_stan(Empty())),
        (ValueError, "already has its data", lambda: fk.from_stan(Fake(), {"N": 1})),
        (TypeError, "the path of a .stan file.* not int", lambda: fk.from_stan(3)),
        (FileNotFoundError, "there is no file 'absent.stan'", lambda: fk.from_stan("absent.stan")),
    ],
)
def test_what_does_not_fit_is_refused(error, words, call):
    with pytest.raises(error, match=words):
        call()


def test_a_program_given_as_text_is_stored_once_and_compiled_by_bridgestan(monkeypatch, tmp_path):
    given = []

    class Model(Fake):
        def __init__(self, path, data, warn):
            if data == "bad":
                raise RuntimeError("no N")
            given.append((path, data))

    monkeypatch.setitem(sys.modules, "bridgestan", types.SimpleNamespace(StanModel=Model))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = "parameters { real<lower=0> sigma; matrix[2, 2] m; }"
    fk.from_stan(text, {"N": 3})
    fk.from_stan(text)
    (path, data), (again, nothing) = given
    assert path == again
    assert path.read_text() == text
    assert (data, nothing) == ({"N": 3}, None)
    with pytest.raises(ValueError, match="does not take these data: no N"):
        fk.from_stan(text, "bad")


def test_without_bridgestan_it_is_said_what_to_install(monkeypatch, tmp_path):
    program = tmp_path / "schools.stan"
    program.write_text("parameters { real m; }")
    found = builtins.__import__

    def without(name, *rest, **keywords):
        if name == "bridgestan":
            raise ImportError(name)
        return found(name, *rest, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'fokker\[stan\]'"):
        fk.from_stan(program)
