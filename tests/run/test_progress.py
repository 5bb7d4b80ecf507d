"""The one progress display: a bar in a terminal, plain lines elsewhere, nothing where it is not wanted."""

import io
import time

import jax.numpy as jnp
import pytest
from rich.console import Console

import fokker as fk
from fokker.lab import experiments
from fokker.run import progress as module
from fokker.run.progress import Progress


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(module, "PLAIN_SECONDS", 0.02)


def test_elsewhere_than_in_a_terminal_it_is_plain_lines_on_standard_error(capsys, often):
    with Progress("sampling", 2000, unit="steps") as progress:
        progress.update(500)
        time.sleep(0.05)
        progress.update(1500, note="perplexity 12")
        time.sleep(0.05)
    printed = capsys.readouterr()
    assert printed.out == ""
    first, *_, last = printed.err.splitlines()
    assert first.startswith("sampling: 500/2,000 steps")
    assert last.startswith("sampling: 1,500/2,000 steps, ")
    assert "/s, 0:00:0" in last
    assert last.endswith(" left, perplexity 12")
    assert "\x1b" not in printed.err


def test_lines_come_without_updates_too(capsys, often):
    """As while a program compiles."""
    with Progress("warming up", 10, compiles=True) as progress:
        time.sleep(0.1)
        progress.update(3)
        time.sleep(0.1)
    printed = capsys.readouterr().err
    assert "compiling: 0/10 steps\n" in printed
    assert "warming up: 0/10" not in printed
    assert "warming up: 3/10 steps" in printed


@pytest.mark.parametrize(
    ("task", "after"),
    [
        (
            lambda target: fk.sample(target, "nuts", init=jnp.zeros(2), steps=4, chains=1, warm_up=4),
            "warming up",
        ),
        (lambda target: fk.sample(target, fk.samplers.ula(0.1), init=jnp.zeros(2), steps=4), "sampling"),
    ],
)
def test_a_run_is_compiling_until_its_first_steps_are_taken(monkeypatch, task, after):
    seen = []
    update = Progress.update

    def noted(self, *args, **changes):
        seen.append(self.line.partition(":")[0])
        update(self, *args, **changes)
        seen.append(self.line.partition(":")[0])

    monkeypatch.setattr(Progress, "update", noted)
    task(fk.Density(lambda theta: -jnp.sum(theta**2) / 2))
    assert seen[:2] == ["compiling", after]


def test_a_task_without_a_unit_shows_the_time_so_far(capsys, often):
    with Progress("reproducing errata", unit=None):
        time.sleep(0.1)
    assert "reproducing errata: 0:00:00 so far\n" in capsys.readouterr().err


def test_a_task_of_several_parts_shows_each(capsys, often):
    with Progress("learning", 10, unit="documents") as progress:
        progress.update(10, note="soon")
        time.sleep(0.05)
        progress.start_part("writing", 3, unit="files")
        progress.update(1)
        time.sleep(0.05)
        progress.start_part("looking", unit=None)
        time.sleep(0.05)
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("learning: 10/10 documents") for line in lines)
    assert any(line == "writing: 1/3 files" for line in lines)
    assert lines[-1] == "looking: 0:00:00 so far"


def test_a_short_task_prints_nothing(capsys):
    with Progress("sampling", 10) as progress:
        progress.update(10)
    assert capsys.readouterr() == ("", "")


def test_disabled_prints_nothing(capsys, often):
    with Progress("sampling", 10, enabled=False) as progress:
        progress.update(5)
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_in_a_terminal_it_is_a_bar_that_is_removed():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, highlight=False)
    with Progress("learning", None, unit="documents", console=console) as progress:
        progress.update(30, note="[3] apple [pear]")
        progress._bar.refresh()
        progress.print("a message [that] stays")
        progress.update(60, total=100, description="going on")
    shown = out.getvalue()
    assert "30 documents" in shown
    assert " 60 % 60/100 documents" in shown
    assert "[3] apple [pear]" in shown
    assert "a message [that] stays" in shown
    assert "going on" in shown
    # The last thing written erases the line of the bar.
    assert shown.endswith(("\x1b[2K", "\x1b[?25h"))


def test_lines_end_with_an_error(capsys, often):
    with pytest.raises(RuntimeError), Progress("sampling", 10):
        raise RuntimeError
    before = capsys.readouterr().err
    time.sleep(0.06)
    assert capsys.readouterr().err == ""
    assert before == ""


def test_a_line_has_the_speed_and_the_time_left(monkeypatch):
    now = [0.0]
    progress = Progress("sampling", 1000, completed=100, enabled=False)
    monkeypatch.setattr(progress._bar, "get_time", lambda: now[0])
    task = progress._bar.tasks[0]
    task._get_time = lambda: now[0]
    task.start_time = 0.0
    for completed in (200, 300, 400):
        now[0] += 2.0
        progress.update(completed)
    assert progress.line == "sampling: 400/1,000 steps, 50/s, 0:00:12 left"


def test_in_a_narrow_terminal_the_note_is_cut_off():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=None, width=80, highlight=False)
    with Progress("learning topics", 240_000, unit="documents", console=console) as progress:
        progress.update(108_100, note="47,450 words/s  perplexity 4  [2] flute cello violin apple plum pear")
    (shown,) = {line for line in out.getvalue().splitlines() if "108,100" in line}
    assert "learning topics" in shown
    assert " 108,100/240,000 documents -:--:-- 47,4" in shown
    assert "…" in shown


@pytest.fixture
def terminal(monkeypatch):
    """What is written to a terminal, in place of standard error."""
    out = io.StringIO()
    monkeypatch.setattr(
        module, "Console", lambda **_: Console(file=out, force_terminal=True, width=120, highlight=False)
    )
    return out


def test_a_bar_within_another_takes_its_place_and_gives_it_back(terminal):
    with Progress("outside", unit=None) as outside:
        with Progress("inside", 10) as inside:
            assert not outside._bar.live.is_started
            assert inside._bar.live.is_started
            with Progress("silent", 10, enabled=False):
                assert inside._bar.live.is_started
        assert outside._bar.live.is_started
        assert not inside._bar.live.is_started
    assert not outside._bar.live.is_started
    assert module._shown == []
    assert "outside" in terminal.getvalue()
    assert "inside" in terminal.getvalue()


def test_an_experiment_shows_in_a_terminal_that_it_runs(terminal, monkeypatch, tmp_path):
    def run(out, quick, seeds):
        assert "reproducing errata" in terminal.getvalue()
        return experiments.Result("errata", [experiments.Claim("one", True)])

    stub = experiments.Experiment(run, "a stub")
    monkeypatch.setitem(experiments.EXPERIMENTS, "errata", stub)
    assert experiments.reproduce("errata", tmp_path).holds
