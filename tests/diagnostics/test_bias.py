"""Biases that are looked for by ∇U: means, spreads at walls, boundaries; and what was not looked for."""

import dataclasses
import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal, stats

import fokker as fk
from fokker import samplers
from fokker.diagnostics import Grade, spread_of
from fokker.diagnostics.configurational import Walls
from fokker.integrators import Reflecting
from judged_draws import UNIT, judged, normals, origin_of
from own_samplers import OfDraws

# The mean -------------------------------------------------------------------------------------------------


def skewed(z):
    x = np.log(stats.gamma.ppf(stats.norm.cdf(z), 3))
    return x, np.exp(x) - 3


def correlated(z):
    root = np.linalg.cholesky(np.eye(z.shape[2]) + 0.5)
    x = z @ root.T
    return x, x @ np.linalg.inv(root @ root.T)


@pytest.mark.parametrize("make", [correlated, skewed])
@pytest.mark.parametrize("phi", [0.0, 0.7])
def test_a_shifted_mean_is_found_and_a_right_one_is_not(make, phi):
    """A quarter of a standard deviation; right runs alarm in 1 % by design, so that 2 of 5 are 0.1 %."""
    right, wrong = 0, 0
    for seed in range(5):
        z = signal.lfilter([np.sqrt(1 - phi**2)], [1, -phi], normals(number=1500, d=3, seed=seed), axis=1)
        z = z[:, 100:]
        right += spread_of(*make(z)).shift.furthest() is not None
        z[:, :, 0] += 0.25
        found = spread_of(*make(z)).shift.furthest()
        wrong += found is not None and found[1] > 0
    assert right < 2
    assert wrong == 5


def test_the_shift_is_in_standard_deviations_along_every_direction():
    """δ of a correlated normal by Σ E[∇U], for coordinates and principal directions; and its power."""
    x, _ = correlated(normals(number=4000, d=3))
    precision = np.linalg.inv(np.eye(3) + 0.5)
    shift = spread_of(x + np.array([0.6, 0.0, 0.0]), (x + np.array([0.6, 0.0, 0.0])) @ precision).shift
    assert shift.names[:3] == ["coordinate 0", "coordinate 1", "coordinate 2"]
    np.testing.assert_allclose(shift.mean[:3], [0.6 / np.sqrt(1.5), 0, 0], atol=0.04)
    assert np.sum(shift.mean[3:] ** 2) == pytest.approx(0.36 * precision[0, 0], abs=0.05)
    np.testing.assert_allclose(shift.error, 1 / np.sqrt(16_000), rtol=0.15)
    few = spread_of(x[:, :100], x[:, :100] @ precision).shift
    assert few.detectable == pytest.approx((3.14 + 1.28) * few.error.max(), rel=0.02)  # 0.01/2 over 6


def test_gradients_without_a_variance_are_not_judged():
    gradients = np.random.default_rng(0).pareto(1.3, size=(4, 1000, 1))
    shift = spread_of(normals(d=1), gradients).shift
    assert not shift.judged.any()
    assert shift.furthest() is None


@pytest.mark.slow
def test_a_forgotten_prior_is_found_and_named():
    """N(1, 1) times a likelihood of precision 14.2: without it, the mean is off by 0.26 deviations."""
    target = fk.Density(lambda theta: -14.2 * jnp.sum(theta**2) / 2 - jnp.sum((theta - 1) ** 2) / 2)
    draws = normals(number=2000) / np.sqrt(14.2)
    summary = judged(draws, target)
    assert summary.grade is not Grade.GOOD
    message = next(text for text in summary.warnings if "the mean of theta is off" in text)
    assert "standard deviations too low" in message
    assert "check that the sampler has the whole gradient: prior" in message
    right = normals(number=2000) / np.sqrt(15.2) + 1 / 15.2
    summary = judged(right, target)
    assert summary.trusted, summary.warnings
    assert "a mean that is off by 0.1 standard deviations in any direction" in summary.checked
    # Its own temperature: at T = 4 the same shift, in standard deviations, is seen as well.
    hot = judged(2 * normals(number=2000) / np.sqrt(15.2), target, temperature=4.0)
    assert any("the mean of theta is off" in text for text in hot.warnings)


@pytest.mark.slow
def test_a_shift_of_many_parameters_is_seen_along_directions():
    """600 parameters that are all off by half a standard deviation, half of them upwards."""
    z = np.random.default_rng(0).normal(size=(4, 60, 600)).astype(np.float32)
    signs = np.where(np.arange(600) % 2, 0.5, -0.5).astype(np.float32)
    assert not any("mean of theta" in text for text in judged(z, UNIT).warnings)
    assert any("the mean of theta is off" in text for text in judged(z + signs, UNIT).warnings)


