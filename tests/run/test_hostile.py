"""Folders of strangers: nothing outside is written, no error is raw, memory is taken for real bytes only."""

import io
import json
import os
import shutil
import tracemalloc
import warnings
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker._core import files, lock
from fokker.cli import execution, stored
from fokker.models import estimator
from fokker.models.topics.files import KIND, VERSION
from fokker.models.topics.mixtures_file import MixturesFile
from fokker.models.topics.model import TopicModel
from fokker.models.topics.starting import resume_run
from fokker.run import journal, store
from fokker.samplers import mass_matrix

TARGET = fk.Density(lambda theta: -jnp.sum(theta["a"] ** 2) / 2 - theta["b"] ** 2)
CALL = {"init": {"a": jnp.zeros(2), "b": jnp.ones(())}, "steps": 24, "chains": 2, "progress": False}
SAMPLER = fk.samplers.sghmc(0.1)
DRAWS = "draws.zarr"
A = f"{DRAWS}/posterior/a"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run with chunks of draws."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_CHUNK", 7 * 2 * 2 * 4)
        fk.sample(TARGET, SAMPLER, out=folder, **CALL)
    stored.write_command(folder, {"source": "model.py:target"})  # compared only: there is a run
    (folder / "command.json").write_text(json.dumps({"source": "model.py:target", "steps": 24}))
    return folder


@pytest.fixture
def hostile(runs, tmp_path):
    """A copy of the run, and a folder outside it with files that must stay as they are."""
    folder, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(runs, folder)
    (outside / "posterior").mkdir(parents=True)
    for name in ("thesis.tex", "posterior/zarr.json", "zarr.json", "authorized_keys"):
        (outside / name).write_text(f"precious {name}")
    return folder, outside


