"""Runs on many devices and in many processes are those of one device, but for the order of sums."""

import json
import os
import re
import socket
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
import in_processes
from fokker._core.parts import axes_of_shares
from fokker.cli import execution
from fokker.run import processes, shares
from fokker.run.mesh import devices_of, parse_mesh
from fokker.run.watch import Watch
from programs import outputs, program


def found(tmp_path, what, seconds=280):
    process = program("on_mesh.py", tmp_path, what)
    ((output, errors),) = outputs([process], seconds)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


@pytest.mark.slow
def test_four_devices_give_the_draws_of_one_and_another_mesh_goes_on(tmp_path):
    of = found(tmp_path, "quick")
    assert of["moved"] > 1e-3
    assert of["off"] < 1e-12
    # On the last of three meshes each device has all of s and half of w, in every block alike.
    assert of["shares"] == [1.0, 0.5]
    assert of["programs"] == 1
    assert of["same noise"]
    # One per step, within the two devices that have parts of the same batch: none joins other chains.
    ((operation, groups),) = of["reductions"]
    assert operation == "all-reduce"
    # In the words of older and of newer versions of XLA.
    assert groups in ("{{0,1},{2,3}}", "mesh['chains'=2,'data'=2,'parameters'=1] {'data'}")
    assert max(of["derivatives"]) < 1e-13
    assert of["densities"] < 1e-13
    assert (
        "chains=6 cannot be divided evenly among the 4 devices of the mesh's axis chains" in of["odd chains"]
    )
    assert (
        "batch_size=5 cannot be divided evenly among the 2 devices of the mesh's axis data" in of["odd rows"]
    )
    assert "axis data of the mesh has 4 devices, but the target, a Density, has no data" in of["no data"]
    assert of["own sampler"] < 1e-12
    assert "Unsaid does not say that it uses batches by its target alone" in of["unsaid"]
    assert of["unsaid, whole"] == "nothing was refused"
    assert "{'chains': 8} has 8 devices, and there are 4 in 1 process:" in of["too many"]


@pytest.mark.long("mesh::four_devices_give_the_draws_of_one_and_another_mesh_goes_on")
def test_parameters_that_are_dealt_over_devices_give_the_draws_of_one_device(tmp_path):
    of = found(tmp_path, "dealt")
    assert of["moved"] > 1e-6
    assert of["off"] < 1e-12
    assert max(of["others"].values()) < 1e-12, of["others"]
    # Of one of two chains, a device has s and v, which are small, and half of w.
    assert of["shares"] == [0.5, 0.5, 0.25]
    assert of["programs"] == 1


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (fk.lazy(fk.samplers.sgld(1e-3)), r"fk.lazy moves single rows of theta, which cannot be divided"),
        (
            fk.samplers.hmc(0.1, 3),
            r"theta is one vector, which cannot be divided among the 4 devices .* axis",
        ),
    ],
)
def test_parameters_that_cannot_be_divided_are_refused(sampler, message):
    devices = devices_of("parameters")
    devices.shares = 4
    with pytest.raises(ValueError, match=message):
        devices.share(sampler, None)


def test_the_axis_that_is_divided_is_the_longest_that_divides_evenly():
    for shape, axes in {
        (64, 32): ("parameters", None),
        (32, 64): (None, "parameters"),
        (1026, 32): (None, "parameters"),  # 1026 is not a multiple of 4
        (33, 1027): (None, None),
        (16, 4): (None, None),  # few numbers
        (): (),
    }.items():
        assert axes_of_shares(shape, 4) == axes
        assert set(axes_of_shares(shape, 1)) <= {None}


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles some fifty programs for four devices
def test_every_kind_of_batch_estimator_and_correction_gives_the_draws_of_one_device(tmp_path):
    for name, (moved, *off) in found(tmp_path, "every_kind", seconds=850).items():
        assert moved > 0, name
        assert max(off) < 1e-12, (name, off)