# Walls ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("upper", "draw"),
    [
        (np.inf, lambda z: 2 + stats.expon.ppf(stats.norm.cdf(z))),
        (3.0, lambda z: 2 + stats.truncexpon.ppf(stats.norm.cdf(z), 1.0)),
    ],
)
def test_the_equation_at_a_wall_holds_for_right_draws_alone(upper, draw):
    """exp(-θ) on [2, ∞) and on [2, 3], beside a coordinate without walls, which keeps both its equations."""
    z = normals(number=2000)
    walls = Walls(np.array([2.0, -np.inf]), np.array([upper, np.inf]))

    def spread(shift):
        x = np.stack([draw(z[:, :, 0] + shift), z[:, :, 1]], axis=2)
        return spread_of(x, np.stack([np.ones_like(x[:, :, 0]), x[:, :, 1]], axis=2), walls=walls)

    assert spread(0.0).furthest() is None
    assert spread(0.4).furthest()[0] == "coordinate 0"
    assert spread(0.4).shift.names == ["coordinate 1"]
    assert list(spread(0.4).walled[:2]) == [True, False]


@pytest.mark.slow
def test_a_reflected_run_with_too_large_a_step_is_found(optimised):
    """Exp(1) at a step of 0.5, whose mean is 25 % too large."""
    target = fk.Density(lambda theta: -jnp.sum(theta))
    options = {
        "init": lambda key: jax.random.exponential(key, (1,)),
        "chains": 4,
        "thin": 4,
        "progress": False,
    }
    integrator = Reflecting(lower=0.0)
    wrong = fk.sample(target, samplers.sgld(0.5, integrator=integrator), steps=8_000, **options).summary()
    assert wrong.grade is not Grade.GOOD
    assert "do not fit the target at its wall" in wrong.warnings[0]
    assert wrong.checks["configurational temperature"] == pytest.approx(1.25, abs=0.05)


ENDS = fk.Density(lambda theta: jnp.where(jnp.all(theta > 0), -jnp.sum(theta), -jnp.inf))
JUMPS = fk.Density(lambda theta: -jnp.sum(theta**2) / 2 + jnp.where(theta[1] > 0.5, 0.0, -2.0))


def jumping(z):
    """Draws of `JUMPS`, by rejection."""
    generator = np.random.default_rng(1)
    keep = (z[:, :, 1] > 0.5) | (generator.uniform(size=z.shape[:2]) < np.exp(-2))
    return np.stack([chain[mask][:900] for chain, mask in zip(z, keep, strict=True)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "draws", "words"),
    [
        (ENDS, -np.log(stats.norm.cdf(normals())), r"ends at theta\[\d\] ≈ "),
        (JUMPS, jumping(normals(number=3000)), r"jumps by a factor of 7.4 at theta\[1\] ≈ 0.5"),
    ],
)
def test_a_boundary_is_named_and_right_draws_are_not_called_wrong(target, draws, words):
    summary = judged(draws, target, is_exact=True)
    assert summary.grade is Grade.CARE, summary.warnings
    assert len(summary.warnings) == 1
    assert re.search(f"the density of the target {words}", summary.warnings[0])
    blind = judged(draws, target)  # a sampler that follows ∇U alone
    assert blind.grade is Grade.BAD
    assert "follows the gradient alone" in blind.warnings[0]


def test_draws_that_ignore_a_jump_look_right_to_the_gradient_and_are_found():
    """A standard normal, as SGLD would draw it: ∇U is that of the normal everywhere."""
    x = normals()
    assert spread_of(x, x).furthest() is None
    assert "jumps by a factor" in judged(x, JUMPS).warnings[0]


@pytest.mark.slow
def test_smooth_targets_have_no_boundary():
    """Nor has a density that vanishes where it ends, or one with a kink."""
    gamma = fk.Density(
        lambda theta: jnp.where(
            jnp.all(theta > 0), jnp.sum(2 * jnp.log(jnp.maximum(theta, 1e-30)) - theta), -jnp.inf
        )
    )
    laplace = fk.Density(lambda theta: -jnp.sum(jnp.abs(theta)))
    z = stats.norm.cdf(normals())
    assert judged(stats.gamma.ppf(z, 3), gamma).trusted
    assert judged(stats.laplace.ppf(z), laplace).trusted


@pytest.mark.slow
def test_steps_refused_beyond_an_end_are_not_called_divergences():
    draws = stats.gamma.ppf(stats.norm.cdf(normals()), 3)
    target = fk.Density(
        lambda theta: jnp.where(
            jnp.all(theta > 0), jnp.sum(2 * jnp.log(jnp.maximum(theta, 1e-30)) - theta), -jnp.inf
        )
    )
    refused = {"is_divergent": np.arange(4000).reshape(4, 1000) % 3 == 0}
    summary = judged(draws, target, is_exact=True, statistics=refused)
    assert summary.grade is Grade.CARE
    assert "refused beyond a boundary: the density of the target ends" in summary.warnings[0]
    assert judged(normals(), UNIT, is_exact=True, statistics=refused).grade is Grade.BAD


