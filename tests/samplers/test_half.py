"""Theta in bfloat16 and float16: rounding that is right on average, and which samplers take it."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from conftest import quick_jit
from fokker import samplers
from fokker._core import rounding as _rounding
from fokker._core.rounding import stochastic_round
from fokker.run.moments import Moments
from registry import THETA

HALF = [jnp.bfloat16, jnp.float16]
ALL_BITS = jnp.arange(2**16, dtype=jnp.uint16)


# Rounding ---------------------------------------------------------------------------------------------------


@functools.cache
def roundings(dtype):
    """`stochastic_round` of one number by every value of the bits."""
    return quick_jit(lambda x: stochastic_round(jnp.full(2**16, x), ALL_BITS, dtype))


@pytest.mark.parametrize("dtype", HALF)
def test_rounding_is_exact_on_average_whatever_is_rounded(dtype):
    """Over all the bits: at every kind of residue, around powers of two, zero, and below the least normal."""
    drop = 23 - jnp.finfo(dtype).nmant
    tiny = float(jnp.finfo(dtype).tiny)
    residues = [0, 1, 2, 3, 2 ** (drop - 1) - 1, 2 ** (drop - 1), 2**drop - 1, 12_345 % 2**drop]
    sizes = [1.0, 1.5, float(np.nextafter(np.float32(2), np.float32(0))), 3.0, 1000.0, tiny, 4 * tiny]
    values = [
        sign * float(np.float32(size) + r * np.spacing(np.float32(size)))
        for sign, size, r in itertools.product((1, -1), sizes, residues)
    ]
    values += [0.0, tiny / 2, -tiny / 3] if dtype == jnp.float16 else [0.0]
    for x in values:
        found = np.asarray(roundings(dtype)(jnp.float32(x)), np.float64)
        assert len(set(found.tolist())) <= 2
        spacing = max(np.ptp(found), 1e-300)
        assert np.all(np.abs(found - x) < spacing if spacing > 1e-300 else found == x)
        # Below the least normal float16 the residue itself has been rounded to 2⁻¹³ of the spacing.
        assert abs(found.mean() - x) <= (2**-13 * spacing if abs(x) < tiny else 0)


@pytest.mark.parametrize("dtype", HALF)
def test_rounding_keeps_what_is_not_finite_and_does_not_hide_what_is_too_large(dtype):
    largest = float(jnp.finfo(dtype).max)
    for x, wanted in ((np.inf, np.inf), (-np.inf, -np.inf), (np.nan, np.nan), (largest, largest)):
        found = np.asarray(roundings(dtype)(jnp.float32(x)), np.float64)
        assert np.array_equal(found, np.full(2**16, wanted), equal_nan=True)
    worst_nan = jax.lax.bitcast_convert_type(jnp.uint32(0x7FFFFFFF), jnp.float32)  # a carry would leave -0
    assert np.all(np.isnan(np.asarray(roundings(dtype)(worst_nan), np.float32)))
    beyond = np.asarray(roundings(dtype)(jnp.float32(largest * (1 + 2.0**-12))), np.float64)
    assert set(beyond.tolist()) == {largest, np.inf}


# Samplers ---------------------------------------------------------------------------------------------------


def half(theta, dtype=jnp.bfloat16):
    return {**theta, "a": theta["a"].astype(dtype)}


def test_a_run_refuses_before_anything_is_compiled():
    target = fk.Density(lambda theta: -jnp.sum(theta["a"] ** 2))
    with pytest.raises(ValueError, match="nuts needs single or double precision"):
        fk.sample(target, samplers.nuts(), init=half(THETA), steps=10, chains=1, progress=False)


def after(dtype):
    """Theta after 200 steps of SGHMC of at most 0.004 around 3, where bfloat16 has a spacing of 0.0156."""
    sampler = samplers.sghmc(1e-3).on(fk.Density(lambda theta: -jnp.sum((theta - 3) ** 2) / 2))

    @jax.jit
    def run(key):
        state = sampler.init(jnp.full(4000, 3.0, dtype), key=key)
        state = state._replace(z={**state.z, "r": jnp.clip(state.z["r"], -4, 4)})
        return jax.lax.scan(lambda s, k: (sampler.step(k, s)[0], None), state, jax.random.split(key, 200))[0]

    return np.asarray(run(jax.random.key(0)).position, float)


@pytest.mark.long("half::rounding_is_exact_on_average_whatever_is_rounded")
def test_small_steps_are_lost_to_the_nearest_and_not_to_random_rounding(monkeypatch, optimised):
    """The variance is t² = 0.04 less friction, and random rounding adds E[u|Δ|] a step to it.

    4000 coordinates: within 6 of the standard errors, 2.2 % each; a false alarm in 1e8.
    """
    single, rounded = after(jnp.float32), after(jnp.bfloat16)
    added = 0.2 * 0.0156 * np.sqrt(2 / np.pi)
    assert abs(rounded.mean() - 3) < 6 * rounded.std() / np.sqrt(4000)
    assert abs(rounded.var() / (single.var() + added) - 1) < 6 * 0.022 * np.sqrt(2)
    monkeypatch.setattr(_rounding, "stochastic_round", lambda x, bits, dtype: x.astype(dtype))
    assert np.all(after(jnp.bfloat16) == 3)


@pytest.mark.slow
def test_a_run_in_half_precision_goes_all_the_way_to_the_summary():
    x = np.random.default_rng(0).normal(size=(50, 1)).astype(np.float32)
    target = fk.Posterior(
        lambda t: -jnp.sum(t["a"] ** 2) - jnp.sum(t["b"] ** 2),
        lambda t, x: -jnp.sum((x - t["a"]) ** 2) - jnp.sum((x - t["b"]) ** 2),
        x,
    )
    options = {"init": half(THETA), "chains": 2, "batch_size": 5, "gradient": fk.gradients.saga()}
    trace = fk.sample(target, samplers.sgld(1e-3), steps=8, progress=False, **options)
    assert jax.tree.map(lambda x: x.dtype.name, trace.samples) == {"a": "float32", "b": "float32"}
    assert np.array_equal(trace.samples["a"], trace.samples["a"].astype(jnp.bfloat16).astype(np.float32))
    assert trace.state.z["theta"]["a"].dtype == jnp.bfloat16
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(trace.state.memory.estimator))
    assert trace.to_arviz().posterior["a"].dtype == np.float32
    assert "a[0]" in str(trace.summary())
    assert trace.resume(8).samples["a"].shape == (2, 16, 3)


def test_moments_of_half_precision_are_gathered_in_single():
    """300 ones: in 8 bits their mean would be right, and a sum of squares end at 256."""
    values = jnp.tile(jnp.array([1.0, -1.0], jnp.bfloat16), 300)
    first = Moments.of(values[0])
    moments = quick_jit(lambda m: jax.lax.scan(lambda m, x: (m.add(x), None), m, values)[0])(first)
    assert float(moments.squares) == pytest.approx(600)
    assert moments.mean.dtype == jnp.float32