def snapshot(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def link(name, goal):
    """Put a link to a file or folder outside in the place of a file or folder of the run."""

    def put(folder, outside):
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(outside / goal)

    return put


def moved(name):
    """A link to the file or folder itself, which is whole, but outside."""

    def put(folder, outside):
        (folder / name).rename(outside / "moved")
        (folder / name).symlink_to(outside / "moved")

    return put


def without_a_run(put):
    """The same in a folder whose run is yet to start."""

    def put_and_remove(folder, outside):
        put(folder, outside)
        for name in (store.CHECKPOINT, store.PREVIOUS):
            (folder / name).unlink()

    return put_and_remove


def rewritten(header=lambda h: None, arrays=lambda a: None):
    """A checkpoint with a right checksum, and with something else in it; none before it."""

    def put(folder, outside):
        path = folder / store.CHECKPOINT
        stored_header, stored_arrays = files.read_arrays(path, store.KIND, store.VERSION)
        header(stored_header)
        arrays(stored_arrays)
        files.write_arrays(path, stored_header, stored_arrays)
        (folder / store.PREVIOUS).unlink(missing_ok=True)

    return put


def described(name, value, within=None):
    def change(header):
        (header if within is None else header[within])[name] = value

    return rewritten(change)


def renamed(old, new):
    def change(arrays):
        arrays[new] = arrays.pop(old)

    def describe(header):
        for leaf in header["theta"]:
            leaf["name"] = new.rpartition("tail/posterior/")[2] if leaf["name"] == "b" else leaf["name"]

    return rewritten(describe, change)


def without_chunks(header):
    """All draws are in the checkpoint, so that no file is missing."""
    header["draws"] %= header["chunk"]


def named_outside(arrays):
    for name in [name for name in arrays if name.startswith("chunks/")]:
        del arrays[name]
    arrays["tail/sample_stats/../../../outside"] = arrays.pop("tail/sample_stats/kinetic_temperature")


def with_checksum(contents):
    """An archive as `write_arrays` writes it."""
    return contents[:-2] + files._COMMENT + files._digest(contents)


def archive(members, compression=zipfile.ZIP_STORED):
    def put(folder, outside):
        file = io.BytesIO()
        header = {"kind": store.KIND, "version": store.VERSION, "types": {}}
        with zipfile.ZipFile(file, "w", compression) as zipped:
            part = io.BytesIO()
            np.save(part, np.frombuffer(json.dumps(header).encode(), np.uint8))
            for name, contents in {"header": part.getvalue(), **members}.items():
                zipped.writestr(f"{name}.npy", contents)
        (folder / store.CHECKPOINT).write_bytes(with_checksum(file.getvalue()))
        (folder / store.PREVIOUS).unlink(missing_ok=True)

    return put


def npy(header, contents=b""):
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + contents


def text(name, contents):
    return lambda folder, outside: (folder / name).write_text(contents)


DEEP = "[" * 200_000
LINKS = {
    "report": link("draws.html", "thesis.tex"),
    "report of the command": link("report.html", "thesis.tex"),
    "verdict": link("verdict.json", "thesis.tex"),
    "lock": link(".lock", "authorized_keys"),
    "owner of the lock": link(".lock.owner", "authorized_keys"),
    "new lock": link(".lock", "new-file"),
    "part of a checkpoint": link(".checkpoint.npz.part", "thesis.tex"),
    "part of a description": link(".run.json.part", "new-file"),
    "part of a report": link(".draws.html.part", "thesis.tex"),
    "part of a group": link(f"{DRAWS}/.zarr.json.part", "zarr.json"),
    "checkpoint before the last": link(store.PREVIOUS, "thesis.tex"),
    "description": link(store.DESCRIPTION, "thesis.tex"),
    "all draws": link(DRAWS, ""),
    "a group": link(f"{DRAWS}/posterior", "posterior"),
    "a variable": link(A, "posterior"),
    "chunks": link(f"{A}/c/0", ""),
    "a chunk": link(f"{A}/c/0/0/0", "thesis.tex"),
    "the last chunk": link(f"{A}/c/0/3/0", "thesis.tex"),
    "metadata": link(f"{A}/zarr.json", "zarr.json"),
    **{f"{name}, whole but outside": moved(name) for name in (DRAWS, f"{DRAWS}/posterior", A, f"{A}/c")},
    "a chunk, whole but outside": moved(f"{A}/c/0/0/0"),
    "all draws of a new run": without_a_run(link(DRAWS, "")),
    "a variable of a new run": without_a_run(link(A, "posterior")),
    "warm-up": link(journal.JOURNAL, ""),
    "a run that was put aside": link("replaced", ""),
}
CRAFTED = {
    "a name that leads outside": renamed("tail/posterior/b", "tail/posterior/../../../outside/posterior"),
    "a name that is a path": renamed("tail/posterior/b", "tail/posterior//etc/passwd"),
    "a group that leads outside": renamed("tail/posterior/b", "tail/../b"),
    "a statistic that leads outside": rewritten(without_chunks, named_outside),
    "no settings": rewritten(lambda header: header.pop("settings")),
    "settings that are a list": described("settings", []),
    "steps that are a text": described("steps", "many", "settings"),
    "negative draws": described("draws", -1),
    "more draws than any": described("draws", 10**15),
    "no chunks": described("chunk", 0),
    "one chunk of everything": described("chunk", 10**15),
    "chains that are not there": described("chains", 2**40, "used"),
    "theta that is a number": described("theta", 5),
    "theta without names": described("theta", [{}]),
    "losses of no chain": described("losses", {"x": [1, 2]}),
    "notes that are numbers": described("notes", [1]),
    "the environment is empty": described("environment", None),
    "no fingerprints": described("fingerprints", 3),
    "a stop that is a list": described("stopped", []),
    "what was learned is a text": described("learnt", "everything"),
    "no draws of a variable": rewritten(arrays=lambda arrays: arrays.pop("tail/posterior/a")),
    "draws of another shape": rewritten(arrays=lambda a: a.update({"tail/posterior/a": np.zeros(3)})),
    "draws that are texts": rewritten(
        arrays=lambda a: a.update({"tail/posterior/a": np.full(a["tail/posterior/a"].shape, "x")})
    ),
    "moments of nothing": rewritten(arrays=lambda a: a.update({"moments/count": np.zeros(2)})),
    "no state": rewritten(arrays=lambda a: [a.pop(n) for n in list(a) if n.startswith("state/")]),
    "a header of JSON without end": archive(
        {"header": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (9,), }", b"[" * 9)}
    ),
    "an array larger than its file": archive(
        {"x": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (400000000,), }", b"12345678")}
    ),
    "an array of a strange type": archive(
        {"x": npy("{'descr': '|V0', 'fortran_order': False, 'shape': (9,), }")}
    ),
    "a header that is no dictionary": archive({"x": npy("[[[[")}),
    "parts that are no arrays": archive({"x": b"nothing"}),
    "a small file with much in it": archive(
        {"x": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (10000000,), }", bytes(10**7))},
        zipfile.ZIP_DEFLATED,
    ),
}
# What is repaired, or said to be unknown, where it cannot be read.
REPAIRED = {
    "metadata without end": text(f"{A}/zarr.json", DEEP),
    "metadata of other types": text(f"{A}/zarr.json", '{"zarr_format": 3, "node_type": "array", "shape": 5}'),
    "metadata that is a list": text(f"{A}/zarr.json", "[]"),
    "a group that is a list": text(f"{DRAWS}/posterior/zarr.json", DEEP),
    "a command without end": text("command.json", DEEP),
    "a command of other types": text("command.json", '{"source": 5, "data": 3, "settings": []}'),
    "a verdict of other types": text("verdict.json", '{"grade": [], "findings": 5}'),
    "a description without end": text("run.json", DEEP),
}  # fmt: skip


def used(folder):
    """Open, report and go on with a run, as a user would; the errors of each."""
    errors = []

    def replace():
        with execution.replacing_run(folder):
            raise KeyboardInterrupt

    uses = (
        lambda: fk.open(folder).samples,
        lambda: fk.open(folder).sample_stats,
        lambda: execution.doubts_about(folder),
        lambda: stored.read_command(folder, "model.py:target"),
        lambda: files.write_text(folder / "draws.html", "a report"),
        lambda: fk.sample(TARGET, SAMPLER, out=folder, **{**CALL, "steps": 40}),
        replace,
    )
    for use in uses:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                use()
        except KeyboardInterrupt:
            pass
        except Exception as error:
            errors.append(error)
    return errors


@pytest.mark.parametrize("name", [*LINKS, *CRAFTED, *REPAIRED])
def test_a_stranger_s_folder_changes_nothing_outside_and_is_refused_by_name(hostile, name):
    folder, outside = hostile
    {**LINKS, **CRAFTED, **REPAIRED}[name](folder, outside)
    before = snapshot(outside)
    errors = used(folder)
    assert snapshot(outside) == before
    if name in CRAFTED:
        assert errors
    for error in errors:
        assert isinstance(error, ValueError | OSError), repr(error)
        assert str(folder) in str(error), repr(error)


def test_a_folder_as_it_was_written_is_not_refused(hostile):
    """The negative control of the test above; the folder itself may be reached by a link."""
    folder, _ = hostile
    (folder.parent / "link").symlink_to(folder)
    assert used(folder.parent / "link") == []


def test_a_pipe_in_the_place_of_a_checkpoint_is_not_read(hostile):
    folder, _ = hostile
    (folder / store.PREVIOUS).unlink()
    os.mkfifo(folder / store.PREVIOUS)
    assert files._header_of(folder / store.PREVIOUS) == {}
    assert fk.open(folder).samples["a"].shape == (2, 24, 2)


@pytest.mark.parametrize("name", [DRAWS, f"{DRAWS}/posterior", A])
def test_draws_are_not_read_through_a_link(hostile, name):
    moved(name)(*hostile)
    with pytest.raises(files.DamagedFileError, match=r"is a link to .*nothing is written or read through it"):
        fk.open(hostile[0]).samples  # noqa: B018


def test_a_length_that_draws_cannot_have_takes_no_time(hostile):
    folder, _ = hostile
    path = folder / A / "zarr.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps({**described, "shape": [2, 10**12, 2]}))
    (folder / A / "c" / "0" / "99").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_CHUNK", 7 * 2 * 2 * 4)
        opened = store.Store(folder, store.read_checkpoint(folder))
    assert json.loads(path.read_text())["shape"] == [2, 21, 2]
    assert not (folder / A / "c" / "0" / "99").exists()
    assert opened.draws == 24
    assert fk.open(folder).samples["a"].shape == (2, 24, 2)


OWN_ZARR = {"attributes": {}, "zarr_format": 3, "node_type": "group"}
OF_A_USER = {
    "run.json": text("run.json", '{"mine": 1}'),
    "run.json that is none": text("run.json", "hello"),
    "run.json/": lambda folder, outside: (folder / "run.json").mkdir(),
    "checkpoint.npz/": lambda folder, outside: (folder / "checkpoint.npz").mkdir(),
    "checkpoint.previous.npz": lambda folder, outside: os.mkfifo(folder / "checkpoint.previous.npz"),
    ".checkpoint.npz.part/": lambda folder, outside: (folder / ".checkpoint.npz.part").mkdir(),
    ".run.json.part/": lambda folder, outside: (folder / ".run.json.part").mkdir(),
    "draws.zarr": text(DRAWS, "x"),
    "draws.zarr/": lambda folder, outside: (folder / DRAWS / "posterior").mkdir(parents=True),
    "draws.zarr/zarr.json": lambda folder, outside: (
        (folder / DRAWS).mkdir(),
        (folder / DRAWS / "zarr.json").write_text(json.dumps(OWN_ZARR)),
    ),
}


@pytest.mark.parametrize("name", OF_A_USER)
def test_what_is_not_of_a_run_is_not_replaced(tmp_path, name):
    folder = tmp_path / "run"
    folder.mkdir()
    OF_A_USER[name](folder, tmp_path)
    before = set(snapshot(folder))
    path = folder / name.split()[0].split("/")[0]
    with pytest.raises(ValueError, match=f"{path} .*a run would be written there: move or remove it"):
        fk.sample(TARGET, SAMPLER, out=folder, **CALL)
    assert {path for path in snapshot(folder) if not path.name.startswith(".lock")} == before


def test_what_is_left_of_a_run_without_a_checkpoint_is_replaced(hostile):
    folder, _ = hostile
    for name in (store.CHECKPOINT, store.PREVIOUS):
        (folder / name).unlink()
    store.check_place(folder)
    (folder / store.DESCRIPTION).unlink()
    store.check_place(folder)
    (folder / DRAWS / "zarr.json").write_text("{}")
    with pytest.raises(ValueError, match="has files in it that are not draws of a run"):
        store.check_place(folder)


def test_where_the_last_checkpoint_cannot_be_the_one_before_it_is_used(hostile):
    folder, outside = hostile
    before = (folder / store.PREVIOUS).read_bytes()
    CRAFTED["negative draws"](folder, outside)
    (folder / store.PREVIOUS).write_bytes(before)
    with pytest.warns(
        RuntimeWarning, match=r"checkpoint\.npz is not a run .*The checkpoint before it is used"
    ):
        assert fk.open(folder).has_results


def test_a_small_file_takes_little_memory(hostile):
    folder, outside = hostile
    CRAFTED["a small file with much in it"](folder, outside)
    size = (folder / store.CHECKPOINT).stat().st_size
    tracemalloc.start()
    try:
        with pytest.raises(files.DamagedFileError, match=r"checkpoint\.npz .*compressed, or larger"):
            fk.open(folder)
        assert tracemalloc.get_traced_memory()[1] < 20 * size
    finally:
        tracemalloc.stop()


def test_reports_tables_and_mixtures_are_not_written_through_a_link(hostile, runs):
    folder, outside = hostile
    before = snapshot(outside)
    for name in ("draws.html", "words.txt"):
        (folder / name).symlink_to(outside / "thesis.tex")
    trace = fk.open(runs)
    trace.report(folder / "draws.html", summary=trace.summary(gradients=False))
    assert "<html" in (folder / "draws.html").read_text(encoding="utf-8")
    fk.corpora.Vocabulary(["word"]).save(folder / "words.txt")
    (folder / "mixtures").symlink_to(outside / "thesis.tex")
    for size in (0, 5):
        with pytest.raises(files.DamagedFileError, match=f"{folder}/mixtures is a link to"):
            MixturesFile(folder / "mixtures", ["a"], size)
    assert snapshot(outside) == before


def test_a_lock_that_is_another_name_of_a_file_is_refused(hostile):
    folder, outside = hostile
    LINKS["lock"](folder, outside)
    with pytest.raises(files.DamagedFileError, match=f"{folder}/.lock is a link"), lock.locked(folder):
        pass
    (folder / ".lock").unlink()
    os.link(outside / "authorized_keys", folder / ".lock")
    with pytest.raises(files.DamagedFileError, match=f"{folder}/.lock is another name"), lock.locked(folder):
        pass


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({}, {}),
        ({"words": ["a"], "pattern": None, "settings": {"topics": 2}}, {}),
        ({"words": 5, "pattern": None, "settings": []}, {"beta": np.zeros((1, 1, 2)), "gamma": np.zeros(2)}),
        (
            {"words": ["a"], "pattern": None, "settings": {"topics": 10**9}},
            {"beta": np.zeros((1, 1, 2)), "gamma": np.zeros(2)},
        ),
    ],
)
def test_a_model_of_topics_that_is_none_is_refused_by_name(tmp_path, header, arrays):
    path = tmp_path / "model.npz"
    files.write_arrays(path, {**header, "kind": "model", "version": 1}, arrays)
    with pytest.raises(files.DamagedFileError, match=f"{path} is not a model of fokker"):
        TopicModel.load(path)


