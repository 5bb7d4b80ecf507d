"""The summary of a theta of many parameters: by leaf, along random directions, and by the means of each."""

import dataclasses
import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker import diagnostics
from fokker.diagnostics import Grade
from fokker.diagnostics import _projections as projections
from judged_draws import origin_of
from own_samplers import OfDraws

SHAPES = {"b": (3,), "scale": (), "w": (30, 40)}
UNIT = fk.Density(lambda theta: -sum(jnp.sum(leaf**2) for leaf in theta.values()) / 2)


def normal_draws(chains=4, draws=250, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(size=(chains, draws, *shape)).astype(np.float32) for name, shape in SHAPES.items()
    }


def trace_of(draws, target=None):
    where = None
    if target is not None:
        where = origin_of(OfDraws(target), target)
    return fk.Trace(draws, None, {}, None, None, {}, where)


# Directions -----------------------------------------------------------------------------------------------


def test_the_directions_are_orthonormal_over_standardised_scalars():
    """By the matrix of all directions, put together from unit vectors; 1,204 scalars are several blocks."""
    found = projections.project(normal_draws(draws=10))
    sizes = [leaf.size for leaf in found.leaves]
    cuts = np.cumsum([0, *sizes])
    identity = np.eye(cuts[-1], dtype=np.float32)
    V = found.along(
        [identity[:, a:b] / leaf.deviation for a, b, leaf in zip(cuts, cuts[1:], found.leaves, strict=False)]
    )
    np.testing.assert_allclose(V.T @ V, np.eye(projections.DIRECTIONS), atol=1e-5)
    flat = np.concatenate(
        [normal_draws(draws=10)[leaf.name].reshape(4, 10, -1) for leaf in found.leaves], axis=2
    )
    standard = (flat - flat.mean(axis=(0, 1))) / flat.std(axis=(0, 1), ddof=1)
    np.testing.assert_allclose(found.series, standard @ V, atol=1e-4)


def test_the_moments_and_r_hat_of_every_scalar_are_exact():
    draws = normal_draws(draws=21)
    draws["w"][2, :, 7, 5] += 4
    leaf = projections.project(draws).leaves[2]
    x = draws["w"].astype(float).reshape(4, 21, -1)
    np.testing.assert_allclose(leaf.mean, x.mean(axis=(0, 1)), atol=1e-6)
    np.testing.assert_allclose(leaf.deviation, x.std(axis=(0, 1), ddof=1), rtol=1e-5)
    halves = np.concatenate([x[:, :10], x[:, 11:]])
    wanted = np.sqrt(0.9 + halves.mean(axis=1).var(axis=0, ddof=1) / halves.var(axis=1, ddof=1).mean(axis=0))
    np.testing.assert_allclose(leaf.r_hat, wanted, rtol=1e-4)
    assert leaf.scalar(int(np.argmax(leaf.r_hat))) == "w[7,5]"


def test_the_discrepancy_does_not_overflow_in_many_dimensions():
    """50,000² does not fit into 32 bits."""
    x = np.random.default_rng(0).normal(size=(8, 50_000))
    assert np.isfinite(diagnostics.kernel_stein_discrepancy(x, -x).squared)


# What is found --------------------------------------------------------------------------------------------


def stuck(draws):
    for leaf in draws.values():
        leaf[1] = leaf[1, :1]


def block_off(draws):
    draws["b"][2] += 3


def half_noise(draws):
    draws["w"][:, :, :15] *= np.sqrt(1.5)


def one_scalar_off(draws):
    draws["w"][3, :, 4, 9] += 3


def one_still(draws):
    draws["w"][:, :, 4, 9] = 0.5


def one_nan(draws):
    draws["w"][3, 7, 4, 9] = np.nan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (stuck, "R-hat of"),
        (block_off, r"R-hat of b\[\d\] is .*, above 1.0\d"),
        (half_noise, "the variance of w on average is"),
        (one_scalar_off, r"R-hat of w\[4,9\], by the means of its chains"),
        (one_still, r"w\[4,9\] never moved in any chain"),
        (one_nan, r"w\[4,9\] has draws that are not finite"),
    ],
)
def test_what_is_wrong_is_seen_through_directions_and_means(break_it, words):
    """1,204 parameters, 1,000 independent draws; of 40 such runs that were right, none was graded."""
    draws = normal_draws()
    break_it(draws)
    summary = trace_of(draws, UNIT).summary()
    assert summary.grade is not Grade.GOOD
    assert any(re.search(words, warning) for warning in summary.warnings), summary.warnings


