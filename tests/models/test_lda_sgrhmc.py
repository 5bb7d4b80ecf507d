"""The compiled SGRHMC of topics: one step is that of the library, given the noise; noise, threads, memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fokker.dynamics import Dynamics
from fokker.dynamics._kinetic import half_square
from fokker.dynamics.hamiltonian import Hamiltonian
from fokker.fields import Elementwise
from fokker.integrators import Reflecting, StepInput
from fokker.models.topics import sgrhmc
from fokker.models.topics.potential import Counts, TopicPotential
from fokker.models.topics.sgrhmc import LAYER_WIDTH, MomentumTopics, update_row

ALPHA, FRICTION, WORDS, TOPICS = 0.3, 4.0, 30, 8


def library_step(theta, r, counts, h, noise):
    """D and Q of the docstring, by the recipe of the library."""
    delta = LAYER_WIDTH * h * h
    target, batch = TopicPotential(ALPHA), Counts(counts, jnp.zeros(TOPICS))
    dynamics = Dynamics(
        Hamiltonian(lambda theta: target.minibatch_potential(theta, batch), lambda r: half_square(r)),
        D={
            ("theta", "theta"): Elementwise(lambda theta: h * theta * delta / (theta + delta)),
            ("r", "r"): FRICTION,
        },
        Q={("r", "theta"): Elementwise(lambda theta: theta / jnp.sqrt(theta + delta))},
    )
    z = {"theta": theta, "r": r}
    gradient = jax.grad(lambda theta: target.minibatch_potential(theta, batch))
    moved, _ = Reflecting(lower=1e-30).advance(StepInput(dynamics, z, gradient, noise, h))
    return moved


@pytest.mark.slow
@pytest.mark.parametrize("h", [0.3, 0.02])
def test_a_step_is_that_of_the_recipe(h, x64):
    rng = np.random.default_rng(0)
    # In the layer at zero and above it, in words with and without counts.
    theta = rng.gamma(ALPHA, 3, (WORDS, TOPICS)) + 1e-6
    counts = rng.poisson(2.0, (WORDS, TOPICS)) * (np.arange(WORDS) % 2)[:, None] * 1.0
    r, theta_noise, r_noise = rng.normal(size=(3, WORDS, TOPICS))
    noise = {"theta": jnp.asarray(theta_noise), "r": jnp.asarray(r_noise)}
    expected = library_step(*map(jnp.asarray, (theta, r, counts)), h, noise)
    b = (1 + counts.sum(0) / theta.sum(0)).astype(np.float32)
    rows = [x.astype(np.float32) for x in (theta, r, counts, theta_noise, r_noise)]
    for x, own_r, N, first, second in zip(*rows, strict=True):
        number = [np.float32(y) for y in (ALPHA, h, FRICTION)]
        assert update_row(x, own_r, N, number[0], b, number[1], number[2], first, second)
    assert np.mean(np.asarray(expected["theta"]) < 1) > 0.3
    np.testing.assert_allclose(rows[0], expected["theta"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows[1], expected["r"], rtol=1e-4, atol=1e-4)


def test_noise_has_the_moments_of_a_gaussian_and_is_independent():
    drawn = np.empty((3, 20_000, 16))
    for i in range(drawn.shape[1]):
        first, second = np.empty((2, 16), np.float32)
        rounding = np.empty(16, np.uint32)
        sgrhmc._fill_noise(np.uint64(i * 0x1234567), 0, first, second, rounding)
        drawn[:, i] = first, second, rounding / 2**16 - 0.5
    x, y, u = drawn.reshape(3, -1)
    # 320,000 variates, at five standard errors: eight comparisons have a false alarm with a chance of 5e-6.
    bound = 5 / np.sqrt(x.size)
    for v in (x, y):
        assert abs(v.mean()) < bound
        assert abs((v**2).mean() - 1) < 1.5 * bound
        assert (v**4).mean() == pytest.approx(3 - 2 / 24, abs=10 * bound)
    assert abs(np.corrcoef(drawn.reshape(3, -1))[np.triu_indices(3, 1)]).max() < bound
    assert abs(u.mean()) < bound
    # Neighbouring topics.
    assert abs((drawn[0, :, 1:] * drawn[0, :, :-1]).mean()) < bound


def test_the_momentum_is_stored_in_sixteen_bits_with_its_mean():
    topics = MomentumTopics("sgrhmc", np.ones((400, 64), np.float32), 0.5, jax.random.key(0))
    assert topics._r.dtype == np.uint16
    # 1.001 lies between two numbers of 16 bits, 1 and 1 + 2⁻⁷: without noise, a tenth of the steps rounds up.
    topics._r[:] = sgrhmc.rounded(np.full((400, 64), 1.0))
    topics.step(np.zeros(0, np.int64), np.zeros((0, 64), np.float32), 1e-6, 1e-6, 1.0)
    moved = (topics._r.astype(np.uint32) << 16).view(np.float32)
    assert set(np.unique(moved)) <= {np.float32(1 - 2**-8), np.float32(1), np.float32(1 + 2**-7)}
    # The noise has a standard deviation of 1.4e-6; rounding to the nearest would leave all of them at one.
    assert abs(moved.mean() - 1) < 1e-4
    assert np.any(moved != 1)


def test_threads_change_no_bit():
    def run(threads):
        rng = np.random.default_rng(0)
        start = (rng.gamma(0.1, 1, (1300, 20)) + 1e-3).astype(np.float32)
        topics = MomentumTopics("sgrhmc", start, 0.05, jax.random.key(3), threads)
        for _ in range(5):
            words = np.sort(rng.choice(1300, 150, replace=False))
            topics.step(words, rng.gamma(0.5, 10, (150, 20)).astype(np.float32), 1e-2, 3.0, 1.0)
        return topics.state()

    alone, shared = run(1), run(3)
    for name, x in alone.items():
        np.testing.assert_array_equal(shared[name], x)
    np.testing.assert_allclose(alone["totals"], alone["theta"].sum(0, dtype=np.float64), rtol=1e-6)
