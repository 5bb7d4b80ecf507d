"""Few chains of a small model on a CPU, each as one kernel: they draw what chains that move together draw."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker import samplers
from fokker._core import one_kernel
from fokker.run import trajectories

pytestmark = [
    pytest.mark.usefixtures("quickly"),
    pytest.mark.skipif(
        jax.__version_info__[:2] not in one_kernel._RELEASES,
        reason="XLA's kernels of this release are not used",
    ),
]

RADII = np.array([0.5, 1.0, 2.0], np.float32)
# Its gradient adds to places of an array, as that of a model with groups does.
GROUPED = fk.Density(
    lambda x: -jnp.sum((x[np.array([0, 1, 2, 1])] - 0.3) ** 2) / 2 - jnp.sum((x / RADII) ** 4) / 4
)
SORTED = fk.Density(lambda x: -jnp.sum(jnp.arange(1.0, 4.0) * jnp.sort(x) ** 2) / 2)
NUTS = samplers.nuts(0.6, RADII)


def starts(key):
    return 0.5 * jax.random.normal(key, (3,))


def draws(target=GROUPED, sampler=NUTS, **options):
    options = {"steps": 24, "chains": 3, "seed": 5, "progress": False, **options}
    return fk.sample(target, sampler, init=starts, **options)


@pytest.fixture(scope="module")
def alone():
    return draws()


def same(a, b):
    np.testing.assert_array_equal(a.samples, b.samples)
    for name, values in a.sample_stats.items():
        np.testing.assert_array_equal(values, b.sample_stats[name])


def program_of(trace):
    """What the chains of a trace run by, as it is known."""
    shared = trace.sampler, 501, trajectories.Steps.of(0, 1)
    keys = jax.random.split(jax.random.key(0), trace.samples.shape[0])
    return trajectories._program_of_one(shared, (trace.state, None, keys, None))


def test_chains_alone_draw_what_chains_together_draw(alone, monkeypatch):
    assert program_of(alone) is not None
    monkeypatch.setattr(trajectories, "_MOST_ALONE", 2)
    assert program_of(alone) is None
    # To rounding, which steps multiply: over ten of them.
    together = draws(steps=10)
    np.testing.assert_allclose(alone.samples[:, :10], together.samples, rtol=2e-3, atol=2e-3)
    steps = [t.sample_stats["num_integration_steps"][:, :10] for t in (alone, together)]
    np.testing.assert_array_equal(*steps)
    assert len(np.unique(steps[0])) > 2


def test_draws_are_the_same_to_the_bit_whatever_the_blocks(alone):
    same(draws(chunk=7), alone)
    same(draws(steps=10).resume(14), alone)
    np.testing.assert_array_equal(draws(thin=4).samples, alone.samples[:, 3::4])


def test_a_learned_run_goes_on_to_the_bit():
    options = {"sampler": samplers.nuts(), "warm_up": 60}
    whole = draws(**options)
    same(draws(steps=10, **options).resume(14), whole)
    np.testing.assert_array_equal(draws(**options).samples, whole.samples)


def test_a_second_run_compiles_nothing(alone):
    before = trajectories._known_program.cache_info().misses
    program = program_of(draws(seed=6, steps=30))
    assert trajectories._known_program.cache_info().misses <= before + 1  # that of the question itself
    sizes = program._run._cache_size()
    draws(seed=7, steps=12, thin=2)
    assert program._run._cache_size() == sizes


@pytest.mark.parametrize("precision", [None, "double"])
def test_what_is_no_kernel_moves_together(precision, monkeypatch):
    """A sort is none; its draws are those of the plain program, in the precision that was asked for."""
    trace = draws(SORTED, steps=5, precision=precision)
    assert trace.samples.dtype == (np.float64 if precision else np.float32)
    monkeypatch.setattr(trajectories, "_MOST_ALONE", 0)
    np.testing.assert_array_equal(draws(SORTED, steps=5, precision=precision).samples, trace.samples)


def test_a_kernel_that_xla_does_not_compile_moves_together(monkeypatch):
    """As that of a product of 5,000 × 3 numbers; it is tried once."""
    tried = []

    def fails(*_, **__):
        tried.append(1)
        raise jax.errors.JaxRuntimeError("UNIMPLEMENTED: Fusion kind not implemented on CPU")

    target = fk.Density(lambda x: -jnp.sum((x / RADII) ** 2) / 2)
    with monkeypatch.context() as patch:
        patch.setattr(trajectories._OneByOne, "check", lambda self: None)
        patch.setattr(trajectories, "one_kernel", fails)
        trace = draws(target, chunk=4)
        assert len(tried) == 1
    trajectories.forget_programs()
    monkeypatch.setattr(trajectories, "_MOST_ALONE", 0)
    same(draws(target, chunk=4), trace)


def test_kernels_compute_in_double_precision():
    trace = draws(precision="double", steps=5)
    assert trace.samples.dtype == np.float64
    assert np.abs(trace.samples - trace.samples.astype(np.float32)).max() > 0


@pytest.mark.slow
def test_samplers_with_paths_are_kernels_too(monkeypatch):
    for sampler in (samplers.hmc(0.5, None, RADII), samplers.ghmc(0.5, 0.7, RADII, num_integration_steps=2)):
        trace = draws(sampler=sampler, steps=6)
        assert program_of(trace) is not None
        with monkeypatch.context() as patch:
            patch.setattr(trajectories, "_MOST_ALONE", 0)
            together = draws(sampler=sampler, steps=6)
        np.testing.assert_allclose(trace.samples, together.samples, rtol=2e-3, atol=2e-3)


def test_blocks_of_chains_together_do_not_change_a_bit():
    same(draws(SORTED, steps=5, chunk=2), draws(SORTED, steps=5))
