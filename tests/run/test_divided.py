"""Checkpoints of parameters that devices divide, by Orbax: nothing is gathered, or lost by a kill."""

import json

import jax.numpy as jnp
import pytest

import fokker as fk
from fokker.run import divided
from fokker.run.description import check_description
from fokker.run.mesh import devices_of
from programs import outputs, program


@pytest.fixture(scope="module")
def of(tmp_path_factory):
    process = program("divided_states.py", tmp_path_factory.mktemp("divided"))
    ((output, errors),) = outputs([process])
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


@pytest.mark.slow
def test_divided_states_are_in_a_folder_of_their_own_and_go_on_with_any_mesh(of):
    # The checkpoint has draws and what is recorded of them, and no state.
    assert set(of["arrays"]) == {"tail", "chunks"}
    # 2 steps of burn-in and 12 more; the folder of the checkpoint, and of the one before it.
    assert len(of["left"]) == 2
    assert of["left"][-1].startswith("14")
    # Read by two devices for each chain: each has half of w of one of two chains, from the first block on.
    assert of["share"] == 0.25
    assert of["same"]
    assert of["on one device"] == [False, True]


@pytest.mark.slow
def test_moments_of_divided_parameters_are_read_without_the_model(of):
    assert of["moments"]


@pytest.mark.slow
def test_a_kill_while_divided_states_are_written_leaves_the_checkpoint_before(of):
    assert of["kills"] == {"after": 2, "in": 2}  # the steps of burn-in
    assert of["ended"] == [True, True]
    # What the kill has left is gone.
    assert [len(names) for names in of["left of them"].values()] == [2, 2]


@pytest.mark.slow
def test_damaged_states_are_found_and_the_checkpoint_before_is_used(of):
    assert of["missing"]
    assert len(of["said"]) == 1
    assert "The checkpoint before it is used" in of["said"][0]
    assert f"{of['file']} is damaged" in of["damaged"]
    assert of["without it"]


def test_a_run_with_divided_parameters_needs_orbax(monkeypatch, tmp_path):
    monkeypatch.setattr(divided, "find_spec", lambda name: None)
    monkeypatch.setattr("fokker.run.plan.devices_of", lambda mesh: _dividing(devices_of("parameters")))
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    options = {"init": jnp.zeros(2), "steps": 4, "mesh": "parameters", "progress": False}
    with pytest.raises(ImportError, match=r"pip install 'fokker\[orbax\]'"):
        fk.sample(normal, fk.samplers.ula(0.1), out=tmp_path, **options)


def test_a_folder_of_one_s_own_is_not_taken_for_states(tmp_path):
    own = tmp_path / "states" / "14" / "notes.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with pytest.raises(ValueError, match=r"states has files in it that are not states of a run"):
        divided.prepare_states(tmp_path)
    assert divided.names_of_states(tmp_path) == []
    normal = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    for steps in (4, 8, 12):
        fk.sample(normal, fk.samplers.ula(0.1), init=jnp.zeros(2), steps=steps, out=tmp_path, progress=False)
    assert own.read_text() == "mine"


def _dividing(devices):
    devices.divides = True
    return devices


@pytest.mark.parametrize(
    "stored",
    [
        {"name": "../other", "files": {}},
        {"name": "14", "files": {"../../checkpoint.npz": [1, "ab"]}},
        {"name": "14", "files": {"/etc/passwd": [1, "ab"]}},
        {"name": "14", "files": {"states/d": "ab"}},
        {"name": "14"},
    ],
)
def test_names_of_states_stay_within_the_folder_of_the_run(stored):
    description = {
        "settings": {"steps": 4, "burn_in": 0, "chains": 1},
        "environment": {},
        "fingerprints": {},
        "theta": [],
        "notes": [],
        "one_start": True,
        "taken": 0,
        "stopped": None,
        "draws": 0,
        "chunk": 1,
    }
    check_description(description, {})
    good = {"name": "14", "files": {"states/d/0a": [1, "ab"]}}
    check_description({**description, "divided": good}, {})
    with pytest.raises(ValueError, match=r"divided|name of a folder"):
        check_description({**description, "divided": stored}, {})
