"""Files of a run that are whole, but of another run, of another place or of an earlier time."""

import itertools
import shutil
import warnings
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fokker as fk
from fokker._core import files
from fokker.run import journal, store

TARGET = fk.Density(lambda theta: -jnp.sum(theta["a"] ** 2) / 2 - jnp.sum(theta["b"] ** 2))
CALL = {"init": {"a": jnp.zeros(2), "b": jnp.ones(2)}, "chains": 2, "progress": False, "chunk": 8}
SAMPLER = fk.samplers.sghmc(0.1)
CHUNKED, WHOLE, MOMENTS = "chunks", "one checkpoint", "moments"
KINDS = {CHUNKED: 5 * 2 * 2 * 4, WHOLE: 2**22, MOMENTS: 2**22}


def sample(out, kind, **changes):
    keep = {"keep": "moments"} if kind == MOMENTS else {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_CHUNK", KINDS[kind])
        patch.setattr("fokker.run.recording._COMMIT_SECONDS", 0)
        patch.setattr("fokker.run.recording._COMMIT_TIMES", 0)
        return fk.sample(TARGET, SAMPLER, out=out, **{"steps": 24, **CALL, **keep, **changes})


def numbers(trace):
    return jax.tree.leaves((trace.draws, trace.moments, trace.sample_stats))


@pytest.fixture(scope="module", params=list(KINDS))
def runs(request, tmp_path_factory):
    """A finished run, the same at an earlier time, and another with the same settings but its seed."""
    parent, kind = tmp_path_factory.mktemp("runs"), request.param
    sample(parent / "run", kind, steps=16)
    shutil.copytree(parent / "run", parent / "earlier")
    right = sample(parent / "run", kind)
    sample(parent / "other", kind, seed=1)
    return parent, kind, numbers(right), numbers(fk.open(parent / "earlier"))


def paths_of(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def replaced_files(parent):
    """All pairs of a file of the run and one to put in its place: from elsewhere, or of another place."""
    own = [path for path in paths_of(parent / "run") if path.name not in (".lock", "zarr.json")]
    for place, source in itertools.product(own, ("earlier", "other")):
        if (parent / source / place).is_file():
            yield place, parent / source / place
    for place, other in itertools.permutations(own, 2):
        if place.suffix == other.suffix:
            yield place, parent / "run" / other


def outcome(use, folder, place):
    """What a use of a folder gave, and whether a warning named the file that was replaced."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            values = use()
        except files.DamagedFileError as error:
            return None, str(folder) in str(error)
    return values, any(str(folder / place) in str(warning.message) for warning in caught)


def same(values, right):
    return len(values) == len(right) and all(map(np.array_equal, values, right))


def test_a_file_from_elsewhere_is_refused_by_name_or_changes_nothing(runs, tmp_path):
    parent, kind, right, earlier = runs
    folder = tmp_path / "run"
    shutil.copytree(parent / "run", folder)
    counts = Counter()
    for place, source in replaced_files(parent):
        before = (folder / place).read_bytes()
        shutil.copyfile(source, folder / place)
        values, is_named = outcome(lambda: numbers(fk.open(folder)), folder, place)
        (folder / place).write_bytes(before)
        if values is None:
            assert is_named, (place, source)
            counts["refused"] += 1
        elif same(values, right):
            counts["same"] += 1
        else:  # an earlier state of this run, said to be one
            assert is_named, (place, source)
            if kind == MOMENTS:
                assert same(values, earlier) or source.name == store.PREVIOUS
            else:
                assert all(np.array_equal(x, y[:, : x.shape[1]]) for x, y in zip(values, right, strict=True))
            counts["warned"] += 1
    assert counts["refused"] >= (20 if kind == CHUNKED else 2)


def test_the_checkpoint_of_another_run_is_refused(runs, tmp_path):
    """By the one before it, or by the description for people."""
    parent, *_ = runs
    for missing in ("run.json", "checkpoint.previous.npz"):
        folder = tmp_path / missing
        shutil.copytree(parent / "run", folder)
        shutil.copyfile(parent / "other" / "checkpoint.npz", folder / "checkpoint.npz")
        (folder / missing).unlink()
        with pytest.raises(
            files.DamagedFileError, match=rf"{folder}/checkpoint\.npz and .* are of different runs"
        ):
            fk.open(folder)


def test_an_earlier_state_is_said_to_be_one(runs, tmp_path):
    parent, _, _, earlier = runs
    folder = tmp_path / "run"
    shutil.copytree(parent / "run", folder)
    shutil.copyfile(parent / "earlier" / "checkpoint.npz", folder / "checkpoint.npz")
    with pytest.warns(RuntimeWarning, match=r"checkpoint\.npz is older than .*checkpoint\.previous\.npz"):
        fk.open(folder)
    (folder / "checkpoint.previous.npz").unlink()
    with pytest.warns(RuntimeWarning, match=r"checkpoint\.npz is older than .*run\.json"):
        assert same(numbers(fk.open(folder)), earlier)


def test_a_run_does_not_go_on_with_a_file_from_elsewhere(runs, tmp_path):
    """Before anything is computed."""
    parent, kind, right, _ = runs
    folder, chunks = tmp_path / "run", "draws.zarr/posterior/a/c/0"
    of_chunks = (
        (f"{chunks}/0/0", f"other/{chunks}/0/0"),
        (f"{chunks}/2/0", f"other/{chunks}/2/0"),
        (f"{chunks}/0/0", f"run/{chunks}/1/0"),
        (f"{chunks}/1/0", "run/draws.zarr/posterior/b/c/0/1/0"),
        (f"{chunks}/3/0", f"earlier/{chunks}/3/0"),
    )
    of_checkpoints = (
        ("checkpoint.npz", "other/checkpoint.npz"),
        ("checkpoint.previous.npz", "other/checkpoint.previous.npz"),
    )
    for place, source in (*(of_chunks if kind == CHUNKED else ()), *of_checkpoints):
        shutil.copytree(parent / "run", folder)
        shutil.copyfile(parent / source, folder / place)
        before = (folder / "run.json").read_bytes()
        with pytest.raises(ValueError, match=f"{folder}/{place}"):
            sample(folder, kind, steps=32)
        assert (folder / "run.json").read_bytes() == before
        shutil.rmtree(folder)
    shutil.copytree(parent / "run", folder)
    assert same(numbers(sample(folder, kind)), right)  # as it was written


def test_runs_of_before_digests_were_written_down_are_read_and_go_on(runs, tmp_path):
    parent, kind, right, earlier = runs
    folder = tmp_path / "run"
    shutil.copytree(parent / "earlier", folder)
    for name in (store.CHECKPOINT, store.PREVIOUS):
        if (folder / name).exists():
            header, arrays = files.read_arrays(folder / name, store.KIND, store.VERSION)
            header = {name: value for name, value in header.items() if name not in ("id", "serial")}
            arrays = {name: x for name, x in arrays.items() if not name.startswith("chunks/")}
            files.write_arrays(folder / name, header, arrays)
    assert same(numbers(fk.open(folder)), earlier)
    assert same(numbers(sample(folder, kind)), right)
    written = store.read_checkpoint(folder)
    assert "id" in written.description
    assert len(written.group("chunks")) == len(written.group("tail"))


def test_a_part_of_a_warm_up_in_another_place_is_computed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "_SECONDS", -1.0)
    environment = dict.fromkeys(("jax", "jaxlib", "device", "precision", "fokker"), "")
    description = {"settings": {}, "environment": environment, "fingerprints": {"sampler": ""}}
    with journal.Journal(tmp_path, description) as written:
        for number in range(3):
            written.stage(np.zeros(1), lambda value=number: (np.full(1, float(value)), {}))
    parts = sorted((tmp_path / journal.JOURNAL).iterdir())
    assert len(journal.Journal(tmp_path, description).known) == 3
    shutil.copyfile(parts[2], parts[1])
    known = journal.Journal(tmp_path, description).known
    assert [float(stage["tree.0"][0]) for stage in known] == [0.0]