# What was not looked for ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.0}, "at temperature 0"),
        ({"target": None}, "the target of this sampler is not known"),
        ({"gradients": False}, "gradients=False was given"),
    ],
)
def test_a_run_whose_bias_was_not_looked_for_is_not_trusted(options, words):
    target = options.get("target", UNIT)
    origin = origin_of(OfDraws(target, False), target)
    settings = {"temperature": options.get("temperature", 1.0)}

    def summary():
        if target is None:
            # A Hamiltonian that is one function has no U of its own.
            dynamics = fk.SDE(lambda theta: -theta, 1.0, lambda theta: jnp.sum(theta**2) / 2)
            origin.sampler = dataclasses.replace(origin.sampler, dynamics=dynamics)
            origin.target = types.SimpleNamespace(is_constrained=False)
        trace = fk.Trace(normals(), None, {}, None, None, settings, origin)
        return trace.summary(gradients=options.get("gradients", True))

    assert summary().grade is Grade.CARE
    assert words in summary().warnings[0]
    origin.sampler = OfDraws(target)
    assert summary().trusted == ("temperature" not in options)


# The kinetic temperature ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_spread_of_theta_overrules_the_kinetic_temperature():
    """Right draws whose momentum is a third too cold, as BAOAB's; where theta was not compared, it counts."""
    cold = {"kinetic_temperature": np.random.default_rng(0).chisquare(8, size=(4, 1000)) / 8 * 0.67}
    summary = judged(normals(), UNIT, statistics=cold)
    assert summary.trusted, summary.warnings
    assert "the kinetic temperature is 0.67" in summary.notes[0]
    assert summary.checks["kinetic temperature"] == pytest.approx(0.67, abs=0.02)
    wrong = judged(1.3 * normals(), UNIT, statistics=cold)
    assert "the spread of theta is too wide" in wrong.warnings[0]
    assert "kinetic" not in " ".join([*wrong.warnings, *wrong.notes])  # it may be wrong by the same fault


# The shape ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quantiles", "words"),
    [
        (lambda u: np.sqrt(3) * (2 * u - 1), "the tails of theta"),
        (lambda u: stats.laplace.ppf(u) / np.sqrt(2), "the tails of theta"),
        (lambda u: (stats.gamma.ppf(u, 4) - 4) / 2, "the skewness of theta"),
    ],
    ids=["uniform", "Laplace", "gamma"],
)
def test_a_wrong_shape_of_the_right_mean_and_variance_is_seen(quantiles, words):
    z = normals()
    draws = quantiles(stats.norm.cdf(z))
    spread = spread_of(draws, draws)
    assert spread.furthest() is None
    assert spread.shift.furthest() is None
    summary = judged(draws, UNIT)
    assert any(f"the shape of the distribution is off: {words}" in text for text in summary.warnings)
    assert spread_of(z, z).shape.furthest() is None
    assert spread_of(*skewed(z)).shape.furthest() is None
    wide = spread_of(1.3 * z, 1.3 * z).shape  # a normal deviates by the bias of its variance
    np.testing.assert_allclose(wide.mean[:2], 0.69, atol=0.15)


# Tails ----------------------------------------------------------------------------------------------------

CAUCHY = fk.Density(lambda theta: -jnp.sum(jnp.log1p(theta**2)))


def of_uniforms(quantiles, number=1000, seed=0):
    return quantiles(stats.norm.cdf(normals(number=number, d=1, seed=seed)))


@pytest.mark.slow
@pytest.mark.parametrize("truncation", [np.inf, 60.0])
def test_tails_without_a_variance_are_named(truncation):
    """Cauchy, also by chains that hardly visit its tails; a shift is not in standard deviations."""
    draws = np.clip(of_uniforms(stats.cauchy.ppf), -truncation, truncation)
    draws = np.where(np.abs(draws) < truncation, draws, of_uniforms(stats.norm.ppf, seed=1))
    summary = judged(draws, CAUCHY, is_exact=True)
    assert summary.grade is Grade.CARE
    assert "the tails of theta[0] are so heavy" in summary.warnings[-1]
    assert "its variance, and perhaps its mean, may not exist: use quantiles" in summary.warnings[-1]
    wrong = judged(draws + 3, CAUCHY, is_exact=True).warnings
    assert any("the draws are off: by the mean of ∇U, those of theta[0] are too high" in w for w in wrong)
    assert not any("standard deviations too" in text for text in wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quantiles", "log_density"),
    [
        (lambda u: stats.t.ppf(u, 5), lambda t: -3 * jnp.log1p(t**2 / 5)),
        (lambda u: np.exp(stats.norm.ppf(u)), lambda t: -jnp.log(t) - jnp.log(t) ** 2 / 2),
        (stats.laplace.ppf, lambda t: -jnp.abs(t)),
    ],
    ids=["Student 5", "lognormal", "Laplace"],
)
def test_tails_with_a_variance_are_not_called_heavy(quantiles, log_density):
    for seed in range(3):
        draws = of_uniforms(quantiles, seed=seed)
        target = fk.Density(lambda theta: jnp.sum(log_density(theta)))
        assert not any("tails" in text for text in judged(draws, target, is_exact=True).warnings)


def test_quantities_of_the_user_have_tails_too():
    summary = fk.Trace(normals(), None, {}, None, None, {}, None).summary(
        quantities={"ratio": normals(d=1, seed=1) / normals(d=1, seed=2)}
    )
    assert any("the tails of ratio[0] are so heavy" in text for text in summary.warnings)
