"""The command line: what it prints, what it writes, how it exits."""

import functools
import io
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from types import NoneType, SimpleNamespace
from typing import Annotated

import numpy as np
import pytest
import typer
from rich.console import Console

import fokker as fk
from fokker import cli
from fokker.cli import check, console, lda
from fokker.cli.execution import _in_words, write_report_of
from fokker.cli.flags import CommandError, Flag, flags_of, in_flags, translated, with_flags
from fokker.cli.sample import sample
from fokker.cli.stored import REPORT, VERDICT
from fokker.diagnostics import Finding, Grade, Summary
from fokker.rows.table import ColumnError

SAMPLERS = """
import jax, jax.numpy as jnp
import fokker as fk

U = lambda theta: jnp.sum(theta**4 - 2 * theta**2)
H = fk.Hamiltonian(U, auxiliary=lambda r: jnp.sum(r**2) / 2)
right = fk.Dynamics(H, D={("r", "r"): 1.0}, Q={("r", "theta"): 1.0})
unknown = fk.SDE(lambda z: -z, lambda z: jnp.eye(2), lambda z: z @ z / 2)
naive = fk.SDE(lambda theta, r: {"theta": r, "r": -jax.grad(U)(theta)}, {("r", "r"): 1.0}, H)

def make():
    return right

def needs(argument):
    return right
"""


@pytest.fixture
def samplers(tmp_path):
    path = tmp_path / "samplers.py"
    path.write_text(SAMPLERS)
    return path


def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ColumnError("the data have no column 'z'."), r"fokker: (at .*: )?the data have no column 'z'\."),
        (KeyError("z"), r"fokker: KeyError( at .*)?: 'z'"),
    ],
)
def test_the_class_of_an_error_is_shown_where_it_is_not_of_fokker(fokker, monkeypatch, error, shown):
    monkeypatch.setattr(cli, "app", lambda: _raise(error))
    code, _, err = fokker("sample")
    assert code == 2
    assert re.fullmatch(shown, err.strip())


@pytest.mark.slow
def test_check_exits_by_verdict(fokker, samplers):
    code, out, _ = fokker("check", f"{samplers}:right", "--shape", "theta=2", "--shape", "r=2")
    assert code == 0
    assert "RIGHT" in out
    assert "in 4 dimensions" in out
    code, out, _ = fokker("check", f"{samplers}:naive", "--json")
    assert code == 1
    report = json.loads(out)
    assert report["ok"] is False
    assert "lacks -D∇H" in report["reasons"][0]
    # The command line has options, and no arguments of Python.
    assert "their shapes by --shape VARIABLE=SHAPE" in out
    assert "state=" not in out


def test_columns_are_wrapped_in_a_terminal_alone(monkeypatch):
    text = "HEAD\n\n  reason     " + "word " * 9 + "[1., -1.]"
    for is_terminal, width in ((True, 40), (False, 80)):
        printed = io.StringIO()
        monkeypatch.setattr(
            console, "console", Console(file=printed, width=40, highlight=False, force_terminal=is_terminal)
        )
        console.show_columns(text, 13)
        lines = printed.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert lines[:2] == ["HEAD", ""]
        assert all(re.match(r" {13}\S", line) for line in lines[3:])
        assert " ".join(printed.getvalue().split()) == " ".join(text.split())
    assert len(lines) == 3


@pytest.mark.slow
def test_check_takes_angles(fokker, tmp_path):
    path = tmp_path / "turn.py"
    path.write_text(
        "import jax.numpy as jnp, fokker as fk\n"
        "turn = fk.SDE(lambda theta, phi: {'theta': -theta, 'phi': 1.0 + 0 * phi},\n"
        "              {('theta', 'theta'): 1.0, ('phi', 'phi'): 0.5},\n"
        "              lambda theta, phi: theta**2 / 2 + 0 * phi)\n"
    )
    code, out, _ = fokker("check", f"{path}:turn", "--periodic", "phi=2pi")
    assert (code, "RIGHT" in out) == (0, True)
    code, _, err = fokker("check", f"{path}:turn", "--periodic", "phi=two")
    assert (code, "write VARIABLE=PERIOD" in err) == (2, True)
    code, out, _ = fokker("check", f"{path}:turn")
    assert (code, "UNDECIDED" in out) == (1, True)


