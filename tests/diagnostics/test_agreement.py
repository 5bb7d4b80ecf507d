"""Whether chains agree: R-hat's bound by chance for autocorrelated draws, and nested R-hat of many chains."""

import numpy as np
import pytest
from scipy import signal
from scipy.special import chdtri, fdtri

from fokker._core.statistics import split_r_hat
from fokker.diagnostics._agreement import _nested, agreement, chance_r_hat, effective_per_half


def autoregression(chains, draws, phi, number, seed=0):
    """AR(1) of variance 1 from its stationary distribution, chain × draw × series."""
    noise = np.random.default_rng(seed).normal(size=(chains, draws, number)) * np.sqrt(1 - phi**2)
    noise[:, 0] /= np.sqrt(1 - phi**2)
    return signal.lfilter([1], [1, -phi], noise, axis=1)


def per_half(draws, phi):
    """Effective draws of half a chain, exactly."""
    lag = np.arange(1, draws // 2)
    return draws // 2 / (1 + 2 * np.sum((1 - lag / (draws // 2)) * phi**lag))


def excess(values):
    """How far each series is above what raises no alarm, all judged together."""
    return agreement(values, split_r_hat(values)).excess


@pytest.mark.parametrize(
    ("chains", "draws", "phi"), [(2, 400, 0.9), (4, 400, 0.0), (4, 400, 0.9), (32, 160, 0.8), (256, 20, 0.5)]
)
def test_r_hat_squared_is_one_plus_a_chi_square_over_the_effective_draws_of_a_half(chains, draws, phi):
    """R̂² = (1 - 1/n)(1 + χ²/((2m-1)(s-1))) by its mean, within 5 errors, and 1 % quantile: 0.2 to 3 %."""
    number = 400
    x = autoregression(chains, draws, phi, number)
    half, s = draws // 2, per_half(draws, phi)
    halves = np.concatenate([x[:, :half], x[:, half:]])
    squared = 1 - 1 / half + halves.mean(axis=1).var(axis=0, ddof=1) / halves.var(axis=1, ddof=1).mean(axis=0)
    wanted = (1 - 1 / half) * (1 + 1 / (s - 1))
    assert abs(squared.mean() - wanted) < 5 * squared.std() / np.sqrt(number) + 0.02 * (wanted - 1) + 1e-4
    freedom = 2 * chains - 1
    bound = (1 - 1 / half) * (1 + chdtri(freedom, 0.01) / freedom / (s - 1))
    assert 0.002 <= np.mean(squared > bound) <= 0.03
    # The bound itself allows for the two kinds of R-hat and for the error of s: somewhat wider.
    if 2 * chains * s > 100 and s > 5:
        allowed = chance_r_hat(2 * chains, np.array([s]), half, 1)[0] ** 2
        assert bound < allowed < 1 + 2 * (bound - 1) + 1e-3


@pytest.mark.parametrize(("chains", "draws", "phi"), [(4, 1000, 0.9), (8, 500, 0.9), (16, 200, 0.8)])
def test_effective_draws_of_a_half_are_measured_within_it(chains, draws, phi):
    """Whatever the means and a trend at the start: chains that disagree do not raise their own bound."""
    x = autoregression(chains, draws, phi, 10)
    apart = x + 10 * np.arange(chains)[:, None, None]
    apart[:, : draws // 2] += np.linspace(9, 5, draws // 2)[None, :, None]
    estimate = effective_per_half(apart)
    np.testing.assert_allclose(estimate, effective_per_half(x), rtol=1e-6)
    assert estimate.mean() == pytest.approx(per_half(draws, phi), rel=0.15)


@pytest.mark.parametrize(
    ("chains", "draws", "phi"),
    [(4, 1000, 0.9), (32, 1600, 0.939), (64, 200, 0.8), (1024, 20, 0.0), (1024, 20, 0.85), (4096, 10, 0.3)],
)
def test_right_chains_raise_no_alarm_beyond_the_stated_rate(chains, draws, phi):
    """In any of 12 series together, 1 % by design; 1 of 150 and 2 of 150 alone in longer studies."""
    assert excess(autoregression(chains, draws, phi, 12)).max() <= 0


@pytest.mark.parametrize(
    ("chains", "draws", "phi", "distance"),
    [(4, 400, 0.5, 1), (32, 200, 0.5, 1), (64, 20, 0.5, 3), (1024, 20, 0.9, 1)],
)
def test_chains_that_stay_in_two_regions_disagree(chains, draws, phi, distance):
    x = autoregression(chains, draws, phi, 3)
    sides = np.where(np.arange(chains) % 2, 1, -1)[:, None, None]
    assert np.all(excess(x + distance * sides) > 0)
    assert np.all(excess(x * np.where(np.arange(chains) % 2, 3, 1)[:, None, None]) > 0)  # of different widths


@pytest.mark.parametrize(("chains", "draws"), [(4, 400), (64, 100), (1024, 20)])
def test_chains_that_hardly_move_or_move_together_disagree(chains, draws):
    generator = np.random.default_rng(1)
    starts = 3 * generator.normal(size=(chains, 1, 2))
    assert np.all(excess(starts + np.cumsum(0.05 * generator.normal(size=(chains, draws, 2)), axis=1)) > 0)
    trend = 3 * np.exp(-np.arange(draws) / draws)[None, :, None]
    assert np.all(excess(autoregression(chains, draws, 0.5, 2) + trend) > 0)


def test_superchains_are_of_chains_that_were_near_each_other():
    """In arbitrary superchains nothing would be seen: each has as many chains of either region."""
    x = autoregression(1024, 20, 0.5, 1) + np.where(np.arange(1024) % 2, 2, -2)[:, None, None]
    judged = agreement(x, split_r_hat(x))
    assert judged.is_nested[0]
    assert judged.r_hat[0] > judged.bad[0]
    arbitrary = x.reshape(4, 256, 20).mean(axis=(1, 2))
    assert 1 + arbitrary.var(ddof=1) < 1.01**2


def test_chains_that_are_too_few_and_too_short_leave_it_open():
    """24 chains of two effective draws each."""
    x = autoregression(24, 20, 0.9, 1)
    judged = agreement(x, split_r_hat(x))
    assert judged.is_undecided[0] or judged.excess[0] > 0


@pytest.mark.parametrize(("halves", "s", "draws", "number"), [(8, 50.0, 100, 1), (8, 30.0, 40, 12)])
def test_the_bound_on_r_hat_is_the_quantile_of_its_law(halves, s, draws, number):
    """1 % over both kinds and all series; F with the degrees of freedom of s; the factor 1 - 1/n."""
    ratio = fdtri(halves - 1, halves / 2 * s / np.log(s), 1 - 0.01 / 2 / number)
    wanted = np.sqrt((1 - 1 / draws) * (1 + ratio / (s - 1)))
    assert chance_r_hat(halves, np.array([s]), draws, number)[0] == pytest.approx(wanted, rel=1e-9)


def test_the_bounds_on_nested_r_hat_are_those_of_an_analysis_of_variance():
    """Of memory and of trend, each of two kinds, so that 1 % is shared by four in every series."""
    z, number = autoregression(24, 12, 0.5, 1), 3
    first, last = z[:, :4, 0].mean(axis=1), z[:, -4:, 0].mean(axis=1)
    superchains = last[np.argsort(first)].reshape(4, 6)
    between = superchains.var(axis=1, ddof=1).mean()
    total = between + z[:, -4:, 0].var(axis=1).mean()
    of_memory = np.sqrt(1 + fdtri(3, 20, 1 - 0.01 / 4 / number) * between / 6 / total)
    judged = _nested(z, number)
    assert not judged.is_trend[0]
    assert judged.allowed[0] == pytest.approx(of_memory, rel=1e-9)
    drifting = z + 2 * np.linspace(-1, 1, 12)[None, :, None]
    judged = _nested(drifting, number)
    change = drifting[:, -4:, 0].mean(axis=1) - drifting[:, :4, 0].mean(axis=1)
    superchains = drifting[:, -4:, 0].mean(axis=1)[np.argsort(drifting[:, :4, 0].mean(axis=1))].reshape(4, 6)
    total = superchains.var(axis=1, ddof=1).mean() + drifting[:, -4:, 0].var(axis=1).mean()
    of_trend = np.sqrt(1 + fdtri(1, 23, 1 - 0.01 / 4 / number) * change.var(ddof=1) / 24 / 2 / total)
    assert judged.is_trend[0]
    assert judged.allowed[0] == pytest.approx(of_trend, rel=1e-9)
    assert judged.r_hat[0] == pytest.approx(np.sqrt(1 + change.mean() ** 2 / 2 / total), rel=1e-9)
