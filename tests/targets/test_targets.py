"""Targets: U and its minibatch estimate against sums written out."""

import dataclasses
import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.rows.table import ColumnError
from fokker.targets import posterior

THETA = {"w": np.array([0.3, -0.7]), "b": (np.array(0.2),)}


def log_prior(theta):
    return -jnp.sum(theta["w"] ** 2) / 2 - theta["b"][0] ** 4


def log_likelihood(theta, datum):
    return -((datum["y"] - datum["x"] @ theta["w"] - theta["b"][0]) ** 2) / (1 + datum["k"])


def made(n, dtype=np.float64):
    generator = np.random.default_rng(n)
    data = {"x": generator.normal(size=(n, 2)), "y": generator.normal(size=n), "k": np.arange(n) % 3}
    return fk.Posterior(
        log_prior, log_likelihood, {**data, "x": data["x"].astype(dtype), "y": data["y"].astype(dtype)}
    ), data


def by_hand(data, rows, theta=THETA):
    w, b = np.asarray(theta["w"]), float(theta["b"][0])
    return sum(-((data["y"][i] - data["x"][i] @ w - b) ** 2) / (1 + data["k"][i]) for i in rows)


@pytest.mark.parametrize(("n", "block"), [(1, 4), (4, 4), (9, 4), (11, 65_536)])
def test_the_potential_is_the_sum_over_the_data_whatever_the_block(n, block, monkeypatch, x64):
    monkeypatch.setattr(posterior, "_ROWS", block)
    target, data = made(n)
    assert target.size == n
    wanted = -by_hand(data, range(n)) - float(log_prior(THETA))
    np.testing.assert_allclose(float(target.potential(THETA)), wanted, rtol=1e-12)
    np.testing.assert_allclose(float(jax.jit(target.potential)(THETA)), wanted, rtol=1e-12)


def test_the_gradient_through_blocks_is_that_without(monkeypatch, x64):
    target, _ = made(11)
    whole = jax.grad(target.potential)(THETA)
    monkeypatch.setattr(posterior, "_ROWS", 4)
    for x, y in zip(jax.tree.leaves(whole), jax.tree.leaves(jax.grad(target.potential)(THETA)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_minibatch_potential_is_unbiased_over_all_batches(n, x64):
    """Over every one of the batches of n out of 5, value and gradient; without N/n it would not be."""
    target, _ = made(5)
    batches = np.array(list(itertools.combinations(range(5), n)))
    stacked = jax.tree.map(lambda x: x[batches], target.data)
    values, gradients = jax.vmap(jax.value_and_grad(target.minibatch_potential), (None, 0))(THETA, stacked)
    value, gradient = jax.value_and_grad(target.potential)(THETA)
    np.testing.assert_allclose(np.mean(values), value, rtol=1e-12)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a.mean(axis=0), b, rtol=1e-12), gradients, gradient)
    if n < 5:
        assert np.std(values) > 1e-2 * abs(float(value))


def test_data_keep_their_precision_and_whole_numbers():
    target, _ = made(4, np.float16)
    assert target.data["x"].dtype == jnp.float16
    assert target.data["k"].dtype == jnp.int32
    theta = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), THETA)
    batch = jax.tree.map(lambda x: x[:2], target.data)
    assert target.minibatch_potential(theta, batch).dtype == jnp.float32


def test_a_posterior_can_be_made_inside_jit_and_vmap(x64):
    """One for each of many data sets; the lengths are still looked at, the values cannot be."""
    several = [made(n)[1] for n in (7, 7, 7)]
    several[1] = jax.tree.map(lambda x: x[::-1] * 2, several[1])
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *several)

    def potential(data):
        return fk.Posterior(log_prior, log_likelihood, data).potential(THETA)

    wanted = [potential(data) for data in several]
    assert len({float(u) for u in wanted}) == 2
    np.testing.assert_allclose(jax.vmap(potential)(stacked), wanted, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(potential)(several[1]), wanted[1], rtol=1e-12)
    with pytest.raises(ValueError, match=r"data\['x'\] has 7, data\['y'\] has 3"):
        jax.vmap(lambda data: potential({**data, "y": data["y"][:3]}))(stacked)
    with pytest.raises(ValueError, match=r"data\['y'\] is a single number"):
        jax.vmap(lambda data: potential({**data, "y": data["y"][0]}))(stacked)


def test_a_density_is_minus_its_logarithm():
    target = fk.Density(lambda theta: -3.0 * theta["w"][0] - 1.0)
    np.testing.assert_allclose(float(target.potential(THETA)), 3 * 0.3 + 1, rtol=1e-6)
    target.validate(THETA)