def together(endings, call, mesh, folder, steps):
    """Run as many processes as there are endings; their exit codes, output and errors."""
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    count = len(endings)
    running = [
        program("in_processes.py", i, count, port, call, mesh, folder, steps, *ending)
        for i, ending in enumerate(endings)
    ]
    written = outputs(running)
    return [(process.returncode, *texts) for process, texts in zip(running, written, strict=True)]


@pytest.mark.slow
def test_a_lost_process_is_named_and_one_process_goes_on(tmp_path, x64):
    (code, _, errors), (killed, _, _) = together(
        ([], ["SIGKILL", "30"]), "sample", "chains", tmp_path / "run", 400
    )
    assert killed == -9
    assert code == 1
    host = re.escape(socket.gethostname())
    assert re.search(rf"process 1 on {host} was lost, and process 0 on {host} ends", errors), errors
    before = fk.open(tmp_path / "run")
    assert 0 < before.settings["taken"] < 400
    trace = in_processes.sample(400, out=tmp_path / "run")
    expected = in_processes.sample(400)
    np.testing.assert_allclose(trace.samples, expected.samples, rtol=0, atol=1e-12)
    # A negative control: the draws of another seed are not these.
    assert np.abs(trace.samples - in_processes.sample(400, seed=1).samples).max() > 0.1