@pytest.mark.slow
def test_right_draws_are_trusted_and_the_table_is_by_leaf():
    """That a right run is graded has a chance of about 2 % by design, and happened in 0 of 40."""
    summary = trace_of(normal_draws(), UNIT).summary()
    assert summary.trusted, summary.warnings
    assert [(leaf.name, leaf.shape) for leaf in summary.leaves] == list(SHAPES.items())
    assert summary.names[:2] == ["log density", "random direction 1"]
    text = str(summary)
    assert "30×40" in text
    assert "random direction 1" not in text
    assert "theta has 1,204 parameters" in text
    assert "not for each parameter" in text
    assert (
        abs(summary.checks["configurational temperature"] - 1)
        < 5 * summary.checks["standard error of the configurational temperature"]
    )
    assert (
        summary.checks["standard error of the configurational temperature"] < 0.003
    )  # √(2/1,204,000), by all parameters together


@pytest.mark.slow
def test_a_single_chain_is_split_for_the_spread():
    """12 % too wide everywhere: pooled over all parameters, that is far beyond the error."""
    draws = jax.tree.map(lambda x: 1.06 * x, normal_draws(chains=1, draws=400))
    summary = trace_of(draws, UNIT).summary()
    assert summary.checks["configurational temperature"] == pytest.approx(1.06**2, abs=0.02)
    assert any("one chain" in warning for warning in summary.warnings)
    # The centre of each half is that of the other: (θ - 3)·θ has the mean 1 in the first, and θ·θ has 10 in
    # the second.
    drifting = jax.tree.map(
        lambda x: x + 3 * (np.arange(400) >= 200).reshape(400, *[1] * (x.ndim - 2)),
        normal_draws(chains=1, draws=400),
    )
    checks = trace_of(jax.tree.map(np.float32, drifting), UNIT).summary().checks
    assert checks["configurational temperature"] == pytest.approx(5.5, abs=0.1)


def test_the_share_of_parameters_that_must_be_off_is_seen_in_nine_of_ten():
    """80 shifts of random parameters: seen in 90 %, at least 80 % (by chance: 0.4 %); a quarter, less."""
    rng = np.random.default_rng(0)
    chains, size, bound = 4, 4000, 1.02
    means = np.array([1.0, 1.0, 0, 0, 0, 0, 0, 0])[:, None]
    found = projections.r_hat_by_means(means, np.ones((8, 1)), 10**9)[0]
    assert found**2 - 1 == pytest.approx(projections.shift_of_one_chain(chains), rel=1e-6)
    share = projections.visible_fraction(chains, bound, 0.9)
    seen = {}
    for fraction in (share, share / 4):
        number = 0
        for _ in range(80):
            directions = rng.normal(size=(size, projections.DIRECTIONS))
            directions /= np.linalg.norm(directions, axis=0)
            shift = directions[rng.choice(size, int(fraction * size), replace=False)].sum(axis=0)
            number += np.any(1 + projections.shift_of_one_chain(chains) * shift**2 > bound**2)
        seen[fraction] = number / 80
    assert 0.8 <= seen[share] < 1
    assert seen[share / 4] < 0.6


def test_constrained_parameters_are_judged_unconstrained():
    target = fk.constrain(fk.Density(lambda theta: -jnp.sum(theta["w"])), {"w": "positive"})
    w = np.random.default_rng(0).exponential(size=(2, 100, 600)).astype(np.float32)
    summary = trace_of({"w": w}, target).summary()
    assert summary.leaves[0].means[0] > 0
    assert abs(summary.checks["configurational temperature"] - 1) < 0.02


# Quantities, reports, moments -----------------------------------------------------------------------------


def test_quantities_are_judged_too():
    draws = normal_draws()
    apart = np.zeros((4, 250)) + np.arange(4)[:, None] + np.random.default_rng(1).normal(size=(4, 250))
    summary = trace_of(draws).summary(quantities={"loss": apart, "first": lambda theta: theta["w"][0, :2]})
    assert summary.names[:3] == ["loss", "first[0]", "first[1]"]
    assert "loss" in str(summary)
    assert any("R-hat of loss" in warning for warning in summary.warnings)
    small = fk.Trace(draws["b"], None, {}, None, None)
    assert small.summary(quantities=lambda theta: theta.sum()).names == [
        "theta[0]",
        "theta[1]",
        "theta[2]",
        "quantity",
    ]


