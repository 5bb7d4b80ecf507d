"""What `fokker sample`, `fokker resume` and `fokker report` share: signals, the report, the command."""

import contextlib
import json
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from fokker._core.files import check_no_links, interpreting, read_json, write_text
from fokker._core.lock import locked
from fokker.run.api import open as open_run
from fokker.run.interruption import ENDING, can_be_handled, leave_closed_terminal
from fokker.run.journal import JOURNAL
from fokker.run.model import split_source
from fokker.run.processes import by_first, is_first
from fokker.run.store import CHECKPOINT, DESCRIPTION, PREVIOUS, has_run, read_checkpoint
from fokker.run.trace import Trace
from fokker.run.variable import DRAWS

COMMAND, REPORT, VERDICT = "command.json", "report.html", "verdict.json"
# The report of the draws alone: not in place of one that has compared them with the target.
DRAWS_REPORT = "draws.html"
# Options of `fokker sample` that say what is sampled and shown; the others are those of `fk.sample`.
MODEL_OPTIONS = (
    *(
        "source",
        "data",
        "columns",
        "categories",
        "dates",
        "text",
        "settings",
        "sampler",
        "step_size",
        "quantiles",
    ),
    *("start", "gradient", "mode"),
)
# Where a run is until the one that replaces it has begun.
_REPLACED = "replaced"
_OPTION_TYPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("source", "sampler", "init", "start", "gradient", "quantiles"), str),
    **dict.fromkeys(("steps", "burn_in", "warm_up", "thin", "chains", "batch_size", "seed"), int),
    **dict.fromkeys(("data", "columns", "mode"), list),
    **dict.fromkeys(("categories", "settings"), dict),
    "step_size": (int, float, str),
    "temperature": (int, float),
}
INTERRUPTED = 128 + signal.SIGINT