@pytest.mark.slow
def test_a_signal_to_one_process_ends_both_at_the_same_step(tmp_path, x64):
    ended = together(([], ["SIGINT", "5"]), "sample", "chains", tmp_path / "run", 4000)
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert ended[0][1].splitlines()[-1] == ended[1][1].splitlines()[-1]
    assert "interrupted after" in ended[0][1]
    trace = in_processes.sample(4000, out=tmp_path / "run")
    np.testing.assert_allclose(trace.samples, in_processes.sample(4000).samples, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_each_process_writes_its_own_part_of_a_divided_theta(tmp_path, x64):
    folder = tmp_path / "run"
    for steps in (20, 40):
        ended = together([[]] * 2, "sample_divided", "parameters", folder, steps)
        assert [code for code, _, _ in ended] == [0, 0], ended
    for states in (folder / "states").glob("[0-9]*"):
        written = {path.name for path in (states / "states").iterdir()}
        assert {"ocdbt.process_0", "ocdbt.process_1"} <= written
    trace = in_processes.sample_divided(60, out=folder)
    np.testing.assert_allclose(trace.samples, in_processes.sample_divided(60).samples, rtol=0, atol=1e-12)


@pytest.mark.long("mesh::a_lost_process_is_named_and_one_process_goes_on")
def test_four_processes_give_the_draws_of_one_and_two_go_on_when_one_is_lost(tmp_path, x64):
    expected = in_processes.sample_posterior(400).samples
    assert expected.std(axis=1).min() > 1e-4
    for mesh in ("chains=4", "chains=2,data=2", "data=4"):
        ended = together([[]] * 4, "sample_posterior", mesh, tmp_path / mesh, 40)
        assert [code for code, _, _ in ended] == [0, 0, 0, 0], ended
        np.testing.assert_allclose(
            fk.open(tmp_path / mesh).samples, expected[:, :40], rtol=0, atol=1e-12, err_msg=mesh
        )
    folder = tmp_path / "run"
    endings = [[], [], [], ["SIGKILL", "30"]]
    ended = together(endings, "sample_posterior", "chains=2,data=2", folder, 400)
    assert [code for code, _, _ in ended] == [1, 1, 1, -9]
    for number, (_, _, errors) in enumerate(ended[:3]):
        assert re.search(rf"process 3 on .* was lost, and process {number} on .* ends", errors), errors
    assert 0 < fk.open(folder).settings["taken"] < 400
    # A signal to the second of two ends these too, and one process goes on.
    ended = together([[], ["SIGTERM", "3"]], "sample_posterior", "data", folder, 400)
    assert {code for code, _, _ in ended} == {-15}, ended
    assert fk.open(folder).settings["taken"] < 400
    trace = in_processes.sample_posterior(400, out=folder)
    np.testing.assert_allclose(trace.samples, expected, rtol=0, atol=1e-12)


def test_a_mesh_of_one_device_changes_no_bit():
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    options = {"init": jnp.ones(2), "steps": 10, "chains": 2, "progress": False}
    alone, on_mesh = (
        fk.sample(target, fk.samplers.sgld(0.1), mesh=mesh, **options) for mesh in (None, {"chains": 1})
    )
    np.testing.assert_array_equal(alone.samples, on_mesh.samples)


@pytest.mark.parametrize(
    ("mesh", "kind", "message"),
    [
        ({"chain": 1}, ValueError, r"axes of a mesh are chains, data and parameters, not 'chain'"),
        ({"chains": 0}, ValueError, r"whole numbers of at least 1, or -1 for the rest; not \{'chains': 0\}"),
        ({"chains": 1.0}, ValueError, r"whole numbers"),
        ({"chains": 3}, ValueError, r"has 3 devices, and there are 1 in 1 process: .* must multiply to that"),
        ({"chains": -1, "data": -1}, ValueError, r"has 1 times \? devices"),
        (
            "chains=two",
            ValueError,
            r"written as chains=4,data=2, or chains for all devices; not 'chains=two'",
        ),
        (4, TypeError, r"a text such as 'chains=4,data=2', or a jax.sharding.Mesh with these axes, not 4"),
    ],
)
def test_a_mesh_that_does_not_fit_is_refused(mesh, kind, message):
    with pytest.raises(kind, match=message):
        devices_of(mesh)


def test_a_mesh_as_text_or_of_jax():
    assert parse_mesh("chains=4, data=2") == {"chains": 4, "data": 2}
    assert parse_mesh("chains,data=2") == {"chains": -1, "data": 2}
    given = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1), ("data",))
    assert dict(devices_of(given).mesh.shape) == {"chains": 1, "data": 1, "parameters": 1}
    assert dict(devices_of("chains").mesh.shape) == {"chains": 1, "data": 1, "parameters": 1}


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (fk.lazy(fk.samplers.sgld(1e-3)), r"fk.lazy moves rows of its own on every device"),
        (
            fk.samplers.recipe(fk.samplers.sgld(1e-3).on(in_processes.TARGET).placed, 1e-3),
            r"a sampler made of dynamics computes its gradient itself, so that its batches cannot be divided",
        ),
    ],
)
def test_batches_that_cannot_be_divided_are_refused(sampler, message):
    with pytest.raises(ValueError, match=message):
        shares.shared_sampler(sampler, None, 2, None, {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("node1:1234", 2, None), r"belong together: .* 'node1:1234', 2 and None"),
        (("node1", 2, 0), r"a host and a port, as node1:12345; 'node1' was given"),
        (("node1:1234", 2, 2), r"numbers of 2 processes go from 0 to 1; 2 was given"),
    ],
)
def test_processes_that_cannot_start_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        processes.start(*given)


