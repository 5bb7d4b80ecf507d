"""Runs on disk: nothing written is lost, and a run that goes on has the bits of one that never stopped."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import fokker as fk
from fokker import cli
from fokker._core import files, lock
from fokker.run import store, variable
from fokker.run.folder import RunFolder
from fokker.run.recording import Recording

pytestmark = pytest.mark.dependencies

TARGET = fk.Density(lambda theta: -jnp.sum(theta["a"] ** 2) / 2 - theta["b"] ** 2)
INIT = {"a": jnp.zeros(2), "b": jnp.ones(())}
CALL = {"init": INIT, "steps": 120, "burn_in": 7, "thin": 2, "chains": 2, "progress": False}
SAMPLER = fk.samplers.sghmc(0.1)


@pytest.fixture
def right():
    # For each test: a program that was dropped from memory and compiled again may round otherwise.
    return fk.sample(TARGET, SAMPLER, **CALL)


@pytest.fixture
def small_chunks(monkeypatch):
    """Many blocks, and chunks of few draws: a checkpoint after each block."""
    monkeypatch.setattr(store, "_CHUNK", 7 * 2 * 2 * 4)
    monkeypatch.setattr("fokker.run.recording._COMMIT_SECONDS", 0)
    monkeypatch.setattr("fokker.run.recording._COMMIT_TIMES", 0)


def run(out, sampler=SAMPLER, target=TARGET, **changes):
    return fk.sample(target, sampler, out=out, chunk=20, **{**CALL, **changes})


def assert_same(trace, right):
    jax.tree.map(np.testing.assert_array_equal, trace.samples, right.samples)
    assert trace.sample_stats.keys() == right.sample_stats.keys()
    for name, values in right.sample_stats.items():
        np.testing.assert_array_equal(trace.sample_stats[name], values)


def test_a_run_on_disk_is_the_run_in_memory(tmp_path, right, small_chunks):
    trace = run(tmp_path)
    assert_same(trace, right)
    assert trace.stopped is None
    opened = fk.open(tmp_path)
    assert_same(opened, right)
    assert opened.settings["thin"] == 2
    assert str(opened.summary()).splitlines()[1].startswith("a[0]")
    # Readers that know nothing of checkpoints.
    group = xarray.open_zarr(tmp_path / "draws.zarr", group="posterior")
    np.testing.assert_array_equal(group["a"], right.samples["a"])
    assert group["a"].dims[:2] == ("chain", "draw")
    stats = xarray.open_zarr(tmp_path / "draws.zarr", group="sample_stats")
    np.testing.assert_array_equal(stats["kinetic_temperature"], right.sample_stats["kinetic_temperature"])


def test_more_steps_are_those_of_a_longer_run(tmp_path, small_chunks):
    longer = fk.sample(TARGET, SAMPLER, **{**CALL, "steps": 128})
    first = run(tmp_path)
    assert_same(first.resume(8), longer)
    assert_same(run(tmp_path, steps=128), longer)
    assert_same(fk.resume(tmp_path, TARGET, SAMPLER, init=INIT, progress=False), longer)
    with pytest.raises(ValueError, match="has no model"):
        fk.open(tmp_path).resume()


class Kill(BaseException):
    """The process ends here."""


def killed_at(monkeypatch, call):
    """Stop at the n-th write, sync or rename of any file, before it is done; say whether it came to that."""
    calls = []

    def wrapped(module, name):
        original = getattr(module, name)

        def counted(*args, **options):
            if len(calls) == call:
                raise Kill
            calls.append(name)
            return original(*args, **options)

        monkeypatch.setattr(module, name, counted)

    wrapped(files.os, "replace")
    wrapped(files.os, "fsync")
    wrapped(variable.Variable, "write")
    return calls


@pytest.mark.parametrize("call", [0, 4, 5, 7, 12, 18, 31])
def test_a_run_that_ends_at_any_write_goes_on_to_the_same_bits(tmp_path, right, small_chunks, call):
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, call)
        with pytest.raises(Kill):
            run(tmp_path)
    before = 0
    if store.has_run(tmp_path):
        unfinished = fk.open(tmp_path)
        before = store.read_checkpoint(tmp_path).draws
        if before:
            half = jax.tree.map(lambda x: x[:, :before], right.samples)
            jax.tree.map(np.testing.assert_array_equal, unfinished.samples, half)
    # A second one soon after, in the run that goes on.
    with pytest.MonkeyPatch.context() as patch:
        killed_at(patch, 5)
        with pytest.raises(Kill):
            run(tmp_path)
    assert_same(run(tmp_path), right)


def test_where_a_checkpoint_is_written_before_the_draws_it_counts_they_are_missed(
    tmp_path, right, small_chunks, monkeypatch
):
    """The test above sees a wrong order."""
    monkeypatch.setattr(variable.Variable, "_put", lambda self, draws, begin: None)
    monkeypatch.setattr(variable.Variable, "sync", lambda self: None)
    run(tmp_path)
    with pytest.raises(files.DamagedFileError, match="damaged or missing"):
        _ = fk.open(tmp_path).samples


@pytest.mark.parametrize("name", ["nuts", pytest.param("mclmc", marks=pytest.mark.slow)])
def test_what_was_learned_is_not_learned_again(tmp_path, name, monkeypatch):
    call = {"init": INIT, "steps": 40, "chains": 2, "warm_up": 200, "progress": False}
    right = fk.sample(TARGET, name, **call)
    fk.sample(TARGET, name, out=tmp_path, **{**call, "steps": 20})
    monkeypatch.setattr("fokker.run.learn.warmed_up", None)
    trace = fk.sample(TARGET, name, out=tmp_path, **call)
    assert_same(trace, right)
    assert trace.rerun().samples["a"].shape == right.samples["a"].shape


def test_moments_go_on(tmp_path, small_chunks):
    right = fk.sample(TARGET, SAMPLER, **CALL, keep="moments")
    run(tmp_path, keep="moments", steps=60)
    trace = run(tmp_path, keep="moments")
    jax.tree.map(np.testing.assert_array_equal, trace.moments, right.moments)
    fk.open(tmp_path).save(tmp_path / "saved")
    for stored in (fk.open(tmp_path), fk.open(tmp_path / "saved")):
        jax.tree.map(np.testing.assert_array_equal, stored.moments, right.moments)
        assert set(right.summary().warnings) < set(stored.summary().warnings)
    with pytest.raises(RuntimeError, match="only moments"):
        _ = fk.open(tmp_path).samples


DATA = {"x": np.arange(40.0)}


def posterior(scale=1.0, data=DATA, centre=np.array([0.0, 0.2])):
    return fk.Posterior(
        lambda t: -jnp.sum((t - centre) ** 2) / 2, lambda t, d: -((d["x"] - t) ** 2) / (2 * scale), data
    )


@pytest.mark.slow
def test_another_run_is_refused_by_name(tmp_path):
    call = {"init": 0.5, "steps": 10, "chains": 1, "batch_size": 4, "progress": False, "out": tmp_path}
    sampler = fk.samplers.sghmc(1e-3, 2.0)
    fk.sample(posterior(), sampler, **call)
    fk.sample(posterior(), sampler, **call)
    for changes, message in [
        ({"seed": 1}, "seed is 1, and was 0"),
        ({"thin": 2}, "thin is 2, and was 1"),
        ({"init": 0.6}, "the start is another"),
        ({"batch_size": 5}, "batch_size is 5, and was 4"),
        ({"target": posterior(2.0)}, "the model is another"),
        ({"target": posterior(data=DATA, centre=np.array([0.0, 0.1]))}, "the model is another"),
        ({"target": posterior(data={"x": np.arange(40.0) + 1e-3})}, "the data is another"),
        ({"sampler": fk.samplers.sghmc(1e-3, 2.5)}, "the sampler, or one of its settings, is another"),
        ({"sampler": fk.samplers.sghmc(2e-3, 2.0)}, "the sampler, or one of its settings, is another"),
        ({"gradient": fk.gradients.control_variates(0.5)}, "the sampler, or one of its settings, is another"),
    ]:
        given = {"target": posterior(), "sampler": sampler, **call, **changes}
        with pytest.raises(ValueError, match=message):
            fk.sample(given.pop("target"), given.pop("sampler"), **given)


def test_one_process_at_a_time(tmp_path):
    with lock.locked(tmp_path), pytest.raises(BlockingIOError, match=f"in use by process {os.getpid()}"):
        run(tmp_path)


def test_a_full_disk_loses_nothing_already_written(tmp_path, right, small_chunks):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    calls = []
    with pytest.MonkeyPatch.context() as patch:
        original = os.fsync
        patch.setattr(
            files.os, "fsync", lambda d: calls.append(d) or (original if len(calls) < 15 else full)(d)
        )
        with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/"):
            run(tmp_path)
    assert store.read_checkpoint(tmp_path).draws > 0
    assert_same(run(tmp_path), right)


def opened_damaged(folder, right):
    """What reading a damaged run came to; never other draws, nor an error that does not name the folder."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            trace = fk.open(folder)
            count = store.read_checkpoint(folder).draws
            half = jax.tree.map(lambda x: x[:, :count], right.samples)
            jax.tree.map(np.testing.assert_array_equal, trace.samples, half)
            assert trace.sample_stats["kinetic_temperature"].shape[1] == count
        except files.DamagedFileError as error:
            return "named" if str(folder) in str(error) else str(error)
    return "fell back" if warned else "harmless"


