"""The page's verdict is that of `fk.check`: on typed samplers, right and broken, and through the wire."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest
import studio_designs as designs
from studio_server import link

import fokker as fk
from fokker.studio import analysis, simulation
from fokker.studio.analysis import completion, residual_map, verdict
from fokker.studio.design import DesignError, RunSettings, design_of

FEW = {"number_of_points": 32, "explain": False}
# Those that every run looks at; all of them are the slow test.
QUICK = ("metric", "both vary", "Γ dropped", "Q not skew", "drift without Γ")
ALL = {**designs.RIGHT, **designs.BROKEN}


@functools.cache
def report_on(name):
    return verdict(design_of(ALL[name]), **FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_the_verdict_on_a_typed_sampler(name):
    assert report_on(name).ok == (name in designs.RIGHT)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ALL if name not in QUICK])
def test_the_verdict_on_every_typed_sampler(name):
    assert report_on(name).ok == (name in designs.RIGHT)


def test_there_are_thirty_samplers_of_each_kind():
    assert (len(designs.RIGHT), len(designs.BROKEN), len(ALL)) == (30, 30, 60)
    assert len({design_of(data) for data in ALL.values()}) == 60


@pytest.mark.slow
@pytest.mark.timeout(900)  # sixty verdicts
def test_the_page_shows_what_check_says_on_all_of_them(monkeypatch, page, served):
    """Through the page: what it sends of each is the design, and what it shows is the report on that."""
    names = {design_of(data): name for name, data in ALL.items()}
    assert len(names) == 60

    def known(design):
        return report_on(names[dataclasses.replace(design, run=RunSettings())])

    monkeypatch.setattr(analysis, "known_verdict", known)
    # What is watched here is the verdict: all of them run as one that is built already.
    ready = simulation.Simulation(design_of({"target": {"name": "normal"}, "sampler": {"name": "sgld"}}))
    monkeypatch.setattr(simulation, "Simulation", lambda design: ready)
    page.goto(served.address)
    for name, data in ALL.items():
        panel = {key: part for key, part in data.items() if key != "target"}
        page.goto("about:blank")
        page.goto(link(served.address, [panel], data["target"], run={}))
        box = page.locator(".verdict:is(.right, .wrong, .undecided)")
        box.wait_for(timeout=120_000)
        report, text = report_on(name), box.text_content()
        assert box.get_attribute("class") == f"verdict {'right' if name in designs.RIGHT else 'wrong'}", name
        assert report.verdict == ("right" if name in designs.RIGHT else "wrong"), name
        assert str(report) in text, name
        assert all(reason in text for reason in report.reasons), name
        assert bool(report.reasons) == (name in designs.BROKEN), name


@pytest.mark.slow
def test_the_report_is_that_of_the_same_dynamics_written_in_python():
    report = verdict(design_of(designs.BROKEN["Γ dropped"]), **FEW)

    def U(theta):
        x, y = theta
        return x**4 / 4 + x * y / 3 + y**2

    with jax.enable_x64(True):
        D = {("theta", "theta"): lambda theta: jnp.array([1 + theta[0] ** 2 / 2, 1.0])}
        own = fk.SDE(
            lambda theta: -D["theta", "theta"](theta) * jax.grad(U)(theta),
            lambda theta: {"theta": D["theta", "theta"](theta)},
            fk.Hamiltonian(U),
        )
        wanted = fk.check(own, state={"theta": jnp.zeros(2)}, **FEW)
    assert not report.ok
    assert not wanted.ok
    assert report.residual == pytest.approx(wanted.residual, rel=1e-6)


@pytest.mark.slow
def test_gradient_noise_is_part_of_what_is_checked():
    data = {**designs.RIGHT["langevin"], "settings": {"noise": 2, "step_size": 0.1}}
    report = verdict(design_of(data), **FEW)
    assert not report.ok
    assert any("gradient noise is checked" in note for note in report.notes)


@pytest.mark.slow
def test_gradient_noise_that_was_not_looked_at_is_said():
    data = {
        "target": {"name": "normal"},
        "sampler": {"kind": "named", "name": "psgld"},
        "settings": {"noise": 1},
    }
    report = verdict(design_of(data), **FEW)
    assert any("was not looked at" in note for note in report.notes)


@pytest.mark.slow
def test_the_residual_is_where_the_mistake_is():
    broken = residual_map(design_of(designs.BROKEN["drift without Γ"]))
    right = residual_map(design_of(designs.RIGHT["drift with Γ"]))
    assert right["largest"] < 1e-8
    assert broken["largest"] > 0.1
    # Γ = x in the drift of x: L[Γ] is even in x, and the map is x first.
    assert broken["values"].shape == (32, 32)


def test_completion_finds_the_curl_that_was_typed():
    result = completion(design_of(designs.drift(["-Ux - 2*Uy", "-Uy + 2*Ux"], designs.diagonal("1", "1"))))
    assert result["stationary"]
    assert result["largest"] == pytest.approx(2, rel=1e-3)
    assert "stationary: yes" in result["text"]


def test_completion_wants_a_drift_over_x_and_y():
    with pytest.raises(DesignError, match="over x and y"):
        completion(design_of(designs.RIGHT["langevin"]))
