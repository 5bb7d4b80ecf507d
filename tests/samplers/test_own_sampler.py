"""A sampler of one's own, by the contract alone: it gets everything that the library's samplers get."""

import inspect
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from own_samplers import LeimkuhlerMatthews, Unadjusted, noise_like

DOCS = Path(__file__).parents[2] / "docs"
PRECISION = jnp.array([1.0, 4.0])
SHORT = {"init": jnp.ones(2), "chains": 2, "seed": 3, "progress": False}


def log_density(theta):
    return -jnp.sum(PRECISION * theta**2) / 2


def log_likelihood(theta, x):
    return -jnp.sum((theta - x) ** 2) / 2


NORMAL = fk.Density(log_density)
POSTERIOR = fk.Posterior(log_density, log_likelihood, np.linspace(-1, 2, 60, dtype=np.float32)[:, None])


def test_it_is_the_example_of_the_documentation_in_about_thirty_lines():
    source = inspect.getsource(LeimkuhlerMatthews).replace("  # noqa: E731", "")
    text = (DOCS / "own_sampler.md").read_text()
    assert source in text
    assert inspect.getsource(noise_like) in text
    assert len([line for line in source.splitlines() if line.strip()]) <= 32


@pytest.mark.slow
def test_it_is_checked():
    report = fk.check(LeimkuhlerMatthews(0.1).on(NORMAL), state=jnp.zeros(2), number_of_points=32)
    assert report.verdict == "right"
    unseen = "the bias of larger steps, gradients by minibatches and noise_estimate were not"
    assert unseen in " ".join(report.notes)


def test_its_time_scale_is_that_of_the_dynamics_that_it_follows():
    where = (NORMAL, 1.0, jnp.zeros(2), jax.random.key(0))
    assert LeimkuhlerMatthews(0.1).fastest_time(*where) == pytest.approx(1 / 4, rel=0.01)
    # Unknown dynamics: the narrowest width of the target.
    assert Unadjusted(0.1).fastest_time(*where) == pytest.approx(1 / 2, rel=0.01)


@pytest.mark.slow
def test_a_run_finds_its_step_size_and_ends_in_a_summary(monkeypatch):
    monkeypatch.setattr("fokker.run.candidates._STEPS", (1.0,))
    monkeypatch.setattr("fokker.run.tuning._CHECKED", 64)
    trace = fk.sample(NORMAL, LeimkuhlerMatthews(), steps=100, **SHORT)
    # At most the time scale of the dynamics, halved where a trial is found to be biased.
    assert 0.25 / 2**7 < trace.settings["step_size"] < 0.27
    assert trace.summary()


@pytest.mark.slow
def test_its_runs_are_stored_and_continued_to_the_bit(tmp_path):
    options = {**SHORT, "batch_size": 4}
    sampler = LeimkuhlerMatthews(1e-3)
    whole = fk.sample(POSTERIOR, sampler, steps=12, **options)
    fk.sample(POSTERIOR, sampler, steps=5, out=tmp_path / "run", **options)
    fk.sample(POSTERIOR, sampler, steps=12, out=tmp_path / "run", **options)
    np.testing.assert_array_equal(fk.open(tmp_path / "run").samples, whole.samples)
    with pytest.raises(ValueError, match="another"):
        fk.sample(POSTERIOR, LeimkuhlerMatthews(2e-3), steps=20, out=tmp_path / "run", **options)


def test_a_sampler_that_says_nothing_is_given_no_batches():
    with pytest.raises(ValueError, match=r"Unadjusted takes no minibatches.*takes_batches = True"):
        fk.sample(POSTERIOR, Unadjusted(1e-3), steps=5, batch_size=4, **SHORT)


def test_the_answers_of_a_sampler_that_says_nothing_are_safe():
    sampler = Unadjusted(0.1)
    assert (sampler.name, sampler.own_step_size, sampler.own_temperature) == ("Unadjusted", 0.1, 1.0)
    assert not any((sampler.is_exact, sampler.learns, sampler.takes_batches, sampler.holds_potential))
    assert sampler.reads_all_data
    assert sampler.needs_more_than_gradient
    assert sampler.known_target is None
    assert sampler.own_dynamics is None
    assert sampler.in_blocks(2) is sampler
    assert not any(claim is not None for claim in sampler.claims)
    with pytest.raises(ValueError, match=r"fk\.optax cannot serve"):
        fk.optax(sampler, size=10, log_prior=None, key=jax.random.key(0))
    with pytest.raises(ValueError, match="has no trajectory"):
        sampler.trajectory(jax.random.key(0), sampler.init(jnp.zeros(2)))
