"""What every verdict rests on, by ArviZ's functions: each against a value that is known without them."""

import numpy as np
import pytest

from fokker._core import statistics
from fokker._core.statistics import effective_sample_size, inference_data, pareto_k, split_r_hat

pytestmark = pytest.mark.dependencies


def autoregression(correlation, chains, draws, seed=0):
    """Chains of variance 1 whose draws are correlated as correlation**lag."""
    noise = np.random.default_rng(seed).normal(size=(chains, draws))
    x = np.empty_like(noise)
    x[:, 0] = noise[:, 0]
    for n in range(1, draws):
        x[:, n] = correlation * x[:, n - 1] + np.sqrt(1 - correlation**2) * noise[:, n]
    return x


def pareto(k, size=20_000):
    """Values whose upper tail falls as x**(-1/k)."""
    return np.random.default_rng(1).uniform(size=size) ** -k


@pytest.mark.parametrize("k", [0.3, 0.7, 1.2])
def test_pareto_k_of_a_tail_is_its_index_whatever_the_unit(k):
    # The standard error of k by the 424 largest values is (1 + k)/√424 ≤ 0.11.
    assert abs(pareto_k(pareto(k)) - k) < 0.3
    assert abs(pareto_k(1e-200 * pareto(k)) - pareto_k(pareto(k))) < 0.05


def test_pareto_k_of_light_and_bounded_tails():
    rng = np.random.default_rng(2)
    assert abs(pareto_k(rng.normal(size=20_000) ** 2)) < 0.2
    assert pareto_k(rng.uniform(size=20_000)) < -0.5
    assert np.isfinite(pareto_k(np.concatenate([np.zeros(200), rng.uniform(size=200)])))
    assert pareto_k(np.ones(400)) == pareto_k(np.repeat([0.5, 1.0], 200)) == np.inf


@pytest.mark.parametrize("method", ["bulk", "mean"])
def test_effective_draws_of_an_autoregression(method):
    # A chain of correlation c is worth (1 - c)/(1 + c) of its draws.
    draws = autoregression(0.6, 4, 5_000)
    assert abs(effective_sample_size(draws, method) / draws.size / 0.25 - 1) < 0.15
    assert abs(effective_sample_size(autoregression(0.0, 4, 5_000), method) / 20_000 - 1) < 0.15


def test_effective_draws_of_tails_are_those_of_the_rarer_one():
    # In ranks the 5 % and 95 % quantiles of this chain are as correlated as its sign, which rarely changes.
    draws = autoregression(0.99, 4, 5_000)
    assert effective_sample_size(draws, "tail") < 0.05 * draws.size


def test_r_hat_of_chains_apart_and_of_one_target():
    draws = np.random.default_rng(3).normal(size=(4, 4_000, 2))
    draws[0, :, 1] += 2.0
    together, apart = split_r_hat(draws)
    assert 0.999 < together < 1.003
    # Of eight halves two are 2 away: R̂² = 1 + 4·(2·6/56)/W with W = 1, less for the ranks of a mixture.
    assert abs(apart - np.sqrt(1 + 4 * 12 / 56)) < 0.08


def test_draws_keep_their_axes_and_empty_groups_are_left_out():
    data = inference_data({"posterior": {"x": np.zeros((2, 5, 3))}, "sample_stats": {}})
    assert data.posterior["x"].dims[:2] == ("chain", "draw")
    assert data.posterior["x"].shape == (2, 5, 3)
    assert "sample_stats" not in list(data.groups() if callable(data.groups) else data.groups)


def test_two_processes_that_import_arviz_at_once_both_have_it(monkeypatch):
    """0.23 renames a file in the home folder on import, and finds that another process has done so."""
    calls, right = [], statistics.importlib.import_module

    def imported(name):
        calls.append(name)
        if len(calls) < 3:
            raise FileNotFoundError(2, "No such file or directory", "daily_warning.tmp")
        return right(name)

    monkeypatch.setattr(statistics.importlib, "import_module", imported)
    draws = {"posterior": {"x": np.zeros((2, 50))}}
    assert inference_data(draws).posterior["x"].shape == (2, 50)
    calls.clear()
    monkeypatch.setattr(statistics, "_IMPORTS", 2)
    with pytest.raises(FileNotFoundError, match="daily_warning"):  # not for ever
        inference_data(draws)