@pytest.mark.parametrize("has_backup", [False, True])
def test_a_file_is_on_the_disk_before_it_takes_the_place_of_another(tmp_path, monkeypatch, has_backup):
    """Otherwise a power failure after the renaming leaves an empty file under the name of a whole one."""
    path, backup = tmp_path / "file", tmp_path / "backup"
    files.write_text(path, "old")
    calls = []
    right_sync, right_replace = os.fsync, os.replace

    def sync(descriptor):
        calls.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor).st_size))
        right_sync(descriptor)

    def replace(source, goal):
        calls.append(("replace", str(source), str(goal)))
        right_replace(source, goal)

    monkeypatch.setattr(files.os, "fsync", sync)
    monkeypatch.setattr(files.os, "replace", replace)
    files.write_atomically(path, lambda file: file.write(b"new text"), backup if has_backup else None)
    (first, partial, size), *renamed, (last, folder, _) = calls
    assert (first, size) == ("sync", len("new text"))
    assert renamed == [("replace", str(path), str(backup))] * has_backup + [("replace", partial, str(path))]
    assert (last, folder) == ("sync", str(tmp_path))
    assert path.read_text() == "new text"
    assert not has_backup or backup.read_text() == "old"


def test_a_flipped_bit_is_noticed_or_harmless(tmp_path, right, small_chunks):
    run(tmp_path)
    paths = sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock")
    generator = random.Random(0)
    seen = []
    for number in range(150):
        path = paths[number % len(paths)]
        contents = path.read_bytes()
        place = generator.randrange(len(contents))
        flipped = (
            contents[:place] + bytes([contents[place] ^ 1 << generator.randrange(8)]) + contents[place + 1 :]
        )
        path.write_bytes(flipped if number % 5 else contents[:place])
        seen.append(opened_damaged(tmp_path, right))
        path.write_bytes(contents)
    assert {"fell back", "harmless", "named"} == set(seen)
    # An archive that is consistent in itself, and yet another.
    path = tmp_path / "checkpoint.npz"
    contents = path.read_bytes()
    path.write_bytes(contents.replace(b"tail/posterior/b", b"tail/posterior/c"))
    assert opened_damaged(tmp_path, right) == "fell back"
    path.write_bytes(contents)
    # A run goes on where its descriptions are damaged: what they have to be is known.
    for path in tmp_path.rglob("zarr.json"):
        path.write_bytes(b"{")
    assert_same(run(tmp_path, steps=128), fk.sample(TARGET, SAMPLER, **{**CALL, "steps": 128}))