@pytest.mark.parametrize(
    ("quantities", "error", "words"),
    [
        (np.zeros((4, 3)), ValueError, r"quantity has the shape \(4, 3\).*must be \(4, 250\)"),
        (lambda theta: {"a": theta["b"]}, TypeError, "must return one array"),
        (lambda theta: theta["w"], ValueError, "1,200 numbers per draw; at most 500"),
        (np.full((4, 250), "a"), TypeError, "must hold numbers"),
    ],
)
def test_quantities_that_cannot_be_judged_are_refused(quantities, error, words):
    with pytest.raises(error, match=words):
        trace_of(normal_draws()).summary(quantities=quantities)


def network(rows=300):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 30)).astype(np.float32)

    def log_likelihood(theta, row):
        return -((row["y"] - jnp.tanh(row["x"] @ theta["w"]) @ theta["v"]) ** 2) / 2

    return fk.Posterior(UNIT.log_density, log_likelihood, {"x": x, "y": x[:, 0]})


@pytest.mark.slow
def test_a_run_with_minibatches_goes_all_the_way_to_the_report(tmp_path, monkeypatch):
    """With gradients and densities by some of the rows, and draws in several batches."""
    monkeypatch.setattr("fokker.diagnostics._gradients._WORK", 10**6)
    monkeypatch.setattr("fokker._core.draws._NUMBERS", 20_000)
    start = {"w": jnp.full((30, 20), 0.1), "v": jnp.zeros(20)}
    options = {"init": start, "steps": 40, "chains": 2, "batch_size": 10, "progress": False}
    trace = fk.sample(network(), fk.samplers.sgnht(1e-3), **options)
    summary = trace.summary()
    assert summary.names[0] == "log density by 100 of 300 rows"
    assert "gradient noise over injected noise" in summary.checks
    trace.report(tmp_path / "report.html", summary=summary)
    page = (tmp_path / "report.html").read_text()
    assert '<section id="parameters">' in page
    assert '<figure data-figure="Kinetic temperature">' in page
    assert "30×20" in page
    moments = {"mean": lambda x: x.mean(axis=1), "variance": lambda x: x.var(axis=1, ddof=1)}
    moments = dataclasses.replace(
        trace,
        draws=None,
        moments={name: jax.tree.map(of, trace.samples) for name, of in moments.items()},
        gathered=types.SimpleNamespace(count=[40, 40]),
    )
    summary = moments.summary()
    assert summary.grade is not Grade.GOOD
    assert [leaf.name for leaf in summary.leaves] == ["v", "w"]
    assert summary.leaves[1].means[1] == pytest.approx(trace.samples["w"].mean(axis=(0, 1)).max(), rel=1e-3)
    moments.report(tmp_path / "moments.html")
    assert "only moments were kept" in (tmp_path / "moments.html").read_text()


def test_moments_of_few_scalars_have_a_table_and_chains_that_disagree_are_seen():
    options = {"init": lambda key: jax.random.normal(key, (2,)), "steps": 50, "chains": 4, "progress": False}
    trace = fk.sample(
        fk.Density(lambda theta: -jnp.sum(theta**2) / 2), fk.samplers.sgld(1e-5), keep="moments", **options
    )
    summary = trace.summary()
    assert summary.names == ["theta[0]", "theta[1]"]
    assert summary.grade is Grade.BAD
    assert any("by the means of its chains" in warning for warning in summary.warnings)
    assert "–" in str(summary)
    assert not trace_is_bad(trace)
    with pytest.raises(ValueError, match="quantities need draws"):
        trace.summary(quantities=lambda theta: theta)


def trace_is_bad(trace):
    """The same trace with the means of all chains alike."""
    alike = jax.tree.map(lambda x: np.broadcast_to(x[:1], x.shape), trace.moments["mean"])
    alike = dataclasses.replace(trace, moments={**trace.moments, "mean": alike})
    return any("by the means" in warning for warning in alike.summary().warnings)
