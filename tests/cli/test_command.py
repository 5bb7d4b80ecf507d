"""Tables from files, and the commands that take them: `fokker sample --data` and `fokker predict`."""

import collections
import contextlib
import gzip
import json
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import fokker as fk
from fokker._core.lock import Holder, holder_of, is_held
from fokker.cli import app, call, execution, stored
from fokker.cli.flags import CommandError
from fokker.cli.help import joined
from fokker.cli.settings import parse_settings, read_config
from fokker.rows import is_source, leaves, opened
from fokker.rows.table import ColumnError, read_table

pytestmark = pytest.mark.dependencies

WRITE_REPORT = execution.write_report_of
MODEL = """
import jax, jax.numpy as jnp
import fokker as fk

def log_prior(theta, prior_scale=10.0):
    return -(theta["a"] ** 2 + jnp.sum(theta["b"] ** 2)) / (2 * prior_scale**2)

def log_likelihood(theta, datum):
    return -((datum["y"] - theta["a"] * datum["x"] - theta["b"][datum["city"]]) ** 2) / 2

init = {"a": 0.0, "b": jnp.zeros(3)}

def predict(theta, datum):
    mean = theta["a"] * datum["x"] + theta["b"][datum["city"]]
    return {"mean": mean, "both": jnp.stack([mean, -mean])}
"""
CITIES = ("Oslo", "Paris", "Rome")


@pytest.fixture
def fokker(fokker, monkeypatch, tmp_path):
    command = fokker
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    rng = np.random.default_rng(0)
    x, city = rng.normal(size=60), rng.integers(3, size=60)
    y = 1.5 * x + np.array([-1.0, 0.0, 1.0])[city] + rng.normal(size=60)
    table = pandas.DataFrame({"x": x, "name": "unused", "city": np.array(CITIES)[city], "y": y})
    table.to_csv("table.csv", index=False)

    def run(*arguments, report=False):
        # A summary takes longer than all the rest.
        write = WRITE_REPORT if report else lambda *given: True
        monkeypatch.setattr("fokker.cli.execution.write_report_of", write)
        code, printed, errors = command(*arguments)
        return code, printed, " ".join(errors.split())

    return run


def test_the_folder_is_held_until_the_report_is_written(tmp_path, monkeypatch):
    """Those who watch the folder see what the command does: a long summary takes minutes."""
    seen = []

    def write(*given):
        seen.append((holder_of(tmp_path), is_held(tmp_path)))
        return True

    monkeypatch.setattr(execution, "write_report_of", write)
    trace = SimpleNamespace(was_interrupted=False, has_results=True)
    assert execution.run_and_report(tmp_path, lambda: trace, "title", ()) == 0
    assert seen == [(Holder.here()._replace(phase="writing the report"), True)]
    assert holder_of(tmp_path) is None


RUN = ["--categories", "city", "--sampler", "sgld", "--step-size", "0.01", "--chains", "2", "--steps", "400"]