def test_chunks_that_zarr_would_look_for_by_other_names_are_not_read_as_zeros(tmp_path, right, small_chunks):
    """One flipped bit: "/" to "."; Zarr finds no file of that name, and fills in zeros."""
    run(tmp_path)
    path = tmp_path / "draws.zarr" / "posterior" / "a" / "zarr.json"
    contents = path.read_bytes()
    assert contents.count(b'"/"') == 1
    path.write_bytes(contents.replace(b'"/"', b'"."'))
    with pytest.raises(files.DamagedFileError, match=r"posterior/a are damaged .*describes another array"):
        _ = fk.open(tmp_path).draws
    # A run that goes on knows what it has to be.
    assert_same(run(tmp_path), right)


def test_a_stranger_s_folder_executes_nothing(tmp_path):
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    header = json.dumps({"kind": "run", "version": 1, "types": {}}).encode()
    files.write_atomically(
        tmp_path / "plain.npz",
        lambda file: np.savez(file, header=np.frombuffer(header, np.uint8), a=np.array([Hostile()], object)),
    )
    contents = (tmp_path / "plain.npz").read_bytes()
    # With a right checksum, as a stranger can write one.
    (tmp_path / "checkpoint.npz").write_bytes(contents[:-2] + files._COMMENT + files._digest(contents))
    with pytest.raises(files.DamagedFileError, match="not a run of fokker"):
        fk.open(tmp_path)
    assert not (tmp_path / "executed").exists()
    from fokker.cli.stored import read_command

    inside = {"source": str(tmp_path / "model.py:target")}
    (tmp_path / "command.json").write_text(json.dumps(inside))
    with pytest.raises(ValueError, match="would be executed"):
        read_command(tmp_path, None)


