"""Run and report, with what signals, an earlier run in the folder and many processes ask for."""

import contextlib
import json
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from fokker._core.files import check_no_links, interpreting, read_json, write_text
from fokker._core.lock import locked
from fokker.cli.console import console, show
from fokker.cli.flags import translated
from fokker.cli.stored import COMMAND, DRAWS_REPORT, REPORT, VERDICT
from fokker.diagnostics import Summary
from fokker.run.api import open as open_run
from fokker.run.interruption import ENDING, can_be_handled, leave_closed_terminal
from fokker.run.journal import JOURNAL
from fokker.run.processes import by_first, is_first
from fokker.run.store import CHECKPOINT, DESCRIPTION, PREVIOUS, has_run, read_checkpoint
from fokker.run.trace import Trace
from fokker.run.variable import DRAWS

# Where a run is until the one that replaces it has begun.
_REPLACED = "replaced"
INTERRUPTED = 128 + signal.SIGINT


class _Terminated(BaseException):
    """SIGTERM or SIGHUP, by its number; with the trace of a run that has ended by it."""

    trace: Trace | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of the process."""
        return 128 + int(self.args[0])


def run_and_report(out: Path, run: Callable[[], Trace], title: str, quantiles: Sequence[float]) -> int:
    """Run, print and write the report, and return the exit code: 0, 1 for problems, or that of a signal.

    Of many processes the first alone prints and reports.
    """

    def terminate(number: int, frame: FrameType | None) -> None:
        leave_closed_terminal(number)
        raise _Terminated(number)

    before = {number: signal.signal(number, terminate) for number in ENDING if can_be_handled(number)}
    try:
        trace, code = run(), None
        if trace.was_interrupted:
            code = INTERRUPTED
    except _Terminated as ended:
        if not has_run(out):
            show(_what_is_left(out))
            return ended.exit_code
        trace, code = ended.trace or open_run(out), ended.exit_code
    except KeyboardInterrupt:
        show(_what_is_left(out))
        return INTERRUPTED
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    def reported() -> int:
        if not trace.has_results:
            show(f"there are no draws yet: {trace.stopped}")
            return 1 if code is None else code
        if code is not None:  # of many draws it takes a while
            show("the draws are kept; writing the report, which another Ctrl-C leaves out")
        try:
            # Held, as by the run itself: nobody continues a run whose report is being written.
            with locked(out, "writing the report"):
                is_trusted = write_report_of(trace, out / REPORT, title, quantiles)
        except (
            ValueError
        ) as error:  # too few draws for a summary, which is no mistake where a signal ended the run
            if code is None:
                raise
            show(f"no report yet: {error}")
        if code is not None:
            show(_how_to_continue(out))
            return code
        return 0 if is_trusted else 1

    if code is None:
        return by_first(reported)  # whether there are problems is the exit code of all processes
    return reported() if is_first() else code


def _what_is_left(out: Path) -> str:
    """What is on disk of a run that was ended at once."""
    if has_run(out):
        state = "interrupted; the draws up to the last checkpoint are kept."
    elif (out / JOURNAL).exists():
        state = "ended before the first step; what was learned in tuning or warm-up so far is kept."
    else:
        state = "ended before the first step."
    return f"{state} {_how_to_continue(out)}"


def _how_to_continue(out: Path) -> str:
    return f"Run the same command again, or `fokker resume {out}`, to continue."


def write_report_of(trace: Trace, path: Path, title: str, quantiles: Sequence[float]) -> bool:
    """Write the report of a run, print its summary, and return whether it found no problems."""
    summary = _in_words(trace.summary(quantiles=quantiles))
    trace.report(path, title=title, summary=summary)
    if path.name == REPORT:
        verdict = {
            "grade": str(summary.grade),
            "is_trusted": summary.trusted,
            "findings": summary.warnings,
            "taken": trace.settings["taken"],
        }
        write_text(path.with_name(VERDICT), json.dumps(verdict, indent=2, ensure_ascii=False) + "\n")
    show(summary.text(console.width))
    show(f"wrote {path}; the draws are in {path.parent / DRAWS}")
    return summary.trusted


def _in_words(summary: Summary) -> Summary:
    """A summary whose findings and notes name the options of the command that runs."""
    findings = [replace(finding, text=translated(finding.text)) for finding in summary.findings]
    notes = [translated(note) for note in summary.notes]
    return replace(summary, findings=findings, notes=notes, checked=translated(summary.checked))


def doubts_about(folder: Path) -> str | None:
    """Why the draws of a run may not be used as they are, or None; by the verdict of its last report."""
    try:
        verdict = read_json(folder / VERDICT)
        with interpreting(folder / VERDICT, "verdict"):
            findings = "; ".join(verdict["findings"][:2])
            opinion = f"the verdict on this run is “{verdict['grade']}”: {findings}"
            verdict = {name: verdict[name] for name in ("taken", "is_trusted")}
    except (FileNotFoundError, ValueError):
        return "this run has no verdict yet: it is running, or `fokker resume` continues it"
    if verdict["taken"] != read_checkpoint(folder).description["taken"]:
        return f"this run has continued since its last report, when {opinion}"
    return None if verdict["is_trusted"] else f"{opinion} (all in {folder / REPORT})"


@contextlib.contextmanager
def replacing_run(folder: Path) -> Iterator[None]:
    """Put the run in a folder aside for a new one; it comes back if an error ends that before its first step.

    Raises where another process is writing the old one.
    """
    aside = folder / _REPLACED
    names = (CHECKPOINT, PREVIOUS, DESCRIPTION, COMMAND, REPORT, VERDICT, DRAWS_REPORT, DRAWS, JOURNAL)

    def put_aside() -> None:
        with locked(folder):
            check_no_links(aside)
            # A process that was killed here has left the run aside, and no other one.
            is_aside = aside.exists() and not has_run(folder)
            if not is_aside:
                shutil.rmtree(aside, ignore_errors=True)
            _move(names, folder, None if is_aside else aside)

    def put_back() -> None:
        with locked(folder):
            _move(names, folder, None)
            _move(names, aside, folder)

    by_first(put_aside)
    try:
        yield
    except BaseException:
        if is_first() and not has_run(folder):
            put_back()
        raise
    finally:
        if is_first():
            shutil.rmtree(aside, ignore_errors=True)


def _move(names: Sequence[str], source: Path, goal: Path | None) -> None:
    """Move files and folders that exist to another folder, or remove them."""
    for path in (source / name for name in names):
        if goal is not None and (path.exists() or path.is_symlink()):
            goal.mkdir(exist_ok=True)
            path.rename(goal / path.name)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
