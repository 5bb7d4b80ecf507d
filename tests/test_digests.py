"""Draws of today's seeds are those of yesterday's code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import digests

SAMPLED = ("sghmc", "hmc", "sgld, control variates", "LDA, scir in a stream")


def test_every_run_is_stored():
    stored = set(json.loads(digests.STORED.read_text())["runs"])
    assert stored == set(digests.RUNS), "python tests/digests.py --write --only NAME stores a new one"


@pytest.mark.parametrize("name", SAMPLED)
def test_the_draws_are_those_stored(name):
    stored = json.loads(digests.STORED.read_text())
    # The tests compile without XLA's optimisations, so the last bits are not those of a user.
    stored["environment"] = {}
    assert digests.difference(name, stored) is None


def test_other_draws_are_named():
    stored = json.loads(digests.STORED.read_text())
    stored["runs"]["hmc"]["last"][-1] += 0.01
    stored["environment"] = {}
    assert "hmc: other draws" in digests.difference("hmc", stored)


@pytest.mark.slow
@pytest.mark.parametrize("half", "01")
def test_the_bits_of_every_run_are_those_stored(half):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("XLA_", "PYTEST"))}
    command = [sys.executable, str(Path(digests.__file__)), "--half", half]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=290, check=False)
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
