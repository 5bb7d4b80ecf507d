"""Predictions of a trace, the log likelihood of each datum, and leave-one-out by ArviZ."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker._core.statistics import _arviz
from own_samplers import OfDraws

N = 40
RNG = np.random.default_rng(0)
Y = (RNG.normal(size=N) + 0.5).astype(np.float32)
# The posterior of the mean of normals of variance 1 with the prior N(0, 10²) is known, and so are its draws.
PRECISION = 1 / 100 + N
DRAWS = (Y.sum() / PRECISION + RNG.normal(size=(4, 500)) / np.sqrt(PRECISION)).astype(np.float32)
NORMAL = fk.Posterior(
    lambda theta: -(theta["mean"] ** 2) / 200,
    lambda theta, y: -((y - theta["mean"]) ** 2) / 2 - jnp.log(2 * jnp.pi) / 2,
    Y,
)


def trace_of(target, draws):
    where = types.SimpleNamespace(sampler=OfDraws(target), target=target)
    return fk.Trace(draws, None, {}, None, None, {}, where)


TRACE = trace_of(NORMAL, {"mean": DRAWS})
ROWS = np.arange(10, dtype=np.float32)


def line(theta, x):
    return {"line": theta["mean"] * x, "both": jnp.stack([x, theta["mean"] + x], axis=1)}


@pytest.mark.parametrize("batch_size", [None, 3])
def test_predictions_are_the_function_at_every_draw_and_row(batch_size, monkeypatch):
    """In batches of 64 draws of 2,000 and of 3 rows of 10, which leaves parts of both at the end."""
    mean = DRAWS[:, :, None]
    wanted = {"line": mean * ROWS, "both": np.stack(np.broadcast_arrays(ROWS, mean + ROWS), axis=-1)}
    options = {"batch_size": batch_size, "progress": False}
    found = TRACE.predict(line, ROWS, **options)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, wanted)
    every = TRACE.predict(line, ROWS, thin=7, **options)["line"]
    np.testing.assert_allclose(every, wanted["line"][:, ::7], rtol=1e-5)
    monkeypatch.setattr("fokker.run.predict._BLOCK_BYTES", 2000 * 12 * 4)  # four rows of all draws
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]).astype(float), wanted)
    reduced = {how: TRACE.predict(line, ROWS, reduce=how, **options) for how in ("mean", "moments")}
    quantiles = TRACE.predict(line, ROWS, reduce=np.array([0.1, 0.9]), **options)
    for name, values in flat.items():
        np.testing.assert_allclose(reduced["mean"][name], values.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(reduced["moments"]["mean"][name], values.mean(axis=0), rtol=1e-5)
        variance = values.var(axis=0, ddof=1)
        np.testing.assert_allclose(reduced["moments"]["variance"][name], variance, rtol=1e-3, atol=1e-9)
        np.testing.assert_allclose(quantiles[name], np.quantile(values, [0.1, 0.9], axis=0), rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "options", "error", "words"),
    [
        (lambda theta, x: theta["mean"], {}, ValueError, "returned the shapes .* must run over the rows"),
        (lambda theta, x: jnp.ones((3, 2)), {}, ValueError, "for 2 rows: the first axis"),
        (
            lambda theta, x: x @ theta["w"],
            {},
            ValueError,
            "function could not be evaluated: 'w'. It was given a theta of shapes",
        ),
        (line, {"thin": 0}, ValueError, "thin must be a whole number of at least 1; 0 was given"),
        (line, {"batch_size": 2.5}, ValueError, "batch_size must be a whole number"),
        (line, {"reduce": "median"}, ValueError, "'mean', 'moments' .* 'median' was given"),
        (line, {"reduce": [5]}, ValueError, r"probabilities of quantiles.*\[5\] was given"),
        (line, {"reduce": 5}, ValueError, r"probabilities of quantiles.*\[5\] was given"),
        (line, {"reduce": []}, ValueError, r"probabilities of quantiles.*\[\] was given"),
    ],
)
def test_predictions_that_cannot_be_made_are_refused(function, options, error, words):
    with pytest.raises(error, match=words):
        TRACE.predict(function, ROWS, progress=False, **options)


def test_what_does_not_fit_into_memory_or_has_no_draws_is_refused():
    with pytest.raises(MemoryError, match=r"2,000 draws and 1,000,000 rows take 22\.4 GiB, more than 4 GiB"):
        TRACE.predict(line, np.broadcast_to(np.float32(1), (10**6,)))
    with pytest.raises(RuntimeError, match="only moments were kept"):
        dataclasses.replace(TRACE, draws=None, moments={}).predict(line, ROWS)
    with pytest.raises(ValueError, match="differ in length"):
        TRACE.predict(line, {"a": ROWS, "b": ROWS[:3]})


# The log likelihood of each datum ---------------------------------------------------------------------------


def test_the_log_likelihood_is_that_of_each_datum_at_every_draw():
    wanted = -((Y - DRAWS[:, :, None]) ** 2) / 2 - np.log(2 * np.pi) / 2
    np.testing.assert_allclose(TRACE.log_likelihood(progress=False), wanted, rtol=1e-4, atol=1e-5)
    some = TRACE.log_likelihood(rows=[7, 3], thin=100, progress=False)
    np.testing.assert_allclose(some, wanted[:, ::100, [7, 3]], rtol=1e-4, atol=1e-5)
    positive = trace_of(fk.constrain(NORMAL, {"mean": "positive"}), {"mean": DRAWS})
    np.testing.assert_allclose(
        positive.log_likelihood(rows=[7, 3], thin=100, progress=False), some, rtol=1e-6
    )


def test_the_log_likelihood_of_what_has_no_data_is_refused():
    density = fk.Density(lambda theta: -(theta["mean"] ** 2))
    with pytest.raises(TypeError, match=r"the target here is Density\..*trace\.predict"):
        trace_of(density, {"mean": DRAWS}).log_likelihood()
    for rows in ([40], [0.5], [], [-1]):
        with pytest.raises(ValueError, match="rows must be indices of the 40 data"):
            TRACE.log_likelihood(rows=rows)


def test_leaving_one_out_by_arviz_is_the_closed_form():
    """Σ log N(y_i | m_i, 1 + 1/P_i) with the posterior of the others; p_loo is 0.6; 0.1 is a sixth of it.

    Negative control: without leaving out, the average of the densities is off by more.
    """
    left = PRECISION - 1
    variance = 1 + 1 / left
    wanted = -((Y - (Y.sum() - Y) / left) ** 2) / 2 / variance - np.log(2 * np.pi * variance) / 2
    data = TRACE.to_arviz(log_likelihood=True)
    found = _arviz().loo(data)
    elpd = float(found.elpd if hasattr(found, "elpd") else found.elpd_loo)
    assert elpd == pytest.approx(wanted.sum(), abs=0.1)
    within = np.log(np.exp(TRACE.log_likelihood(progress=False)).mean(axis=(0, 1))).sum()
    assert abs(within - wanted.sum()) > 0.3
    assert not hasattr(TRACE.to_arviz(), "log_likelihood")


def test_random_predictions_have_a_key_per_draw_and_row_whatever_the_batches():
    """Of 2,400 standard normals, mean and spread within 5 standard errors: 1e-6 false alarms."""
    trace = fk.sample(
        fk.Density(lambda theta: -(theta**2) / 2), fk.samplers.ula(0.1), init=0.0, steps=60, progress=False
    )
    x = np.arange(40.0, dtype=np.float32)

    def drawn(theta, x, keys):
        return theta + x + jax.vmap(jax.random.normal)(keys)

    options = {"key": jax.random.key(3), "progress": False}
    values = trace.predict(drawn, x, **options)
    off = values - trace.samples[:, :, None] - x
    assert abs(off.mean()) < 5 / np.sqrt(off.size)
    assert abs(off.std() - 1) < 5 / np.sqrt(2 * off.size)
    np.testing.assert_array_equal(values, trace.predict(drawn, x, batch_size=7, **options))
    np.testing.assert_array_equal(values[:, ::3], trace.predict(drawn, x, thin=3, **options))
