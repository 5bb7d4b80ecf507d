"""What `fokker sample`, `fokker resume` and `fokker report` share: signals, the report, the command."""

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from fokker._core.files import locked, write_text
from fokker.run.folder import open as open_run
from fokker.run.journal import JOURNAL, clear_journal
from fokker.run.processes import by_first, is_first
from fokker.run.store import CHECKPOINT, DESCRIPTION, DRAWS, PREVIOUS, has_run, read_checkpoint
from fokker.run.trace import Trace

COMMAND, REPORT = "command.json", "report.html"
# The report of the draws alone: not in place of one that has compared them with the target.
DRAWS_REPORT = "draws.html"
TERMINATED, INTERRUPTED = 128 + signal.SIGTERM, 128 + signal.SIGINT


class _Terminated(BaseException):
    """SIGTERM; with the trace of a run that has ended by it."""

    trace: Trace | None = None


def run_and_report(out: Path, run: Callable[[], Trace], title: str, console: Console) -> int:
    """Run, print and write the report, and return the exit code: 0, 1 for problems, or that of a signal.

    Of many processes the first alone prints and reports.
    """

    def terminate(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        trace, code = run(), None
        if trace.was_interrupted:
            code = INTERRUPTED
    except _Terminated as ended:
        if not has_run(out):
            console.print(_kept(out), markup=False, soft_wrap=True)
            return TERMINATED
        trace, code = ended.trace or open_run(out), TERMINATED
    except KeyboardInterrupt:
        console.print(_kept(out), markup=False, soft_wrap=True)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    if not is_first():
        return code or 0
    if not trace.has_results:
        console.print(f"there are no draws yet: {trace.stopped}", markup=False, soft_wrap=True)
        return 1 if code is None else code
    try:
        is_trusted = write_report_of(trace, out / REPORT, title, console)
    except (
        ValueError
    ) as error:  # too few draws for a summary, which is no mistake where a signal ended the run
        if code is None:
            raise
        console.print(f"no report yet: {error}", markup=False, soft_wrap=True)
    if code is not None:
        console.print(f"to go on: fokker resume {out}", markup=False)
        return code
    return 0 if is_trusted else 1


def _kept(out: Path) -> str:
    """What is on disk of a run that was ended at once."""
    if has_run(out):
        kept = "interrupted; the draws until the last checkpoint are kept."
    elif (out / JOURNAL).exists():
        kept = "ended before the first step; what was learnt in tuning or warm-up so far is kept."
    else:
        kept = "ended before the first step."
    return f"{kept} To go on: fokker resume {out}"


def write_report_of(trace: Trace, path: Path, title: str, console: Console) -> bool:
    """Print the summary of a run, write its report, and return whether it found no problems."""
    summary = trace.summary()
    console.print(str(summary), markup=False, soft_wrap=True)
    trace.report(path, title=title, summary=summary)
    console.print(f"wrote {path}; the draws are in {path.parent / DRAWS}", markup=False)
    return summary.trusted


def clear_run(folder: Path) -> None:
    """Remove the run in a folder; raise where another process is writing it."""
    by_first(lambda: _clear_run(folder))


def _clear_run(folder: Path) -> None:
    with locked(folder):
        for name in (CHECKPOINT, PREVIOUS, DESCRIPTION, COMMAND, REPORT, DRAWS_REPORT):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / DRAWS, ignore_errors=True)
        clear_journal(folder)


def write_command(folder: Path, options: dict[str, Any]) -> None:
    """Write down the options of `fokker sample`, with the whole path of the model.

    Not where there is a run: only `steps` may differ then, and `fk.sample` has yet to compare the others.
    """
    file, colon, name = options["source"].rpartition(":")
    source = f"{Path(file).resolve()}:{name}" if colon else str(Path(name).resolve())

    def write() -> None:
        with locked(folder):
            if not has_run(folder):
                write_text(folder / COMMAND, json.dumps({**options, "source": source}, indent=2) + "\n")

    by_first(write)


def read_command(folder: Path, model: str | None) -> dict[str, Any]:
    """The options of `fokker sample`; raise where executing the model's file was not asked for."""
    try:
        options = json.loads((folder / COMMAND).read_text())
        source = str(options["source"])
    except FileNotFoundError:
        raise ValueError(
            f"{folder} has no run of `fokker sample`; one of fk.sample(…, out=…) goes on by the same call."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder / COMMAND} is damaged ({error}): call `fokker sample` as before."
        ) from None
    if model is not None:
        return {**options, **_steps_of_run(folder), "source": model}
    # Resolved, as both "x/../" and a link can lead into the folder of the run.
    file = Path(source.rpartition(":")[0] or source).resolve()
    if folder.resolve() in file.parents or Path.cwd() not in file.parents:
        raise ValueError(
            f"the model of {folder} is {source}, which is not below the current folder, or is in that of the "
            "run: its file would be executed. If you trust it, give --model."
        )
    return {**options, **_steps_of_run(folder)}


def _steps_of_run(folder: Path) -> dict[str, Any]:
    """The steps of the run in a folder, which may have been made longer since the command was written."""
    return {"steps": read_checkpoint(folder).description["settings"]["steps"]} if has_run(folder) else {}