def test_saved_from_memory(tmp_path, right):
    right.save(tmp_path / "saved")
    assert_same(fk.open(tmp_path / "saved"), right)
    with pytest.raises(ValueError, match="a run in it already"):
        right.save(tmp_path / "saved")
    with pytest.raises(ValueError, match="saved trace"):
        run(tmp_path / "saved")
    file = tmp_path / "model.py"
    file.write_text("")
    with pytest.raises(ValueError, match=r"model.py is a file, and a run is a folder"):
        fk.open(file)
    with pytest.raises(FileNotFoundError, match="has no run in it"):
        fk.open(tmp_path)


MODEL = """
import jax.numpy as jnp
import fokker as fk
target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
init = jnp.zeros(2)
"""


@pytest.mark.usefixtures("foreground")
@pytest.mark.parametrize(
    ("number", "enough"), [(signal.SIGTERM, True), (signal.SIGTERM, False), (signal.SIGHUP, False)]
)
def test_a_signal_ends_the_command_with_a_report_that_knows_the_model(
    tmp_path, monkeypatch, capsys, number, enough
):
    (tmp_path / "model.py").write_text(MODEL)
    commit, done = RunFolder.commit, []

    def terminated(self, *given, **options):
        commit(self, *given, **options)
        if self.store.draws >= (10 if enough else 1) and not done:
            done.append(True)
            signal.raise_signal(number)

    monkeypatch.setattr(RunFolder, "commit", terminated)
    monkeypatch.setattr("fokker.run.recording._COMMIT_SECONDS", 0)
    monkeypatch.setattr("fokker.run.recording._COMMIT_TIMES", 0)
    options = ["--steps", "2000000000", "--thin", "20", "--sampler", "sghmc", "--step-size", "0.1"]
    call = ["fokker", "sample", f"{tmp_path}/model.py:target", *options, "--out", f"{tmp_path}/run"]
    monkeypatch.setattr(sys, "argv", call)
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) is before
    printed = capsys.readouterr().out
    assert "Run the same command again, or `fokker resume" in printed
    assert "writing the report, which another Ctrl-C leaves out" in printed
    if enough:
        assert "model is not known" not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert store.read_checkpoint(tmp_path / "run").draws > 0


