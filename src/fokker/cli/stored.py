"""The command of a run, stored in its folder: written by `fokker sample`, read by `resume` and `predict`."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fokker._core.files import interpreting, read_json, write_text
from fokker._core.lock import locked
from fokker.cli.flags import CommandError
from fokker.cli.model_file import split_source
from fokker.run.journal import JOURNAL
from fokker.run.processes import by_first, is_first
from fokker.run.store import has_run, read_checkpoint

COMMAND, REPORT, VERDICT = "command.json", "report.html", "verdict.json"
# The report of the draws alone: not in place of one that has compared them with the target.
DRAWS_REPORT = "draws.html"
# Options of `fokker sample` that say what is sampled and shown; the others are those of `fk.sample`.
MODEL_OPTIONS = (
    *("source", "data", "columns", "categories", "dates", "text", "settings", "sampler", "step_size"),
    *("quantiles", "start", "gradient", "mode"),
)
_OPTION_TYPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("source", "sampler", "init", "start", "gradient", "quantiles"), str),
    **dict.fromkeys(
        ("steps", "burn_in", "warm_up", "thin", "chains", "batch_size", "batch_repeats", "seed"), int
    ),
    **dict.fromkeys(("data", "columns", "mode"), list),
    **dict.fromkeys(("categories", "settings"), dict),
    "step_size": (int, float, str),
    "temperature": (int, float),
}


@contextlib.contextmanager
def written_command(folder: Path, options: dict[str, Any]) -> Iterator[None]:
    """Write the command of a run for its time; a call that fails before its first step leaves none.

    `fokker resume` would otherwise find the command of another call beside what a warm-up has learned.
    """
    has_warm_up = not has_run(folder) and (folder / JOURNAL).exists() and (folder / COMMAND).is_file()
    before = read_json(folder / COMMAND) if has_warm_up else None
    write_command(folder, options)
    try:
        yield
    except Exception as error:
        if is_first() and not has_run(folder):
            if before is not None:
                _write_options(folder, before)
            elif not (folder / JOURNAL).exists() and not isinstance(error, BlockingIOError):
                (folder / COMMAND).unlink(missing_ok=True)  # of a run that could not begin
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
        raise CommandError(
            f"{folder} has another run in it: {'; '.join(changed)}. Give the same --set to continue it, "
            "another folder, or --overwrite."
        )


def _is_same(now: object, before: object) -> bool:
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
        if not folder.exists():
            raise CommandError(
                f"there is no folder {folder}: give that of a run of `fokker sample`."
            ) from None
        raise CommandError(
            f"{folder} has no run of `fokker sample`. A run of a Python program continues when that program "
            "is started again."
        ) from None
    except ValueError as error:
        raise CommandError(
            f"{folder / COMMAND} is damaged ({error}): call `fokker sample` as before."
        ) from None
    source = options["source"]
    # Resolved, as both "x/../" and a link can lead into the folder of the run.
    file = split_source(source)[0].resolve()
    if model is None and (folder.resolve() in file.parents or Path.cwd() not in file.parents):
        raise CommandError(
            f"the model of {folder} is {source}, which is not below the current folder, or is in that of the "
            "run: its file would be executed. If you trust it, give --model."
        )
    if data is None:
        _check_data(folder, options.get("data", []))
    replacements = {"source": model, "data": None if data is None else list(data)}
    options |= {name: value for name, value in replacements.items() if value is not None}
    return {**options, **_steps_of_run(folder)}


def _read_options(folder: Path) -> dict[str, Any]:
    """The options that were written down; raise where one is not of the type that it has."""
    options = read_json(folder / COMMAND)
    with interpreting(folder / COMMAND, "command"):
        if "source" not in options:
            raise CommandError("it names no model")
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
            raise CommandError(
                f"the data of {folder} were in {path}, which is not there now: give --data FILE."
            )


def _steps_of_run(folder: Path) -> dict[str, Any]:
    """The steps of the run in a folder, which may have been made longer since the command was written.

    And those of burn-in, which `--sampler auto` may have chosen.
    """
    settings = read_checkpoint(folder).description["settings"] if has_run(folder) else {}
    return {name: settings[name] for name in ("steps", "burn_in") if name in settings}


def has_all_steps(folder: Path, options: Mapping[str, Any]) -> bool:
    """Whether the run in a folder has as many steps as these options ask for."""
    if not has_run(folder):
        return False
    description = read_checkpoint(folder).description
    return bool(description["taken"] == options["steps"] + description["settings"]["burn_in"])
