"""Steps in a row that share a batch: which batch each of them sees, and what that does to the chain."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

import fokker as fk
from affine import Gaussian, affine, covariance
from fokker.batches import BlockBatches
from fokker.diagnostics import gradient_noise_share
from fokker.diagnostics._steps import noise_share
from fokker.run.record import OtherRunError

N, BATCH, STEPS = 2048, 2, 12
VALUES = np.random.default_rng(0).integers(-8, 9, N).astype(np.float32)
# Whole numbers, and a step that divides N/n: all sums are exact.
STEP = BATCH / N


def _posterior(data):
    size = None if isinstance(data, np.ndarray) else N
    return fk.Posterior(lambda theta: 0.0 * theta, lambda theta, x: theta * x, data, size=size)


def _moves(data, **options):
    """By how much θ moves at each step: the sum of the batch, as there is no noise."""
    options = {"steps": STEPS, "chains": 2, "temperature": 0.0, "progress": False, **options}
    trace = fk.sample(_posterior(data), fk.samplers.sgld(STEP), init=jnp.zeros(()), **options)
    return np.diff(np.asarray(trace.samples), axis=1, prepend=0.0)


def _in_file(folder):
    np.save(folder / "values.npy", VALUES)
    return np.load(folder / "values.npy", mmap_mode="r")


KINDS = {
    "window": "window",
    "replacement": "replacement",
    "no replacement": "no replacement",
    "reshuffle": "reshuffle",
    "blocks": BlockBatches(N, BATCH, window=16, pool=4),
    "scores": np.arange(1.0, N + 1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_step_t_has_the_batch_t_over_repeats_whatever_the_chunk_and_the_thinning(kind):
    options = {"batch_size": BATCH, "batches": KINDS[kind]}
    each = _moves(VALUES, **options, steps=4)
    assert len(np.unique(each)) > 2
    shared = _moves(VALUES, **options, batch_repeats=3)
    np.testing.assert_allclose(shared, np.repeat(each, 3, axis=1), atol=1e-4)
    np.testing.assert_array_equal(_moves(VALUES, **options, batch_repeats=3, chunk=5), shared)
    thinned = _moves(VALUES, **options, batch_repeats=3, thin=2, chunk=4)
    np.testing.assert_allclose(thinned, shared.reshape(2, -1, 2).sum(-1), atol=1e-4)


@pytest.mark.parametrize("kind", ["window", "reshuffle"])
def test_a_file_gives_the_batches_of_the_same_rows_in_memory(tmp_path, kind):
    options = {"batch_size": BATCH, "batches": kind, "batch_repeats": 3}
    shared = _moves(VALUES, **options)
    for chunk in (100, 5):
        np.testing.assert_array_equal(_moves(_in_file(tmp_path), **options, chunk=chunk), shared)


def _batches():
    return iter([VALUES[2 * i : 2 * i + 2] for i in range(37)])


@pytest.mark.parametrize("make", [lambda: _batches, _batches])
def test_a_stream_is_read_once_for_all_steps_of_a_batch(make):
    each = _moves(make(), steps=4)
    shared = _moves(make(), batch_repeats=3)
    np.testing.assert_array_equal(shared, np.repeat(each, 3, axis=1))
    for chunk in (1, 4, 5):  # blocks that end within a batch
        np.testing.assert_array_equal(_moves(make(), batch_repeats=3, chunk=chunk), shared)


def test_a_run_goes_on_within_a_batch(tmp_path):
    def run(data, steps, **options):
        target, sampler = _posterior(data), fk.samplers.sgld(STEP)
        options = {"chains": 2, "init": jnp.zeros(()), "batch_repeats": 3, "progress": False, **options}
        return fk.sample(target, sampler, steps=steps, **options)

    for data, options in ((VALUES, {"batch_size": BATCH}), (_batches, {})):
        whole = run(data, STEPS, **options).samples
        np.testing.assert_array_equal(run(data, 7, **options).resume(STEPS - 7).samples, whole)
        folder = tmp_path / str(len(options))
        run(data, 7, out=folder, **options)
        np.testing.assert_array_equal(run(data, STEPS, out=folder, **options).samples, whole)
        with pytest.raises(OtherRunError, match="batch_repeats is 2, and was 3"):
            run(data, STEPS, out=folder, **options, batch_repeats=2)


GAUSSIAN = Gaussian(np.eye(1))


def _stationary_variance(sampler, noise, repeats):
    """Of θ, averaged over the steps of a batch. A step is z' = Az + Bw + Cν, with ν of the batch."""
    A, B, C = affine(sampler, GAUSSIAN, 1.0)
    # z after all steps of a batch, and then each step, of which ν is the same.
    powers = [np.linalg.matrix_power(A, k) for k in range(repeats + 1)]
    fresh = sum(powers[k] @ B @ B.T @ powers[k].T for k in range(repeats))
    sums = [sum((powers[j] for j in range(k)), np.zeros_like(A)) @ C for k in range(repeats + 1)]
    start = solve_discrete_lyapunov(powers[repeats], fresh + noise * sums[repeats] @ sums[repeats].T)
    variances = []
    for k in range(1, repeats + 1):
        of_noise = sum(powers[j] @ B @ B.T @ powers[j].T for j in range(k))
        variances.append(powers[k] @ start @ powers[k].T + of_noise + noise * sums[k] @ sums[k].T)
    return np.mean(variances, axis=0)[-1, -1]