@pytest.mark.long("store::a_signal_ends_the_command_with_a_report_that_knows_the_model")
@pytest.mark.parametrize("kills", [False, True])
def test_a_signal_ends_the_command_with_a_report_and_a_kill_loses_little(tmp_path, kills):
    (tmp_path / "model.py").write_text(MODEL)
    command = [sys.executable, "-c", "from fokker.cli import main; main()"]
    options = ["--sampler", "sghmc", "--step-size", "0.1", "--thin", "2000", "--chains", "1"]

    def ended(number, *arguments):
        process = subprocess.Popen(
            [*command, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        before = draws()
        while draws() <= before + 2 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        return process.communicate(timeout=120)[0], process.returncode

    def draws():
        try:
            return json.loads((tmp_path / "run" / "run.json").read_text())["draws"]
        except FileNotFoundError:
            return 0

    call = ["sample", "model.py:target", "--steps", "2000000000", *options, "--out", "run"]
    before = 0
    if kills:
        assert ended(signal.SIGKILL, *call)[1] == -signal.SIGKILL
        before, call = draws(), ["resume", "run"]
    said, code = ended(signal.SIGTERM, *call)
    assert code == 143
    assert "writing the report, which another Ctrl-C leaves out" in said
    assert "Run the same command again, or `fokker resume run`, to continue." in said
    assert (tmp_path / "run" / "report.html").is_file()
    assert draws() > before
    whole = fk.sample(
        fk.Density(lambda theta: -jnp.sum(theta**2) / 2),
        fk.samplers.sghmc(0.1),
        init=jnp.zeros(2),
        steps=draws() * 2000,
        chains=1,
        thin=2000,
        progress=False,
    )
    # To rounding: tests are compiled without XLA's optimisations, and the command is not.
    np.testing.assert_allclose(fk.open(tmp_path / "run").samples, whole.samples, atol=1e-4)


def test_after_a_failed_write_nothing_more_is_written(tmp_path, right, small_chunks, monkeypatch):
    """A failure that passes: the block behind it must not be written after a gap."""
    original, calls = variable.Variable.write, []

    def fails_once(self, draws, begin):
        calls.append(begin)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        original(self, draws, begin)

    monkeypatch.setattr(variable.Variable, "write", fails_once)
    with pytest.raises(OSError, match="No space left"):
        run(tmp_path)
    assert_same(run(tmp_path), right)


def test_the_block_behind_one_that_failed_is_not_recorded(monkeypatch):
    """It is computed already when the write before it fails."""
    seen = []

    def fails(self, block, checkpoint):
        seen.append(block)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Recording, "_checked", fails)
    recording = object.__new__(Recording)
    recording.problem = None
    with pytest.raises(OSError, match="No space left"):
        recording.add("first", None)
    assert "writing failed" in recording.add("second", None)
    assert seen == ["first"]


def test_a_trace_on_disk_is_judged_as_one_in_memory(tmp_path, small_chunks):
    """Its temperature, step size and number of chains, also where the options do not give them."""
    potential = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    sampler = fk.samplers.recipe(fk.dynamics.underdamped(potential.potential, temperature=4.0), 0.1)
    init = fk.PerChain({"theta": jnp.zeros((2, 3)), "r": jnp.zeros((2, 3))})
    call = {"init": init, "steps": 400, "progress": False}
    memory = fk.sample(potential, sampler, **call)
    trace = fk.sample(potential, sampler, out=tmp_path, **call)
    for stored in (trace, fk.open(tmp_path)):
        for name in ("temperature", "chains", "step_size", "sampler", "taken"):
            assert stored.settings[name] == pytest.approx(memory.settings[name])
        warnings, known = (t.summary(gradients=False).warnings for t in (stored, memory))
        # A sampler that is not exact: without its model, or without gradients, no bias was looked for.
        assert any("model is not known" in w for w in warnings) == (stored.origin is None)
        assert any("gradients=False was given" in w for w in known)
        unlooked = re.compile("model is not known|gradients=False was given")
        assert [w for w in warnings if not unlooked.search(w)] == [w for w in known if not unlooked.search(w)]
    assert trace.summary().warnings == memory.summary().warnings
    assert trace.step_halving().warnings == memory.step_halving().warnings


def test_an_opened_trace_knows_the_problems_of_warm_up_and_of_the_start(tmp_path, small_chunks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fokker.run.warmup._zero_gradients", lambda chains: ["a problem of warm-up"])
        trace = fk.sample(
            TARGET, "nuts", init=INIT, steps=20, chains=2, warm_up=200, progress=False, out=tmp_path
        )
    trace.save(tmp_path / "saved")
    for stored in (trace, fk.open(tmp_path), fk.open(tmp_path / "saved")):
        summary = stored.summary(gradients=False)
        assert "a problem of warm-up" in summary.warnings
        assert any("started at one point" in note for note in summary.notes)


def test_a_thermostat_for_each_coordinate(tmp_path, small_chunks):
    """It is as large as theta, and no statistic; it goes on with the state."""
    sampler = fk.samplers.sgnht(0.1, kind="diagonal")
    right = fk.sample(TARGET, sampler, **{**CALL, "steps": 40})
    assert set(right.sample_stats) == {"kinetic_temperature"}
    run(tmp_path, sampler, steps=20)
    assert_same(run(tmp_path, sampler, steps=40), right)


def test_leaves_with_names_that_files_cannot_have(tmp_path):
    x = jnp.zeros(2)
    init = {"a/b": x, "a|b": x, "a.c": x, "a": {"c": x}, "..": x, "zarr.json": x, "a\\b": x, "": x[:0]}
    target = fk.Density(lambda theta: -sum(jnp.sum(x**2) for x in jax.tree.leaves(theta)))
    call = {"init": init, "steps": 10, "chains": 1, "progress": False}
    right = fk.sample(target, fk.samplers.sgld(0.01), **call)
    fk.sample(target, fk.samplers.sgld(0.01), out=tmp_path, **call)
    jax.tree.map(np.testing.assert_array_equal, fk.open(tmp_path).samples, right.samples)
    assert len(right.named()) == len(init)  # none takes the place of another


def test_readers_of_a_run_that_was_made_longer_and_killed_see_no_invented_draws(tmp_path, right):
    run(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.Store, "close", lambda self: (_ for _ in ()).throw(Kill))
        with pytest.raises(Kill):
            run(tmp_path, steps=128)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that reading takes longer while the shapes are not in one file
        read = xarray.open_datatree(tmp_path / "draws.zarr", engine="zarr")["posterior"]["a"].values
    np.testing.assert_array_equal(read, right.samples["a"][:, : read.shape[1]])


def test_fewer_steps_than_were_taken_are_refused(tmp_path):
    run(tmp_path)
    with pytest.raises(ValueError, match="has 127 steps already, more than the 67 asked for"):
        run(tmp_path, steps=60)


def test_a_folder_that_cannot_be_locked_is_not_said_to_be_in_use(tmp_path, monkeypatch):
    import fcntl

    def fails(file, operation):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fails)
    with pytest.raises(OSError, match=r"cannot be locked"), lock.locked(tmp_path):
        pass


def test_the_model_of_a_command_is_not_reached_by_a_detour(tmp_path, monkeypatch):
    from fokker.cli.stored import read_command, write_command

    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "model.py").write_text(MODEL)
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    for source in (tmp_path / "x" / ".." / "run" / "model.py", tmp_path / "link" / "model.py"):
        (folder / "command.json").write_text(json.dumps({"source": f"{source}:target"}))
        # However the folder itself is called, as in `fokker resume run`.
        for called in (folder, Path("run"), Path("link"), Path("run", "..", "link")):
            with pytest.raises(ValueError, match="would be executed"):
                read_command(called, None)
    # A command whose run is yet to be compared with that in the folder does not replace its command.
    (folder / "command.json").write_text(json.dumps({"source": f"{tmp_path}/model.py:target", "steps": 5}))
    run(folder)
    write_command(folder, {"source": "other.py:target", "steps": 7})
    of_run = {name: CALL[name] for name in ("steps", "burn_in")}
    assert read_command(folder, None) == {"source": f"{tmp_path}/model.py:target", **of_run}