# What is wrong with them ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "empty"),
        (np.zeros((0, 2)), "length 0"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2)}, r"data\['x'\] has 3, data\['y'\] has 2"),
        ({"x": np.zeros(3), "n": 3.0}, r"data\['n'\] is a single number"),
        ({"x": np.array([0.0, 1.0, np.nan])}, r"data\['x'\] .* row 2"),
        (np.array([[0.0, 1.0], [np.inf, 0.0]]), "not finite, inf, first in row 1, column 0: .* a mask"),
        (np.array([1.0, 1e300]), r"not finite in float32, 1e\+300, first in row 1"),
        (np.array([1, 2**40]), "does not fit into 32 bits, first in row 1"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "masked values, first in row 1"),
        ([1.0, 2.0], r"data is a list or tuple of single values: give an array, np\.array"),
        ({"x": [[1.0, 2.0], [3.0, 4.0]]}, r"data\['x'\] is a list or tuple of single values"),
        ([np.zeros(3), 2.0], r"data\[1\] is a single number"),
        ({"x": "text"}, r"data\['x'\] is a single value, 'text'"),
    ],
)
def test_data_that_cannot_be_sampled_are_refused(data, words):
    with pytest.raises(ValueError, match=words):
        fk.Posterior(lambda theta: 0.0, lambda theta, datum: 0.0, data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"x": np.zeros(2), "y": np.array(["red", "blue"])}, r"data\['y'\] holds 'red' in row 0.*codes"),
        (np.array([["1", "2"], ["3", "x"]]), "data holds 'x' in row 1, column 1, which is not a number"),
        (
            np.array([[1, None], [2.0, 3]], object),
            "data holds None in row 0, column 1, which is not a number",
        ),
        (np.array([1, 2.5], object), r"data holds numbers as object: convert them by \.astype"),
        (np.array(["2020-01-01"], "datetime64[D]"), r"has the type datetime64\[D\]"),
        # NumPy lists times of nanoseconds as whole numbers.
        (np.array(["2020-01-01"], "datetime64[ns]"), r"'2020-01-01.*, and has the type datetime64\[ns\]"),
        (np.array([5], "timedelta64[ns]"), r"holds '5 nanoseconds'.*has the type timedelta64\[ns\]"),
        (np.zeros(3, [("a", float)]), "has the type .*: give numbers"),
    ],
)
def test_data_that_are_no_numbers_are_refused(data, words):
    with pytest.raises(TypeError, match=words):
        fk.Posterior(lambda theta: 0.0, lambda theta, datum: 0.0, data)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float64, np.int64, bool])
def test_data_of_every_type_of_number_are_accepted(dtype):
    target = fk.Posterior(lambda theta: 0.0, lambda theta, x: -((x - theta) ** 2), np.ones(3).astype(dtype))
    assert float(target.potential(jnp.float32(0.5))) == 0.75


@pytest.mark.parametrize(
    ("likelihood", "words"),
    [
        (
            lambda theta, row: theta * jnp.log(row["x"][1]),
            "the log likelihood of row 7 is -inf at .*the row is",
        ),
        (
            lambda theta, row: -jnp.sqrt(row["x"][1] * theta**2),
            "the gradient of the log likelihood of row 7 is",
        ),
        (lambda theta, row: theta * row["x"][1], None),
    ],
)
def test_a_row_whose_likelihood_is_not_finite_is_named(likelihood, words, monkeypatch):
    monkeypatch.setattr("fokker.targets.target._ROWS", 4)
    x = np.ones((9, 2), np.float32)
    x[7, 1] = 0
    found = fk.Posterior(lambda theta: 0.0, likelihood, {"x": x}).unusable_row(jnp.float32(1.0))
    assert found is None if words is None else re.search(words, found)


@pytest.mark.slow
def test_a_run_that_ends_at_a_row_names_it():
    """At the start by the value of U, and in the run by its gradient."""
    x = np.ones(9, np.float32)
    x[7] = 0
    options = {"init": 1.0, "steps": 20, "chains": 1, "progress": False}
    target = fk.Posterior(lambda theta: 0.0, lambda theta, x: theta * jnp.log(x), x)
    with pytest.raises(ValueError, match=r"the log likelihood of row 7 is -inf .*the row is 0\.0\): correct"):
        fk.sample(target, fk.samplers.sgld(1e-3), **options)
    target = fk.Posterior(lambda theta: 0.0, lambda theta, x: -jnp.sqrt(x * theta**2), x)
    with pytest.warns(RuntimeWarning, match="the gradient of the log likelihood of row 7 is not finite"):
        fk.sample(target, fk.samplers.sgld(1e-3), **options)


@pytest.mark.parametrize(
    ("prior", "likelihood", "words"),
    [
        (lambda t: -t, lambda t, x: jnp.sum(t) * x, "log_prior must return one number"),
        (lambda t: jnp.sum(t), lambda t, x: -((x - t) ** 2), "log_likelihood must return one number"),
        (lambda t: jnp.log(jnp.sum(t) - 3), lambda t, x: x, "log_prior is nan"),
        (lambda t: jnp.sum(t), lambda t, x: jnp.log(x), "log_likelihood is -inf"),
    ],
)
def test_a_log_density_that_is_not_one_finite_number_is_refused(prior, likelihood, words):
    target = fk.Posterior(prior, likelihood, np.zeros(3))
    with pytest.raises(ValueError, match=words):
        target.validate(jnp.ones(2))