@pytest.mark.slow
def test_a_run_by_columns_goes_on_and_predicts(fokker, tmp_path):
    code, out, err = fokker(
        "sample", "model.py", "--data", "table.csv", *RUN, "--quantiles", "0.1,0.9", report=True
    )
    assert code in (0, 1), err
    for text in ("10 %", "90 %", "step size: 0.01", "model.py by sgld", "b[Paris]"):
        assert text in out + (tmp_path / "fokker-sample" / "report.html").read_text(encoding="utf-8")
    trace = fk.open("fokker-sample")
    assert trace.flat().names == ["a", *(f"b[{city}]" for city in CITIES)]
    # Against least squares with the sums of squares of the prior; 0.15 is six standard errors of the mean.
    table = pandas.read_csv("table.csv")
    codes = table["city"].map(CITIES.index).to_numpy()
    design = np.c_[table["x"], np.eye(3)[codes]]
    exact = np.linalg.solve(design.T @ design + np.eye(4) / 100, design.T @ table["y"])
    draws = np.concatenate([trace.samples["a"][..., None], trace.samples["b"]], axis=2)[:, 100:]
    assert np.abs(draws.mean(axis=(0, 1)) - exact).max() < 0.15

    # It goes on with the data of the run alone; the model is that with these settings.
    written = json.loads((tmp_path / "fokker-sample" / "command.json").read_text())
    assert written["categories"] == {"city": list(CITIES)}
    assert written["data"] == [str(tmp_path / "table.csv")]
    os.rename("table.csv", "moved.csv")
    code, _, err = fokker("resume", "fokker-sample", "--steps", 500)
    assert (code, f"were in {tmp_path / 'table.csv'}" in err) == (2, True)
    changed = table.assign(y=table["y"] + np.eye(60)[7])
    changed.to_csv("changed.csv", index=False)
    code, _, err = fokker("resume", "fokker-sample", "--steps", 500, "--data", "changed.csv")
    assert (code, "the data is another" in err) == (2, True)
    again = ["sample", "model.py", "--data", "moved.csv", *RUN, "--set", "prior_scale=2"]
    code, _, err = fokker(*again)
    assert (code, "prior_scale of the model is 2, and was not set" in err) == (2, True)
    assert fokker("resume", "fokker-sample", "--steps", 500, "--data", "moved.csv")[0] == 0
    longer = fk.open("fokker-sample").samples
    assert longer["b"].shape == (2, 500, 3)
    np.testing.assert_array_equal(longer["a"][:, :400], trace.samples["a"])

    # New rows in any order of columns; categories have the codes of the run.
    new = pandas.DataFrame({"city": ["Rome", "Oslo", "Rome"], "x": [0.5, -1.0, 2.0]})
    new.to_csv("new.csv", index=False)
    code, out, err = fokker("predict", "fokker-sample", "--data", "new.csv", "--draws", 10**6)
    assert code == 0, err
    assert "this run has continued since its last report, when the verdict on this run is" in err
    written = pandas.read_csv("predictions.csv")
    kinds = ("mean", "sd", "q0.05", "q0.5", "q0.95")
    names = [f"{name}_{kind}" for name in ("both[0]", "both[1]", "mean") for kind in kinds]
    assert list(written) == ["row", *names]
    theta = {name: x.reshape(1000, *x.shape[2:]) for name, x in longer.items()}
    values = theta["a"][:, None] * new["x"].to_numpy(np.float32) + theta["b"][:, [2, 0, 2]]
    np.testing.assert_allclose(written["mean_mean"], values.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(written["mean_sd"], values.std(axis=0, ddof=1), rtol=1e-4)
    np.testing.assert_allclose(written["both[1]_q0.05"], -np.quantile(values, 0.95, axis=0), rtol=1e-4)
    pandas.DataFrame({"city": ["Oslo", "Bern"], "x": [0.5, -1.0]}).to_csv("new.csv", index=False)
    code, _, err = fokker("predict", "fokker-sample", "--data", "new.csv")
    assert (code, "predictions.csv exists already: give another name, or --overwrite" in err) == (2, True)
    code, _, err = fokker("predict", "fokker-sample", "--data", "new.csv", "--overwrite")
    assert (code, "has 'Bern' in line 3 of new.csv" in err) == (2, True)
    pandas.DataFrame({"city": ["Oslo"], "z": [0.5]}).to_csv("new.csv", index=False)
    code, _, err = fokker("predict", "fokker-sample", "--data", "new.csv", "--out", "new/predictions.csv")
    assert (code, "no column 'x', which those of the run have. The columns are city, z" in err) == (2, True)


@pytest.mark.slow
def test_a_run_in_double_precision_goes_on_in_it_without_the_option(fokker, monkeypatch):
    command = ["sample", "model.py", "--data", "table.csv", *RUN[:-1]]
    assert fokker(*command, 20, "--double")[0] == 0
    code, _, err = fokker(*command, 40)
    assert code == 0, err
    draws = fk.open("fokker-sample").samples["a"]
    assert (draws.shape, draws.dtype) == ((2, 40), np.float64)
    # A dry run is of the same; a run that replaces it would be of its own command.
    monkeypatch.setattr(call, "estimate", lambda *given: [f"in {given[2]['precision']} {jnp.ones(1).dtype}"])
    assert "in double float64" in fokker(*command, 40, "--dry-run")[1]
    assert "in None float32" in fokker(*command, 40, "--dry-run", "--overwrite")[1]


def test_a_run_is_replaced_by_one_that_can_begin_and_by_no_other(tmp_path):
    for name, text in {"checkpoint.npz": "old", "command.json": "{}", "mine.txt": "mine"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "draws.zarr").mkdir()
    before = sorted(tmp_path.iterdir())

    def replace(file, error):
        with execution.replacing_run(tmp_path):
            assert not (tmp_path / "checkpoint.npz").exists()
            assert not (tmp_path / "draws.zarr").exists()
            (tmp_path / "mine.txt").write_text("mine")
            (tmp_path / file).write_text("new")
            if error is not None:
                raise error

    for error in (ValueError("a typing error"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            replace("command.json", error)
        assert [path for path in sorted(tmp_path.iterdir()) if "lock" not in path.name] == before
        assert (tmp_path / "command.json").read_text() == "{}"
    # A new run that has begun stays, also where it fails later, and so does one that ends.
    for error in (ValueError("later"), None):
        with pytest.raises(ValueError, match="later") if error else contextlib.nullcontext():
            replace("checkpoint.npz", error)
        assert (tmp_path / "checkpoint.npz").read_text() == "new"
        assert not (tmp_path / "replaced").exists()


def test_the_verdict_on_a_run_is_repeated_with_what_is_made_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(
        execution, "read_checkpoint", lambda folder: collections.namedtuple("C", "description")({"taken": 9})
    )
    assert "has no verdict yet" in execution.doubts_about(tmp_path)
    verdict = {"grade": "Do not use", "is_trusted": False, "findings": ["a", "b", "c"], "taken": 9}
    for change, words in (
        ({}, "the verdict on this run is “Do not use”: a; b (all in"),
        (
            {"taken": 8},
            "has continued since its last report, when the verdict on this run is “Do not use”: a; b",
        ),
        ({"is_trusted": True, "findings": []}, None),
    ):
        (tmp_path / "verdict.json").write_text(json.dumps({**verdict, **change}))
        doubts = execution.doubts_about(tmp_path)
        assert (doubts is None) if words is None else (words in doubts)


def test_chains_start_at_the_mode_of_the_run(fokker, tmp_path, monkeypatch):
    from fokker.cli.call import SampleCall

    options = {
        "source": "model.py",
        "data": ["table.csv"],
        "columns": None,
        "categories": {"city": None},
        "init": "init",
        "sampler": "sgld",
        "step_size": 0.01,
        "batch_size": 9,
        "seed": 0,
        "start": "mode",
        "gradient": "control-variates",
    }
    call = SampleCall(options, tmp_path)
    # Least squares with the sums of squares of the prior.
    table = pandas.read_csv("table.csv")
    design = np.c_[table["x"], np.eye(3)[table["city"].map(CITIES.index)]]
    exact = np.linalg.solve(design.T @ design + np.eye(4) / 100, design.T @ table["y"])
    mode = call.options["init"]
    np.testing.assert_allclose(np.r_[mode["a"], mode["b"]], exact, atol=1e-3)
    center = call.options["gradient"].center
    assert all(np.array_equal(mode[name], center[name]) for name in mode)
    assert not {"start", "mode"} & set(call.options)
    # A run that goes on has the numbers that it began with.
    (tmp_path / "command.json").write_text(json.dumps({"source": "model.py", "mode": call.mode}))
    (tmp_path / "checkpoint.npz").write_text("")
    monkeypatch.setattr("fokker.targets.find_mode", lambda *given: pytest.fail("searched again"))
    again = SampleCall({**options, "gradient": "minibatch"}, tmp_path).options
    assert all(np.array_equal(again["init"][name], mode[name]) for name in mode)
    assert again["gradient"] is None


@pytest.mark.slow
@pytest.mark.parametrize(("dimension", "steps"), [(2, 2000), (2000, 400)])
def test_a_dry_run_says_what_the_run_will_take_on_disk(fokker, tmp_path, dimension, steps):
    # In one chunk that is not full, and in several.
    (tmp_path / "normal.py").write_text(
        "import fokker as fk, jax.numpy as jnp\n"
        f"target, init = fk.Density(lambda x: -jnp.sum(x**2) / 2), jnp.zeros({dimension})\n"
    )
    command = [
        "sample",
        "normal.py",
        "--sampler",
        "ula",
        "--step-size",
        0.1,
        "--steps",
        steps,
        "--out",
        "run",
    ]
    code, out, err = fokker(*command, "--dry-run")
    assert code == 0, err
    number, unit = re.search(r"disk: about ([\d.]+) (\wB)", out).groups()
    assert fokker(*command)[0] == 0
    files = [*(tmp_path / "run" / "draws.zarr").rglob("*"), *(tmp_path / "run").glob("checkpoint*")]
    stored = sum(path.stat().st_size for path in files if path.is_file())
    assert 0.5 < float(number) * {"kB": 1e3, "MB": 1e6}[unit] / stored < 2


@pytest.mark.slow
def test_a_file_of_settings_is_the_same_command_and_a_dry_run_writes_nothing(fokker, tmp_path):
    (tmp_path / "settings.toml").write_text(
        'source = "model.py"\ndata = "table.csv"\ncategories = ["city"]\nsteps = 300\nthin = 3\n'
        'step-size = 5\nout = "run"\n[model]\nprior_scale = 3\n[sampler]\nname = "sghmc"\nfriction = 2\n'
    )
    given = ["--config", "settings.toml", "--step-size", 0.05, "--set", "sampler.integrator=Splitting"]
    before = sorted(tmp_path.rglob("*"))
    code, out, err = fokker("sample", *given, "--dry-run")
    assert code == 0, err
    assert sorted(tmp_path.rglob("*")) == before
    for text in (
        "60 rows of data, 4 parameters",
        "chains: 4",
        "100 draws per chain",
        "run, a new run",
        "all 60",
        "disk: about ",
    ):
        assert text in out
    code, _, err = fokker("sample", *given, "--set", "prior_scale=0.1")
    assert code == 0, err
    options = json.loads((tmp_path / "run" / "command.json").read_text())
    assert options["settings"] == {
        "model": {"prior_scale": 0.1},
        "sampler": {"friction": 2, "integrator": "Splitting"},
    }
    assert (options["step_size"], options["sampler"], options["steps"]) == (0.05, "sghmc", 300)
    trace = fk.open("run")
    assert trace.samples["a"].shape == (4, 100)
    # 0.56 with the prior of the command line, with a standard error below 0.02; 1.5 with that of the file.
    assert abs(trace.samples["a"].mean() - 0.56) < 0.2
    assert "splitting" in trace.settings["sampler"]

    # A dry run with a run in the folder makes the comparisons of a run, and writes nothing either.
    from fokker.cli.call import SampleCall
    from fokker.cli.estimate import output

    def dry(**changed):
        call = SampleCall({**options, **changed}, tmp_path)
        settings = changed.get("settings", options["settings"])
        return output(call.target, call.sampler, call.options, tmp_path / "run", settings)

    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if "pycache" not in str(path)}
    assert "continuing the stored run, after 300 of 600 steps" in dry(steps=600)
    assert "the sampler, or one of its settings, is another" in dry(step_size=0.06)
    call = SampleCall(options, tmp_path)
    for sampler, reason in (
        ("sghmc", "its step size was given, and this sampler would search for one"),
        ("hmc", "the run is by sghmc; you asked for hmc"),
        (fk.samplers.ula(0.1), "the run is by sghmc; you asked for ula"),
    ):
        message = output(call.target, sampler, call.options, tmp_path / "run", options["settings"])
        assert reason in message
    other = {**options["settings"], "model": {"prior_scale": 0.2}}
    assert "prior_scale of the model is 0.2, and was 0.1" in dry(settings=other)
    now = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if "pycache" not in str(path)}
    assert now == files


@pytest.mark.slow
def test_a_dry_run_names_the_run_that_would_be_replaced(fokker, tmp_path, monkeypatch):
    from fokker.cli import estimate

    (tmp_path / "normal.py").write_text(
        "import fokker as fk, jax.numpy as jnp\n"
        "target, init = fk.Density(lambda x: -jnp.sum(x**2) / 2), jnp.zeros(2)\n"
    )
    command = ["sample", "normal.py", "--sampler", "ula", "--step-size", 0.1, "--steps", 20, "--out", "g1"]
    monkeypatch.setattr(estimate, "_SECONDS", 0.01)
    assert "\noutput: g1, a new run\n" in fokker(*command, "--overwrite", "--dry-run")[1]
    assert fokker(*command)[0] == 0
    out = fokker(*command, "--overwrite", "--dry-run")[1]
    assert "\noutput: a new run, which replaces the finished run in g1\n" in out
    run = Path("g1")
    unfinished = "a new run, which replaces the run in g1"
    checkpoint = estimate.read_checkpoint(run)
    shorter = checkpoint._replace(description={**checkpoint.description, "taken": 19})
    with monkeypatch.context() as patch:
        patch.setattr(estimate, "read_checkpoint", lambda folder: shorter)
        assert estimate._replaced(run) == unfinished
    # One that cannot be read would be replaced too.
    for file in run.glob("checkpoint*"):
        file.write_text("damaged")
    assert estimate._replaced(run) == unfinished


def test_a_command_that_fails_leaves_no_folder(fokker, tmp_path, monkeypatch):
    before = sorted(tmp_path.iterdir())
    command = ["sample", "model.py", "--data", "table.csv", *RUN]

    def fail(*given, **options):
        raise ValueError("not today")

    monkeypatch.setattr("fokker.sample", fail)  # after the command was written
    for wrong in (
        ["--sampler", "nutz", "--out", "a/b"],
        ["--set", "prior_scael=1", "--out", "a"],
        ["--burn-in", 3],
    ):
        assert fokker(*command, *wrong)[0] == 2
        assert [path for path in sorted(tmp_path.iterdir()) if path.name != "__pycache__"] == before, wrong
    # A folder of one's own stays, without the command of a run that could not begin.
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    assert fokker(*command, "--out", "mine")[0] == 2
    assert {path.name for path in (tmp_path / "mine").iterdir()} - {".lock"} == {"notes.txt"}


@pytest.mark.slow
def test_a_run_that_is_done_says_so_and_errors_are_in_the_words_of_the_command(fokker):
    command = ["sample", "model.py", "--data", "table.csv", *RUN[:-1]]
    assert fokker(*command, 20, "--burn-in", 5, "--out", "run")[0] == 0
    code, out, _ = fokker("resume", "run")
    assert (code, "continuing" in out) == (0, False)
    assert "the run in run is finished: it has its 20 steps. Its report is run/report.html" in out
    code, again, _ = fokker(*command, 20, "--burn-in", 5, "--out", "run")
    assert code == 0
    assert "is finished: it has its 20 steps" in again
    assert "--overwrite or another --out" in again
    longer = fokker("resume", "run", "--steps", 30)[1]
    assert "continuing run with the model" in longer
    assert "finished" not in longer
    for arguments, words in (
        (["resume", "run", "--steps", 10], "more than the 15 asked for (of which burn-in: 5): give"),
        (["report", "nothere"], "there is no folder nothere: sample with --out nothere to make one"),
    ):
        code, _, err = fokker(*arguments)
        assert (code, words in err, "fk." in err) == (2, True, False), err
    assert repr(fk.open("run")) == "Trace(2 chains, 30 draws each, folder: run, sampler: sgld)"
    (caution,) = fk.open("run").cautions
    assert "resume the run with its model" in caution
    assert "fk." not in caution
    (Path("run") / "report.html").write_text("")
    (caution,) = fk.open("run").cautions
    assert "report.html has the full verdict; a finished run need not be resumed for it" in caution
    new = pandas.DataFrame({"city": ["Rome"], "x": [0.5]})
    new.to_csv("new.csv", index=False)
    assert "predictions by predict() in " in fokker("predict", "run", "--data", "new.csv")[1]


def test_the_title_of_a_report_names_the_file_and_how_the_sampler_was_chosen(fokker, monkeypatch):
    titles = []
    monkeypatch.setattr(call, "run_and_report", lambda out, run, title, quantiles: titles.append(title) or 0)
    command = ["sample", "model.py", "--data", "table.csv", "--categories", "city", "--steps", 4, "--out"]
    assert fokker(*command, "a")[0] == 0
    assert fokker(*command, "b", "--sampler", "sgld", "--step-size", 0.1)[0] == 0
    assert titles == ["model.py, sampler chosen automatically", "model.py by sgld"]


@pytest.mark.slow
def test_the_full_verdict_of_a_finished_run_comes_before_that_of_its_draws(fokker):
    command = ["sample", "model.py", "--data", "table.csv", *RUN[:-1], 20]
    assert fokker(*command, "--out", "run", report=True)[0] == 1
    out = " ".join(fokker("report", "run", report=True)[1].split())
    first = "run/report.html has the full verdict, by the model, which counts: the verdict on this run is"
    assert out.startswith(first)
    assert "report.html has the full verdict; a finished run need not be resumed for it" in out


def test_paragraphs_of_the_help_are_wrapped_once_and_arguments_have_no_braces():
    lines = [x.strip() for x in CliRunner().invoke(app, ["resume", "--help"]).output.splitlines()]
    assert any(line.endswith("[OPTIONS] FOLDER") for line in lines)
    paragraph = lines[next(i for i, x in enumerate(lines) if x.startswith("The file of the model")) :]
    paragraph = paragraph[: paragraph.index("")]
    assert all(len(line) > 60 for line in paragraph[:-1]), paragraph
    assert joined("One\ntwo.\n\n    - a\n    - b\n    c") == "One two.\n\n    - a\n    - b\n    c"


def test_the_choices_of_an_integrator_are_integrators(tmp_path):
    from fokker.cli.model_file import ModelFile

    (tmp_path / "model.py").write_text(MODEL)
    model = ModelFile.load(str(tmp_path / "model.py"))
    # Records and interfaces stand beside them in fk.integrators.
    for name in ("Correctable", "Integrator", "Point", "Proposal", "StepInput", "Spliting"):
        with pytest.raises(ValueError, match="There are: ") as caught:
            model.sampler("sghmc", 0.1, {"integrator": name})
        choices = str(caught.value).partition("There are: ")[2].rstrip(".").split(", ")
        for choice in choices:
            assert isinstance(getattr(fk.integrators, choice)(), fk.integrators.Integrator)
        assert {"Splitting", "SymplecticEuler"} <= set(choices)


def test_a_sampler_that_needs_more_than_its_name_is_one_of_the_file(tmp_path):
    from fokker.cli.model_file import ModelFile

    file = tmp_path / "model.py"
    made = "s = fk.samplers.sgrld(0.1, fk.fields.Scalar(2.0))\n"
    file.write_text(MODEL + made)
    model = ModelFile.load(str(file))
    words = r"--sampler sgrld: .*Put s = fk\.samplers\.sgrld\(step_size, inverse_metric\) into .*model\.py, "
    with pytest.raises(CommandError, match=words + "with your settings, and give --sampler s"):
        model.sampler("sgrld", None, {})
    assert model.sampler("s", None, {}).name == "sgrld"
    assert model.sampler("s", 0.3, {}).step_size == 0.3


@pytest.mark.parametrize("step_seconds", [1e-4, 1.0])
def test_the_time_of_a_search_is_that_of_its_trials(monkeypatch, step_seconds):
    """A trial takes 0.5 s, and 2 s more to compile one of another length; of slow steps none is made."""
    from fokker.run import tuning
    from fokker.run.call import Options

    clock, lengths = [0.0], set()

    def trial(target, sampler, half, options):
        assert step_seconds < 0.01, "a trial of half an hour"
        compiling = 0 if half in lengths else 2.0
        lengths.add(half)
        clock[0] += compiling + 0.5 + 2 * half * 4 * step_seconds  # four chains

    monkeypatch.setattr(tuning.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(tuning, "judged", trial)
    monkeypatch.setattr(tuning, "candidates_of", lambda *given: [tuning.Arm(1.0, None, None)] * 9)
    rounds = tuning.rounds_of(9)
    assert [tuning._rounded(n) for n in (950, 8_391_000, 123_456_789, 999_999, 2 * 10**9)] == [
        *("950", "8.4 million", "120 million", "1 million", "2 billion")
    ]
    assert rounds == [(9, 512), (3, 1536), (1, 2 * tuning._CHECKED)]
    unit = fk.Density(lambda theta: -(theta**2))
    options = Options(init=jnp.zeros(()), steps=1, key=jax.random.key(0))
    seconds, halving = tuning.time_of_tuning(unit, None, options, step_seconds)
    steps = 4 * step_seconds * sum(trials * length for trials, length in rounds)
    if step_seconds < 0.01:
        # With the first trial, which is made twice.
        assert seconds == pytest.approx(3 * 2.0 + 13 * 0.5 + steps + 0.5 + 512 * 4 * step_seconds)
        assert halving == pytest.approx(0.5 + rounds[-1][1] * 4 * step_seconds)
    else:
        assert seconds == pytest.approx(steps)


def test_without_predict_the_log_density_of_each_row_is_written_and_noise_has_its_key(tmp_path):
    from fokker.cli.model_file import ModelFile
    from fokker.cli.predictions import predictor, write_predictions

    file = tmp_path / "model.py"
    file.write_text(MODEL.replace("def predict", "def other"))
    rows = read_columns(tmp_path, x=[0.5, -1.0, 2.0, 1.0], city=[0, 1, 2, 0], y=[0.0, 1.0, 2.0, 3.0])
    rng = np.random.default_rng(0)
    theta = {"a": rng.normal(size=(2, 50)).astype(np.float32), "b": rng.normal(size=(2, 50, 3))}
    made = predictor(ModelFile.load(str(file)), rows, 0)
    write_predictions(tmp_path / "out.csv", made, theta, (0.5,))
    a, b = theta["a"].reshape(100, 1), theta["b"].reshape(100, 3)
    logs = -((rows["y"] - a * rows["x"] - b[:, rows["city"]]) ** 2) / 2
    written = pandas.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(
        written["log_predictive_density"], np.log(np.exp(logs).mean(axis=0)), rtol=1e-4
    )

    file.write_text(
        "import jax\ndef target(data): pass\ndef predict(theta, datum, key): return jax.random.normal(key)"
    )
    made = predictor(ModelFile.load(str(file)), rows, 0)
    write_predictions(tmp_path / "noise.csv", made, theta, (0.5,))
    noise = pandas.read_csv(tmp_path / "noise.csv")
    # Each row and draw has its own noise: the sd of 100 normals is within 5 of its standard errors, 0.07.
    assert len(set(noise["mean"])) == 4
    assert np.abs(noise["sd"] - 1).max() < 0.35


def test_predictions_of_blocks_are_those_of_all_rows_at_once(tmp_path, monkeypatch):
    from fokker.cli.predictions import RowPredictor, write_predictions

    def function(draw, rows):
        return draw[0] + rows[0]["x"]

    rows = read_columns(tmp_path, x=np.arange(7.0) ** 2)
    made = RowPredictor(function, rows, False, "a sum")
    draws = np.random.default_rng(0).normal(size=(2, 5))
    write_predictions(tmp_path / "whole.csv", made, draws, (0.5,))
    monkeypatch.setattr("fokker.cli.predictions._NUMBERS", 30)  # three rows for ten draws
    write_predictions(tmp_path / "blocks.csv", made, draws, (0.5,))
    whole, blocks = (pandas.read_csv(tmp_path / f"{name}.csv") for name in ("whole", "blocks"))
    np.testing.assert_allclose(whole["mean"], np.arange(7.0) ** 2 + draws.mean(), rtol=1e-5)
    pandas.testing.assert_frame_equal(whole, blocks)


def read_columns(folder, **columns):
    np.savez(folder / "columns.npz", **{name: np.asarray(values) for name, values in columns.items()})
    return read_table([str(folder / "columns.npz")])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "model.py", "--steps", 9], "has log_prior and log_likelihood: give --data FILE"),
        (["sample", "model.py", "--steps", 9, "--data", "no.csv"], "there is no data file no.csv"),
        (["sample", "model.py", "--steps", 9, "--columns", "x"], "are about --data, which was not given"),
        (
            ["sample", "model.py", *RUN, "--data", "table.csv", "--set", "scale"],
            "--set scale: write KEY=VALUE",
        ),
        (
            ["sample", "model.py", *RUN, "--data", "table.csv", "--set", "prior_scale=abc"],
            "--set prior_scale=abc: prior_scale in model.py is a number (its default is 10.0), and 'abc'",
        ),
        (
            ["sample", "model.py", *RUN, "--data", "table.csv", "--set", "prior_scale=true"],
            "prior_scale in model.py is a number (its default is 10.0), and True is not",
        ),
        (
            ["sample", "model.py", *RUN, "--data", "table.csv", "--set", "prior_scal=1"],
            "no argument 'prior_scal' with a default value. Did you mean 'prior_scale'?",
        ),
        (
            ["sample", "model.py", *RUN, "--data", "table.csv", "--set", "sampler.fiction=1"],
            "the sampler 'sgld' has no argument 'fiction'",
        ),
        (
            ["sample", "model.py", "--steps", 9, "--data", "table.csv"],
            "the column 'city' has 'Paris' in line 2 of table.csv, and numbers are needed: --categories city",
        ),
        (["sample", "model.py", *RUN, "--data", "table.csv", "--quantiles", "0.1,x"], "write probabilities"),
        (
            ["sample", "model.py", *RUN, "--data", "no.csv", "--overwrite", "--quantiles", "5,95"],
            "--quantiles 5,95: write probabilities between 0 and 1",
        ),
        (["predict", "no", "--data", "no.csv", "--quantiles", "nan"], "--quantiles nan: write probabilities"),
        (["sample", "model.py", "--config", "no.toml"], "there is no file no.toml"),
        (
            ["sample", "model.py", "--steps", 9, "--out", "model.py"],
            "--out model.py is a file: give the name",
        ),
        (["predict", "no", "--data", "no.csv", "--out", "."], "--out . is a folder: give the name of a file"),
        (
            ["sample", "model.py", "--steps", 9, "--data", "."],
            ". is a folder: give one of the files",
        ),
        (["sample", "model.py", "--steps", 9, "--start", "map"], "--start is one of init, mode, not 'map'"),
        (
            ["sample", "model.py", "--steps", 9, "--gradient", "control-variates"],
            "--gradient control-variates is about minibatches: give --batch-size",
        ),
        (["sample", "model.py", "--steps", 9, "--set", "b=1"], "log_likelihood in model.py have no argument"),
        (["sample", "several.py", "--steps", 9], "has several targets, first, second, of_data: name one"),
        (["sample", "none.py", "--steps", 9], "has no target. Define log_prior(theta)"),
        (
            ["sample", "several.py:first", "--data", "table.csv", "--steps", 9],
            "takes no data: for --data make it",
        ),
        (["sample", "several.py:of_data", "--steps", 9], "needs the argument 'data': give --data FILE"),
        (["predict", "nowhere", "--data", "table.csv"], "there is no folder nowhere: give that of a run"),
        (["sample", "model.py", "--data", "table.csv", *RUN, "--sampler", "autoo"], "Did you mean 'auto'?"),
        (["resume", "runn"], "there is no folder runn: give that of a run"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(fokker, tmp_path, arguments, message):
    (tmp_path / "several.py").write_text(
        "import fokker as fk\nfirst = fk.Density(lambda x: -x**2)\nsecond = first\n"
        "def of_data(data): return first\n"
    )
    (tmp_path / "none.py").write_text("x = 1\n")
    code, _, err = fokker(*arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


TABLES = [
    ("a,b\n1,2\n3\n", "line 3 of FILE has 1 field(s), and the header names 2"),
    ("a,b\n1,2\n\n3,4,5\n", "line 4 of FILE has 3 field(s), and the header names 2"),
    ("a,b\n1,2,3\n", "line 2 of FILE has 3 field(s)"),
    ("1,2\n3,4\n", "line 1 of FILE has the number 1 and is not a header"),
    ("a;b\n1;2\n", "separated by commas"),
    ("a,a\n1,2\n", "names two columns 'a'"),
    ("a,,b\n1,2,3\n", "has no name for column 2"),
    ("a,b\n", "has a header, and no rows"),
    ("", "is empty"),
]


@pytest.mark.parametrize(("text", "message"), TABLES)
def test_a_malformed_table_is_refused_by_its_line(tmp_path, text, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message.replace("FILE", str(path)))):
        read_table([str(path)])


def test_columns_that_cannot_be_used_say_so_when_they_are_asked_for(tmp_path):
    path = tmp_path / "table.csv"
    # As R writes it, with row names; an empty line, and a line break in quotes.
    path.write_text('"","x","gap","mostly","text"\n"1",1,2,3,"a\nb"\n\n"2",2,NA,4,"c"\n"3",3,4,five,"d"\n')
    data = read_table([str(path)])
    assert list(data) == ["x"]
    for name, message in {
        "gap": "'gap' has 1 missing value, first in line 5",
        "mostly": r"'mostly' has 'five' in line 6 of .*, which is not a number",
        "text": r"categories=\['text'\]",
        "xx": "no column 'xx'. Did you mean 'x'. The columns are x, gap, mostly, text",
    }.items():
        with pytest.raises(ColumnError, match=message):
            data[name]
        datum = jax.tree.map(lambda x: jnp.asarray(x[0]), data)
        with pytest.raises(ColumnError, match=message):
            datum[name]
    codes = read_table([str(path)], categories={"text": None}, columns=["x"])
    assert (codes["text"].tolist(), codes.labels["text"]) == ([0, 1, 2], ["a\nb", "c", "d"])


def test_every_format_gives_the_same_columns(tmp_path, monkeypatch):
    x, y = np.arange(6.0).reshape(3, 2), np.array([1, 0, 1])
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    np.savez(tmp_path / "both.npz", x=x, y=y, names=np.array(["u", "v"]), other=np.zeros(7))
    apart = read_table([f"x={tmp_path}/x.npy", f"y={tmp_path}/y.npy"])
    assert not isinstance(apart["x"], np.memmap)
    with monkeypatch.context() as patch:
        patch.setattr("fokker.rows.table._SMALL", 10)
        assert isinstance(read_table([f"x={tmp_path}/x.npy"], uses_all_rows=True)["x"], np.memmap)
    together = read_table([str(tmp_path / "both.npz")])
    for data in (apart, together):
        np.testing.assert_array_equal(data["x"], x)
        np.testing.assert_array_equal(data["y"], y)
    with pytest.raises(ColumnError, match="has 7 rows where most have 3"):
        together["other"]
    np.savez(tmp_path / "unclear.npz", x=x, other=np.zeros(7))
    with pytest.raises(ValueError, match=r"differ in length: x has 3, other has 7\. Choose"):
        read_table([str(tmp_path / "unclear.npz")])
    frame = pandas.DataFrame({"u": x[:, 0], "v": x[:, 1], "flag": y == 1})
    with gzip.open(tmp_path / "frame.tsv.gz", "wt") as file:
        frame.to_csv(file, index=False, sep="\t")
    text = read_table([str(tmp_path / "frame.tsv.gz")])
    np.testing.assert_array_equal(text.matrix("u", "v"), x)
    np.testing.assert_array_equal(text.matrix(without="flag"), x)
    np.testing.assert_array_equal(text["flag"], y == 1)
    with pytest.raises(ValueError, match="'u' is in more than one file"):
        read_table([str(tmp_path / "frame.tsv.gz")] * 2)
    with pytest.raises(ValueError, match=r"columns=\['w'\]: the data have no column 'w'"):
        read_table([str(tmp_path / "frame.tsv.gz")], columns=["w"])
    shutil.copy(tmp_path / "x.npy", tmp_path / "x.pkl")
    with pytest.raises(ValueError, match="not one of the formats"):
        read_table([str(tmp_path / "x.pkl")])


def write_parquet(path, **options):
    frame = pandas.DataFrame(
        {
            "x": [1.5, 2.0, -1.0],
            "text": ["b", "a", "b"],
            "n": [1, None, None],
            "nan": [0.5, 1.0, np.nan],
            "flag": [True, False, True],
            "pair": [[1, 2], [3, 4], [5, 6]],
            "gap": [[1, 2], [3, None], [5, 6]],
        }
    )
    pairs = pa.list_(pa.int32(), 2)
    schema = pa.schema(
        [
            ("x", pa.float64()),
            ("text", pa.string()),
            ("n", pa.int64()),
            ("nan", pa.float32()),
            ("flag", pa.bool_()),
            ("pair", pairs),
            ("gap", pairs),
        ]
    )
    table = pa.Table.from_pandas(frame, schema, preserve_index=False)
    pyarrow.parquet.write_table(table, path, row_group_size=2, **options)
    return frame


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("in_file", [True, False])
def test_parquet(tmp_path, monkeypatch, in_file, statistics):
    path = tmp_path / "table.parquet"
    frame = write_parquet(path, write_statistics=statistics)
    monkeypatch.setattr("fokker.rows.table._SMALL", 0 if in_file else 1000)
    data = read_table([str(path)])
    assert list(data) == ["x", "flag", "pair"]
    # As a tree the columns stay in the file; each by its name is an array.
    assert [is_source(leaf) for leaf in leaves(data)] == [in_file] * 3
    assert [is_source(leaf) for leaf in leaves(data[["x", "pair"]])] == [in_file] * 2
    for name in data:
        assert data[name].tolist() == frame[name].tolist()
        assert isinstance(data[name], np.ndarray)
    assert data[["flag", "x"]].matrix().tolist() == [[1, 1.5], [0, 2], [1, -1]]
    for name, message in {
        "n": "'n' has 2 missing values, first in row 1 of",
        "nan": "'nan' has 1 missing value, first in row 2 of",
        "gap": "'gap' has 1 missing value, first in row 1 of",
        "text": r"has 'b' in row 0 of .*: categories=\['text'\]",
    }.items():
        with pytest.raises(ColumnError, match=message):
            data[name]
    coded = read_table([str(path)], columns=["x"], categories={"text": None})
    assert (list(coded), coded["text"].tolist(), coded.labels["text"]) == (
        ["x", "text"],
        [1, 0, 1],
        ["a", "b"],
    )
    with pytest.raises(ValueError, match=r"has 'a' in row 1 of .*, a category that the run has not"):
        read_table([str(path)], categories={"text": ["b"]})
    # Every step of a run without batches would decode the file again.
    assert not any(is_source(leaf) for leaf in leaves(read_table([str(path)], uses_all_rows=True)))


def test_a_parquet_file_that_cannot_be_read(tmp_path):
    path = tmp_path / "table.parquet"
    for columns, message in (
        ([pa.array([], pa.float32())] * 2, r"table\.parquet has no rows"),
        ([[1.0], [2.0]], "has two columns 'a': rename one"),
    ):
        names = ["a", "b"] if "rows" in message else ["a", "a"]
        pyarrow.parquet.write_table(pa.table(columns, names=names), path)
        with pytest.raises(ValueError, match=message):
            read_table([str(path)])
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"table\.parquet could not be read"):
        read_table([str(path)])