def test_processes_are_expected_where_the_environment_says_so(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_PROCID", "OMPI_MCA_orte_hnp_uri", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert not processes.expected()
    for variables in (
        {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"},
        {"OMPI_MCA_orte_hnp_uri": "1", "OMPI_COMM_WORLD_SIZE": "2"},
        {"KUBERNETES_SERVICE_HOST": "a", "JOB_COMPLETION_INDEX": "0"},
    ):
        with monkeypatch.context() as context:
            for name, value in variables.items():
                context.setenv(name, value)
            assert processes.expected()
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "1")
    assert not processes.expected()


def test_a_command_without_processes_keeps_its_mesh(monkeypatch):
    for name in ("SLURM_PROCID", "OMPI_MCA_orte_hnp_uri", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert processes.join("data=2", None, None, None) == "data=2"
    assert processes.join(None, None, None, None) is None
    with pytest.raises(ValueError, match=r"belong together"):
        processes.join(None, None, 2, None)


def test_processes_with_other_settings_are_refused_by_name(monkeypatch):
    other = [json.dumps({"seed": 1, "steps": 5}).encode()]
    monkeypatch.setattr(processes, "_from_all", lambda own: [own, *other])
    with pytest.raises(ValueError, match="process 1 has seed=1, and process 0 has 0: every process"):
        processes.check_same_settings({"seed": 0, "steps": 5})
    processes.check_same_settings({"seed": 1, "steps": 5})


@pytest.fixture
def watches(monkeypatch):
    """Those of two processes, in one; what would end a process is noted instead."""
    ended = []
    monkeypatch.setattr(
        Watch, "_end", lambda self, lost, how="was lost": ended.append((self.number, lost, how))
    )
    barrier, rows = threading.Barrier(2), {}

    def start(number):
        def exchange(own):
            rows[number] = own
            barrier.wait(10)
            return [rows[0], rows[1]]

        return Watch(number, exchange, "127.0.0.1")

    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(start, range(2)))
    yield (*both, ended)
    for watch in both:
        watch.leave()
    while not all(watch._runs_of_left for watch in both):  # their threads end with that
        time.sleep(0.01)
    for watch in both:
        for connection in watch._connections.values():
            connection.close()


def test_a_run_cannot_begin_when_another_process_has_ended(watches):
    first, second, ended = watches
    first.enter_run()
    second.enter_run()
    second.leave()
    while not first._runs_of_left:  # a thread reads it
        time.sleep(0.01)
    assert ended == []  # the first may still be writing what both have run
    first.enter_run()
    assert ended == [(0, 1, "ended before this run")]


def test_a_process_that_is_suspended_is_waited_for_in_words(monkeypatch):
    clock, said, sent = types.SimpleNamespace(now=100.0), [], []
    monkeypatch.setattr("fokker.run.watch.time.monotonic", lambda: clock.now)

    def watch(number):
        """One of two, without its connection and thread."""
        one = object.__new__(Watch)
        one.number, one.hosts, one.has_left = number, ["one", "two"], False
        one._heard, one._silent = {1 - number: clock.now}, set()
        one._say = lambda text: said.append((number, text))
        one._tell = lambda kind, value: sent.append(number)
        return one

    first, second = watch(0), watch(1)
    for seconds in range(5, 71, 5):  # in which the second sends nothing
        clock.now = 100.0 + seconds
        first._beat(clock.now - 5, [1])
    text = "process 1 on two has given no sign of life for 25 seconds: it may be suspended. process 0 on one "
    assert said == [(0, f"{text}waits for it.")]  # once
    # It wakes: what it has not heard was its own sleep.
    second._beat(100.0, [0])
    first._hear(1)
    assert said[1:] == [
        (1, "process 1 on two was suspended for 70 seconds, and goes on."),
        (0, "process 1 on two is back after 70 seconds."),
    ]
    assert sent == [0] * 14 + [1]


def test_a_process_that_ends_within_a_run_ends_the_others(watches):
    first, second, ended = watches
    first.enter_run()
    second.leave()
    while not ended:
        time.sleep(0.01)
    assert ended == [(0, 1, "ended before this run")]


@pytest.mark.parametrize(
    ("error", "code"), [(None, None), (RuntimeError("of one"), 1), (RuntimeError("of all"), None)]
)
def test_an_error_between_two_runs_ends_the_process_at_once(error, code, monkeypatch):
    codes, left = [], []
    monkeypatch.setattr(processes, "_watch", types.SimpleNamespace(leave=lambda: left.append(True)))
    # A test before this one may have failed inside a run.
    monkeypatch.setattr(processes, "_failure", None)
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(sys, "last_value", error, raising=False)
    if error is not None:
        error.is_of_all = str(error) == "of all"
    processes._leave()
    assert (codes, left) == (([], [True]) if code is None else ([code], []))


def test_the_exit_code_is_that_of_the_first_process(monkeypatch, tmp_path):
    monkeypatch.setattr(execution, "by_first", lambda report: 1)
    trace = types.SimpleNamespace(was_interrupted=False)
    assert execution.run_and_report(tmp_path, lambda: trace, "title", ()) == 1
