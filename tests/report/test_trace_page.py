"""The report of a run: all parameters, the worst first, and data for their figures within bounds."""

import base64
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import rankdata
from test_page import HOSTILE, read

import fokker as fk
from fokker._core.statistics import autocorrelation, effective_sample_size
from fokker.diagnostics import Finding, Grade, Summary
from fokker.diagnostics._convergence import Statistics
from fokker.report import parameters, trace_page
from fokker.report.parameters import Shown, parameters_data
from fokker.report.steps import constant_statistics, energy_figure, step_figures
from fokker.run.trace import Trace
from fokker.targets.target import labels_of

pytestmark = pytest.mark.dependencies


def trace_of(draws, stats=None, settings=None):
    chains = jax.tree.leaves(draws)[0].shape[0]
    return Trace(
        draws, None, stats or {}, None, None, {"chains": chains, "temperature": 1.0, **(settings or {})}
    )


def summary_of(names, values, findings=()):
    flat = values.reshape(-1, len(names))
    quantiles = np.quantile(values, (0.05, 0.5, 0.95), axis=(0, 1)).T
    return Summary(list(names), flat.mean(0), flat.std(0), quantiles, *Statistics.of(values), list(findings))


def by_name(draws):
    return list(np.moveaxis(draws, 2, 0))


def numbers(text, kind="<u2"):
    return np.frombuffer(base64.b64decode(text), kind)


@pytest.fixture(scope="module")
def bad():
    """250 parameters, of which the last does not mix."""
    draws = np.random.default_rng(0).normal(size=(4, 60, 250))
    draws[:, :, 249] += 30 * np.arange(4)[:, None]
    names = [f"theta[{i}]" for i in range(250)]
    return trace_of(draws), summary_of(names, draws)


@pytest.mark.slow
def test_all_rows_are_there_and_the_culprit_is_first(bad, tmp_path):
    trace, summary = bad
    trace.report(tmp_path / "r.html", title=HOSTILE, summary=summary)
    reader = read((tmp_path / "r.html").read_text(encoding="utf-8"))
    rows = [value for name, value in reader.attributes if name == "data-name"]
    assert sorted(rows) == sorted(summary.names)
    assert rows[0] == "theta[249]"
    assert len(reader.scripts) == 1
    data = json.loads(reader.data[0])
    assert data["names"] == rows
    assert (tmp_path / "r.html").stat().st_size < 10_000_000


def test_what_a_finding_names_is_first_and_marked():
    draws = np.random.default_rng(1).normal(size=(2, 40, 12))
    names = [f"b[{i}]" for i in range(12)]
    findings = [
        Finding(Grade.BAD, "the variance of b[1] is 9 % too large"),
        Finding(Grade.CARE, "a is b[7]s"),
    ]
    summary = summary_of(names, draws, findings)
    assert trace_page.named_in_findings(summary) == {"b[1]"}  # neither b[10] nor b[11], nor a part of a word
    assert trace_page.worst_first(summary, {"b[1]"})[0] == 1
    one = summary_of(["a"], draws[:, :, :1], [Finding(Grade.BAD, "a step is too large")])
    assert trace_page.named_in_findings(one) == set()
    one = summary_of(["a"], draws[:, :, :1], [Finding(Grade.BAD, "R-hat of a is 2")])
    assert trace_page.named_in_findings(one) == {"a"}


def test_constants_are_last_and_nan_counts_as_nothing():
    draws = np.random.default_rng(2).normal(size=(2, 40, 3))
    draws[:, :, 0] = 1.0
    summary = summary_of(["zero", "one", "two"], draws)
    assert trace_page.worst_first(summary, set())[-1] == 0
    assert trace_page.severity(np.nan, np.nan, np.nan) == 0
    assert trace_page.severity(1.02, 400, np.nan) == pytest.approx(2)
    assert trace_page.severity(1.0, 400, 100) == pytest.approx(4)