_CUT = gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9]


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("x.npz", b"PK"),
        ("x.npy", b""),
        ("x.csv.gz", _CUT),
        ("x.parquet", b"PAR1"),
    ],
)
def test_a_broken_file_is_named(tmp_path, name, contents):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(ValueError, match=f"{name} (could not be read|is damaged or cut short): "):
        read_table([str(tmp_path / name)])


def test_values_that_can_be_no_numbers_have_no_codes(tmp_path):
    path = tmp_path / "lists.parquet"
    pyarrow.parquet.write_table(pa.table({"x": [1.0, 2.0], "l": [[1], [2, 3]]}), path)
    with pytest.raises(ColumnError, match="and numbers are needed, or lists of a fixed size"):
        read_table([str(path)])["l"]
    with pytest.raises(ValueError, match=r"categories=\['l'\]: its values are lists or tables"):
        read_table([str(path)], categories={"l": None})
    with pytest.raises(ValueError, match=r"columns=\['y'\]: the data .*The columns are x, l"):
        read_table([str(path)], columns=["x", "y"])


def test_the_columns_of_a_parquet_file_share_what_is_kept_of_it(tmp_path, monkeypatch):
    """Each of fifty columns with a cache of its own would keep the whole of a large file."""
    monkeypatch.setattr("fokker.rows.parquet.CACHE", 800)
    table = pa.table({"a": np.arange(100.0), "b": np.arange(100, dtype=np.float32)})
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet", row_group_size=4)
    readers = [leaf.reader for leaf in leaves(opened(tmp_path / "table.parquet"))]
    kept = sum(reader._slots * reader.window * reader.dtype.itemsize for reader in readers)
    assert 700 < kept <= 800


