"""The synthetic experiments, shorter still than their quick form: the claims that hold, and controls."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fokker import samplers
from fokker.lab.experiments import (
    Result,
    _normal_gamma,
    _valley,
    ding_fig1,
    ding_fig2_mean,
    ding_fig2_var,
    ma_fig2_2d,
    ma_fig2_kl,
    reproduce,
)
from fokker.lab.experiments._histogram import Histogram, divergence
from fokker.lab.experiments._loop import in_blocks

pytestmark = pytest.mark.usefixtures("optimised")


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def reproduced(name: str, folder: Path) -> Result:
    """The experiment in its patched quick form, its figures and its file looked at."""
    result = reproduce(name, folder, quick=True)
    assert all((folder / figure).stat().st_size > 10_000 for figure in result.figures)
    assert json.loads((folder / "result.json").read_text(encoding="utf-8"))["name"] == name
    return result


def held(claims: Any) -> list[bool]:
    return [claim.holds for claim in claims]


def test_the_loop_over_chains_goes_on_from_block_to_block() -> None:
    def step(number: Any, total: Any, _: Any) -> Any:
        return total + number, total

    def inputs(block: Any, total: Any) -> Any:
        return block + 0 * total, None

    def before(_: Any, info: Any) -> Any:
        return info

    numbers = np.arange(6.0).reshape(3, 2)
    ends, starts = in_blocks(step, 10.0, numbers, inputs, before, lambda total, recorded: (total, recorded))
    np.testing.assert_array_equal(ends, 10 + np.cumsum(numbers)[1::2])
    np.testing.assert_array_equal(np.ravel(starts), 10 + np.cumsum([0, *np.ravel(numbers)])[:-1])


def test_floor_is_the_distance_of_exact_draws() -> None:
    histogram = Histogram.of(lambda x: x**2 / 2, -4.0, 4.0, 20)
    draws = np.random.default_rng(1).normal(size=(50, 400))
    effective = histogram.effective_size(draws)
    assert 10_000 < effective < 40_000
    floor = histogram.floor(20_000)
    assert floor == pytest.approx(20 / (2 * 20_000), rel=0.2)
    assert histogram.distance(draws) < 3 * floor
    assert histogram.distance(1.2 * draws) > 20 * floor
    # Chains that repeat every draw ten times have a tenth of the effective size.
    assert histogram.effective_size(np.repeat(draws, 10, axis=1)) == pytest.approx(effective)


def test_draws_that_are_not_numbers_lie_outside() -> None:
    histogram = Histogram.of(lambda x: x**2 / 2, -4.0, 4.0, 20)
    assert histogram.shares(np.array([0.0, np.nan, np.inf, 9.0]))[-1] == 0.75
    assert np.isfinite(histogram.distance(np.full(10, np.nan)))
    assert divergence(histogram.exact, histogram.exact) == 0


@pytest.fixture(scope="module")
def kl(patch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Without SGLD and SGHMC, whose densities other tests look at."""
    kept = {name: make for name, make in ma_fig2_kl.SAMPLERS.items() if name not in ("SGLD", "SGHMC")}
    patch.setattr(ma_fig2_kl, "SAMPLERS", kept)
    patch.setattr(ma_fig2_kl, "RIGHT_ONES", ("gSGRHMC",))
    patch.setattr(ma_fig2_kl, "QUICK", (90_000, 64))
    patch.setattr(ma_fig2_kl, "STEP_SIZES", ma_fig2_kl.STEP_SIZES[-1:])
    targets = tuple(dataclasses.replace(t, offsets=t.offsets[:1]) for t in ma_fig2_kl.TARGETS)
    patch.setattr(ma_fig2_kl, "TARGETS", targets)
    return reproduced("ma-fig2-kl", tmp_path_factory.mktemp("kl"))


@pytest.mark.slow
def test_naive_samplers_are_found_wrong_and_the_other_right(kl: Result) -> None:
    assert held(kl.claims) == [True, True, True]