def test_the_data_of_figures_are_those_of_the_draws():
    draws = np.random.default_rng(3).normal(size=(3, 90, 2)) * [1, 5] + [0, 20]
    is_divergent = np.zeros((3, 90), bool)
    is_divergent[1, 7] = is_divergent[2, 80] = True
    data = parameters_data(Shown(["a", "b"], by_name(draws)), is_divergent)
    low, high = np.array(data["low"]), np.array(data["high"])
    codes = numbers(data["values"]).reshape(2, 3, 90)
    back = low[:, None, None] + codes / 65534 * (high - low)[:, None, None]
    np.testing.assert_allclose(back, np.moveaxis(draws, 2, 0), atol=5 * np.ptp(draws) / 65534)
    # Ranks of all chains together, in 20 bins each.
    ranked = (rankdata(draws[:, :, 1]).reshape(3, 90) - 0.5) / 270
    expected = [np.histogram(chain, 20, (0, 1))[0] for chain in ranked]
    np.testing.assert_array_equal(numbers(data["ranks"]).reshape(2, 3, 20)[1], expected)
    counts = numbers(data["counts"]).reshape(2, 3, 40)
    np.testing.assert_array_equal(counts[0, 1], np.histogram(draws[1, :, 0], 40, (low[0], high[0]))[0])
    # By ArviZ, to the resolution of 16 bits.
    lags = data["lags"]
    correlations = numbers(data["autocorrelation"]).reshape(2, 3, len(lags)) / 65534 * 2 - 1
    assert lags[:4] == [0, 1, 2, 3]
    np.testing.assert_allclose(correlations[1], autocorrelation(draws[:, :, 1], lags), atol=2e-5)
    centred = draws[0, :, 1] - draws[0, :, 1].mean()
    by_hand = (centred[3:] @ centred[:-3]) / (centred @ centred)
    assert correlations[1, 0, 3] == pytest.approx(by_hand, abs=1e-4)
    growth = numbers(data["bulk"], "<f4").reshape(2, len(data["lengths"]))
    assert data["lengths"][-1] == 90
    np.testing.assert_allclose(growth[:, -1], effective_sample_size(draws), rtol=1e-6)
    tail = numbers(data["tail"], "<f4").reshape(2, len(data["lengths"]))
    np.testing.assert_allclose(tail[:, -1], effective_sample_size(draws, "tail"), rtol=1e-6)
    shown = numbers(data["divergent"]).reshape(2, 2) / 65534 * (high - low)[:, None] + low[:, None]
    np.testing.assert_allclose(shown.T, [draws[1, 7], draws[2, 80]], atol=1e-3)
    assert data["divergences"] == 2
    assert parameters_data(Shown(["a"], by_name(draws)), None, [0, 4, 5])["chains"] == [1, 5, 6]


def test_effective_draws_grow_from_the_start_of_the_run():
    """The first half is white noise, the second a slow trend: only the first draws are worth many."""
    noise = np.random.default_rng(10).normal(size=(2, 160))
    noise[:, 80:] = np.linspace(5, 6, 80)
    data = parameters_data(Shown(["a"], [noise]), None)
    assert data["lengths"] == list(range(20, 161, 20))
    bulk = numbers(data["bulk"], "<f4")
    wanted = [effective_sample_size(noise[:, :length, None])[0] for length in data["lengths"]]
    np.testing.assert_allclose(bulk, wanted, rtol=1e-6)
    assert bulk[3] > 10 * bulk[-1]


def test_energies_change_within_chains_alone():
    """Chains at energies far apart: a difference from one chain to the next would be seen."""
    energy = np.array([[0.0], [1000.0], [-1000.0]]) + np.random.default_rng(11).normal(size=(3, 40))
    marginal, change = energy_figure(energy).marks
    for mark in (marginal, change):
        assert np.abs(np.asarray(mark.x)).max() < 10
        assert np.sum(np.asarray(mark.y) * np.diff(np.asarray(mark.x))) == pytest.approx(1)
    edges = np.asarray(change.x)
    wanted = np.histogram(np.concatenate([np.diff(chain) for chain in energy]), edges, density=True)[0]
    np.testing.assert_allclose(np.asarray(change.y), wanted)