def test_parquet_without_its_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "table.parquet").write_bytes(b"nothing")
    with pytest.raises(ImportError, match=r"pip install 'fokker\[arrow\]'"):
        read_table([str(tmp_path / "table.parquet")])


def test_settings_are_numbers_texts_and_lists(tmp_path):
    given = ["a=2", "b=1e-3", "c=true", "d=None", "e=[1, 2]", "f=diagonal", 'g="x y"', "sampler.h=.5"]
    wanted = {"a": 2, "b": 1e-3, "c": True, "d": None, "e": [1, 2], "f": "diagonal", "g": "x y"}
    assert parse_settings(given, {"model": {"a": 1, "z": 0}}) == {
        "model": {"z": 0, **wanted},
        "sampler": {"h": 0.5},
    }
    # What a run that goes on reads from its folder is what was given.
    settings = parse_settings(["t=(1, (2, 3))", "n=nan", "l=[nan, 1]", "d=2026-01-31", "e={'k': (1,)}"])
    assert {n: x for n, x in settings["model"].items() if n in "tde"} == {
        "t": [1, [2, 3]],
        "d": "2026-01-31",
        "e": {"k": [1]},
    }
    (tmp_path / "command.json").write_text(json.dumps({"source": "model.py", "settings": settings}))
    stored.check_same_settings(tmp_path, settings)
    with pytest.raises(ValueError, match=r"l of the model is \[nan, 2\], and was \[nan, 1\]"):
        stored.check_same_settings(tmp_path, parse_settings(["l=[nan, 2]"], settings))
    for text in ("s={1, 2}", "b=b'x'", "c=2j", "k={1: 2}"):
        with pytest.raises(ValueError, match=re.escape(f"--set {text}: a value of type")):
            parse_settings([text])
    path = tmp_path / "settings.toml"
    for text, message in {
        "stps = 3": "unknown option, 'stps'. Did you mean 'steps'?",
        "[modl]\na = 1": "unknown table, 'modl'. Did you mean '[model]'?",
        'model = "x.py"': "the model's file is `source`",
        "steps = ": "is not a TOML file",
    }.items():
        path.write_text(text)
        with pytest.raises(ValueError, match=re.escape(message)):
            read_config(path, {"steps": "steps"})


