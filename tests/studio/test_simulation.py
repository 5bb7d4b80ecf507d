"""A run as it is shown: the truth on a grid, the divergence, and what is chance in it."""

import numpy as np
import pytest

from conftest import quick_compiling
from fokker.studio.analysis import verdict
from fokker.studio.design import design_of
from fokker.studio.formulas import parse
from fokker.studio.frames import packed, unpacked
from fokker.studio.simulation import Simulation
from fokker.studio.stories import STORIES
from fokker.studio.targets import TARGETS
from fokker.studio.truth import CELLS, truth_of

NORMAL = parse("(x^2 + y^2)/2", ("x", "y"))


def test_the_truth_of_a_normal_has_its_moments():
    truth = truth_of(NORMAL, 2.0)
    left, right, bottom, top = truth.box
    middles = left + (right - left) * (np.arange(CELLS) + 0.5) / CELLS
    assert truth.cells.sum() + truth.outside == pytest.approx(1)
    assert truth.outside < 1e-3
    assert middles**2 @ truth.cells.sum(axis=1) == pytest.approx(2, rel=0.02)
    assert (left, bottom) == pytest.approx((-right, -top))


@pytest.mark.parametrize("name", TARGETS)
def test_the_window_of_every_target_has_its_mass(name):
    truth = truth_of(parse(TARGETS[name].formula, ("x", "y")), 1.0)
    assert truth.is_bounded
    assert truth.outside < 0.05


def test_a_density_without_an_integral_is_noticed():
    assert not truth_of(parse("0.01*log1p(x^2 + y^2)", ("x", "y")), 1.0).is_bounded


def test_the_divergence_of_the_target_itself_is_chance_alone():
    """KL of 40,000 independent draws is about (cells used)/(2n); of draws that are too wide it is more."""
    truth = truth_of(NORMAL, 1.0)
    generator = np.random.default_rng(0)
    draws = generator.normal(size=(40_000, 2))
    right = truth.divergence(truth.histogram(draws), 40_000)
    wide = truth.divergence(truth.histogram(1.3 * draws), 40_000)
    assert 0 < right < 0.03
    assert wide > 3 * right


def test_draws_outside_and_not_finite_count_against_a_run():
    truth = truth_of(NORMAL, 1.0)
    lost = np.full((1000, 2), np.nan)
    assert truth.histogram(lost).sum() == 0
    assert truth.divergence(truth.histogram(lost), 1000) > 2


@pytest.fixture(scope="module")
def runs():
    """Langevin dynamics with a metric on a normal target, with Γ and without it."""
    base = {
        "target": {"name": "normal"},
        "sampler": {"kind": "named", "name": "sgrld"},
        "metric": "0.2 + x^2",
        "settings": {"step_size": 0.05},
        "run": {"chains": 100, "steps": 100, "burn_in": 200},
    }
    result = {}
    with quick_compiling():
        for name, gamma in (("right", 1), ("broken", 0), ("again", 1)):
            simulation = Simulation(design_of({**base, "gamma": gamma}))
            result[name] = [simulation.advance() for _ in range(1 if name == "again" else 8)]
    return result


@pytest.mark.slow
def test_without_gamma_the_divergence_is_large_and_no_chance(runs):
    right, broken = (runs[name][-1][0] for name in ("right", "broken"))
    assert broken["kl"] > 2 * right["kl"]
    assert broken["kl"] > 3 * broken["chance"]
    assert right["number"] == 100 * 600


def test_a_frame_has_the_cloud_the_path_and_shares(runs):
    numbers, arrays = runs["right"][-1]
    assert arrays["cloud"].shape == (100, 2)
    assert arrays["path"].shape == (100, 2)
    assert arrays["histogram"].sum() == pytest.approx(1, abs=0.01)
    assert 0 < numbers["effective"] <= numbers["number"]
    assert numbers["step"] == 800
    assert runs["right"][0][0]["kl"] is None  # burn-in


def test_the_same_design_gives_the_same_frames(runs):
    assert np.array_equal(runs["again"][0][1]["cloud"], runs["right"][0][1]["cloud"])


def test_draws_far_from_the_target_are_told_from_those_that_are_few():
    simulation = Simulation(design_of({"target": {"name": "normal"}, "run": {"chains": 2}}))
    generator = np.random.default_rng(0)

    def is_far(width, number, effective):
        simulation.counts[:] = [
            simulation.truth.histogram(width * generator.normal(size=(number // 2, 2))) for _ in range(2)
        ]
        simulation.number, simulation.effective, simulation.frames = number, effective, 1
        return simulation._divergence()["far"]

    assert is_far(1.5, 40_000, 40_000.0)
    assert not is_far(1.0, 40_000, 40_000.0)
    assert not is_far(1.05, 40_000, 40_000.0)  # a step size has some bias
    assert not is_far(1.5, 100, 100.0)
    assert not is_far(1.0, 500, 500.0)  # KL is above 0.1 by chance
    assert not is_far(1.5, 40_000, 40.0)  # they have hardly moved


def test_a_message_is_read_as_it_was_packed():
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([np.inf, 1.5])}
    header, read = unpacked(packed({"name": "ξ", "bad": np.nan, "n": np.int64(3)}, arrays))
    assert header == {"name": "ξ", "bad": None, "n": 3}
    assert np.array_equal(read["a"], arrays["a"])
    assert np.array_equal(read["b"], arrays["b"])


@pytest.mark.slow
def test_the_story_of_mcmc_demo_takes_the_steps_that_were_published_and_is_wrong():
    """Its turn lacks the term of the old direction u: it gives c·e with c > 0, e = ∇U/|∇U|, for every u."""
    (story,) = [story for story in STORIES if "mcmc-demo" in story.title]
    shrink, along = np.exp(-np.linspace(0.01, 5, 50))[:, None], np.linspace(-1, 1, 21)
    assert np.all((1 - shrink) * (1 + shrink + along * (1 - shrink)) + 2 * shrink > 0)
    published = design_of({**story.designs[0], "run": {"chains": 4, "steps": 20, "burn_in": 0}})
    with quick_compiling():
        path = Simulation(published).advance()[1]["path"]
    assert np.diff(np.linalg.norm(path, axis=-1)) == pytest.approx(0.2, abs=1e-5)
    assert verdict(published, number_of_points=32, explain=False).verdict == "wrong"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hmc", "nuts"])
def test_the_trajectory_ends_at_the_next_place_of_the_first_chain(name):
    run = {"chains": 3, "steps": 2, "burn_in": 0}
    sampler = {"kind": "named", "name": name}
    design = design_of({"sampler": sampler, "run": run, "settings": {"step_size": 0.3, "leaps": 4}})
    with quick_compiling():
        simulation = Simulation(design)
        before = simulation.advance()[1]
        numbers, arrays = simulation.advance(with_trajectory=True)
    assert "trajectory" not in before
    points = arrays["trajectory"][:, :2]
    assert points[0] == pytest.approx(before["path"][-1])
    assert points[numbers["chosen"]] == pytest.approx(arrays["path"][0], abs=1e-4)
    depth, direction = arrays["trajectory"][:, 2:].T
    assert set(direction) <= {-1, 1}
    assert len(points) == 5 if name == "hmc" else depth.max() >= 1