@pytest.mark.parametrize("stages", [-1, 10**12, "x", None])
def test_a_part_of_a_warm_up_that_cannot_be_is_computed_again(tmp_path, stages):
    description = {"settings": {}, "environment": {}, "fingerprints": {"sampler": ""}}
    header = {**description, "stages": stages, "kind": journal._KIND, "version": journal._VERSION}
    path = tmp_path / journal.JOURNAL / "000000.npz"
    path.parent.mkdir()
    files.write_arrays(path, header, {"0/tree.0": np.zeros(2)})
    environment = dict.fromkeys(("jax", "jaxlib", "device", "precision", "fokker"))
    opened = journal.Journal(tmp_path, {**description, "environment": environment})
    assert opened.known == []


def test_a_warm_up_is_not_written_into_a_folder_elsewhere(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / journal.JOURNAL).symlink_to(tmp_path / "outside")
    with pytest.raises(files.DamagedFileError, match="warm-up is a link to"):
        journal.Journal(tmp_path / "run")


def test_predictions_are_written_as_a_whole(tmp_path):
    """A function that fails half-way leaves the file from before, and a link is not followed."""
    from fokker.cli import predictions

    (tmp_path / "thesis.tex").write_text("precious")
    path = tmp_path / "predictions.csv"
    path.symlink_to(tmp_path / "thesis.tex")
    predictor = predictions.RowPredictor(
        lambda draw, rows: rows[0]["x"] + draw[0], {"x": np.ones(4)}, False, "x"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictions, "_statistics", lambda values, quantiles: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            predictions.write_predictions(path, predictor, np.zeros((1, 2)), (0.5,))
    assert path.is_symlink()
    predictions.write_predictions(path, predictor, np.zeros((1, 2)), (0.5,))
    assert len(path.read_text().splitlines()) == 5
    assert (tmp_path / "thesis.tex").read_text() == "precious"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["predictions.csv", "thesis.tex"]


LDA_HEADER = {
    "reading": {"corpus": "corpus.txt", "pattern": None},
    "settings": {"topics": 2},
    "words": ["a", "b"],
    "held_out_names": [],
    **dict.fromkeys(("position", "trained", "tokens", "next_place", "seconds"), 0),
    **dict.fromkeys(("passes", "length", "mixtures_size", "exact_from"), 1),
}


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": None},
        {"settings": {"topics": 10**12}},
        {"settings": {"topics": "two"}},
        {"settings": {"topics": 2, "nothing": 1}},
        {"words": 3},
        {"words": [1]},
        {"reading": {"pattern": None, "corpus": "x", "other": 1}},
        {"position": "x"},
        {"mixtures_size": 1.5},
        {"held_out_names": None},
    ],
)
def test_a_checkpoint_of_topics_that_is_none_is_refused_by_name(tmp_path, changes):
    path = tmp_path / "checkpoint.npz"
    header = {**LDA_HEADER, **changes, "kind": KIND, "version": VERSION}
    files.write_arrays(path, header, {"chain.theta": np.zeros((2, 2))})
    with pytest.raises(files.DamagedFileError, match=f"{path} is not a {KIND} of fokker"):
        resume_run(tmp_path, {})