NAMED = """
from typing import NamedTuple

class Theta(NamedTuple):
    slope: float
    intercept: float

def log_prior(theta):
    return -(theta.slope**2)

def log_likelihood(theta, datum):
    return -((datum["x"] - theta.intercept) ** 2)

def start(key):
    return Theta(0.0, 0.0)

def start_of_data(key, data):
    return Theta(data["x"].mean(), 0.0)

def one_start_of_data(data):
    return Theta(data["x"].mean(), 0.0)

def predict(theta, datum):
    return theta.intercept + theta.slope * datum["x"]
"""


@pytest.mark.parametrize("names", [("slope", "intercept"), ("intercept", "slope"), ("slope", "other")])
def test_the_parameters_of_a_named_tuple_keep_their_names(tmp_path, names):
    """Their order is that of the fields, not of the alphabet; theta with other names is a dictionary."""
    from fokker.cli.model_file import ModelFile
    from fokker.cli.predictions import draws_of, open_with_theta

    (tmp_path / "model.py").write_text(NAMED)
    theta = collections.namedtuple("Theta", names)(np.full((1, 5), 1.0), np.full((1, 5), 10.0))
    trace = fk.Trace(theta, None, {}, None, None, {"chains": 1, "steps": 5, "burn_in": 0, "taken": 5}, None)
    trace.save(tmp_path / "run")
    for start in ("start", "start_of_data", "one_start_of_data"):
        model = ModelFile.load(str(tmp_path / "model.py"))
        found = draws_of(
            open_with_theta(tmp_path / "run", model, start, lambda: {"x": np.arange(3.0)}),
            5,
        )
        if "other" in names or names[0] == "intercept":  # not the fields of the model's Theta, in their order
            assert {name: x[0, 0] for name, x in found.items()} == dict(zip(names, (1.0, 10.0), strict=True))
        else:
            assert (found.slope[0, 0], found.intercept[0, 0]) == (1.0, 10.0)