def test_a_name_of_a_datum_that_theta_does_not_have_is_looked_for_there():
    target = fk.Posterior(
        lambda theta: 0.0, lambda theta, datum: theta["b"] * theta["age"], {"age": np.ones(9)}
    )
    words = r"'age', which is missing: theta, by init, has b; a datum has age\. The other one has it: look"
    with pytest.raises(ValueError, match=words):
        target.validate({"b": jnp.zeros(())})


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 2}, {"sampler": "nuts"}, {"sampler": fk.samplers.sgld(0.1)}]
)
def test_a_name_that_init_does_not_have_is_said_with_those_it_has(options, tmp_path):
    def log_likelihood(theta, datum):
        return -((datum["y"] - theta["slope"]) ** 2)

    target = fk.Posterior(lambda theta: -(theta["slope"] ** 2), log_likelihood, {"y": np.zeros(9)})
    words = r"uses the name 'slope', which is missing: theta, by init, has slpoe\. Did you mean 'slpoe'\?"
    options = {"sampler": "auto", "init": {"slpoe": 0.0}, "steps": 10, "progress": False, **options}
    with pytest.raises(ValueError, match=words):
        fk.sample(target, **options)
    with pytest.raises(ValueError, match=words):
        fk.sample(target, **options, out=tmp_path / "run")

    def of_column(theta):
        raise ColumnError("the column 'city' has 'Köln' in line 2 of people.csv, and numbers are needed")

    with pytest.raises(
        ValueError, match=r"^the column 'city' has 'Köln' in line 2 of people.csv, .* needed$"
    ):
        fk.sample(fk.Density(of_column), **{**options, "batch_size": None})
    target = fk.Density(lambda theta: {}.popitem())
    with pytest.raises(ValueError, match=r"uses the name .*popitem.*, which is missing: theta, by init, has"):
        fk.sample(target, **{**options, "batch_size": None})
    target = fk.Posterior(lambda theta: 0.0, lambda theta, datum: -(datum["x"] ** 2), {"y": np.zeros(9)})
    with pytest.raises(ValueError, match=r"the name 'x', .* theta, by init, has slpoe; a datum has y"):
        fk.sample(target, **options)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_density_may_be_an_object_without_a_hash(frozen):
    """A dataclass that is not frozen has none, nor one with an array. A run has its present numbers."""

    @dataclasses.dataclass(frozen=frozen)
    class Scaled:
        scale: Any

        def __call__(self, theta, datum=0.0):
            return -jnp.sum(((theta - datum) / self.scale) ** 2) / 2

    def draws(target, sampler, **options):
        return fk.sample(target, sampler, init=jnp.zeros(2), steps=1_000, progress=False, **options).samples

    density, sampler = Scaled(np.ones(2)), fk.samplers.mala(0.5)
    function = fk.Density(lambda theta: -jnp.sum((theta / np.ones(2)) ** 2) / 2)
    np.testing.assert_array_equal(draws(fk.Density(density), sampler), draws(function, sampler))
    if not frozen:
        density.scale = 0.1
        assert draws(fk.Density(density), sampler).std() < 0.3
    posterior = fk.Posterior(Scaled(3.0), Scaled(np.ones(2)), np.zeros((20, 2), np.float32))
    assert draws(posterior, fk.samplers.sgld(1e-3), batch_size=5).std() < 0.5


def test_a_schedule_and_a_prediction_may_be_objects_without_a_hash():
    @dataclasses.dataclass
    class Call:
        scale: float

        def __call__(self, *arguments):
            return self.scale if len(arguments) == 1 else arguments[0][0] * self.scale + arguments[1]

    trace = fk.sample(
        fk.Density(lambda theta: -jnp.sum(theta**2) / 2),
        fk.samplers.ula(Call(0.1)),
        init=jnp.zeros(2),
        steps=9,
        progress=False,
    )
    predicted = trace.predict(Call(2.0), np.arange(3.0, dtype=np.float32))
    np.testing.assert_allclose(predicted, 2 * trace.samples[..., :1] + np.arange(3.0), rtol=1e-5)


def test_an_object_that_is_no_target_is_refused_by_the_name_of_the_base_class():
    class Duck:
        def potential(self, theta):
            return jnp.sum(theta**2) / 2

    for call in (fk.samplers.sgld(0.1).on, fk.samplers.nuts().on, lambda t: fk.constrain(t, "positive")):
        with pytest.raises(TypeError, match=r"subclass of fk\.Target, not Duck"):
            call(Duck())


def test_a_target_of_ones_own_needs_a_potential_alone():
    class Normal(fk.Target):
        precision: jax.Array

        def potential(self, theta):
            return self.precision * theta**2 / 2

    target = Normal(jnp.asarray(2.0))
    trace = fk.sample(target, fk.samplers.sgld(0.1), init=0.0, steps=8, chains=1, progress=False)
    assert trace.positions is trace.samples
    assert trace.samples.shape == (1, 8)
    with pytest.raises(ValueError, match="the potential is inf"):
        target.validate(jnp.asarray(jnp.inf))
