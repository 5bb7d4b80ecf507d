"""A kill in tuning or warm-up costs the stage that it fell into; what goes on has the same bits."""

import signal
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker.cli import execution
from fokker.run import journal, learn, record, trials
from fokker.run.progress import Progress

TARGET = fk.Density(lambda theta: -jnp.sum(theta**2 / jnp.array([1.0, 4.0])) / 2)


def sample(sampler, out=None, **changes):
    options = {"init": jnp.ones(2), "steps": 20, "chains": 2, "progress": False, **changes}
    if sampler != "sgld" and "warm_up" not in changes:
        options["warm_up"] = 200
    return fk.sample(TARGET, sampler, out=out, **options)


@pytest.fixture
def stages(monkeypatch):
    """How many stages were computed; a function that ends the process before a given one."""
    counted, ends = [], []
    original = journal.Journal.stage

    def stage(self, like, compute):
        def compute_and_count():
            if ends and len(counted) == ends[0]:
                ends.clear()
                raise KeyboardInterrupt
            counted.append(1)
            return compute()

        return original(self, like, compute_and_count)

    monkeypatch.setattr(journal.Journal, "stage", stage)
    return counted, ends


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("nuts", 0.0),
        ("nuts", 1.0),
        pytest.param("mclmc", 0.0, marks=pytest.mark.slow),
        ("sgld", 0.0),
    ],
)
def test_a_warm_up_that_is_killed_goes_on_to_the_same_bits(tmp_path, name, seconds, stages, monkeypatch):
    counted, ends = stages
    monkeypatch.setattr(journal, "_SECONDS", seconds)  # a file per stage, or all of them at the end
    # The trials of tuning take long; here it matters that none is made twice.
    monkeypatch.setattr(
        trials, "judged", lambda target, sampler, *rest: (abs(sampler.step_size - 0.1), "", 1.0)
    )
    right = sample(name)
    number = len(counted)
    assert number > 4
    counted.clear()
    for end in (2, number - 1):
        ends.append(end)
        with pytest.raises(KeyboardInterrupt):
            sample(name, tmp_path)
        assert (tmp_path / "warm-up").is_dir()
        assert not (tmp_path / "checkpoint.npz").exists()
    again = sample(name, tmp_path)
    assert len(counted) == number  # none twice
    np.testing.assert_array_equal(again.samples, right.samples)
    assert not (tmp_path / "warm-up").exists()


def test_another_warm_up_is_refused_by_name_and_a_damaged_one_is_computed_again(
    tmp_path, stages, monkeypatch
):
    counted, ends = stages
    monkeypatch.setattr(journal, "_SECONDS", 0.0)
    right = sample("nuts")
    number = len(counted)
    counted.clear()
    ends.append(4)
    with pytest.raises(KeyboardInterrupt):
        sample("nuts", tmp_path)
    for changes, problem in [
        ({"seed": 1}, "seed is 1, and was 0"),
        ({"init": jnp.zeros(2)}, "the start is another"),
        ({"warm_up": 300}, "warm_up is 300, and was 200"),
    ]:
        with pytest.raises(ValueError, match=f"the warm-up of another run in it: .*{problem}"):
            sample("nuts", tmp_path, **changes)
    with pytest.raises(ValueError, match="the sampler, or one of its settings, is another"):
        sample(fk.samplers.nuts(target_accept=0.7), tmp_path)
    with pytest.raises(ValueError, match="the sampler, or one of its settings, is another"):
        sample(fk.samplers.nuts(mass_matrix=2.0 * jnp.ones(2)), tmp_path)
    other = fk.Density(lambda theta: -jnp.sum(theta**4))
    with pytest.raises(ValueError, match="the model is another"):
        fk.sample(
            other, "nuts", init=jnp.ones(2), steps=20, chains=2, warm_up=200, out=tmp_path, progress=False
        )
    part = tmp_path / "warm-up" / "000002.npz"
    damaged = bytearray(part.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    part.write_bytes(damaged)
    again = sample("nuts", tmp_path)
    assert len(counted) == number + 2  # the damaged one and the one after it
    np.testing.assert_array_equal(again.samples, right.samples)


def test_what_is_tuned_depends_on_the_gradient_and_on_all_settings():
    def prints(sampler, gradient=None):
        return record.fingerprints_to_learn(TARGET, sampler, gradient, jnp.ones((2, 2)))["sampler"]

    samplers = [fk.samplers.sghmc("auto", friction) for friction in (1.0, 50.0)]
    variates = [fk.gradients.control_variates(jnp.full(2, value)) for value in (0.0, 1.0)]
    cases = [(samplers[0], None), (samplers[1], None), *((samplers[0], v) for v in variates), ("sghmc", None)]
    assert len({prints(*case) for case in cases}) == len(cases)
    assert prints(fk.samplers.sghmc("auto", 1.0)) == prints(samplers[0])


@pytest.mark.usefixtures("foreground")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_in_warm_up_ends_the_command_cleanly(tmp_path, number, code, monkeypatch, capsys):
    original, calls = journal.Journal.stage, []

    def stage(self, like, compute):
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(number)
        return original(self, like, compute)

    with monkeypatch.context() as patch:
        patch.setattr(journal.Journal, "stage", stage)
        patch.setattr(journal, "_SECONDS", 0.0)
        returned = execution.run_and_report(Path(tmp_path), lambda: sample("nuts", tmp_path), "a run", ())
    assert returned == code
    assert (
        "what was learned in tuning or warm-up so far is kept. Run the same command again, or `fokker resume"
        in " ".join(capsys.readouterr().out.split())
    )
    assert sorted(path.name for path in (tmp_path / "warm-up").iterdir()) == ["000000.npz", "000001.npz"]


def test_stages_that_are_known_are_no_speed():
    known = journal.Journal(known=[{"tree.0": np.zeros(2)}])
    bar = Progress("warming up", 10, enabled=False)
    noted = learn._Noted(known, bar, 10, None)
    noted(4, jnp.zeros(2), lambda: pytest.fail("it is known"))
    before = bar._bar.tasks[0]
    assert (before.completed, before.speed) == (4, None)
    noted(6, jnp.zeros(2), lambda: (jnp.ones(2), {}))
    # The same part of the display, which has seen these two alone.
    assert bar._bar.tasks[0] is before
    assert before.completed == 6