def test_categories_are_texts_in_every_file(tmp_path):
    """Codes of digits are not numbers: a leading zero counts, and new rows may have digits alone."""

    def read(text, **options):
        (tmp_path / "table.csv").write_text(text)
        return read_table([str(tmp_path / "table.csv")], **options)

    data = read("z,y\n01234,1\n1234,2\n1.0,3\n1,4\n 1 ,5\n", categories={"z": None})
    assert (data.labels["z"], data["z"].tolist()) == (["1", "1.0", "01234", "1234"], [2, 3, 1, 0, 0])
    assert read("z,y\n10,1\n9,2\n", categories={"z": None}).labels["z"] == ["9", "10"]
    assert read("z,y\n10,1\nA,2\n9,2\n", categories={"z": None}).labels["z"] == ["10", "9", "A"]
    labels = {"z": ["1", "2", "A"]}
    assert read("z,y\n2,0\n1,0\n", categories=labels)["z"].tolist() == [1, 0]
    np.savez(tmp_path / "table.npz", z=np.array([2, 1]), y=np.zeros(2))
    assert read_table([str(tmp_path / "table.npz")], categories=labels)["z"].tolist() == [1, 0]
    for text, message in {"z,y\nB,0\n": "has 'B' in line 2", "z,y\n1,0\n,0\n": "first in line 3"}.items():
        with pytest.raises(ValueError, match=message):
            read(text, categories=labels)
        # Of new rows it is a problem for a model that uses it.
        data = read(text, categories=labels, columns_of_run=["z", "y"])
        assert list(data) == ["y"]
        with pytest.raises(ColumnError, match=message):
            data["z"]