def test_one_changed_number_in_large_data_is_another_data_set():
    from fokker.run.record import fingerprint_of_arrays

    x = np.zeros(2**28 + 2**20, np.uint8)
    before = fingerprint_of_arrays(x)
    x[2**20 + 2**10] = 1
    assert fingerprint_of_arrays(x) != before


def test_another_function_on_the_host_is_another_model(tmp_path):
    def target(centre):
        def on_host(x):
            return np.asarray(-((x - centre) ** 2).sum(), x.dtype)

        @jax.custom_jvp
        def log_density(x):
            return jax.pure_callback(on_host, jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="sequential")

        log_density.defjvp(lambda x, dx: (log_density(*x), jnp.sum(-2 * x[0] * dx[0])))
        return fk.Density(log_density)

    call = {"init": jnp.ones(2), "steps": 4, "chains": 1, "progress": False, "out": tmp_path}
    fk.sample(target(0.0), fk.samplers.sgld(0.1), **call)
    fk.sample(target(0.0), fk.samplers.sgld(0.1), **call)
    with pytest.raises(ValueError, match="the model is another"):
        fk.sample(target(0.5), fk.samplers.sgld(0.1), **call)


def test_scores_of_the_data_are_asked_for_again(tmp_path):
    sampler, scores = fk.samplers.sgld(1e-3), np.arange(1.0, 41.0)
    call = {"init": 0.5, "chains": 1, "progress": False}
    fk.sample(posterior(), sampler, steps=10, batch_size=4, batches=scores, out=tmp_path, **call)
    with pytest.raises(ValueError, match=r"drawn by scores of the data.*give them again"):
        fk.resume(tmp_path, posterior(), sampler, **call)
    with pytest.raises(ValueError, match=r"batches is 'scores .*, and was 'scores "):
        fk.resume(tmp_path, posterior(), sampler, batches=scores[::-1], **call)
    assert fk.resume(tmp_path, posterior(), sampler, batches=scores, steps=12, **call).samples.shape == (
        1,
        12,
    )