ALL_KINDS = """
import jax, jax.numpy as jnp, numpy as np, fokker as fk
S, target = fk.samplers, fk.Density(lambda theta: -jnp.sum(theta**2) / 2)
mala = S.mala(0.1).on(target)
mclmc = S.mclmc(0.1, 1.4).on(target)
psgld = S.psgld(0.1).on(target)
slice = S.slice_sampler().on(target)
normal = S.gibbs_normal(np.zeros(2), np.eye(2)).on(target)
replicas = S.replica_exchange(S.sgld(0.1), (1.0, 2.0)).on(target)
rows = fk.tables({"a": fk.Table(2, np.zeros(1))}, lambda r, x: -((x["y"] - r["a"][0]) ** 2),
                 {"a": np.arange(4) % 2, "y": np.zeros(4, np.float32)})
lazy = fk.lazy(S.sgld(0.04)).on(rows)
drift = {"drift": lambda theta: -theta, "diffusion": np.eye(1), "hamiltonian": lambda theta: theta**2 / 2}
number = 1.0
"""


@pytest.mark.slow
def test_check_takes_all_that_fk_check_takes(fokker, tmp_path):
    """What it hands to `fk.check`, and that it refuses what is none of them."""
    path = tmp_path / "all.py"
    path.write_text(ALL_KINDS)
    names = ("mala", "mclmc", "psgld", "slice", "normal", "replicas", "lazy", "drift")
    for name in names:
        assert check.load(f"{path}:{name}") is not None
    code, out, _ = fokker("check", f"{path}:mala", "--shape", "theta=2")
    assert (code, "RIGHT" in out) == (0, True)
    code, _, err = fokker("check", f"{path}:number")
    assert (code, "a fk.Dynamics, a fk.SDE or a sampler is needed" in " ".join(err.split())) == (2, True)
    code, _, err = fokker("complete", f"{path}:slice")
    assert (code, "slice_sampler has no continuous dynamics" in " ".join(err.split())) == (2, True)


def test_check_calls_a_function_that_makes_the_sampler(samplers):
    assert isinstance(check.load(f"{samplers}:make"), fk.Dynamics)


def test_files_are_complete_though_the_output_is_closed(
    fokker, samplers, tmp_path, monkeypatch, closed_output
):
    completion = SimpleNamespace(axes=None, stationary=True)
    monkeypatch.setattr(fk, "complete", lambda *given, **settings: completion)
    fokker("complete", f"{samplers}:right", "--out", tmp_path)
    assert (tmp_path / "completion.txt").exists()
    summary = Summary([], *[np.zeros(0)] * 6, findings=[])
    trace = SimpleNamespace(
        summary=lambda quantiles: summary,
        report=lambda path, **settings: path.write_text("report"),
        settings={"taken": 3},
    )
    with pytest.raises(BrokenPipeError):
        write_report_of(trace, tmp_path / REPORT, "title", ())
    assert (tmp_path / REPORT).exists()
    assert (tmp_path / VERDICT).exists()