@pytest.mark.slow
def test_claim_fails_where_gamma_is_forgotten(kl: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    """gSGRHMC replaced by the sampler without Γ is no longer found right."""
    monkeypatch.setattr(ma_fig2_kl, "SAMPLERS", {"gSGRHMC": samplers.naive_sgrhmc})
    rows = ma_fig2_kl.measure(40_000, 64, 1)
    others = [row for row in kl.entries if row["sampler"] != "gSGRHMC"]
    assert held(ma_fig2_kl.claims([*others, *rows])) == [True, False, True]


@pytest.fixture(scope="module")
def valley(patch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Result:
    grids = {pair: (grid[2],) for pair, grid in _valley.GRIDS.items() if pair[1] == "Euler"}
    for module in (_valley, ma_fig2_2d):
        patch.setattr(module, "GRIDS", grids)
    patch.setattr(ma_fig2_2d, "INTEGRATORS", {"Euler": _valley.INTEGRATORS["Euler"]})
    patch.setattr(ma_fig2_2d, "QUICK", (8_100, 8_100, 8))
    patch.setattr(ma_fig2_2d, "VARIANTS", {"friction 3 in SGHMC": {"friction": 3.0}})
    return reproduced("ma-fig2-2d", tmp_path_factory.mktemp("valley"))


@pytest.mark.slow
def test_every_method_explores_the_valley_and_by_euler_steps_sgld_is_first(valley: Result) -> None:
    for row in valley.entries:
        assert row["KL"][-1] < 0.5 * row["KL"][0]
    (claim,) = valley.claims
    assert not claim.holds
    assert claim.numbers["first, as claimed"].startswith("1: SGLD")
    assert claim.numbers["steps to KL 1"]["SGHMC"] > claim.numbers["steps to KL 1"]["SGLD"]


@pytest.mark.slow
def test_fewest_steps_decide(valley: Result) -> None:
    """The same curves with the names of SGLD and gSGRHMC exchanged."""
    swap = {"SGLD": "gSGRHMC", "gSGRHMC": "SGLD", "SGHMC": "SGHMC"}
    assert held(
        ma_fig2_2d.claims([dict(row) | {"method": swap[row["method"]]} for row in valley.entries])
    ) == [True]


def test_steps_to_a_level_are_interpolated_and_blow_ups_left_out() -> None:
    row = {"KL": np.array([1.0, 0.1, 0.01]), "steps": np.array([10, 100, 1000])}
    assert ma_fig2_2d.steps_to(row, 0.1) == pytest.approx(100)
    assert ma_fig2_2d.steps_to(row, 0.01**0.75) == pytest.approx(10 * 10**1.5)
    assert ma_fig2_2d.steps_to(row, 0.001) == np.inf
    blown = {"KL": np.array([1.0, 0.1, 9.0]), "steps": row["steps"]}
    assert ma_fig2_2d.steps_to(blown, 0.1) == np.inf
    assert ma_fig2_2d.steps_to(blown, 0.1, lenient=True) == pytest.approx(100)


@pytest.mark.slow
def test_thermostat_finds_the_friction_and_a_wrong_one_is_found_out() -> None:
    found = ding_fig1.measure(100_000, 32, 1)
    assert held(ding_fig1.claims(found)) == [True] * 5
    wrong = ding_fig1.claims({**found, "SGNHT": found["ξ = 0.1"]})
    assert held(wrong) == [False, False, False, True, True]


@pytest.mark.slow
def test_mean_of_a_normal(patch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    patch.setattr(ding_fig2_mean, "QUICK", (40_000, 16))
    assert held(reproduced("ding-fig2-mean", tmp_path).claims) == [True] * 3


@pytest.mark.slow
def test_mean_and_precision_of_a_normal(patch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tuple(
        ding_fig2_var.StepAndNoise(h, A) for h in (0.005, 0.01, 0.02) for A in (1.0, 3.0, 10.0, 20.0)
    )
    patch.setattr(ding_fig2_var, "SETTINGS", settings)
    patch.setattr(ding_fig2_var, "QUICK", (50_000, 4))
    result = reproduced("ding-fig2-var", tmp_path)
    assert held(result.claims) == [True]
    swap = {"SGNHT": "SGHMC", "SGHMC": "SGNHT"}
    swapped = [dict(row) | {"sampler": swap[row["sampler"]]} for row in result.entries]
    assert held(ding_fig2_var.claims(swapped)) == [False]


def test_exact_marginals_are_those_of_the_posterior() -> None:
    """By quadrature of the potential that is sampled, Jacobian and all."""
    target = _normal_gamma.posterior()
    marginals = _normal_gamma.exact_marginals(np.asarray(target.data, float))
    mu, log_gamma = np.linspace(-0.6, 0.6, 241), np.linspace(-0.9, 0.9, 241)
    x = np.asarray(target.data, float)
    gamma = np.exp(log_gamma)[None, :]
    squares = np.sum((x[None, :] - mu[:, None]) ** 2, axis=1)[:, None]
    log_density = (x.size / 2 + 1.5) * log_gamma[None, :] - gamma * (squares / 2 + mu[:, None] ** 2 / 2 + 1)
    theta = np.array([0.1, 0.2])
    by_hand = np.interp(0.1, mu, log_density[:, np.argmin(abs(log_gamma - 0.2))])
    offset = float(target.potential(np.zeros(2))) + log_density[120, 120]
    assert -float(target.potential(theta)) == pytest.approx(by_hand - offset, abs=0.05)
    weight = np.exp(log_density - log_density.max())
    for axis, values, marginal in ((1, mu, marginals[0]), (0, np.exp(log_gamma), marginals[1])):
        share = weight.sum(axis=axis) / weight.sum()
        mean = share @ values
        centres = (marginal.edges[1:] + marginal.edges[:-1]) / 2
        cells = marginal.density * np.diff(marginal.edges)
        assert centres @ cells == pytest.approx(mean, abs=2e-3)
        assert np.sqrt(share @ (values - mean) ** 2) == pytest.approx(marginal.deviation, rel=1e-2)
