"""Draws of today's seeds are those of yesterday's code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import digests

SAMPLED = ("sghmc", "hmc", "sgld, control variates", "LDA, scir in a stream")


def stored_elsewhere():
    """What is stored, as if on another machine.

    The tests compile without XLA's optimisations, so the last bits are not those of a user.
    """
    stored = json.loads(digests.STORED.read_text())
    runs = {name: {**run, "environment": {}} for name, run in stored["runs"].items()}
    return {"environment": {}, "runs": runs}


def test_every_run_is_stored():
    stored = set(json.loads(digests.STORED.read_text())["runs"])
    assert stored == set(digests.RUNS), "python tests/digests.py --write --only NAME stores a new one"


def test_a_run_is_chosen_by_its_name_and_not_with_others_that_have_it_within():
    assert digests.chosen("hmc") == ["hmc", "hmc, warm-up"]
    assert digests.chosen("hmc, warm-up") == ["hmc, warm-up"]
    assert {"sgld", "sgld, SAGA"} < set(digests.chosen("sgld")) < set(digests.RUNS) - {"psgld"}
    assert digests.chosen("warm-up") == [name for name in digests.RUNS if "warm-up" in name]
    assert digests.chosen("") == list(digests.RUNS)


@pytest.mark.parametrize("name", SAMPLED)
def test_the_draws_are_those_stored(name):
    assert digests.difference(name, stored_elsewhere()) is None


def test_other_draws_are_named():
    stored = stored_elsewhere()
    stored["runs"]["hmc"]["last"][-1] += 0.01
    assert "hmc: other draws" in digests.difference("hmc", stored)


def test_a_new_run_is_stored_on_any_machine(monkeypatch, tmp_path):
    runs = {"old": lambda: np.ones(2), "new": lambda: np.zeros(2)}
    monkeypatch.setattr(digests, "RUNS", runs)
    monkeypatch.setattr(digests, "STORED", tmp_path / "digests.json")
    digests.STORED.write_text(json.dumps({"environment": {}, "runs": {}}))
    digests.write(["old"])
    here = digests.environment()
    before = json.loads(digests.STORED.read_text())
    assert before["environment"] == here
    assert digests.difference("new", before).endswith("--write --only 'new'")
    monkeypatch.setattr(digests, "environment", lambda: {"processor": "another"})
    digests.write(["new"])
    stored = json.loads(digests.STORED.read_text())
    assert stored == {
        "environment": here,
        "runs": {**before["runs"], "new": {**digests.digest("new"), "environment": {"processor": "another"}}},
    }
    # Bits are compared where they were stored, and the last numbers elsewhere.
    for name in runs:
        stored["runs"][name]["sha256"] = ""
    assert digests.difference("old", stored) is None
    assert "new: other bits" in digests.difference("new", stored)
    digests.write(["old", "new"])
    stored = json.loads(digests.STORED.read_text())
    assert stored["environment"] == {"processor": "another"}
    assert not any("environment" in run for run in stored["runs"].values())


@pytest.mark.slow
@pytest.mark.parametrize("half", "01")
def test_the_bits_of_every_run_are_those_stored(half):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("XLA_", "PYTEST"))}
    command = [sys.executable, str(Path(digests.__file__)), "--half", half]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=290, check=False)
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