@pytest.mark.slow
def test_complete_writes_grid_and_picture(fokker, samplers, tmp_path):
    out = tmp_path / "completion"
    code, printed, _ = fokker("complete", f"{samplers}:right", "--grid", "96", "--out", out)
    assert code == 0, printed
    with np.load(out / "completion.npz") as saved:
        trusted, Q = saved["trusted"], saved["Q"]
    assert trusted.any()
    np.testing.assert_allclose(Q[0, 1][trusted], -1.0, atol=1e-4)
    assert (out / "completion.png").stat().st_size > 5_000
    code, printed, _ = fokker("complete", f"{samplers}:naive", "--grid", "96")
    assert code == 1
    assert "stationary" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "FILE"], "give a file and a name in it"),
        (["check", "sgnht"], "put sampler = fk.samplers.sgnht(…), with your settings, into a file"),
        (["check", "FILE:rihgt"], "has no name 'rihgt'. Did you mean 'right'?"),
        (["check", "nowhere.py:right"], "there is no file nowhere.py: give a Python file; --help"),
        (["check", "FILE:needs"], "could not be called without arguments"),
        (["check", "FILE:U"], "could not be called without arguments"),
        (["check", "FILE:right", "--shape", "theta"], "write VARIABLE=SHAPE"),
        (["check", "FILE:right", "--shape", "theta=2", "--shape", "r=3"], "its row variable has (3,)"),
        (["check", "FILE:right", "--shape", "theta=2", "--shape", "p=2"], "takes the argument 'r'"),
        (["check", "FILE:right", "--shape", "theta=2"], "name them all in --shape VARIABLE=SHAPE."),
        (["check", "FILE:unknown"], "the shape of the state is not known: give --shape VARIABLE=SHAPE"),
        (["complete", "FILE:right", "--box", "theta=3"], "write VARIABLE=LOW:HIGH"),
        (["complete", "FILE:right", "--box", "theta=3:-3", "--box", "r=-5:5"], "theta"),
        (["reproduce", "erata"], "errata"),
        (["demo", "recip"], "Did you mean 'recipe'?"),
        (["check", "FILE:right", "--seed", -1], "as in --seed 0; -1 was given"),
        (["demo", "ratings", "--seed", -1], "as in --seed 0; -1 was given"),
        (["demo", "network", "--out", "FILE"], "--out FILE must be a folder, but FILE is a file"),
        (["complete", "FILE:right", "--out", "FILE/x"], "--out FILE/x must be a folder, but FILE is a file"),
        (["reproduce", "errata", "--out", "FILE"], "--out FILE must be a folder, but FILE is a file"),
        (["studio", "--gallery", "FOLDER.html"], "must be a file named *.html in a folder that exists"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(fokker, samplers, arguments, message):
    samplers.with_name("folder.html").mkdir()
    places = {"FILE": str(samplers), "FOLDER": str(samplers.with_name("folder"))}
    texts = [re.sub("FILE|FOLDER", lambda match: places[match[0]], str(x)) for x in (*arguments, message)]
    code, _, err = fokker(*texts[:-1])
    assert code == 2
    assert texts[-1] in " ".join(err.split())
    assert "Traceback" not in err


def test_an_interruption_before_the_work_is_said(fokker, tmp_path, monkeypatch):
    (tmp_path / "stopped.py").write_text("raise KeyboardInterrupt")
    assert fokker("check", f"{tmp_path / 'stopped.py'}:x") == (130, "", "fokker: interrupted\n")
    monkeypatch.setattr("fokker.cli.lda.parsed", lambda *given: _raise(KeyboardInterrupt()))
    assert fokker("lda") == (130, "", "fokker: interrupted\n")
    # While an extension is imported, too; another error of an import is none.
    for cause, code in ((KeyboardInterrupt(), 130), (OSError("no such library"), 2)):
        error = ImportError("the extension")
        error.__cause__ = cause
        monkeypatch.setattr("fokker.cli.lda.parsed", lambda *given, error=error: _raise(error))
        assert fokker("lda")[0] == code


def test_a_file_that_does_not_run_is_named(fokker, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("import no_such_module_anywhere\n")
    code, _, err = fokker("check", f"{path}:x")
    assert code == 2
    assert "ModuleNotFoundError" in err


def test_help_and_version(fokker):
    code, out, _ = fokker("--help")
    assert code == 0
    for command in ("demo", "check", "complete", "reproduce"):
        assert command in out
    code, out, _ = fokker("--version")
    assert out.strip()
    code, out, _ = fokker("reproduce", "list")
    assert "errata" in out


def commands_of(group, *names):
    """A command of Click with all that are below it, by the words that call them."""
    yield names, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands_of(command, *names, name)


def test_flags_are_shown_without_a_value(fokker):
    from typer.main import get_command

    words = [names for names, _ in commands_of(get_command(cli.app))]
    assert ("lda", "run") in words
    for names in words:
        _, out, _ = fokker(*names, "--help")
        assert "--help" in out
        assert "bool" not in out.lower()


def test_an_experiment_says_what_it_is_doing_where_there_is_no_terminal(fokker, tmp_path, monkeypatch):
    from fokker.lab import experiments
    from fokker.lab.experiments._stages import stage

    def run(out, quick, seeds):
        with ThreadPoolExecutor(1) as pool:  # experiments begin stages in threads too
            pool.submit(stage, "sampling by SGHMC").result()
        time.sleep(0.1)
        return experiments.Result("short", [])

    stage("of nothing that runs")
    monkeypatch.setattr("fokker.run.progress.PLAIN_SECONDS", 0.02)
    monkeypatch.setitem(experiments.EXPERIMENTS, "short", experiments.Experiment(run, "nothing"))
    code, _, errors = fokker("reproduce", "short", "--quick", "--out", tmp_path / "out")
    assert code == 0
    first, *others = errors.splitlines()
    assert first == f"reproducing short in a quick version; writing to {tmp_path / 'out'}"
    assert "reproducing short: 0:00:00 so far, sampling by SGHMC" in others


@pytest.mark.slow
def test_demo_tells_right_from_wrong(fokker, tmp_path, monkeypatch):
    from fokker.demo import recipe as demo

    monkeypatch.setattr(demo, "CHAINS", 32)
    monkeypatch.setattr(demo, "STEPS", 2_000)
    monkeypatch.setattr(demo, "BURN_IN", 500)
    code, out, _ = fokker("demo", "recipe", "--out", tmp_path / "demo")
    assert code == 0
    assert "RIGHT" in out
    assert "WRONG" in out
    assert "Γ is missing" in out
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert "exp(-H) is stationary" in page


def test_the_usage_of_lda_names_no_command_that_nobody_typed(fokker):
    for arguments in (["--help"], ["--topisc", 5]):
        texts = fokker("lda", *arguments)[1:]
        assert "Usage: fokker lda [" in " ".join(texts)
        assert "Usage: fokker lda run" not in " ".join(texts)
    assert "Usage: fokker lda export [" in fokker("lda", "export", "--help")[1]


def test_table_and_figure_of_the_demo_have_the_same_signs():
    from fokker.demo.logistic import Estimates

    estimate = np.array([1.0, 4.0]), np.ones(2)
    estimates = Estimates(["a", "b"], np.array([2.0, 2.0]), estimate, estimate)
    points = next(mark for mark in estimates.figure().marks if mark.kind == "points")
    assert points.x.tolist() == [-1, 2]
    assert [row[-1] for row in estimates.rows()] == ["-1.0 sd", "+2.0 sd"]


def test_tables_of_the_demo_keep_their_numbers_in_one_line_of_a_narrow_terminal(capsys):
    from fokker.demo import _console, logistic

    row = ["theta[19]", "-0.1779", "-0.1779 ± 0.0029", "-0.1779 ± 0.0029", "-10.1 sd"]
    _console.print_table(Console(width=80), "Posterior", logistic._COLUMNS, [row])
    printed = capsys.readouterr().out
    (line,) = (line for line in printed.splitlines() if "theta" in line)
    assert [cell.strip() for cell in line.strip("│").split("│")] == row
    assert "┓" in printed  # the frame is not cut off


def test_the_last_column_of_the_demo_recipe_is_there_in_a_narrow_terminal(capsys):
    from fokker.demo import _console, recipe

    cell = "-0.004 ± 1.023 (standard error 0.014)"
    rows = [["θ₁", "-0.933 ± 0.384", cell, cell]]
    _console.print_table(Console(width=80), "Posterior mean", recipe._COLUMNS, rows)
    printed = capsys.readouterr().out
    assert "Γ forgotten" in printed
    assert printed.count("-0.004 ± 1.023") == printed.count("0.014)") == 2


@pytest.mark.slow
def test_demo_of_a_network_prints_the_grade_of_its_report(fokker, tmp_path, monkeypatch):
    from fokker.demo import network

    quick = functools.partial(network.Network, passes=4, burn_in_passes=2, progress=False)
    monkeypatch.setattr(network, "Network", lambda *a, **k: quick(*a, **{**k, "draws": 8}))
    for name, value in {"MOONS": 60, "GLYPHS": 120, "HELD_OUT": 60}.items():
        monkeypatch.setattr(network, name, value)
    code, out, err = fokker("demo", "network", "--out", tmp_path)
    assert code == 0, err
    page = (tmp_path / "report.html").read_text()
    grade = "Use with care" if "Use with care" in page else "No problems found"
    assert re.search(rf"^{grade}[:.]$", out, re.M)


@pytest.mark.slow
def test_demo_of_logistic_regression(fokker, tmp_path, monkeypatch):
    """The main job on fewer rows and steps: table, verdict and report."""
    from fokker.demo import logistic

    for name, value in {"ROWS": 5_000, "COEFFICIENTS": 3, "STEPS": 1_500, "BURN_IN": 300}.items():
        monkeypatch.setattr(logistic, name, value)
    code, out, _ = fokker("demo", "--out", tmp_path)
    assert code == 0
    assert "kinetic temperature" in out
    page = (tmp_path / "report.html").read_text()
    assert page.count("<figure data-figure=") == 3  # the intervals, the temperature and the thermostat
    assert "Against truth and Laplace" in page
    # One name for a coefficient, in the demonstration's tables and in those of every run.
    assert page.count('<th scope="row">theta[2]') == 2
    assert "θ3" not in page + out


MODEL = """
import jax.numpy as jnp
import fokker as fk

def target():
    data = jnp.linspace(-1.0, 3.0, 100)
    return fk.Posterior(lambda theta: 0.0 * theta["m"], lambda theta, x: -((x - theta["m"]) ** 2) / 2, data)

init = {"m": 1.0}
steps = fk.samplers.sghmc(0.02, 10.0, integrator=fk.integrators.Splitting())
"""


@pytest.mark.slow
def test_sample_prints_the_posterior_and_writes_draws_and_report(fokker, tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    out = tmp_path / "out"
    given = ["--steps", 6000, "--burn-in", 200, "--thin", 3, "--sampler", "steps", "--out", out]
    code, printed, _ = fokker("sample", f"{path}:target", *given)
    assert code == 0
    assert "No problems found" in printed
    draws = fk.open(out).samples["m"]
    assert draws.shape == (4, 2000)
    assert abs(draws.mean() - 1.0) < 0.02
    assert abs(draws.std() - 0.1) < 0.01
    assert "No problems found" in (out / "report.html").read_text(encoding="utf-8")
    # Without the model no grade is better than this one, and the better report stays.
    assert "USE WITH CARE" in fokker("report", out)[1]
    assert "the model is not known here" in (out / "draws.html").read_text(encoding="utf-8")
    assert "No problems found" in (out / "report.html").read_text(encoding="utf-8")
    # It is complete: the same command takes no more steps. Another one is refused, or replaces it.
    assert fokker("sample", f"{path}:target", *given)[0] == 0
    given[1] = 6300
    assert fokker("resume", out, "--model", f"{path}:target", "--steps", 6300)[0] == 0
    assert fk.open(out).samples["m"].shape == (4, 2100)
    code, _, err = fokker("sample", f"{path}:target", *given, "--seed", 1)
    assert code == 2
    assert "seed is 1, and was 0" in err
    assert "--overwrite" in err
    given[1] = 600
    fokker("sample", f"{path}:target", *given, "--seed", 1, "--overwrite")
    assert fk.open(out).samples["m"].shape == (4, 200)


def test_sample_says_what_is_wrong_with_the_model(fokker, tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    for arguments, words in (
        (["--sampler", "sgdl"], "Did you mean 'sgld'"),
        (["--init", "start"], "no name 'start'"),
        (["--sampler", "sgld", "--step-size", -1.0], "positive"),
        (["--sampler", "sgld", "--batch-size", 1000, "--step-size", 0.01], "batch size"),
        (["--step-size", 0.01], "are for one sampler: name it, as in --sampler nuts"),
    ):
        code, _, err = fokker(
            "sample", f"{path}:target", "--steps", 10, "--out", tmp_path / "out", *arguments
        )
        assert code == 2
        assert words in err
    code, _, err = fokker("sample", f"{path}:init", "--steps", 10)
    assert code == 2
    assert "fk.Posterior is needed" in err


OPTIONS = {
    "batch_size": Flag("--batch-size", "…"),
    "columns": Flag("--columns", "NAME,…"),
    "decimal": Flag("--decimal", "CHAR"),
    "separator": Flag("--separator", "CHAR"),
    "overwrite": Flag("--overwrite", "…"),
    "state": Flag("--shape", "VARIABLE=SHAPE"),
    **{name: Flag(f"--{name}", "…", (str, NoneType)) for name in ("init", "data", "mesh")},
    "chains": Flag("--chains", "…", (int,)),
    "step_size": Flag("--step-size", "…", (float, NoneType)),
    "double": Flag("--double", "…", (bool,)),
}


@pytest.mark.parametrize(
    ("message", "translated"),
    [
        ("batch_size=100: too large.", "--batch-size 100: too large."),
        ("choose by columns=….", "choose by --columns NAME,…."),
        ("columns=['a', 'b'] are missing", "--columns a,b are missing"),
        ("give decimal=',' or separator=';'.", "give --decimal , or --separator ';'."),
        ("(overwrite=True)", "(--overwrite)"),
        ("separator=() is empty", "--separator '' is empty"),
        ("their shapes by state=…", "their shapes by --shape VARIABLE=SHAPE"),
        ("the user's chains=3, not the runs' chains=4", "the user's --chains 3, not the runs' --chains 4"),
        ("give mesh=chains=4,data=2.", "give --mesh chains=4,data=2."),
        # Without an option its value is found, or there is none.
        ("with step_size='auto'; or", "with no --step-size; or"),
        ('found: step_size="auto".', "found: no --step-size."),
        ("give data=None, double=False", "give no --data, no --double"),
        # Axes of a mesh are no options, and quotations are of somebody else.
        ("written as chains=4,data=2, or chains", "written as chains=4,data=2, or chains"),
        ("such as 'chains=4', “data=2”; not \"init=3\"", "such as 'chains=4', “data=2”; not \"init=3\""),
        # What cannot be written after an option.
        *(
            (message, message)
            for message in (
                "give data=lambda: batches; for columns",
                "(init=target.init)",
                "init=jnp.zeros(3) or init=zeros(3)",
                "give mesh={'chains': …} without the axis",
                "data=[x, y] and init=(a, b)",
                "step_size='large', chains=None, chains='auto', chains=True, double=3",
            )
        ),
        # Calls of Python, other arguments and other words stay.
        ("as in fk.sample(f(x), batch_size=100)", "as in fk.sample(f(x), batch_size=100)"),
        # A function is one of the model's file.
        ("as in init=lambda key: normal(key, shape).", "as in def init(key): return normal(key, shape)."),
        ("init=lambda key: …", "def init(key): return …"),
        # Names that are no words are those of options, except in paths, calls and names that are longer.
        ("Leave batch_size out, or more step_size.", "Leave --batch-size out, or more --step-size."),
        *(
            (message, message)
            for message in (
                "leave my_step_size, step_size_of, trace.step_size, a/step_size, step_size(3), 'step_size'",
                "give chains, data and the state",
            )
        ),
        ("rhat=1.2, my_columns=3, --batch-size=3", "rhat=1.2, my_columns=3, --batch-size=3"),
    ],
)
def test_errors_of_the_library_are_in_the_words_of_the_command(message, translated):
    assert in_flags(message, OPTIONS) == translated


def test_the_argument_that_a_message_is_about_is_named_as_an_option():
    flags = flags_of(lda.run)
    for text in (
        "topics must be a number",
        "topics is one of 1, 2",
        "topics is 3",
        "topics has more than one x",
    ):
        assert in_flags(text, flags) == f"--{text}"
    # Folders have such names.
    for text in (
        "topics has a run in it",
        "topics is in use by process 3",
        "the topics must be",
        "/topics is 3",
    ):
        assert in_flags(text, flags) == text


def test_a_command_names_its_own_options_and_what_they_offer():
    def command(
        batch_size: Annotated[int, typer.Option()],
        overwrite: Annotated[bool, typer.Option("--replace", metavar="X")],
    ):
        raise batch_size

    class OtherRunError(ValueError):
        pass

    for error, message in (
        (KeyError("batch_size=3"), "--batch-size 3"),
        (ValueError("seed=3"), "seed=3"),
        (OtherRunError("Taken."), "Taken. --replace replaces what is there."),
        (CommandError("--set batch_size=3"), "--set batch_size=3"),
        (OSError(2, "batch_size=3"), 2),
    ):
        with pytest.raises(type(error)) as caught:
            with_flags(command)(error, False)
        assert caught.value.args[0] == message
    assert flags_of(command) == {
        "batch_size": Flag("--batch-size", "…", (int,)),
        "overwrite": Flag("--replace", "X", (bool,)),
    }
    assert flags_of(sample)["step_size"].types == (float, NoneType)


def test_findings_and_notes_of_a_run_are_in_the_words_of_the_command():
    def command(burn_in: Annotated[int, typer.Option()]):
        none = np.zeros(0)
        findings = [Finding(Grade.CARE, f"give burn_in={burn_in}")]
        notes, checked = ["the first draws: give more burn_in"], "by burn_in=3"
        return _in_words(Summary([], *[none] * 6, findings=findings, notes=notes, checked=checked))

    summary = with_flags(command)(40)
    assert summary.warnings == ["give --burn-in 40"]
    assert summary.notes == ["the first draws: give more --burn-in"]
    assert summary.checked == "by --burn-in 3"


def test_every_command_is_translated():
    commands = [*cli.app.registered_commands]
    for group in cli.app.registered_groups:
        commands += group.typer_instance.registered_commands
    assert len(commands) > 10
    assert all(hasattr(command.callback, "__wrapped__") for command in commands)


def test_messages_that_are_no_errors_are_translated_while_a_command_runs():
    def command(key: Annotated[str, typer.Option(metavar="NAME")]):
        return translated("set key=…")

    assert translated("set key=…") == "set key=…"
    assert with_flags(command)("x") == "set --key NAME"
    assert translated("set key=…") == "set key=…"
