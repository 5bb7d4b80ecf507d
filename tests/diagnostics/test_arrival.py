"""Chains that start far away: their first draws are named, and what they add to a variance."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.diagnostics._arrival import arrival_findings
from fokker.diagnostics._findings import Grade


def draws(distances, rate=0.9, number=2_000, size=2, seed=0):
    """Unit normals; chain c begins `distances[c]` away in the first coordinate, and comes nearer."""
    x = np.random.default_rng(seed).normal(size=(len(distances), number, size))
    x[:, :, 0] += np.array(distances)[:, None] * rate ** np.arange(number)
    return x


def findings(x, thin=1, burn_in=0):
    return arrival_findings(["a", "b"], x, thin, burn_in)


def test_the_variance_that_the_way_adds_is_said_with_a_burn_in():
    x = draws([60.0, 40.0, 0.0, 0.0])
    (finding,) = findings(x, thin=3)
    added = float(re.search(r"variance ([\d.]+) times", finding.text)[1])
    assert abs(added / np.var(x[:, :, 0]) - 1) < 0.05
    assert finding.grade is Grade.BAD
    assert "way to the target: a began 59 standard deviations away" in finding.text
    burn_in = int(re.search(r"burn_in=(\d+)", finding.text)[1])
    assert not findings(x[:, burn_in // 3 :])
    assert np.var(x[:, burn_in // 3 :, 0]) < 1.1


def test_a_small_share_of_the_variance_is_no_reason_not_to_use_a_result():
    (finding,) = findings(draws([20.0, 0.0], number=10_000))
    assert finding.grade is Grade.CARE
    assert not findings(draws([12.0, 0.0], number=50_000))


def test_chains_that_have_not_settled_give_no_numbers():
    """Their spread is too small a unit: they began 8 of their true deviations away, not 30."""
    walks = 0.02 * np.cumsum(np.random.default_rng(0).normal(size=(4, 2_000, 1)), axis=1)
    x = np.repeat(walks + np.array([-1.0, -0.3, 0.3, 1.0])[:, None, None], 2, axis=2)
    x += 8 * 0.99 ** np.arange(2_000)[:, None]
    (finding,) = findings(x)
    assert finding.grade is Grade.CARE
    assert finding.text == (
        "the first draws were made on the way to the target, and the chains have not settled since: give "
        "more burn_in, or starts that are nearer"
    )


@pytest.mark.parametrize("seed", range(5))
def test_heavy_tails_constants_and_chains_that_started_there_are_none(seed):
    rng = np.random.default_rng(seed)
    far_by_chance = rng.standard_cauchy(size=(4, 1_000, 2))
    far_by_chance[0, 0] = 2 * np.abs(far_by_chance[0, 500:]).max(axis=0)
    for x in (
        far_by_chance,
        rng.normal(size=(4, 1_000, 2)),
        rng.standard_cauchy(size=(4, 1_000, 2)),
        np.exp(2 * rng.normal(size=(4, 1_000, 2))),
        np.ones((4, 1_000, 2)),
        np.full((4, 1_000, 2), np.nan),
        np.zeros((4, 3, 2)),
    ):
        assert not findings(x)


@pytest.mark.slow
def test_a_run_from_far_away_says_so_and_not_that_its_tails_are_heavy():
    """Negative control: with the burn-in that it asks for nothing is said of either."""
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    start = lambda key: 40 + jax.random.normal(key, (2,))  # noqa: E731

    def problems(burn_in):
        sampler = fk.samplers.ula(0.05)
        options = {"init": start, "steps": 4_000, "burn_in": burn_in, "seed": 0, "progress": False}
        return " ".join(finding.text for finding in fk.sample(target, sampler, **options).summary().findings)

    text = problems(0)
    assert "the first draws were made on the way to the target: theta[" in text
    assert "tails" not in text
    asked = int(re.search(r"burn_in=(\d+)", text)[1])
    assert 50 < asked < 500
    assert "on the way" not in problems(asked)


def test_the_burn_in_that_is_asked_for_includes_the_one_that_was_taken():
    """Nothing is said of a run with it; it counts from the first step also where a run was continued."""
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    options = {"init": jnp.array([1000.0]), "burn_in": 230, "chains": 2, "progress": False}

    def asked(trace):
        findings = trace.summary(gradients=False).findings
        found = re.search(r"way to the target.*give burn_in=(\d+)", " ".join(f.text for f in findings))
        return found and int(found[1])

    trace = fk.sample(target, fk.samplers.ula(0.02), steps=2_000, **options)
    burn_in = asked(trace)
    # The mean is within five standard deviations after log(200)/0.02 steps, within two after log(500)/0.02.
    assert 265 < burn_in < 400
    assert 265 < asked(trace.resume(2_000)) < 400
    assert asked(trace.rerun(burn_in=burn_in)) is None