def test_what_is_left_out_is_said(monkeypatch):
    draws = np.random.default_rng(4).normal(size=(20, 64, 6))
    draws[13] += 5
    monkeypatch.setattr(parameters, "_DRAWS", 20)
    monkeypatch.setattr(parameters, "MOST_NAMES", 5)
    data = parameters_data(Shown(list("abcdef"), by_name(draws)), None, work=2 * 20 * 64)
    assert (data["every"], data["places"], len(data["names"]), data["grown"]) == (4, 16, 5, [0, 1])
    assert len(data["chains"]) == parameters.MOST_CHAINS
    assert 14 in data["chains"]  # the one that is apart, by its number from 1
    for part in (
        "one in 4 of 64 draws",
        "Of 20 chains, the 16",
        "Of 6 parameters, the first 5",
        "first 2 of",
    ):
        assert part in data["note"]


@pytest.mark.parametrize(("chains", "draws", "number"), [(4, 5000, 500), (64, 3000, 200), (1, 200_000, 3)])
def test_a_report_has_a_bound_whatever_the_run(monkeypatch, chains, draws, number):
    """By the shapes alone: the values and their statistics are not computed."""
    values = np.broadcast_to(np.zeros((1, 1, 1)), (chains, draws, number))
    monkeypatch.setattr(parameters, "_ends", lambda x: (0.0, 1.0))
    monkeypatch.setattr(parameters, "_by_parameter", lambda v, places, ends, lags: [
        np.zeros((number, len(places), n)) for n in (40, 20, len(lags))
    ])  # fmt: skip
    monkeypatch.setattr(parameters, "_chains", lambda v: np.arange(min(chains, parameters.MOST_CHAINS)))
    monkeypatch.setattr(parameters, "_growth", lambda v, work: ([], 0, np.zeros(0), np.zeros(0)))
    assert len(json.dumps(parameters_data(Shown(["x"] * number, by_name(values)), None))) < 10_000_000


def test_draws_that_are_not_finite_or_few_do_no_harm():
    draws = np.random.default_rng(5).normal(size=(2, 30, 3))
    draws[0, 3, 0], draws[:, :, 1] = np.nan, np.nan
    draws[1, 4, 2] = np.inf
    data = parameters_data(Shown(list("abc"), by_name(draws)), None)
    codes = numbers(data["values"]).reshape(3, 2, 30)
    assert codes[0, 0, 3] == 65535
    assert np.all(codes[1] == 65535)
    json.dumps(data, allow_nan=False)
    few = parameters_data(Shown(["a"], [np.zeros((1, 8))]), None)
    assert few["lengths"] == []


@pytest.mark.slow
def test_the_settings_are_those_a_reader_needs(tmp_path):
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    options = {"init": jnp.zeros(2), "steps": 40, "chains": 2, "progress": False, "out": tmp_path / "run"}
    trace = fk.sample(normal, **options)
    assert "chosen" in trace.settings
    for one in (trace, fk.open(tmp_path / "run")):
        shown = trace_page._settings(one)
        assert {"key", "chosen", "keep"}.isdisjoint(shown)
        assert (shown["warm-up steps"], shown["burn-in steps"], shown["sampler name"]) == (
            "1,000",
            "0",
            "nuts",
        )
    assert fk.sample(normal, "nuts", warm_up=30, **{**options, "out": None}).settings["warm_up"] == 30


def test_names_are_those_of_dims_and_own_quantities_are_drawn(tmp_path):
    target = fk.Density(lambda t: 0.0, dims={"a": ["city"]}, coords={"city": ["Köln", HOSTILE]})
    draws = np.random.default_rng(6).normal(size=(2, 40, 2))

    class Named(Trace):
        labels = labels_of(target)

    trace = Named({"a": draws}, None, {}, None, None, {"chains": 2})
    summary = trace.summary(quantities={"total": draws.sum(axis=2), "same": np.ones((2, 40))})
    trace.report(tmp_path / "r.html", summary=summary)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert '<th scope="col"></th>' not in page
    reader = read(page)
    assert set(json.loads(reader.data[0])["names"]) == {"a[Köln]", f"a[{HOSTILE}]", "total"}
    assert [value for name, value in reader.attributes if name == "data-name"][-1] == "same"