def test_a_matrix_has_the_columns_of_the_run_in_their_order(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("extra,b,a\n9,2,1\n")
    new = read_table([str(path)], columns_of_run=["a", "b", "y"], categories={"y": ["no", "yes"]})
    datum = jax.tree.map(lambda x: x[0], new)
    assert new.matrix(without="y").tolist() == [[1, 2]]
    assert datum.matrix(without="y").tolist() == [1, 2]
    assert new["extra"].tolist() == [9]
    with pytest.raises(ColumnError, match="no column 'y', which those of the run have"):
        new.matrix()
    assert read_table([str(path)], columns=["a", "extra"]).matrix().tolist() == [[1, 9]]
    with pytest.raises(ValueError, match=r"columns=\['c'\]: the data have no column 'c'\. The columns"):
        read_table([str(path)], columns=["a", "c"])


def test_a_call_that_a_warm_up_refuses_leaves_the_command_as_it_was(tmp_path):
    """Without a warm-up there the command is that of the last call, refused or not."""

    def refused_call(folder):
        with stored.written_command(folder, {"source": "model.py", "steps": 9}):
            assert json.loads((folder / "command.json").read_text())["steps"] == 9
            raise ValueError("refused")

    for has_warm_up in (True, False):
        folder = tmp_path / str(has_warm_up)
        (folder / "warm-up").mkdir(parents=True)
        stored.write_command(folder, {"source": "model.py", "steps": 7})
        if not has_warm_up:
            (folder / "warm-up").rmdir()
        with pytest.raises(ValueError, match="refused"):
            refused_call(folder)
        if has_warm_up:
            assert json.loads((folder / "command.json").read_text())["steps"] == 7
        else:  # of a run that could not begin
            assert not (folder / "command.json").exists()


def test_a_matrix_leaves_no_column_out_in_silence(tmp_path):
    """A column with a gap is repaired, or named in `without`."""
    path = tmp_path / "gap.csv"
    path.write_text("a,b,y\n1,2,3\n4,,6\n7,8,9\n")
    data = read_table([str(path)])
    with pytest.raises(ColumnError, match="b"):
        data.matrix(without=("y",))
    assert data.matrix(without=("b", "y")).tolist() == [[1], [4], [7]]
    assert data.matrix("a", "y").shape == (3, 2)


def test_without_a_sampler_one_is_chosen(monkeypatch, tmp_path):
    runs = []
    monkeypatch.setattr(call, "run_sampler", lambda options, *_: runs.append(options) or 0)
    command = ["sample", "model.py", "--steps", "10", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert (runs[0]["sampler"], runs[0]["chains"]) == ("auto", 4)