class _Terminated(BaseException):
    """SIGTERM or SIGHUP, by its number; with the trace of a run that has ended by it."""

    trace: Trace | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of the process."""
        return 128 + int(self.args[0])


def run_and_report(
    out: Path, run: Callable[[], Trace], title: str, console: Console, quantiles: Sequence[float]
) -> int:
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
            console.print(_kept(out), markup=False, soft_wrap=True)
            return ended.exit_code
        trace, code = ended.trace or open_run(out), ended.exit_code
    except KeyboardInterrupt:
        console.print(_kept(out), markup=False, soft_wrap=True)
        return INTERRUPTED
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    def reported() -> int:
        if not trace.has_results:
            console.print(f"there are no draws yet: {trace.stopped}", markup=False, soft_wrap=True)
            return 1 if code is None else code
        try:
            is_trusted = write_report_of(trace, out / REPORT, title, console, quantiles)
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

    if code is None:
        return by_first(reported)  # whether there are problems is the exit code of all processes
    return reported() if is_first() else code


def _kept(out: Path) -> str:
    """What is on disk of a run that was ended at once."""
    if has_run(out):
        kept = "interrupted; the draws until the last checkpoint are kept."
    elif (out / JOURNAL).exists():
        kept = "ended before the first step; what was learned in tuning or warm-up so far is kept."
    else:
        kept = "ended before the first step."
    return f"{kept} To go on: fokker resume {out}"


def write_report_of(
    trace: Trace, path: Path, title: str, console: Console, quantiles: Sequence[float]
) -> bool:
    """Print the summary of a run, write its report, and return whether it found no problems."""
    summary = trace.summary(quantiles=quantiles)
    console.print(str(summary), markup=False, soft_wrap=True)
    trace.report(path, title=title, summary=summary)
    if path.name == REPORT:
        verdict = {
            "grade": str(summary.grade),
            "is_trusted": summary.trusted,
            "findings": summary.warnings,
            "taken": trace.settings["taken"],
        }
        write_text(path.with_name(VERDICT), json.dumps(verdict, indent=2, ensure_ascii=False) + "\n")
    console.print(f"wrote {path}; the draws are in {path.parent / DRAWS}", markup=False)
    return summary.trusted


def doubts_about(folder: Path) -> str | None:
    """Why the draws of a run may not be used as they are, or None; by the verdict of its last report."""
    try:
        verdict = read_json(folder / VERDICT)
        with interpreting(folder / VERDICT, "verdict"):
            findings = "; ".join(verdict["findings"][:2])
            found = f"the verdict on this run is “{verdict['grade']}”: {findings}"
            verdict = {name: verdict[name] for name in ("taken", "is_trusted")}
    except (FileNotFoundError, ValueError):
        return "this run has no verdict yet: it is running, or `fokker resume` goes on with it"
    if verdict["taken"] != read_checkpoint(folder).description["taken"]:
        return f"this run has gone on since its last report, when {found}"
    return None if verdict["is_trusted"] else f"{found} (all in {folder / REPORT})"


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


@contextlib.contextmanager
def written_command(folder: Path, options: dict[str, Any]) -> Iterator[None]:
    """Write the command of a run for its time; a call that a warm-up in the folder refuses leaves none.

    `fokker resume` would otherwise find the command of another call beside what the warm-up has learned.
    """
    has_warm_up = not has_run(folder) and (folder / JOURNAL).exists() and (folder / COMMAND).is_file()
    before = read_json(folder / COMMAND) if has_warm_up else None
    write_command(folder, options)
    try:
        yield
    except Exception:
        if before is not None and is_first() and not has_run(folder):
            _write_options(folder, before)
        raise


def write_command(folder: Path, options: dict[str, Any]) -> None:
    """Write down the options of `fokker sample`, with the whole paths of the model and of the data.

    Not where there is a run: only `steps` may differ then. Settings are compared here, by name; `fk.sample`
    has yet to compare the others.
    """
    file, name = split_source(options["source"])
    source = str(file.resolve()) if name is None else f"{file.resolve()}:{name}"
    data = [_resolved(text) for text in options.get("data", [])]

    def write() -> None:
        with locked(folder):
            if not has_run(folder):
                written = {**options, "source": source, "data": data}
                _write_options(folder, written)
            else:
                check_same_settings(folder, options.get("settings", {}))

    by_first(write)


def _write_options(folder: Path, options: Mapping[str, Any]) -> None:
    write_text(folder / COMMAND, json.dumps(options, indent=2, ensure_ascii=False) + "\n")


def check_same_settings(folder: Path, now: Mapping[str, Any]) -> None:
    """Raise where the run in a folder has other settings of the model or of the sampler."""
    if not (folder / COMMAND).is_file():
        return
    before = _read_options(folder).get("settings", {})
    changed = [
        f"{name} of the {table} is {values.get(name, 'not set')}, and was {earlier.get(name, 'not set')}"
        for table in now
        for values, earlier in [(now[table], before.get(table, {}))]
        for name in {**earlier, **values}
        if not _is_same(values.get(name), earlier.get(name))
    ]
    if changed:
        raise ValueError(
            f"{folder} has another run in it: {'; '.join(changed)}. Give the same --set to go on with it, "
            "another folder, or --overwrite."
        )


def _is_same(now: Any, before: Any) -> bool:
    """Whether two values of JSON are equal; as texts, because NaN does not equal itself."""
    return bool(now == before) or json.dumps(now) == json.dumps(before)


def _resolved(text: str) -> str:
    """FILE or NAME=FILE with the whole path of the file."""
    name, equals, path = text.partition("=")
    if equals and name.isidentifier() and not Path(text).exists():
        return f"{name}={Path(path).resolve()}"
    return str(Path(text).resolve())


def read_command(folder: Path, model: str | None, data: Sequence[str] | None = None) -> dict[str, Any]:
    """The options of `fokker sample`; raise where executing the model's file was not asked for.

    `model` and `data` are used in place of those of the run, where given.
    """
    try:
        options = _read_options(folder)
    except FileNotFoundError:
        raise ValueError(
            f"{folder} has no run of `fokker sample`; one of fk.sample(…, out=…) goes on by the same call."
        ) from None
    except ValueError as error:
        raise ValueError(
            f"{folder / COMMAND} is damaged ({error}): call `fokker sample` as before."
        ) from None
    source = options["source"]
    # Resolved, as both "x/../" and a link can lead into the folder of the run.
    file = split_source(source)[0].resolve()
    if model is None and (folder.resolve() in file.parents or Path.cwd() not in file.parents):
        raise ValueError(
            f"the model of {folder} is {source}, which is not below the current folder, or is in that of the "
            "run: its file would be executed. If you trust it, give --model."
        )
    if data is None:
        _check_data(folder, options.get("data", []))
    given = {"source": model, "data": None if data is None else list(data)}
    options |= {name: value for name, value in given.items() if value is not None}
    return {**options, **_steps_of_run(folder)}


def _read_options(folder: Path) -> dict[str, Any]:
    """The options that were written down; raise where one is not of the type that it has."""
    options = read_json(folder / COMMAND)
    with interpreting(folder / COMMAND, "command"):
        if "source" not in options:
            raise ValueError("it names no model")
        for name, types in _OPTION_TYPES.items():
            value = options.get(name)
            if value is not None and (not isinstance(value, types) or isinstance(value, bool)):
                raise TypeError(f"{name} is {str(value)[:40]}")
        texts = [*(options.get("data") or []), *(options.get("columns") or [])]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("data and columns are texts")
        if not all(isinstance(table, dict) for table in options.get("settings", {}).values()):
            raise TypeError("settings are tables of names")
    return options


def option_of_run(folder: Path, name: str) -> Any:
    """An option of the command of the run in a folder; None where there is no run, or no such option."""
    try:
        return _read_options(folder).get(name)
    except (FileNotFoundError, ValueError):
        return None


def _check_data(folder: Path, files: Sequence[str]) -> None:
    for text in files:
        path = Path(text if Path(text).exists() else text.rpartition("=")[2])
        if not path.exists():
            raise ValueError(
                f"the data of {folder} were in {path}, which is not there now: give --data FILE."
            )


def _steps_of_run(folder: Path) -> dict[str, Any]:
    """The steps of the run in a folder, which may have been made longer since the command was written."""
    return {"steps": read_checkpoint(folder).description["settings"]["steps"]} if has_run(folder) else {}