SGHMC = fk.samplers.sghmc(0.1, 1.0)
# Of the gradient of a batch: at the step 0.1 its noise is a tenth of that injected.
NOISE = 2.0


def test_the_exact_law_is_that_of_new_noise_at_one_step_per_batch_and_grows_with_more():
    fresh = covariance(SGHMC, GAUSSIAN, gradient_noise=NOISE * np.eye(1))[0, 0]
    variances = [_stationary_variance(SGHMC, NOISE, repeats) for repeats in (1, 2, 4)]
    assert variances[0] == pytest.approx(fresh, rel=1e-6)
    without = _stationary_variance(SGHMC, 0.0, 4)
    # Nearly in proportion, as theta moves little in four steps.
    shares = (np.array(variances) - without) / (variances[0] - without)
    np.testing.assert_allclose(shares, [1, 2, 4], rtol=0.05)


@pytest.mark.parametrize("repeats", [1, 4])
def test_the_stationary_variance_is_that_of_the_exact_law_and_the_share_of_noise_says_so(optimised, repeats):
    """Off by four standard errors once in 10,000 keys; repeats=4 in place of 1 is off by more than 20."""
    n = 4
    data = VALUES - VALUES.mean(dtype=np.float64).astype(np.float32)
    data *= np.float32(np.sqrt(NOISE * n) / N / data.std(dtype=np.float64))
    target = fk.Posterior(lambda theta: -(theta**2) / 2, lambda theta, x: theta * x, data)
    options = {"batch_size": n, "batches": "replacement", "batch_repeats": repeats, "progress": False}
    steps = {"burn_in": 100, "steps": 2000, "thin": 2, "chains": 512}
    trace = fk.sample(target, SGHMC, init=jnp.zeros(()), **steps, **options)
    squares = np.mean(np.asarray(trace.samples, float) ** 2, axis=1)
    error = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - _stationary_variance(SGHMC, NOISE, repeats)) < 4 * error
    other = _stationary_variance(SGHMC, NOISE, 5 - repeats)
    assert abs(squares.mean() - other) > 20 * error
    assert gradient_noise_share(trace.origin.sampler, trace.state, trace.origin.batches) == pytest.approx(
        0.1, rel=0.1
    )
    checks = {}
    findings = noise_share(trace, checks)
    assert checks["gradient noise over injected noise"] == pytest.approx(0.1 * repeats, rel=0.1)
    assert any("smaller batch_repeats" in x.text for x in findings) == (repeats > 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scalar", "diagonal", "matrix"])
def test_a_thermostat_does_not_absorb_what_many_steps_share_and_the_summary_says_by_how_much(kind, optimised):
    """The noise of a batch is 0.2 of that injected: new at every step it is absorbed, and fifty times not."""
    n = 4
    data = VALUES - VALUES.mean(dtype=np.float64).astype(np.float32)
    data *= np.float32(np.sqrt(10 * NOISE * n) / N / data.std(dtype=np.float64))
    target = fk.Posterior(lambda theta: -jnp.sum(theta**2) / 2, lambda theta, x: theta[0] * x, data)
    integrator = None if kind == "matrix" else fk.integrators.Splitting()
    sampler = fk.samplers.sgnht(0.02, kind=kind, integrator=integrator)
    excess, percents = {}, {}
    for repeats in (1, 50):
        options = {"batch_size": n, "batches": "replacement", "batch_repeats": repeats, "progress": False}
        steps = {"burn_in": 2000, "steps": 4000, "thin": 20, "chains": 128}
        trace = fk.sample(target, sampler, init=jnp.zeros(1), **steps, **options)
        excess[repeats] = 100 * (np.mean(np.asarray(trace.samples, float) ** 2) - 1)
        said = [
            re.search(r"50 steps share a batch.* (\d+) % too large", x.text) for x in noise_share(trace, {})
        ]
        percents[repeats] = [float(x[1]) for x in said]
    assert abs(excess[1]) < 15
    assert percents[1] == []
    assert excess[50] > 90
    # To first order, of a large error.
    assert percents[50] == [pytest.approx(excess[50], rel=0.4)]


@pytest.mark.parametrize(
    ("sampler", "options", "why"),
    [
        (fk.samplers.sgld(STEP), {"batch_size": None}, "there are no minibatches: give a batch_size"),
        (fk.samplers.sgld(STEP), {"gradient": fk.gradients.saga()}, "SAGA has the gradients of"),
        (fk.samplers.sghmc(STEP, noise_estimate="scalar"), {}, "noise_estimate is of noise that is new at"),
        (
            fk.samplers.replica_exchange(fk.samplers.sgld(STEP), [1.0, 2.0], exact=False),
            {},
            "exact=False needs a new batch at an exchange",
        ),
    ],
)
def test_what_needs_new_rows_at_every_step_refuses_to_share_them(sampler, options, why):
    options = {"batch_size": BATCH, **options}
    with pytest.raises(ValueError, match=f"batch_repeats=2 cannot be used: {why}"):
        fk.sample(_posterior(VALUES), sampler, init=jnp.zeros(()), steps=2, batch_repeats=2, **options)