def test_a_damaged_checkpoint_never_replaces_the_right_one_before_it(tmp_path, right, small_chunks):
    run(tmp_path)
    (tmp_path / "checkpoint.npz").write_bytes(b"damaged")
    replace = os.replace

    def killed(source, place):
        if place.name == "checkpoint.npz":
            raise Kill
        replace(source, place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "replace", killed)
        with pytest.warns(RuntimeWarning, match="The checkpoint before it is used"), pytest.raises(Kill):
            run(tmp_path)
    assert store.read_checkpoint(tmp_path).draws > 0
    assert_same(run(tmp_path), right)


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_small_run_takes_little_room_and_goes_on_to_a_large_one(tmp_path, monkeypatch):
    call = {"init": jnp.zeros(3), "chains": 1, "progress": False}
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    trace = fk.sample(target, SAMPLER, out=tmp_path, steps=800, **call)
    assert size_of(tmp_path) < 10**5
    for steps in (800, 1200):
        group = xarray.open_zarr(tmp_path / "draws.zarr", group="posterior")
        np.testing.assert_array_equal(next(iter(group.values())), trace.samples)
        assert trace.samples.shape[1] == steps
        trace = fk.sample(target, SAMPLER, out=tmp_path, steps=1200, **call)
    # Beyond a chunk: files of the size of chunks, as those of a run that was long from the start.
    with monkeypatch.context() as patch:
        patch.setattr(store, "_CHUNK", 500 * 3 * 4)
        for name, steps in (("long", (1300,)), ("longer", (100, 1300))):
            for number in steps:
                trace = fk.sample(target, SAMPLER, out=tmp_path / name, steps=number, **call)
            chunks = list((tmp_path / name / "draws.zarr" / "posterior").glob("*/c/0/*/0"))
            assert [path.stat().st_size for path in chunks] == [500 * 3 * 4 + 4] * 3
            group = xarray.open_zarr(tmp_path / name / "draws.zarr", group="posterior")
            np.testing.assert_array_equal(next(iter(group.values())), trace.samples)


def test_no_module_needs_a_lock_that_one_system_alone_has():
    source = Path(fk.__file__).parent
    assert not [path for path in source.rglob("*.py") if "fcntl" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("is_written", [True, False])
def test_a_run_of_when_one_chain_was_the_default_goes_on_with_one(tmp_path, is_written):
    """Without chains= in the call; such runs have chains=1 in their record, the first ones nothing."""
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    call = {"init": jnp.zeros(2), "progress": False}
    sampler = fk.samplers.ula(0.1)
    draws = fk.sample(target, sampler, steps=12, chains=1, **call).samples
    fk.sample(target, sampler, steps=6, chains=1, out=tmp_path, **call)
    if not is_written:
        path = tmp_path / store.CHECKPOINT
        header, arrays = files.read_arrays(path, store.KIND, store.VERSION)
        del header["settings"]["chains"], header["used"]["chains"]
        files.write_arrays(path, header, arrays)
    assert fk.open(tmp_path).samples.shape == (1, 6, 2)
    np.testing.assert_array_equal(
        fk.sample(target, sampler, steps=9, out=tmp_path, **call).samples, draws[:, :9]
    )
    np.testing.assert_array_equal(fk.resume(tmp_path, target, sampler, steps=12, **call).samples, draws)
    with pytest.raises(ValueError, match="chains is 4, and was 1"):
        fk.sample(target, sampler, steps=15, chains=4, out=tmp_path, **call)