@pytest.mark.parametrize("header", [{}, {"parameters": 5}, {"parameters": {"n_components": 2}, "fitted": {}}])
def test_an_estimator_of_topics_that_is_none_is_refused_by_name(tmp_path, header):
    path = tmp_path / "estimator.npz"
    files.write_arrays(path, {**header, "kind": fk.models.LDA._kind, "version": estimator._VERSION}, {})
    with pytest.raises(files.DamagedFileError, match=f"{path} is not a"):
        fk.models.LDA.load(path)


@pytest.mark.parametrize(
    "matrix",
    [
        mass_matrix.Diagonal(np.ones(2)),
        mass_matrix.Diagonal(np.ones(())),
        mass_matrix.Dense(np.ones((3, 2))),
        mass_matrix.Dense(np.ones(3)),
        mass_matrix.LowRank(np.ones(3), np.ones((3, 2)), np.ones(5)),
        mass_matrix.LowRank(np.ones(3), np.ones((2, 3)), np.ones(3)),
    ],
)
def test_a_mass_matrix_of_another_shape_is_none(matrix):
    with pytest.raises(ValueError, match="for the 3 numbers of theta"):
        mass_matrix.check_shapes(matrix, 3)
    for kind in ("diagonal", "dense", "low-rank"):
        mass_matrix.check_shapes(mass_matrix.identity(kind, 3, np.float32), 3)


@pytest.mark.slow
def test_a_run_with_a_mass_matrix_of_another_shape_is_refused_by_name(tmp_path):
    target = fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
    sampler = fk.samplers.hmc(num_integration_steps=1)
    options = {"init": jnp.zeros(3), "warm_up": 40, "chains": 1, "progress": False, "out": tmp_path}
    fk.sample(target, sampler, steps=2, **options)
    for name, message in (
        ("mass_matrix", "mass matrix .* 3 numbers"),
        ("step_size", "step_size has the shape"),
    ):
        path = tmp_path / store.CHECKPOINT
        before = path.read_bytes()
        crafted = {f"learnt/{name}.0": np.ones(2, np.float32)}
        rewritten(arrays=lambda arrays, crafted=crafted: arrays.update(crafted))(tmp_path, tmp_path)
        with pytest.raises(files.DamagedFileError, match=rf"checkpoint\.npz is not .*{message}"):
            fk.sample(target, sampler, steps=8, **options)
        path.write_bytes(before)