def test_steps_are_drawn_and_constants_said():
    generator = np.random.default_rng(7)
    energy = 10 + generator.normal(size=(2, 50))
    figure = energy_figure(energy)
    heights = [np.asarray(mark.y) for mark in figure.marks]
    widths = [np.diff(np.asarray(mark.x)) for mark in figure.marks]
    assert all(np.sum(h * w) == pytest.approx(1) for h, w in zip(heights, widths, strict=True))
    assert "BFMI" in figure.text
    stats = {
        "kinetic_temperature": 1 + 0.1 * generator.normal(size=(2, 2000)),
        "is_divergent": np.zeros((2, 50), bool),
        "tree_depth": generator.integers(1, 4, size=(2, 50)),
        "num_integration_steps": np.full((2, 50), 5),
    }
    temperature, depth = step_figures(stats, 0.5)
    assert [mark.at for mark in temperature.marks if mark.kind == "rule"] == [0.5]
    blocks = np.asarray(temperature.marks[0].y)
    assert len(blocks) == 600
    mean = stats["kinetic_temperature"].mean(axis=0)
    assert blocks[0] == pytest.approx(mean[:3].mean())
    assert temperature.marks[1].y[-1] == pytest.approx(mean.mean())
    assert list(depth.marks[0].y) == np.bincount(stats["tree_depth"].ravel()).tolist()
    assert (
        constant_statistics(stats)
        == "The same in all steps: divergent draws none, integration steps per draw 5."
    )


def test_many_parameters_are_summarised_by_leaf(tmp_path):
    draws = {"w": np.random.default_rng(8).normal(size=(2, 40, 600)), "b": np.zeros((2, 40, 1))}
    draws["b"] += np.arange(2)[:, None, None] + 0.1 * np.random.default_rng(9).normal(size=(2, 40, 1))
    trace = trace_of(draws)
    trace.report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Leaves of theta" in text
    assert text.index('<th scope="row">b') < text.index('<th scope="row">w')
    assert len(text) < 400_000


def test_an_error_stands_behind_its_value_and_a_row_has_one_precision():
    mean, sd = np.array([-1.23, 56789.0, 2e-9, 0.0]), np.array([0.0035, 1500.0, 1e-9, 0.0])
    quantiles = mean[:, None] + sd[:, None] * np.array([-1.6, 0.0, 1.6])
    checks = {
        "kinetic temperature": 1.00003,
        "configurational temperature": 0.9921,
        "standard error of the configurational temperature": 0.0049,
        "kernel Stein discrepancy²": -0.00123,
        "p-value of the kernel Stein discrepancy": 0.4,
    }
    summary = Summary(list("abcd"), mean, sd, quantiles, *np.ones((3, 4)), [], checks)
    rows = [row[1:6] for row in summary.rows()]
    assert rows[0] == ["-1.2300", "0.0035", "-1.2356", "-1.2300", "-1.2244"]
    assert rows[1] == ["56789", "1500", "54389", "56789", "59189"]
    assert rows[2][:2] == ["2e-09", "1e-09"]
    assert rows[3] == ["0"] * 5
    many = np.ones(4), np.full(4, 3091.0), np.full(4, 12345.0)
    assert Summary(list("abcd"), mean, sd, quantiles, *many, [], {}).rows()[0][-2:] == ["3,091", "12,345"]
    assert summary.measured == {
        "kinetic temperature": "1.000",
        "configurational temperature": "0.992 ± 0.005",
        "kernel Stein discrepancy²": "-0.00123 (0 up to chance)",
        "p-value of the kernel Stein discrepancy": "0.4",
    }
    assert "configurational temperature: 0.992 ± 0.005\n" in str(summary)
